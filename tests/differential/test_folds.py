"""Sums, counts, any, all and bits in the heads of rules, recursive or not."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import EvaluationError
from gpuengine.evaluation.driver import divergence
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
    """None of these goes on for ever, and none is said to, however soon that is asked."""
    program, facts = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(divergence, "_FIRST_LOOK", 1)
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
    with pytest.raises(EvaluationError, match=r"does not fit 64 bits.*\n  by the rule: p\(y, sum w\)"):
        _loaded(text, {"e": [(0, 1), (1, 0), (1, 1)]})


@pytest.mark.parametrize(
    ("rules", "edges", "rule"),
    [
        ("p(0, sum 1). p(y, sum w) :- p(x, w), e(x, y).", [(0, 0)], "p(y, sum w)"),
        ("p(0, sum 1). p(y, sum w) :- p(x, w), e(x, y).", [(0, 1), (1, 2), (2, 1), (2, 3)], "p(y, sum w)"),
        ("p(0, sum 1). p(y, sum w) :- q(x, w), e(x, y). q(x, max w + 1) :- p(x, w).", [(0, 0)], "q(x, max"),
        ("p(0, min 1). p(y, min w - 1) :- p(x, w), e(x, y).", [(0, 1), (1, 0)], "p(y, min w - 1)"),
        ("p(0, max 1). p(y, max w + 1) :- p(x, w), e(x, y).", [(0, 1), (1, 0), (1, 2)], "p(y, max w + 1)"),
    ],
)
def test_what_grows_by_a_little_for_ever_ends_with_an_error(
    rules: str, edges: Rows, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "_FIRST_LOOK", 20)
    text = ".decl e(x: number, y: number)\n.decl p(x: number, w: number)\n.decl q(x: number, w: number)\n"
    with pytest.raises(EvaluationError, match="gets better for ever") as raised:
        _loaded(text + rules, {"e": edges})
    assert f"by the rule: {rule}" in str(raised.value)


@pytest.mark.parametrize(
    ("rule", "edges", "expected"),
    [
        ("p(y, sum min(w, 50)) :- p(x, w), e(x, y).", [(0, 0)], {(0, 58)}),
        ("p(y, sum w / 2) :- p(x, w), e(x, y).", [(0, 0)], {(0, 15)}),
        ("p(y, sum w) :- p(x, w), e(x, y).", [(n, n + 1) for n in range(200)], {(n, 8) for n in range(201)}),
        ("p(y, sum w * 0) :- p(x, w), e(x, y).", [(0, 0)], {(0, 8)}),
    ],
)
def test_what_ends_is_left_to(
    rule: str, edges: Rows, expected: set[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "_FIRST_LOOK", 1)
    text = ".decl e(x: number, y: number)\n.decl p(x: number, w: number)\np(0, sum 8).\n"
    assert rows_of(_loaded(text + rule, {"e": edges}), "p") == expected


def test_what_may_come_closer_to_an_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "_PATIENCE", 50)
    text = ".decl e(x: number, y: number)\n.decl p(x: number, w: number)\np(0, sum 8).\n"
    with pytest.raises(EvaluationError, match="has not come to an end: 1,000 rounds"):
        _loaded(text + "p(y, sum w / 2) :- p(x, w), (e(x, y); e(y, x)).", {"e": [(0, 0)]})


def test_sums_of_floats_do_not_depend_on_rounds() -> None:
    values = [1e16, 1.0, -1e16, 3.0, 0.1]
    text = ".decl e(x: number, w: float)\n.decl p(w: float)\np(sum w) :- e(_, w)."
    found = {
        tuple(rows_of(_loaded(text, {"e": list(enumerate(order))}), "p")) for order in (values, values[::-1])
    }
    assert len(found) == 1


@pytest.mark.parametrize("seed", [5, 12])
def test_more_values_never_make_a_sum_of_floats_less(seed: int) -> None:
    """Added in pairs, in blocks, these would round to less when a small value comes first."""
    text = """
    .decl e(x: number, w: float)
    .decl p(w: float)
    .decl r(x: number)
    r(0).
    r(x + 1) :- r(x), x < 12, p(v), v > 0.0.
    p(sum w) :- r(x), e(x, w).
    """
    numbers = Random(seed)
    values = {(0, numbers.random()) for _ in range(20)} | {(x, 1e-17 * x) for x in range(1, 12)}
    total = math.fsum(value for _, value in values)
    assert rows_of(_loaded(text, {"e": values}), "p") == {(total,)}


def test_a_sum_of_nothing_but_negative_zeros_is_zero() -> None:
    text = """
    .decl e(x: number, w: float)
    .decl p(x: number, w: float)
    p(x, sum w) :- e(x, w).
    """
    kb = _loaded(text, {"e": [(1, -0.0)]})
    assert [repr(value) for _, value in rows_of(kb, "p")] == ["0.0"]


LATTICES = """
.pragma "legacy"
.type Lo <: number
.type Hi <: number
.type Bits <: unsigned
.lattice Lo<> { Lub -> min(_, _), Glb -> max(_, _), Bottom -> 9 }
.lattice Hi<> { Lub -> max(_, _) }
.lattice Bits<> { Lub -> _ bor _, Glb -> _ band _, Bottom -> 0 }
.decl e(x: number, y: number, w: number)
.decl n(x: number)
.decl range_(x: number, lo: Lo<>, hi: Hi<>)
.decl hi(x: number, v: Hi<>)
.decl b(x: number, m: Bits<>)
.decl c(x: number, y: number, m: Bits<>)
.decl r(x: number)
.decl lo(x: number, v: Lo<>)
"""
JOINING = (
    "range_(x, w, w) :- e(x, _, w).",
    "range_(y, max(lo, 1) - w, min(hi, 6) + w) :- range_(x, lo, hi), e(x, y, w), x < y.",
    "range_(y, lo, hi) :- range_(x, lo, hi), e(x, y, _).",
    "range_(x, v, 3) :- lo(x, v).",
    "lo(x, v) :- range_(x, v, _), lo(x, v).",
    "lo(x, w) :- e(x, _, w).",
    "lo(x, w + 5) :- e(_, x, w).",
    "r(x) :- range_(x, lo, hi), lo < 1, hi >= 3.",
    "n(x) :- r(x).",
    "hi(x, v) :- range_(x, _, v).",
    "range_(x, 2, v) :- hi(x, v), n(x).",
    "b(x, 1 bshl to_unsigned(x)) :- n(x).",
    "b(x, to_unsigned(w)) :- e(x, _, w).",
    "b(y, m) :- b(x, m), e(x, y, _).",
    "c(x, y, m) :- b(x, m), b(y, m), e(x, y, _).",
    "b(y, m bor 8) :- c(x, y, m), n(y).",
    "r(x) :- b(x, 5).",
    "r(x) :- b(x, m), e(_, x, w), (m band to_unsigned(w)) != 0.",
)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_lattices(data: st.DataObject) -> None:
    rules = data.draw(st.lists(st.sampled_from(JOINING), min_size=1, max_size=6, unique=True))
    program = LATTICES + "\n".join(rules)
    facts: dict[str, Any] = {"e": set(data.draw(EDGES)), "n": set(data.draw(NODES))}
    if data.draw(st.booleans()):
        facts["range_"] = set(data.draw(EDGES)[:2]) | {(1, 9, 2)}
    engine = _loaded(program, facts)
    before = _check(engine, program, facts)
    delete, insert = set(list(facts["e"])[:2]), set(data.draw(EDGES)[:2])
    with engine.update() as update:
        update.delete("e", list(delete))
        update.insert("e", list(insert))
    facts["e"] = (facts["e"] - delete) | insert
    after = _check(engine, program, facts)
    for name in after:
        assert set(update.change[name].inserted.to_pylist()) == after[name] - before[name]
        assert set(update.change[name].deleted.to_pylist()) == before[name] - after[name]


INTERVALS = """
.type Interval = [low: number, high: number]
.functor hull(a: Interval, b: Interval): Interval
.lattice Interval<> { Lub -> @hull(_, _) }
.decl e(x: number, y: number, w: number)
.decl at(x: number, i: Interval<>)
at(0, [0, 0]).
at(y, [a - w, min(b + w, 20)]) :- at(x, i), i = [a, b], e(x, y, w), x < y.
"""


def _hull(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return min(a[0], b[0]), max(a[1], b[1])


def test_a_join_of_the_user_saved_explained_and_updated(tmp_path: Any) -> None:
    kb = ge.Engine(INTERVALS, functors={"hull": _hull})
    kb.load("e", [(0, 1, 2), (0, 2, 1), (1, 2, 5), (2, 3, 4)])
    kb.materialise()
    expected = {(0, "[0, 0]"), (1, "[-2, 2]"), (2, "[-7, 7]"), (3, "[-11, 11]")}
    assert rows_of(kb, "at") == expected
    assert "e(2, 3, 4)" in str(kb.explain("at(3, [-11, 11])"))
    assert kb.plan().selections["at"].describe(("x", "i")) == "keeps the @hull of i for each x"
    kb.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb", functors={"hull": _hull}) as again:
        with again.update() as update:
            update.delete("e", [(1, 2, 5)])
        assert update.change["at"].deleted.to_pylist() == [(2, "[-7, 7]"), (3, "[-11, 11]")]
        assert rows_of(again, "at") == {(0, "[0, 0]"), (1, "[-2, 2]"), (2, "[-1, 1]"), (3, "[-5, 5]")}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b: None, "gave no value for two that it was to join"),
        (lambda a, b: 5, "5 is no tuple"),
        (lambda a, b: (1, 2, 3), "has 3 fields, and 2 are declared"),
        (lambda a, b: (1.5, 2), "are no integers"),
    ],
)
def test_what_a_join_may_not_give(function: Any, message: str) -> None:
    kb = ge.Engine(INTERVALS, functors={"hull": function})
    kb.load("e", [(0, 2, 1), (0, 1, 2), (1, 2, 5)])
    with pytest.raises(ge.GpuEngineError, match=message):
        kb.materialise()


def test_a_join_needs_its_function() -> None:
    with pytest.raises(ge.GpuEngineError, match="there is no function for the functor @hull"):
        ge.Engine(INTERVALS).materialise()


def test_proofs_show_what_is_added_up() -> None:
    kb = _loaded(
        ".decl e(x: number, w: number)\n.decl p(x: number, w: number)\np(x, sum w) :- e(x, w).\n",
        {"e": [(1, 5), (1, 6), (2, 1)], "p": [(1, 3)]},
    )
    text = str(kb.explain("p(1, 14)"))
    assert "11 from 2 rows: (w) = (5), (6)" in text
    assert "there is no p(2, 9)" in str(kb.why_not("p(2, 9)"))


def test_rules_of_sums_come_and_go() -> None:
    kb = _loaded(
        ".decl e(x: number, w: number)\n.decl p(x: number, w: number)\np(x, sum w) :- e(x, w).\n",
        {"e": [(1, 5), (1, 6), (2, 1)]},
    )
    more = "p(x, sum 1) :- p(y, w), w > 1, e(x, y)."
    with kb.update() as update:
        update.add_rules(more)
    assert sorted(update.change["p"].inserted.to_pylist()) == [(2, 2)]
    with kb.update() as update:
        update.remove_rules(more)
    assert rows_of(kb, "p") == {(1, 11), (2, 1)}


@pytest.mark.parametrize("text", [CONTROL[0], "c(x, count y) :- e(x, y, _).", "b(x, bor 1) :- n(x)."])
def test_spark_refuses_them_by_name(text: str) -> None:
    from gpuengine.errors import SparkError
    from gpuengine.language import parse_program
    from gpuengine.spark_bridge.placement import choose_place

    program = parse_program(DECLARED.replace("TYPE", "number") + text)
    with pytest.raises(SparkError, match=f"{text[0]} does not keep all that is derived"):
        choose_place(None, program, {}, "cluster")  # type: ignore[arg-type]
