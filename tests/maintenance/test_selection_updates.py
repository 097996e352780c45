"""Relations that keep less than is derived, while facts and rules come and go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.language import parse_program
from gpuengine.maintenance.stratum import StratumMaintenance
from gpuengine.planning.decline import declining_if
from gpuengine.planning.selection import selections_of
from tests.differential.compare import rows_of
from tests.maintenance.streams import (
    Call,
    Stream,
    assert_follows,
    commit,
    is_maintained,
    started,
)

DECLARED = """
.decl e(x: number, y: number, w: number)
.decl n(x: number)
.decl d(x: number, w: number)
.decl p(x: number, y: number, w: number)
.decl q(x: number, w: number)
.decl r(x: number)
.decl s(x: number, w: number)
"""
LEAST = (
    "p(x, y, min w) :- e(x, y, w).",
    "p(x, z, min a + w) :- p(x, y, a), e(y, z, w).",
    "p(x, z, min a + b) :- p(x, y, a), p(y, z, b).",
    "p(x, z, min max(a, w)) :- p(x, y, a), e(y, z, w).",
    "p(y, x, min w) :- p(x, y, w).",
    "p(x, y, min 5) :- p(y, x, _), n(x).",
    "q(x, min a) :- p(x, _, a).",
    "p(x, y, min a) :- q(x, a), n(y).",
    "r(x) :- p(x, _, a), a < 3.",
    "p(x, y, min w) :- r(x), e(y, x, w).",
)
LARGEST = (
    "p(x, y, max w) :- e(x, y, w).",
    "p(x, z, max min(a, w)) :- p(x, y, a), e(y, z, w).",
    "p(x, z, max min(a, b)) :- p(x, y, a), p(y, z, b).",
    "p(x, z, max a - w) :- p(x, y, a), e(y, z, w).",
    "q(x, max a) :- p(x, _, a).",
    "p(x, y, max a) :- q(x, a), n(y).",
    "r(x) :- p(x, _, a), 2 < a.",
    "p(x, y, max w) :- r(x), e(y, x, w).",
)
ABOVE = (
    "d(x, c) :- n(x), c = sum a : p(x, _, a).",
    "s(x, max c) :- d(x, c).",
    "s(y, max c) :- s(x, c), e(x, y, _), !p(y, x, _).",
    "d(x, a) :- s(x, a), !q(x, a).",
)
ORDERS = (
    "p(x, a, b) <= p(x, c, d) :- c <= a, d <= b.",
    "p(x, a, b) <= p(x, a, d) :- n(x), b > d.",
    "p(x, a, b) <= p(x, a, d) :- b > d.",
)


def _edges(most: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    return st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), max_size=most)


@st.composite
def _streams(draw: st.DrawFn, *, rules: bool) -> Stream:
    order = ""
    kind = draw(st.sampled_from(["least", "largest", "subsuming"]))
    possible = LARGEST if kind == "largest" else LEAST
    if kind == "subsuming":
        order = draw(st.sampled_from(ORDERS))
        possible = tuple(rule.replace("min ", "") for rule in (LEAST[0], *LEAST[3:6], *LEAST[8:]))
    chosen = [possible[0], *draw(st.lists(st.sampled_from(possible[1:]), max_size=4, unique=True))]
    above = draw(st.lists(st.sampled_from(ABOVE[:3]), max_size=3, unique=True))
    nodes = st.lists(st.tuples(st.integers(0, 3)), max_size=2)
    facts = {"e": draw(_edges(7)), "n": draw(nodes), "p": draw(_edges(2))}
    transactions = []
    held: set[str] = set(chosen[1:])
    for _ in range(3):
        calls = []
        for name in ("e", "p", "n"):
            rows: Any = nodes if name == "n" else _edges(2)
            calls.append(Call("insert", name, tuple(draw(rows))))
            there = facts[name]
            gone = draw(st.lists(st.sampled_from(there), max_size=2)) if there else []
            calls.append(Call("delete", name, tuple(gone)))
        if rules and kind != "subsuming" and draw(st.booleans()):
            rule = draw(st.sampled_from(possible[1:]))
            calls.append(Call("remove_rules" if rule in held else "add_rules", rules=rule))
            held ^= {rule}
        transactions.append(tuple(draw(st.permutations(calls))))
    return Stream(DECLARED + order + "\n", (*chosen, *above), facts, tuple(transactions))


@settings(deadline=None, max_examples=20)
@given(_streams(rules=False))
def test_updates_are_maintained_and_exact(stream: Stream) -> None:
    assert_follows(stream)


@settings(deadline=None, max_examples=15)
@given(_streams(rules=True))
def test_rules_that_come_and_go(stream: Stream) -> None:
    assert_follows(stream, maintained=False)


def test_a_fact_that_only_a_worse_one_led_to() -> None:
    """j is 3 by k, and k is there by the j of 10 alone, which the table does not have."""
    program = """
    .decl j(d: number)
    .decl k(d: number)
    k(min 5) :- j(_).
    j(min d) :- k(e), d = e - 2.
    """
    kb = ge.Engine(program)
    kb.load("j", [(10,)])
    kb.materialise()
    assert rows_of(kb, "j") == {(3,)}
    with kb.update() as u:
        u.delete("j", [(10,)])
    assert is_maintained(kb)
    assert rows_of(kb, "j") == rows_of(kb, "k") == set()
    assert u.change["j"].deleted.to_pylist() == [(3,)]


@pytest.mark.parametrize("weight", [0, 2])
def test_cycles_do_not_keep_themselves(weight: int) -> None:
    kb = _distances([(0, 1, 1), (1, 2, weight), (2, 1, 0), (2, 3, 1)])
    with kb.update() as u:
        u.delete("e", [(0, 1, 1)])
    assert rows_of(kb, "d") == {(0, 0)}
    assert len(u.change["d"].deleted) == 3


def test_weights_below_zero_that_come_and_go() -> None:
    kb = _distances([(0, 1, 4), (0, 2, 9), (1, 3, 1), (2, 3, 2)])
    for change, expected in (
        ([("insert", (2, 1, -7))], {(0, 0), (1, 2), (2, 9), (3, 3)}),
        ([("delete", (0, 1, 4))], {(0, 0), (1, 2), (2, 9), (3, 3)}),
        ([("delete", (2, 1, -7)), ("insert", (3, 1, 1))], {(0, 0), (1, 12), (2, 9), (3, 11)}),
        ([("delete", (0, 2, 9))], {(0, 0)}),
    ):
        with kb.update() as u:
            for way, row in change:
                getattr(u, way)("e", [row])
        assert rows_of(kb, "d") == expected
        assert is_maintained(kb)


def _distances(edges: list[tuple[int, int, int]], **options: Any) -> Any:
    kb = ge.Engine(
        ".decl e(x: number, y: number, w: number)\n.decl d(x: number, w: number)\n"
        "d(0, min 0).\nd(y, min a + w) :- d(x, a), e(x, y, w).",
        **options,
    )
    kb.load("e", edges)
    kb.materialise()
    return kb


def test_an_edge_off_every_shortest_path_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node is taken out, though all that follow it are derived over the edge as well."""
    kb = _distances([(k, k + 1, 1) for k in range(50)] + [(0, 2, 9)])
    deleted = []
    delete_next = StratumMaintenance._delete_next

    def noting(stratum: StratumMaintenance, *args: Any) -> bool:
        found = delete_next(stratum, *args)
        deleted.append(stratum.tables.touched if found else 0)
        return found

    monkeypatch.setattr(StratumMaintenance, "_delete_next", noting)
    with kb.update() as u:
        u.delete("e", [(0, 2, 9)])
    assert deleted == [0]
    with kb.update() as u:
        u.delete("e", [(48, 49, 1)])
    assert max(deleted) == 2
    assert sorted(u.change["d"].deleted.to_pylist()) == [(49, 49), (50, 50)]


def test_choices_are_computed_in_their_own_stratum_only() -> None:
    kb = ge.Engine(
        """
        .decl e(x: number, y: number)
        .decl all(x: number, y: number)
        .decl one(x: number, y: number) choice-domain x
        .decl left(x: number, y: number)
        all(x, y) :- e(x, y).
        all(x, z) :- all(x, y), e(y, z).
        one(x, y) :- e(x, y).
        left(x, y) :- e(x, y), !one(x, y).
        """
    )
    kb.load("e", [(1, 2), (1, 3), (2, 3)])
    kb.materialise()
    held = kb.prepared, kb["all"]
    with kb.update() as u:
        u.insert("e", [(1, 1)])
        u.delete("e", [(2, 3)])
    assert is_maintained(kb) and kb.prepared is held[0]
    assert sorted(u.change["one"].deleted) == [(1, 2), (2, 3)]
    assert sorted(u.change["one"].inserted) == [(1, 1)]
    assert rows_of(kb, "left") == {(1, 2), (1, 3)}


def test_saved_and_opened(tmp_path: Path) -> None:
    kb = _distances([(0, 1, 4), (1, 2, 4), (0, 2, 9)])
    kb.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as again:
        with again.update() as u:
            u.delete("e", [(1, 2, 4)])
            u.insert("e", [(0, 1, 3)])
        assert sorted(u.change["d"].inserted) == [(1, 3), (2, 9)]
    with ge.open(tmp_path / "kb", read_only=True) as again:
        assert rows_of(again, "d") == {(0, 0), (1, 3), (2, 9)}


def test_explained_after_an_update() -> None:
    kb = _distances([(0, 1, 4), (1, 2, 4), (0, 2, 9)])
    with kb.update() as u:
        u.delete("e", [(1, 2, 4)])
    text = str(kb.explain("d(2, 9)"))
    assert "e(0, 2, 9)" in text


def test_counting_is_left_out_where_values_are_selected() -> None:
    kb = _distances([(0, 1, 4), (1, 2, 4), (0, 2, 9)], counting=True)
    with kb.update() as u:
        u.delete("e", [(0, 1, 4)])
        u.insert("e", [(2, 1, 1)])
    assert rows_of(kb, "d") == {(0, 0), (1, 10), (2, 9)}


def test_a_rule_that_changes_what_is_kept_has_all_computed_anew() -> None:
    stream = Stream(
        DECLARED,
        ("p(x, y, w) :- e(x, y, w).",),
        {"e": [(1, 2, 3), (1, 2, 1)]},
        ((Call("add_rules", rules="p(x, y, min w) :- e(y, x, w)."),),),
    )
    kb = started(stream)
    commit(kb, stream.transactions[0])
    assert rows_of(kb, "p") == {(1, 2, 1), (2, 1, 1)}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("d(y, min a + w) :- d(x, a), e(x, y, w).", {("e", 2)}),
        ("d(y, min a + w) :- d(x, a), e(x, y, w), w > 0.", set()),
        ("d(y, min a + 2 * w) :- d(x, a), e(x, y, w).", {("e", 2)}),
        ("d(y, min a + b) :- d(x, a), d(y, b), e(x, y, _).", {("d", 1)}),
        ("d(y, min max(a, w)) :- d(x, a), e(x, y, w).", set()),
        ("d(y, min a) :- d(x, a), e(x, y, _).", set()),
        ("d(y, max a - w) :- d(x, a), e(x, y, w).", {("e", 2)}),
        ("d(y, max min(a, w)) :- d(x, a), e(x, y, w).", set()),
        ("d(y, min a - w) :- d(x, a), e(x, y, w).", None),
        ("d(y, min a + w) :- d(x, a), e(x, y, v), w = v - 1.", None),
        ("d(y, max a + w) :- d(x, a), e(x, y, w).", None),
        ("d(y, min w) :- d(x, _), e(x, y, w).", None),
        ("d(y, min min(a, w)) :- d(x, a), e(x, y, w).", None),
        ("d(y, min 5) :- d(x, _), e(x, y, _).", None),
    ],
)
def test_values_that_only_get_worse(rule: str, expected: set[tuple[str, int]] | None) -> None:
    program = parse_program(DECLARED + rule)
    merges = {name: one.merge for name, one in selections_of(program).items() if one.merge is not None}
    assert declining_if(program.rules, merges, {"d"}) == expected
