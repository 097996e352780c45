"""Reading position sets on a device: look-up, and listing of the values at all positions.

What is listed comes from segments: the intervals and blocks of the sets asked for. Each item makes a tile of
eight results, whosever they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.position_bits import block_at, nth_of, ones_of, spans_hold
from gpuengine.kernels.cuda.search import span_after, span_of
from gpuengine.kernels.cuda.spec import device_function, device_kernel
from gpuengine.kernels.position_sets import BLOCK_SHIFT, BLOCK_SIZE, BLOCK_WORDS, PositionSets
from gpuengine.kernels.primitives import NONE

TILE = 8
"""Segments or results that one item makes."""
OF_BLOCK = 1 << 63
"""Added to the place of a block in the pool: where a segment begins that is one; else it is a position."""


def contain(
    device: Device, sets: PositionSets, owners: Array, positions: Array, *, negated: bool = False
) -> Array:
    """Which positions are in the set of the owner beside them, or (`negated`) are not."""
    found = device.empty(len(owners), np.bool_)
    pool = sets.pool
    device.launch(
        position_find,
        len(owners),
        *sets.arrays[:4],
        pool.starts,
        pool.ends,
        pool.blocks,
        pool.words,
        owners,
        positions,
        int(negated),
        found,
    )
    return found


def values_of(
    device: Device, sets: PositionSets, owners: Array, values: Array, room: int
) -> Iterator[tuple[Array, Array]]:
    """The values at the positions of each owner's set, at most `room` at a time.

    Waits twice, for sizes, and for each piece to learn how many of its positions have a value.
    """
    pool = sets.pool
    counts = device.empty(len(owners), np.uint32)
    device.launch(position_segments, len(owners), owners, sets.interval_counts, sets.block_counts, counts)
    spans = device.offsets(counts)
    segments = int(device.read(spans[-1:])[0])
    origins, lengths = device.empty(segments, np.uint32), device.empty(segments, np.uint32)
    begins = device.empty(segments, np.uint64)
    device.launch(
        position_take,
        -(-segments // TILE),
        spans,
        len(owners),
        segments,
        owners,
        *sets.arrays[:3],
        pool.starts,
        pool.ends,
        pool.words,
        origins,
        begins,
        lengths,
    )
    places = device.offsets(lengths)
    total = int(device.read(places[-1:])[0])
    for first in range(0, total, room):
        count = min(room, total - first)
        asked, listed, flags = (device.empty(count, kind) for kind in (np.uint32, np.uint32, np.uint8))
        device.launch(
            position_fill,
            -(-count // TILE),
            places,
            segments,
            first,
            first + count,
            origins,
            begins,
            pool.blocks,
            pool.words,
            values,
            asked,
            listed,
            flags,
        )
        kept = device.select(flags)
        if len(kept) == count:
            yield asked, listed
        elif len(kept):
            yield device.gather(asked, kept), device.gather(listed, kept)


@device_kernel("u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u4*, u4*, i8, u1*", streamed=9, random=4)
def position_find(
    i, first_i, n_i, first_b, n_b, starts, ends, blocks, words, owners, positions, negated, found
):
    """Is a position in an interval or in a block of the owner's set?"""
    held = np.int64(0)
    if owners[i] != np.uint32(NONE) and positions[i] != np.uint32(NONE):
        owner = np.int64(owners[i])
        position = np.int64(positions[i])
        if spans_hold(starts, ends, np.int64(first_i[owner]), np.int64(n_i[owner]), position):
            held = np.int64(1)
        else:
            block = position >> BLOCK_SHIFT
            at = block_at(blocks, np.int64(first_b[owner]), np.int64(n_b[owner]), block)
            if at >= 0:
                place = position & (BLOCK_SIZE - 1)
                word = words[at * BLOCK_WORDS + (place >> 6)]
                held = np.int64((word >> np.uint64(place & 63)) & np.uint64(1))
    found[i] = np.uint8(held ^ negated)


@device_kernel("u4*, u4*, u4*, u4*", streamed=8, random=2)
def position_segments(i, owners, n_i, n_b, counts):
    """How many intervals and blocks an owner's set has."""
    counts[i] = np.uint32(0)
    if owners[i] != np.uint32(NONE):
        owner = np.int64(owners[i])
        counts[i] = np.uint32(n_i[owner] + n_b[owner])


@device_function
def ones_of_block(words, block):
    """How many positions are in a block of the pool."""
    found = np.int64(0)
    place = block * BLOCK_WORDS
    end = place + BLOCK_WORDS
    while place < end:
        found += ones_of(words[place])
        place += 1
    return found


@device_kernel(
    "u8*, i8, i8, u4*, u8*, u4*, u8*, u4*, u4*, u8*, u4*, u8*, u4*",
    streamed=16 * TILE,
    random=TILE,
)
def position_take(
    i, spans, asked, total, owners, first_i, n_i, first_b, starts, ends, words, origins, begins, lengths
):
    """A tile of the owners' segments: whose each is, where it begins, and how many positions are in it."""
    place = i * TILE
    end = min(place + TILE, total)
    span = span_of(spans, asked, place)
    while place < end:
        span = span_after(spans, span, place)
        owner = np.int64(owners[span])
        k = place - np.int64(spans[span])
        intervals = np.int64(n_i[owner])
        origins[place] = np.uint32(span)
        if k < intervals:
            k += np.int64(first_i[owner])
            begins[place] = np.uint64(starts[k])
            lengths[place] = np.uint32(ends[k] - starts[k])
        else:
            k += np.int64(first_b[owner]) - intervals
            begins[place] = np.uint64(k) | np.uint64(OF_BLOCK)
            lengths[place] = np.uint32(ones_of_block(words, k))
        place += 1


@device_function
def nth_of_block(words, block, n):
    """The place in a block of its n-th position, from 0 on."""
    word = block * BLOCK_WORDS
    there = ones_of(words[word])
    while n >= there:
        n -= there
        word += 1
        there = ones_of(words[word])
    return ((word - block * BLOCK_WORDS) << 6) + nth_of(words[word], n)


@device_kernel(
    "u8*, i8, i8, i8, u4*, u8*, u4*, u8*, u4*, u4*, u4*, u1*",
    streamed=17 * TILE,
    random=2,
)
def position_fill(
    i, places, segments, first, last, origins, begins, blocks, words, values, asked, listed, flags
):
    """A tile, from `first` on, of the values at the positions of segments that lie side by side.

    Those that are are flagged.
    """
    place = first + i * TILE
    end = min(place + TILE, last)
    k = span_of(places, segments, place)
    while place < end:
        k = span_after(places, k, place)
        n = place - np.int64(places[k])
        begin = begins[k]
        if begin & np.uint64(OF_BLOCK) == np.uint64(0):
            position = np.int64(begin) + n
        else:
            block = np.int64(begin ^ np.uint64(OF_BLOCK))
            position = (np.int64(blocks[block]) << BLOCK_SHIFT) + nth_of_block(words, block, n)
        value = values[position]
        asked[place - first] = origins[k]
        listed[place - first] = value
        flags[place - first] = np.uint8(1 if value != np.uint32(NONE) else 0)
        place += 1
