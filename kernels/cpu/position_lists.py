"""Short ascending lists of intervals: union, insertion and look-up, for sets too small for a bitmap."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.position_sets import BLOCK_RUNS, BLOCK_SHIFT


@device
def interval_after(starts, first, last, position):
    """The first of the intervals [first, last) that starts beyond `position`."""
    while first < last:
        middle = (first + last) >> 1
        if np.int64(starts[middle]) <= position:
            first = middle + 1
        else:
            last = middle
    return first


@device
def in_intervals(starts, ends, first, count, position):
    """Is the position in one of `count` intervals from `first` on?"""
    after = interval_after(starts, first, first + count, position)
    return after > first and position < np.int64(ends[after - 1])


@device
def unite_lists(starts, ends, count, others, other_ends, first, other_count, out_starts, out_ends):
    """Write the union of two lists, with what touches joined; returns its length."""
    x = 0
    y = first
    limit = first + other_count
    written = 0
    if count == 0:
        for k in range(other_count):
            out_starts[k] = others[first + k]
            out_ends[k] = other_ends[first + k]
        return other_count
    while x < count or y < limit:
        if y >= limit or (x < count and starts[x] <= others[y]):
            begin = starts[x]
            end = ends[x]
            x += 1
        else:
            begin = others[y]
            end = other_ends[y]
            y += 1
        if written > 0 and begin <= out_ends[written - 1]:
            if end > out_ends[written - 1]:
                out_ends[written - 1] = end
        else:
            out_starts[written] = begin
            out_ends[written] = end
            written += 1
    return written


@device
def insert_position(starts, ends, count, position):
    """Add one position in place; returns the list's length."""
    at = interval_after(starts, 0, count, position)
    if at > 0 and position < np.int64(ends[at - 1]):
        return count
    joins_left = at > 0 and np.int64(ends[at - 1]) == position
    joins_right = at < count and np.int64(starts[at]) == position + 1
    if joins_left and joins_right:
        ends[at - 1] = ends[at]
        for k in range(at, count - 1):
            starts[k] = starts[k + 1]
            ends[k] = ends[k + 1]
        return count - 1
    if joins_left:
        ends[at - 1] = np.uint32(position + 1)
        return count
    if joins_right:
        starts[at] = np.uint32(position)
        return count
    for k in range(count, at, -1):
        starts[k] = starts[k - 1]
        ends[k] = ends[k - 1]
    starts[at] = np.uint32(position)
    ends[at] = np.uint32(position + 1)
    return count + 1


@device
def total_length(starts, ends, count):
    total = np.int64(0)
    for k in range(count):
        total += np.int64(ends[k]) - np.int64(starts[k])
    return total


@device
def is_crowded(starts, ends, count):
    """Do more runs meet some block than it may keep as intervals?"""
    for k in range(BLOCK_RUNS, count):
        block = starts[k] >> np.uint32(BLOCK_SHIFT)
        if (ends[k - BLOCK_RUNS] - np.uint32(1)) >> np.uint32(BLOCK_SHIFT) == block:
            return True
    return False
