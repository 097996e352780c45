"""Kernels of groups: numbers for equal rows, and the aggregate of each group's words.

All is done by atomics on integers, in any order: floats are added exactly, see `kernels.exact_sums`.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels import exact_sums
from gpuengine.kernels.cuda.atomics import atomic_add, atomic_or, compare_and_swap
from gpuengine.kernels.cuda.calculation_kernels import ALL_BITS, SIGN
from gpuengine.kernels.cuda.search import first_not_less
from gpuengine.kernels.cuda.spec import device_function, device_kernel
from gpuengine.kernels.exact_sums import INFINITE, PART_MASK

OF_UNSIGNED, OF_NUMBERS, OF_FLOATS, GREATEST = 0, 1, 2, 4
"""How words are ordered; with GREATEST, the other way round."""

flag_of = device_function(exact_sums.flag_of)
place_of = device_function(exact_sums.place_of)
significand_of = device_function(exact_sums.significand_of)
carry = device_function(exact_sums.carry)
rounded = device_function(exact_sums.rounded)


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


@device_kernel("u8*, u4*", streamed=8)
def mark_parts(i, words, marks):
    """Mark the parts with the lowest bits of finite doubles, a bit for each."""
    word = words[i]
    if flag_of(word) == np.uint32(0):
        part = place_of(word) >> np.int64(5)
        mark = np.uint32(1) << np.uint32(part & np.int64(31))
        if marks[part >> np.int64(5)] & mark == np.uint32(0):
            atomic_or(marks, part >> np.int64(5), mark)


@device_kernel("i8*, i8, i8*, i8, i8", streamed=16)
def move_parts(i, parts, width, out, out_width, shift):
    """Part after part into wider groups, each so many places further up."""
    group = i // width
    out[group * out_width + i - group * width + shift] = parts[i]


@device_kernel("u4*, u8*, i8, i8, i8, u8*, u4*", streamed=12, random=3)
def add_exactly(i, groups, words, step, low, width, parts, flags):
    """Add a double to the parts of its group, modulo 2**64."""
    group = np.int64(groups[i])
    word = words[i * step]
    flag = flag_of(word)
    if flag != np.uint32(0):
        atomic_or(flags, group, flag)
    else:
        place = place_of(word)
        shift = place & np.int64(31)
        at = group * width + (place >> np.int64(5)) - low
        significand = significand_of(word)
        lower = (significand & np.int64(PART_MASK)) << shift
        upper = (significand >> np.int64(32)) << shift
        first = np.uint64(lower & np.int64(PART_MASK))
        second = np.uint64((lower >> np.int64(32)) + (upper & np.int64(PART_MASK)))
        third = np.uint64(upper >> np.int64(32))
        if word >= np.uint64(SIGN):
            first = np.uint64(0) - first
            second = np.uint64(0) - second
            third = np.uint64(0) - third
        atomic_add(parts, at, first)
        atomic_add(parts, at + np.int64(1), second)
        atomic_add(parts, at + np.int64(2), third)


@device_kernel("i8*, i8", streamed=240)
def carry_parts(group, parts, width):
    """Pass the carries of a group on."""
    carry(parts, group * width, width)


@device_kernel("i8*, i8, i8, u4*, u8*", streamed=120)
def round_sums(group, parts, low, width, flags, words):
    """The bits of a group's sum, once its carries are passed on."""
    words[group] = rounded(parts, group * width, width, low, flags[group])


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
