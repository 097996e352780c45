"""Kernels over ascending keys: merge, union, difference, intersection.

All but `merge_sorted` take strictly ascending arrays and return how many keys they wrote. Which of two keys
is the lesser can't be foreseen, so the loops add comparisons to their places instead of branching on them.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel


@device
def gallop(keys, start, count, key):
    """The first place from `start` on whose key is not less than `key`; near ones are found sooner."""
    if start >= count or keys[start] >= key:
        return start
    low = start
    step = 1
    while low + step < count and keys[low + step] < key:
        low += step
        step += step
    high = low + step if low + step < count else count
    low += 1
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@device
def copy_keys(keys, start, count, out, written):
    """Append the keys from `start` on; how many are written then."""
    for place in range(start, count):
        out[written] = keys[place]
        written += 1
    return written


@kernel("i8(u8*, i8, u8*, i8, u8*)")
def merge_sorted(a, a_count, b, b_count, out):
    x = 0
    y = 0
    while x < a_count and y < b_count:
        key = a[x]
        other = b[y]
        out[x + y] = min(key, other)
        x += np.int64(key <= other)
        y += np.int64(other < key)
    written = copy_keys(a, x, a_count, out, x + y)
    return copy_keys(b, y, b_count, out, written)


@kernel("i8(u8*, i8, u8*, i8, u8*)")
def unite_sorted(a, a_count, b, b_count, out):
    x = 0
    y = 0
    written = 0
    while x < a_count and y < b_count:
        key = a[x]
        other = b[y]
        out[written] = min(key, other)
        written += 1
        x += np.int64(key <= other)
        y += np.int64(other <= key)
    written = copy_keys(a, x, a_count, out, written)
    return copy_keys(b, y, b_count, out, written)


@kernel("i8(u8*, i8, u8*, i8, u8*)")
def subtract_sorted(a, a_count, b, b_count, out):
    x = 0
    y = 0
    written = 0
    while x < a_count and y < b_count:
        key = a[x]
        other = b[y]
        out[written] = key
        written += np.int64(key < other)
        x += np.int64(key <= other)
        y += np.int64(other <= key)
    return copy_keys(a, x, a_count, out, written)


@kernel("i8(u8*, i8, u8*, i8, u8*)")
def intersect_sorted(a, a_count, b, b_count, out):
    x = 0
    y = 0
    written = 0
    while x < a_count and y < b_count:
        key = a[x]
        other = b[y]
        out[written] = key
        written += np.int64(key == other)
        x += np.int64(key <= other)
        y += np.int64(other <= key)
    return written


@kernel("i8(u8*, i8, u8*, i8, i8, u8*)")
def look_up_sorted(few, few_count, many, many_count, kept, out):
    """Write the keys of `few` that are in `many` (`kept` is 1), or that are not (0)."""
    written = 0
    y = 0
    for x in range(few_count):
        key = few[x]
        y = gallop(many, y, many_count, key)
        if np.int64(y < many_count and many[y] == key) == kept:
            out[written] = key
            written += 1
    return written
