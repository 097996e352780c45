"""Aggregates of floats through updates: what was is found again, although its rows come in another order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import gpuengine as ge
from tests.differential.devices import emulated, on

PROGRAM = """
.decl f(x: number, y: number, v: float, n: number)
.decl sums, means, number_means, joined_sums, head_sums(x: number, k: float)
.decl more(x: number, y: number)
sums(x, k) :- f(x, _, _, _), k = sum v : { f(x, _, v, _) }.
means(x, k) :- f(x, _, _, _), k = mean v : { f(x, _, v, _) }.
number_means(x, k) :- f(x, _, _, _), k = mean n : { f(x, _, _, n) }.
joined_sums(x, k) :- f(x, _, _, _), k = sum (v * w) : { f(x, y, v, _), f(y, _, w, _) }.
head_sums(x, sum v) :- f(x, _, v, _).
more(x, y) :- sums(x, k), sums(y, j), k > j, x < 3.
"""
RELATIONS = ("sums", "means", "number_means", "joined_sums", "head_sums", "more")


def facts_of(random: Random, number: int, count: int) -> list[tuple[int, int, float, int]]:
    return [
        (random.randrange(12), number + at, random.uniform(-1e3, 1e3), random.randint(-(2**62), 2**62))
        for at in range(count)
    ]


@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"device": True}], ids=str)
def test_an_update_is_a_recomputation(options: dict[str, Any]) -> None:
    options = on(emulated()) if "device" in options else options
    random = Random(11)
    facts = facts_of(random, 0, 90)
    kb = ge.Engine(PROGRAM, **options)
    kb.load("f", facts)
    kb.materialise()
    for number in range(1, 6):
        new, gone = facts_of(random, 1000 * number, 4), random.sample(facts, 4)
        with kb.update() as update:
            update.insert("f", new)
            update.delete("f", gone)
        facts = [fact for fact in facts if fact not in gone] + new
        anew = ge.Engine(PROGRAM)
        anew.load("f", random.sample(facts, len(facts)))
        anew.materialise()
        for relation in RELATIONS:
            assert set(kb[relation]) == set(anew[relation]), relation
