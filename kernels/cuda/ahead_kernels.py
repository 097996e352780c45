"""Kernels of rounds that are run ahead of the host: sizes are words in the device's memory, which they read.

A launch is over *workers*, each of which takes tiles of the work until there is none: how much there is the
host need not know. `control` has the words that `ahead` lays out: why rounds ended (0: they have not), how
many are complete, for each table where its delta begins and ends and how many rows it has, and for each
pipeline what the delta matches in this round (in how many tiles, above `CANDIDATE_BITS`, and below how many
candidates) and the candidates so far. Once the first word is not 0 every kernel returns at once, so that the
rest of what was launched does nothing.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_add, atomic_or
from gpuengine.kernels.cuda.index_kernels import key_of
from gpuengine.kernels.cuda.join_kernels import TILE, matching_row, pick
from gpuengine.kernels.cuda.search import first_not_less, span_of
from gpuengine.kernels.cuda.set_kernels import insert_bit, insert_slot_nearby
from gpuengine.kernels.cuda.spec import device_kernel

RUNNING, AT_FIXPOINT, TOO_LARGE, NO_ROOM, TOO_HEAVY = 0, 1, 2, 4, 8
"""Why rounds ended. After the last two one is not complete; after NO_ROOM sets are to be made anew."""
CANDIDATE_BITS = 40
"""The lower bits of the word that counts a round's candidates; the upper ones count tiles of the delta."""
_CANDIDATES = (1 << CANDIDATE_BITS) - 1
FIRST_TABLE, TABLE_WORDS, PIPELINE_WORDS = 2, 3, 2
"""Where the tables' words begin, and how many each table and each pipeline has."""


@device_kernel(
    "u8*, i8, i8, i8, u4*, u4*, i8, i8, i8, i8, i8, i8, u8*, u4*, i8, u8*, u4*, i8,"
    "u4*, u4*, u4*, u4*, u8*, u4*",
    streamed=24,
    random=2,
)
def match_delta(
    worker,
    control,
    workers,
    table,
    pipeline,
    firsts,
    seconds,
    mode,
    first_low,
    first_high,
    second_low,
    second_high,
    has_recent,
    main,
    main_directory,
    main_shift,
    recent,
    recent_directory,
    recent_shift,
    main_starts,
    main_counts,
    recent_starts,
    counts,
    tile_starts,
    tiles,
):
    """Look up the rows of a table's delta, and number their candidates tile by tile, in any order."""
    start = np.int64(control[table])
    count = np.int64(control[table + 1]) - start
    if control[0] != np.uint64(0):
        count = np.int64(0)
    tile = np.int64(worker)
    while tile * np.int64(TILE) < count:
        row = tile * np.int64(TILE)
        last = min(row + np.int64(TILE), count)
        found = np.int64(0)
        while row < last:
            first = np.int64(firsts[start + row])
            second = np.int64(seconds[start + row])
            key = key_of(mode, first, first_low, first_high, second, second_low, second_high)
            length = np.int64(0)
            main_counts[row] = 0
            if key >= 0:
                bottom = np.uint64(key) << np.uint64(32)
                top = bottom | np.uint64(4294967295)
                bucket = key >> main_shift
                place = np.int64(main_directory[bucket])
                end = np.int64(main_directory[bucket + 1])
                place = first_not_less(main, place, end, bottom)
                length = first_not_less(main, place, end, top) - place
                main_starts[row] = np.uint32(place)
                main_counts[row] = np.uint32(length)
                if has_recent:
                    bucket = key >> recent_shift
                    place = np.int64(recent_directory[bucket])
                    end = np.int64(recent_directory[bucket + 1])
                    place = first_not_less(recent, place, end, bottom)
                    recent_starts[row] = np.uint32(place)
                    length += first_not_less(recent, place, end, top) - place
            counts[row] = np.uint32(length)
            found += length
            row += 1
        if found > 0:
            taken = atomic_add(
                control, pipeline, (np.uint64(1) << np.uint64(CANDIDATE_BITS)) | np.uint64(found)
            )
            span = np.int64(taken >> np.uint64(CANDIDATE_BITS))
            tile_starts[span] = taken & np.uint64(_CANDIDATES)
            tiles[span] = np.uint32(tile)
        tile += workers


@device_kernel(
    "u8*, i8, i8, i8, i8, u4*, u4*, u4*, u4*, u8*, u4*, u8*, u8*, i8,"
    "u4*, u4*, u4*, u4*, u4*, u4*, u4*, u4*, u8, u8, u8, u8, u8, u4*, u8*, u8, u4*, i8, i8, i8",
    streamed=96,
    random=12,
)
def insert_matches(
    worker,
    control,
    workers,
    table,
    pipeline,
    head,
    main_starts,
    main_counts,
    recent_starts,
    counts,
    tile_starts,
    tiles,
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
    slots,
    mask,
    rows,
    rows_stride,
    limit,
    heavy,
):
    """Expand what `match_delta` found, and append to the head what is new to its set, up to `limit` rows.

    As `expand_and_insert` does, but that there may be no room: then rows that are in the set have not been
    written, the first word says so, and the set has to be made anew. Nothing is done if there are more than
    `heavy` candidates, for which it takes too long: the first word says that as well.
    """
    start = np.int64(control[table])
    count = np.int64(control[table + 1]) - start
    spans = np.int64(control[pipeline] >> np.uint64(CANDIDATE_BITS))
    total = np.int64(control[pipeline] & np.uint64(_CANDIDATES))
    if total > heavy and control[0] == np.uint64(0):
        total = np.int64(0)
        atomic_or(control, np.int64(0), np.uint64(TOO_HEAVY))
    arity = shape & np.int64(7)
    checks = (shape >> 3) & np.int64(3)
    is_bitmap = shape & np.int64(32)
    from_match = shape >> 6
    first = np.int64(worker) * np.int64(TILE)
    while first < total and control[0] == np.uint64(0):
        last = min(first + np.int64(TILE), total)
        first_span = span_of(tile_starts, spans, first)
        first_row = np.int64(tiles[first_span]) * np.int64(TILE)
        first_begin = np.int64(tile_starts[first_span])
        fresh = np.int64(0)
        found = np.int64(0)
        is_short = False
        writing = False
        place = np.int64(0)
        # Two passes over the tile: insert, then write what was new.
        while True:
            candidate = first
            span = first_span
            row = first_row
            begin = first_begin
            while candidate < last:
                while begin + np.int64(counts[row]) <= candidate:
                    begin += np.int64(counts[row])
                    row += 1
                    if row % np.int64(TILE) == 0 or row >= count:
                        span += 1
                        row = np.int64(tiles[span]) * np.int64(TILE)
                bit = np.int64(1) << (candidate - first)
                if not writing or fresh & bit:
                    nth = candidate - begin
                    match = matching_row(row, nth, main_starts, main_counts, recent_starts, main, recent)
                    passed = True
                    if checks > 0:
                        passed = checked_a[np.int64(match)] == expected_a[start + row]
                        if checks > 1:
                            passed = passed and checked_b[np.int64(match)] == expected_b[start + row]
                    if passed:
                        a = pick(column_a, from_match & 1, start + row, match)
                        b = pick(column_b, from_match & 2, start + row, match)
                        c = pick(column_c, from_match & 4, start + row, match)
                        d = pick(column_d, from_match & 8, start + row, match)
                        if writing:
                            if place < limit:
                                rows[place] = a
                                if arity > 1:
                                    rows[rows_stride + place] = b
                                if arity > 2:
                                    rows[2 * rows_stride + place] = c
                                if arity > 3:
                                    rows[3 * rows_stride + place] = d
                            else:
                                is_short = True
                            place += 1
                        else:
                            key = (
                                np.uint64(a) * stride_a
                                + np.uint64(b) * stride_b
                                + np.uint64(c) * stride_c
                                + np.uint64(d) * stride_d
                                - least_key
                            )
                            if is_bitmap:
                                new = np.int64(insert_bit(words, key))
                            else:
                                new = insert_slot_nearby(slots, mask, key)
                            if new == 1:
                                fresh |= bit
                                found += 1
                            elif new == 2:
                                is_short = True
                candidate += 1
            if writing or found == 0:
                break
            writing = True
            place = np.int64(atomic_add(control, head + 2, np.uint64(found)))
        if is_short:
            atomic_or(control, np.int64(0), np.uint64(NO_ROOM))
        first += workers * np.int64(TILE)


@device_kernel("u8*, i8, i8, i8", streamed=0, random=12)
def end_round(i, control, tables, pipelines, most):
    """What was appended becomes the delta of each table. No next round if that is nothing, or if one has
    more than `most` rows."""
    if control[0] == np.uint64(0):
        least = np.int64(0)
        greatest = np.int64(0)
        at = np.int64(FIRST_TABLE)
        for _ in range(tables):
            delta = np.int64(control[at + 2]) - np.int64(control[at + 1])
            control[at] = control[at + 1]
            control[at + 1] = control[at + 2]
            least += delta
            greatest = max(greatest, delta)
            at += 3
        for _ in range(pipelines):
            control[at + 1] += control[at] & np.uint64(_CANDIDATES)
            control[at] = np.uint64(0)
            at += 2
        control[1] += np.uint64(1)
        if least == 0:
            control[0] = np.uint64(AT_FIXPOINT)
        elif greatest > most:
            control[0] = np.uint64(TOO_LARGE)
