"""Kernels over encoded intervals of time: an item is an entry of a reader, whose lists it walks.

`kernels.timeline` says what they mean; the arithmetic of ends is that of the host's kernels. Each entry
writes to places of its own, which begin at `offsets`, so that no entry waits for another.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu import timeline_kernels as host
from gpuengine.kernels.cuda.spec import device_function, device_kernel

INFINITY = 1 << 60
MINUS_INFINITY = -(1 << 60)
NO_ROW = 0xFFFFFFFF

shifted_lower = device_function(host.shifted_lower)
shifted_upper = device_function(host.shifted_upper)
append = device_function(host.append)
sort_pairs = device_function(host.sort_pairs)


@device_kernel("i8*, u4*, i8, u4*", streamed=8, random=1)
def timeline_room(i, counts, rows, factor, room):
    """Add to the room of an entry `factor` places for each interval of its row."""
    if rows[i] != np.uint32(NO_ROW):
        room[i] = np.uint32(np.int64(room[i]) + factor * counts[np.int64(rows[i])])


@device_kernel("i8, i8, i8, i8*, i8*, i8*, i8*, u1*, i8, u4*, u8*, i8*, i8*, i8*, i8*", streamed=28, random=4)
def timeline_shift(
    i, shift, p, q, starts, counts, lower, upper, flags, choice, rows,
    offsets, out_starts, out_counts, out_lower, out_upper,
):  # fmt: skip
    """A diamond or a box applied to the list of an entry."""
    first = np.int64(offsets[i])
    written = first
    if rows[i] != np.uint32(NO_ROW):
        row = np.int64(rows[i])
        at = starts[row]
        end = at + counts[row]
        while at < end:
            if choice < 0 or np.int64(flags[at]) == choice:
                low = shifted_lower(shift, p, q, lower[at])
                up = shifted_upper(shift, p, q, upper[at])
                written = append(out_lower, out_upper, first, written, low, up)
            at += 1
    out_starts[i] = first
    out_counts[i] = written - first


@device_kernel(
    "i8, i8, i8, i8*, i8*, i8*, i8*, u1*, i8, u4*, i8*, i8*, i8*, i8*, u1*, i8, u4*, u8*, i8*, i8*, i8*, i8*",
    streamed=32,
    random=8,
)
def timeline_chain(
    i, chain, p, q,
    a_starts, a_counts, a_lower, a_upper, a_flags, a_choice, a_rows,
    b_starts, b_counts, b_lower, b_upper, b_flags, b_choice, b_rows,
    offsets, out_starts, out_counts, out_lower, out_upper,
):  # fmt: skip
    """Since or Until of the two lists of an entry: at most 2 a + 2 b intervals before they are coalesced."""
    first = np.int64(offsets[i])
    written = first
    reach = max(p, np.int64(1))
    if b_rows[i] != np.uint32(NO_ROW):
        b_begin = b_starts[np.int64(b_rows[i])]
        b_end = b_begin + b_counts[np.int64(b_rows[i])]
        if p == 0:
            j = b_begin
            while j < b_end:
                if b_choice < 0 or np.int64(b_flags[j]) == b_choice:
                    out_lower[written] = b_lower[j]
                    out_upper[written] = b_upper[j]
                    written += 1
                j += 1
        if reach <= q and a_rows[i] != np.uint32(NO_ROW):
            k = a_starts[np.int64(a_rows[i])]
            a_end = k + a_counts[np.int64(a_rows[i])]
            j_first = b_begin
            while k < a_end:
                if a_choice < 0 or np.int64(a_flags[k]) == a_choice:
                    c_low = a_lower[k] - (a_lower[k] & 1)
                    c_up = a_upper[k] + (a_upper[k] & 1)
                    while j_first < b_end and b_upper[j_first] < c_low:
                        j_first += 1
                    j = j_first
                    while j < b_end and b_lower[j] <= c_up:
                        if b_choice < 0 or np.int64(b_flags[j]) == b_choice:
                            low = shifted_lower(chain, reach, q, max(b_lower[j], c_low))
                            up = shifted_upper(chain, reach, q, min(b_upper[j], c_up))
                            low = max(low, c_low)
                            up = min(up, c_up)
                            if low <= up:
                                out_lower[written] = low
                                out_upper[written] = up
                                written += 1
                        j += 1
                k += 1
        sort_pairs(out_lower, out_upper, first, written)
        at = first
        end = written
        written = first
        while at < end:
            written = append(out_lower, out_upper, first, written, out_lower[at], out_upper[at])
            at += 1
    out_starts[i] = first
    out_counts[i] = written - first


@device_kernel(
    "i8*, i8*, i8*, i8*, u1*, i8, u4*, i8*, i8*, i8*, i8*, u1*, i8, u4*, u8*, i8*, i8*, i8*, i8*",
    streamed=32,
    random=8,
)
def timeline_intersect(
    i,
    a_starts, a_counts, a_lower, a_upper, a_flags, a_choice, a_rows,
    b_starts, b_counts, b_lower, b_upper, b_flags, b_choice, b_rows,
    offsets, out_starts, out_counts, out_lower, out_upper,
):  # fmt: skip
    """The intersections of the intervals of the two lists of an entry."""
    first = np.int64(offsets[i])
    written = first
    if a_rows[i] != np.uint32(NO_ROW) and b_rows[i] != np.uint32(NO_ROW):
        k = a_starts[np.int64(a_rows[i])]
        k_end = k + a_counts[np.int64(a_rows[i])]
        j = b_starts[np.int64(b_rows[i])]
        j_end = j + b_counts[np.int64(b_rows[i])]
        while k < k_end and j < j_end:
            if a_choice >= 0 and np.int64(a_flags[k]) != a_choice:
                k += 1
            elif b_choice >= 0 and np.int64(b_flags[j]) != b_choice:
                j += 1
            else:
                low = max(a_lower[k], b_lower[j])
                up = min(a_upper[k], b_upper[j])
                if low <= up:
                    out_lower[written] = low
                    out_upper[written] = up
                    written += 1
                if a_upper[k] < b_upper[j]:
                    k += 1
                else:
                    j += 1
    out_starts[i] = first
    out_counts[i] = written - first


@device_kernel("i8*, i8*, i8*, i8*, u1*, i8, u4*, u8*, i8*, i8*, i8*, i8*", streamed=28, random=4)
def timeline_complement(
    i, starts, counts, lower, upper, flags, choice, rows,
    offsets, out_starts, out_counts, out_lower, out_upper,
):  # fmt: skip
    """What lies between the intervals of an entry, and around them."""
    first = np.int64(offsets[i])
    written = first
    low = np.int64(MINUS_INFINITY)
    if rows[i] != np.uint32(NO_ROW):
        at = starts[np.int64(rows[i])]
        end = at + counts[np.int64(rows[i])]
        while at < end:
            if choice < 0 or np.int64(flags[at]) == choice:
                if low < lower[at]:
                    out_lower[written] = low
                    out_upper[written] = lower[at] - 1
                    written += 1
                low = upper[at] + 1
            at += 1
    if low <= np.int64(INFINITY):
        out_lower[written] = low
        out_upper[written] = np.int64(INFINITY)
        written += 1
    out_starts[i] = first
    out_counts[i] = written - first


@device_kernel("i8*, i8*, i8*, i8*, u1*, i8*, i8*, i8*, i8*", streamed=32, random=5)
def timeline_mark(i, starts, counts, lower, upper, flags, old_starts, old_counts, old_lower, old_upper):
    """Flag the intervals of a row that no single old interval of the same row contains."""
    j = old_starts[i]
    j_end = j + old_counts[i]
    at = starts[i]
    end = at + counts[i]
    while at < end:
        while j < j_end and old_upper[j] < upper[at]:
            j += 1
        if j == j_end or old_lower[j] > lower[at]:
            flags[at] = np.uint8(1)
        else:
            flags[at] = np.uint8(0)
        at += 1


@device_kernel("i8*, i8*, u1*, u1*", streamed=17, random=1)
def timeline_has_new(i, starts, counts, flags, found):
    """Has a row a flagged interval?"""
    found[i] = np.uint8(0)
    at = starts[i]
    end = at + counts[i]
    while at < end:
        if flags[at] != np.uint8(0):
            found[i] = np.uint8(1)
        at += 1


@device_kernel(
    "i8*, i8*, i8*, i8*, u1*, i8, u4*, u4*, i8*, i8*, i8*, i8*, i8, i8, u8*, u1*, u4*, i8*, i8*",
    streamed=32,
    random=8,
)
def timeline_emit(
    i, starts, counts, lower, upper, flags, choice, rows, heads,
    known_starts, known_counts, known_lower, known_upper, low_end, high_end,
    offsets, keep, out_heads, out_lower, out_upper,
):  # fmt: skip
    """The intervals of an entry, cut to the horizon; kept are those that the head's list does not contain."""
    if rows[i] != np.uint32(NO_ROW):
        head = np.int64(heads[i])
        first = known_starts[head]
        last = first + known_counts[head]
        at = starts[np.int64(rows[i])]
        end = at + counts[np.int64(rows[i])]
        place = np.int64(offsets[i])
        while at < end:
            low = max(lower[at], low_end)
            up = min(upper[at], high_end)
            if low <= up and (choice < 0 or np.int64(flags[at]) == choice):
                a = first
                b = last
                while a < b:
                    middle = (a + b) >> 1
                    if known_lower[middle] <= low:
                        a = middle + 1
                    else:
                        b = middle
                if a == first or known_upper[a - 1] < up:
                    keep[place] = np.uint8(1)
                    out_heads[place] = heads[i]
                    out_lower[place] = low
                    out_upper[place] = up
            place += 1
            at += 1


@device_kernel("i8*, i8*, i8*, i8*, u8*, i8*, i8*", streamed=24, random=2)
def timeline_pack(i, starts, counts, lower, upper, offsets, out_lower, out_upper):
    """Copy the list of a row to where it lies when all lie one after the other."""
    at = starts[i]
    end = at + counts[i]
    place = np.int64(offsets[i])
    while at < end:
        out_lower[place] = lower[at]
        out_upper[place] = upper[at]
        place += 1
        at += 1


@device_kernel("i8*, u4*, i8*", streamed=12, random=1)
def timeline_gather(i, source, places, out):
    out[i] = source[np.int64(places[i])]
