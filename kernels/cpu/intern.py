"""Interning: give each distinct value a dense index, in order of first sight.

Every table is an open-addressing array `slots` of 2**bits 64-bit words beside an append-only array of
the values themselves.  A slot is 0 when empty, else ``hash << 32 | index + 1`` with a 32-bit hash, whose
upper bits are also the slot's home: so most foreign values are told apart without touching the value
array, and `grow_slots` never needs it.  Collisions probe linearly.

The ``intern_*`` kernels start at row `begin` and return the row they stopped at: `n`, or earlier when the
table holds `limit` values (or the arena is full) and must grow before that row can be added.  ``state[0]``
is the number of values, read and written.  The ``find_*`` kernels change nothing.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import as_i8, as_u8, prefetch
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.layout import (
    WORDS_BITS,
    WORDS_DATA,
    WORDS_IDENTITY,
    WORDS_LIMIT,
    WORDS_SLOTS,
    WORDS_STATE,
)

NO_ID = -1
_BLOCK = 256  # rows whose home slots are touched ahead of probing, so that their cache misses overlap


@device
def mix(x):
    """A bijection of 64-bit words (the finaliser of splitmix64)."""
    x = np.uint64(x)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@device
def hash_word(x):
    """The 32-bit hash of a 64-bit word."""
    return mix(x + np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)


@device
def load_word(data, at):
    """Eight bytes as a little-endian word; compiles to one unaligned load."""
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + 1]) << np.uint64(8))
        | (np.uint64(data[at + 2]) << np.uint64(16))
        | (np.uint64(data[at + 3]) << np.uint64(24))
        | (np.uint64(data[at + 4]) << np.uint64(32))
        | (np.uint64(data[at + 5]) << np.uint64(40))
        | (np.uint64(data[at + 6]) << np.uint64(48))
        | (np.uint64(data[at + 7]) << np.uint64(56))
    )


@device
def hash_bytes(data, start, end):
    """The 32-bit hash of the bytes [start, end)."""
    h = np.uint64(end - start) * np.uint64(0x9E3779B97F4A7C15)
    at = start
    while at + 8 <= end:
        h = (h ^ load_word(data, at)) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
        at += 8
    tail = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        tail |= np.uint64(data[at]) << shift
        shift += np.uint64(8)
        at += 1
    return mix(h ^ tail) >> np.uint64(32)


@device
def same_bytes(a, a_at, b, b_at, length):
    """Are `length` bytes of `a` and `b` equal?"""
    done = np.int64(0)
    while done + 8 <= length:
        if load_word(a, a_at + done) != load_word(b, b_at + done):
            return False
        done += 8
    while done < length:
        if a[a_at + done] != b[b_at + done]:
            return False
        done += 1
    return True


@device
def hash_row(row, at, width):
    """The 32-bit hash of `width` ids from place `at`."""
    h = np.uint64(width)
    for j in range(width):
        h = (h ^ np.uint64(row[at + j])) * np.uint64(0xFF51AFD7ED558CCD)
        h ^= h >> np.uint64(32)
    return mix(h) >> np.uint64(32)


@device
def same_row(a, a_at, b, b_at, width):
    """Are `width` ids of `a` and `b` equal?"""
    for j in range(width):  # noqa: SIM110 (numba compiles no generator)
        if a[a_at + j] != b[b_at + j]:
            return False
    return True


@kernel("i8(u8*, i8, u8*, i8)")
def grow_slots(old, old_bits, new, new_bits):
    """Enter every slot of `old` into `new`, which is larger and zeroed."""
    mask = (np.int64(1) << new_bits) - 1
    shift = np.uint64(64 - new_bits)
    high = np.uint64(0xFFFFFFFF00000000)
    for s in range(np.int64(1) << old_bits):
        slot = old[s]
        if slot != 0:
            home = np.int64((slot & high) >> shift)
            while new[home] != 0:
                home = (home + 1) & mask
            new[home] = slot
    return np.int64(0)


@kernel("i8(u8*, i8, i8, u8*, i8, u8*, i8*, i8, u8, u4*)")
def intern_words(words, begin, n, slots, bits, table, state, limit, identity, ids):
    """64-bit values: those below `identity` are their own id, the others get identity + index."""
    mask = (np.int64(1) << bits) - 1
    shift = np.uint64(64 - bits)
    low = np.uint64(0xFFFFFFFF)
    count = state[0]
    touched = np.uint64(0)
    row = begin
    while row < n:
        stop = min(row + _BLOCK, n)
        for i in range(row, stop):
            h = hash_word(words[i])
            ids[i] = np.uint32(h)
            touched ^= slots[np.int64((h << np.uint64(32)) >> shift)]
        while row < stop:
            word = words[row]
            if word < identity:
                ids[row] = np.uint32(word)
                row += 1
                continue
            tag = np.uint64(ids[row]) << np.uint64(32)
            at = np.int64(tag >> shift)
            while True:
                slot = slots[at]
                if slot == 0:
                    if count == limit:
                        state[0] = count
                        state[1] = np.int64(touched)
                        return row
                    table[count] = word
                    count += 1
                    slots[at] = tag | np.uint64(count)
                    ids[row] = np.uint32(identity + np.uint64(count - 1))
                    break
                if (slot ^ tag) <= low:
                    index = np.int64(slot & low) - 1
                    if table[index] == word:
                        ids[row] = np.uint32(identity + np.uint64(index))
                        break
                at = (at + 1) & mask
            row += 1
    state[0] = count
    state[1] = np.int64(touched)  # stored so that the touching loads are not optimised away
    return row


@device
def intern_word(header, word):
    """The id of one word in the table of a words header; NO_ID if it is new and the table is full."""
    identity = np.uint64(header[WORDS_IDENTITY])
    if word < identity:
        return np.int64(word)
    slots = as_u8(header[WORDS_SLOTS])
    table = as_u8(header[WORDS_DATA])
    state = as_i8(header[WORDS_STATE])
    mask = (np.int64(1) << header[WORDS_BITS]) - 1
    low = np.uint64(0xFFFFFFFF)
    tag = hash_word(word) << np.uint64(32)
    at = np.int64(tag >> np.uint64(64 - header[WORDS_BITS]))
    while slots[at] != np.uint64(0):
        if (slots[at] ^ tag) <= low:
            index = np.int64(slots[at] & low) - 1
            if table[index] == word:
                return np.int64(identity) + index
        at = (at + 1) & mask
    count = state[0]
    if count == header[WORDS_LIMIT]:
        return np.int64(NO_ID)
    table[count] = word
    slots[at] = tag | np.uint64(count + 1)
    state[0] = count + 1
    return np.int64(identity) + count


@kernel("i8(u8*, i8, u8*, i8, u8*, u8, u4*, u1*)")
def find_words(words, n, slots, bits, table, identity, ids, found):
    """The ids of 64-bit values where known; returns how many are."""
    mask = (np.int64(1) << bits) - 1
    shift = np.uint64(64 - bits)
    low = np.uint64(0xFFFFFFFF)
    hits = np.int64(0)
    for row in range(n):
        word = words[row]
        ids[row] = np.uint32(0)
        found[row] = np.uint8(0)
        if word < identity:
            ids[row] = np.uint32(word)
            found[row] = np.uint8(1)
            hits += 1
            continue
        tag = hash_word(word) << np.uint64(32)
        at = np.int64(tag >> shift)
        while slots[at] != 0:
            slot = slots[at]
            if (slot ^ tag) <= low:
                index = np.int64(slot & low) - 1
                if table[index] == word:
                    ids[row] = np.uint32(identity + np.uint64(index))
                    found[row] = np.uint8(1)
                    hits += 1
                    break
            at = (at + 1) & mask
    return hits


@device
def hash_block(starts, ends, data, begin, stop, slots, shift, hashes):
    """The hashes of strings; their homes are asked for."""
    for i in range(begin, stop):
        h = hash_bytes(data, starts[i], ends[i])
        hashes[i] = np.uint32(h)
        prefetch(slots, np.int64((h << np.uint64(32)) >> shift))


@device
def expect_block(begin, stop, slots, shift, offsets, arena, count, hashes):
    """Ask for the strings that lie in the homes of others, for those are likely the same."""
    low = np.uint64(0xFFFFFFFF)
    for i in range(begin, stop):
        slot = slots[np.int64((np.uint64(hashes[i]) << np.uint64(32)) >> shift)]
        if slot != 0:
            prefetch(offsets, np.int64(slot & low) - 1)
    for i in range(begin, stop):
        slot = slots[np.int64((np.uint64(hashes[i]) << np.uint64(32)) >> shift)]
        if slot != 0:
            index = np.int64(slot & low) - 1
            if index < count:
                prefetch(arena, offsets[index])


@kernel("i8(i8*, i8*, u1*, i8, i8, u8*, i8, i8*, u1*, i8, i8*, i8, u4*)")
def intern_strings(starts, ends, data, begin, n, slots, bits, offsets, arena, arena_size, state, limit, ids):
    """Byte strings data[starts[i]:ends[i]]; string k of the table is arena[offsets[k]:offsets[k + 1]]."""
    mask = (np.int64(1) << bits) - 1
    shift = np.uint64(64 - bits)
    low = np.uint64(0xFFFFFFFF)
    count = state[0]
    row = begin
    while row < n:
        stop = min(row + _BLOCK, n)
        hash_block(starts, ends, data, row, stop, slots, shift, ids)
        expect_block(row, stop, slots, shift, offsets, arena, count, ids)
        while row < stop:
            tag = np.uint64(ids[row]) << np.uint64(32)
            start = starts[row]
            length = ends[row] - start
            at = np.int64(tag >> shift)
            while True:
                slot = slots[at]
                if slot == 0:
                    used = offsets[count]
                    if count == limit or used + length > arena_size:
                        state[0] = count
                        return row
                    for j in range(length):
                        arena[used + j] = data[start + j]
                    count += 1
                    offsets[count] = used + length
                    slots[at] = tag | np.uint64(count)
                    ids[row] = np.uint32(count - 1)
                    break
                if (slot ^ tag) <= low:
                    index = np.int64(slot & low) - 1
                    known = offsets[index]
                    if offsets[index + 1] - known == length and same_bytes(arena, known, data, start, length):
                        ids[row] = np.uint32(index)
                        break
                at = (at + 1) & mask
            row += 1
    state[0] = count
    return row


@kernel("i8(i8*, i8*, u1*, i8, u8*, i8, i8*, u1*, i8, u4*, u1*)")
def find_strings(starts, ends, data, n, slots, bits, offsets, arena, count, ids, found):
    """The ids of byte strings where known, among the first `count`; returns how many are.

    Others may be added meanwhile.
    """
    mask = (np.int64(1) << bits) - 1
    shift = np.uint64(64 - bits)
    low = np.uint64(0xFFFFFFFF)
    hits = np.int64(0)
    for begin in range(0, n, _BLOCK):
        stop = min(begin + _BLOCK, n)
        hash_block(starts, ends, data, begin, stop, slots, shift, ids)
        expect_block(begin, stop, slots, shift, offsets, arena, count, ids)
        for row in range(begin, stop):
            tag = np.uint64(ids[row]) << np.uint64(32)
            ids[row] = np.uint32(0)
            found[row] = np.uint8(0)
            start = starts[row]
            length = ends[row] - start
            at = np.int64(tag >> shift)
            slot = slots[at]
            while slot != 0:
                index = np.int64(slot & low) - 1
                if (slot ^ tag) <= low and index < count:
                    known = offsets[index]
                    if offsets[index + 1] - known == length and same_bytes(arena, known, data, start, length):
                        ids[row] = np.uint32(index)
                        found[row] = np.uint8(1)
                        hits += 1
                        break
                at = (at + 1) & mask
                slot = slots[at]
    return hits


@kernel("i8(u4*, i8, i8, i8, u8*, i8, u4*, i8*, i8, u4*)")
def intern_rows(rows, width, begin, n, slots, bits, table, state, limit, ids):
    """Rows of `width` ids, row-major in and in the table; the result is the index."""
    mask = (np.int64(1) << bits) - 1
    shift = np.uint64(64 - bits)
    low = np.uint64(0xFFFFFFFF)
    count = state[0]
    for row in range(begin, n):
        tag = hash_row(rows, row * width, width) << np.uint64(32)
        at = np.int64(tag >> shift)
        while True:
            slot = slots[at]
            if slot == 0:
                if count == limit:
                    state[0] = count
                    return row
                for j in range(width):
                    table[count * width + j] = rows[row * width + j]
                count += 1
                slots[at] = tag | np.uint64(count)
                ids[row] = np.uint32(count - 1)
                break
            if (slot ^ tag) <= low:
                index = np.int64(slot & low) - 1
                if same_row(table, index * width, rows, row * width, width):
                    ids[row] = np.uint32(index)
                    break
            at = (at + 1) & mask
    state[0] = count
    return n


@kernel("i8(u4*, i8, i8, u8*, i8, u4*, u4*, u1*)")
def find_rows(rows, width, n, slots, bits, table, ids, found):
    """The indexes of rows where known; returns how many are."""
    mask = (np.int64(1) << bits) - 1
    shift = np.uint64(64 - bits)
    low = np.uint64(0xFFFFFFFF)
    hits = np.int64(0)
    for row in range(n):
        ids[row] = np.uint32(0)
        found[row] = np.uint8(0)
        tag = hash_row(rows, row * width, width) << np.uint64(32)
        at = np.int64(tag >> shift)
        while slots[at] != 0:
            slot = slots[at]
            if (slot ^ tag) <= low:
                index = np.int64(slot & low) - 1
                if same_row(table, index * width, rows, row * width, width):
                    ids[row] = np.uint32(index)
                    found[row] = np.uint8(1)
                    hits += 1
                    break
            at = (at + 1) & mask
    return hits
