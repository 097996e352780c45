"""Kernels of `RowIndex`: sorted pairs of key and row, a directory into them, and look-ups.

A run is an ascending array of ``key << 32 | row``: the rows of a key lie together, in row order. The
directory of a run has the place of the first pair of every 2**shift keys, so that a look-up searches a
few pairs; where keys are dense it points straight at them.

The 32-bit key of a row is, by `mode`: ONE: its one key column less the least id; TWO: both columns in mixed
radix, where that fits; HASHED: a hash of both, whose matches must be verified.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.search import first_not_less
from gpuengine.kernels.cuda.set_kernels import mix
from gpuengine.kernels.cuda.spec import device_function, device_kernel

ONE, TWO, HASHED_KEY = 0, 1, 2


@device_function
def hashed_key(first, second):
    return mix(np.uint64(first) << np.uint64(32) | np.uint64(second)) >> np.uint64(32)


@device_function
def key_of(mode, first, first_low, first_high, second, second_low, second_high):
    """The key of a binding's ids; -1 if no row can have them."""
    inside = first >= first_low and first < first_high
    if mode != 0:
        inside = inside and second >= second_low and second < second_high
    key = np.int64(-1)
    if inside:
        if mode == 2:
            key = np.int64(hashed_key(first, second))
        elif mode == 1:
            key = (first - first_low) * (second_high - second_low) + second - second_low
        else:
            key = first - first_low
    return key


@device_kernel("i8, i8, u4*, i8, u4*, i8, i8, u8*", streamed=16)
def make_pairs(i, mode, first_row, first, first_low, second, second_low, extent, pairs):
    """Row ``first_row + i`` with its key; columns are given from that row on."""
    if mode == 2:
        key = hashed_key(first[i], second[i])
    elif mode == 1:
        key = np.uint64((np.int64(first[i]) - first_low) * extent + np.int64(second[i]) - second_low)
    else:
        key = np.uint64(np.int64(first[i]) - first_low)
    pairs[i] = key << np.uint64(32) | np.uint64(first_row + i)


@device_kernel("u8*, i8, i8, i8, u4*", streamed=4, random=1)
def fill_directory(i, pairs, count, shift, buckets, directory):
    """Where bucket i begins; one item more than there are buckets."""
    if i == buckets:
        directory[i] = np.uint32(count)
    else:
        wanted = np.uint64(i) << np.uint64(shift + 32)
        directory[i] = np.uint32(first_not_less(pairs, np.int64(0), count, wanted))


@device_kernel(
    "i8, i8, i8, i8, i8, u4*, u4*, i8, i8, u8*, u4*, i8, u8*, u4*, i8, u4*, u4*, u4*, u4*",
    streamed=24,
    random=2,
)
def find_matches(
    i,
    mode,
    first_low,
    first_high,
    second_low,
    second_high,
    firsts,
    seconds,
    row_end,
    has_recent,
    main,
    main_directory,
    main_shift,
    recent,
    recent_directory,
    recent_shift,
    main_starts,
    main_counts,
    recent_starts,
    counts,
):
    """Where the matches of binding i lie in both runs and how many there are, of rows below `row_end`."""
    first = np.int64(firsts[i])
    second = np.int64(seconds[i])
    main_counts[i] = 0
    counts[i] = 0
    key = key_of(mode, first, first_low, first_high, second, second_low, second_high)
    if key >= 0:
        bottom = np.uint64(key) << np.uint64(32)
        top = bottom | np.uint64(row_end)
        bucket = key >> main_shift
        start = np.int64(main_directory[bucket])
        end = np.int64(main_directory[bucket + 1])
        start = first_not_less(main, start, end, bottom)
        length = first_not_less(main, start, end, top) - start
        main_starts[i] = np.uint32(start)
        main_counts[i] = np.uint32(length)
        if has_recent:
            bucket = key >> recent_shift
            start = np.int64(recent_directory[bucket])
            end = np.int64(recent_directory[bucket + 1])
            start = first_not_less(recent, start, end, bottom)
            recent_starts[i] = np.uint32(start)
            length += first_not_less(recent, start, end, top) - start
        counts[i] = np.uint32(length)
