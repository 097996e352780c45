"""Kernels over interval sets in CSR form."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel


@device
def owner_and(owner, value):
    """An owner and a value as one key, ordered by owner first."""
    return (np.uint64(owner) << np.uint64(32)) | np.uint64(value)


@kernel("i8(u8*, u4*, u4*, u4*, u4*, i8, u1*)")
def find_in_intervals(offsets, starts, ends, owners, values, asked, found):
    for j in range(asked):
        owner = np.int64(owners[j])
        value = values[j]
        low = np.int64(offsets[owner])
        first = low
        high = np.int64(offsets[owner + 1])
        while low < high:
            middle = (low + high) >> 1
            if starts[middle] <= value:
                low = middle + 1
            else:
                high = middle
        found[j] = low > first and value < ends[low - 1]
    return 0


@kernel("i8(u8*, u4*, u4*, i8, u4*)")
def count_values(offsets, starts, ends, owners, counts):
    for owner in range(owners):
        total = 0
        for k in range(np.int64(offsets[owner]), np.int64(offsets[owner + 1])):
            total += np.int64(ends[k]) - np.int64(starts[k])
        counts[owner] = np.uint32(total)
    return 0


@kernel("i8(u4*, u4*, u4*, i8, u8*, u8*)")
def pack_ends(owners, starts, ends, count, first, last):
    """The keys of the starts and of the ends of the intervals that are not empty; returns how many."""
    written = 0
    for k in range(count):
        if starts[k] < ends[k]:
            first[written] = owner_and(owners[k], starts[k])
            last[written] = owner_and(owners[k], ends[k])
            written += 1
    return written


@kernel("i8(u8*, u8*, i8, i8, u8*, u4*, u4*)")
def coalesce(first, last, count, n_owners, offsets, starts, ends):
    """Intervals from the keys of all starts and of all ends, each sorted; returns how many.

    An interval begins at the k-th start if the k ends before have all passed: then they are the ends of
    the k starts before. So the two need not be sorted together.
    """
    written = 0
    owner = 0
    offsets[0] = np.uint64(0)
    for k in range(count):
        if k == 0 or first[k] > last[k - 1]:
            while owner < np.int64(first[k] >> np.uint64(32)):
                owner += 1
                offsets[owner] = np.uint64(written)
            starts[written] = np.uint32(first[k] & np.uint64(0xFFFFFFFF))
            written += 1
        ends[written - 1] = np.uint32(last[k] & np.uint64(0xFFFFFFFF))
    while owner < n_owners:
        owner += 1
        offsets[owner] = np.uint64(written)
    return written


@kernel("i8(u8*, u4*, u4*, u4*, i8)")
def count_asked(offsets, starts, ends, owners, asked):
    """How many values `expand_intervals` will write."""
    total = 0
    for j in range(asked):
        owner = np.int64(owners[j])
        for k in range(np.int64(offsets[owner]), np.int64(offsets[owner + 1])):
            total += np.int64(ends[k]) - np.int64(starts[k])
    return total


@kernel("i8(u8*, u4*, u4*, u4*, i8, u4*, u4*)")
def expand_intervals(offsets, starts, ends, owners, asked, positions, values):
    written = 0
    for j in range(asked):
        owner = np.int64(owners[j])
        for k in range(np.int64(offsets[owner]), np.int64(offsets[owner + 1])):
            for value in range(np.int64(starts[k]), np.int64(ends[k])):
                positions[written] = np.uint32(j)
                values[written] = np.uint32(value)
                written += 1
    return written
