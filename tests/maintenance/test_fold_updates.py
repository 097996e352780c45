"""Sums, counts, bits and lattices in heads, while facts and rules come and go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.driver import contributions, divergence
from gpuengine.maintenance import stratum, updater
from gpuengine.maintenance.recomputed import RecomputedStratum
from tests.differential.compare import rows_of
from tests.differential.test_folds import ABOVE, CONTROL, DECLARED, JOINING, LATTICES, PATHS
from tests.maintenance.streams import Call, Stream, assert_follows, is_maintained

LOWER = (
    "p(x, y, sum w) :- n(x), w = max v : { e(x, _, v) }, e(_, y, _).",
    "p(x, y, sum w) :- e(x, y, w), !n(y).",
    "c(x, count y) :- n(x), e(x, y, _), !e(y, x, _).",
    "c(x, count y) :- e(x, y, w), w < 3.",
    "d(sum w - 2) :- e(_, _, w).",
    "d(sum k) :- c(_, k).",
    "d(k) :- c(_, k), n(k).",
)
UPPER = (
    "u(x, c) :- n(x), c = sum w : p(x, _, w).",
    "u(x, k) :- c(x, k), !s(x).",
    "v(x, sum k) :- t(x, k).",
    "v(y, sum k) :- u(x, k), e(x, y, _), !r(x, y).",
)
UPPER_OF_LATTICES = (
    "u(x, a) :- lo(x, a), !r(x).",
    "v(x, sum a) :- range_(x, a, _).",
    "v(x, sum 1) :- hi(x, _).",
)
MORE = """
.decl d(k: number)
.decl u(x: number, k: number)
.decl v(x: number, k: number)
"""
SUMS = DECLARED.replace("TYPE", "number")
KINDS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], str]] = {
    "control": (SUMS, CONTROL, UPPER, "p"),
    "lower": (SUMS, LOWER, UPPER, "p"),
    "above": (SUMS, ABOVE, UPPER, "b"),
    "paths": (SUMS, ("t(x, sum 1) :- n(x).", *PATHS[1:]), UPPER, "t"),
    "lattices": (LATTICES, JOINING, UPPER_OF_LATTICES, "range_"),
}
"""Declarations, rules, rules of strata above, and a relation that values are stated of."""


def _edges(most: int, *, ascending: bool = False) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    edge = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4))
    return st.lists(edge.filter(lambda row: row[0] < row[1]) if ascending else edge, max_size=most)


@st.composite
def _streams(draw: st.DrawFn, *, rules: bool) -> Stream:
    kind = draw(st.sampled_from(sorted(KINDS)))
    declared, possible, above, stated = KINDS[kind]
    chosen = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=6, unique=True))
    upper = draw(st.lists(st.sampled_from(above), max_size=2, unique=True))
    nodes = st.lists(st.tuples(st.integers(0, 3)), max_size=2)
    pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=2)
    few: dict[str, st.SearchStrategy[Any]] = {
        "e": _edges(2, ascending=kind == "paths"),  # around a cycle there are paths without end
        "n": nodes,
        stated: pairs if stated in ("b", "t") else _edges(2),
    }
    facts = {name: draw(rows) for name, rows in few.items()}
    facts["e"] = draw(_edges(7, ascending=kind == "paths"))
    transactions = []
    held = set(chosen)
    for _ in range(3):
        calls = []
        for name, rows in few.items():
            calls.append(Call("insert", name, tuple(draw(rows))))
            there = facts[name]
            gone = draw(st.lists(st.sampled_from(there), max_size=2)) if there else []
            calls.append(Call("delete", name, tuple(gone)))
        if rules and draw(st.booleans()):
            rule = draw(st.sampled_from(possible))
            calls.append(Call("remove_rules" if rule in held else "add_rules", rules=rule))
            held ^= {rule}
        transactions.append(tuple(draw(st.permutations(calls))))
    return Stream(declared + MORE, (*chosen, *upper), facts, tuple(transactions))


@settings(deadline=None, max_examples=40)
@given(_streams(rules=False))
def test_updates_are_maintained_and_exact(stream: Stream) -> None:
    assert_follows(stream)


@settings(deadline=None, max_examples=25)
@given(_streams(rules=True))
def test_rules_that_come_and_go(stream: Stream) -> None:
    assert_follows(stream, maintained=False)


ROWS = [(0, 1, 4), (1, 0, 2), (1, 1, 3)]


@pytest.mark.parametrize("rule", ["q(x, v) :- a(x, v), lo(x, v).", "lo(x, v) :- a(x, v), lo(x, v)."])
def test_rules_that_are_added_meet_values_of_lattices(rule: str) -> None:
    declared = """
    .pragma "legacy"
    .type Lo <: number
    .lattice Lo<> { Lub -> min(_, _), Glb -> max(_, _), Bottom -> 9 }
    .decl e(x: number, y: number, w: number)
    .decl a(x: number, v: Lo<>)
    .decl lo(x: number, v: Lo<>)
    .decl q(x: number, v: Lo<>)
    a(x, w) :- e(x, _, w).
    lo(x, w) :- e(_, x, w).
    """
    whole, edited = ge.Engine(declared + rule), ge.Engine(declared)
    for kb in (whole, edited):
        kb.load("e", ROWS)
        kb.materialise()
    with edited.update() as update:
        update.add_rules(rule)
    assert rows_of(edited, "q") == rows_of(whole, "q")
    assert rows_of(edited, "lo") == rows_of(whole, "lo") == {(0, 2), (1, 3)}


def _controlled(owned: list[tuple[int, int, int]]) -> ge.Engine:
    kb = ge.Engine("""
    .decl owns(x: number, y: number, n: number)
    .decl total(x: number, y: number, n: number)
    .decl controls(x: number, y: number)
    total(x, y, sum n) :- owns(x, y, n).
    total(x, y, sum n) :- controls(x, z), owns(z, y, n).
    controls(x, y) :- total(x, y, n), n > 50.
    """)
    kb.load("owns", owned)
    kb.materialise()
    return kb


def test_control_that_only_holds_itself_up_goes() -> None:
    """2 and 3 own each other: once 1 has lost 2, neither says that 1 controls the other."""
    kb = _controlled([(1, 2, 60), (2, 3, 60), (3, 2, 60)])
    assert rows_of(kb, "controls") == {(1, 2), (1, 3), (2, 3), (3, 2), (2, 2), (3, 3)}
    with kb.update() as update:
        update.delete("owns", [(1, 2, 60)])
    assert is_maintained(kb)
    assert rows_of(kb, "controls") == {(2, 3), (3, 2), (2, 2), (3, 3)}
    assert sorted(update.change["total"].deleted.to_pylist()) == [(1, 2, 120), (1, 3, 60)]
    assert update.change["total"].inserted.to_pylist() == []


def test_what_comes_is_added_to_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An insertion offers the bindings that it brings, not those of the whole group."""
    kb = _controlled([(1, y, 1) for y in range(2, 300)] + [(y, 300, 1) for y in range(2, 52)])
    with kb.update() as update:
        update.insert("owns", [(1, 300, 20)])
    offered: list[int] = []
    offer = contributions.Contributions.offer

    def counting(self: Any, columns: Any, rows: int, rule: Any = None) -> None:
        offered.append(rows)
        offer(self, columns, rows, rule)

    monkeypatch.setattr(contributions.Contributions, "offer", counting)
    with kb.update() as update:
        update.insert("owns", [(1, 2, 60), (4, 300, 7)])
    assert sum(offered) <= 4
    assert update.change["controls"].inserted.to_pylist() == [(1, 2)]
    assert set(update.change["total"].inserted.to_pylist()) == {(1, 2, 61), (1, 300, 21), (4, 300, 8)}
    offered.clear()
    with kb.update() as update:
        update.delete("owns", [(1, 2, 60)])
    assert sum(offered) <= 3
    assert rows_of(kb, "total") >= {(1, 2, 1), (1, 300, 20), (4, 300, 8)}


def test_contributions_that_do_not_count_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributions, "_FEW", 20)
    kb = ge.Engine(".decl e(x: number, w: number)\n.decl p(x: number, w: number)\np(x, sum w) :- e(x, w).")
    kb.load("e", [(0, 0)])
    kb.materialise()
    for start in range(1, 60):
        with kb.update() as update:
            update.delete("e", [(x, x + start - 1) for x in range(5)])
            update.insert("e", [(x, x + start) for x in range(5)])
    assert rows_of(kb, "p") == {(x, x + 59) for x in range(5)}
    (one,) = kb._updater._maintainer.strata
    assert one.sums["p"].contributions.known < 60


def test_a_failed_update_leaves_sums_as_they_were() -> None:
    kb = _controlled([(1, 2, 60), (2, 3, 60)])
    before = rows_of(kb, "total")
    for _ in range(2):
        with pytest.raises(ge.GpuEngineError, match="-5 can't be added"), kb.update() as update:
            update.insert("owns", [(1, 3, 5), (2, 3, -5)])
        assert rows_of(kb, "total") == before
    with kb.update() as update:
        update.insert("owns", [(1, 3, 5)])
    assert set(update.change["total"].inserted.to_pylist()) == {(1, 3, 65)}
    assert is_maintained(kb)


def test_saved_sums_are_maintained_when_they_are_opened(tmp_path: Any) -> None:
    _controlled([(1, 2, 60), (2, 3, 60)]).save(tmp_path / "kb")
    for weight, expected in ((5, 65), (6, 71)):
        with ge.open(tmp_path / "kb") as kb:
            with kb.update() as update:
                update.insert("owns", [(1, 3, weight)])
            assert update.change["total"].inserted.to_pylist() == [(1, 3, expected)]


@pytest.mark.parametrize("qualifier", ["", " choice-domain x"])
def test_what_depends_on_the_order_of_rounds_is_computed_anew(qualifier: str) -> None:
    kb = ge.Engine(f"""
    .decl e(x: number, y: number)
    .decl p(x: number, y: number){qualifier}
    .decl s(x: number, k: number)
    p(x, y) :- e(x, y).
    s(x, count _) :- p(x, _).
    """)
    kb.load("e", [(1, 2), (1, 3), (2, 2)])
    kb.materialise()
    with kb.update() as update:
        update.delete("e", [(1, 2)])
    assert rows_of(kb, "s") == {(1, 1), (2, 1)}
    strata = kb._updater._maintainer.strata
    assert [isinstance(one, RecomputedStratum) for one in strata] == [bool(qualifier), False]


def test_sums_of_floats_lose_what_they_gained() -> None:
    kb = ge.Engine(".decl e(x: number, w: float)\n.decl p(x: number, w: float)\np(x, sum w) :- e(x, w).")
    kb.load("e", [(0, 0.1), (0, 1e16), (1, 0.3)])
    kb.materialise()
    with kb.update() as update:
        update.insert("e", [(0, 0.7), (1, float("inf"))])
    assert rows_of(kb, "p") == {(0, 1e16), (1, float("inf"))}
    with kb.update() as update:
        update.delete("e", [(0, 1e16), (1, float("inf"))])
    assert rows_of(kb, "p") == {(0, 0.7999999999999999), (1, 0.3)}


@pytest.mark.parametrize("rule", ["p(y, sum w) :- p(x, w), e(x, y).", "p(y, max w + 1) :- p(x, w), e(x, y)."])
def test_values_that_get_better_for_ever_are_soon_found_out(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "_FIRST_LOOK", 20)
    monkeypatch.setattr(stratum, "_MANY_ROUNDS", 20)
    monkeypatch.setattr(updater, "_LEAST_PATIENCE", 0.0)
    rounds: list[str] = []
    count = stratum.StratumMaintenance._count_round

    def counting(self: Any, step: str) -> None:
        rounds.append(step)
        count(self, step)

    monkeypatch.setattr(stratum.StratumMaintenance, "_count_round", counting)
    op = "sum 1" if "sum" in rule else "max 1"
    kb = ge.Engine(f"""
    .decl e(x: number, y: number)
    .decl n(x: number)
    .decl p(x: number, w: number)
    p(x, {op}) :- n(x).
    {rule}
    """)
    kb.load("e", [(0, 1)])
    kb.load("n", [(0,)])
    before = rows_of(kb.materialise(), "p")
    with pytest.raises(ge.GpuEngineError, match="gets better for ever"), kb.update() as update:
        update.insert("e", [(1, 1)])
    assert 20 < len(rounds) < 2000
    assert rows_of(kb, "p") == before
