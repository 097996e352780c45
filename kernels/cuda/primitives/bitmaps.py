"""Bitmaps of 32-bit words on a device."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu import primitives_bitmaps
from gpuengine.kernels.cuda.atomics import atomic_add, atomic_or
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.spec import DeviceKernel, device_function, device_kernel

TILE = 8
"""Words that one item counts."""

ones = device_function(primitives_bitmaps.ones)


def bitmap_of(device: Device, ids: Array, size: int) -> Array:
    """The bitmap of ids below `size`."""
    words = device.full((size + 31) // 32, 0, np.uint32)
    device.launch(bitmap_set, len(ids), ids, words)
    return words


def combine(device: Device, kernel: DeviceKernel, a: Array, b: Array) -> Array:
    """`bitmap_or`, `bitmap_and` or `bitmap_and_not` of two bitmaps of one length."""
    if len(a) != len(b):
        raise ValueError(f"bitmaps of {len(a)} and {len(b)} words: make both for the same number of ids")
    out = device.empty(len(a), np.uint32)
    device.launch(kernel, len(a), a, b, out)
    return out


def count(device: Device, words: Array) -> int:
    """How many bits are set; waits for it."""
    total = device.full(1, 0, np.uint64)
    items = -(-len(words) // TILE)
    device.launch(bitmap_sum, items, words, len(words), items, total)
    return int(device.read(total)[0])


def members(device: Device, words: Array) -> Array:
    """The ids whose bits are set, ascending; waits to learn how many."""
    counts = device.empty(len(words), np.uint32)
    device.launch(bitmap_ones, len(words), words, counts)
    offsets = device.offsets(counts)
    out = device.empty(int(device.read(offsets[-1:])[0]), np.uint32)
    device.launch(bitmap_list, len(words), words, offsets, out)
    return out


def contains(device: Device, words: Array, ids: Array) -> Array:
    """Which ids' bits are set."""
    found = device.empty(len(ids), np.bool_)
    device.launch(bitmap_test, len(ids), words, len(words), ids, found)
    return found


@device_kernel("u4*, u4*", streamed=4, random=1)
def bitmap_set(i, ids, words):
    """Set the bit of an id. Bits are only ever set, so one that is seen set needs no atomic operation."""
    word = np.int64(ids[i] >> np.uint32(5))
    bit = np.uint32(1) << (ids[i] & np.uint32(31))
    if words[word] & bit == np.uint32(0):
        atomic_or(words, word, np.uint32(bit))


@device_kernel("u4*, u4*, u4*", streamed=12)
def bitmap_or(i, a, b, out):
    out[i] = a[i] | b[i]


@device_kernel("u4*, u4*, u4*", streamed=12)
def bitmap_and(i, a, b, out):
    out[i] = a[i] & b[i]


@device_kernel("u4*, u4*, u4*", streamed=12)
def bitmap_and_not(i, a, b, out):
    out[i] = a[i] & (b[i] ^ np.uint32(0xFFFFFFFF))


@device_kernel("u4*, i8, i8, u8*", streamed=4 * TILE, random=1)
def bitmap_sum(i, words, count, items, total):
    """Add up the bits of every items-th word from the i-th on; neighbours read neighbours."""
    found = np.int64(0)
    place = i
    while place < count:
        found += ones(words[place])
        place += items
    if found > 0:
        atomic_add(total, np.int64(0), np.uint64(found))


@device_kernel("u4*, u4*", streamed=8)
def bitmap_ones(i, words, counts):
    counts[i] = np.uint32(ones(words[i]))


@device_kernel("u4*, u8*, u4*", streamed=12, random=2)
def bitmap_list(i, words, offsets, out):
    """Write the ids of a word's bits, least first."""
    word = np.int64(words[i])
    written = np.int64(offsets[i])
    while word != 0:
        rest = word & (word - 1)
        out[written] = np.uint32(i * 32 + ones(np.uint32((word ^ rest) - 1)))
        written += 1
        word = rest


@device_kernel("u4*, i8, u4*, u1*", streamed=5, random=1)
def bitmap_test(i, words, count, ids, found):
    word = np.int64(ids[i] >> np.uint32(5))
    if word < count:
        found[i] = np.uint8((words[word] >> (ids[i] & np.uint32(31))) & np.uint32(1))
    else:
        found[i] = np.uint8(0)
