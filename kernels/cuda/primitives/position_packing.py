"""From coalesced intervals, and what blocks add to them, to position sets: which blocks become words.

A *slot* is a block of an owner's that may have to be words, as the key of owner and block. Slots are the
blocks that come as words, and those that more than `BLOCK_RUNS` of the intervals meet; in all others is what
the intervals say. The words of every slot are made, and its runs counted. If they are few, they become
intervals again. If not, the slot is *crowded* and stays; an interval that begins or ends within it gives up
what lies there. None covers it, or it would be full: intervals lose their ends, and are never cut in two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cuda.columns import mark_first_of_equal
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.intervals import normalise, owner_and
from gpuengine.kernels.cuda.primitives.position_bits import lowest_of, ones_of, word_of_spans
from gpuengine.kernels.cuda.primitives.sorted_sets import set_gather
from gpuengine.kernels.cuda.primitives.strong import grouped
from gpuengine.kernels.cuda.search import first_not_less, span_of
from gpuengine.kernels.cuda.spec import device_function, device_kernel
from gpuengine.kernels.position_sets import BLOCK_RUNS, BLOCK_SHIFT, BLOCK_WORDS

Spans = tuple[Array, Array, Array]
"""An interval set: offsets by owner, starts, ends."""
Fill = Callable[[Array, Array, Spans], None]
"""Makes the words of slots, which come as 0, given the slots and the intervals."""


@dataclass(frozen=True, slots=True)
class Packed:
    """The sets of some owners, side by side: intervals, and blocks with the number of positions in each."""

    spans: Spans
    block_offsets: Array
    blocks: Array
    words: Array
    ones: Array


def pack(device: Device, owners: int, spans: Spans, keys: Array, fill: Fill) -> Packed:
    """Position sets of intervals and the slots in `keys`, which come in any order and more than once.

    Waits once if there is no slot, else five times.
    """
    offsets, starts, ends = spans
    count = len(starts)
    flags = device.empty(count, np.uint8)
    device.launch(position_crowd, count, offsets, owners, starts, ends, flags)
    crowds = device.select(flags)
    if not len(keys) and not len(crowds):
        none = device.empty(0, np.uint32)
        return Packed(spans, device.full(owners + 1, 0, np.uint64), none, device.empty(0, np.uint64), none)
    every = device.empty(len(keys) + len(crowds), np.uint64)
    device.copy(every[: len(keys)], keys)
    device.launch(position_crowd_key, len(crowds), crowds, offsets, owners, starts, every[len(keys) :])
    slots = _distinct(device, every)
    words = device.full(BLOCK_WORDS * len(slots), 0, np.uint64)
    fill(slots, words, spans)
    runs, is_crowded = device.empty(len(slots), np.uint32), device.empty(len(slots), np.uint8)
    device.launch(position_runs, len(slots), words, runs, is_crowded)
    places = device.offsets(runs)
    total = count + int(device.read(places[-1:])[0])
    of_owner, begins, stops = (device.empty(total, np.uint32) for _ in range(3))
    device.launch(
        position_clip,
        count,
        offsets,
        owners,
        starts,
        ends,
        slots,
        len(slots),
        is_crowded,
        of_owner,
        begins,
        stops,
    )
    device.launch(
        position_list_runs,
        len(slots),
        slots,
        words,
        places,
        of_owner[count:],
        begins[count:],
        stops[count:],
    )
    merged = normalise(device, of_owner, begins, stops, owners)
    return _with_blocks(device, owners, merged, slots, words, device.select(is_crowded))


def _with_blocks(
    device: Device, owners: int, spans: Spans, slots: Array, words: Array, kept: Array
) -> Packed:
    """Intervals together with the slots that stay words."""
    keys, ones = device.empty(len(kept), np.uint64), device.empty(len(kept), np.uint32)
    kept_words = device.empty(BLOCK_WORDS * len(kept), np.uint64)
    device.launch(position_keep, len(kept), kept, slots, words, keys, kept_words, ones)
    block_offsets, blocks = grouped(device, keys, owners)
    return Packed(spans, block_offsets, blocks, kept_words, ones)


def _distinct(device: Device, keys: Array) -> Array:
    """The keys, ascending, each once."""
    ordered, flags = device.sort(keys), device.empty(len(keys), np.uint8)
    device.launch(mark_first_of_equal, len(keys), ordered, flags)
    first = device.select(flags)
    out = device.empty(len(first), np.uint64)
    device.launch(set_gather, len(first), ordered, first, out)
    return out


def fill_from_spans(device: Device, slots: Array, words: Array, spans: Spans) -> None:
    """Add to the words of slots what the intervals have there."""
    device.launch(position_fill_words, len(words), slots, *spans, words)


@device_function
def last_block(ends, k):
    """The block in which an interval ends."""
    return (np.int64(ends[k]) - 1) >> BLOCK_SHIFT


@device_kernel("u8*, i8, u4*, u4*, u1*", streamed=17)
def position_crowd(i, offsets, owners, starts, ends, flags):
    """Flag the interval that is one more than its first block may keep: of each such block, one.

    Few come as far as the search for the owner.
    """
    flags[i] = np.uint8(0)
    if i >= BLOCK_RUNS:
        block = np.int64(starts[i]) >> BLOCK_SHIFT
        if last_block(ends, i - BLOCK_RUNS) == block:
            first = np.int64(offsets[span_of(offsets, owners, i)])
            before = i - BLOCK_RUNS - 1
            if before + 1 >= first and (before < first or last_block(ends, before) != block):
                flags[i] = np.uint8(1)


@device_kernel("u4*, u8*, i8, u4*, u8*", streamed=12, random=2)
def position_crowd_key(i, crowds, offsets, owners, starts, keys):
    """The slot in which a flagged interval begins."""
    k = np.int64(crowds[i])
    keys[i] = owner_and(span_of(offsets, owners, k), np.int64(starts[k]) >> BLOCK_SHIFT)


@device_kernel("u8*, u8*, u4*, u4*, u8*", streamed=20, random=1)
def position_fill_words(i, slots, offsets, starts, ends, words):
    """Add to a word of a slot the positions that the owner's intervals have there."""
    slot = slots[i // BLOCK_WORDS]
    owner = np.int64(slot >> np.uint64(32))
    block = np.int64(slot & np.uint64(0xFFFFFFFF))
    base = (block << BLOCK_SHIFT) + ((i & (BLOCK_WORDS - 1)) << 6)
    first = np.int64(offsets[owner])
    words[i] |= word_of_spans(starts, ends, first, np.int64(offsets[owner + 1]), base)


@device_kernel("u8*, u4*, u1*", streamed=8 * BLOCK_WORDS + 5)
def position_runs(i, words, runs, is_crowded):
    """How many intervals a slot becomes: none, if it stays as words."""
    place = i * BLOCK_WORDS
    end = place + BLOCK_WORDS
    found = np.int64(0)
    carry = np.uint64(0)
    while place < end:
        word = words[place]
        before = (word << np.uint64(1)) | carry
        found += ones_of(word & (before ^ np.uint64(0xFFFFFFFFFFFFFFFF)))
        carry = word >> np.uint64(63)
        place += 1
    is_crowded[i] = np.uint8(1 if found > BLOCK_RUNS else 0)
    runs[i] = np.uint32(0 if found > BLOCK_RUNS else found)


@device_function
def in_crowded_slot(slots, count, is_crowded, owner, block):
    """Does this block of the owner's stay as words?"""
    slot = owner_and(owner, block)
    place = first_not_less(slots, np.int64(0), count, slot)
    return place < count and slots[place] == slot and is_crowded[place] != np.uint8(0)


@device_kernel(
    "u8*, i8, u4*, u4*, u8*, i8, u1*, u4*, u4*, u4*",
    streamed=20,
    random=1,
)
def position_clip(i, offsets, owners, starts, ends, slots, count, is_crowded, of_owner, begins, stops):
    """An interval without what lies in crowded slots: it is empty then if nothing else is left."""
    owner = span_of(offsets, owners, i)
    begin = np.int64(starts[i])
    stop = np.int64(ends[i])
    block = begin >> BLOCK_SHIFT
    if in_crowded_slot(slots, count, is_crowded, owner, block):
        # Not beyond its end: the end of the last block is more than 32 bits hold.
        begin = min((block + 1) << BLOCK_SHIFT, stop)
    block = (stop - 1) >> BLOCK_SHIFT
    if begin < stop and in_crowded_slot(slots, count, is_crowded, owner, block):
        stop = block << BLOCK_SHIFT
    of_owner[i] = np.uint32(owner)
    begins[i] = np.uint32(begin)
    stops[i] = np.uint32(stop)


@device_kernel("u8*, u8*, u8*, u4*, u4*, u4*", streamed=40)
def position_list_runs(i, slots, words, places, of_owner, begins, stops):
    """The runs of a slot that becomes intervals. The n-th run begins at the n-th bit that has none before it,
    and ends with the n-th that has none after it: so the two need not be found together.
    """
    begun = np.int64(places[i])
    ended = begun
    if begun < np.int64(places[i + 1]):
        slot = slots[i]
        base = np.int64(slot & np.uint64(0xFFFFFFFF)) << BLOCK_SHIFT
        before = np.uint64(0)
        w = np.int64(0)
        while w < BLOCK_WORDS:
            word = words[i * BLOCK_WORDS + w]
            after = np.uint64(0)
            if w + 1 < BLOCK_WORDS:
                after = words[i * BLOCK_WORDS + w + 1]
            first = word & (((word << np.uint64(1)) | before) ^ np.uint64(0xFFFFFFFFFFFFFFFF))
            while first != np.uint64(0):
                of_owner[begun] = np.uint32(slot >> np.uint64(32))
                begins[begun] = np.uint32(base + lowest_of(first))
                begun += 1
                first &= first - np.uint64(1)
            following = (word >> np.uint64(1)) | (after << np.uint64(63))
            last = word & (following ^ np.uint64(0xFFFFFFFFFFFFFFFF))
            while last != np.uint64(0):
                stops[ended] = np.uint32(base + lowest_of(last) + 1)
                ended += 1
                last &= last - np.uint64(1)
            before = word >> np.uint64(63)
            base += 64
            w += 1


@device_kernel("u4*, u8*, u8*, u8*, u8*, u4*", streamed=16 * BLOCK_WORDS + 24)
def position_keep(i, kept, slots, words, keys, kept_words, ones):
    """Copy a slot that stays, and count its positions."""
    slot = np.int64(kept[i])
    keys[i] = slots[slot]
    found = np.int64(0)
    w = np.int64(0)
    while w < BLOCK_WORDS:
        word = words[slot * BLOCK_WORDS + w]
        kept_words[i * BLOCK_WORDS + w] = word
        found += ones_of(word)
        w += 1
    ones[i] = np.uint32(found)
