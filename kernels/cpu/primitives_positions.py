"""The primitives over position sets: calls of the kernels that storage schemes on the host use themselves."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu import position_sets
from gpuengine.kernels.position_sets import PositionSets, empty_pool, empty_sets


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
