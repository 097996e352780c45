"""Which recursions through aggregates can go on for ever."""

from __future__ import annotations

import pytest

from gpuengine.language import parse_program
from gpuengine.planning.growth import Growth, growth_of
from gpuengine.planning.selection import selections_of

DECLARED = """
.decl e(x: number, y: number, k: number)
.decl f(x: number, y: number, k: float)
.decl p(x: number, w: number)
.decl q(x: number, w: number)
.decl r(x: number, w: float)
.decl s(x: number)
.decl b(x: number, m: unsigned)
"""


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("p(y, sum w) :- p(x, w), e(x, y, _).", Growth.EXPANDS),
        ("p(y, sum w + k) :- p(x, w), e(x, y, k).", Growth.EXPANDS),
        ("p(y, sum w * k) :- p(x, w), e(x, y, k), k >= 0.", Growth.EXPANDS),
        ("p(y, sum v) :- p(x, w), e(x, y, _), u = w * 2, v = max(u, 3).", Growth.EXPANDS),
        ("p(y, min w - k) :- p(x, w), e(x, y, k).", Growth.EXPANDS),
        ("p(y, min min(w, k)) :- p(x, w), e(x, y, k).", Growth.EXPANDS),
        ("p(y, max k - v) :- q(x, v), e(x, y, k). q(x, min 0 - w) :- p(x, w).", Growth.EXPANDS),
        ("p(y, sum min(w, 9)) :- p(x, w), e(x, y, _).", Growth.ENDS),
        ("p(y, max min(w, k)) :- p(x, w), e(x, y, k).", Growth.ENDS),
        ("p(y, min max(w, k)) :- p(x, w), e(x, y, k).", Growth.ENDS),
        ("p(y, sum k) :- p(x, w), e(x, y, k), w > 3.", Growth.ENDS),
        ("p(y, sum k) :- s(x), e(x, y, k). s(x) :- p(x, w), w > 3.", Growth.ENDS),
        ("b(y, bor m bshl 1) :- b(x, m), e(x, y, _).", Growth.ENDS),
        ("p(y, sum w / 2) :- p(x, w), e(x, y, _).", Growth.UNKNOWN),
        ("r(y, sum w * k) :- r(x, w), f(x, y, k), k >= 0.0.", Growth.UNKNOWN),
        ("r(y, sum w * 1.5) :- r(x, w), f(x, y, _).", Growth.EXPANDS),
        ("p(y, sum w) :- q(x, w), e(x, y, _). q(x, max min(w, 9)) :- p(x, w).", Growth.ENDS),
        ("p(y, sum w) :- p(x, w), e(x, y, _). p(y, sum min(w, 9)) :- p(x, w), e(y, x, _).", Growth.UNKNOWN),
    ],
)
def test_what_is_known_of_the_rounds(rules: str, expected: Growth) -> None:
    program = parse_program(DECLARED + rules)
    merges = {name: one.folds for name, one in selections_of(program).items()}
    found = growth_of(program.rules, merges)
    assert found.growth is expected
    assert bool(found.rules) == (expected is not Growth.ENDS)
