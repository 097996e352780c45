"""Searches in sorted arrays that kernels share."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.spec import device_function


@device_function
def first_not_less(keys, low, high, key):
    """The first place in [low, high) of ascending keys that holds no less than `key`, else `high`."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@device_function
def span_of(offsets, spans, place):
    """The last of the spans [offsets[f], offsets[f + 1]) that begin at or before `place`."""
    low = np.int64(0)
    high = spans
    while low < high:
        middle = (low + high) >> 1
        if np.int64(offsets[middle]) <= place:
            low = middle + 1
        else:
            high = middle
    return low - 1


@device_function
def span_after(offsets, span, place):
    """The span that holds `place`, from an earlier one; empty spans are passed over."""
    while np.int64(offsets[span + 1]) <= place:
        span += 1
    return span
