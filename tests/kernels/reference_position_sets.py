"""Position sets as Python sets, and back: what the reference computes with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpuengine.kernels.position_sets import (
    BLOCK_RUNS,
    BLOCK_SIZE,
    BLOCK_WORDS,
    PositionSets,
    SegmentPool,
)


def positions_of(sets: PositionSets, owner: int) -> set[int]:
    """The positions in an owner's set."""
    pool, found = sets.pool, set[int]()
    first, count = int(sets.first_interval[owner]), int(sets.interval_counts[owner])
    for k in range(first, first + count):
        found.update(range(int(pool.starts[k]), int(pool.ends[k])))
    first, count = int(sets.first_block[owner]), int(sets.block_counts[owner])
    for k in range(first, first + count):
        for place in range(BLOCK_SIZE):
            if int(pool.words[BLOCK_WORDS * k + place // 64]) >> place % 64 & 1:
                found.add(int(pool.blocks[k]) * BLOCK_SIZE + place)
    return found


def pack(given: Sequence[Iterable[int]]) -> PositionSets:
    """A set for each owner, one after another in a pool without gaps."""
    intervals, blocks, words = list[tuple[int, int]](), list[int](), list[int]()
    rows = []
    for each in given:
        members = set(each)
        crowded = sorted(b for b in {x // BLOCK_SIZE for x in members} if _is_crowded(_within(members, b)))
        kept = _intervals(members - {x for b in crowded for x in _within(members, b)})
        rows.append((len(intervals), len(kept), len(blocks), len(crowded), len(members)))
        intervals += kept
        blocks += crowded
        words += [word for b in crowded for word in _words(_within(members, b), b)]
    pool = SegmentPool(
        np.array([start for start, _ in intervals], np.uint32),
        np.array([end for _, end in intervals], np.uint32),
        np.array(blocks, np.uint32),
        np.array(words, np.uint64),
        len(intervals),
        len(blocks),
    )
    columns = list(zip(*rows, strict=True)) or [()] * 5
    kinds = (np.uint64, np.uint32, np.uint64, np.uint32, np.uint64)
    return PositionSets(pool, *(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def _within(members: set[int], block: int) -> set[int]:
    return {x for x in range(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE) if x in members}


def _is_crowded(members: set[int]) -> bool:
    """Are there more runs than a block may keep as intervals?"""
    return len(_intervals(members)) > BLOCK_RUNS


def _intervals(members: set[int]) -> list[tuple[int, int]]:
    starts = sorted(x for x in members if x - 1 not in members)
    ends = sorted(x + 1 for x in members if x + 1 not in members)
    return list(zip(starts, ends, strict=True))


def _words(members: set[int], block: int) -> list[int]:
    words = [0] * BLOCK_WORDS
    for x in members:
        place = x - block * BLOCK_SIZE
        words[place // 64] |= 1 << place % 64
    return words
