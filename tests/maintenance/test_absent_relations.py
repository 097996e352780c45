"""Rules that hold while a relation has no fact at all: it empties and fills under prepared rules."""

from __future__ import annotations

import pytest

import gpuengine as ge

PROGRAM = """
.decl e(x: number)
.decl r(x: number, y: number)
.decl alone(x: number)
.decl idle()
.output alone
alone(x) :- e(x), !r(_, _).
idle() :- !r(_, _).
"""


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("scheme", ["auto", "table", "union"])
def test_a_relation_empties_and_fills_again(scheme: str, counting: bool) -> None:
    kb = ge.Engine(PROGRAM, schemes={"*": scheme}, counting=counting)
    kb.materialise()
    first: set[int] = set()
    second: set[tuple[int, int]] = set()
    steps = [
        (+1, {1}, set()),
        (+1, set(), {(1, 1), (2, 2)}),
        (+1, {2}, set()),
        (-1, set(), {(1, 1)}),
        (+1, {3}, set()),
        (-1, set(), {(2, 2)}),
        (+1, {4}, set()),
        (-1, {1}, set()),
        (+1, {5}, {(7, 7)}),
        (-1, {5}, {(7, 7)}),
    ]
    for sign, some, others in steps:
        with kb.update() as update:
            change = update.insert if sign > 0 else update.delete
            change("e", [(x,) for x in some])
            change("r", list(others))
        first = first | some if sign > 0 else first - some
        second = second | others if sign > 0 else second - others
        assert {x for (x,) in kb["alone"]} == (set() if second else first)
        assert len(kb["idle"]) == (not second)
