"""Sets of positions, one for each owner: intervals and, where those would take more room, bitmap blocks.

Positions are numbers below 2**32 - 1. They fall into blocks of `BLOCK_SIZE`; a set holds a block as the words
of a bitmap if more than `BLOCK_RUNS` runs of positions meet it, and all else as intervals, cut where such
blocks begin and end. Most sets have a few intervals; a dense random one costs a bit a position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK_SHIFT = 9
BLOCK_SIZE = 1 << BLOCK_SHIFT
BLOCK_WORDS = BLOCK_SIZE // 64
BLOCK_RUNS = 8
"""A block of up to so many runs is kept as intervals: of eight bytes each; a bitmap takes sixty-eight."""

Array = Any


@dataclass(slots=True)
class SegmentPool:
    """Where the intervals and blocks of many sets lie; sets refer to stretches of it.

    Interval k is ``[starts[k], ends[k])``. Block k is number ``blocks[k]``, its words of 64 bits (the lowest
    bit is the lowest position) from ``words[BLOCK_WORDS * k]`` on. Only the first `intervals` and
    `block_count` of them are in use; what sets refer to never changes. It grows to `limit` bytes at most: in
    place, unless others have the arrays (`is_shared`).
    """

    starts: Array
    ends: Array
    blocks: Array
    words: Array
    intervals: int = 0
    block_count: int = 0
    limit: int = 1 << 62
    is_shared: bool = False

    @property
    def nbytes(self) -> int:
        return int(self.starts.nbytes + self.ends.nbytes + self.blocks.nbytes + self.words.nbytes)


@dataclass(slots=True)
class PositionSets:
    """For each owner a set: its intervals and blocks, stretches of `pool`, and its size.

    Owner o has the intervals from ``first_interval[o]`` on, ``interval_counts[o]`` of them, ascending and
    neither overlapping nor adjacent, and likewise blocks, ascending; no interval meets one of its blocks.
    """

    pool: SegmentPool
    first_interval: Array
    interval_counts: Array
    first_block: Array
    block_counts: Array
    sizes: Array

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def nbytes(self) -> int:
        """Without the pool, which others may share."""
        own = (self.first_interval, self.interval_counts, self.first_block, self.block_counts, self.sizes)
        return sum(int(array.nbytes) for array in own)

    def copy(self, owners: int) -> PositionSets:
        """The same sets in the same pool, with room for `owners` of them; those added are empty."""
        return PositionSets(self.pool, *(_extended(array, owners) for array in self.arrays))

    def kept(self) -> PositionSets:
        """The same sets, to be read by whoever likes while the pool grows."""
        pool = self.pool
        pool.is_shared = True
        same = SegmentPool(pool.starts, pool.ends, pool.blocks, pool.words, pool.intervals, pool.block_count)
        return PositionSets(same, *self.arrays)

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        return (
            self.first_interval,
            self.interval_counts,
            self.first_block,
            self.block_counts,
            self.sizes,
        )


class PoolFull(Exception):
    """A pool would need more bytes than its limit: `needed`."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed:,} bytes of sets")
        self.needed = needed


def empty_pool(intervals: int, blocks: int, limit: int = 1 << 62) -> SegmentPool:
    """A pool on the host with room for so many intervals and blocks, to begin with."""
    return SegmentPool(
        np.empty(intervals, np.uint32),
        np.empty(intervals, np.uint32),
        np.empty(blocks, np.uint32),
        np.empty(blocks * BLOCK_WORDS, np.uint64),
        limit=limit,
    )


def empty_sets(pool: SegmentPool, owners: int) -> PositionSets:
    """So many empty sets on the host."""
    wide, narrow = np.uint64, np.uint32
    return PositionSets(pool, *(np.zeros(owners, kind) for kind in (wide, narrow, wide, narrow, wide)))


def _extended(array: np.ndarray, length: int) -> np.ndarray:
    result = np.zeros(length, array.dtype)
    result[: len(array)] = array
    return result


def converted(sets: PositionSets, convert: Callable[[Array], Array]) -> PositionSets:
    """The same sets in a pool of their own, with every array converted: from the host to a device, say."""
    pool = sets.pool
    starts, ends, blocks, words = (convert(x) for x in (pool.starts, pool.ends, pool.blocks, pool.words))
    own = SegmentPool(starts, ends, blocks, words, pool.intervals, pool.block_count)
    return PositionSets(own, *(convert(array) for array in sets.arrays))
