"""What kernels over position sets share: words of 64 bits, and look-ups in a set's intervals and blocks.

Positions, places and numbers of blocks are int64 in here: the end of the last block is beyond 32 bits.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.search import first_not_less
from gpuengine.kernels.cuda.spec import device_function


@device_function
def ones(word):
    """How many bits of a 32-bit word are set; the compiler knows this form."""
    word = word - ((word >> np.uint32(1)) & np.uint32(0x55555555))
    word = (word & np.uint32(0x33333333)) + ((word >> np.uint32(2)) & np.uint32(0x33333333))
    word = (word + (word >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64(((word * np.uint32(0x01010101)) >> np.uint32(24)) & np.uint32(0xFF))


@device_function
def ones_of(word):
    """How many bits of a 64-bit word are set."""
    return ones(np.uint32(word & np.uint64(0xFFFFFFFF))) + ones(np.uint32(word >> np.uint64(32)))


@device_function
def bits_between(first, last):
    """A word whose bits from `first` to before `last`, which is greater, are set."""
    above = np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(first)
    return above & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - last))


@device_function
def nth_of(word, n):
    """The place of the n-th bit that is set, from 0 on, of a word with more than n: by halving."""
    place = np.int64(0)
    width = np.int64(32)
    while width > 0:
        below = ones_of(word & bits_between(np.int64(0), width))
        if n >= below:
            n -= below
            place += width
            word = word >> np.uint64(width)
        width >>= 1
    return place


@device_function
def spans_hold(starts, ends, first, count, position):
    """Is the position in one of `count` ascending intervals from `first` on?"""
    low = first
    high = first + count
    while low < high:
        middle = (low + high) >> 1
        if np.int64(starts[middle]) <= position:
            low = middle + 1
        else:
            high = middle
    return low > first and position < np.int64(ends[low - 1])


@device_function
def block_at(blocks, first, count, block):
    """Where a block is among `count` ascending ones from `first` on, or -1."""
    place = first_not_less(blocks, first, first + count, np.uint32(block))
    if place < first + count and np.int64(blocks[place]) == block:
        return place
    return np.int64(-1)
