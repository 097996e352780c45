"""Indexes from a key (one or two columns) to the other columns of the matching rows.

Each key has a slot; a slot's rows lie side by side in one block of the payload, in the order in
which they were appended, so a probe is one look-up and one sequential read. Blocks double when
they are full (freed ones are used again), so appending costs what the delta costs. A slot also
remembers how long it was before the current round: that prefix is the OLD domain.
Slots are addressed by the key itself where the keys are dense, else by an open-addressing table.

Several threads may add the same rows, each those of a share of the slots; each has free blocks of its own.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import as_u4, as_u8, atomic_add, compare_and_swap, prefetch
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.keyset import mix, place_of
from gpuengine.kernels.cpu.layout import (
    HASHED_WORDS,
    INDEX_COLUMNS,
    INDEX_HASHED,
    INDEX_KEYS,
    INDEX_PAYLOAD,
    INDEX_PAYLOAD_CAPACITY,
    INDEX_PAYLOAD_USED,
    INDEX_ROUND,
    INDEX_SLOT_CAPACITY,
    INDEX_SLOT_COUNT,
    INDEX_SLOTS,
    INDEX_WIDTH,
    KEY_WORDS,
    ROWS_COLUMNS,
    SLOT_LENGTH,
    SLOT_OLD,
    SLOT_ROUND,
    SLOT_START,
    SLOT_WORDS,
)

NO_SLOT = -1
AHEAD = 8  # how many rows ahead an append fetches
NO_BLOCK = np.uint32(0xFFFFFFFF)


@device
def stored_key(keys, at):
    """The key + 1 of the hashed slot at `at`, 0 if it is empty; `keys` are the slots as 64-bit words."""
    return keys[at >> 1]


@device
def seek_hashed(keys, capacity, stored):
    """Where the hashed slot of a key + 1 begins, or the empty one that ends the search for it."""
    place = place_of(mix(stored), capacity)
    while True:
        at = place * HASHED_WORDS
        found = stored_key(keys, at)
        if found == stored or found == np.uint64(0):
            return at
        place = place + 1 if place + 1 < capacity else 0


@device
def find_slot(index, key):
    """Where the words of an in-range key's slot begin, or NO_SLOT."""
    if index[INDEX_HASHED] == 0:
        return key * SLOT_WORDS
    keys = as_u8(index[INDEX_SLOTS])
    at = seek_hashed(keys, index[INDEX_SLOT_CAPACITY], np.uint64(key) + np.uint64(1))
    return at + KEY_WORDS if stored_key(keys, at) != np.uint64(0) else np.int64(NO_SLOT)


@device
def row_key(index, rows, row):
    """The key of a stored row; an index's extents cover every row stored in it."""
    key = 0
    for j in range(index[INDEX_KEYS]):
        at = INDEX_COLUMNS + 4 * j
        column = as_u4(rows[ROWS_COLUMNS + index[at]])
        key += (np.int64(column[row]) - index[at + 1]) * index[at + 2]
    return key


@device
def slot_for(index, key):
    """The slot of a key, made if need be; NO_SLOT when there is no room for another."""
    if index[INDEX_HASHED] == 0:
        return key * SLOT_WORDS
    keys = as_u8(index[INDEX_SLOTS])
    stored = np.uint64(key) + np.uint64(1)
    capacity = index[INDEX_SLOT_CAPACITY]
    while True:
        at = seek_hashed(keys, capacity, stored)
        if stored_key(keys, at) == stored:
            return at + KEY_WORDS
        if 10 * index[INDEX_SLOT_COUNT] >= 7 * capacity:
            return np.int64(NO_SLOT)
        if compare_and_swap(keys, at >> 1, np.uint64(0), stored) == np.uint64(0):
            atomic_add(index, INDEX_SLOT_COUNT, np.int64(1))
            return at + KEY_WORDS


@device
def write_payload(index, rows, row, position):
    width = index[INDEX_WIDTH]
    payload = as_u4(index[INDEX_PAYLOAD])
    at = INDEX_COLUMNS + 4 * index[INDEX_KEYS]
    for j in range(width):
        payload[position * width + j] = as_u4(rows[ROWS_COLUMNS + index[at + j]])[row]


@device
def take_block(index, free, size, size_class):
    """The position of a block of `size` rows, a free one if there is; -1 when the payload is full."""
    head = free[size_class]
    if head != NO_BLOCK:
        payload = as_u4(index[INDEX_PAYLOAD])
        position = np.int64(head)
        free[size_class] = payload[position * index[INDEX_WIDTH]]
        return position
    position = atomic_add(index, INDEX_PAYLOAD_USED, size)
    if position + size > index[INDEX_PAYLOAD_CAPACITY]:
        atomic_add(index, INDEX_PAYLOAD_USED, -size)
        return -1
    return position


@device
def give_block(index, free, position, size_class):
    """Put a block on the list of free ones."""
    as_u4(index[INDEX_PAYLOAD])[position * index[INDEX_WIDTH]] = free[size_class]
    free[size_class] = np.uint32(position)


@device
def grow_block(index, free, slots, at, length):
    """Move a full block to one of twice its size. False when the payload is full."""
    width = index[INDEX_WIDTH]
    if width == 0:  # no room is taken, and there is none for the links of a list of free blocks
        return True
    size = np.int64(1)
    size_class = 0
    while size <= length:
        size <<= 1
        size_class += 1
    position = take_block(index, free, size, size_class)
    if position < 0:
        return False
    payload = as_u4(index[INDEX_PAYLOAD])
    if length > 0:
        old = np.int64(slots[at + SLOT_START])
        for k in range(length * width):
            payload[position * width + k] = payload[old * width + k]
        give_block(index, free, old, size_class - 1)
    slots[at + SLOT_START] = np.uint32(position)
    return True


@device
def expect_slot(index, key):
    """Have the memory of a key's slot fetched ahead."""
    if index[INDEX_HASHED] == 0:
        prefetch(as_u4(index[INDEX_SLOTS]), key * SLOT_WORDS)
    else:
        place = place_of(mix(np.uint64(key) + np.uint64(1)), index[INDEX_SLOT_CAPACITY])
        prefetch(as_u4(index[INDEX_SLOTS]), place * HASHED_WORDS)


@device
def share_bound(index, share, shares):
    """Where a share of the slots begins, as of `spot_of`."""
    if index[INDEX_HASHED] == 0:
        return index[INDEX_SLOT_CAPACITY] * share // shares
    return (np.int64(share) << np.int64(32)) // shares


@device
def spot_of(index, key):
    """What a key is compared by with the bounds of shares: slots that lie close are of one share."""
    if index[INDEX_HASHED] == 0:
        return key
    return np.int64(mix(np.uint64(key) + np.uint64(1)) >> np.uint64(32))


@device
def append_range(index, rows, start, end, share, shares, free):
    """Add rows [start, end) as part of round INDEX_ROUND; the first row not added for lack of room.

    Only those of one share of the slots, with free blocks from `free`.
    """
    round_number = np.uint32(index[INDEX_ROUND])
    low = share_bound(index, share, shares)
    high = share_bound(index, share + 1, shares)
    for row in range(start, end):
        if row + AHEAD < end:
            coming = row_key(index, rows, row + AHEAD)
            if shares == 1 or low <= spot_of(index, coming) < high:
                expect_slot(index, coming)
        key = row_key(index, rows, row)
        if shares > 1:
            spot = spot_of(index, key)
            if spot < low or spot >= high:
                continue
        at = slot_for(index, key)
        if at == NO_SLOT:
            return row
        slots = as_u4(index[INDEX_SLOTS])
        length = np.int64(slots[at + SLOT_LENGTH])
        if length & (length - 1) == 0 and not grow_block(index, free, slots, at, length):
            return row
        if slots[at + SLOT_ROUND] != round_number:
            slots[at + SLOT_ROUND] = round_number
            slots[at + SLOT_OLD] = np.uint32(length)
        write_payload(index, rows, row, np.int64(slots[at + SLOT_START]) + length)
        slots[at + SLOT_LENGTH] = np.uint32(length + 1)
    return end


@kernel("i8(i8*, i8*, i8, i8, i8, i8, u4*)")
def append(index, rows, start, end, share, shares, free):
    """Add rows [start, end) of a rows header, those of one share of the slots, as part of round INDEX_ROUND.

    Returns the first row that was not added because slots, table or payload are full. `free` are the heads of
    lists of free blocks that no other thread uses.
    """
    return append_range(index, rows, start, end, share, shares, free)


@kernel("i8(i8*, i8*, i8, i8, i8, i8)")
def assign_slots(index, rows, start, end, share, shares):
    """First pass of a bulk build: give each row's key a slot and count the slot's rows in its length.

    For rows of one share of the slots. Returns the first row not counted for lack of slots.
    """
    slots = as_u4(index[INDEX_SLOTS])
    low = share_bound(index, share, shares)
    high = share_bound(index, share + 1, shares)
    for row in range(start, end):
        key = row_key(index, rows, row)
        if shares > 1:
            spot = spot_of(index, key)
            if spot < low or spot >= high:
                continue
        at = slot_for(index, key)
        if at == NO_SLOT:
            return row
        slots[at + SLOT_LENGTH] += np.uint32(1)
    return end


@kernel("i8(i8*, i8)")
def place_blocks(index, exact):
    """Second pass: give each slot its block (of just its size if `exact`, else the next power of two).

    Lengths become 0 again, for the fill to count. Returns the payload rows used.
    """
    slots = as_u4(index[INDEX_SLOTS])
    used = 0
    words = HASHED_WORDS if index[INDEX_HASHED] == 1 else SLOT_WORDS
    for slot in range(index[INDEX_SLOT_CAPACITY]):
        at = (slot + 1) * words - SLOT_WORDS
        length = np.int64(slots[at + SLOT_LENGTH])
        size = length
        if exact == 0 and length > 0:
            size = np.int64(1)
            while size < length:
                size <<= 1
        slots[at + SLOT_START] = np.uint32(used)
        slots[at + SLOT_LENGTH] = np.uint32(0)
        slots[at + SLOT_OLD] = np.uint32(0)
        used += size
    index[INDEX_PAYLOAD_USED] = used
    return used


@kernel("i8(i8*, i8*, i8, i8, i8, i8)")
def fill_blocks(index, rows, start, end, share, shares):
    """Third pass: write the rows of one share of the slots into their blocks."""
    slots = as_u4(index[INDEX_SLOTS])
    round_number = np.uint32(index[INDEX_ROUND])
    low = share_bound(index, share, shares)
    high = share_bound(index, share + 1, shares)
    for row in range(start, end):
        key = row_key(index, rows, row)
        if shares > 1:
            spot = spot_of(index, key)
            if spot < low or spot >= high:
                continue
        at = find_slot(index, key)
        length = slots[at + SLOT_LENGTH]
        write_payload(index, rows, row, np.int64(slots[at + SLOT_START]) + np.int64(length))
        slots[at + SLOT_ROUND] = round_number
        slots[at + SLOT_LENGTH] = length + np.uint32(1)
    return end


@kernel("i8(u8*, i8, i8, u8*, i8)")
def rehash(old, start, end, new, new_capacity):
    """Move hashed slots [start, end) of one table to a larger, zeroed one, of which each is three words.

    Both are walked in order of the hash. Several threads may, each with slots of its own.
    """
    for i in range(start, end):
        stored = old[3 * i]
        if stored != np.uint64(0):
            place = place_of(mix(stored), new_capacity)
            while compare_and_swap(new, 3 * place, np.uint64(0), stored) != np.uint64(0):
                place = place + 1 if place + 1 < new_capacity else 0
            new[3 * place + 1] = old[3 * i + 1]
            new[3 * place + 2] = old[3 * i + 2]
    return 0
