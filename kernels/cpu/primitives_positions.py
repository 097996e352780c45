"""The primitives over position sets: calls of the kernels that storage schemes on the host use themselves."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu import digraph_kernels, position_sets
from gpuengine.kernels.position_sets import (
    BLOCK_SIZE,
    BLOCK_WORDS,
    PositionSets,
    SegmentPool,
    empty_pool,
    empty_sets,
)
from gpuengine.kernels.primitives import NONE


def condense(offsets: np.ndarray, targets: np.ndarray, nodes: int) -> tuple[np.ndarray, int]:
    """The number of each node's component, in the order in which Tarjan's algorithm closes them."""
    everybody, no_links = np.arange(nodes, dtype=np.uint32), np.empty(0, np.uint32)
    heads, marked = np.full(nodes, NONE, np.uint32), np.ones(nodes, np.uint8)
    number, cursor = np.zeros(nodes, np.uint32), np.empty(nodes, np.uint64)
    low, stack, path, members, ends = (np.empty(nodes, np.uint32) for _ in range(5))
    count = digraph_kernels.find_components(
        offsets, targets, heads, no_links, no_links, everybody, nodes, marked,
        number, low, cursor, stack, path, members, ends,
    )  # fmt: skip
    components = np.empty(nodes, np.uint32)
    sizes = np.diff(ends[:count], prepend=np.uint32(0))
    components[members] = np.repeat(np.arange(count, dtype=np.uint32), sizes)
    return components, count


def reached_sets(
    child_offsets: np.ndarray,
    children: np.ndarray,
    own_offsets: np.ndarray,
    own: np.ndarray,
    cyclic: np.ndarray,
    positions: int,
) -> PositionSets:
    """What each component reaches, in the order of their numbers: children come first."""
    count = len(cyclic)
    lengths = np.diff(own_offsets)
    of_cyclic = np.zeros(count + 1, np.uint64)
    np.cumsum(np.where(cyclic != 0, lengths, 0), out=of_cyclic[1:])
    unions = position_sets.Unions(
        work=np.arange(count, dtype=np.uint32),
        base_offsets=np.zeros(count + 1, np.uint64),
        bases=np.empty(0, np.uint32),
        child_offsets=child_offsets,
        children=children,
        own_offsets=of_cyclic,
        own=own[np.repeat(cyclic != 0, lengths.astype(np.int64))],
        places=own[own_offsets[:-1].astype(np.int64)],
        cyclic=cyclic,
        spans=[(0, count, False)],
    )
    pool = empty_pool(2 * count, count // 64)
    sets = empty_sets(pool, count)
    position_sets.unite(unions, sets, sets, positions)
    position_sets.trim(pool)
    return sets


def values_of(sets: PositionSets, owners: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values at the positions of each owner's set, with the owner's place beside each."""
    total = int(sets.sizes[owners[owners != NONE]].sum())
    # There is room for all of them at once: they come as one part, or as none if there are none.
    for asked, listed in position_sets.expand(sets, owners, values, total):
        return asked, listed
    return np.empty(0, np.uint32), np.empty(0, np.uint32)


def difference(a: PositionSets, kept: np.ndarray, b: PositionSets, taken: np.ndarray) -> PositionSets:
    """a's sets without b's."""
    end = max(_positions_end(a, kept), _positions_end(b, taken))
    if a.pool is not b.pool:
        a, b = _in_one_pool(a, b)
    return position_sets.subtract(a, kept, b, taken, end)


def _positions_end(sets: PositionSets, owners: np.ndarray) -> int:
    """A number that all positions of the owners' sets are below."""
    last_interval = (sets.first_interval[owners] + sets.interval_counts[owners]).astype(np.int64) - 1
    last_block = (sets.first_block[owners] + sets.block_counts[owners]).astype(np.int64) - 1
    ends = sets.pool.ends[last_interval[sets.interval_counts[owners] != 0]]
    blocks = sets.pool.blocks[last_block[sets.block_counts[owners] != 0]]
    return max(int(ends.max(initial=0)), (int(blocks.max(initial=0)) + 1) * BLOCK_SIZE)


def _in_one_pool(a: PositionSets, b: PositionSets) -> tuple[PositionSets, PositionSets]:
    """The same sets, with what they refer to in one pool."""
    first, second = a.pool, b.pool
    pool = SegmentPool(
        np.concatenate([first.starts[: first.intervals], second.starts[: second.intervals]]),
        np.concatenate([first.ends[: first.intervals], second.ends[: second.intervals]]),
        np.concatenate([first.blocks[: first.block_count], second.blocks[: second.block_count]]),
        np.concatenate(
            [
                first.words[: BLOCK_WORDS * first.block_count],
                second.words[: BLOCK_WORDS * second.block_count],
            ]
        ),
        first.intervals + second.intervals,
        first.block_count + second.block_count,
    )
    first_interval, interval_counts, first_block, block_counts, sizes = b.arrays
    moved = PositionSets(
        pool,
        first_interval + np.uint64(first.intervals),
        interval_counts,
        first_block + np.uint64(first.block_count),
        block_counts,
        sizes,
    )
    return PositionSets(pool, *a.arrays), moved
