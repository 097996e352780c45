"""Kernels that take rows out: of sets, by their numbers out of a locator, and out of the runs of an index.

A slot that held what went is GONE: no key and no number is, searches pass over it, and nothing is put there
before the table is made anew. A run, which is sorted, is written again without what went.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_and
from gpuengine.kernels.cuda.index_kernels import hashed_key
from gpuengine.kernels.cuda.search import first_not_less
from gpuengine.kernels.cuda.set_kernels import EMPTY, GONE, hash_row, mix, same_row
from gpuengine.kernels.cuda.spec import device_function, device_kernel

NOWHERE = 4294967295
"""The number of a row that is not there."""


@device_kernel("u4*, u8*", streamed=8, random=2)
def erase_bits(i, words, keys):
    """Take a key that is in a bitmap out of it."""
    key = keys[i]
    bit = np.uint32(1) << np.uint32(key & np.uint64(31))
    atomic_and(words, np.int64(key >> np.uint64(5)), bit ^ np.uint32(4294967295))


@device_kernel("u8*, u8, u8*", streamed=8, random=2)
def erase_keys(i, table, mask, keys):
    """Take a key that is in a hash table out of it; no other item has the same."""
    slot = np.int64(mix(keys[i]) & mask)
    while table[slot] != keys[i]:
        slot = np.int64(np.uint64(slot + 1) & mask)
    table[slot] = np.uint64(GONE)


@device_function
def slot_of_row(table, mask, rows, stride, batch, batch_stride, arity, i):
    """Where the number of the row is that row i of a batch equals; -1 if there is none."""
    slot = np.int64(hash_row(batch, batch_stride, arity, i) & mask)
    while True:
        seen = table[slot]
        if seen == np.uint64(EMPTY):
            return np.int64(-1)
        if seen != np.uint64(GONE) and same_row(rows, stride, np.int64(seen), batch, batch_stride, i, arity):
            return slot
        slot = np.int64(np.uint64(slot + 1) & mask)


@device_kernel("u8*, u8, u4*, i8, u4*, i8, i8", streamed=12, random=7)
def erase_rows(i, table, mask, rows, stride, batch, batch_stride, arity):
    """Take a row that is in a WIDE set out of it; no other item has an equal one."""
    slot = slot_of_row(table, mask, rows, stride, batch, batch_stride, arity, i)
    if slot >= np.int64(0):
        table[slot] = np.uint64(GONE)


@device_kernel("u8*, u8, u4*, i8, u4*, i8, i8, u4*", streamed=16, random=3)
def locate_rows(i, table, mask, rows, stride, batch, batch_stride, arity, numbers):
    """The number of the row that row i of a batch equals, or NOWHERE."""
    slot = slot_of_row(table, mask, rows, stride, batch, batch_stride, arity, i)
    numbers[i] = np.uint32(NOWHERE)
    if slot >= np.int64(0):
        numbers[i] = np.uint32(table[slot])


@device_function
def slot_of_number(table, mask, rows, stride, arity, number):
    """Where the number of a row is, which is there."""
    slot = np.int64(hash_row(rows, stride, arity, number) & mask)
    while table[slot] != np.uint64(number):
        slot = np.int64(np.uint64(slot + 1) & mask)
    return slot


@device_kernel("u8*, u8, u4*, i8, i8, u4*", streamed=4, random=4)
def forget_numbers(i, table, mask, rows, stride, arity, numbers):
    """Take the number of a row out; the row is still where it was."""
    slot = slot_of_number(table, mask, rows, stride, arity, np.int64(numbers[i]))
    table[slot] = np.uint64(GONE)


@device_kernel("u8*, u8, u4*, i8, i8, u4*, u4*", streamed=8, random=6)
def move_rows(i, table, mask, rows, stride, arity, movers, holes):
    """Move a row to a number that no row has any more, and say so in its slot."""
    mover, hole = np.int64(movers[i]), np.int64(holes[i])
    slot = slot_of_number(table, mask, rows, stride, arity, mover)
    table[slot] = np.uint64(hole)
    for j in range(arity):
        rows[j * stride + hole] = rows[j * stride + mover]


@device_kernel("i8, u4*, u4*, u4*, i8, u4*, i8, i8, u8*", streamed=16, random=2)
def make_pairs_of(i, mode, places, numbers, first, first_low, second, second_low, extent, pairs):
    """The key of the row at ``places[i]`` with another number; see `make_pairs`."""
    row = np.int64(places[i])
    if mode == 2:
        key = hashed_key(first[row], second[row])
    elif mode == 1:
        key = np.uint64((np.int64(first[row]) - first_low) * extent + np.int64(second[row]) - second_low)
    else:
        key = np.uint64(np.int64(first[row]) - first_low)
    pairs[i] = key << np.uint64(32) | np.uint64(numbers[i])


@device_kernel("u8*, u8*, i8, u4*, u1*", streamed=13, random=2)
def find_pairs(i, wanted, run, count, places, found):
    """Where a pair is in an ascending run, and whether it is there."""
    place = first_not_less(run, np.int64(0), count, wanted[i])
    places[i] = np.uint32(place)
    found[i] = 0
    if place < count and run[place] == wanted[i]:
        found[i] = 1


@device_function
def left_out_before(removed, count, place):
    """How many of the ascending places in `removed` come before the element that `place` is after them."""
    low = np.int64(0)
    high = count
    while low < high:
        middle = (low + high) >> 1
        if np.int64(removed[middle]) - middle <= place:
            low = middle + 1
        else:
            high = middle
    return low


@device_kernel("u8*, u4*, i8, u8*", streamed=16, random=1)
def leave_out(i, run, removed, count, out):
    """Element i of a run without those at `removed`."""
    out[i] = run[i + left_out_before(removed, count, i)]


@device_kernel("u4*, u4*, i8, u4*", streamed=8, random=1)
def draw_nearer(i, directory, removed, count, out):
    """A place in a run, less what was left out before it."""
    place = np.int64(directory[i])
    low = np.int64(0)
    high = count
    while low < high:
        middle = (low + high) >> 1
        if np.int64(removed[middle]) < place:
            low = middle + 1
        else:
            high = middle
    out[i] = np.uint32(place - low)
