"""Yannakakis's reductions on a device: semi-joins of its columns, and joins of what is left, stay there."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gpuengine.evaluation.rules import tree_join
from gpuengine.evaluation.rules.reduction import Reduction
from gpuengine.evaluation.rules.tree_join import TreeJoin
from tests.differential.compare import assert_agrees
from tests.differential.devices import BACK_AND_FORTH, emulated, on
from tests.evaluation.watched import Watched

EDGES = [(n, (7 * n + 3) % 40) for n in range(40)] + [(n, (n * n) % 40) for n in range(40)]
DECLARED = ".decl e(x: number, y: number)\n.decl t(x: number, y: number, z: number)\n"
PROGRAMS = {
    "a square": ".decl r(x: number, u: number, v: number)\nr(x, u, v) :- e(x, u), e(u, y), e(x, v), e(v, y).",
    "one atom needed": ".decl r(x: number, y: number)\nr(x, y) :- e(x, y), e(y, z), e(z, _), t(z, _, _).",
    "a constant in the head": ".decl r(x: number, y: number)\nr(x, 7) :- e(x, y), e(y, z), e(z, w), e(w, x).",
    "constants and equal columns": (
        ".decl r(x: number, y: number)\nr(x, y) :- e(x, y), t(y, y, z), e(z, 3), t(x, w, 4), e(w, _)."
    ),
    "no result": ".decl r(x: number)\nr(x) :- e(x, y), t(y, z, 1000), e(z, w), e(w, x).",
    "recursion": (
        ".decl r(x: number, y: number)\nr(x, y) :- e(x, y).\n"
        "r(x, z) :- r(x, u), e(u, z), r(x, v), e(v, z), e(u, _), e(v, _)."
    ),
    "arithmetic at the end": (
        ".decl r(x: number, y: number)\n"
        "r(x, u + v) :- e(x, u), e(u, y), e(x, v), e(v, y), u < v, (u + v) % 2 = 0."
    ),
}
OPTIONS = {"evaluators": {"*": "hypertree"}}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Reduction]:
    """The reductions that are made: of far fewer facts than those for which they pay off."""
    found: list[Reduction] = []

    class Noted(Reduction):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            found.append(self)

    monkeypatch.setattr(TreeJoin, "is_worth_while", lambda self, variant, cost: True)
    monkeypatch.setattr(tree_join, "Reduction", Noted)
    return found


def facts_of(seed: int) -> dict[str, list[tuple[int, ...]]]:
    random = Random(seed)
    numbers = [tuple(random.randrange(12) for _ in range(3)) for _ in range(60)]
    return {"e": EDGES if seed == 0 else [row[:2] for row in numbers], "t": numbers}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_goes_to_the_host(name: str, made: list[Reduction]) -> None:
    program = DECLARED + PROGRAMS[name]
    run = Watched(program, facts_of(0), **OPTIONS)
    assert run.derived_by_host == []
    assert made and all(one.backend.name == "cuda" for one in made)
    sampled = sum(entry.rows for entry in run.host_work if not entry.operation.derives)
    assert sum(run.sent) <= 4 * sampled, "nothing but the columns that the planner samples"
    for seed in range(2):
        assert_agrees(program, facts_of(seed), **OPTIONS, **on(emulated()))
    assert_agrees(program, facts_of(2), **OPTIONS, **on(emulated(), BACK_AND_FORTH))
