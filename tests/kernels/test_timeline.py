"""The contract of interval operations: the compiled form does what the reference, time by time, does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gpuengine.kernels.cpu.timeline import CpuTimeline
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.timeline import CudaTimeline
from gpuengine.kernels.timeline import (
    INFINITY,
    MINUS_INFINITY,
    NO_ROW,
    Chain,
    Choice,
    Pool,
    Reader,
    Runs,
    Shift,
    Timeline,
)
from tests.kernels.cuda.simulator import SimulatedDevice
from tests.kernels.reference_timeline import ReferenceTimeline

CPU, REFERENCE = CpuTimeline(), ReferenceTimeline()
on_each = pytest.mark.parametrize(
    "ours",
    [CPU, CudaTimeline(EmulatedDevice(2)), CudaTimeline(SimulatedDevice(threads=8, block=4))],
    ids=["cpu", "cuda-emulated", "cuda-simulator"],
)
Row = list[tuple[int, int]]


def random_row(rng: random.Random, most: int = 4) -> Row:
    """Coalesced intervals, some of them infinite, some points, some gaps."""
    cuts = sorted(rng.sample(range(-13, 14), 2 * rng.randint(0, most)))
    row = [(cuts[k], cuts[k + 1] - (rng.random() < 0.5)) for k in range(0, len(cuts), 2)]
    row = [(low, up) for low, up in row if low <= up]
    if row and rng.random() < 0.15:
        row[0] = (MINUS_INFINITY, row[0][1])
    if row and rng.random() < 0.15:
        row[-1] = (row[-1][0], INFINITY)
    found: Row = []
    for low, up in row:
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(up, found[-1][1]))
        else:
            found.append((low, up))
    return found


def runs_of(rows: list[Row], rng: random.Random | None = None) -> Runs:
    """Rows in arrays; with `rng` in any order, with gaps between, and with flags."""
    order = list(range(len(rows)))
    gap = 0
    if rng is not None:
        rng.shuffle(order)
        gap = rng.randint(0, 2)
    starts, counts = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    lower: list[int] = []
    upper: list[int] = []
    for row in order:
        lower += [7] * gap
        upper += [-7] * gap
        starts[row], counts[row] = len(lower), len(rows[row])
        lower += [low for low, _ in rows[row]]
        upper += [up for _, up in rows[row]]
    flags = [rng.randint(0, 1) if rng is not None else 0 for _ in lower]
    return Runs(
        starts, counts, np.array(lower, np.int64), np.array(upper, np.int64), np.array(flags, np.uint8)
    )


def listed(runs: Runs, rows: int | None = None) -> list[Row]:
    found = []
    for row in range(len(runs) if rows is None else rows):
        places = range(int(runs.starts[row]), int(runs.starts[row] + runs.counts[row]))
        found.append([(int(runs.lower[k]), int(runs.upper[k])) for k in places])
    return found


def reader(rng: random.Random, count: int) -> Reader:
    rows = [random_row(rng) for _ in range(count)]
    places = [NO_ROW if rng.random() < 0.1 else rng.randrange(count) for _ in range(count)]
    choice = rng.choice(list(Choice))
    return Reader(runs_of(rows, rng), np.array(places, np.uint32), choice)


RANGES = [
    (0, 0),
    (0, 4),
    (1, 4),
    (0, 3),
    (1, 3),
    (1, 1),
    (2, 2),
    (2, 6),
    (3, 7),
    (0, INFINITY),
    (1, INFINITY),
    (3, INFINITY),
]


@on_each
@pytest.mark.parametrize("shift", Shift)
@pytest.mark.parametrize("ends", RANGES)
def test_shift(ours: Timeline, shift: Shift, ends: tuple[int, int]) -> None:
    rng = random.Random(f"{shift} {ends}")
    operand = reader(rng, 12)
    found = ours.fetched(ours.shift(operand, shift, *ends))
    assert listed(found) == listed(REFERENCE.shift(operand, shift, *ends))


@on_each
@pytest.mark.parametrize("chain", Chain)
@pytest.mark.parametrize("ends", RANGES)
def test_chain(ours: Timeline, chain: Chain, ends: tuple[int, int]) -> None:
    rng = random.Random(f"{chain} {ends}")
    left, right = reader(rng, 6), reader(rng, 6)
    found = ours.fetched(ours.chain(left, right, chain, *ends))
    assert listed(found) == listed(REFERENCE.chain(left, right, chain, *ends))


@on_each
@pytest.mark.parametrize("seed", range(20))
def test_sets(ours: Timeline, seed: int) -> None:
    rng = random.Random(seed)
    left, right = reader(rng, 20), reader(rng, 20)
    both, expected = ours.intersect(left, right), REFERENCE.intersect(left, right)
    assert listed(ours.fetched(both)) == listed(expected)
    assert ours.holding(both).tolist() == REFERENCE.holding(expected).tolist()
    assert listed(ours.fetched(ours.complement(left))) == listed(REFERENCE.complement(left))


@on_each
@pytest.mark.parametrize("seed", range(20))
def test_marks(ours: Timeline, seed: int) -> None:
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(20)]

    def part(low: int, up: int) -> tuple[int, int]:
        return low, up if up == INFINITY else max(low, up - rng.randint(0, 1))

    old = [[part(*interval) for interval in row if rng.random() < 0.7] for row in rows]
    every = np.arange(20, dtype=np.uint32)

    def same(timeline: Timeline, read: Reader) -> Runs:
        return timeline.shift(read, Shift.DIAMOND_MINUS, 0, 0)

    found = []
    for timeline in (ours, REFERENCE):
        # Of what the host has, and of what was made.
        given = runs_of(rows)
        timeline.mark_new(given, runs_of(old))
        made = same(timeline, Reader(runs_of(rows), every))
        timeline.mark_new(made, same(timeline, Reader(runs_of(old), every)))
        new = listed(timeline.fetched(same(timeline, Reader(made, every, Choice.NEW))))
        some = timeline.with_new(made).tolist()
        timeline.mark_all(made)
        found.append((given.flags.tolist(), new, some, timeline.with_new(made).tolist()))
    assert found[0] == found[1]
    assert any(found[0][0])


@on_each
@pytest.mark.parametrize("seed", range(20))
def test_emit(ours: Timeline, seed: int) -> None:
    rng = random.Random(seed)
    results, known = reader(rng, 20), runs_of([random_row(rng) for _ in range(5)], rng)
    heads = np.array([rng.randrange(5) for _ in range(20)], np.uint32)
    horizon = rng.choice([(MINUS_INFINITY, INFINITY), (-6, 7)])
    emitted = [timeline.emit(results, heads, known, *horizon) for timeline in (ours, REFERENCE)]
    for one, other in zip(*emitted, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()


@on_each
def test_lists_that_changed_are_read_as_they_are(ours: Timeline) -> None:
    runs = runs_of([[(0, 4)], [(8, 12)]])
    every = Reader(runs, np.arange(2, dtype=np.uint32))
    assert listed(ours.fetched(ours.shift(every, Shift.DIAMOND_MINUS, 0, 2)))[0] == [(0, 6)]
    runs.upper[0] = 20
    runs.changed()
    assert listed(ours.fetched(ours.shift(every, Shift.DIAMOND_MINUS, 0, 2)))[0] == [(0, 22)]


def pool_of(rows: list[Row], timeline: Timeline) -> Pool:
    runs = runs_of(rows)
    return Pool(runs, len(rows), len(runs.lower), len(runs.lower))


@pytest.mark.parametrize("keep_old", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_pools(seed: int, keep_old: bool) -> None:
    """Merges, with some intervals for many rows and few for many, then a subtraction, then compaction."""
    rng = random.Random(seed)
    rows = [random_row(rng) for _ in range(rng.choice([3, 40]))]
    pools = [(timeline, pool_of(rows, timeline)) for timeline in (CPU, REFERENCE)]
    for _ in range(4):
        count = rng.choice([1, 3, 60])
        atoms = np.array([rng.randrange(len(rows)) for _ in range(count)], np.uint32)
        lower = np.array([rng.randint(-14, 14) for _ in range(count)], np.int64)
        upper = lower + np.array([rng.choice([0, 0, 1, 2, 5, INFINITY // 2]) for _ in range(count)], np.int64)
        upper[upper > 1000] = INFINITY
        before = listed(pools[0][1].runs, len(rows))
        merged = []
        for timeline, pool in pools:
            timeline.settle(pool, np.arange(len(rows), dtype=np.uint32))
            merged.append(timeline.merge(pool, atoms, lower.copy(), upper.copy(), keep_old=keep_old))
        ours, theirs = merged
        assert ours.rows.tolist() == theirs.rows.tolist()
        assert (ours.first_new, ours.last_new, ours.largest) == (
            theirs.first_new,
            theirs.last_new,
            theirs.largest,
        )
        assert states(pools[0][1]) == states(pools[1][1])
        if keep_old:
            runs = pools[0][1].runs
            old = Runs(ours.old_starts, ours.old_counts, runs.lower, runs.upper, runs.flags)
            assert listed(old) == [before[row] for row in ours.rows.tolist()]
    lost = [timeline.subtract(pool, atoms, lower.copy(), upper.copy()).tolist() for timeline, pool in pools]
    assert lost[0] == lost[1]
    assert listed(pools[0][1].runs, len(rows)) == listed(pools[1][1].runs, len(rows))
    for timeline, pool in pools:
        timeline.compact(pool)
    assert pools[0][1].runs.lower.tolist() == pools[1][1].runs.lower.tolist()
    assert pools[0][1].used == pools[0][1].live == pools[1][1].live


def states(pool: Pool) -> list[list[tuple[int, int, int]]]:
    found = []
    for row in range(pool.rows):
        places = range(int(pool.runs.starts[row]), int(pool.runs.starts[row] + pool.runs.counts[row]))
        found.append(
            [(int(pool.runs.lower[k]), int(pool.runs.upper[k]), int(pool.runs.flags[k])) for k in places]
        )
    return found


def test_many_intervals_of_one_row() -> None:
    """More than are sorted by insertion, in an order that is none."""
    rng = random.Random(5)
    lower = np.array(rng.sample(range(0, 4000, 4), 800), np.int64)
    empty = np.zeros(0, np.int64)
    pool = Pool(
        Runs(np.zeros(1, np.int64), np.zeros(1, np.int64), empty, empty, np.zeros(0, np.uint8)), 1, 0, 0
    )
    CPU.merge(pool, np.zeros(800, np.uint32), lower, lower + 1, keep_old=False)
    assert listed(pool.runs, 1) == [[(low, low + 1) for low in sorted(lower.tolist())]]
