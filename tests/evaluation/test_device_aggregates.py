"""Aggregates on a device: no binding goes to the host, and they are what the oracle says."""

from __future__ import annotations

from random import Random

import pytest

from gpuengine.errors import FunctorError
from tests.differential.compare import assert_agrees
from tests.differential.devices import BACK_AND_FORTH, emulated, on, simulated
from tests.evaluation.watched import Watched

EDGES = [(n, n + 1) for n in range(30)] + [(n, 2 * n) for n in range(30)] + [(3, n) for n in range(30)]
DECLARED = ".decl edge(x: number, y: number)\n.decl r(x: number, n: number)\n"
INTEGERS = {
    "count": "r(x, n) :- edge(_, x), n = count : { edge(x, _) }.",
    "count of nothing": "r(x, n) :- edge(_, x), n = count : { edge(x, y), y > 1000 }.",
    "sum": "r(x, n) :- edge(_, x), n = sum (y * x - 7) : { edge(x, y), y % 2 = 0 }.",
    "min": "r(x, n) :- edge(_, x), n = min (y - 10) : { edge(x, y) }.",
    "max": "r(x, n) :- edge(_, x), n = max (0 - y) : { edge(x, y), edge(y, _) }.",
    "nothing outside": "r(0, n) :- n = sum 2 : { edge(_, _) }.",
    "two outside": "r(x, n) :- edge(x, y), n = count : { edge(x, z), edge(z, y) }, n > 0.",
    "three outside": "r(x, n) :- edge(x, y), edge(y, z), n = max w : { edge(x, w), w < y + z }.",
    "a known result": "r(x, n) :- edge(x, n), n = count : { edge(_, x) }.",
    "negation inside": "r(x, n) :- edge(x, _), n = count : { edge(x, y), !edge(y, x) }.",
    "two of them": "r(x, n + m) :- edge(x, _), n = count : { edge(x, _) }, m = min y : { edge(x, y) }.",
}


@pytest.mark.parametrize("name", INTEGERS)
def test_nothing_but_new_values_goes_to_the_host(name: str) -> None:
    program = DECLARED + INTEGERS[name]
    run = Watched(program, {"edge": EDGES})
    negative = {n for _, n in run.engine["r"] if n < 0}
    if name in ("min", "max"):
        assert sum(run.sent) >= 8 * len(negative) > 0, "values that are not their own ids"
        assert sum(run.sent) <= 8 * 100
    else:
        assert run.sent == []
    assert run.derived_by_host == []
    assert_agrees(program, {"edge": EDGES}, **on(emulated()))


NUMBERS = """
.decl given(g: number, n: number, u: unsigned, f: float)
.decl group(g: number)
.decl numbers(g: number, n: number)
.decl naturals(g: number, u: unsigned)
.decl floats(g: number, f: float)
group(g) :- given(g, _, _, _).
group(99).
numbers(g, n) :- group(g), n = min m : { given(g, m, _, _) }.
numbers(g, n) :- group(g), n = max m : { given(g, m, _, _) }.
numbers(g, n) :- group(g), n = sum m : { given(g, m, _, _) }.
naturals(g, u) :- group(g), u = min v : { given(g, _, v, _) }.
naturals(g, u) :- group(g), u = max v : { given(g, _, v, _) }.
naturals(g, u) :- group(g), u = sum v : { given(g, _, v, _) }.
floats(g, f) :- group(g), f = min h : { given(g, _, _, h) }.
floats(g, f) :- group(g), f = max h : { given(g, _, _, h) }.
floats(g, f) :- group(g), f = sum h : { given(g, _, _, h) }.
floats(g, f) :- group(g), f = mean h : { given(g, _, _, h) }.
floats(g, f) :- group(g), f = mean n : { given(g, n, _, _) }.
"""


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_number(seed: int) -> None:
    """Extreme integers, and floats whose sums are exact in any order."""
    random = Random(seed)
    integers = [0, 1, -1, 2**24, 2**40, -(2**40)]
    extremes = [*integers, 2**63 - 1, -(2**63)]
    naturals = [0, 1, 2**24 - 1, 2**24, 2**63, 2**64 - 1]
    facts = [
        (
            g,
            random.choice(integers if g else extremes[:6]),
            random.choice(naturals),
            random.randint(-99, 99) / 4,
        )
        for g in range(5)
        for _ in range(random.randint(1, 12))
    ]
    run = Watched(NUMBERS, {"given": facts})
    assert run.derived_by_host == []
    assert_agrees(NUMBERS, {"given": facts}, **on(emulated()))
    if seed == 0:
        assert_agrees(NUMBERS, {"given": facts}, **on(emulated(), BACK_AND_FORTH))
        assert_agrees(NUMBERS, {"given": facts[:9]}, **on(simulated()))


def test_extremes_of_integers() -> None:
    facts = [(1, n, n % 2**64, 0.0) for n in (2**63 - 1, -(2**63), 0, -1)] + [(2, 2**63 - 1, 0, 0.5)]
    program = "\n".join(line for line in NUMBERS.splitlines() if "mean" not in line)
    assert_agrees(program, {"given": facts}, **on(emulated()))


def test_a_division_by_zero_inside_is_told_as_on_the_host() -> None:
    with pytest.raises(FunctorError, match="division of 10 by zero"):
        Watched(
            f"{DECLARED}r(x, n) :- edge(x, _), n = sum (10 / (y - 3)) : {{ edge(x, y) }}.", {"edge": EDGES}
        )


def test_aggregates_of_what_the_host_computes_are_the_hosts() -> None:
    program = ".decl e(x: number, s: symbol)\n.decl r(x: number, n: number)\n"
    program += "r(x, n) :- e(x, _), n = sum strlen(t) : { e(x, t) }."
    run = Watched(program, {"e": [(n % 3, "s" * n) for n in range(9)]})
    assert [operation for operation, _, _ in run.derived_by_host] == ["aggregate"]
    assert set(run.engine["r"]) == {(0, 9), (1, 12), (2, 15)}


def test_waits_do_not_grow_with_the_bindings() -> None:
    program = DECLARED + INTEGERS["sum"]
    waits = []
    for rows in (100, 150_000):
        run = Watched(program, {"edge": [(n % 1000, n // 100) for n in range(rows)]})
        assert run.derived_by_host == []
        waits.append(run.device.statistics.syncs)
    assert waits[1] <= waits[0] + 6 and waits[0] < 40
