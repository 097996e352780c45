"""Kernels that make position sets: unions along the edges of an acyclic graph, and differences."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import atomic_add
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.position_lists import (
    in_intervals,
    insert_position,
    is_crowded,
    total_length,
    unite_lists,
)
from gpuengine.kernels.cpu.position_scratch import (
    add_block,
    add_interval,
    holds,
    read_out,
    take_block,
    take_interval,
)
from gpuengine.kernels.position_sets import BLOCK_WORDS

SHORT = 128
"""Sets that come from at most so many intervals, and no block, are united as lists."""

CURSOR_INTERVALS = 0
CURSOR_BLOCKS = 1
CAPACITY_INTERVALS = 2
CAPACITY_BLOCKS = 3
CONTROL_WORDS = 4


@device
def intervals_in(owner, counts, block_counts):
    """How many intervals a set has; more than SHORT if it has a block."""
    if block_counts[owner] != np.uint32(0):
        return np.int64(SHORT + 1)
    return np.int64(counts[owner])


@device
def add_set(owner, first_i, n_i, first_b, n_b, starts, ends, blocks, words, bits, full, touched, span):
    """Add an owner's set to the one under construction."""
    for k in range(np.int64(first_i[owner]), np.int64(first_i[owner]) + np.int64(n_i[owner])):
        add_interval(bits, full, touched, span, np.int64(starts[k]), np.int64(ends[k]))
    for k in range(np.int64(first_b[owner]), np.int64(first_b[owner]) + np.int64(n_b[owner])):
        add_block(bits, full, touched, span, np.int64(blocks[k]), words, k * BLOCK_WORDS)


@device
def take_set(owner, first_i, n_i, first_b, n_b, starts, ends, blocks, words, bits, full, touched):
    """Take an owner's set away from the one under construction."""
    for k in range(np.int64(first_i[owner]), np.int64(first_i[owner]) + np.int64(n_i[owner])):
        take_interval(bits, full, touched, np.int64(starts[k]), np.int64(ends[k]))
    for k in range(np.int64(first_b[owner]), np.int64(first_b[owner]) + np.int64(n_b[owner])):
        take_block(bits, full, touched, np.int64(blocks[k]), words, k * BLOCK_WORDS)


@device
def store(
    owner,
    counts,
    first_i,
    n_i,
    first_b,
    n_b,
    sizes,
    starts,
    ends,
    blocks,
    words,
    new_starts,
    new_ends,
    new_blocks,
    new_words,
    control,
):
    """Append a set to the pool and make it the owner's; False if there is no room."""
    intervals = counts[0]
    block_count = counts[1]
    at = atomic_add(control, CURSOR_INTERVALS, intervals)
    block_at = atomic_add(control, CURSOR_BLOCKS, block_count)
    if at + intervals > control[CAPACITY_INTERVALS] or block_at + block_count > control[CAPACITY_BLOCKS]:
        return False
    for k in range(intervals):
        starts[at + k] = new_starts[k]
        ends[at + k] = new_ends[k]
    for k in range(block_count):
        blocks[block_at + k] = new_blocks[k]
    for k in range(block_count * BLOCK_WORDS):
        words[block_at * BLOCK_WORDS + k] = new_words[k]
    first_i[owner] = np.uint64(at)
    n_i[owner] = np.uint32(intervals)
    first_b[owner] = np.uint64(block_at)
    n_b[owner] = np.uint32(block_count)
    sizes[owner] = np.uint64(counts[2])
    return True


@kernel(
    "i8(u4*, i8, i8, u8*, u4*, u8*, u4*, u8*, u4*, u4*, u1*, "
    "u8*, u4*, u8*, u4*, u8*, u4*, u8*, u4*, u8*, "
    "u4*, u4*, u4*, u8*, u8*, u8*, u8*, i8*, "
    "u4*, u4*, u4*, u4*, u4*, u8*, i8*, i8*, i8*)"
)
def unite_along_edges(
    work,
    begin,
    end,
    base_offsets,
    bases,
    child_offsets,
    children,
    own_offsets,
    own,
    places,
    cyclic,
    old_first_i,
    old_n_i,
    old_first_b,
    old_n_b,
    first_i,
    n_i,
    first_b,
    n_b,
    sizes,
    starts,
    ends,
    blocks,
    words,
    bits,
    full,
    touched,
    span,
    one_starts,
    one_ends,
    two_starts,
    two_ends,
    new_blocks,
    new_words,
    counts,
    control,
    stop,
):
    """For the owners ``work[begin:end]``, in turn: what they and their children hold, and their children.

    The set of ``work[k]`` is the union of the old sets of ``bases[base_offsets[k]:base_offsets[k + 1]]``, of
    the new sets of ``children[child_offsets[k]:...]``, made before it, and of the positions
    ``own[own_offsets[k]:...]``. Each owner has a place, a position among its own; a child that is not cyclic
    adds its place, while a cyclic one has its own positions in its set already. A child whose place is in
    already adds nothing, because whoever reaches it has what it reaches; with bases, which may have held it
    when it reached less, that can't be told.

    Returns where it came to: before `end` if the pool is full or `stop` is set; to go on from there is right.
    """
    for k in range(begin, end):
        if stop[0] != 0:
            return k
        owner = np.int64(work[k])
        can_tell = base_offsets[k] == base_offsets[k + 1]
        expected = np.int64(0)
        for b in range(np.int64(base_offsets[k]), np.int64(base_offsets[k + 1])):
            expected += intervals_in(np.int64(bases[b]), old_n_i, old_n_b)
        for e in range(np.int64(child_offsets[k]), np.int64(child_offsets[k + 1])):
            expected += intervals_in(np.int64(children[e]), n_i, n_b) + 1
        own_begin = np.int64(own_offsets[k])
        own_end = np.int64(own_offsets[k + 1])
        expected += own_end - own_begin
        # The list so far and the one that the next union is written to take turns.
        new_starts = one_starts
        new_ends = one_ends
        next_starts = two_starts
        next_ends = two_ends
        if expected <= SHORT:
            count = 0
            for b in range(np.int64(base_offsets[k]), np.int64(base_offsets[k + 1])):
                base = np.int64(bases[b])
                first = np.int64(old_first_i[base])
                count = unite_lists(
                    new_starts,
                    new_ends,
                    count,
                    starts,
                    ends,
                    first,
                    np.int64(old_n_i[base]),
                    next_starts,
                    next_ends,
                )
                new_starts, next_starts = next_starts, new_starts
                new_ends, next_ends = next_ends, new_ends
            for e in range(np.int64(child_offsets[k]), np.int64(child_offsets[k + 1])):
                child = np.int64(children[e])
                position = np.int64(places[child])
                if can_tell and in_intervals(new_starts, new_ends, 0, count, position):
                    continue
                first = np.int64(first_i[child])
                count = unite_lists(
                    new_starts,
                    new_ends,
                    count,
                    starts,
                    ends,
                    first,
                    np.int64(n_i[child]),
                    next_starts,
                    next_ends,
                )
                new_starts, next_starts = next_starts, new_starts
                new_ends, next_ends = next_ends, new_ends
                if not cyclic[child]:
                    count = insert_position(new_starts, new_ends, count, position)
            for m in range(own_begin, own_end):
                count = insert_position(new_starts, new_ends, count, np.int64(own[m]))
            counts[0] = count
            counts[1] = 0
            counts[2] = total_length(new_starts, new_ends, count)
            if is_crowded(new_starts, new_ends, count):
                for m in range(count):
                    add_interval(bits, full, touched, span, np.int64(new_starts[m]), np.int64(new_ends[m]))
                read_out(bits, full, touched, span, new_starts, new_ends, new_blocks, new_words, counts)
        else:
            for b in range(np.int64(base_offsets[k]), np.int64(base_offsets[k + 1])):
                add_set(
                    np.int64(bases[b]),
                    old_first_i,
                    old_n_i,
                    old_first_b,
                    old_n_b,
                    starts,
                    ends,
                    blocks,
                    words,
                    bits,
                    full,
                    touched,
                    span,
                )
            for e in range(np.int64(child_offsets[k]), np.int64(child_offsets[k + 1])):
                child = np.int64(children[e])
                position = np.int64(places[child])
                if can_tell and holds(bits, full, position):
                    continue
                add_set(
                    child, first_i, n_i, first_b, n_b, starts, ends, blocks, words, bits, full, touched, span
                )
                if not cyclic[child]:
                    add_interval(bits, full, touched, span, position, position + 1)
            for m in range(own_begin, own_end):
                position = np.int64(own[m])
                add_interval(bits, full, touched, span, position, position + 1)
            read_out(bits, full, touched, span, new_starts, new_ends, new_blocks, new_words, counts)
        if not store(
            owner,
            counts,
            first_i,
            n_i,
            first_b,
            n_b,
            sizes,
            starts,
            ends,
            blocks,
            words,
            new_starts,
            new_ends,
            new_blocks,
            new_words,
            control,
        ):
            return k
    return end


@kernel(
    "i8(u4*, u4*, i8, i8, u8*, u4*, u8*, u4*, u8*, u4*, u8*, u4*, u8*, u4*, u8*, u4*, u8*, "
    "u4*, u4*, u4*, u8*, u4*, u4*, u4*, u8*, u8*, u8*, u8*, i8*, u4*, u4*, u4*, u8*, i8*, i8*, i8*, "
    "u4*, i8, u1*)"
)
def subtract(
    kept,
    taken,
    begin,
    end,
    a_first_i,
    a_n_i,
    a_first_b,
    a_n_b,
    b_first_i,
    b_n_i,
    b_first_b,
    b_n_b,
    first_i,
    n_i,
    first_b,
    n_b,
    sizes,
    starts,
    ends,
    blocks,
    words,
    out_starts,
    out_ends,
    out_blocks,
    out_words,
    bits,
    full,
    touched,
    span,
    new_starts,
    new_ends,
    new_blocks,
    new_words,
    counts,
    control,
    stop,
    spared,
    spared_count,
    had,
):
    """Set k becomes what is in set ``kept[k]`` of the first family and not in ``taken[k]`` of the second.

    The positions `spared` are not taken away; `had` has room for as many marks.

    Both families lie in one pool, the results in another. Returns where it came to, as `unite_along_edges`
    does.
    """
    for k in range(begin, end):
        if stop[0] != 0:
            return k
        add_set(
            np.int64(kept[k]),
            a_first_i,
            a_n_i,
            a_first_b,
            a_n_b,
            starts,
            ends,
            blocks,
            words,
            bits,
            full,
            touched,
            span,
        )
        for j in range(spared_count):
            had[j] = holds(bits, full, np.int64(spared[j]))
        take_set(
            np.int64(taken[k]),
            b_first_i,
            b_n_i,
            b_first_b,
            b_n_b,
            starts,
            ends,
            blocks,
            words,
            bits,
            full,
            touched,
        )
        for j in range(spared_count):
            if had[j]:
                position = np.int64(spared[j])
                add_interval(bits, full, touched, span, position, position + 1)
        read_out(bits, full, touched, span, new_starts, new_ends, new_blocks, new_words, counts)
        if not store(
            k,
            counts,
            first_i,
            n_i,
            first_b,
            n_b,
            sizes,
            out_starts,
            out_ends,
            out_blocks,
            out_words,
            new_starts,
            new_ends,
            new_blocks,
            new_words,
            control,
        ):
            return k
    return end
