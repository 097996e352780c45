"""Kernels of `KeySet`: test and insert keys or wide rows, several at once, each new one found once.

A set is one of
- BITMAP: one bit for each possible key;
- HASHED: open addressing over keys (uint64, all ones is empty), a power of two of slots;
- WIDE: open addressing over row numbers, for rows that do not pack into 64 bits. While a batch is inserted a
  slot may hold a candidate's number with `CANDIDATE` set; the winners' slots get row numbers afterwards.

Slots go from empty to taken once and never change while candidates race, so a stale read of an
empty slot costs a failed `compare_and_swap` and nothing else. What is taken out leaves its slot GONE.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_or, compare_and_swap
from gpuengine.kernels.cuda.spec import device_function, device_kernel

BITMAP, HASHED, WIDE = 0, 1, 2
EMPTY = (1 << 64) - 1
GONE = EMPTY - 1
"""What a slot holds whose row was taken out: no key and no row number, so that searches pass over it."""
CANDIDATE = 1 << 63


@device_function
def mix(key):
    """Spread the bits of a 64-bit key (the finaliser of splitmix64)."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


@device_function
def insert_bit(words, key):
    """True if the bit was not set before."""
    word = np.int64(key >> np.uint64(5))
    bit = np.uint32(1) << np.uint32(key & np.uint64(31))
    if words[word] & bit:
        return False
    return (atomic_or(words, word, bit) & bit) == np.uint32(0)


@device_function
def insert_slot(table, mask, key):
    """True if the key was not in the table before; the table has an empty slot."""
    slot = np.int64(mix(key) & mask)
    while True:
        seen = table[slot]
        if seen == np.uint64(EMPTY):
            seen = compare_and_swap(table, slot, np.uint64(EMPTY), key)
            if seen == np.uint64(EMPTY):
                return True
        if seen == key:
            return False
        slot = np.int64(np.uint64(slot + 1) & mask)


@device_function
def insert_slot_nearby(table, mask, key):
    """1 if the key was not in the table before, 0 if it was, and 2 if the search got too far from its slot.

    So it ends in a table that others fill up meanwhile.
    """
    slot = np.int64(mix(key) & mask)
    end = slot + np.int64(2048)
    result = np.int64(2)
    while slot < end:
        place = np.int64(np.uint64(slot) & mask)
        seen = table[place]
        if seen == np.uint64(EMPTY):
            seen = compare_and_swap(table, place, np.uint64(EMPTY), key)
            if seen == np.uint64(EMPTY):
                result = np.int64(1)
                break
        if seen == key:
            result = np.int64(0)
            break
        slot += 1
    return result


@device_function
def find_slot(table, mask, key):
    """Is the key in the table?"""
    slot = np.int64(mix(key) & mask)
    while True:
        seen = table[slot]
        if seen == key:
            return True
        if seen == np.uint64(EMPTY):
            return False
        slot = np.int64(np.uint64(slot + 1) & mask)


@device_kernel("u4*, u8*, u1*, u1*", streamed=10, random=1)
def insert_bits(i, words, keys, keep, new):
    """new[i]: was the key kept, and not in the bitmap before?"""
    if keep[i] and insert_bit(words, keys[i]):
        new[i] = 1
    else:
        new[i] = 0


@device_kernel("u8*, u8, u8*, u1*, u1*", streamed=10, random=2)
def insert_keys(i, table, mask, keys, keep, new):
    """new[i]: was the key kept, and not in the table before?"""
    if keep[i] and insert_slot(table, mask, keys[i]):
        new[i] = 1
    else:
        new[i] = 0


@device_kernel("u4*, u8*, i8, u1*", streamed=9, random=1)
def keep_bits(i, words, keys, negated, keep):
    key = keys[i]
    found = np.int64(0)
    if key != np.uint64(EMPTY):
        found = np.int64(
            (words[np.int64(key >> np.uint64(5))] >> np.uint32(key & np.uint64(31))) & np.uint32(1)
        )
    if found == negated:
        keep[i] = 0


@device_kernel("u8*, u8, u8*, i8, u1*", streamed=9, random=1)
def keep_keys(i, table, mask, keys, negated, keep):
    key = keys[i]
    found = np.int64(0)
    if key != np.uint64(EMPTY) and find_slot(table, mask, key):
        found = np.int64(1)
    if found == negated:
        keep[i] = 0


@device_kernel("u8*, u8*, u8", streamed=8, random=1)
def rehash(i, old, table, mask):
    """Move what slot i of an old table holds into a larger one."""
    if old[i] < np.uint64(GONE):
        insert_slot(table, mask, old[i])


@device_function
def hash_row(rows, stride, arity, row):
    """A hash of a row of a matrix whose columns are `stride` apart."""
    key = np.uint64(0)
    for j in range(arity):
        key = mix(key ^ np.uint64(rows[j * stride + row]) ^ np.uint64(0x9E3779B97F4A7C15))
    return key


@device_function
def same_row(one, stride, row, other, other_stride, other_row, arity):
    j = np.int64(0)
    while j < arity and one[j * stride + row] == other[j * other_stride + other_row]:
        j += 1
    return j == arity


@device_kernel("u8*, u8, u4*, i8, u4*, i8, i8, u1*, u8*, u1*", streamed=24, random=4)
def claim_rows(i, table, mask, rows, stride, batch, batch_stride, arity, keep, places, new):
    """new[i]: is row i of the batch kept, not in the set, and the one of its equals that got the slot?"""
    new[i] = 0
    if keep[i]:
        slot = np.int64(hash_row(batch, batch_stride, arity, i) & mask)
        while True:
            seen = table[slot]
            if seen == np.uint64(EMPTY):
                mine = np.uint64(CANDIDATE) | np.uint64(i)
                seen = compare_and_swap(table, slot, np.uint64(EMPTY), mine)
                if seen == np.uint64(EMPTY):
                    places[i] = np.uint64(slot)
                    new[i] = 1
                    break
            number = np.int64(seen & np.uint64(CANDIDATE - 1))
            if seen >= np.uint64(CANDIDATE):
                if seen != np.uint64(GONE) and same_row(
                    batch, batch_stride, number, batch, batch_stride, i, arity
                ):
                    break
            elif same_row(rows, stride, number, batch, batch_stride, i, arity):
                break
            slot = np.int64(np.uint64(slot + 1) & mask)


@device_kernel("u4*, u8*, i8, u8*", streamed=4, random=2)
def settle_claims(i, winners, places, first, table):
    """Winner i of a batch becomes row ``first + i``: say so in its slot."""
    table[np.int64(places[winners[i]])] = np.uint64(first + i)


@device_kernel("u8*, u8, u4*, i8, i8, i8", streamed=12, random=1)
def insert_row_numbers(i, table, mask, rows, stride, arity, first):
    """Insert the number of row ``first + i`` into a table of row numbers that has no equal row."""
    number = first + i
    slot = np.int64(hash_row(rows, stride, arity, number) & mask)
    while compare_and_swap(table, slot, np.uint64(EMPTY), np.uint64(number)) != np.uint64(
        18446744073709551615
    ):
        slot = np.int64(np.uint64(slot + 1) & mask)


@device_kernel("u8*, u8, u4*, i8, u4*, i8, i8, i8, u1*", streamed=12, random=3)
def keep_rows(i, table, mask, rows, stride, batch, batch_stride, arity, negated, keep):
    slot = np.int64(hash_row(batch, batch_stride, arity, i) & mask)
    found = np.int64(0)
    while True:
        seen = table[slot]
        if seen == np.uint64(EMPTY):
            break
        if seen != np.uint64(GONE) and same_row(rows, stride, np.int64(seen), batch, batch_stride, i, arity):
            found = np.int64(1)
            break
        slot = np.int64(np.uint64(slot + 1) & mask)
    if found == negated:
        keep[i] = 0
