"""Witnesses of ``min`` and ``max``: bound where nothing else binds them."""

from __future__ import annotations

import gpuengine as ge
from tests.language.rendering import codes_of, rules

DECLARED = ".decl s(n: symbol, x: number, c: number)\n.decl r(n: symbol, x: number)\n"


def test_the_body_stands_once_more_for_the_result() -> None:
    (rule,) = rules(DECLARED + "r(n, h) :- h = max x : { s(n, x, _) }.")
    assert rule.count("s(") == 2


def test_what_is_bound_outside_is_no_witness() -> None:
    (rule,) = rules(DECLARED + "r(n, h) :- s(n, _, _), h = max x : { s(n, x, _) }.")
    assert rule.count("s(") == 2  # one of which is outside already


def test_other_aggregates_have_none() -> None:
    for text in ("count : { s(n, _, _) }", "sum x : { s(n, x, _) }"):
        assert set(codes_of(DECLARED + f"r(n, h) :- h = {text}.")) == {"E0401"}


def test_queries_and_updates() -> None:
    kb = ge.Engine(DECLARED + ".input s\nr(n, h) :- h = max x : { s(n, x, c), c > 0 }.")
    kb.load("s", [("a", 1, 1), ("b", 2, 1), ("c", 9, 0)])
    kb.materialise()
    assert kb["r"].to_pylist() == [("b", 2)]
    assert set(kb.query('h = min x : { s(n, x, _) }, n != ""').to_pylist()) == {(1, "a")}
    with kb.update() as update:
        update.insert("s", [("d", 2, 5)])
    assert set(kb["r"].to_pylist()) == {("b", 2), ("d", 2)}
    with kb.update() as update:
        update.delete("s", [("b", 2, 1), ("d", 2, 5)])
    assert kb["r"].to_pylist() == [("a", 1)]


FACTS = [("a", 1, 1), ("b", 4, 1), ("c", 3, 2), ("d", 2, 2), ("e", 4, 2)]
INSIDE = "z = max y : { s(n, y, k) }"


def _found(rule: str) -> set[object]:
    kb = ge.Engine(DECLARED + ".decl g(k: number)\n.input s\n.input g\n" + rule)
    kb.load("s", FACTS)
    kb.load("g", [(1,), (2,)])
    kb.materialise()
    return set(kb["r"].to_pylist())


def test_a_witness_of_an_aggregate_inside_another() -> None:
    """The least of the largest of each group is 4: b has it in the one, e in the other."""
    assert _found(f"r(n, h) :- h = min z : {{ g(k), {INSIDE} }}.") == {("b", 4), ("e", 4)}
    only_d = "z = min y : { s(n, y, k), y > 1 }"
    assert _found(f"r(n, h) :- h = min z : {{ g(k), {only_d} }}.") == {("d", 2)}
    assert _found(f"r(n, h) :- h = min z + k : {{ g(k), {INSIDE} }}.") == {("b", 5)}
    assert _found('r("", h) :- h = sum ord(n) * 0 + z : { g(k), ' + INSIDE + " }.") == {("", 8)}


def test_a_witness_does_not_leave_a_sum() -> None:
    text = DECLARED + f"r(n, h) :- h = sum z : {{ s(_, _, k), {INSIDE} }}."
    assert list(codes_of(text)) == ["E0401"]  # of n; the sum is there once n is
