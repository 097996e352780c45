"""Joins by intersection derive what the oracle does, and are chosen where they pay off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.rules import multiway
from gpuengine.planning.evaluators import Evaluator

DECLARATIONS = """.decl e(x: number, y: number)
.decl f(x: number, y: number)
.decl t(x: number, y: number, z: number)
"""
BODIES = {
    "triangle": ("t(x, y, z) :- e(x, y), e(y, z), e(z, x).", "xyz"),
    "two relations": ("t(x, y, z) :- e(x, y), f(y, z), e(x, z).", "xyz"),
    "ordered": ("t(x, y, z) :- e(x, y), e(y, z), e(x, z), x < y, y < z.", "xyz"),
    "negated": ("t(x, y, z) :- e(x, y), e(y, z), e(x, z), !f(z, x).", "xyz"),
    "computed": ("t(x, y, v) :- e(x, y), e(y, z), e(x, z), v = z + 1.", "xyz"),
    "constant in the head": ("t(x, 7, z) :- e(x, y), e(y, z), e(x, z).", "xyz"),
    "projected": ("t(x, x, x) :- e(x, y), e(y, z), e(z, x).", "xyz"),
    "four nodes": ("t(x, y, z) :- e(x, y), e(y, z), e(x, z), e(x, w), e(y, w), e(z, w).", "xyzw"),
}
PAIRS = st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9)), max_size=40)


@pytest.fixture
def intersected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[multiway.Multiway]]:
    """Have small joins intersected, in small chunks; which they were."""
    monkeypatch.setattr(multiway, "LEAST_ROWS", 1)
    monkeypatch.setattr(multiway, "LEAST_FANOUT", 0.0)
    monkeypatch.setattr(multiway, "_LEAST_CHUNK", 1)
    monkeypatch.setattr(multiway, "_MOST_CHUNK", 3)
    monkeypatch.setattr(multiway, "_MOST_EXTENT", 1 << 32)
    seen: list[multiway.Multiway] = []
    original = multiway.intersected
    monkeypatch.setattr(multiway, "intersected", lambda way, c: (seen.append(way), original(way, c))[1])
    yield seen


def brute_force(rule: str, names: str, e: set[tuple[int, int]], f: set[tuple[int, int]]) -> set[object]:
    values = sorted({v for pair in e | f for v in pair})
    found: set[object] = set()

    def extend(bound: dict[str, int]) -> None:
        if len(bound) < len(names):
            for value in values:
                extend({**bound, names[len(bound)]: value})
            return
        x, y, z = (bound[name] for name in "xyz")
        w = bound.get("w", 0)
        cases = {
            "triangle": ({(x, y), (y, z), (z, x)} <= e, (x, y, z)),
            "two relations": ({(x, y), (x, z)} <= e and (y, z) in f, (x, y, z)),
            "ordered": ({(x, y), (y, z), (x, z)} <= e and x < y < z, (x, y, z)),
            "negated": ({(x, y), (y, z), (x, z)} <= e and (z, x) not in f, (x, y, z)),
            "computed": ({(x, y), (y, z), (x, z)} <= e, (x, y, z + 1)),
            "constant in the head": ({(x, y), (y, z), (x, z)} <= e, (x, 7, z)),
            "projected": ({(x, y), (y, z), (z, x)} <= e, (x, x, x)),
            "four nodes": ({(x, y), (y, z), (x, z), (x, w), (y, w), (z, w)} <= e, (x, y, z)),
        }
        holds, fact = cases[rule]
        if holds:
            found.add(fact)

    extend({})
    return found


@pytest.mark.parametrize("rule", BODIES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(e=PAIRS, f=PAIRS, threads=st.sampled_from([1, 2]))
def test_intersections_find_what_brute_force_finds(
    intersected: list[multiway.Multiway],
    rule: str,
    e: list[tuple[int, int]],
    f: list[tuple[int, int]],
    threads: int,
) -> None:
    text, names = BODIES[rule]
    engine = ge.Engine(DECLARATIONS + text, threads=threads, evaluators={"*": "join"})
    engine.load("e", e)
    engine.load("f", f)
    intersected.clear()
    engine.materialise()
    assert set(engine["t"]) == brute_force(rule, names, set(e), set(f))
    if e and (rule != "two relations" or f):
        is_looked_for = rule in ("projected", "four nodes")
        assert bool(intersected) != is_looked_for, "a pipeline ends at the first value that it finds"


def test_what_other_rules_derived_is_kept(intersected: list[multiway.Multiway]) -> None:
    text = "t(x, y, z) :- e(x, y), e(y, z), e(z, x).\nt(x, x, x) :- f(x, _).\nt(x, y, z) :- t(y, z, x)."
    engine = ge.Engine(DECLARATIONS + text)
    engine.load("e", [(1, 2), (2, 3), (3, 1)])
    engine.load("f", [(5, 6)])
    engine.load("t", [(1, 2, 3), (9, 8, 7)])
    engine.materialise()
    turned = {(1, 2, 3), (2, 3, 1), (3, 1, 2), (9, 8, 7), (8, 7, 9), (7, 9, 8), (5, 5, 5)}
    assert set(engine["t"]) == turned and intersected


def test_ids_far_apart_are_not_counted_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CSR over billions of ids would not fit."""
    monkeypatch.setattr(multiway, "LEAST_ROWS", 1)
    monkeypatch.setattr(multiway, "LEAST_FANOUT", 0.0)
    engine = ge.Engine(DECLARATIONS + BODIES["triangle"][0])
    engine.load("e", [(1, 16_000_000), (16_000_000, 5), (5, 1)])
    engine.materialise()
    assert len(engine["t"]) == 3


def test_small_relations_are_probed(intersected: list[multiway.Multiway]) -> None:
    multiway.LEAST_ROWS = 1 << 14  # the fixture puts it back
    engine = ge.Engine(DECLARATIONS + BODIES["triangle"][0])
    engine.load("e", [(1, 2), (2, 3), (3, 1)])
    engine.materialise()
    assert len(engine["t"]) == 3 and not intersected


def test_triangles_are_not_cut_into_paths() -> None:
    """However many paths of two edges there are, the intersections do not list them."""
    rule = BODIES["triangle"][0]
    engine = ge.Engine(DECLARATIONS + rule)
    hub = [(x, y) for x in range(400) for y in (x, 0, 1, 2)] + [(x, y) for x in (0, 1, 2) for y in range(400)]
    engine.load("e", hub)
    engine.materialise()
    assert engine.database is not None
    (choice,) = engine.database.evaluators.choices.values()
    assert choice.evaluator is Evaluator.JOIN
