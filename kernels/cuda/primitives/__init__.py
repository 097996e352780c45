"""The primitives on a device; see the modules named here for their kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives import joins, labels, position_reads
from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import Primitives


class CudaPrimitives(Primitives):
    """See `primitives.Primitives`. Arrays are the device's; of results only sizes come back by themselves."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def upload(self, host: np.ndarray) -> Array:
        return self.device.upload(host)

    def download(self, array: Array) -> np.ndarray:
        return self.device.download(array)

    def take(self, column: Array, places: Array) -> Array:
        return self.device.gather(column, places)

    def filled(self, id: int, count: int) -> Array:
        return self.device.full(count, id, np.uint32)

    def look_up(self, ids: Array, low: int, values: Array) -> Array:
        return labels.by_address(self.device, ids, low, values)

    def search(self, ids: Array, known: Array, values: Array) -> Array:
        return labels.by_search(self.device, ids, known, values)

    def semi_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        return joins.matching(self.device, left, right, negated=False)

    def anti_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        return joins.matching(self.device, left, right, negated=True)

    def sets_contain(
        self, sets: PositionSets, owners: Array, positions: Array, *, negated: bool = False
    ) -> Array:
        return position_reads.contain(self.device, sets, owners, positions, negated=negated)

    def sets_list(
        self, sets: PositionSets, owners: Array, values: Array, room: int
    ) -> Iterator[tuple[Array, Array]]:
        return position_reads.values_of(self.device, sets, owners, values, room)
