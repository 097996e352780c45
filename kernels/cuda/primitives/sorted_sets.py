"""Merging of sorted keys, and the set operations that a merge can tell: by merge path, eight places an item.

An item finds where its tile of the merged order begins by a binary search along a diagonal and goes on
sequentially, so every item does the same work however the keys are spread. Of equal keys a's come
before b's. Nothing is shared between items: each writes places of its own.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.search import first_not_less
from gpuengine.kernels.cuda.spec import device_function, device_kernel

TILE = 8
"""Places of the merged order that one item handles."""
ONLY_A, ONLY_B, BOTH = 1, 2, 4
"""What a place of the merged order can be; a key of both counts at a's place, b's is nothing (0)."""
SEARCH_RATIO = 32
"""From so many times as many keys on, searching them for each of the few beats reading them all."""


def merge_runs(device: Device, a: Array, b: Array) -> Array:
    """Two ascending arrays of uint64 keys as one new ascending array; duplicates are kept.

    One launch, no synchronisation; O((m + n) + (m + n) / TILE * log(min(m, n))).
    """
    merged = device.empty(len(a) + len(b), np.uint64)
    device.launch(merge_tile, _tiles(a, b), a, b, len(a), len(b), merged)
    return merged


def unite(device: Device, a: Array, b: Array) -> Array:
    """The keys in one or the other; like all here, of strictly ascending arrays. One synchronisation."""
    return _combine(device, a, b, ONLY_A | ONLY_B | BOTH)


def subtract(device: Device, a: Array, b: Array) -> Array:
    """The keys in `a` that are not in `b`."""
    if len(a) * SEARCH_RATIO < len(b):
        return _look_up(device, a, b, kept=0)
    return _combine(device, a, b, ONLY_A)


def intersect(device: Device, a: Array, b: Array) -> Array:
    """The keys in both."""
    small, large = (a, b) if len(a) <= len(b) else (b, a)
    if len(small) * SEARCH_RATIO < len(large):
        return _look_up(device, small, large, kept=1)
    return _combine(device, small, large, BOTH)


def _tiles(a: Array, b: Array) -> int:
    return -(-(len(a) + len(b)) // TILE)


def _combine(device: Device, a: Array, b: Array, kept: int) -> Array:
    """The keys of the kinds in `kept`: counted by tile, then written."""
    tiles = _tiles(a, b)
    counts = device.empty(tiles, np.uint32)
    device.launch(set_tile_count, tiles, a, b, len(a), len(b), kept, counts)
    offsets = device.offsets(counts)
    out = device.empty(int(device.read(offsets[-1:])[0]), np.uint64)
    device.launch(set_tile_write, tiles, a, b, len(a), len(b), kept, offsets, out)
    return out


def _look_up(device: Device, few: Array, many: Array, kept: int) -> Array:
    """The keys of `few` that are in `many` (1), or that are not (0)."""
    flags = device.empty(len(few), np.uint8)
    device.launch(set_look_up, len(few), few, many, len(many), kept, flags)
    places = device.select(flags)
    out = device.empty(len(places), np.uint64)
    device.launch(set_gather, len(places), few, places, out)
    return out


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


@device_function
def kind_at(a, b, a_count, b_count, x, y):
    """What the place is at which x keys of `a` and y keys of `b` are behind; one of them has more."""
    if y >= b_count:
        return ONLY_A
    if x < a_count and a[x] < b[y]:
        return ONLY_A
    if x < a_count and a[x] == b[y]:
        return BOTH
    if x > 0 and a[x - 1] == b[y]:
        return 0
    return ONLY_B


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


@device_kernel("u8*, u8*, i8, i8, i8, u4*", streamed=8 * TILE + 4, random=2)
def set_tile_count(i, a, b, a_count, b_count, kept, counts):
    """How many keys of a tile stay."""
    place = i * TILE
    end = min(place + TILE, a_count + b_count)
    x = merge_split(a, b, a_count, b_count, place)
    y = place - x
    staying = 0
    while place < end:
        kind = kind_at(a, b, a_count, b_count, x, y)
        if kind & kept:
            staying += 1
        if kind & (ONLY_A | BOTH):
            x += 1
        else:
            y += 1
        place += 1
    counts[i] = np.uint32(staying)


@device_kernel("u8*, u8*, i8, i8, i8, u8*, u8*", streamed=16 * TILE + 8, random=2)
def set_tile_write(i, a, b, a_count, b_count, kept, offsets, out):
    """Write the keys of a tile that stay where the tiles before it end."""
    place = i * TILE
    end = min(place + TILE, a_count + b_count)
    x = merge_split(a, b, a_count, b_count, place)
    y = place - x
    written = np.int64(offsets[i])
    while place < end:
        kind = kind_at(a, b, a_count, b_count, x, y)
        if kind & kept:
            out[written] = b[y] if kind == ONLY_B else a[x]
            written += 1
        if kind & (ONLY_A | BOTH):
            x += 1
        else:
            y += 1
        place += 1


@device_kernel("u8*, u8*, i8, i8, u1*", streamed=9, random=1)
def set_look_up(i, few, many, count, kept, flags):
    """Flag a key if it is in `many` and `kept` is 1, or it is not and `kept` is 0."""
    place = first_not_less(many, np.int64(0), count, few[i])
    found = 1 if place < count and many[place] == few[i] else 0
    flags[i] = np.uint8(1 if found == kept else 0)


@device_kernel("u8*, u4*, u8*", streamed=12, random=1)
def set_gather(i, source, rows, out):
    """out[i] = source[rows[i]]"""
    out[i] = source[rows[i]]
