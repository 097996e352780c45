"""The primitives on the host: compiled kernels on NumPy arrays, NumPy itself where it is as good.

Each call runs on the calling thread, without the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cpu import position_sets
from gpuengine.kernels.cpu import primitives_bitmaps as bitmaps
from gpuengine.kernels.cpu import primitives_graphs as graphs
from gpuengine.kernels.cpu import primitives_intervals as intervals
from gpuengine.kernels.cpu import primitives_joins as joins
from gpuengine.kernels.cpu import primitives_positions as position_primitives
from gpuengine.kernels.cpu import primitives_runs as run_primitives
from gpuengine.kernels.cpu import primitives_sets as sets
from gpuengine.kernels.cpu.jit import Kernel
from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import NONE, Primitives, Run

_SEARCH_RATIO = 16
"""From so many times as many keys on, galloping through them for each of the few beats reading them all."""


class CpuPrimitives(Primitives):
    """See `primitives.Primitives`."""

    def upload(self, host: np.ndarray) -> np.ndarray:
        return np.array(host)

    def download(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def merge(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _combine(sets.merge_sorted, a, b, len(a) + len(b))

    def union(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _combine(sets.unite_sorted, a, b, len(a) + len(b))

    def difference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if len(a) * _SEARCH_RATIO < len(b):
            return _look_up(a, b, kept=0)
        return _combine(sets.subtract_sorted, a, b, len(a))

    def intersection(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        small, large = (a, b) if len(a) <= len(b) else (b, a)
        if len(small) * _SEARCH_RATIO < len(large):
            return _look_up(small, large, kept=1)
        return _combine(sets.intersect_sorted, small, large, len(small))

    def bitmap_of(self, ids: np.ndarray, size: int) -> np.ndarray:
        words = np.zeros((size + 31) // 32, np.uint32)
        bitmaps.set_bits(ids, len(ids), words)
        return words

    def bitmap_union(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        _check_lengths(a, b)
        return np.bitwise_or(a, b)

    def bitmap_difference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        _check_lengths(a, b)
        kept = np.invert(b)
        return np.bitwise_and(a, kept, out=kept)

    def bitmap_intersection(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        _check_lengths(a, b)
        return np.bitwise_and(a, b)

    def bitmap_count(self, words: np.ndarray) -> int:
        return int(np.bitwise_count(words).sum(dtype=np.int64))

    def bitmap_members(self, words: np.ndarray) -> np.ndarray:
        members = np.empty(self.bitmap_count(words), np.uint32)
        bitmaps.list_bits(words, len(words), members)
        return members

    def bitmap_contains(self, words: np.ndarray, ids: np.ndarray) -> np.ndarray:
        found = np.empty(len(ids), np.bool_)
        bitmaps.test_bits(words, len(words), ids, len(ids), found)
        return found

    def semi_join(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
        return joins.matching(left, right, kept=1)

    def anti_join(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
        return joins.matching(left, right, kept=0)

    def sorted_runs(
        self, keys: np.ndarray, values: np.ndarray, n_owners: int
    ) -> tuple[np.ndarray, np.ndarray]:
        return run_primitives.sorted_runs(keys, values, n_owners)

    def intersect_runs(self, runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
        return run_primitives.intersect_runs(runs)

    def interval_contains(
        self,
        offsets: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        owners: np.ndarray,
        values: np.ndarray,
    ) -> np.ndarray:
        found = np.empty(len(values), np.bool_)
        intervals.find_in_intervals(offsets, starts, ends, owners, values, len(values), found)
        return found

    def interval_counts(self, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        counts = np.empty(len(offsets) - 1, np.uint32)
        intervals.count_values(offsets, starts, ends, len(counts), counts)
        return counts

    def interval_normalise(
        self, owners: np.ndarray, starts: np.ndarray, ends: np.ndarray, n_owners: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        first, last = (np.empty(len(owners), np.uint64) for _ in range(2))
        count = intervals.pack_ends(owners, starts, ends, len(owners), first, last)
        first[:count].sort()
        last[:count].sort()
        offsets = np.empty(n_owners + 1, np.uint64)
        merged_starts, merged_ends = (np.empty(count, np.uint32) for _ in range(2))
        left = intervals.coalesce(first, last, count, n_owners, offsets, merged_starts, merged_ends)
        return offsets, _shortened(merged_starts, left), _shortened(merged_ends, left)

    def interval_expand(
        self, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray, owners: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        total = intervals.count_asked(offsets, starts, ends, owners, len(owners))
        positions, values = (np.empty(total, np.uint32) for _ in range(2))
        intervals.expand_intervals(offsets, starts, ends, owners, len(owners), positions, values)
        return positions, values

    def components(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        labels = np.empty(nodes, np.uint32)
        graphs.connect(sources, targets, len(sources), nodes, labels)
        return labels

    def breadth_first(
        self, offsets: np.ndarray, targets: np.ndarray, seeds: np.ndarray, nodes: int
    ) -> np.ndarray:
        levels = np.full(nodes, NONE, np.uint32)
        graphs.reach(offsets, targets, seeds, len(seeds), levels, np.empty(nodes, np.uint32))
        return levels

    def levels_of_dag(self, offsets: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        levels = np.full(nodes, NONE, np.uint32)
        incoming = np.zeros(nodes, np.uint32)
        graphs.peel(offsets, targets, nodes, levels, incoming, np.empty(nodes, np.uint32))
        return levels

    def strongly_connected(self, offsets: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        components, count = position_primitives.condense(offsets, targets, nodes)
        least = np.empty(count, np.uint32)
        # Of several values for one place the last one stays.
        least[components[::-1]] = np.arange(nodes - 1, -1, -1, dtype=np.uint32)
        return least[components]

    def condense(self, offsets: np.ndarray, targets: np.ndarray, nodes: int) -> tuple[np.ndarray, int]:
        return position_primitives.condense(offsets, targets, nodes)

    def reached_sets(
        self,
        child_offsets: np.ndarray,
        children: np.ndarray,
        own_offsets: np.ndarray,
        own: np.ndarray,
        cyclic: np.ndarray,
        positions: int,
    ) -> PositionSets:
        return position_primitives.reached_sets(child_offsets, children, own_offsets, own, cyclic, positions)

    def sets_contain(self, sets: PositionSets, owners: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return position_sets.contains(sets, owners, positions)

    def sets_list(
        self, sets: PositionSets, owners: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return position_primitives.values_of(sets, owners, values)

    def sets_difference(
        self, a: PositionSets, kept: np.ndarray, b: PositionSets, taken: np.ndarray
    ) -> PositionSets:
        return position_primitives.difference(a, kept, b, taken)


def _combine(kernel: Kernel, a: np.ndarray, b: np.ndarray, room: int) -> np.ndarray:
    out = np.empty(room, np.uint64)
    return _shortened(out, kernel(a, len(a), b, len(b), out))


def _look_up(few: np.ndarray, many: np.ndarray, kept: int) -> np.ndarray:
    out = np.empty(len(few), np.uint64)
    return _shortened(out, sets.look_up_sorted(few, len(few), many, len(many), kept, out))


def _shortened(array: np.ndarray, count: int) -> np.ndarray:
    """The first elements, with the memory of the others given back."""
    array.resize(count, refcheck=False)
    return array


def _check_lengths(a: np.ndarray, b: np.ndarray) -> None:
    if len(a) != len(b):
        raise ValueError(f"bitmaps of {len(a)} and {len(b)} words: make both for the same number of ids")
