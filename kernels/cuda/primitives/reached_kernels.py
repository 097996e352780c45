"""Kernels that write down what components take from others: see `position_sets`."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_or
from gpuengine.kernels.cuda.primitives.intervals import owner_and
from gpuengine.kernels.cuda.search import first_not_less, span_after, span_of
from gpuengine.kernels.cuda.spec import device_kernel
from gpuengine.kernels.position_sets import BLOCK_WORDS

TILE = 8
"""Sources, intervals or blocks that one item writes down."""


@device_kernel("u8*, u4*, u1*", streamed=13)
def reached_order(i, ranked, order, flags):
    """A node in its order, flagged if it is the first of a level."""
    order[i] = np.uint32(ranked[i] & np.uint64(0xFFFFFFFF))
    first = i == 0 or ranked[i] >> np.uint64(32) != ranked[i - 1] >> np.uint64(32)
    flags[i] = np.uint8(1 if first else 0)


@device_kernel("u4*, u8*, u4*", streamed=24)
def reached_degree(i, order, child_offsets, degrees):
    """How many sources a component has: its children and itself."""
    c = np.int64(order[i])
    degrees[i] = np.uint32(child_offsets[c + 1] - child_offsets[c] + np.uint64(1))


@device_kernel(
    "u8*, i8, i8, u4*, u8*, u4*, u8*, u1*, u4*, u4*, u4*, u4*, u4*, u4*",
    streamed=24 * TILE,
    random=4,
)
def reached_sources(
    i, scan, span_count, count, order, child_offsets, children, own_offsets, cyclic, n_i, n_b,
    owners, components, intervals, blocks,
):  # fmt: skip
    """A tile of sources: who takes, from whom, and how many intervals and blocks. The last is itself.

    A cyclic component's own positions are in its set, once that is made; until then they are what it takes
    from itself. Others have none in their sets, and it is their parents who take them.
    """
    base = np.int64(scan[0])
    place = i * TILE
    end = min(place + TILE, count)
    span = span_of(scan, span_count, base + place)
    while place < end:
        span = span_after(scan, span, base + place)
        c = np.int64(order[span])
        edge = np.int64(child_offsets[c]) + base + place - np.int64(scan[span])
        d = c
        if edge < np.int64(child_offsets[c + 1]):
            d = np.int64(children[edge])
        taken = np.int64(n_i[d])
        if (cyclic[d] != np.uint8(0)) == (d == c):
            taken += np.int64(own_offsets[d + 1]) - np.int64(own_offsets[d])
        owners[place] = np.uint32(span)
        components[place] = np.uint32(d)
        intervals[place] = np.uint32(taken)
        blocks[place] = n_b[d]
        place += 1


@device_kernel(
    "u8*, i8, i8, u4*, u4*, u8*, u4*, u4*, u4*, u8*, u4*, u4*, u4*, u4*",
    streamed=20 * TILE,
    random=4,
)
def reached_intervals(
    i, scan, sources, total, owners, components, first_i, n_i, pool_starts, pool_ends, own_offsets, own,
    of_owner, starts, ends,
):  # fmt: skip
    """A tile of the intervals that are taken; own positions are intervals after those of the set."""
    place = i * TILE
    end = min(place + TILE, total)
    source = span_of(scan, sources, place)
    while place < end:
        source = span_after(scan, source, place)
        d = np.int64(components[source])
        k = place - np.int64(scan[source])
        intervals = np.int64(n_i[d])
        of_owner[place] = owners[source]
        if k < intervals:
            k += np.int64(first_i[d])
            starts[place] = pool_starts[k]
            ends[place] = pool_ends[k]
        else:
            position = own[np.int64(own_offsets[d]) + k - intervals]
            starts[place] = position
            ends[place] = np.uint32(position + np.uint32(1))
        place += 1


@device_kernel("u8*, i8, i8, u4*, u4*, u8*, u4*, u8*, u8*", streamed=24 * TILE, random=2)
def reached_blocks(i, scan, sources, total, owners, components, first_b, pool_blocks, keys, places):
    """A tile of the blocks that are taken: the slot of each, and where its words are."""
    place = i * TILE
    end = min(place + TILE, total)
    source = span_of(scan, sources, place)
    while place < end:
        source = span_after(scan, source, place)
        k = np.int64(first_b[np.int64(components[source])]) + place - np.int64(scan[source])
        keys[place] = owner_and(owners[source], pool_blocks[k])
        places[place] = np.uint64(k)
        place += 1


@device_kernel("u8*, u8*, u8*, u8*, i8, u8*", streamed=16 + 8 * BLOCK_WORDS, random=4)
def reached_words(i, keys, places, pool_words, slots, count, words):
    """Add a block's words to its slot's. Bits are only ever set: those seen set need no atomic operation."""
    slot = first_not_less(slots, np.int64(0), count, keys[i]) * BLOCK_WORDS
    source = np.int64(places[i]) * BLOCK_WORDS
    w = np.int64(0)
    while w < BLOCK_WORDS:
        word = pool_words[source + w]
        if word & (words[slot + w] ^ np.uint64(0xFFFFFFFFFFFFFFFF)) != np.uint64(0):
            atomic_or(words, slot + w, word)
        w += 1
