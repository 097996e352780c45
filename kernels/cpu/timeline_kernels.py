"""Kernels over encoded intervals of time; `kernels.timeline` says what they mean.

Lists are read through (starts, counts, lower, upper, flags, choice, rows), and results written one row after
the other to arrays that have room for what a row can have at most.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel

INFINITY = 1 << 60
MINUS_INFINITY = -(1 << 60)
NO_ROW = 0xFFFFFFFF
SMALL = 24

# Places in the state of a merge.
USED, LIVE, FIRST_NEW, LAST_NEW, LARGEST = range(5)


@device
def shifted_lower(shift, p, q, low):
    """The lower end after an operator; more than any upper end if the result is empty."""
    if low == MINUS_INFINITY:
        return np.int64(MINUS_INFINITY)
    if shift == 0:
        return low + p - (low & p & 1)
    if shift == 1:
        if q == INFINITY:
            return np.int64(MINUS_INFINITY)
        return low - q - (low & q & 1)
    if shift == 2:
        if q == INFINITY:
            return np.int64(INFINITY + 1)
        return low + q + (q & ~low & 1)
    return low - p + (p & ~low & 1)


@device
def shifted_upper(shift, p, q, up):
    """The upper end after an operator; less than any lower end if the result is empty."""
    if up == INFINITY:
        return np.int64(INFINITY)
    if shift == 0:
        if q == INFINITY:
            return np.int64(INFINITY)
        return up + q + (up & q & 1)
    if shift == 1:
        return up - p + (up & p & 1)
    if shift == 2:
        return up + p - (p & ~up & 1)
    if q == INFINITY:
        return np.int64(MINUS_INFINITY - 1)
    return up - q - (q & ~up & 1)


@device
def append(out_lower, out_upper, first, written, low, up):
    """Add an interval behind those from `first` on, which begin at or below it; how many are written then."""
    if low > up:
        return written
    if written > first and low <= out_upper[written - 1] + 1:
        if up > out_upper[written - 1]:
            out_upper[written - 1] = up
        return written
    out_lower[written] = low
    out_upper[written] = up
    return written + 1


@kernel("i8(i8*, u4*, i8)")
def count_read(counts, rows, n):
    """How many intervals the rows have, of any domain."""
    total = 0
    for k in range(n):
        if rows[k] != np.uint32(NO_ROW):
            total += counts[rows[k]]
    return total


@kernel("i8(i8, i8, i8, i8*, i8*, i8*, i8*, u1*, i8, u4*, i8, i8*, i8*, i8*, i8*)")
def shift_rows(
    shift,
    p,
    q,
    starts,
    counts,
    lower,
    upper,
    flags,
    choice,
    rows,
    n,
    out_starts,
    out_counts,
    out_lower,
    out_upper,
):
    """A diamond or a box applied to each row."""
    written = 0
    for k in range(n):
        first = written
        out_starts[k] = first
        if rows[k] != np.uint32(NO_ROW):
            row = rows[k]
            begin = starts[row]
            for at in range(begin, begin + counts[row]):
                if choice < 0 or np.int64(flags[at]) == choice:
                    low = shifted_lower(shift, p, q, lower[at])
                    up = shifted_upper(shift, p, q, upper[at])
                    written = append(out_lower, out_upper, first, written, low, up)
        out_counts[k] = written - first
    return written


@device
def sort_pairs(lower, upper, first, last):
    """Sort the intervals [first, last) by their lower ends: insertion, or heapsort where there are many."""
    if last - first <= SMALL:
        for i in range(first + 1, last):
            low = lower[i]
            up = upper[i]
            j = i - 1
            while j >= first and lower[j] > low:
                lower[j + 1] = lower[j]
                upper[j + 1] = upper[j]
                j -= 1
            lower[j + 1] = low
            upper[j + 1] = up
        return
    is_sorted = True
    for i in range(first + 1, last):
        if lower[i - 1] > lower[i]:
            is_sorted = False
            break
    if is_sorted:
        return
    size = last - first
    start = size // 2
    end = size
    while end > 1:
        if start > 0:
            start -= 1
        else:
            end -= 1
            low = lower[first + end]
            up = upper[first + end]
            lower[first + end] = lower[first]
            upper[first + end] = upper[first]
            lower[first] = low
            upper[first] = up
        root = start
        while True:
            child = 2 * root + 1
            if child >= end:
                break
            if child + 1 < end and lower[first + child] < lower[first + child + 1]:
                child += 1
            if lower[first + root] >= lower[first + child]:
                break
            low = lower[first + root]
            up = upper[first + root]
            lower[first + root] = lower[first + child]
            upper[first + root] = upper[first + child]
            lower[first + child] = low
            upper[first + child] = up
            root = child


@device
def coalesce_here(lower, upper, first, last):
    """Coalesce the sorted intervals [first, last) in their place; where they end then."""
    written = first
    for at in range(first, last):
        written = append(lower, upper, first, written, lower[at], upper[at])
    return written


@kernel(
    "i8(i8, i8, i8, i8*, i8*, i8*, i8*, u1*, i8, u4*, "
    "i8*, i8*, i8*, i8*, u1*, i8, u4*, i8, i8*, i8*, i8*, i8*)"
)
def chain_rows(
    chain, p, q,
    a_starts, a_counts, a_lower, a_upper, a_flags, a_choice, a_rows,
    b_starts, b_counts, b_lower, b_upper, b_flags, b_choice, b_rows,
    n, out_starts, out_counts, out_lower, out_upper,
):  # fmt: skip
    """Since or Until of each pair of rows: at most 2 a + 2 b intervals before they are coalesced."""
    reach = max(p, 1)
    written = 0
    for k in range(n):
        first = written
        out_starts[k] = first
        if b_rows[k] != np.uint32(NO_ROW):
            b_begin = b_starts[b_rows[k]]
            b_end = b_begin + b_counts[b_rows[k]]
            if p == 0:
                for j in range(b_begin, b_end):
                    if b_choice < 0 or np.int64(b_flags[j]) == b_choice:
                        out_lower[written] = b_lower[j]
                        out_upper[written] = b_upper[j]
                        written += 1
            if reach <= q and a_rows[k] != np.uint32(NO_ROW):
                a_begin = a_starts[a_rows[k]]
                j_first = b_begin
                for i in range(a_begin, a_begin + a_counts[a_rows[k]]):
                    if a_choice >= 0 and np.int64(a_flags[i]) != a_choice:
                        continue
                    c_low = a_lower[i] - (a_lower[i] & 1)
                    c_up = a_upper[i] + (a_upper[i] & 1)
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
            sort_pairs(out_lower, out_upper, first, written)
            written = coalesce_here(out_lower, out_upper, first, written)
        out_counts[k] = written - first
    return written


@kernel("i8(i8*, i8*, i8*, i8*, u1*, i8, u4*, i8*, i8*, i8*, i8*, u1*, i8, u4*, i8, i8*, i8*, i8*, i8*)")
def intersect_rows(
    a_starts, a_counts, a_lower, a_upper, a_flags, a_choice, a_rows,
    b_starts, b_counts, b_lower, b_upper, b_flags, b_choice, b_rows,
    n, out_starts, out_counts, out_lower, out_upper,
):  # fmt: skip
    """The intersections of the intervals of each pair of rows: fewer than a + b."""
    written = 0
    for k in range(n):
        out_starts[k] = written
        first = written
        if a_rows[k] != np.uint32(NO_ROW) and b_rows[k] != np.uint32(NO_ROW):
            i = a_starts[a_rows[k]]
            i_end = i + a_counts[a_rows[k]]
            j = b_starts[b_rows[k]]
            j_end = j + b_counts[b_rows[k]]
            while i < i_end and j < j_end:
                if a_choice >= 0 and np.int64(a_flags[i]) != a_choice:
                    i += 1
                    continue
                if b_choice >= 0 and np.int64(b_flags[j]) != b_choice:
                    j += 1
                    continue
                low = max(a_lower[i], b_lower[j])
                up = min(a_upper[i], b_upper[j])
                if low <= up:
                    out_lower[written] = low
                    out_upper[written] = up
                    written += 1
                if a_upper[i] < b_upper[j]:
                    i += 1
                else:
                    j += 1
        out_counts[k] = written - first
    return written


@kernel("i8(i8*, i8*, i8*, i8*, u1*, i8, u4*, i8, i8*, i8*, i8*, i8*)")
def complement_rows(
    starts, counts, lower, upper, flags, choice, rows, n, out_starts, out_counts, out_lower, out_upper
):
    """What lies between the intervals of each row, and around them."""
    written = 0
    for k in range(n):
        first = written
        out_starts[k] = first
        low = np.int64(MINUS_INFINITY)
        if rows[k] != np.uint32(NO_ROW):
            begin = starts[rows[k]]
            for at in range(begin, begin + counts[rows[k]]):
                if choice < 0 or np.int64(flags[at]) == choice:
                    if low < lower[at]:
                        out_lower[written] = low
                        out_upper[written] = lower[at] - 1
                        written += 1
                    low = upper[at] + 1
        if low <= INFINITY:
            out_lower[written] = low
            out_upper[written] = INFINITY
            written += 1
        out_counts[k] = written - first
    return written


@kernel("i8(i8*, i8*, i8*, i8*, u1*, i8*, i8*, i8*, i8*, i8)")
def mark_rows(starts, counts, lower, upper, flags, old_starts, old_counts, old_lower, old_upper, n):
    """Flag what no single old interval of the same row contains; returns how many."""
    marked = 0
    for k in range(n):
        j = old_starts[k]
        j_end = j + old_counts[k]
        for at in range(starts[k], starts[k] + counts[k]):
            while j < j_end and old_upper[j] < upper[at]:
                j += 1
            is_new = j == j_end or old_lower[j] > lower[at]
            flags[at] = np.uint8(is_new)
            marked += np.int64(is_new)
    return marked


@kernel("i8(i8*, i8*, i8*, i8*, u1*, i8, u4*, i8, u4*, i8*, i8*, i8*, i8*, i8, i8, u4*, i8*, i8*)")
def emit_rows(
    starts, counts, lower, upper, flags, choice, rows, n, heads,
    known_starts, known_counts, known_lower, known_upper, low_end, high_end, out_heads, out_lower, out_upper,
):  # fmt: skip
    """The intervals, cut to the horizon, that the head's list does not contain."""
    written = 0
    for k in range(n):
        if rows[k] == np.uint32(NO_ROW):
            continue
        head = heads[k]
        j_first = known_starts[head]
        j_end = j_first + known_counts[head]
        begin = starts[rows[k]]
        for at in range(begin, begin + counts[rows[k]]):
            low = max(lower[at], low_end)
            up = min(upper[at], high_end)
            if low > up or (choice >= 0 and np.int64(flags[at]) != choice):
                continue
            a = j_first
            b = j_end
            while a < b:
                middle = (a + b) >> 1
                if known_lower[middle] <= low:
                    a = middle + 1
                else:
                    b = middle
            if a > j_first and known_upper[a - 1] >= up:
                continue
            out_heads[written] = head
            out_lower[written] = low
            out_upper[written] = up
            written += 1
    return written


@kernel("i8(u4*, i8*, i8*, i8, i8*, i8, i8*, i8*)")
def scatter_rows(rows, lower, upper, n, offsets, n_rows, out_lower, out_upper):
    """Put the intervals of each row side by side.

    `offsets` (n_rows + 1, zeroed) say where they begin then.
    """
    for k in range(n):
        offsets[np.int64(rows[k]) + 1] += 1
    for row in range(n_rows):
        offsets[row + 1] += offsets[row]
    for k in range(n):
        at = offsets[rows[k]]
        out_lower[at] = lower[k]
        out_upper[at] = upper[k]
        offsets[rows[k]] = at + 1
    for row in range(n_rows, 0, -1):
        offsets[row] = offsets[row - 1]
    offsets[0] = 0
    return 0


@kernel("i8(i8*, i8, u4*, i8*)")
def list_touched(offsets, n_rows, touched, begins):
    """The rows that have any, ascending, and where theirs begin; returns how many."""
    written = 0
    for row in range(n_rows):
        if offsets[row + 1] > offsets[row]:
            touched[written] = np.uint32(row)
            begins[written] = offsets[row]
            written += 1
    begins[written] = offsets[n_rows]
    return written


@kernel("i8(u4*, i8*, i8, i8*, i8*, i8*, i8*, i8*, i8*, u1*, i8, i8*, u4*, i8*, i8*)")
def merge_rows(
    touched, begins, n, new_lower, new_upper, starts, counts, lower, upper, flags, keep_old, state,
    changed, old_starts, old_counts,
):  # fmt: skip
    """Merge new intervals into the lists of the rows touched; returns how many lists changed.

    Each list is written behind the last place used, and moved back to where it was if it fits there.
    """
    n_changed = 0
    for t in range(n):
        row = touched[t]
        begin = begins[t]
        end = begins[t + 1]
        sort_pairs(new_lower, new_upper, begin, end)
        first = state[USED]
        i = starts[row]
        i_end = i + counts[row]
        j = begin
        written = first
        any_new = False
        while i < i_end or j < end:
            if j == end or (i < i_end and lower[i] <= new_lower[j]):
                low = lower[i]
                up = upper[i]
            else:
                low = new_lower[j]
                up = new_upper[j]
            known_low = np.int64(INFINITY + 1)
            known_up = np.int64(MINUS_INFINITY - 1)
            new_from = np.int64(INFINITY + 1)
            new_to = np.int64(MINUS_INFINITY - 1)
            reached = low - 1
            while True:
                if i < i_end and lower[i] <= up + 1 and (j == end or lower[i] <= new_lower[j]):
                    if lower[i] > reached + 1:
                        new_from = min(new_from, reached + 1)
                        new_to = max(new_to, lower[i] - 1)
                    known_low = lower[i]
                    known_up = upper[i]
                    reached = max(reached, upper[i])
                    up = max(up, upper[i])
                    i += 1
                elif j < end and new_lower[j] <= up + 1:
                    up = max(up, new_upper[j])
                    j += 1
                else:
                    break
            if reached < up:
                new_from = min(new_from, reached + 1)
                new_to = max(new_to, up)
            is_new = known_low != low or known_up != up
            lower[written] = low
            upper[written] = up
            flags[written] = np.uint8(is_new)
            written += 1
            if is_new:
                any_new = True
                state[FIRST_NEW] = min(state[FIRST_NEW], new_from)
                state[LAST_NEW] = max(state[LAST_NEW], new_to)
                if low != MINUS_INFINITY:
                    state[LARGEST] = max(state[LARGEST], abs(low))
                if up != INFINITY:
                    state[LARGEST] = max(state[LARGEST], abs(up))
        if not any_new:
            continue
        changed[n_changed] = row
        old_starts[n_changed] = starts[row]
        old_counts[n_changed] = counts[row]
        n_changed += 1
        size = written - first
        state[LIVE] += size - counts[row]
        if size <= counts[row] and keep_old == 0:
            place = starts[row]
            for k in range(size):
                lower[place + k] = lower[first + k]
                upper[place + k] = upper[first + k]
                flags[place + k] = flags[first + k]
        else:
            starts[row] = first
            state[USED] = written
        counts[row] = size
    return n_changed


@kernel("i8(u4*, i8, i8*, i8*, u1*)")
def settle_rows(rows, n, starts, counts, flags):
    """Clear the flags of these lists."""
    for k in range(n):
        begin = starts[rows[k]]
        for at in range(begin, begin + counts[rows[k]]):
            flags[at] = np.uint8(0)
    return 0


@kernel("i8(i8*, i8*, i8, i8*, i8*, u1*, i8*, i8*, u1*)")
def compact_rows(starts, counts, n, lower, upper, flags, out_lower, out_upper, out_flags):
    """Copy the lists one after the other, and say where they are then."""
    written = 0
    for row in range(n):
        begin = starts[row]
        starts[row] = written
        for at in range(begin, begin + counts[row]):
            out_lower[written] = lower[at]
            out_upper[written] = upper[at]
            out_flags[written] = flags[at]
            written += 1
    return written


@kernel("i8(u4*, i8*, i8, i8*, i8*, i8*, i8*, i8*, i8*, u1*, i8*, u4*)")
def subtract_rows(
    touched, begins, n, gone_lower, gone_upper, starts, counts, lower, upper, flags, state, changed
):  # fmt: skip
    """Take intervals out of the lists of the rows touched; returns how many lists changed."""
    n_changed = 0
    for t in range(n):
        row = touched[t]
        begin = begins[t]
        sort_pairs(gone_lower, gone_upper, begin, begins[t + 1])
        end = coalesce_here(gone_lower, gone_upper, begin, begins[t + 1])
        first = state[USED]
        written = first
        j = begin
        lost = False
        for i in range(starts[row], starts[row] + counts[row]):
            low = lower[i]
            up = upper[i]
            while j < end and gone_upper[j] < low:
                j += 1
            k = j
            while k < end and gone_lower[k] <= up:
                lost = True
                if low < gone_lower[k]:
                    lower[written] = low
                    upper[written] = gone_lower[k] - 1
                    flags[written] = np.uint8(0)
                    written += 1
                low = gone_upper[k] + 1
                k += 1
            if low <= up:
                lower[written] = low
                upper[written] = up
                flags[written] = np.uint8(0)
                written += 1
        if lost:
            changed[n_changed] = row
            n_changed += 1
            state[LIVE] += written - first - counts[row]
            starts[row] = first
            counts[row] = written - first
            state[USED] = written
    return n_changed
