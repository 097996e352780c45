"""Kernels of groups: numbers for equal rows, and the aggregate of each group's words.

Counts, sums of integers, least and greatest are atomic, in any order. Floats are added by one item for each
group, in the order of the rows, because the order decides how they are rounded.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_add, compare_and_swap
from gpuengine.kernels.cuda.calculation_kernels import ALL_BITS, SIGN
from gpuengine.kernels.cuda.search import first_not_less
from gpuengine.kernels.cuda.spec import device_function, device_kernel

OF_UNSIGNED, OF_NUMBERS, OF_FLOATS, GREATEST = 0, 1, 2, 4
"""How words are ordered; with GREATEST, the other way round."""
INFINITE = 0x7FF << 52


@device_kernel("u8*, u4*, u8*", streamed=12, random=1)
def take_keys(i, keys, places, out):
    out[i] = keys[places[i]]


@device_kernel("u8*, u8*, i8, u4*", streamed=12, random=1)
def number_keys(i, keys, distinct, count, numbers):
    """The place of each key among the distinct ones, which ascend."""
    numbers[i] = np.uint32(first_not_less(distinct, np.int64(0), count, keys[i]))


@device_kernel("u4*, u4*", streamed=20)
def note_places(i, numbers, places):
    """A row of each group: whichever writes last."""
    places[numbers[i]] = np.uint32(i)


@device_kernel("u4*, u8*", streamed=4, random=1)
def count_rows(i, groups, counts):
    atomic_add(counts, np.int64(groups[i]), np.uint64(1))


@device_kernel("u4*, u8*, i8, u8*", streamed=12, random=1)
def add_words(i, groups, words, step, sums):
    atomic_add(sums, np.int64(groups[i]), words[i * step])


@device_function
def key_of(word, order):
    """A key that ascends as words do in an order; what is no number comes last."""
    key = word
    if order & OF_NUMBERS:
        key = word ^ np.uint64(SIGN)
    if order & OF_FLOATS:
        if word & np.uint64(SIGN - 1) > np.uint64(INFINITE):
            return np.uint64(ALL_BITS)
        if word >= np.uint64(SIGN):
            key = ~word
        else:
            key = word | np.uint64(SIGN)
    if order & GREATEST:
        key = ~key
    return key


@device_kernel("u4*, u8*, i8, i8, u8*", streamed=12, random=2)
def reduce_least(i, groups, words, step, order, best):
    """The least key of each group."""
    key = key_of(words[i * step], order)
    group = np.int64(groups[i])
    seen = best[group]
    while key < seen:
        found = compare_and_swap(best, group, seen, key)
        if found == seen:
            break
        seen = found


@device_kernel("u8*, i8, u8*, u8*", streamed=24)
def words_of_keys(i, counts, order, best, words):
    """The word of each group's least key; 0 of a group without rows."""
    key = best[i]
    if counts[i] == np.uint64(0):
        words[i] = np.uint64(0)
    elif order & OF_FLOATS and key == np.uint64(ALL_BITS):
        words[i] = np.uint64(INFINITE | 1 << 51)
    else:
        if order & GREATEST:
            key = ~key
        if order & OF_NUMBERS:
            key = key ^ np.uint64(SIGN)
        if order & OF_FLOATS:
            if key >= np.uint64(SIGN):
                key = key ^ np.uint64(SIGN)
            else:
                key = ~key
        words[i] = key


@device_kernel("u4*, u8*", streamed=12)
def pair_places(i, groups, pairs):
    """Each row's group and place, to be sorted."""
    pairs[i] = np.uint64(groups[i]) << np.uint64(32) | np.uint64(i)


@device_kernel("u8*, i8, f8*, i8, f8*", streamed=16, random=8)
def add_floats(group, pairs, count, values, step, sums):
    """Add the values of a group's rows, in their order, to its sum."""
    low = np.uint64(group) << np.uint64(32)
    place = first_not_less(pairs, np.int64(0), count, low)
    total = sums[group]
    while place < count and pairs[place] >> np.uint64(32) == np.uint64(group):
        row = np.int64(pairs[place] & np.uint64(4294967295))
        total += values[row * step]
        place += 1
    sums[group] = total


@device_kernel("u8*, u8*", streamed=16)
def at_least_one(i, counts, out):
    """Counts to divide by."""
    out[i] = counts[i]
    if counts[i] == np.uint64(0):
        out[i] = np.uint64(1)


@device_kernel("u4*, u8*, u1*", streamed=25)
def mark_counted(i, groups, counts, flags):
    """Flag the rows whose group has rows of what was aggregated."""
    flags[i] = 0
    if counts[groups[i]] != np.uint64(0):
        flags[i] = 1
