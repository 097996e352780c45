"""After each update of facts everything is as if it were computed from what is stated then."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from gpuengine.maintenance import stratum, updater
from tests.maintenance.streams import (
    ANY_CASE,
    NUMBERS,
    STRUCTURED,
    WIDE,
    Call,
    Model,
    Stream,
    assert_follows,
    assert_is_difference,
    fact_streams,
    is_maintained,
    started,
    state_of,
)


@settings(max_examples=80)
@given(fact_streams(STRUCTURED))
def test_structured_programs(stream: Stream) -> None:
    assert_follows(stream)


@settings(max_examples=45)
@given(fact_streams(NUMBERS))
def test_programs_over_numbers(stream: Stream) -> None:
    assert_follows(stream)


@settings(max_examples=40)
@given(fact_streams(ANY_CASE))
def test_programs_over_all_types(stream: Stream) -> None:
    assert_follows(stream)


@settings(max_examples=30)
@given(fact_streams(WIDE))
def test_wide_programs(stream: Stream) -> None:
    assert_follows(stream)


def pairs(*names: str) -> str:
    return "".join(f".decl {name}(x: number, y: number)\n" for name in names)


def delete(relation: str, *rows: tuple[int, int]) -> tuple[Call, ...]:
    return (Call("delete", relation, rows),)


def insert(relation: str, *rows: tuple[int, int]) -> tuple[Call, ...]:
    return (Call("insert", relation, rows),)


@pytest.mark.parametrize("scheme", ["closure", "equivalence", "table"])
@pytest.mark.parametrize("modules", [True, False])
def test_a_closure_that_its_own_stratum_reads(scheme: str, modules: bool) -> None:
    """Edges that have each other as their only reason go: what an edge supports may support the edge."""
    clauses = (
        "q(x, y) :- e(x, y).",
        "q(y, x) :- q(x, y).",
        "q(x, z) :- q(x, y), q(y, z).",
        "q(x, 2) :- e(x, x).",
    )
    transactions = (
        delete("e", (0, 0)),
        insert("e", (2, 3)),
        delete("e", (0, 1)),
        insert("e", (1, 1), (0, 3)),
    )
    options = {"schemes": {"q": scheme}, "modules": modules}
    assert_follows(Stream(pairs("e", "q"), clauses, {"e": [(0, 0), (0, 1)]}, transactions, options))


def test_a_closure_that_is_fed_through_another_relation() -> None:
    clauses = (
        "c(x, y) :- e(x, y).",
        "c(x, z) :- c(x, y), c(y, z).",
        "p(x, y) :- c(y, x), f(x, _).",
        "c(x, y) :- p(x, y), f(_, y).",
    )
    facts = {"e": [(1, 2), (2, 3), (3, 4)], "f": [(4, 1), (3, 2), (2, 2)]}
    transactions = (
        delete("e", (2, 3)),
        insert("e", (2, 3)),
        delete("f", (3, 2)),
        delete("e", (1, 2), (3, 4)),
    )
    options = {"schemes": {"c": "closure"}}
    assert_follows(Stream(pairs("e", "f", "c", "p"), clauses, facts, transactions, options))


@pytest.mark.parametrize("schemes", [{"u": "union"}, {"*": "table"}])
def test_a_union_of_what_is_derived_from_it(schemes: dict[str, str]) -> None:
    """A fact that one part loses another part may have only by the union itself."""
    clauses = (
        "u(x, y) :- p(x, y).",
        "u(x, y) :- q(x, y).",
        "p(x, y) :- e(x, y).",
        "q(x, y) :- u(y, x), x < 10.",
    )
    transactions = (delete("e", (1, 2)), insert("e", (1, 2), (3, 1)), delete("e", (3, 1)))
    stream = Stream(pairs("e", "p", "q", "u"), clauses, {"e": [(1, 2)]}, transactions, {"schemes": schemes})
    assert_follows(stream)


@pytest.mark.parametrize("schemes", [{"u": "union"}, {"*": "table"}])
def test_a_recursive_union_that_copies_what_is_below(schemes: dict[str, str]) -> None:
    clauses = ("u(x, y) :- e(x, y).", "u(x, y) :- p(x, y).", "p(x, y) :- u(x, z), u(z, y).")
    transactions = (delete("e", (1, 2)), insert("e", (1, 2)), insert("e", (3, 1)), delete("e", (2, 3)))
    facts = {"e": [(1, 2), (2, 3)]}
    assert_follows(Stream(pairs("e", "p", "u"), clauses, facts, transactions, {"schemes": schemes}))


SETTINGS = [
    {"schemes": schemes, "modules": modules, "threads": threads, "counting": counting}
    for schemes in (None, {"*": "table"}, {"*": "closure"}, {"*": "union"})
    for modules, threads, counting in ((True, 1, False), (True, 2, True), (False, 2, False), (False, 1, True))
]
MIXED = Stream(
    pairs("e", "f", "c", "d", "u", "q", "r", "m", "n", "up", "down")
    + ".decl s(x: number, y: number) eqrel\n",
    (
        "c(x, y) :- e(x, y), x < 40.",
        "c(x, z) :- c(x, y), c(y, z).",
        "d(x, y) :- f(y, x).",
        "d(x, z) :- d(x, y), d(y, z).",
        "u(x, y) :- c(x, y).",
        "u(y, x) :- d(x, y).",
        "u(x, x) :- f(x, _), x % 3 = 0.",
        "q(x, y) :- e(x, y), !u(y, x), !d(_, x).",
        "s(x, y) :- e(x, y), f(y, _).",
        "r(x, n) :- f(x, _), n = count : { u(x, y), y > 3 }, n != sum z : { s(x, z) }.",
        "r(x, n) :- s(x, y), y < x, n = max z : { s(z, y), !q(z, _), 1 <= count : { f(z, _) } }.",
        "m(x, y) :- n(x, y), !s(y, x).",
        "m(x, 1) :- q(x, x).",
        "n(x, y) :- e(x, z), f(z, y).",
        "n(x, y + 1) :- m(x, y), y < 9.",
        "n(x, x) :- m(x, _), r(x, _).",
        "up(x, y) :- m(x, y).",
        "down(y, x) :- up(x, y).",
        "up(y, x) :- down(x, y).",
    ),
    {},
    (),
)


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_many_small_updates_of_one_large_program(options: dict[str, Any]) -> None:
    """Closures, a union of them, an equivalence, aggregates, negation, mutual recursion and an alias."""
    generator = random.Random(str(options))
    names = ("e", "e", "f", "f", "e", "f", "up", "down", "c", "s", "u")

    def row() -> tuple[int, int]:
        return generator.randrange(12), generator.randrange(12)

    facts = {name: [row() for _ in range(14)] for name in "ef"}
    stated = {name: list(rows) for name, rows in facts.items()}
    transactions = []
    for _ in range(12):
        calls = []
        for _ in range(generator.randrange(1, 4)):
            name = generator.choice(names)
            known = stated.setdefault(name, [])
            if known and generator.random() < 0.55:
                calls.append(Call("delete", name, (known.pop(generator.randrange(len(known))), row())))
            else:
                rows = (row(), row())
                known += rows
                calls.append(Call("insert", name, rows))
        transactions.append(tuple(calls))
    assert_follows(replace(MIXED, facts=facts, transactions=tuple(transactions), options=options))


@pytest.mark.parametrize("schemes", [None, {"*": "table"}, {"*": "closure"}, {"*": "union"}], ids=str)
def test_maintaining_is_given_up(schemes: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer than computing anew is taken back and computed anew; the change is exact, too."""
    facts = {"e": [(x, x + 1) for x in range(8)], "f": [(x, x + 2) for x in range(8)]}
    stream = replace(MIXED, facts=facts, options={"schemes": schemes})
    kb, model = started(stream), Model(stream)
    before = model.state()
    monkeypatch.setattr(updater, "_LEAST_PATIENCE", 0)
    monkeypatch.setattr(updater, "_PATIENCE", 0)
    monkeypatch.setattr(stratum, "_FEW", -1)
    for call in (*delete("e", (3, 4)), *insert("e", (3, 3), (0, 8)), *delete("f", (0, 2), (5, 7))):
        with kb.update() as u:
            call.make(u)
        model.take(call)
        after = model.state()
        assert before is not None and after is not None
        assert state_of(kb) == after and not is_maintained(kb)
        assert_is_difference(u.change, before, after)
        before = after


def test_counters_hold_up_what_other_rules_derive() -> None:
    """A fact that a rule outside the recursion derives is not overdeleted, and what follows from it stays."""
    clauses = ("p(x, y) :- e(x, y).", "p(x, y) :- f(x, y).", "p(x, z) :- p(x, y), e(y, z).")
    facts = {"e": [(1, 2), (2, 3), (3, 4)], "f": [(1, 2)]}
    stream = Stream(pairs("e", "f", "p"), clauses, facts, (), {"schemes": {"*": "table"}, "counting": True})
    kb = started(stream)
    with kb.update() as u:
        u.delete("f", [(1, 2)])
    (stratum,) = kb._updater._maintainer.strata
    assert stratum.derivations.counters["p"].all()[1, 2] == (1, 0)
    assert stratum.derivations.counters["p"].all()[1, 4] == (0, 1)
    assert kb.storage["p"].counter_nbytes > 0 and kb.storage["e"].counter_nbytes == 0


@pytest.mark.parametrize("counting", [False, True])
def test_ids_that_only_a_scheme_brings_to_a_column(counting: bool) -> None:
    """An equivalence has its ids in both columns: what reads it must admit them before it runs."""
    declarations = pairs("e", "d") + ".decl q(x: number, y: number) eqrel\n"
    clauses = ("q(t, z) :- e(t, v), q(z, v).", "d(v, v) :- q(_, v).")
    transactions = (insert("q", (0, 0)), insert("e", (70, 3), (5, 70)), delete("q", (0, 0)))
    facts = {"e": [(3, 0), (3, 3)]}
    assert_follows(Stream(declarations, clauses, facts, transactions, {"counting": counting}))
