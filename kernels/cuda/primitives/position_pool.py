"""Where position sets of a device lie: a pool that grows, and the numbers that say which stretch is whose."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.graphs import graph_alone
from gpuengine.kernels.cuda.primitives.intervals import interval_length
from gpuengine.kernels.cuda.primitives.position_packing import Packed
from gpuengine.kernels.cuda.spec import device_kernel
from gpuengine.kernels.position_sets import BLOCK_WORDS, PositionSets, SegmentPool


class GrowingPool:
    """Sets of `owners` owners, empty until they are added; each is added once."""

    def __init__(self, device: Device, owners: int) -> None:
        self._device = device
        self.sets = _empty_sets(device, owners)

    def add(self, owners: Array, packed: Packed) -> None:
        """Make the sets those of the given owners. Does not wait."""
        pool, device = self.sets.pool, self._device
        _, starts, ends = packed.spans
        before, after = pool.intervals, pool.intervals + len(starts)
        blocks_before, blocks_after = pool.block_count, pool.block_count + len(packed.blocks)
        pool.starts = self._with_room(pool.starts, before, after)
        pool.ends = self._with_room(pool.ends, before, after)
        pool.blocks = self._with_room(pool.blocks, blocks_before, blocks_after)
        pool.words = self._with_room(pool.words, BLOCK_WORDS * blocks_before, BLOCK_WORDS * blocks_after)
        device.copy(pool.starts[before:after], starts)
        device.copy(pool.ends[before:after], ends)
        device.copy(pool.blocks[blocks_before:blocks_after], packed.blocks)
        device.copy(pool.words[BLOCK_WORDS * blocks_before : BLOCK_WORDS * blocks_after], packed.words)
        pool.intervals, pool.block_count = after, blocks_after
        _store(device, self.sets, owners, packed, before, blocks_before)

    def _with_room(self, array: Array, used: int, needed: int) -> Array:
        """The array, or a copy of what is used that is twice as long, or more."""
        if needed <= len(array):
            return array
        grown = self._device.empty(max(needed, 2 * len(array)), array.dtype)
        self._device.copy(grown[:used], array[:used])
        return grown


def sets_of(device: Device, packed: Packed, owners: int) -> PositionSets:
    """Packed sets of owners 0, 1, ... as they are, in a pool of their own."""
    sets = _empty_sets(device, owners)
    _, starts, ends = packed.spans
    sets.pool = SegmentPool(starts, ends, packed.blocks, packed.words, len(starts), len(packed.blocks))
    everybody = device.empty(owners, np.uint32)
    device.launch(graph_alone, owners, everybody)
    _store(device, sets, everybody, packed, 0, 0)
    return sets


def _empty_sets(device: Device, owners: int) -> PositionSets:
    wide, narrow = np.uint64, np.uint32
    pool = SegmentPool(*(device.empty(0, kind) for kind in (narrow, narrow, narrow, wide)))
    return PositionSets(pool, *(device.full(owners, 0, kind) for kind in (wide, narrow, wide, narrow, wide)))


def _store(
    device: Device, sets: PositionSets, owners: Array, packed: Packed, interval: int, block: int
) -> None:
    """Note where each owner's set is, of which the first has these places in the pool, and its size."""
    offsets, starts, ends = packed.spans
    lengths = device.empty(len(starts), np.uint32)
    device.launch(interval_length, len(starts), starts, ends, lengths)
    device.launch(
        position_store,
        len(owners),
        owners,
        offsets,
        device.offsets(lengths),
        interval,
        packed.block_offsets,
        device.offsets(packed.ones),
        block,
        *sets.arrays,
    )


@device_kernel(
    "u4*, u8*, u8*, i8, u8*, u8*, i8, u8*, u4*, u8*, u4*, u8*",
    streamed=52,
    random=1,
)
def position_store(
    i, owners, offsets, sums, interval, block_offsets, ones, block, first_i, n_i, first_b, n_b, sizes
):
    """Where the i-th set is, and how many positions are in it, from the sums of all lengths."""
    owner = np.int64(owners[i])
    begin = np.int64(offsets[i])
    end = np.int64(offsets[i + 1])
    first_i[owner] = np.uint64(interval + begin)
    n_i[owner] = np.uint32(end - begin)
    size = sums[end] - sums[begin]
    begin = np.int64(block_offsets[i])
    end = np.int64(block_offsets[i + 1])
    first_b[owner] = np.uint64(block + begin)
    n_b[owner] = np.uint32(end - begin)
    sizes[owner] = size + ones[end] - ones[begin]
