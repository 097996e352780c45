"""Programs that the random search once found wrong, kept in their smallest form."""

from __future__ import annotations

from typing import Any

import pytest

from tests.differential.compare import assert_agrees

FOUND: dict[str, tuple[str, dict[str, list[tuple[Any, ...]]]]] = {
    "two rules without atoms derive one fact": (
        ".decl r(x: number)\n.output r\nr(1) :- (0 = 0 ; 0 = 0).",
        {},
    ),
    "two rules without atoms derive a nullary fact": (
        ".decl r()\n.output r\nr() :- (0 = 0 ; 0 = 0).",
        {},
    ),
    "columns whose ids overlap in part": (
        ".decl e(x: number, y: number)\n.decl r(x: number, y: number)\n.output r\n"
        "r(x, x) :- e(x, _), e(_, x).",
        {"e": [(0, 1), (38, 39), (1, 38)]},
    ),
    "columns that have no id in common": (
        ".decl p(x: number)\n.decl q(x: number, y: number)\n.decl r(x: number, y: number)\n.output r\n"
        "r(y, x) :- p(x), q(x, y), v = 1.5 + 2.0.",
        {"p": [(2**24 + 1,)], "q": [(2**24 - 1, 2**24 + 1)]},
    ),
    "a variable that equals a constant of the head": (
        ".decl p(x: number)\n.decl r(x: number, y: number)\n.output r\n"
        "r(5, x) :- p(_), p(x), (7 <= x ; 5 = x).",
        {"p": [(17,), (1,), (5,)]},
    ),
}


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("threads", [1, 2])
def test_found(name: str, threads: int) -> None:
    program, facts = FOUND[name]
    assert_agrees(program, facts, threads=threads)
