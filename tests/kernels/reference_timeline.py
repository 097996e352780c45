"""Interval operations of metric time, slow and obvious: what `kernels.timeline` means by them.

Operators are decided time by time, by the definitions of the logic: for each element of encoded time (even:
a point, odd: a gap) up to so far beyond the ends in hand that nothing changes any more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from gpuengine.kernels.timeline import (
    INFINITY,
    MINUS_INFINITY,
    NO_ROW,
    Chain,
    Choice,
    Merged,
    Pool,
    Reader,
    Runs,
    Shift,
    Timeline,
)

Pairs = list[tuple[int, int]]


class ReferenceTimeline(Timeline):
    """See `kernels.timeline.Timeline`."""

    def shift(self, operand: Reader, shift: Shift, p: int, q: int) -> Runs:
        return _runs(_shifted(row, shift, p, q) for row in _lists(operand))

    def chain(self, left: Reader, right: Reader, chain: Chain, p: int, q: int) -> Runs:
        return _runs(_chained(a, b, chain, p, q) for a, b in zip(_lists(left), _lists(right), strict=True))

    def intersect(self, left: Reader, right: Reader) -> Runs:
        return _runs(
            [(max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) <= min(b, d)]
            for one, other in zip(_lists(left), _lists(right), strict=True)
        )

    def complement(self, operand: Reader) -> Runs:
        return _runs(map(_complement, _lists(operand)))

    def mark_new(self, runs: Runs, old: Runs) -> None:
        if len(runs.flags) != len(runs.lower):
            runs.flags = np.zeros(len(runs.lower), np.uint8)
        for row in range(len(runs)):
            known = _row(old, row, Choice.ALL)
            for at in range(runs.starts[row], runs.starts[row] + runs.counts[row]):
                inside = any(low <= runs.lower[at] and runs.upper[at] <= up for low, up in known)
                runs.flags[at] = not inside

    def mark_all(self, runs: Runs) -> None:
        runs.flags = np.array([1 for _ in runs.lower], np.uint8)

    def holding(self, runs: Runs) -> np.ndarray:
        return np.array([count > 0 for count in runs.counts.tolist()], np.bool_)

    def with_new(self, runs: Runs) -> np.ndarray:
        spans = zip(runs.starts.tolist(), runs.counts.tolist(), strict=True)
        return np.array([any(runs.flags[start : start + count]) for start, count in spans], np.bool_)

    def fetched(self, runs: Runs) -> Runs:
        return runs

    def emit(
        self, results: Reader, heads: np.ndarray, known: Runs, low: int, high: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = []
        for head, row in zip(heads.tolist(), _lists(results), strict=True):
            have = _row(known, head, Choice.ALL)
            for a, b in ((max(a, low), min(b, high)) for a, b in row):
                if a <= b and not any(c <= a and b <= d for c, d in have):
                    found.append((head, a, b))
        return (
            np.array([head for head, _, _ in found], np.uint32),
            np.array([a for _, a, _ in found], np.int64),
            np.array([b for _, _, b in found], np.int64),
        )

    def merge(
        self, pool: Pool, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, keep_old: bool
    ) -> Merged:
        changed, news, largest = [], [], 0
        lists = [_row(pool.runs, row, Choice.ALL) for row in range(pool.rows)]
        before = [list(row) for row in lists]
        for row, low, up in zip(rows.tolist(), lower.tolist(), upper.tolist(), strict=True):
            lists[row].append((low, up))
        merged = [_coalesced(row) for row in lists]
        flags = []
        for row, (old, new) in enumerate(zip(before, merged, strict=True)):
            flags += [pair not in old for pair in new]
            if new != old:
                changed.append(row)
                news += _difference(new, old)
                ends = [end for pair in new if pair not in old for end in pair]
                largest = max([largest, *(abs(end) for end in ends if abs(end) != INFINITY)])
        old_runs = pool.runs
        old_starts = old_runs.starts[changed] if changed else np.zeros(0, np.int64)
        old_counts = old_runs.counts[changed] if changed else np.zeros(0, np.int64)
        flag_of = {(row, pair): flag for row, pair, flag in _flagged(merged, flags)}
        for row in set(range(pool.rows)) - set(changed):
            start = int(old_runs.starts[row])
            for k, pair in enumerate(merged[row]):
                flag_of[row, pair] = bool(old_runs.flags[start + k])
        pool.runs = _runs(merged)
        pool.runs.flags = np.array(
            [flag_of[row, pair] for row, pairs in enumerate(merged) for pair in pairs], np.uint8
        )
        pool.used = pool.live = len(pool.runs.lower)
        return Merged(
            np.array(changed, np.uint32),
            old_starts,
            old_counts,
            min((low for low, _ in news), default=INFINITY + 1),
            max((up for _, up in news), default=MINUS_INFINITY - 1),
            largest,
        )

    def settle(self, pool: Pool, rows: np.ndarray) -> None:
        for row in rows.tolist():
            start = pool.runs.starts[row]
            pool.runs.flags[start : start + pool.runs.counts[row]] = 0

    def compact(self, pool: Pool) -> None:
        flags = [
            int(pool.runs.flags[at])
            for row in range(pool.rows)
            for at in range(pool.runs.starts[row], pool.runs.starts[row] + pool.runs.counts[row])
        ]
        pool.runs = _runs(_row(pool.runs, row, Choice.ALL) for row in range(pool.rows))
        pool.runs.flags = np.array(flags, np.uint8)
        pool.used = pool.live = len(flags)

    def subtract(self, pool: Pool, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        lists = [_row(pool.runs, row, Choice.ALL) for row in range(pool.rows)]
        before = [list(row) for row in lists]
        for row, low, up in zip(rows.tolist(), lower.tolist(), upper.tolist(), strict=True):
            lists[row] = _difference(lists[row], [(low, up)])
        pool.runs = _runs(lists)
        pool.runs.flags = np.zeros(len(pool.runs.lower), np.uint8)
        pool.used = pool.live = len(pool.runs.lower)
        return np.array([row for row in range(pool.rows) if lists[row] != before[row]], np.uint32)


def _flagged(merged: list[Pairs], flags: list[bool]) -> list[tuple[int, tuple[int, int], bool]]:
    pairs = [(row, pair) for row, found in enumerate(merged) for pair in found]
    return [(row, pair, flag) for (row, pair), flag in zip(pairs, flags, strict=True)]


def _lists(reader: Reader) -> list[Pairs]:
    return [[] if row == NO_ROW else _row(reader.runs, row, reader.choice) for row in reader.rows.tolist()]


def _row(runs: Runs, row: int, choice: Choice) -> Pairs:
    places = range(int(runs.starts[row]), int(runs.starts[row] + runs.counts[row]))
    return [
        (int(runs.lower[at]), int(runs.upper[at]))
        for at in places
        if choice is Choice.ALL or runs.flags[at] == choice
    ]


def _runs(rows: Iterable[Pairs]) -> Runs:
    listed = list(rows)
    counts = np.array([len(row) for row in listed], np.int64)
    pairs = [pair for row in listed for pair in row]
    return Runs(
        np.cumsum(counts) - counts,
        counts,
        np.array([low for low, _ in pairs], np.int64),
        np.array([up for _, up in pairs], np.int64),
        np.zeros(len(pairs), np.uint8),
    )


def _coalesced(pairs: Pairs) -> Pairs:
    found: Pairs = []
    for low, up in sorted(pairs):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], up))
        else:
            found.append((low, up))
    return found


def _complement(pairs: Pairs) -> Pairs:
    return _difference([(MINUS_INFINITY, INFINITY)], pairs)


def _difference(pairs: Pairs, gone: Pairs) -> Pairs:
    for a, b in gone:
        pairs = [
            piece
            for low, up in pairs
            for piece in (
                ((low, min(up, a - 1)), (max(low, b + 1), up)) if a <= up and low <= b else ((low, up),)
            )
            if piece[0] <= piece[1]
        ]
    return pairs


# Time by time: each element of encoded time is looked at from a moment within it.


def _reach(pairs: Pairs) -> int:
    return max((abs(end) for pair in pairs for end in pair if abs(end) != INFINITY), default=0)


def _window(pairs: Pairs, p: int, q: int) -> tuple[range, range]:
    """(elements to look at, elements to decide).

    From the latter an operator reaches no further than the former.
    """
    most = max(p, q if q != INFINITY else p)
    outer, inner = _reach(pairs) + 2 * most + 8, _reach(pairs) + most + 3
    return range(-outer, outer + 1), range(-inner, inner + 1)


def _moment(element: int) -> Fraction:
    """A moment within an element, in half units: the point itself, or the middle of a gap."""
    return Fraction(element)


def _evaluated(window: range, holds: Callable[[int], bool]) -> Pairs:
    """The intervals of the elements at which something holds.

    At the edges of the window it goes on for ever.
    """
    pairs = _coalesced([(element, element) for element in window if holds(element)])
    return [
        (MINUS_INFINITY if low == window[0] else low, INFINITY if up == window[-1] else up)
        for low, up in pairs
    ]


def _true_at(pairs: Pairs) -> Callable[[Fraction], bool]:
    def true(moment: Fraction) -> bool:
        floor = moment.numerator // moment.denominator
        # Between an even number and the next even one lies the gap.
        element = floor if floor & 1 or moment == floor else floor + 1
        return any(low <= element <= up for low, up in pairs)

    return true


def _moments(window: range) -> list[Fraction]:
    """Moments enough to decide: every point, and three in each gap."""
    return [Fraction(element) + Fraction(k, 2) for element in window for k in (-1, 0, 1)] + [
        Fraction(window[-1] + 1)
    ]


def _within(distance: Fraction, p: int, q: int) -> bool:
    """Is a distance in the range [p, q] of an operator?"""
    low, high = p - (p & 1), q + (q & 1)
    above = distance > low if p & 1 else distance >= low
    return above and (q == INFINITY or (distance < high if q & 1 else distance <= high))


def _shifted(pairs: Pairs, shift: Shift, p: int, q: int) -> Pairs:
    window, decided = _window(pairs, p, q)
    moments = sorted(set(_moments(window)))
    true = _true_at(pairs)
    known = [(moment, true(moment)) for moment in moments]
    past = shift in (Shift.DIAMOND_MINUS, Shift.BOX_MINUS)
    decide = any if shift in (Shift.DIAMOND_MINUS, Shift.DIAMOND_PLUS) else all

    def holds(element: int) -> bool:
        at = _moment(element)
        return decide(value for moment, value in known if _within(at - moment if past else moment - at, p, q))

    return _evaluated(decided, holds)


def _chained(left: Pairs, right: Pairs, chain: Chain, p: int, q: int) -> Pairs:
    window, decided = _window([*left, *right], p, q)
    moments = sorted(set(_moments(window)))
    true_left, true_right = _true_at(left), _true_at(right)
    sign = 1 if chain is Chain.SINCE else -1

    def holds(element: int) -> bool:
        at = _moment(element)
        for moment in moments:
            if true_right(moment) and _within(sign * (at - moment), p, q):
                first, last = min(at, moment), max(at, moment)
                between = moments[bisect_right(moments, first) : bisect_left(moments, last)]
                if first != last:
                    # What lies next to the two ends belongs to elements that may have no moment between them.
                    between += [first + Fraction(1, 4), last - Fraction(1, 4)]
                if all(map(true_left, between)):
                    return True
        return False

    return _evaluated(decided, holds)
