"""Kernels that expand matches: every item takes a tile of TILE candidates, wherever their bindings are.

Candidate c belongs to the binding whose span of `offsets` holds it: found by binary search once a tile, then
followed. So one binding with a million matches and a million with one are the same work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_add
from gpuengine.kernels.cuda.search import span_after, span_of
from gpuengine.kernels.cuda.set_kernels import insert_bit, insert_slot
from gpuengine.kernels.cuda.spec import device_function, device_kernel

TILE = 8


@device_function
def matching_row(binding, nth, main_starts, main_counts, recent_starts, main, recent):
    """The nth match of a binding: those in the main run come first."""
    in_main = np.int64(main_counts[binding])
    if nth < in_main:
        return np.uint32(main[np.int64(main_starts[binding]) + nth] & np.uint64(4294967295))
    return np.uint32(recent[np.int64(recent_starts[binding]) + nth - in_main] & np.uint64(4294967295))


@device_kernel("i8, i8, i8, u8*, u4*, u4*, u4*, u8*, u8*, u4*, u4*", streamed=160, random=3)
def expand_matches(
    tile,
    base,
    end,
    bindings,
    offsets,
    main_starts,
    main_counts,
    recent_starts,
    main,
    recent,
    origins,
    matches,
):
    """For the candidates [base, end): which binding each belongs to, and its matching row."""
    candidate = base + tile * np.int64(TILE)
    last = min(candidate + np.int64(TILE), end)
    binding = span_of(offsets, bindings, candidate)
    while candidate < last:
        binding = span_after(offsets, binding, candidate)
        nth = candidate - np.int64(offsets[binding])
        origins[candidate - base] = np.uint32(binding)
        matches[candidate - base] = matching_row(
            binding, nth, main_starts, main_counts, recent_starts, main, recent
        )
        candidate += 1


@device_kernel("i8, i8, u4*, u4*", streamed=8)
def expand_product(i, base, rows, origins, matches):
    """Candidate ``base + i`` of every binding with every one of `rows` rows."""
    origins[i] = np.uint32((base + i) // rows)
    matches[i] = np.uint32((base + i) % rows)


@device_function
def pick(column, from_match, binding, match):
    """A value of a candidate: of its matching row, or of its binding."""
    if from_match:
        return column[np.int64(match)]
    return column[binding]


def pack_shape(arity: int, checks: int, is_bitmap: bool, from_match: Sequence[bool]) -> int:
    """How many head columns and checks there are, whether the set is a bitmap, and which head columns come
    from the matching row: in one word, because a kernel has only so many parameters."""
    bits = sum(1 << bit for bit, is_match in enumerate(from_match) if is_match)
    return arity | checks << 3 | is_bitmap << 5 | bits << 6


@device_kernel(
    "i8, i8, i8, u8*, u4*, u4*, u4*, u8*, u8*,"
    "i8, u4*, u4*, u4*, u4*, u4*, u4*, u4*, u4*, u8, u8, u8, u8, u8,"
    "u4*, u8*, u8, u4*, i8, u8*",
    streamed=96,
    random=12,
)
def expand_and_insert(
    tile,
    base,
    end,
    bindings,
    offsets,
    main_starts,
    main_counts,
    recent_starts,
    main,
    recent,
    shape,
    checked_a,
    expected_a,
    checked_b,
    expected_b,
    column_a,
    column_b,
    column_c,
    column_d,
    least_key,
    stride_a,
    stride_b,
    stride_c,
    stride_d,
    words,
    table,
    mask,
    rows,
    rows_stride,
    counter,
):
    """Expand candidates, filter them by up to two checks, and append those that are new to the set.

    Candidates are never written: a tile remembers which of its eight were new, takes that many rows at once
    from `counter`, and makes those candidates again. The key is the sum of value times stride, less
    `least_key`. `shape` is what `pack_shape` makes of the rest. There may be fewer candidates than `end`: how
    many there are, whoever launches this need not know before, and finds beside the counter after.
    """
    total = np.int64(offsets[bindings])
    if tile == 0:
        counter[1] = np.uint64(total)
    arity = shape & np.int64(7)
    checks = (shape >> 3) & np.int64(3)
    is_bitmap = shape & np.int64(32)
    from_match = shape >> 6
    first = base + tile * np.int64(TILE)
    last = min(first + np.int64(TILE), min(end, total))
    if first >= last:
        return
    first_binding = span_of(offsets, bindings, first)
    fresh = np.int64(0)
    found = np.int64(0)
    writing = False
    row = np.int64(0)
    # Two passes over the tile: insert, then write what was new.
    while True:
        candidate = first
        binding = first_binding
        while candidate < last:
            binding = span_after(offsets, binding, candidate)
            bit = np.int64(1) << (candidate - first)
            if not writing or fresh & bit:
                nth = candidate - np.int64(offsets[binding])
                match = matching_row(binding, nth, main_starts, main_counts, recent_starts, main, recent)
                passed = True
                if checks > 0:
                    passed = checked_a[np.int64(match)] == expected_a[binding]
                    if checks > 1:
                        passed = passed and checked_b[np.int64(match)] == expected_b[binding]
                if passed:
                    a = pick(column_a, from_match & 1, binding, match)
                    b = pick(column_b, from_match & 2, binding, match)
                    c = pick(column_c, from_match & 4, binding, match)
                    d = pick(column_d, from_match & 8, binding, match)
                    if writing:
                        rows[row] = a
                        if arity > 1:
                            rows[rows_stride + row] = b
                        if arity > 2:
                            rows[2 * rows_stride + row] = c
                        if arity > 3:
                            rows[3 * rows_stride + row] = d
                        row += 1
                    else:
                        key = (
                            np.uint64(a) * stride_a
                            + np.uint64(b) * stride_b
                            + np.uint64(c) * stride_c
                            + np.uint64(d) * stride_d
                            - least_key
                        )
                        if is_bitmap:
                            new = insert_bit(words, key)
                        else:
                            new = insert_slot(table, mask, key)
                        if new:
                            fresh |= bit
                            found += 1
            candidate += 1
        if writing or found == 0:
            break
        writing = True
        row = np.int64(atomic_add(counter, np.int64(0), np.uint64(found)))
