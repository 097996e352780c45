"""Facts may come in any number of loads and materialisations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import gpuengine as ge
from tests.differential.compare import oracle_facts, rows_of
from tests.generated import Case
from tests.strategies import cases

REACH = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@given(st.one_of(cases(), cases(compound=True)))
def test_materialise_after_each_load(case: Case) -> None:
    """Nothing of an earlier materialisation stays: what negation or an aggregate no longer allows is gone."""
    kb = ge.Engine(str(case), threads=2)
    kb.materialise()
    for name, rows in case.facts.items():
        for half in (rows[::2], rows[1::2]):
            kb.load(name, half)
            kb.materialise()
    expected = oracle_facts(str(case), case.facts)
    assert {relation.name: rows_of(kb, relation.name) for relation in case.relations} == expected


def test_results_stay_until_the_next_materialise() -> None:
    kb = ge.Engine(REACH)
    kb.load("edge", [(1, 2)])
    kb.materialise()
    edges, paths = kb["edge"], kb["path"]
    kb.load("edge", [(2, 3), (0, 1)])
    assert set(kb["path"]) == set(paths) == {(1, 2)}
    assert set(kb["edge"]) == set(edges) == {(1, 2)}
    assert set(kb.query("edge(x, y)")) == {(1, 2)}
    kb.materialise()
    assert set(kb["path"]) == {(1, 2), (2, 3), (0, 1), (1, 3), (0, 2), (0, 3)}
    assert set(kb["edge"]) == {(1, 2), (2, 3), (0, 1)}
    assert set(paths) == set(edges) == {(1, 2)}


def test_a_failed_load_or_materialise_changes_nothing() -> None:
    kb = ge.Engine("""
    .decl a(x: number)
    .decl b(x: number)
    .output b
    b(10 / x) :- a(x).
    """)
    kb.load("a", [(5,)])
    kb.materialise()
    for bad in ([(1,), ("two",)], [(1, 2)], [(None,)], [(2**63,)]):
        try:
            kb.load("a", bad)
        except ge.GpuEngineError:
            continue
        raise AssertionError(f"{bad} was accepted")
    kb.materialise()
    assert set(kb["b"]) == {(2,)}
    kb.load("a", [(0,)])
    try:
        kb.materialise()
    except ge.GpuEngineError as error:
        assert "zero" in str(error)
    else:
        raise AssertionError("division by zero went unnoticed")
    assert set(kb["b"]) == {(2,)}
