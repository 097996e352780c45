"""Sums, counts, any, all and bits in the heads of rules, recursive or not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import EvaluationError
from tests.differential.compare import oracle_facts, rows_of

Rows = list[tuple[Any, ...]]
EDGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), max_size=8)
NODES = st.lists(st.tuples(st.integers(0, 3)), max_size=3)
DECLARED = """
.decl e(x: number, y: number, w: TYPE)
.decl n(x: number)
.decl p(x: number, y: number, w: TYPE)
.decl c(x: number, k: number)
.decl r(x: number, y: number)
.decl s(x: number)
.decl b(x: number, m: unsigned)
.decl t(x: number, v: number)
"""
CONTROL = (
    "p(x, y, sum w) :- e(x, y, w).",
    "p(x, y, sum w) :- r(x, z), e(z, y, w).",
    "p(x, y, sum w) :- r(x, z), e(z, y, w), n(z); n(x), e(y, x, w).",
    "p(x, y, sum 1) :- r(x, y), e(x, _, _).",
    "p(x, y, w) :- e(y, x, w), n(x).",
    "r(x, y) :- p(x, y, w), w > 3.",
    "r(x, y) :- p(x, y, w), w + w >= 9, n(x).",
    "s(x) :- c(x, k), k >= 2.",
    "c(x, count y) :- e(x, y, _), s(y).",
    "c(x, count _) :- e(x, _, _).",
    "s(x) :- n(x).",
    "r(x, x) :- s(x).",
    "t(x, max k) :- c(x, k).",
    "t(x, max a) :- r(x, y), t(y, a).",
)
ABOVE = (
    "b(x, bor 1 bshl to_unsigned(x)) :- n(x).",
    "b(y, bor m) :- b(x, m), e(x, y, _).",
    "b(y, bor (m band 7) bshl 1) :- b(x, m), e(x, y, _), n(y).",
    "t(x, any w) :- n(x), e(x, _, w).",
    "t(x, any v) :- e(x, y, _), t(y, v).",
    "n(x) :- b(x, m), (m band 2) != 0.",
)
PATHS = (
    "t(0, sum 1).",
    "t(x, sum v) :- e(x, _, v), v < 3.",
    "t(y, sum v) :- t(x, v), e(x, y, _).",
    "t(y, sum v * w) :- t(x, v), e(x, y, w), w >= 0.",
    "t(y, sum 2) :- t(x, _), e(x, y, _).",
    "t(y, sum m) :- c(y, m).",
    "c(y, max v + 1) :- t(x, v), e(x, y, _).",
)


def _as(kind: str, rows: Rows) -> Rows:
    make: Any = {"number": int, "unsigned": int, "float": float}[kind]
    return [(*row[:-1], make(row[-1])) for row in rows]


def _loaded(program: str, facts: dict[str, Any]) -> ge.Engine:
    engine = ge.Engine(program)
    for name, rows in facts.items():
        engine.load(name, list(rows))
    engine.materialise()
    return engine


def _check(engine: ge.Engine, program: str, facts: dict[str, Any]) -> dict[str, set[Any]]:
    expected = oracle_facts(program, facts)
    assert expected is not None
    assert {name: rows_of(engine, name) for name in expected} == expected
    return expected


@st.composite
def _programs(draw: st.DrawFn) -> tuple[str, dict[str, set[Any]]]:
    kind = draw(st.sampled_from(["number", "unsigned", "float"]))
    templates = draw(st.sampled_from([CONTROL, ABOVE, PATHS]))
    rules = draw(st.lists(st.sampled_from(templates), min_size=1, max_size=6, unique=True))
    if templates is not CONTROL:
        kind = "number"
    edges = draw(EDGES)
    if templates is PATHS:  # around a cycle there are paths without end
        edges = [(x, y, w) for x, y, w in edges if x < y]
    text = DECLARED.replace("TYPE", kind) + "\n".join(rules)
    if kind == "float":
        text = text.replace("> 3.", "> 3.0.").replace(">= 9,", ">= 9.0,")
    facts: dict[str, set[Any]] = {"e": set(_as(kind, edges)), "n": set(draw(NODES))}
    if "p(" in text and draw(st.booleans()):
        facts["p"] = set(_as(kind, draw(EDGES)[:2]))
    return text, facts


@settings(deadline=None, max_examples=80)
@given(_programs())
def test_random_programs(case: tuple[str, dict[str, set[Any]]]) -> None:
    program, facts = case
    _check(_loaded(program, facts), program, facts)


@settings(deadline=None, max_examples=20)
@given(_programs(), st.data())
def test_updates_are_exact(case: tuple[str, dict[str, set[Any]]], data: st.DataObject) -> None:
    program, facts = case
    program += "\n.decl u(x: number)\nu(x) :- n(x), !c(x, _)."
    engine = _loaded(program, facts)
    ascending = ".decl t" in program and "t(y, sum" in program
    for _ in range(2):
        before = {name: rows_of(engine, name) for name in engine}
        rows = [row for row in data.draw(EDGES)[:3] if not ascending or row[0] < row[1]]
        insert = set(_as("float" if "w: float" in program else "number", rows))
        delete, nodes = set(list(facts["e"])[:2]), set(data.draw(NODES)[:1])
        with engine.update() as update:
            update.delete("e", list(delete))
            update.insert("e", list(insert))
            update.insert("n", list(nodes))
        facts = {**facts, "e": (facts["e"] - delete) | insert, "n": facts["n"] | nodes}
        expected = _check(engine, program, facts)
        for name in expected:
            assert set(update.change[name].inserted.to_pylist()) == expected[name] - before[name]
            assert set(update.change[name].deleted.to_pylist()) == before[name] - expected[name]


def test_what_is_negative_is_refused_in_recursion_only() -> None:
    text = """
    .decl e(x: number, y: number, w: number)
    .decl p(x: number, y: number, w: number)
    p(x, y, sum w) :- e(x, y, w).
    """
    assert rows_of(_loaded(text, {"e": [(1, 2, 5), (1, 2, -7)]}), "p") == {(1, 2, -2)}
    text += "p(x, z, sum w) :- p(x, y, v), v > 1, e(y, z, w)."
    with pytest.raises(EvaluationError, match="-7 can't be added to the sum of p"):
        _loaded(text, {"e": [(1, 2, 5), (1, 2, -7)]})


def test_a_sum_around_a_cycle_ends_with_an_error() -> None:
    text = """
    .decl e(x: number, y: number)
    .decl p(x: number, w: number)
    p(0, sum 1).
    p(y, sum w) :- p(x, w), e(x, y).
    """
    with pytest.raises(EvaluationError, match="does not fit 64 bits"):
        _loaded(text, {"e": [(0, 1), (1, 0), (1, 1)]})


def test_sums_of_floats_do_not_depend_on_rounds() -> None:
    values = [1e16, 1.0, -1e16, 3.0, 0.1]
    text = ".decl e(x: number, w: float)\n.decl p(w: float)\np(sum w) :- e(_, w)."
    found = {
        tuple(rows_of(_loaded(text, {"e": list(enumerate(order))}), "p")) for order in (values, values[::-1])
    }
    assert len(found) == 1
