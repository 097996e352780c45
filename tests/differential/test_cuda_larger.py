"""Thousands of facts with every rule on an emulated device: what it derives is what the host derives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuengine as ge
from gpuengine.evaluation.thresholds import Thresholds
from tests.differential.compare import checked, rows_of
from tests.differential.devices import BACK_AND_FORTH, EVERYWHERE, emulated, on
from tests.differential.test_larger_data import SPREAD
from tests.differential.test_larger_programs import SemiNaive, TooBigError, example

Facts = dict[str, list[tuple[Any, ...]]]

PROGRAMS = {
    "linear closure": """
        .decl edge(x: TYPE, y: TYPE)
        .decl r(x: TYPE, y: TYPE)
        r(x, y) :- edge(x, y).
        r(x, z) :- r(x, y), edge(y, z).
    """,
    "nonlinear closure": """
        .decl edge(x: TYPE, y: TYPE)
        .decl r(x: TYPE, y: TYPE)
        r(x, y) :- edge(x, y).
        r(x, z) :- r(x, y), r(y, z).
    """,
    "triangles and squares": """
        .decl edge(x: TYPE, y: TYPE)
        .decl r(x: TYPE, y: TYPE, z: TYPE)
        .decl s(a: TYPE, b: TYPE, c: TYPE, d: TYPE)
        r(x, y, z) :- edge(x, y), edge(y, z), edge(z, x).
        s(a, b, c, d) :- edge(a, b), edge(b, c), edge(c, d), edge(d, a), !edge(a, c).
    """,
    "same generation": """
        .decl edge(x: TYPE, y: TYPE)
        .decl r(x: TYPE, y: TYPE)
        r(x, y) :- edge(x, p), edge(y, p), x != y.
        r(x, y) :- edge(x, p), r(p, q), edge(y, q).
    """,
    "negation and aggregates": """
        .decl edge(x: TYPE, y: TYPE)
        .decl degree(x: TYPE, n: number)
        .decl r(x: TYPE, y: TYPE, n: number)
        degree(x, n) :- edge(x, _), n = count : { edge(x, _) }.
        r(y, x, n + m) :- edge(x, y), !edge(y, x), degree(x, n), degree(y, m), n < m.
    """,
    "wide": """
        .decl edge(x: TYPE, y: TYPE)
        .decl r(a: TYPE, b: TYPE, c: TYPE, d: TYPE, e: TYPE)
        .decl back(a: TYPE, e: TYPE)
        r(a, b, c, b, a) :- edge(a, b), edge(b, c), edge(c, _).
        r(e, d, c, b, a) :- r(a, b, c, d, e), edge(c, a).
        back(a, e) :- r(a, b, c, _, e), edge(e, c), !edge(b, a).
    """,
}


def derive(program: str, facts: Facts, **options: Any) -> dict[str, set[tuple[Any, ...]]]:
    kb = ge.Engine(program, **options)
    for name, rows in facts.items():
        kb.load(name, rows)
    kb.materialise()
    return {name: rows_of(kb, name) for name in checked(program).relations}


@pytest.mark.parametrize("spread", ["small", "around 2^24", "scattered", "symbol"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_over_a_random_graph(name: str, spread: str) -> None:
    type_, value = SPREAD[spread]
    program = PROGRAMS[name].replace("TYPE", type_)
    pairs = np.random.default_rng(7).integers(0, 300, (600, 2)).tolist()
    facts: Facts = {"edge": [(value(x), value(y)) for x, y in pairs]}
    expected = derive(program, facts, backend="cpu")
    assert sum(map(len, expected.values())) > len(pairs)
    for chunk in (None, 5000):
        backend = emulated(chunk_items=chunk)
        assert derive(program, facts, **on(backend)) == expected
        assert backend.device.statistics.launches > 10


@pytest.mark.parametrize("budget", [100_000, 300_000, 1_000_000, 3_000_000])
@pytest.mark.parametrize("name", ["linear closure", "triangles and squares", "wide"])
def test_program_with_little_device_memory(name: str, budget: int) -> None:
    """It runs where it fits; otherwise cold rows leave the device, chunks shrink, or the host takes over."""
    program = PROGRAMS[name].replace("TYPE", "number")
    pairs = np.random.default_rng(8).integers(0, 250, (700, 2)).tolist()
    facts: Facts = {"edge": [(x * 16_777_259, y * 16_777_259) for x, y in pairs]}
    backend = emulated(budget)
    assert derive(program, facts, **on(backend)) == derive(program, facts, backend="cpu")
    assert backend.device.statistics.peak_bytes <= budget


@pytest.mark.parametrize("thresholds", [EVERYWHERE, BACK_AND_FORTH], ids=["stays", "back and forth"])
def test_random_recursive_joins(thresholds: Thresholds) -> None:
    compared = 0
    for seed in range(1000, 1020):
        given = example(seed)
        try:
            expected = SemiNaive(given).run()
        except TooBigError:
            continue
        facts: Facts = {name: sorted(rows) for name, rows in given.facts.items()}
        found = derive(given.text(), facts, **on(emulated(), thresholds))
        assert found == expected, f"seed {seed}\n{given.text()}"
        compared += 1
    assert compared > 7


@pytest.mark.parametrize("percent", [35, 50, 60, 70, 75, 80, 85, 90, 95, 99])
def test_nonlinear_closure_at_any_budget(percent: int) -> None:
    """Wherever memory ends, the facts that are on the device by then come to the host."""
    program = PROGRAMS["nonlinear closure"].replace("TYPE", "number")
    pairs = np.random.default_rng(5).integers(0, 153, (679, 2)).tolist()
    facts: Facts = {"edge": [(x * 16_777_259, y * 16_777_259) for x, y in pairs]}
    plenty = emulated()
    expected = derive(program, facts, **on(plenty))
    budget = plenty.device.statistics.peak_bytes * percent // 100
    assert derive(program, facts, **on(emulated(budget))) == expected
