"""Kernels over bitmaps of 32-bit words; NumPy does what goes word by word."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel


@device
def ones(word):
    """How many bits of a 32-bit word are set; the compiler knows this form."""
    word = word - ((word >> np.uint32(1)) & np.uint32(0x55555555))
    word = (word & np.uint32(0x33333333)) + ((word >> np.uint32(2)) & np.uint32(0x33333333))
    word = (word + (word >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
    return np.int64(((word * np.uint32(0x01010101)) >> np.uint32(24)) & np.uint32(0xFF))


@kernel("i8(u4*, i8, u4*)")
def set_bits(ids, count, words):
    for i in range(count):
        x = ids[i]
        words[x >> np.uint32(5)] |= np.uint32(1) << (x & np.uint32(31))
    return 0


@kernel("i8(u4*, i8, u4*)")
def list_bits(words, count, out):
    """Write the ids of the bits that are set, ascending; return how many."""
    written = 0
    for w in range(count):
        word = words[w]
        while word:
            rest = np.uint32(word & np.uint32(word - np.uint32(1)))
            out[written] = np.uint32(w * 32 + ones(np.uint32((word ^ rest) - np.uint32(1))))
            written += 1
            word = rest
    return written


@kernel("i8(u4*, i8, u4*, i8, u1*)")
def test_bits(words, count, ids, asked, found):
    for j in range(asked):
        x = ids[j]
        w = np.int64(x >> np.uint32(5))
        found[j] = w < count and (words[w] >> (x & np.uint32(31))) & np.uint32(1) != np.uint32(0)
    return 0
