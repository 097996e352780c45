"""Merging of sorted keys by merge path, eight places an item.

An item finds where its tile of the merged order begins by a binary search along a diagonal and goes on
sequentially, so every item does the same work however the keys are spread. Of equal keys a's come
before b's. Nothing is shared between items: each writes places of its own.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.spec import device_function, device_kernel

TILE = 8
"""Places of the merged order that one item handles."""


def merge_runs(device: Device, a: Array, b: Array) -> Array:
    """Two ascending arrays of uint64 keys as one new ascending array; duplicates are kept.

    One launch, no synchronisation; O((m + n) + (m + n) / TILE * log(min(m, n))).
    """
    merged = device.empty(len(a) + len(b), np.uint64)
    device.launch(merge_tile, -(-len(merged) // TILE), a, b, len(a), len(b), merged)
    return merged


@device_function
def merge_split(a, b, a_count, b_count, diagonal):
    """How many of the first `diagonal` merged keys come from `a`."""
    low = diagonal - b_count if diagonal > b_count else np.int64(0)
    high = diagonal if diagonal < a_count else a_count
    while low < high:
        middle = (low + high) >> 1
        if a[middle] <= b[diagonal - 1 - middle]:
            low = middle + 1
        else:
            high = middle
    return low


@device_kernel("u8*, u8*, i8, i8, u8*", streamed=16 * TILE, random=2)
def merge_tile(i, a, b, a_count, b_count, out):
    """A tile of the merge of two ascending arrays."""
    place = i * TILE
    end = min(place + TILE, a_count + b_count)
    x = merge_split(a, b, a_count, b_count, place)
    y = place - x
    while place < end:
        if y >= b_count or (x < a_count and a[x] <= b[y]):
            out[place] = a[x]
            x += 1
        else:
            out[place] = b[y]
            y += 1
        place += 1
