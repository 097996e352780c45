"""Kernels that read position sets: look-up, enumeration in bounded pieces."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.bits import ones, trailing_zeros
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.position_lists import in_intervals
from gpuengine.kernels.position_sets import BLOCK_SHIFT, BLOCK_SIZE, BLOCK_WORDS
from gpuengine.kernels.primitives import NONE

CURSOR_ASKED = 0
CURSOR_SEGMENT = 1
CURSOR_OFFSET = 2
CURSOR_WORDS = 3


@device
def in_blocks(blocks, words, first, count, position):
    """Is the position in one of `count` blocks from `first` on?"""
    wanted = position >> BLOCK_SHIFT
    low = first
    high = first + count
    while low < high:
        middle = (low + high) >> 1
        if np.int64(blocks[middle]) < wanted:
            low = middle + 1
        else:
            high = middle
    if low == first + count or np.int64(blocks[low]) != wanted:
        return False
    place = position & (BLOCK_SIZE - 1)
    word = words[low * BLOCK_WORDS + (place >> 6)]
    return (word >> np.uint64(place & 63)) & np.uint64(1) != np.uint64(0)


@kernel("i8(u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u4*, u4*, i8, u1*)")
def find_positions(first_i, n_i, first_b, n_b, starts, ends, blocks, words, owners, positions, count, found):
    """Is each position in the set of the owner beside it? NONE, as either of them, is nowhere."""
    for j in range(count):
        owner = np.int64(owners[j])
        position = np.int64(positions[j])
        if owners[j] == np.uint32(NONE) or positions[j] == np.uint32(NONE):
            found[j] = 0
        else:
            found[j] = in_intervals(
                starts, ends, np.int64(first_i[owner]), np.int64(n_i[owner]), position
            ) or in_blocks(blocks, words, np.int64(first_b[owner]), np.int64(n_b[owner]), position)
    return 0


@kernel("i8(u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u4*, i8, u4*, u4*, u4*, i8, i8*)")
def list_positions(
    first_i,
    n_i,
    first_b,
    n_b,
    starts,
    ends,
    blocks,
    words,
    owners,
    count,
    values,
    asked,
    listed,
    room,
    cursor,
):
    """For each owner in turn the values at its set's positions, each with the owner's place in `owners`.

    Stops when `room` are written, and goes on from `cursor` (which begins with zeros) when called again; all
    have been listed once it is at `count`. Positions with value NONE, and owners NONE, are passed over.
    Returns how many were written.
    """
    written = 0
    j = cursor[CURSOR_ASKED]
    segment = cursor[CURSOR_SEGMENT]
    offset = cursor[CURSOR_OFFSET]
    while j < count:
        if owners[j] != np.uint32(NONE):
            owner = np.int64(owners[j])
            intervals = np.int64(n_i[owner])
            while segment < intervals:
                k = np.int64(first_i[owner]) + segment
                position = np.int64(starts[k]) + offset
                end = np.int64(ends[k])
                while position < end:
                    if written == room:
                        cursor[CURSOR_ASKED] = j
                        cursor[CURSOR_SEGMENT] = segment
                        cursor[CURSOR_OFFSET] = position - np.int64(starts[k])
                        return written
                    # What is passed over is written too, and then written over.
                    stretch = min(end, position + room - written)
                    for p in range(position, stretch):
                        value = values[p]
                        asked[written] = np.uint32(j)
                        listed[written] = value
                        written += np.int64(value != np.uint32(NONE))
                    position = stretch
                segment += 1
                offset = 0
            while segment < intervals + np.int64(n_b[owner]):
                k = np.int64(first_b[owner]) + segment - intervals
                base = np.int64(blocks[k]) << BLOCK_SHIFT
                for w in range(offset >> 6, BLOCK_WORDS):
                    word = words[k * BLOCK_WORDS + w]
                    if w == offset >> 6:
                        word = (word >> np.uint64(offset & 63)) << np.uint64(offset & 63)
                    while word != np.uint64(0):
                        place = trailing_zeros(word)
                        if written == room:
                            cursor[CURSOR_ASKED] = j
                            cursor[CURSOR_SEGMENT] = segment
                            cursor[CURSOR_OFFSET] = (w << 6) + place
                            return written
                        value = values[base + (w << 6) + place]
                        if value != np.uint32(NONE):
                            asked[written] = np.uint32(j)
                            listed[written] = value
                            written += 1
                        word &= word - np.uint64(1)
                segment += 1
                offset = 0
        j += 1
        segment = 0
        offset = 0
    cursor[CURSOR_ASKED] = count
    cursor[CURSOR_SEGMENT] = 0
    cursor[CURSOR_OFFSET] = 0
    return written


@kernel("i8(u4*, i8, i8, i8, u4*, u4*)")
def look_up(ids, count, low, high, table, found):
    """For each id the entry ``table[id - low]``, NONE outside [low, high)."""
    for j in range(count):
        x = np.int64(ids[j])
        found[j] = table[x - low] if low <= x < high else np.uint32(NONE)
    return 0


@device
def live_before(live, before, position):
    """How many positions below this one are live."""
    word = live[position >> 6] & ((np.uint64(1) << np.uint64(position & 63)) - np.uint64(1))
    return np.int64(before[position >> 6]) + ones(word)


@kernel("i8(u4*, i8, u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u8*, u4*, u8*)")
def count_live(owners, count, first_i, n_i, first_b, n_b, starts, ends, blocks, words, live, before, sizes):
    """Set the size of each owner's set to the number of its live positions.

    `live` is a bitmap, one position longer than needed at least, and `before` counts for each of its words
    those in the words before.
    """
    for j in range(count):
        owner = np.int64(owners[j])
        total = np.int64(0)
        for k in range(np.int64(first_i[owner]), np.int64(first_i[owner]) + np.int64(n_i[owner])):
            total += live_before(live, before, np.int64(ends[k]))
            total -= live_before(live, before, np.int64(starts[k]))
        for k in range(np.int64(first_b[owner]), np.int64(first_b[owner]) + np.int64(n_b[owner])):
            group = np.int64(blocks[k]) * BLOCK_WORDS
            for w in range(BLOCK_WORDS):
                word = words[k * BLOCK_WORDS + w]
                if word != np.uint64(0):
                    total += ones(word & live[group + w])
        sizes[owner] = np.uint64(total)
    return 0
