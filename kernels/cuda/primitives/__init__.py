"""The primitives on a device; see the modules named here for their kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives import (
    bitmaps,
    condense,
    graphs,
    intervals,
    joins,
    position_difference,
    position_reads,
    position_sets,
    sorted_runs,
    sorted_sets,
    strong,
)
from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import Primitives, Run


class CudaPrimitives(Primitives):
    """See `primitives.Primitives`. Arrays are the device's; of results only sizes come back by themselves."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def upload(self, host: np.ndarray) -> Array:
        return self.device.upload(host)

    def download(self, array: Array) -> np.ndarray:
        return self.device.download(array)

    def merge(self, a: Array, b: Array) -> Array:
        return sorted_sets.merge_runs(self.device, a, b)

    def union(self, a: Array, b: Array) -> Array:
        return sorted_sets.unite(self.device, a, b)

    def difference(self, a: Array, b: Array) -> Array:
        return sorted_sets.subtract(self.device, a, b)

    def intersection(self, a: Array, b: Array) -> Array:
        return sorted_sets.intersect(self.device, a, b)

    def bitmap_of(self, ids: Array, size: int) -> Array:
        return bitmaps.bitmap_of(self.device, ids, size)

    def bitmap_union(self, a: Array, b: Array) -> Array:
        return bitmaps.combine(self.device, bitmaps.bitmap_or, a, b)

    def bitmap_difference(self, a: Array, b: Array) -> Array:
        return bitmaps.combine(self.device, bitmaps.bitmap_and_not, a, b)

    def bitmap_intersection(self, a: Array, b: Array) -> Array:
        return bitmaps.combine(self.device, bitmaps.bitmap_and, a, b)

    def bitmap_count(self, words: Array) -> int:
        return bitmaps.count(self.device, words)

    def bitmap_members(self, words: Array) -> Array:
        return bitmaps.members(self.device, words)

    def bitmap_contains(self, words: Array, ids: Array) -> Array:
        return bitmaps.contains(self.device, words, ids)

    def semi_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        return joins.matching(self.device, left, right, negated=False)

    def anti_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        return joins.matching(self.device, left, right, negated=True)

    def sorted_runs(self, keys: Array, values: Array, n_owners: int) -> tuple[Array, Array]:
        return sorted_runs.from_pairs(self.device, keys, values, n_owners)

    def intersect_runs(self, runs: Sequence[Run]) -> tuple[Array, Array]:
        return sorted_runs.intersect(self.device, runs)

    def interval_contains(
        self, offsets: Array, starts: Array, ends: Array, owners: Array, values: Array
    ) -> Array:
        return intervals.contains(self.device, offsets, starts, ends, owners, values)

    def interval_counts(self, offsets: Array, starts: Array, ends: Array) -> Array:
        return intervals.counts(self.device, offsets, starts, ends)

    def interval_normalise(
        self, owners: Array, starts: Array, ends: Array, n_owners: int
    ) -> tuple[Array, Array, Array]:
        return intervals.normalise(self.device, owners, starts, ends, n_owners)

    def interval_expand(
        self, offsets: Array, starts: Array, ends: Array, owners: Array
    ) -> tuple[Array, Array]:
        return intervals.expand(self.device, offsets, starts, ends, owners)

    def components(self, sources: Array, targets: Array, nodes: int) -> Array:
        return graphs.components(self.device, sources, targets, nodes)

    def breadth_first(self, offsets: Array, targets: Array, seeds: Array, nodes: int) -> Array:
        return graphs.breadth_first(self.device, offsets, targets, seeds, nodes)

    def levels_of_dag(self, offsets: Array, targets: Array, nodes: int) -> Array:
        return graphs.levels_of_dag(self.device, offsets, targets, nodes)

    def strongly_connected(self, offsets: Array, targets: Array, nodes: int) -> Array:
        return strong.strongly_connected(self.device, offsets, targets, nodes)

    def condense(self, offsets: Array, targets: Array, nodes: int) -> tuple[Array, int]:
        return condense.condense(self.device, offsets, targets, nodes)

    def reached_sets(
        self,
        child_offsets: Array,
        children: Array,
        own_offsets: Array,
        own: Array,
        cyclic: Array,
        positions: int,
    ) -> PositionSets:
        return position_sets.reached_sets(self.device, child_offsets, children, own_offsets, own, cyclic)

    def sets_contain(self, sets: PositionSets, owners: Array, positions: Array) -> Array:
        return position_reads.contain(self.device, sets, owners, positions)

    def sets_list(self, sets: PositionSets, owners: Array, values: Array) -> tuple[Array, Array]:
        return position_reads.values_of(self.device, sets, owners, values)

    def sets_difference(self, a: PositionSets, kept: Array, b: PositionSets, taken: Array) -> PositionSets:
        return position_difference.difference(self.device, a, kept, b, taken)
