"""A set of positions under construction: what the kernels over position sets add to and read out.

It is a bitmap of all positions in blocks, with two bitmaps over the blocks: `touched` are those with anything
in them, `full` those with everything, whose words then mean nothing. Adding a long interval costs a bit a
block, and reading out looks at touched blocks only, so that neither depends on how many positions there
are. `span` holds the first and the last block touched. Between two uses everything is clear.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.bits import ALL, bit_is_set, clear_bits, fill_bits, ones, trailing_zeros
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.position_sets import BLOCK_RUNS, BLOCK_SHIFT, BLOCK_SIZE, BLOCK_WORDS

NO_BLOCK = 1 << 40


@device
def widen_span(span, first, last):
    if first < span[0]:
        span[0] = first
    if last > span[1]:
        span[1] = last


@device
def add_within(bits, full, touched, block, first, last):
    """Add positions of one block."""
    if not bit_is_set(full, block):
        fill_bits(bits, first, last)
        fill_bits(touched, block, block + 1)


@device
def add_interval(bits, full, touched, span, first, last):
    """Add the positions from `first` to before `last`, which is greater."""
    low = first >> BLOCK_SHIFT
    high = (last - 1) >> BLOCK_SHIFT
    widen_span(span, low, high)
    if low == high:
        add_within(bits, full, touched, low, first, last)
        return
    if first & (BLOCK_SIZE - 1):
        add_within(bits, full, touched, low, first, (low + 1) << BLOCK_SHIFT)
        low += 1
    if last & (BLOCK_SIZE - 1):
        add_within(bits, full, touched, high, high << BLOCK_SHIFT, last)
        high -= 1
    if low <= high:
        fill_bits(full, low, high + 1)
        fill_bits(touched, low, high + 1)


@device
def add_block(bits, full, touched, span, block, words, at):
    """Add the positions of a block's words."""
    widen_span(span, block, block)
    if not bit_is_set(full, block):
        for w in range(BLOCK_WORDS):
            bits[block * BLOCK_WORDS + w] |= words[at + w]
        fill_bits(touched, block, block + 1)


@device
def spell_out(bits, full, block):
    """Write down the words of a block, if it is full, so that some of its positions can be taken away."""
    if bit_is_set(full, block):
        for w in range(BLOCK_WORDS):
            bits[block * BLOCK_WORDS + w] = ALL
        clear_bits(full, block, block + 1)


@device
def take_interval(bits, full, touched, first, last):
    """Take away the positions from `first` to before `last`, which is greater."""
    low = first >> BLOCK_SHIFT
    high = (last - 1) >> BLOCK_SHIFT
    for block in range(low, high + 1):
        if bit_is_set(touched, block):
            spell_out(bits, full, block)
            begin = max(first, block << BLOCK_SHIFT)
            end = min(last, (block + 1) << BLOCK_SHIFT)
            clear_bits(bits, begin, end)


@device
def take_block(bits, full, touched, block, words, at):
    """Take away the positions of a block's words."""
    if bit_is_set(touched, block):
        spell_out(bits, full, block)
        for w in range(BLOCK_WORDS):
            bits[block * BLOCK_WORDS + w] &= ~words[at + w]


@device
def holds(bits, full, position):
    return bit_is_set(full, position >> BLOCK_SHIFT) or bit_is_set(bits, position)


@device
def count_runs(bits, block):
    """How many runs of positions a block has; a run from the block before counts."""
    runs = np.int64(0)
    carry = np.uint64(0)
    for w in range(block * BLOCK_WORDS, (block + 1) * BLOCK_WORDS):
        word = bits[w]
        runs += ones(word & ~((word << np.uint64(1)) | carry))
        carry = word >> np.uint64(63)
    return runs


@device
def write_run(starts, ends, counts, first, last):
    """Append an interval, or lengthen the last one that it continues."""
    written = counts[0]
    if written > counts[3] and np.int64(ends[written - 1]) == first:
        ends[written - 1] = np.uint32(last)
    else:
        starts[written] = np.uint32(first)
        ends[written] = np.uint32(last)
        counts[0] = written + 1
    counts[2] += last - first


@device
def write_runs(bits, block, starts, ends, counts):
    """Append the runs of a block as intervals."""
    for w in range(BLOCK_WORDS):
        word = bits[block * BLOCK_WORDS + w]
        base = (block << BLOCK_SHIFT) + (w << 6)
        while word != np.uint64(0):
            skipped = trailing_zeros(word)
            length = trailing_zeros(~(word >> np.uint64(skipped)))
            end = skipped + length
            write_run(starts, ends, counts, base + skipped, base + min(end, 64))
            word = word & (ALL << np.uint64(end)) if end < 64 else np.uint64(0)


@device
def write_block(bits, block, blocks, words, counts):
    """Append a block as its words; the next interval does not continue the one before it."""
    at = counts[1] * BLOCK_WORDS
    blocks[counts[1]] = np.uint32(block)
    for w in range(BLOCK_WORDS):
        word = bits[block * BLOCK_WORDS + w]
        words[at + w] = word
        counts[2] += ones(word)
    counts[1] += 1
    counts[3] = counts[0]


@device
def read_out(bits, full, touched, span, starts, ends, blocks, words, counts):
    """Write the set as intervals, and as words where a block has many of them, and clear it.

    `counts` becomes: intervals, blocks, positions; the fourth is the interval that none may continue.
    """
    counts[0] = counts[1] = counts[2] = counts[3] = 0
    for group in range(span[0] >> 6, (span[1] >> 6) + 1):
        waiting = touched[group]
        whole = full[group]
        touched[group] = np.uint64(0)
        full[group] = np.uint64(0)
        while waiting != np.uint64(0):
            place = trailing_zeros(waiting)
            waiting &= waiting - np.uint64(1)
            block = (group << 6) + place
            if (whole >> np.uint64(place)) & np.uint64(1) != np.uint64(0):
                write_run(starts, ends, counts, block << BLOCK_SHIFT, (block + 1) << BLOCK_SHIFT)
            elif count_runs(bits, block) > BLOCK_RUNS:
                write_block(bits, block, blocks, words, counts)
            else:
                write_runs(bits, block, starts, ends, counts)
            for w in range(block * BLOCK_WORDS, (block + 1) * BLOCK_WORDS):
                bits[w] = np.uint64(0)
    span[0] = NO_BLOCK
    span[1] = -1
