"""Kernels over columns of ids: gather, filter, pack into keys."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.spec import device_function, device_kernel

OUTSIDE = (1 << 64) - 1
"""The key of a row outside a set's bounds: a member of none, since it is what empty slots hold."""
IDENTITY = 1 << 24
"""Ids of numbers below this are the numbers."""


@device_kernel("u4*, u4*, u4*", streamed=8, random=1)
def gather(i, source, rows, out):
    out[i] = source[rows[i]]


@device_kernel("u4*, i8, u4*", streamed=16)
def take_every(i, source, step, out):
    """A sample of a column: every `step`-th id."""
    out[i] = source[i * step]


@device_kernel("u4*, u4*, u1*", streamed=8)
def keep_equal(i, left, right, keep):
    if left[i] != right[i]:
        keep[i] = 0


@device_kernel("u4*, u4*, u4*, u4*, u1*", streamed=8, random=1)
def keep_matching(i, column, matches, values, origins, keep):
    """Keep the pairs whose matching row has in `column` the value of the binding that it came from."""
    if column[matches[i]] != values[origins[i]]:
        keep[i] = 0


@device_function
def holds(comparator, left, right):
    """The `Comparator`s by number: equal, not equal, less, less or equal."""
    if comparator == 0:
        return left == right
    if comparator == 1:
        return left != right
    if comparator == 2:
        return left < right
    return left <= right


@device_kernel("i8, u4*, u4*, u1*", streamed=8)
def compare_ids(i, comparator, left, right, keep):
    if not holds(comparator, left[i], right[i]):
        keep[i] = 0


@device_function
def number_of(id, values):
    """The number that an id stands for."""
    if id < np.uint32(IDENTITY):
        return np.int64(id)
    return values[np.int64(id) - np.int64(IDENTITY)]


@device_kernel("i8, u4*, u4*, i8*, u1*", streamed=8, random=2)
def compare_numbers(i, comparator, left, right, values, keep):
    if not holds(comparator, number_of(left[i], values), number_of(right[i], values)):
        keep[i] = 0


@device_function
def unsigned_of(id, values):
    """The unsigned number that an id stands for."""
    if id < np.uint32(IDENTITY):
        return np.uint64(id)
    return values[np.int64(id) - np.int64(IDENTITY)]


@device_kernel("i8, u4*, u4*, u8*, u1*", streamed=8, random=2)
def compare_unsigned(i, comparator, left, right, values, keep):
    if not holds(comparator, unsigned_of(left[i], values), unsigned_of(right[i], values)):
        keep[i] = 0


@device_kernel("i8, u4*, u4*, f8*, u1*", streamed=8, random=2)
def compare_floats(i, comparator, left, right, values, keep):
    if not holds(comparator, values[left[i]], values[right[i]]):
        keep[i] = 0


@device_kernel("u4*, i8*, i8*", streamed=12, random=1)
def decode_numbers(i, ids, values, out):
    out[i] = number_of(ids[i], values)


@device_kernel("u4*, u8*, u8*", streamed=12, random=1)
def decode_unsigned(i, ids, values, out):
    out[i] = unsigned_of(ids[i], values)


@device_kernel("u4*, f8*, f8*", streamed=12, random=1)
def decode_floats(i, ids, values, out):
    out[i] = values[ids[i]]


@device_kernel("u4*, i8, i8, u8, u8*", streamed=20)
def add_to_keys(i, column, low, high, stride, keys):
    """Add one column's part to mixed-radix keys; once outside the bounds, a key stays OUTSIDE."""
    value = np.int64(column[i])
    if value < low or value >= high:
        keys[i] = np.uint64(OUTSIDE)
    elif keys[i] != np.uint64(OUTSIDE):
        keys[i] += np.uint64(value - low) * stride


@device_kernel("u4*, u4*, u8*", streamed=16)
def pack_pairs(i, high, low, keys):
    """Two ids as one key: its upper and lower half."""
    keys[i] = np.uint64(high[i]) << np.uint64(32) | np.uint64(low[i])


@device_kernel("u8*, u4*, u4*", streamed=16)
def unpack_pairs(i, keys, high, low):
    high[i] = np.uint32(keys[i] >> np.uint64(32))
    low[i] = np.uint32(keys[i] & np.uint64(4294967295))


@device_kernel("u8*, u1*", streamed=9)
def mark_first_of_equal(i, keys, flags):
    """Flag the keys of a sorted array that differ from the one before."""
    if i == 0 or keys[i] != keys[i - 1]:
        flags[i] = 1
    else:
        flags[i] = 0


@device_kernel("u4*, u1*", streamed=5)
def keep_nonzero(i, counts, keep):
    if counts[i] == np.uint32(0):
        keep[i] = 0


@device_kernel("u4*, u1*", streamed=5)
def keep_zero(i, counts, keep):
    if counts[i] != np.uint32(0):
        keep[i] = 0


@device_kernel("u4*, u1*, u4*", streamed=8)
def mark_origins(i, origins, keep, marks):
    """Mark the bindings that some candidate that is kept came from; all that write, write the same."""
    if keep[i]:
        marks[origins[i]] = np.uint32(1)


@device_kernel("u4*, i8, u4*, u4*", streamed=12)
def choose_fewer(i, counts, alternative, least, chosen):
    """Take an alternative where it has fewer matches than the least so far."""
    if counts[i] < least[i]:
        least[i] = counts[i]
        chosen[i] = np.uint32(alternative)


@device_kernel("u4*, i8, u1*", streamed=5)
def flag_equal(i, column, value, flags):
    if np.int64(column[i]) == value:
        flags[i] = 1
    else:
        flags[i] = 0
