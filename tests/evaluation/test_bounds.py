"""Bounds: every id a rule can derive lies within those of its head, before the rule runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import gpuengine as ge
from gpuengine.errors import EvaluationError
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.database import Database
from gpuengine.language import parse_program
from gpuengine.schemes.table import Table
from gpuengine.terms.dictionary import Dictionary
from tests.generated import Case
from tests.strategies import cases, counters

HEADER = """
.decl a(x: number, y: number)
.decl b(x: number, y: number)
.decl p(x: number, y: number)
.decl q(x: number, y: number)
.input a
.input b
.output p
.output q
"""


def bounds_after(rules: str, a: tuple[int, int] = (0, 0), b: tuple[int, int] = (0, 0)) -> dict[str, list]:
    """The bounds of all relations when those of a and b flow through the rules."""
    program = parse_program(HEADER + rules)
    database = Database(program, Dictionary(program))
    for name, bounds in (("a", a), ("b", b)):
        database.tables[name].widen(
            [bounds, (bounds[0] + 100, bounds[1] + 100) if bounds != (0, 0) else bounds]
        )
    flow_bounds([rule for rule in program.rules if rule.body], database)
    return {name: table.bounds for name, table in database.tables.items()}


def test_a_variable_has_the_bounds_of_its_column() -> None:
    assert bounds_after("p(y, x) :- a(x, y).", a=(3, 9))["p"] == [(103, 109), (3, 9)]


def test_a_joined_variable_has_the_narrowest() -> None:
    found = bounds_after("p(x, y) :- a(x, y), b(x, _).", a=(3, 90), b=(5, 8))
    assert found["p"] == [(5, 8), (103, 190)]


def test_several_rules_and_recursion_widen() -> None:
    rules = "p(x, x) :- a(x, _). p(y, x) :- q(x, y). q(x, y) :- b(x, y). q(x, y) :- p(x, y)."
    found = bounds_after(rules, a=(3, 9), b=(1, 4))
    assert found["p"] == found["q"] == [(1, 104), (1, 104)]


def test_constants_and_equations() -> None:
    assert bounds_after("p(7, x) :- a(x, _).", a=(3, 9))["p"] == [(7, 8), (3, 9)]
    assert bounds_after("p(z, w) :- a(x, _), z = w, w = x.", a=(3, 9))["p"] == [(3, 9), (3, 9)]
    assert bounds_after("p(z, x) :- a(x, _), z = 5.", a=(3, 9))["p"] == [(5, 6), (3, 9)]


def test_a_computed_column_adds_nothing() -> None:
    assert bounds_after("p(x + 1, x) :- a(x, _).", a=(3, 9))["p"] == [(0, 0), (3, 9)]


def test_an_empty_relation_lets_nothing_flow() -> None:
    assert bounds_after("p(x, y) :- a(x, y), b(x, _).", a=(3, 9))["p"] == [(0, 0), (0, 0)]
    assert bounds_after("p(x, y) :- p(x, y). q(1, 2) :- p(_, _).")["q"] == [(0, 0), (0, 0)]


def assert_tables_are_whole(engine: ge.Engine) -> None:
    """Every id lies within the bounds, rows are distinct, and the set holds exactly the rows."""
    assert engine.database is not None
    for table in engine.database.tables.values():
        if not isinstance(table, Table):
            for batch in table.scan():
                for column, (low, high) in zip(batch, table.bounds, strict=True):
                    assert low <= int(column.min()) and int(column.max()) < high, table.name
            continue
        columns, count = table.rows.columns(), len(table)
        for column, (low, high) in zip(columns, table.bounds, strict=True):
            assert not count or (low <= int(column.min()) and int(column.max()) < high), table.name
        assert table.contains(columns, count).all()
        assert table.insert([column.copy() for column in columns], count) == 0
        assert table.rows.delta == (len(table), len(table)), "settled"
        if count and columns:
            strange = [np.full(1, 2**32 - 2, np.uint32) for _ in columns]
            assert not table.contains(strange, 1).any()


@settings(max_examples=40)
@given(cases())
def test_derived_facts_lie_within_the_bounds(case: Case) -> None:
    engine = ge.Engine(str(case), threads=1)
    for name, rows in case.facts.items():
        engine.load(name, rows)
    try:
        engine.materialise()
    except EvaluationError:
        return
    assert_tables_are_whole(engine)


@settings(max_examples=20)
@given(counters())
def test_computed_facts_lie_within_the_bounds(case: Case) -> None:
    engine = ge.Engine(str(case), threads=1)
    for name, rows in case.facts.items():
        engine.load(name, rows)
    assert_tables_are_whole(engine.materialise())


@pytest.mark.parametrize(
    "body",
    [
        "q(a), x = y, y = a + 1, a < 7",
        "q(a), y = a + 1, x = y",
        "q(a), x = z, z = y, y = a + 1, a < 7, q(a)",
        "x = y, y = a + 1, a = b, q(b), b != 9",
        "q(a), r = as([a + 1, a], R), as([x, _], R) = r, q(a)",
    ],
)
def test_a_head_variable_by_another_name_than_what_was_computed(body: str) -> None:
    engine = ge.Engine(
        f"""
        .type R = [x: number, y: number]
        .decl q(a: number)
        .decl p(x: number)
        .output p
        q(1). q(2). q(3).
        p(x) :- {body}.
        """
    ).materialise()
    assert sorted(engine["p"].to_pylist()) == [(2,), (3,), (4,)]
    assert_tables_are_whole(engine)
