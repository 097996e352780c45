"""Semi-joins and anti-joins: which rows of key columns equal a row of others.

The right rows go into the smallest of three sets, and the left rows are looked up in it:

- a bitmap, if the product of the columns' extents is small;
- a hash table of packed keys (``key + 1``, 0 is empty), if that product takes 64 bits; two columns always do;
- else a hash table of row numbers (``hash << 32 | row + 1``, 0 is empty), whose rows are compared.

Kernels take rows block by block: the keys of a block column by column, then what is done with each. So one
kernel serves any number of columns, and the places that hashes lead to are fetched while others are computed.
Columns come as `FIELDS` numbers each: the address, the least id on the right, and the extent from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.cpu.atomics import as_u4, prefetch
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.keyset import mix, place_of

FIELDS = 3
BLOCK = 256
"""Rows whose keys are under way at once: few enough that the places they lead to stay in the first cache."""
OUTSIDE = (1 << 64) - 1
"""The key of a row with an id outside the extents, which no row on the right has: products stay below it."""
_BITMAP_BITS = 64
"""Up to so many bits for each row, of either side, a bitmap takes less time than a hash table, and no more
room if there are as many rows on both."""
_SLOTS = 2
"""Slots for each row of a hash table."""
_FEW = 8
"""From so many times as many rows on, the right ones are first looked up among the left, which a cache holds:
only those that are there matter."""


def matching(left: Sequence[np.ndarray], right: Sequence[np.ndarray], kept: int) -> np.ndarray:
    """The places of the left rows that equal a right one (`kept` is 1), or that equal none (0)."""
    if len(left[0]) * _FEW < len(right[0]):
        wanted = _look_up(right, left, 1)
        right = [column[wanted] for column in right]
    return _look_up(left, right, kept)


def _look_up(left: Sequence[np.ndarray], right: Sequence[np.ndarray], kept: int) -> np.ndarray:
    """Like `matching`, with a set of all right rows."""
    count, others, arity = len(left[0]), len(right[0]), len(left)
    if not count or not others:
        return np.arange(0 if kept else count, dtype=np.uint32)
    least = [int(column.min()) for column in right]
    extents = [int(column.max()) - low + 1 for column, low in zip(right, least, strict=True)]
    asked, held = (_described(columns, least, extents) for columns in (left, right))
    keys, places = np.empty(2 * BLOCK, np.uint64), np.empty(count, np.uint32)
    product = prod(extents)
    if product <= _BITMAP_BITS * (count + others):
        words = np.zeros(product // 64 + 1, np.uint64)
        mark_bits(held, arity, others, keys, words)
        written = keep_marked(asked, arity, count, keys, words, kept, places)
    else:
        table = np.zeros(_SLOTS * others + 1, np.uint64)
        if product < OUTSIDE:
            add_keys(held, arity, others, keys, table, len(table))
            written = keep_keys(asked, arity, count, keys, table, len(table), kept, places)
        else:
            add_rows(held, arity, others, keys, table, len(table))
            written = keep_rows(asked, held, arity, count, keys, table, len(table), kept, places)
    places.resize(written, refcheck=False)
    return places


def _described(columns: Sequence[np.ndarray], least: Sequence[int], extents: Sequence[int]) -> np.ndarray:
    addresses = [address_of(column) for column in columns]
    return np.array(list(zip(addresses, least, extents, strict=True)), np.int64)


@device
def pack_block(columns, arity, start, count, keys):
    """The keys of rows [start, start + count), in mixed radix."""
    for j in range(arity):
        column = as_u4(columns[FIELDS * j])
        least = np.uint64(columns[FIELDS * j + 1])
        extent = np.uint64(columns[FIELDS * j + 2])
        for i in range(count):
            # What is less than the least wraps to what is beyond any extent.
            offset = np.uint64(column[start + i]) - least
            before = keys[i] if j > 0 else np.uint64(0)
            if offset < extent and before != np.uint64(OUTSIDE):
                keys[i] = before * extent + offset
            else:
                keys[i] = np.uint64(OUTSIDE)


@device
def hash_block(columns, arity, start, count, hashes):
    """Hashes of rows [start, start + count) that do not pack: two ids at a time."""
    for j in range(0, arity, 2):
        first = as_u4(columns[FIELDS * j])
        second = as_u4(columns[FIELDS * min(j + 1, arity - 1)])
        for i in range(count):
            word = np.uint64(first[start + i])
            if j + 1 < arity:
                word = word << np.uint64(32) | np.uint64(second[start + i])
            before = hashes[i] if j > 0 else np.uint64(0)
            hashes[i] = mix(before ^ word)


@device
def expect_block(hashes, count, table, capacity):
    """Write where each hash belongs behind the block, and have those places fetched ahead."""
    for i in range(count):
        place = place_of(hashes[i], capacity)
        hashes[BLOCK + i] = np.uint64(place)
        prefetch(table, place)


@device
def expect_keys(keys, count, table, capacity):
    """`expect_block` for packed keys."""
    for i in range(count):
        place = place_of(mix(keys[i] + np.uint64(1)), capacity)
        keys[BLOCK + i] = np.uint64(place)
        prefetch(table, place)


@device
def same_row(one, row, other, other_row, arity):
    for j in range(arity):  # noqa: SIM110 (numba compiles no generator)
        if as_u4(one[FIELDS * j])[row] != as_u4(other[FIELDS * j])[other_row]:
            return False
    return True


@device
def find_row(held, table, capacity, place, tag, columns, row, arity):
    """Where the row is in the table, or the empty place where it belongs."""
    while True:
        found = table[place]
        if found == np.uint64(0):
            return place
        if found >> np.uint64(32) == tag:
            number = np.int64(found & np.uint64(0xFFFFFFFF)) - 1
            if same_row(held, number, columns, row, arity):
                return place
        place = place + 1 if place + 1 < capacity else 0


@device
def find_key(table, capacity, place, stored):
    """Where the key is in the table, or the empty place where it belongs."""
    while table[place] != np.uint64(0) and table[place] != stored:
        place = place + 1 if place + 1 < capacity else 0
    return place


@kernel("i8(i8*, i8, i8, u8*, u8*)")
def mark_bits(columns, arity, count, keys, words):
    """Set the bits of rows that are all inside."""
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        pack_block(columns, arity, start, size, keys)
        for i in range(size):
            words[keys[i] >> np.uint64(6)] |= np.uint64(1) << (keys[i] & np.uint64(63))
    return 0


@kernel("i8(i8*, i8, i8, u8*, u8*, i8, u4*)")
def keep_marked(columns, arity, count, keys, words, kept, out):
    """Write the rows whose bits are `kept`; how many. Like all here that keep, it writes before it knows."""
    written = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        pack_block(columns, arity, start, size, keys)
        for i in range(size):
            key = keys[i]
            found = np.int64(0)
            if key != np.uint64(OUTSIDE):
                found = np.int64((words[key >> np.uint64(6)] >> (key & np.uint64(63))) & np.uint64(1))
            out[written] = np.uint32(start + i)
            written += np.int64(found == kept)
    return written


@kernel("i8(i8*, i8, i8, u8*, u8*, i8)")
def add_keys(columns, arity, count, keys, table, capacity):
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        pack_block(columns, arity, start, size, keys)
        expect_keys(keys, size, table, capacity)
        for i in range(size):
            stored = keys[i] + np.uint64(1)
            table[find_key(table, capacity, np.int64(keys[BLOCK + i]), stored)] = stored
    return 0


@kernel("i8(i8*, i8, i8, u8*, u8*, i8, i8, u4*)")
def keep_keys(columns, arity, count, keys, table, capacity, kept, out):
    written = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        pack_block(columns, arity, start, size, keys)
        expect_keys(keys, size, table, capacity)
        for i in range(size):
            place = find_key(table, capacity, np.int64(keys[BLOCK + i]), keys[i] + np.uint64(1))
            out[written] = np.uint32(start + i)
            written += np.int64(np.int64(table[place] != np.uint64(0)) == kept)
    return written


@kernel("i8(i8*, i8, i8, u8*, u8*, i8)")
def add_rows(columns, arity, count, hashes, table, capacity):
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        hash_block(columns, arity, start, size, hashes)
        expect_block(hashes, size, table, capacity)
        for i in range(size):
            row = start + i
            place = np.int64(hashes[BLOCK + i])
            tag = hashes[i] & np.uint64(0xFFFFFFFF)
            place = find_row(columns, table, capacity, place, tag, columns, row, arity)
            if table[place] == np.uint64(0):
                table[place] = tag << np.uint64(32) | np.uint64(row + 1)
    return 0


@kernel("i8(i8*, i8*, i8, i8, u8*, u8*, i8, i8, u4*)")
def keep_rows(columns, held, arity, count, hashes, table, capacity, kept, out):
    written = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        hash_block(columns, arity, start, size, hashes)
        expect_block(hashes, size, table, capacity)
        for i in range(size):
            row = start + i
            place = np.int64(hashes[BLOCK + i])
            tag = hashes[i] & np.uint64(0xFFFFFFFF)
            place = find_row(held, table, capacity, place, tag, columns, row, arity)
            out[written] = np.uint32(row)
            written += np.int64(np.int64(table[place] != np.uint64(0)) == kept)
    return written
