"""Frames into an engine: what the engine has is what it would have read itself."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuengine import Engine
from gpuengine.errors import DataError, GpuEngineError
from gpuengine.spark_bridge import frames
from gpuengine.spark_bridge.materialisation import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REACH = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
TYPED = """
.type Pair = [a: number, b: symbol]
.decl r(n: number, u: unsigned, f: float, s: symbol, p: Pair)
"""


@pytest.mark.parametrize("packed", [False, True])
def test_an_engine_has_the_facts_of_a_frame(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    if packed:
        monkeypatch.setattr(frames, "COLLECTED_BYTES", -1)
    pick = random.Random(packed)
    edges = [(pick.randrange(30), pick.randrange(30)) for _ in range(60)]
    frame = spark.createDataFrame(edges + edges, "y bigint, x int").repartition(3)
    kb = ingest(spark, REACH, {"edge": frame})
    expected = Engine(REACH)
    expected.load("edge", [(x, y) for y, x in edges])
    expected.materialise()
    for name in ("edge", "path"):
        assert Counter(kb[name].to_pylist()) == Counter(expected[name].to_pylist())


def test_values_of_every_type_arrive(spark: SparkSession) -> None:
    rows = [
        (-(2**63), Decimal(2**64 - 1), math.inf, "é", '[1, "x"]'),
        (5, Decimal(0), -0.5, "", "nil"),
        (6, Decimal(2**63), 1e-300, "a\tb", '[2, ""]'),
    ]
    frame = spark.createDataFrame(rows, "n bigint, u decimal(20,0), f double, s string, p string")
    kb = ingest(spark, TYPED, {"r": frame})
    direct = Engine(TYPED)
    direct.load("r", [(n, int(u), f, s, p) for n, u, f, s, p in rows])
    assert Counter(kb["r"].to_pylist()) == Counter(direct["r"].to_pylist())
    back = kb["r"].to_spark(spark)
    assert Counter(map(tuple, back.collect())) == Counter(tuple(row) for row in ingest_again(spark, back))


def ingest_again(spark: SparkSession, frame: object) -> list[object]:
    kb = ingest(spark, TYPED, {"r": frame})  # type: ignore[dict-item]
    return list(kb["r"].to_spark(spark).collect())


def test_relations_without_columns_and_without_rows(spark: SparkSession) -> None:
    program = ".decl yes() .decl no() .decl e(x: number)"
    any_rows, no_rows = spark.range(5), spark.range(0)
    kb = ingest(spark, program, {"yes": any_rows, "no": no_rows, "e": no_rows})
    assert [len(kb[name]) for name in ("yes", "no", "e")] == [1, 0, 0]


def test_datasets_are_given_by_path(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "edge.csv").write_text("1,2\n2,3\n")
    kb = ingest(spark, REACH, {"edge": f"{tmp_path}/edge.csv"}, materialise=False)
    assert Counter(kb.materialise(wanted=["path"])["path"].to_pylist()) == Counter([(1, 2), (2, 3), (1, 3)])


def test_many_rows_are_inserted_in_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    module = importlib.import_module("gpuengine.spark_bridge.materialisation")
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(frames, "COLLECTED_BYTES", -1)
    monkeypatch.setattr(frames, "MESSAGE_BYTES", 1)
    frame = spark.range(0, 2000, 1, 4).selectExpr("id % 700 AS x", "id % 7 AS y")
    kb = ingest(spark, REACH, {"edge": frame}, materialise=False)
    assert len(kb.loaded["edge"]) == 700


def test_what_does_not_fit_is_refused(spark: SparkSession) -> None:
    nulls = spark.createDataFrame([(1, None), (1, 2)], "x bigint, y bigint")
    with pytest.raises(DataError, match="1 null"):
        ingest(spark, REACH, {"edge": nulls})
    assert len(ingest(spark, REACH, {"edge": nulls}, nulls="drop")["edge"]) == 1
    with pytest.raises(GpuEngineError, match="did you mean 'edge'"):
        ingest(spark, REACH, {"edgee": nulls})
    bad = spark.createDataFrame(
        [(1, Decimal(1), 1.0, "x", "[1")], "n bigint, u decimal(20,0), f double, s string, p string"
    )
    with pytest.raises(DataError, match="r: "):
        ingest(spark, TYPED, {"r": bad})
