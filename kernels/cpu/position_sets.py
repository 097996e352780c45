"""Position sets on the host: making them along the edges of a graph, subtracting, and reading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpuengine.kernels.cpu import position_reads, position_unions
from gpuengine.kernels.cpu.position_scratch import NO_BLOCK
from gpuengine.kernels.position_sets import (
    BLOCK_RUNS,
    BLOCK_SIZE,
    BLOCK_WORDS,
    PoolFull,
    PositionSets,
    SegmentPool,
    empty_pool,
    empty_sets,
)

_LEAST_POOL = 1 << 10
NEVER = np.zeros(1, np.int64)
"""A stop flag that nobody sets."""
NO_POSITIONS = np.empty(0, np.uint32)


class Stopped(Exception):
    """The stop flag was set; the sets that were being made are incomplete."""


@dataclass(frozen=True, slots=True)
class Unions:
    """Which sets to make of which, children first (see `position_unions.unite_along_edges`).

    ``spans`` are stretches of `work` whose owners do not depend on each other: several threads may share one.
    """

    work: np.ndarray
    base_offsets: np.ndarray
    bases: np.ndarray
    child_offsets: np.ndarray
    children: np.ndarray
    own_offsets: np.ndarray
    own: np.ndarray
    places: np.ndarray
    cyclic: np.ndarray
    spans: Sequence[tuple[int, int, bool]]

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (
            self.base_offsets, self.bases, self.child_offsets, self.children,
            self.own_offsets, self.own, self.places, self.cyclic,
        )  # fmt: skip


class _Scratch:
    """What one thread needs to make sets of positions below `positions`."""

    def __init__(self, positions: int) -> None:
        blocks = positions // BLOCK_SIZE + 1
        groups = blocks // 64 + 1
        room = blocks * (BLOCK_RUNS + 1) + 2 * position_unions.SHORT + 2
        self.under_construction = (
            np.zeros(blocks * BLOCK_WORDS, np.uint64),
            np.zeros(groups, np.uint64),
            np.zeros(groups, np.uint64),
            np.array([NO_BLOCK, -1], np.int64),
        )
        self.one = np.empty(room, np.uint32), np.empty(room, np.uint32)
        self.two = tuple(np.empty(2 * position_unions.SHORT + 2, np.uint32) for _ in range(2))
        self.blocks = np.empty(blocks, np.uint32), np.empty(blocks * BLOCK_WORDS, np.uint64)
        self.counts = np.zeros(4, np.int64)


def unite(
    unions: Unions,
    old: PositionSets,
    sets: PositionSets,
    positions: int,
    *,
    stop: np.ndarray = NEVER,
    threads: int = 1,
) -> None:
    """Make the sets of `unions.work` in `sets`, which shares the pool of `old`; the pool grows.

    Raises `Stopped` if `stop` is set, and `PoolFull` if the pool would exceed its limit.
    """
    assert sets.pool is old.pool
    pool = sets.pool
    scratches = [_Scratch(positions) for _ in range(max(threads, 1))]
    control = np.zeros(position_unions.CONTROL_WORDS, np.int64)
    control[position_unions.CURSOR_INTERVALS] = pool.intervals
    control[position_unions.CURSOR_BLOCKS] = pool.block_count
    _set_capacity(control, pool)

    def run(scratch: _Scratch, begin: int, end: int) -> int:
        return position_unions.unite_along_edges(
            unions.work, begin, end, *unions.arrays, *old.arrays[:4], *sets.arrays,
            pool.starts, pool.ends, pool.blocks, pool.words, *scratch.under_construction,
            *scratch.one, *scratch.two, *scratch.blocks, scratch.counts, control, stop,
        )  # fmt: skip

    with ThreadPoolExecutor(threads) if threads > 1 else _nobody() as workers:
        for begin, end, shared in unions.spans:
            parts = _parts(begin, end, threads if shared and workers is not None else 1)
            while parts:
                if workers is None or len(parts) == 1:
                    reached = [run(scratches[0], *part) for part in parts]
                else:
                    reached = list(
                        workers.map(lambda job: run(job[0], *job[1]), zip(scratches, parts, strict=False))
                    )
                if stop[0]:
                    raise Stopped
                parts = [(at, part[1]) for at, part in zip(reached, parts, strict=True) if at < part[1]]
                if parts:
                    _grow(pool, control)
    pool.intervals = int(control[position_unions.CURSOR_INTERVALS])
    pool.block_count = int(control[position_unions.CURSOR_BLOCKS])


class _nobody:
    """In the place of a pool of threads where there is none."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def subtract(
    from_sets: PositionSets,
    kept: np.ndarray,
    taken_sets: PositionSets,
    taken: np.ndarray,
    positions: int,
    *,
    spared: np.ndarray = NO_POSITIONS,
    stop: np.ndarray = NEVER,
) -> PositionSets:
    """New sets in a pool of their own: set ``kept[k]`` without set ``taken[k]``; both share a pool.

    The positions `spared` are not taken away.
    """
    assert from_sets.pool is taken_sets.pool
    pool, out = from_sets.pool, empty_pool(_LEAST_POOL + 4 * len(kept), _LEAST_POOL)
    sets = empty_sets(out, len(kept))
    scratch, had = _Scratch(positions), np.zeros(len(spared), np.uint8)
    control = np.zeros(position_unions.CONTROL_WORDS, np.int64)
    _set_capacity(control, out)
    begin = 0
    while True:
        begin = position_unions.subtract(
            kept, taken, begin, len(kept), *from_sets.arrays[:4], *taken_sets.arrays[:4], *sets.arrays,
            pool.starts, pool.ends, pool.blocks, pool.words, out.starts, out.ends, out.blocks, out.words,
            *scratch.under_construction, *scratch.one, *scratch.blocks, scratch.counts, control, stop,
            spared, len(spared), had,
        )  # fmt: skip
        if stop[0]:
            raise Stopped
        if begin == len(kept):
            break
        _grow(out, control)
    out.intervals = int(control[position_unions.CURSOR_INTERVALS])
    out.block_count = int(control[position_unions.CURSOR_BLOCKS])
    trim(out)
    return sets


def trim(pool: SegmentPool) -> None:
    """Give back the room of a pool that is not in use."""
    _resize(pool, pool.intervals, pool.block_count)


def contains(sets: PositionSets, owners: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """For each pair whether the position is in the owner's set; NONE is nowhere."""
    pool = sets.pool
    mask = np.empty(len(owners), np.bool_)
    position_reads.find_positions(
        *sets.arrays[:4],
        pool.starts,
        pool.ends,
        pool.blocks,
        pool.words,
        owners,
        positions,
        len(owners),
        mask,
    )
    return mask


def expand(
    sets: PositionSets, owners: np.ndarray, values: np.ndarray, room: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(Places in `owners`, values at the positions of their sets), at most `room` at a time.

    Values of NONE and owners of NONE are passed over.
    """
    pool = sets.pool
    cursor = np.zeros(position_reads.CURSOR_WORDS, np.int64)
    while cursor[position_reads.CURSOR_ASKED] < len(owners):
        asked, listed = np.empty(room, np.uint32), np.empty(room, np.uint32)
        written = position_reads.list_positions(
            *sets.arrays[:4], pool.starts, pool.ends, pool.blocks, pool.words, owners, len(owners), values,
            asked, listed, room, cursor,
        )  # fmt: skip
        if written:
            yield asked[:written], listed[:written]


def _parts(begin: int, end: int, threads: int) -> list[tuple[int, int]]:
    """[begin, end) in equal parts for so many threads; none are empty."""
    cuts = [begin + (end - begin) * k // threads for k in range(threads + 1)]
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def _set_capacity(control: np.ndarray, pool: SegmentPool) -> None:
    control[position_unions.CAPACITY_INTERVALS] = len(pool.starts)
    control[position_unions.CAPACITY_BLOCKS] = len(pool.blocks)


def _grow(pool: SegmentPool, control: np.ndarray) -> None:
    """Double what is full; the cursors go back to where there was room."""
    intervals, blocks = len(pool.starts), len(pool.blocks)
    if control[position_unions.CURSOR_INTERVALS] > intervals:
        control[position_unions.CURSOR_INTERVALS] = intervals
        intervals = 2 * intervals + _LEAST_POOL
    if control[position_unions.CURSOR_BLOCKS] > blocks:
        control[position_unions.CURSOR_BLOCKS] = blocks
        blocks = 2 * blocks + _LEAST_POOL
    needed = 8 * intervals + (4 + 8 * BLOCK_WORDS) * blocks
    if needed > pool.limit:
        raise PoolFull(needed)
    _resize(pool, intervals, blocks)
    _set_capacity(control, pool)


def _resize(pool: SegmentPool, intervals: int, blocks: int) -> None:
    resized = _copied if pool.is_shared else _moved
    pool.starts, pool.ends = resized(pool.starts, intervals), resized(pool.ends, intervals)
    pool.blocks, pool.words = resized(pool.blocks, blocks), resized(pool.words, blocks * BLOCK_WORDS)
    pool.is_shared = False


def _moved(array: np.ndarray, length: int) -> np.ndarray:
    array.resize(length, refcheck=False)
    return array


def _copied(array: np.ndarray, length: int) -> np.ndarray:
    result = np.empty(length, array.dtype)
    kept = min(length, len(array))
    result[:kept] = array[:kept]
    return result
