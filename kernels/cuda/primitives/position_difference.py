"""Differences of position sets on a device.

Intervals first: those of `a` without those of `b`, and without all of b's blocks. A run of what is left
begins where an interval of `a` does, or where one of `b` ends within one of `a`, and ends likewise; each end
is found by itself, and sorted they belong together in pairs. What lies in blocks of either is left to the
slots (see `position_packing`).
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.intervals import coalesce, owner_and
from gpuengine.kernels.cuda.primitives.position_bits import block_at, spans_hold, word_of_set
from gpuengine.kernels.cuda.primitives.position_packing import Spans, pack
from gpuengine.kernels.cuda.primitives.position_pool import sets_of
from gpuengine.kernels.cuda.search import span_after, span_of
from gpuengine.kernels.cuda.spec import device_function, device_kernel
from gpuengine.kernels.position_sets import BLOCK_SHIFT, BLOCK_SIZE, BLOCK_WORDS, PositionSets

TILE = 8
"""Intervals or blocks that one item looks at."""


def difference(device: Device, a: PositionSets, kept: Array, b: PositionSets, taken: Array) -> PositionSets:
    """a's sets without b's. Waits three times, or seven if there are blocks."""
    count = len(kept)
    own, cuts, blocks = (device.empty(count, np.uint32) for _ in range(3))
    device.launch(
        difference_counts,
        count,
        kept,
        a.interval_counts,
        a.block_counts,
        taken,
        b.interval_counts,
        b.block_counts,
        own,
        cuts,
        blocks,
    )
    scans = [device.offsets(counts) for counts in (own, cuts, blocks)]
    totals = device.empty(3, np.uint64)
    for k, scan in enumerate(scans):
        device.copy(totals[k : k + 1], scan[-1:])
    n_own, n_cuts, n_blocks = map(int, device.read(totals))
    first, last = (device.empty(n_own + n_cuts, np.uint64) for _ in range(2))
    device.launch(
        difference_own,
        -(-n_own // TILE),
        scans[0],
        count,
        n_own,
        kept,
        a.first_interval,
        a.pool.starts,
        a.pool.ends,
        taken,
        *b.arrays[:4],
        b.pool.starts,
        b.pool.ends,
        b.pool.blocks,
        first,
        last,
    )
    device.launch(
        difference_cut,
        -(-n_cuts // TILE),
        scans[1],
        count,
        n_cuts,
        kept,
        *a.arrays[:2],
        a.pool.starts,
        a.pool.ends,
        taken,
        *b.arrays[:4],
        b.pool.starts,
        b.pool.ends,
        b.pool.blocks,
        first[n_own:],
        last[n_own:],
    )
    spans = coalesce(device, first, last, count)
    keys = device.empty(n_blocks, np.uint64)
    device.launch(
        difference_blocks,
        -(-n_blocks // TILE),
        scans[2],
        count,
        n_blocks,
        kept,
        a.first_block,
        a.block_counts,
        a.pool.blocks,
        taken,
        b.first_block,
        b.pool.blocks,
        keys,
    )

    def fill(slots: Array, words: Array, spans: Spans) -> None:
        device.launch(difference_words, len(words), slots, kept, *_all(a), taken, *_all(b), words)

    return sets_of(device, pack(device, count, spans, keys, fill), count)


def _all(sets: PositionSets) -> tuple[Array, ...]:
    """All arrays that a set's words can come from."""
    pool = sets.pool
    return *sets.arrays[:4], pool.starts, pool.ends, pool.blocks, pool.words


@device_kernel("u4*, u4*, u4*, u4*, u4*, u4*, u4*, u4*, u4*", streamed=20, random=2)
def difference_counts(i, kept, a_n_i, a_n_b, taken, b_n_i, b_n_b, own, cuts, blocks):
    """How many intervals there are, how many intervals and blocks are taken away, and the blocks of both."""
    a = np.int64(kept[i])
    b = np.int64(taken[i])
    own[i] = a_n_i[a]
    cuts[i] = np.uint32(b_n_i[b] + b_n_b[b])
    blocks[i] = np.uint32(a_n_b[a] + b_n_b[b])


@device_function
def takes(first_i, n_i, first_b, n_b, starts, ends, blocks, owner, position):
    """Is a position in an interval of a set, or anywhere in one of its blocks?"""
    if spans_hold(starts, ends, np.int64(first_i[owner]), np.int64(n_i[owner]), position):
        return True
    first = np.int64(first_b[owner])
    return block_at(blocks, first, np.int64(n_b[owner]), position >> BLOCK_SHIFT) >= 0


@device_kernel(
    "u8*, i8, i8, u4*, u8*, u4*, u4*, u4*, u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u8*",
    streamed=24 * TILE,
    random=TILE,
)
def difference_own(
    i, scan, count, total, kept, a_first_i, a_starts, a_ends, taken, b_first_i, b_n_i, b_first_b, b_n_b,
    b_starts, b_ends, b_blocks, first, last,
):  # fmt: skip
    """A tile of a's intervals: keys of those ends that are not taken away, else the greatest key."""
    place = i * TILE
    end = min(place + TILE, total)
    k = span_of(scan, count, place)
    while place < end:
        k = span_after(scan, k, place)
        at = np.int64(a_first_i[np.int64(kept[k])]) + place - np.int64(scan[k])
        b = np.int64(taken[k])
        begin = np.int64(a_starts[at])
        stop = np.int64(a_ends[at])
        first[place] = np.uint64(0xFFFFFFFFFFFFFFFF)
        last[place] = np.uint64(0xFFFFFFFFFFFFFFFF)
        if not takes(b_first_i, b_n_i, b_first_b, b_n_b, b_starts, b_ends, b_blocks, b, begin):
            first[place] = owner_and(k, begin)
        if not takes(b_first_i, b_n_i, b_first_b, b_n_b, b_starts, b_ends, b_blocks, b, stop - 1):
            last[place] = owner_and(k, stop)
        place += 1


@device_kernel(
    "u8*, i8, i8, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u8*",
    streamed=24 * TILE,
    random=TILE,
)
def difference_cut(
    i, scan, count, total, kept, a_first_i, a_n_i, a_starts, a_ends, taken, b_first_i, b_n_i, b_first_b,
    b_n_b, b_starts, b_ends, b_blocks, first, last,
):  # fmt: skip
    """A tile of b's intervals and blocks: what is left begins after one, if an interval of a goes on there,
    and ends before it; unless there is another of b's. Where an interval of a itself begins or ends there,
    it has the key already.
    """
    place = i * TILE
    end = min(place + TILE, total)
    k = span_of(scan, count, place)
    while place < end:
        k = span_after(scan, k, place)
        a = np.int64(kept[k])
        b = np.int64(taken[k])
        at = place - np.int64(scan[k])
        if at < np.int64(b_n_i[b]):
            at += np.int64(b_first_i[b])
            begin = np.int64(b_starts[at])
            stop = np.int64(b_ends[at])
        else:
            at += np.int64(b_first_b[b]) - np.int64(b_n_i[b])
            begin = np.int64(b_blocks[at]) << BLOCK_SHIFT
            stop = begin + BLOCK_SIZE
        first[place] = np.uint64(0xFFFFFFFFFFFFFFFF)
        last[place] = np.uint64(0xFFFFFFFFFFFFFFFF)
        a_first = np.int64(a_first_i[a])
        a_count = np.int64(a_n_i[a])
        if (
            spans_hold(a_starts, a_ends, a_first, a_count, stop - 1)
            and spans_hold(a_starts, a_ends, a_first, a_count, stop)
            and not takes(b_first_i, b_n_i, b_first_b, b_n_b, b_starts, b_ends, b_blocks, b, stop)
        ):
            first[place] = owner_and(k, stop)
        if (
            spans_hold(a_starts, a_ends, a_first, a_count, begin - 1)
            and spans_hold(a_starts, a_ends, a_first, a_count, begin)
            and not takes(b_first_i, b_n_i, b_first_b, b_n_b, b_starts, b_ends, b_blocks, b, begin - 1)
        ):
            last[place] = owner_and(k, begin)
        place += 1


@device_kernel(
    "u8*, i8, i8, u4*, u8*, u4*, u4*, u4*, u8*, u4*, u8*",
    streamed=12 * TILE,
    random=TILE,
)
def difference_blocks(
    i, scan, count, total, kept, a_first_b, a_n_b, a_blocks, taken, b_first_b, b_blocks, keys
):
    """A tile of the slots of a's blocks and of b's."""
    place = i * TILE
    end = min(place + TILE, total)
    k = span_of(scan, count, place)
    while place < end:
        k = span_after(scan, k, place)
        a = np.int64(kept[k])
        at = place - np.int64(scan[k])
        if at < np.int64(a_n_b[a]):
            block = a_blocks[np.int64(a_first_b[a]) + at]
        else:
            block = b_blocks[np.int64(b_first_b[np.int64(taken[k])]) + at - np.int64(a_n_b[a])]
        keys[place] = owner_and(k, block)
        place += 1


@device_kernel(
    "u8*, u4*, u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u4*, u8*, u4*, u8*, u4*, u4*, u4*, u4*, u8*, u8*",
    streamed=16,
    random=1,
)
def difference_words(
    i, slots, kept, a_first_i, a_n_i, a_first_b, a_n_b, a_starts, a_ends, a_blocks, a_words,
    taken, b_first_i, b_n_i, b_first_b, b_n_b, b_starts, b_ends, b_blocks, b_words, words,
):  # fmt: skip
    """A word of a slot: what a has there and b has not."""
    slot = slots[i // BLOCK_WORDS]
    k = np.int64(slot >> np.uint64(32))
    block = np.int64(slot & np.uint64(0xFFFFFFFF))
    w = i & (BLOCK_WORDS - 1)
    there = word_of_set(
        a_first_i, a_n_i, a_first_b, a_n_b, a_starts, a_ends, a_blocks, a_words, np.int64(kept[k]), block, w
    )
    gone = word_of_set(
        b_first_i, b_n_i, b_first_b, b_n_b, b_starts, b_ends, b_blocks, b_words, np.int64(taken[k]), block, w
    )
    words[i] = there & (gone ^ np.uint64(0xFFFFFFFFFFFFFFFF))
