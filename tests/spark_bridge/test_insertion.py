"""Streams of updates to saved materialisations: after each one, what an engine derives from all facts."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuengine.engine import Engine
from gpuengine.spark_bridge import SavedMaterialisation, materialise
from gpuengine.spark_bridge import open as open_saved
from tests.spark_bridge.test_materialise import ONLY, engine_of, facts_of, frames_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Facts = dict[str, set[tuple[Any, ...]]]

LAYERS = """
.decl edge(a: symbol, b: symbol)
.decl start(a: symbol)
.decl reached(a: symbol)
.decl path(a: symbol, b: symbol)
.decl unreached(a: symbol)
.decl degree(a: symbol, n: number)
.decl busy(a: symbol)
.decl any_path()
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
reached(x) :- start(x).
reached(y) :- reached(x), edge(x, y).
reached("always").
unreached(x) :- edge(x, _), !reached(x).
degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
busy(x) :- degree(x, n), n > 1, reached(x).
any_path() :- path(x, x).
"""
MUTUAL = """
.decl edge(a: number, b: number)
.decl odd(a: number, b: number)
.decl even(a: number, b: number)
.decl both(a: number, b: number)
.decl halt()
.decl going(a: number)
odd(x, y) :- edge(x, y).
even(x, z) :- odd(x, y), edge(y, z).
odd(x, z) :- even(x, y), edge(y, z).
both(x, y) :- odd(x, y), even(x, y).
both(y, x) :- both(x, y), x < y.
going(x) :- edge(x, _), !halt().
"""
SHARED = """
.decl broader(a: symbol, b: symbol)
.decl narrower(a: symbol, b: symbol)
.decl same(a: symbol, b: symbol) eqrel
.decl kind(a: symbol, f: float, u: unsigned)
.decl top(a: symbol, b: symbol, f: float)
.decl lowest(u: unsigned)
broader(x, y) :- narrower(y, x).
narrower(x, y) :- broader(y, x).
broader(x, z) :- broader(x, y), broader(y, z).
broader(x, z) :- same(x, y), broader(y, z).
same(x, y) :- kind(x, f, _), kind(y, f, _).
top(x, y, f) :- narrower(x, y), kind(y, f, _).
lowest(u) :- u = min v : { kind(_, _, v) }.
"""
TEXTS = """
.decl word(t: symbol)
.decl link(a: symbol, b: number)
.decl long(t: symbol, n: number)
.decl doubled(t: symbol)
.decl chain(n: number)
long(t, strlen(t)) :- word(t), strlen(t) > 1.
doubled(cat(t, t)) :- word(t), link(t, _).
chain(n) :- link(_, n).
chain(n + 1) :- chain(n), long(_, n), n < 9.
"""
names = [f"n{i}" for i in range(9)]
VALUES = {
    "symbol": [*names, "", "ü 'q'", "always"],
    "number": list(range(8)),
    "float": [0.5, -0.0, 2.5],
    "unsigned": [0, 2**63 + 5, 2**64 - 1, 7],
}
EXTENDED = {"path", "reached", "odd", "even", "both", "broader", "same", "top", "long", "doubled", "chain"}
"""What reads nothing that may lose facts: only extended by an insertion."""

AGGREGATES = {"degree", "lowest"}
"""What is evaluated anew if it is touched."""


def draw(source: random.Random, engine: Engine, relation: str, count: int) -> set[tuple[Any, ...]]:
    spaces = [attribute.type.space for attribute in engine.relations[relation].attributes]
    return {tuple(source.choice(VALUES[space]) for space in spaces) for _ in range(count)}


def expected(program: str, facts: Mapping[str, Any]) -> dict[str, list[str]]:
    engine = engine_of(program, {name: sorted(rows) for name, rows in facts.items()})
    return {name: facts_of(engine, name) for name in engine.relations}


def found(saved: SavedMaterialisation) -> dict[str, list[str]]:
    with ThreadPoolExecutor(3) as pool:
        return dict(zip(saved, pool.map(lambda name: rows_of(saved[name]), saved), strict=True))


def ids(spark: SparkSession, path: str) -> dict[str, int]:
    dictionaries = json.loads(Path(path, "saved.json").read_text())["dictionaries"]
    if "symbol" not in dictionaries:
        return {}
    return {
        row["term"]: row["id"] for row in spark.read.parquet(f"{path}/{dictionaries['symbol']}").collect()
    }


@pytest.mark.parametrize(
    ("program", "where", "method", "stream"),
    [
        (LAYERS, "cluster", "rounds", [{"edge": 6, "start": 1}, {"edge": 5, "path": 2, "start": 2}]),
        (MUTUAL, "driver", "rounds", [{"edge": 5}, {"edge": 4, "even": 2}, {"halt": 1, "both": 3}]),
        (SHARED, "cluster", "rounds", [{"broader": 3, "kind": 3}, {"narrower": 3, "same": 2}]),
        (SHARED, "driver", "driver", [{"narrower": 4}, {"kind": 4, "broader": 2}]),
        (LAYERS, "driver", "driver", [{"edge": 6, "start": 1}, {"edge": 5, "path": 2, "start": 2}]),
        (TEXTS, "executor", "rounds", [{"word": 4, "link": 3}, {"link": 3, "word": 3, "long": 2}]),
    ],
    ids=["layers", "mutual", "shared", "shared-driver", "layers-driver", "texts"],
)
def test_a_stream_of_updates(
    spark: SparkSession, tmp_path: Path, program: str, where: str, method: str, stream: list[dict[str, int]]
) -> None:
    source = random.Random(f"{program}{where}")
    declared, path = Engine(program), str(tmp_path / "saved")
    facts: Facts = {name: draw(source, declared, name, count) for name, count in stream[0].items()}
    with materialise(spark, program, frames_of(spark, declared, _listed(facts)), where=where) as results:
        results.save(path)
    assert found(open_saved(spark, path)) == expected(program, facts)
    for step in stream[1:]:
        saved, known = open_saved(spark, path), ids(spark, path)
        earlier = expected(program, facts)
        new = {name: draw(source, declared, name, count) for name, count in step.items()}
        gained = saved.insert(frames_of(spark, declared, _listed(new)), limits=ONLY[method])
        for name, rows in new.items():
            facts.setdefault(name, set()).update(rows)
        after = expected(program, facts)
        assert found(saved) == after
        assert saved.counts == {name: len(rows) for name, rows in after.items()}
        changes = {name: len(rows) - len(earlier[name]) for name, rows in after.items()}
        assert gained == {name: change for name, change in changes.items() if change}
        assert saved.report is not None
        assert saved.report.where == ("driver" if method == "driver" else "cluster")
        for stratum in saved.report.strata:
            if set(stratum.relations) & (EXTENDED | AGGREGATES):
                assert (stratum.method == "extended") == (set(stratum.relations) <= EXTENDED), stratum
        assert known.items() <= ids(spark, path).items()
    saved = open_saved(spark, path)
    gone = {name: set(source.sample(sorted(rows), min(2, len(rows)))) for name, rows in facts.items()}
    saved.delete(frames_of(spark, declared, _listed(gone)), limits=ONLY[method])
    assert found(saved) == expected(program, {name: facts[name] - gone[name] for name in facts})


def _listed(facts: Mapping[str, set[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(rows) for name, rows in facts.items()}
