"""Taking rows out of sets and indexes, at the cost of what is taken out. For one thread.

Open-addressing tables have no marks for what was deleted: the entries behind a hole that a search would
no longer reach move back into it. A block of an index keeps the size that appending relies on, the least
power of two that holds its rows; so a block that has become too large is given up for a free one of half
its size, or cut in two where there is none. Cutting only where none is free keeps rows that come and go
from turning every large block into small ones.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import as_u4, as_u8
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.keyset import is_wide, mix, place_of, read_row, set_key, wide_hash
from gpuengine.kernels.cpu.layout import (
    BITMAP,
    HASHED,
    HASHED_WORDS,
    INDEX_COLUMNS,
    INDEX_FREE,
    INDEX_HASHED,
    INDEX_KEYS,
    INDEX_PAYLOAD,
    INDEX_SLOT_CAPACITY,
    INDEX_SLOT_COUNT,
    INDEX_SLOTS,
    INDEX_WIDTH,
    KEY_WORDS,
    ROWS_COLUMNS,
    SET_ARITY,
    SET_CAPACITY,
    SET_DATA,
    SET_KIND,
    SLOT_LENGTH,
    SLOT_START,
)
from gpuengine.kernels.cpu.rowindex import (
    AHEAD,
    NO_BLOCK,
    NO_SLOT,
    expect_slot,
    find_slot,
    give_block,
    row_key,
    stored_key,
    take_block,
)

NO_PLACE = -1
NO_ENTRY = -1
UNKNOWN_ROW = -1
ROW_WORK = 512  # what sorting a row and finding its slot takes, in entries looked at (a third of a ns)
SEARCH_WORK = 6  # what a step of a binary search takes


@device
def passes(home, hole, place, capacity):
    """Does a search that begins at `home` and ends at `place` come by `hole`?"""
    from_home = place - home if place >= home else place - home + capacity
    from_hole = place - hole if place >= hole else place - hole + capacity
    return from_home >= from_hole


@device
def clear_bit(words, key):
    """True if the bit was set."""
    bit = np.uint64(1) << np.uint64(key & 63)
    if words[key >> 6] & bit == np.uint64(0):
        return False
    words[key >> 6] ^= bit
    return True


@device
def hashed_place(table, capacity, stored):
    """Where a key + 1 is, or NO_PLACE."""
    place = place_of(mix(stored), capacity)
    while table[place] != stored:
        if table[place] == np.uint64(0):
            return np.int64(NO_PLACE)
        place = place + 1 if place + 1 < capacity else 0
    return place


@device
def wide_place(table, capacity, arity, values):
    """Where a row is in a wide table, or NO_PLACE."""
    width = ((arity + 1) >> 1) + 1
    hashed = wide_hash(values, arity)
    tag = hashed | np.uint64(2)
    place = place_of(hashed, capacity)
    while table[place * width] != tag or not is_wide(table, place * width, arity, values):
        if table[place * width] == np.uint64(0):
            return np.int64(NO_PLACE)
        place = place + 1 if place + 1 < capacity else 0
    return place


@device
def empty_place(table, capacity, width, hole):
    """Take the entry at `hole` out of a table whose entries have `width` words.

    An entry of one word is a key + 1; a longer one begins with its tag, which differs from its hash only in
    a bit that does not decide on its place.
    """
    place = hole
    while True:
        place = place + 1 if place + 1 < capacity else 0
        first = table[place * width]
        if first == np.uint64(0):
            break
        home = place_of(first if width > 1 else mix(first), capacity)
        if passes(home, hole, place, capacity):
            for w in range(width):
                table[hole * width + w] = table[place * width + w]
            hole = place
    table[hole * width] = np.uint64(0)


@device
def set_erase(header, values):
    """Take a row out of a set; False if it is not in it."""
    kind = header[SET_KIND]
    table = as_u8(header[SET_DATA])
    capacity = header[SET_CAPACITY]
    if kind > HASHED:
        arity = header[SET_ARITY]
        place = wide_place(table, capacity, arity, values)
        if place == NO_PLACE:
            return False
        empty_place(table, capacity, ((arity + 1) >> 1) + 1, place)
        return True
    key, inside = set_key(header, values)
    if not inside:
        return False
    if kind == BITMAP:
        return clear_bit(table, key)
    place = hashed_place(table, capacity, np.uint64(key) + np.uint64(1))
    if place == NO_PLACE:
        return False
    empty_place(table, capacity, 1, place)
    return True


@kernel("i8(i8*, i8*, i8, i8, i8*)")
def erase_keys(header, rows, start, end, values):
    """Take rows [start, end) out of a set; returns how many were in it. `values` is scratch for one row."""
    count = 0
    for row in range(start, end):
        read_row(rows, header[SET_ARITY], row, values)
        if set_erase(header, values):
            count += 1
    return count


@device
def empty_slot(index, at):
    """Take the hashed slot that begins at `at` out of the table of slots."""
    slots = as_u4(index[INDEX_SLOTS])
    keys = as_u8(index[INDEX_SLOTS])
    capacity = index[INDEX_SLOT_CAPACITY]
    hole = at // HASHED_WORDS
    place = hole
    while True:
        place = place + 1 if place + 1 < capacity else 0
        stored = stored_key(keys, place * HASHED_WORDS)
        if stored == np.uint64(0):
            break
        if passes(place_of(mix(stored), capacity), hole, place, capacity):
            for w in range(HASHED_WORDS):
                slots[hole * HASHED_WORDS + w] = slots[place * HASHED_WORDS + w]
            hole = place
    for w in range(HASHED_WORDS):
        slots[hole * HASHED_WORDS + w] = np.uint32(0)
    index[INDEX_SLOT_COUNT] -= 1


@device
def halve_block(index, at, length, half, half_class):
    """Move the `length` <= `half` entries of a slot, whose block has twice `half`, to a block of `half`."""
    slots = as_u4(index[INDEX_SLOTS])
    old = np.int64(slots[at + SLOT_START])
    free = as_u4(index[INDEX_FREE])
    if free[half_class] == NO_BLOCK:
        give_block(index, free, old + half, half_class)
        return
    position = take_block(index, free, half, half_class)
    width = index[INDEX_WIDTH]
    payload = as_u4(index[INDEX_PAYLOAD])
    for k in range(length * width):
        payload[position * width + k] = payload[old * width + k]
    give_block(index, free, old, half_class + 1)
    slots[at + SLOT_START] = np.uint32(position)


@device
def shorten_slot(index, at, before, length):
    """Leave only the first `length` of a slot's `before` entries; an empty hashed slot goes altogether."""
    slots = as_u4(index[INDEX_SLOTS])
    slots[at + SLOT_LENGTH] = np.uint32(length)
    # Blocks without payload take no room, and have none for the links of a list of free ones.
    if index[INDEX_WIDTH] > 0 and length < before:
        size = np.int64(1)
        size_class = 0
        while size < before:
            size <<= 1
            size_class += 1
        if length == 0:
            give_block(index, as_u4(index[INDEX_FREE]), np.int64(slots[at + SLOT_START]), size_class)
        else:
            while length <= size >> 1:
                size >>= 1
                size_class -= 1
                halve_block(index, at, length, size, size_class)
    if length == 0 and index[INDEX_HASHED] == 1:
        empty_slot(index, at - KEY_WORDS)


@device
def key_within(index, rows, row):
    """The key of a row, and whether it lies within the index's extents."""
    for j in range(index[INDEX_KEYS]):
        at = INDEX_COLUMNS + 4 * j
        offset = np.int64(as_u4(rows[ROWS_COLUMNS + index[at]])[row]) - index[at + 1]
        if offset < 0 or offset >= index[at + 3]:
            return np.int64(0), False
    return row_key(index, rows, row), True


@device
def end_of_key(index, rows, order, i, count):
    """The end of the rows from place `i` of `order` on that have the same key."""
    key = row_key(index, rows, order[i])
    end = i + 1
    while end < count and row_key(index, rows, order[end]) == key:
        end += 1
    return end


@device
def search_work(rows):
    """What a binary search among so many rows takes, in entries looked at.

    Rows are erased from a slot by one pass that searches for each entry among them, where that takes less
    than looking through the entries once for each row.
    """
    work = 0
    while rows > 0:
        rows >>= 1
        work += SEARCH_WORK
    return work


@kernel("i8(i8*, i8*, i8*, i8)")
def erase_work(index, rows, order, count):
    """What `erase_entries` would take, in entries looked at, or UNKNOWN_ROW if it would miss some row."""
    slots = as_u4(index[INDEX_SLOTS])
    work = 0
    for i in range(count):
        if not key_within(index, rows, order[i])[1]:
            return UNKNOWN_ROW
    i = 0
    while i < count:
        at = find_slot(index, row_key(index, rows, order[i]))
        end = end_of_key(index, rows, order, i, count)
        if at == NO_SLOT or end - i > np.int64(slots[at + SLOT_LENGTH]):
            return UNKNOWN_ROW
        length = np.int64(slots[at + SLOT_LENGTH])
        work += (end - i) * ROW_WORK + length * min(end - i, search_work(end - i))
        i = end
    return work


@device
def compare_entry(index, position, rows, row):
    """Below, equal to or above 0 as a payload entry comes before, equals or comes after that of a row."""
    width = index[INDEX_WIDTH]
    payload = as_u4(index[INDEX_PAYLOAD])
    at = INDEX_COLUMNS + 4 * index[INDEX_KEYS]
    for j in range(width):
        entry = np.int64(payload[position * width + j])
        value = np.int64(as_u4(rows[ROWS_COLUMNS + index[at + j]])[row])
        if entry != value:
            return entry - value
    return np.int64(0)


@device
def find_entry(index, rows, row, start, length):
    """The position of a row's entry among the `length` from `start` on, or NO_ENTRY."""
    width = index[INDEX_WIDTH]
    if width == 0:
        return start if length > 0 else np.int64(NO_ENTRY)
    payload = as_u4(index[INDEX_PAYLOAD])
    first = as_u4(rows[ROWS_COLUMNS + index[INDEX_COLUMNS + 4 * index[INDEX_KEYS]]])[row]
    for position in range(start, start + length):
        if payload[position * width] == first and compare_entry(index, position, rows, row) == 0:
            return position
    return np.int64(NO_ENTRY)


@device
def is_among(index, position, rows, order, low, high):
    """Is an entry one of the rows at places [low, high) of `order`, which are sorted by payload?"""
    while low < high:
        middle = (low + high) >> 1
        compared = compare_entry(index, position, rows, order[middle])
        if compared == 0:
            return True
        if compared < 0:
            high = middle
        else:
            low = middle + 1
    return False


@device
def replace_entry(index, position, last):
    """Have the entry at `last` at `position` as well."""
    width = index[INDEX_WIDTH]
    payload = as_u4(index[INDEX_PAYLOAD])
    for j in range(width):
        payload[position * width + j] = payload[last * width + j]


@device
def drop_entries(index, rows, order, low, high, start, length):
    """Drop the rows at places [low, high) of `order` from a slot's entries; how many entries are left."""
    if high - low > search_work(high - low):
        least = length - (high - low)
        position = start
        while position < start + length and length > least:
            if is_among(index, position, rows, order, low, high):
                length -= 1
                replace_entry(index, position, start + length)
            else:
                position += 1
        return length
    for i in range(low, high):
        position = find_entry(index, rows, order[i], start, length)
        if position != NO_ENTRY:
            length -= 1
            replace_entry(index, position, start + length)
    return length


@kernel("i8(i8*, i8*, i8*, i8)")
def erase_entries(index, rows, order, count):
    """Take rows out of an index; returns how many were in it.

    `order` numbers `count` rows, sorted by key and then by payload; `erase_work` has found a slot for each.
    """
    slots = as_u4(index[INDEX_SLOTS])
    gone = 0
    i = 0
    while i < count:
        at = find_slot(index, row_key(index, rows, order[i]))
        end = end_of_key(index, rows, order, i, count)
        before = np.int64(slots[at + SLOT_LENGTH])
        start = np.int64(slots[at + SLOT_START])
        left = drop_entries(index, rows, order, i, end, start, before)
        shorten_slot(index, at, before, left)
        gone += before - left
        i = end
    return gone


@kernel("i8(i8*, i8*, i8, i8)")
def retract_entries(index, rows, start, end):
    """Take rows [start, end), the last that were appended, out of an index: they end their slots."""
    slots = as_u4(index[INDEX_SLOTS])
    for row in range(start, end):
        if row + AHEAD < end:
            expect_slot(index, row_key(index, rows, row + AHEAD))
        at = find_slot(index, row_key(index, rows, row))
        length = np.int64(slots[at + SLOT_LENGTH])
        shorten_slot(index, at, length, length - 1)
    return end
