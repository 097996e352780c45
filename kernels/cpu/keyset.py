"""Sets of rows: test, insert, and which rows of a batch are new.

A set is one of
- BITMAP: one bit for each possible row, where the product of the columns' extents is small;
- HASHED: an open-addressing table of ``key + 1`` (uint64, 0 is empty), where a row packs into 64 bits;
- WIDE: an open-addressing table of ``state, words...`` for rows that do not pack, two ids a word.

The key of a row is the sum of ``(id - base) * stride`` over its columns. Inserting is atomic: several
threads may insert into one set, and exactly one of them is told that a row is new.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.addresses import CHECKED
from gpuengine.kernels.cpu.atomics import as_u4, as_u8, atomic_or, compare_and_swap, prefetch
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.layout import (
    BITMAP,
    HASHED,
    ROWS_COLUMNS,
    SET_ARITY,
    SET_CAPACITY,
    SET_COLUMNS,
    SET_DATA,
    SET_KIND,
    SET_REFUSED,
)

OUTSIDE = -1


@device
def mix(key):
    """Spread the bits of a 64-bit key (the finaliser of splitmix64)."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


@device
def place_of(hashed, capacity):
    """Where a hash belongs in a table of `capacity` < 2**32 places: monotone in the hash.

    So a table that grows is refilled by walking both in order, and it need not double.
    """
    return np.int64(((hashed >> np.uint64(32)) * np.uint64(capacity)) >> np.uint64(32))


@device
def insert_bit(words, key):
    """True if the bit was not set before."""
    word = key >> 6
    bit = np.uint64(1) << np.uint64(key & 63)
    if words[word] & bit:
        return False
    return (atomic_or(words, word, bit) & bit) == np.uint64(0)


@device
def insert_hashed(table, capacity, key):
    """True if the key was not in the table; the caller keeps it from filling up."""
    stored = np.uint64(key) + np.uint64(1)
    place = place_of(mix(stored), capacity)
    while True:
        found = table[place]
        if found == stored:
            return False
        if found == np.uint64(0):
            found = compare_and_swap(table, place, np.uint64(0), stored)
            if found == np.uint64(0):
                return True
            if found == stored:
                return False
        place = place + 1 if place + 1 < capacity else 0


@device
def expect_hashed(table, capacity, key):
    """Have the memory that a look-up of `key` will touch fetched ahead."""
    prefetch(table, place_of(mix(np.uint64(key) + np.uint64(1)), capacity))


@device
def contains_hashed(table, capacity, key):
    stored = np.uint64(key) + np.uint64(1)
    place = place_of(mix(stored), capacity)
    while True:
        found = table[place]
        if found == stored:
            return True
        if found == np.uint64(0):
            return False
        place = place + 1 if place + 1 < capacity else 0


@device
def wide_word(values, arity, word):
    """Word `word` of a row: two of its ids."""
    low = values[2 * word]
    high = values[2 * word + 1] if 2 * word + 1 < arity else 0
    return np.uint64(low) | (np.uint64(high) << np.uint64(32))


@device
def wide_hash(values, arity):
    """The hash of a row that does not pack."""
    hashed = np.uint64(arity)
    for w in range((arity + 1) >> 1):
        hashed = mix(hashed ^ wide_word(values, arity, w))
    return hashed


@device
def is_wide(table, at, arity, values):
    """Does the entry at `at` hold this row?"""
    for w in range((arity + 1) >> 1):  # noqa: SIM110 (numba compiles no generator)
        if table[at + 1 + w] != wide_word(values, arity, w):
            return False
    return True


@device
def find_wide(table, capacity, arity, values, insert):
    """Look a row up in a wide table; with `insert`, add it. Returns whether it was there before.

    The first word of an entry is 0 (empty), 1 (being written) or the row's hash with bit 1 set.
    """
    words = (arity + 1) >> 1
    width = words + 1
    hashed = wide_hash(values, arity)
    tag = hashed | np.uint64(2)
    place = place_of(hashed, capacity)
    while True:
        at = place * width
        state = table[at]
        if state == np.uint64(0):
            if not insert:
                return False
            state = compare_and_swap(table, at, np.uint64(0), np.uint64(1))
            if state == np.uint64(0):
                for w in range(words):
                    table[at + 1 + w] = wide_word(values, arity, w)
                compare_and_swap(table, at, np.uint64(1), tag)
                return False
        while state == np.uint64(1):
            state = compare_and_swap(table, at, np.uint64(0), np.uint64(0))
        if state == tag and is_wide(table, at, arity, values):
            return True
        place = place + 1 if place + 1 < capacity else 0


@device
def set_key(header, values):
    """The key of a row, or OUTSIDE if some id lies outside the set's extents."""
    key = 0
    for j in range(header[SET_ARITY]):
        at = SET_COLUMNS + 3 * j
        offset = values[j] - header[at]
        if offset < 0 or offset >= header[at + 2]:
            return OUTSIDE, False
        key += offset * header[at + 1]
    return key, True


@device
def set_contains(header, values):
    kind = header[SET_KIND]
    if kind > HASHED:
        return find_wide(as_u8(header[SET_DATA]), header[SET_CAPACITY], header[SET_ARITY], values, False)
    key, inside = set_key(header, values)
    if not inside:
        return False
    table = as_u8(header[SET_DATA])
    if kind == BITMAP:
        return (table[key >> 6] >> np.uint64(key & 63)) & np.uint64(1) == np.uint64(1)
    return contains_hashed(table, header[SET_CAPACITY], key)


@device
def refuse(header):
    """Note that a row lies outside a set's extents; a checked kernel ends here, by the index that it has."""
    header[SET_REFUSED] = 1
    if CHECKED:
        header[SET_REFUSED] += np.int64(as_u8(header[SET_DATA])[OUTSIDE])


@device
def set_insert(header, values):
    """Insert a row whose ids lie inside the extents; True if it is new. Others are refused, and noted."""
    kind = header[SET_KIND]
    table = as_u8(header[SET_DATA])
    if kind > HASHED:
        return not find_wide(table, header[SET_CAPACITY], header[SET_ARITY], values, True)
    key, inside = set_key(header, values)
    if not inside:
        refuse(header)
        return False
    if kind == BITMAP:
        return insert_bit(table, key)
    return insert_hashed(table, header[SET_CAPACITY], key)


@device
def read_row(rows, arity, row, values):
    for j in range(arity):
        values[j] = np.int64(as_u4(rows[ROWS_COLUMNS + j])[row])


@kernel("i8(i8*, i8*, i8, i8, i8*, u1*)")
def insert_rows(header, rows, start, end, values, new):
    """Insert rows [start, end); `new[i]` tells which were not there. Returns how many were new.

    `values` is scratch for one row.
    """
    count = 0
    for row in range(start, end):
        read_row(rows, header[SET_ARITY], row, values)
        fresh = set_insert(header, values)
        new[row - start] = np.uint8(1) if fresh else np.uint8(0)
        if fresh:
            count += 1
    return count


@kernel("i8(i8*, i8*, i8, i8, i8*, u1*)")
def contains_rows(header, rows, start, end, values, found):
    """`found[i]` tells whether row start + i is in the set. Returns how many are."""
    count = 0
    for row in range(start, end):
        read_row(rows, header[SET_ARITY], row, values)
        there = set_contains(header, values)
        found[row - start] = np.uint8(1) if there else np.uint8(0)
        if there:
            count += 1
    return count


@kernel("i8(u8*, i8, i8)")
def after_gap(table, start, end):
    """The first slot of [start, end) after an empty one, or `end`: no key was displaced past it."""
    for i in range(start, end):
        if table[i - 1] == np.uint64(0):
            return i
    return end


@kernel("i8(u8*, i8, i8, u8*, i8)")
def move_keys(source, start, end, table, capacity):
    """Move what slots [start, end) of one table hold into another, which may lie in the same memory.

    Several threads may, each with slots of its own, if no key belongs into a slot that is still to be moved.
    """
    for i in range(start, end):
        stored = source[i]
        if stored != np.uint64(0):
            source[i] = np.uint64(0)
            insert_hashed(table, capacity, np.int64(stored - np.uint64(1)))
    return 0


@kernel("i8(u4*, i8, i8, u8*)")
def count_distinct(ids, count, base, bits):
    """How many distinct ids there are; `bits` is a zeroed bitmap over ``id - base``."""
    distinct = 0
    for i in range(count):
        if insert_bit(bits, np.int64(ids[i]) - base):
            distinct += 1
    return distinct
