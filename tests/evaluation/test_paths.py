"""Compiled small rounds, rounds driven from Python, many threads, tiny buffers: all derive the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.evaluation.driver import stratum
from gpuengine.evaluation.driver.small_rounds import SmallRounds
from gpuengine.evaluation.driver.stratum import StratumEvaluation
from tests.differential.compare import assert_agrees, engine_facts
from tests.evaluation.forced import forced
from tests.generated import Case
from tests.planning.random_recursion import recursive_program
from tests.strategies import cases, counters

PATHS: dict[str, dict[str, int]] = {
    "small rounds": {"small_delta": 10**9, "small_work": 10**9},
    "large rounds": {"small_delta": 0},
    "back and forth": {"small_delta": 4, "small_work": 4},
    "tiny buffers": {"small_delta": 0, "chunk_rows": 1, "buffer_rows": 1},
}


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.sampled_from(sorted(PATHS)), st.sampled_from([1, 2, 4]))
def test_recursive_programs(seed: int, path: str, threads: int) -> None:
    text, facts = recursive_program(seed)
    with forced(**PATHS[path]):
        assert_agrees(text, facts, threads=threads)


@settings(max_examples=40)
@given(cases(), st.sampled_from(sorted(PATHS)), st.sampled_from([1, 2]))
def test_any_program(case: Case, path: str, threads: int) -> None:
    with forced(**PATHS[path]):
        assert_agrees(str(case), case.facts, threads=threads)


@settings(max_examples=10)
@given(counters(), st.sampled_from(sorted(PATHS)))
def test_programs_that_compute(case: Case, path: str) -> None:
    with forced(**PATHS[path]):
        assert_agrees(str(case), case.facts)


MUTUAL = """
.decl edge(x: number, y: number)
.decl odd(x: number, y: number)
.decl even(x: number, y: number)
.decl same(x: number, y: number)
.input edge
.output odd
.output even
.output same
odd(x, y) :- edge(x, y).
odd(x, z) :- even(x, y), edge(y, z).
even(x, z) :- odd(x, y), odd(y, z).
same(x, y) :- odd(x, y), even(x, y), x < y.
same(x, z) :- same(x, y), same(y, z), !edge(x, z).
"""


def graph(nodes: int, edges: int) -> dict[str, list[tuple[Any, ...]]]:
    random = Random(nodes)
    return {"edge": sorted({(random.randrange(nodes), random.randrange(nodes)) for _ in range(edges)})}


@pytest.fixture(scope="module")
def expected() -> dict[str, set[tuple[Any, ...]]]:
    found = engine_facts(MUTUAL, graph(90, 150), threads=1)
    assert found is not None and len(found["odd"]) > 1000 and len(found["same"]) > 100
    return found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_and_paths_agree(expected: dict[str, set[Any]], path: str, threads: int) -> None:
    with forced(**PATHS[path]):
        assert engine_facts(MUTUAL, graph(90, 150), threads=threads) == expected


def test_the_expected_facts_are_right(expected: dict[str, set[Any]]) -> None:
    edges = set(graph(90, 150)["edge"])
    odd: set[tuple[int, ...]] = set(edges)
    even: set[tuple[int, ...]] = set()
    while True:
        after: dict[int, set[int]] = {}
        for x, y in odd:
            after.setdefault(x, set()).add(y)
        steps: dict[int, set[int]] = {}
        for x, y in edges:
            steps.setdefault(x, set()).add(y)
        more_even = {(x, z) for x, y in odd for z in after.get(y, ())}
        more_odd = {(x, z) for x, y in even for z in steps.get(y, ())}
        if more_even <= even and more_odd <= odd:
            break
        even, odd = even | more_even, odd | more_odd
    assert expected["odd"] == odd and expected["even"] == even


@pytest.mark.parametrize(("path", "compiled"), [("small rounds", True), ("large rounds", False)])
def test_the_path_is_the_one_that_was_forced(
    monkeypatch: pytest.MonkeyPatch, path: str, compiled: bool
) -> None:
    calls = {"compiled": 0, "python": 0}
    run_round = StratumEvaluation.run_round

    def small(*args: Any) -> Any:
        calls["compiled"] += 1
        return SmallRounds(*args)

    def large(self: StratumEvaluation) -> int:
        calls["python"] += 1
        return run_round(self)

    monkeypatch.setattr(stratum, "SmallRounds", small)
    monkeypatch.setattr(StratumEvaluation, "run_round", large)
    with forced(**PATHS[path]):
        engine_facts(MUTUAL, graph(90, 150), threads=1)
    assert (calls["compiled"] > 0) == compiled and (calls["python"] > 0) != compiled
