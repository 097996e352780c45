"""Groundedness and stratification."""

from __future__ import annotations

import pytest

from gpuengine.language import parse_program
from tests.language.rendering import codes_of, diagnostics, errors

P = """.decl a(x: number) .decl b(x: number) .decl c(x: number) .decl e(x: number, y: number)
.type R = [x: number, y: R] .decl r(x: R)
"""


@pytest.mark.parametrize(
    "rule",
    [
        "a(x) :- b(y), x = y + 1.",
        "a(x) :- y + 1 = x, b(y).",
        "a(x) :- x = z, z = y, y = 1.",
        "a(x) :- r([x, _]).",
        "a(x) :- r(l), l = [_, [x, _]].",
        "a(x) :- x = range(1, 5).",
        "a(s) :- s = count : { b(_) }.",
        "a(x) :- b(x), !e(x, _).",
        "r([x, r]) :- b(x), r(r).",
        "a(1) :- 1 = 1.",
        "a(x) :- r([x, y]), y = [x, nil].",
        "a(x) :- b(x), x < y, y = 3.",
    ],
)
def test_grounded(rule: str) -> None:
    assert len(parse_program(P + rule).rules) == 1


@pytest.mark.parametrize(
    ("rule", "columns"),
    [
        ("a(x).", [3]),
        ("a(x) :- b(y).", [3]),
        ("a(x) :- b(y), x < y.", [3]),
        ("a(x) :- x = y.", [3, 13]),
        ("a(x) :- b(y), x + 1 = y.", [3]),
        ("a(x) :- b(x), !c(y).", [18]),
        ("a(x) :- b(x), x != y.", [20]),
        ("a(x) :- e(x + 1, _).", [3]),
        ("r(x) :- x = [y, z], b(y).", [3, 17]),
        ("a(x) :- b(x) ; c(y).", [3]),
        ("a(x) :- x = range(1, y).", [3, 22]),
        ("a(s) :- s = sum y : { b(z), y > z }.", [29]),
        ("a(x) :- x = x.", [3]),
    ],
)
def test_ungrounded(rule: str, columns: list[int]) -> None:
    assert errors(P + rule) == [("E0401", 3, column) for column in columns]


def test_every_ungrounded_variable_is_shown() -> None:
    assert errors(P + "a(x), b(y) :- c(z), !e(z, w).") == [
        ("E0401", 3, 3),
        ("E0401", 3, 9),
        ("E0401", 3, 27),
    ]


def test_long_bodies_in_the_worst_order() -> None:
    equations = ", ".join(f"x{n} = x{n + 1} + 1" for n in range(1500))
    assert len(parse_program(P + f"a(x0) :- {equations}, b(x1500).").rules[0].body) == 1501


def test_stratified() -> None:
    text = P + "a(x) :- b(x), !c(x). c(x) :- b(x), 3 < count : { e(x, _) }. e(x, y) :- e(y, x)."
    assert len(parse_program(text).rules) == 3


def test_negation_in_a_cycle_shows_the_cycle() -> None:
    found = diagnostics(P + "a(x) :- b(x).\nb(x) :- c(x), !a(x).\nc(x) :- e(x, _).")
    assert [error.code for error in found] == ["E0403"]
    assert found[0].message == "b is defined through its own negation: b -> !a -> b"
    assert found[0].notes == ("b reads !a at <program>:4:16", "a reads b at <program>:3:9")
    assert (found[0].span.line, found[0].span.column) == (4, 16)


def test_aggregates_in_a_cycle() -> None:
    found = diagnostics(P + "a(x) :- b(x), 1 < count : { e(y, x), !c(y) }. c(x) :- a(x).")
    assert [error.message for error in found] == [
        "a is defined through its own aggregate (count): a -> count c -> a"
    ]


def test_each_group_is_shown_once() -> None:
    assert codes_of(P + "a(x) :- b(x), !a(x), !a(x). c(x) :- b(x), !c(x). c(x) :- a(x), !c(x).") == [
        "E0403",
        "E0403",
    ]


def test_a_long_chain_of_relations() -> None:
    count = 2_000
    text = "".join(f".decl p{n}(x: number)\np{n}(x) :- p{n - 1}(x).\n" for n in range(1, count))
    assert len(parse_program(".decl p0(x: number)\n" + text).rules) == count - 1
    assert codes_of(".decl p0(x: number)\n" + text + f"p0(x) :- p1(x), !p{count - 1}(x).") == ["E0403"]
