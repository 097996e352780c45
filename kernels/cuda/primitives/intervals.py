"""Interval sets in CSR form on a device.

Items that expand make a tile of eight results each, whoever owns them.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.search import first_not_less, span_after, span_of
from gpuengine.kernels.cuda.spec import device_function, device_kernel

TILE = 8
"""Results that one item of an expansion makes."""


def contains(
    device: Device, offsets: Array, starts: Array, ends: Array, owners: Array, values: Array
) -> Array:
    """Which values lie in an interval of the owner beside them."""
    found = device.empty(len(values), np.bool_)
    device.launch(interval_find, len(values), offsets, starts, ends, owners, values, found)
    return found


def counts(device: Device, offsets: Array, starts: Array, ends: Array) -> Array:
    """The number of values of every owner: differences of a scan, so that a large owner costs no more."""
    lengths = device.empty(len(starts), np.uint32)
    device.launch(interval_length, len(starts), starts, ends, lengths)
    sums = device.offsets(lengths)
    out = device.empty(len(offsets) - 1, np.uint32)
    device.launch(interval_count, len(out), offsets, sums, out)
    return out


def normalise(
    device: Device, owners: Array, starts: Array, ends: Array, n_owners: int
) -> tuple[Array, Array, Array]:
    """Sorted, coalesced intervals. Waits once, to learn how many there are."""
    first, last = (device.empty(len(owners), np.uint64) for _ in range(2))
    device.launch(interval_pack, len(owners), owners, starts, ends, first, last)
    return coalesce(device, first, last, n_owners)


def coalesce(device: Device, first: Array, last: Array, n_owners: int) -> tuple[Array, Array, Array]:
    """The interval set of all that begins at one of the keys in `first` and ends at one in `last`.

    They come in any order, in the two arrays equally many that are not the greatest key, which means nothing.
    """
    given = len(first)
    first, last = device.sort(first), device.sort(last)
    flags = device.empty(given, np.uint8)
    device.launch(interval_begins, given, first, last, flags)
    begins = device.select(flags)
    offsets = device.empty(n_owners + 1, np.uint64)
    device.launch(interval_offsets, n_owners + 1, first, begins, len(begins), offsets)
    merged_starts, merged_ends = (device.empty(len(begins), np.uint32) for _ in range(2))
    device.launch(
        interval_join, len(begins), first, last, given, begins, len(begins), merged_starts, merged_ends
    )
    return offsets, merged_starts, merged_ends


def expand(device: Device, offsets: Array, starts: Array, ends: Array, owners: Array) -> tuple[Array, Array]:
    """All values of the owners: first their intervals, then the values in those. Waits twice, for sizes."""
    counts = device.empty(len(owners), np.uint32)
    device.launch(interval_asked, len(owners), offsets, owners, counts)
    spans = device.offsets(counts)
    asked = int(device.read(spans[-1:])[0])
    origins, lows, lengths = (device.empty(asked, np.uint32) for _ in range(3))
    device.launch(
        interval_take,
        -(-asked // TILE),
        spans,
        len(owners),
        asked,
        offsets,
        starts,
        ends,
        owners,
        origins,
        lows,
        lengths,
    )
    places = device.offsets(lengths)
    total = int(device.read(places[-1:])[0])
    positions, values = device.empty(total, np.uint32), device.empty(total, np.uint32)
    device.launch(interval_fill, -(-total // TILE), places, asked, total, origins, lows, positions, values)
    return positions, values


@device_function
def owner_and(owner, value):
    """An owner and a value as one key, ordered by owner first."""
    return np.uint64(owner) << np.uint64(32) | np.uint64(value)


@device_kernel("u8*, u4*, u4*, u4*, u4*, u1*", streamed=9, random=2)
def interval_find(i, offsets, starts, ends, owners, values, found):
    """Does the last interval that begins at or before the value hold it?"""
    owner = np.int64(owners[i])
    first = np.int64(offsets[owner])
    low = first
    high = np.int64(offsets[owner + 1])
    while low < high:
        middle = (low + high) >> 1
        if starts[middle] <= values[i]:
            low = middle + 1
        else:
            high = middle
    found[i] = np.uint8(1 if low > first and values[i] < ends[low - 1] else 0)


@device_kernel("u4*, u4*, u4*", streamed=12)
def interval_length(i, starts, ends, lengths):
    lengths[i] = np.uint32(ends[i] - starts[i])


@device_kernel("u8*, u8*, u4*", streamed=20, random=1)
def interval_count(i, offsets, sums, counts):
    """The lengths between two offsets, from the sums of all."""
    counts[i] = np.uint32(sums[np.int64(offsets[i + 1])] - sums[np.int64(offsets[i])])


@device_kernel("u4*, u4*, u4*, u8*, u8*", streamed=28)
def interval_pack(i, owners, starts, ends, first, last):
    """The keys of an interval's two ends; empty ones get the greatest key, which no interval has."""
    if starts[i] < ends[i]:
        first[i] = owner_and(owners[i], starts[i])
        last[i] = owner_and(owners[i], ends[i])
    else:
        first[i] = np.uint64(0xFFFFFFFFFFFFFFFF)
        last[i] = np.uint64(0xFFFFFFFFFFFFFFFF)


@device_kernel("u8*, u8*, u1*", streamed=17)
def interval_begins(i, first, last, begins):
    """Does a coalesced interval begin at the i-th start, of starts and ends sorted each for itself?

    It does if the i ends before have all passed: then they are the ends of the i starts before.
    """
    begun = first[i] != np.uint64(0xFFFFFFFFFFFFFFFF) and (i == 0 or first[i] > last[i - 1])
    begins[i] = np.uint8(1 if begun else 0)


@device_kernel("u8*, u8*, i8, u4*, i8, u4*, u4*", streamed=12, random=1)
def interval_join(i, first, last, given, begins, count, starts, ends):
    """The i-th coalesced interval: it ends with the last end before the next one begins."""
    if i + 1 < count:
        following = np.int64(begins[i + 1])
    else:
        following = first_not_less(first, np.int64(begins[i]), given, np.uint64(0xFFFFFFFFFFFFFFFF))
    starts[i] = np.uint32(first[np.int64(begins[i])] & np.uint64(0xFFFFFFFF))
    ends[i] = np.uint32(last[following - 1] & np.uint64(0xFFFFFFFF))


@device_kernel("u8*, u4*, i8, u8*", streamed=8, random=6)
def interval_offsets(i, first, begins, count, offsets):
    """Where the intervals of owner i begin; one item more than there are owners."""
    wanted = np.uint64(i) << np.uint64(32)
    low = np.int64(0)
    high = count
    while low < high:
        middle = (low + high) >> 1
        if first[np.int64(begins[middle])] < wanted:
            low = middle + 1
        else:
            high = middle
    offsets[i] = np.uint64(low)


@device_kernel("u8*, u4*, u4*", streamed=24)
def interval_asked(i, offsets, owners, counts):
    """How many intervals an owner has."""
    owner = np.int64(owners[i])
    counts[i] = np.uint32(offsets[owner + 1] - offsets[owner])


@device_kernel(
    "u8*, i8, i8, u8*, u4*, u4*, u4*, u4*, u4*, u4*",
    streamed=12 * TILE,
    random=TILE,
)
def interval_take(i, spans, owner_count, total, offsets, starts, ends, owners, origins, lows, lengths):
    """A tile of the owners' intervals: whose each is, where it begins and how long it is."""
    place = i * TILE
    end = min(place + TILE, total)
    position = span_of(spans, owner_count, place)
    while place < end:
        position = span_after(spans, position, place)
        k = np.int64(offsets[np.int64(owners[position])]) + place - np.int64(spans[position])
        origins[place] = np.uint32(position)
        lows[place] = starts[k]
        lengths[place] = np.uint32(ends[k] - starts[k])
        place += 1


@device_kernel("u8*, i8, i8, u4*, u4*, u4*, u4*", streamed=16 * TILE)
def interval_fill(i, places, intervals, total, origins, lows, positions, values):
    """A tile of the values in intervals that lie side by side."""
    place = i * TILE
    end = min(place + TILE, total)
    k = span_of(places, intervals, place)
    while place < end:
        k = span_after(places, k, place)
        positions[place] = origins[k]
        values[place] = np.uint32(np.int64(lows[k]) + place - np.int64(places[k]))
        place += 1
