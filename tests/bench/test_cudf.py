"""The cuDF peer's algorithm, with pandas in place of cuDF: it offers the same functions."""

from __future__ import annotations

from pathlib import Path

import pandas
import pytest

from bench import contenders, generate
from bench.catalogue import PROGRAMS
from bench.contenders import PEERS, choose_peers, present
from bench.peers import cudf
from bench.peers.protocol import NotApplicable, Task
from bench.prepare import Prepared
from bench.rules import parse_rules, read_rules
from gpuengine.engine import Engine


def test_closure(tiny: Prepared) -> None:
    answer = cudf.run(pandas, Task(read_rules(tiny.program), tiny.facts, 1, ""))
    assert answer.relations == {"path": 10}
    # Seeded by the edges, then paths of two and of three edges, and a round that finds nothing.
    assert answer.rounds == 4


@pytest.mark.parametrize(
    ("program", "generator", "size"),
    [
        ("closure.dl", "dag", 150),
        ("same-generation.dl", "tree", 200),
        ("triangles.dl", "power-law", 1500),
        ("andersen.dl", "andersen", 1500),
        ("cspa.dl", "cspa", 500),
        ("points-to.dl", "points-to", 1500),
        ("reach.dl", "source-chain", 60),
    ],
)
def test_programs_give_what_the_engine_gives(program: str, generator: str, size: int, tmp_path: Path) -> None:
    facts = generate.GENERATORS[generator](size)
    engine = Engine(PROGRAMS / program, backend="cpu")
    for name, columns in facts.items():
        rows = pandas.DataFrame(dict(enumerate(columns)))
        rows.to_csv(tmp_path / f"{name}.facts", sep="\t", header=False, index=False)
        engine.load(name, tmp_path / f"{name}.facts")
    engine.materialise()
    rules = read_rules(PROGRAMS / program)
    answer = cudf.run(pandas, Task(rules, tmp_path, 1, ""))
    assert answer.relations == {name: len(engine[name]) for name in rules.printed}
    assert all(answer.relations.values())


def test_constants_repeated_variables_and_products() -> None:
    rules = parse_rules(
        ".decl t(a:number, b:number)\n.decl r(a:number, b:number)\n.decl s(a:number, b:number)\n"
        "r(x,y) :- t(x,x), t(3,y), x < 5.\ns(x,y) :- t(x,_), t(_,y), x >= 2, y = 7.\n"
    )
    rows = pandas.DataFrame({"c0": [1, 4, 6, 3, 3, 2], "c1": [1, 4, 6, 8, 9, 7]})
    tables = {"t": rows}
    cudf.evaluate(pandas, rules, tables)
    found = sorted(map(tuple, tables["r"].to_numpy().tolist()))
    assert found == [(1, 8), (1, 9), (4, 8), (4, 9)]
    assert sorted(map(tuple, tables["s"].to_numpy().tolist())) == [(2, 7), (3, 7), (4, 7), (6, 7)]


def test_a_constant_head_is_not_applicable() -> None:
    rules = parse_rules(".decl t(a:number)\n.decl r(a:number)\nr(1) :- t(x).\n")
    with pytest.raises(NotApplicable):
        cudf.evaluate(pandas, rules, {"t": pandas.DataFrame({"c0": [1]})})


def test_it_takes_part_only_where_a_gpu_and_cudf_are(monkeypatch: pytest.MonkeyPatch) -> None:
    (peer,) = choose_peers("cudf")
    monkeypatch.setattr(contenders, "gpu_present", lambda: False)
    assert present([peer]) == ([], {"cudf": "there is no NVIDIA GPU"})
    monkeypatch.setattr(contenders, "gpu_present", lambda: True)
    monkeypatch.setattr(contenders.importlib.util, "find_spec", lambda name: None)
    assert present([peer]) == ([], {"cudf": "not installed: pip install cudf-cu13"})
    monkeypatch.setattr(contenders.importlib.util, "find_spec", lambda name: object())
    assert present([peer]) == ([peer], {})
    assert peer in PEERS
