"""Numeric functions that NumPy has not, or not exactly as C computes them."""

from __future__ import annotations

import math

import numpy as np

from gpuengine.kernels.cpu.jit import kernel


@kernel("i8(f8*, f8*, i8, f8*)")
def power_floats(bases, exponents, n, out):
    """C's pow; NumPy's own vectorised one differs from it in the last place."""
    for i in range(n):
        out[i] = math.pow(bases[i], exponents[i])
    return np.int64(0)


@kernel("i8(f8*, f8*, f8*, i8, i8, i8*)")
def count_float_ranges(begins, ends, steps, n, most, counts):
    """How many values each range yields by repeated addition; returns the first range that never ends, or n.

    A range never ends when it would yield more than `most` values or a step no longer changes the value.
    """
    for i in range(n):
        at, end, step = begins[i], ends[i], steps[i]
        count = np.int64(0)
        if step != 0.0 and (end - at) / step > most:
            return i
        if step > 0.0:
            while at < end:
                count += 1
                following = at + step
                if following == at:
                    return i
                at = following
        elif step < 0.0:
            while at > end:
                count += 1
                following = at + step
                if following == at:
                    return i
                at = following
        elif at != end:
            count = np.int64(1)
        counts[i] = count
    return n


@kernel("i8(f8*, f8*, i8*, i8, f8*)")
def fill_float_ranges(begins, steps, counts, n, out):
    """The values of all ranges, one range after another; returns how many."""
    to = np.int64(0)
    for i in range(n):
        at, step = begins[i], steps[i]
        for _ in range(counts[i]):
            out[to] = at
            to += 1
            at += step
    return to
