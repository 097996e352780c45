"""Which relations keep less than is derived, and which subsumptions are taken as min or max."""

from __future__ import annotations

import pytest

from gpuengine.language import parse_program
from gpuengine.language.program import Merge
from gpuengine.planning.selection import selections_of, selective_strata

DECLARED = """
.decl e(x: number, y: number, w: number)
.decl p(x: number, w: number)
.decl q(x: number)
p(x, w) :- e(x, _, w).
"""
RECURSION = "p(y, a + w) :- p(x, a), e(x, y, w).\n"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("p(x, a) <= p(x, b) :- b < a.", Merge(1, "min")),
        ("p(x, a) <= p(x, b) :- a >= b.", Merge(1, "min")),
        ("p(x, a) <= p(x, b) :- a < b.", Merge(1, "max")),
        ("p(x, a) <= p(x, b) :- b < a, x > 1.", None),
        ("p(x, a) <= p(y, b) :- b < a.", None),
        ("p(x, a) <= p(x, b) :- a != b.", None),
        ("p(x, a) <= p(x, b) :- b < a; b = 3.", None),
        ("p(x, _) <= p(x, 3) :- q(x).", None),
    ],
)
def test_a_better_value_of_the_same_key_is_a_merge(rule: str, expected: Merge | None) -> None:
    (selection,) = selections_of(parse_program(DECLARED + RECURSION + rule)).values()
    assert selection.merge == expected
    assert selection.subsumptions


def test_it_is_none_if_rounds_matter() -> None:
    """What follows from a value that is bettered later stays, as in Soufflé."""
    text = DECLARED + "q(a) :- p(_, a).\np(x, a) :- q(a), e(x, _, _).\np(x, a) <= p(x, b) :- b < a."
    program = parse_program(text)
    assert selections_of(program)["p"].merge is None
    assert selective_strata(program) == {"p", "q"}


def test_floats_have_values_that_do_not_compare() -> None:
    text = ".decl p(x: number, w: float)\np(x, a) <= p(x, b) :- b < a."
    assert selections_of(parse_program(text))["p"].merge is None
    assert selections_of(parse_program(".decl p(x: number, w: float)\np(1, min 2.0)."))["p"].merge == Merge(
        1, "min"
    )


def test_what_is_said_of_them() -> None:
    text = ".decl p(x: number, y: number, w: number) choice-domain x, (y, w)\n.decl q(w: number)\nq(max 1)."
    found = selections_of(parse_program(text))
    assert found["p"].describe(("x", "y", "w")) == "keeps one fact for each x and for each y, w"
    assert found["q"].describe(("w",)) == "keeps the max of w"
