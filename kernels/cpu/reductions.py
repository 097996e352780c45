"""What groups of rows come to: one pass over the rows, whichever group each is of.

Neither the order of the rows nor the pieces that they come in make a difference.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import float_of, prefetch
from gpuengine.kernels.cpu.calculation import apply_to_two
from gpuengine.kernels.cpu.code import AHEAD, MINIMUM_FLOAT
from gpuengine.kernels.cpu.jit import device, kernel


@device
def is_nan(word):
    value = float_of(word)
    return value != value


@kernel("i8(u4*, i8, i8*)")
def count_rows(groups, n, counts):
    """Add to the counts of groups."""
    for i in range(n):
        counts[np.int64(groups[i])] += 1
    return n


@kernel("i8(u4*, u8*, i8, u8*, i8*)")
def add_integers(groups, values, n, sums, counts):
    """Add to the sums and counts of groups, modulo 2**64."""
    for i in range(n):
        if i + AHEAD < n:
            later = np.int64(groups[i + AHEAD])
            prefetch(sums, later)
            prefetch(counts, later)
        group = np.int64(groups[i])
        sums[group] += values[i]
        counts[group] += 1
    return n


@kernel("i8(u4*, u8*, i8, i8, u8*, i8*)")
def choose_values(groups, values, n, operator, chosen, counts):
    """Keep the least or greatest value of each group, by an operator of `code`; NaN only if all are NaN."""
    for i in range(n):
        group = np.int64(groups[i])
        if counts[group] == 0 or (operator >= MINIMUM_FLOAT and is_nan(chosen[group])):
            chosen[group] = values[i]
        else:
            chosen[group] = apply_to_two(operator, chosen[group], values[i])
        counts[group] += 1
    return n
