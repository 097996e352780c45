"""Checks of interval operations of metric time, held against the CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpuengine.kernels.cpu.timeline import CpuTimeline
from gpuengine.kernels.cuda.selftest import Check, Kit, expect
from gpuengine.kernels.cuda.timeline import CudaTimeline
from gpuengine.kernels.timeline import INFINITY, MINUS_INFINITY, NO_ROW, Chain, Choice, Reader, Runs, Shift

_RANGES = ((0, 0), (0, 4), (1, 3), (2, 7), (0, INFINITY), (3, INFINITY))
_LONGEST = 40
"""Intervals of the longest list: more than are sorted by insertion."""


def _runs(kit: Kit, rows: int) -> Runs:
    """Lists of some intervals each, one of them long; some have no beginning or no end."""
    counts = kit.random.integers(0, 5, rows)
    counts[: min(rows, 1)] = _LONGEST
    starts = np.cumsum(counts) - counts
    total = int(counts.sum())
    # Gaps and lengths in turn: no two touch.
    steps = kit.random.integers(2, 9, 2 * total)
    first = np.repeat(kit.random.integers(-60, 9, rows), counts)
    ends = np.cumsum(steps) - np.repeat(np.cumsum(np.append(0, steps))[2 * starts], 2 * counts)
    lower, upper = ends[0::2] + first, ends[1::2] + first - 2
    some = np.flatnonzero(counts)
    lower[starts[some[::5]]] = MINUS_INFINITY
    upper[(starts + counts - 1)[some[::7]]] = INFINITY
    flags = kit.random.integers(0, 2, total).astype(np.uint8)
    return Runs(starts.astype(np.int64), counts.astype(np.int64), lower, upper, flags)


def _reader(kit: Kit, rows: int, choice: Choice) -> Reader:
    places = kit.ids(rows, max(rows, 1))
    places[::9] = NO_ROW
    return Reader(_runs(kit, rows), places, choice)


def _readers(kit: Kit, choice: Choice) -> Iterator[Reader]:
    for size in kit.sizes:
        yield _reader(kit, max(size // 4, 1), choice)


def _compare(kit: Kit, found: Runs, expected: Runs, what: str) -> None:
    fetched = CudaTimeline(kit.device).fetched(found)
    for name in ("counts", "lower", "upper"):
        expect(getattr(fetched, name), getattr(expected, name), f"{what}: {name}")


def shifts(kit: Kit) -> None:
    ours, theirs = CudaTimeline(kit.device), CpuTimeline()
    for number, (p, q) in enumerate(_RANGES):
        for operand in _readers(kit, list(Choice)[number % 3]):
            for shift in Shift:
                expected = theirs.shift(operand, shift, p, q)
                _compare(kit, ours.shift(operand, shift, p, q), expected, f"{shift.name} [{p},{q}]")


def chains(kit: Kit) -> None:
    ours, theirs = CudaTimeline(kit.device), CpuTimeline()
    for number, (p, q) in enumerate(_RANGES):
        for left in _readers(kit, list(Choice)[number % 3]):
            right = _reader(kit, len(left), Choice.ALL)
            for chain in Chain:
                expected = theirs.chain(left, right, chain, p, q)
                _compare(kit, ours.chain(left, right, chain, p, q), expected, f"{chain.name} [{p},{q}]")


def sets(kit: Kit) -> None:
    ours, theirs = CudaTimeline(kit.device), CpuTimeline()
    for choice in Choice:
        for left in _readers(kit, choice):
            right = replace(left, rows=left.rows[::-1].copy(), choice=Choice.ALL)
            both = ours.intersect(left, right)
            _compare(kit, both, theirs.intersect(left, right), "intersect")
            expect(ours.holding(both), theirs.holding(theirs.intersect(left, right)), "holding")
            _compare(kit, ours.complement(left), theirs.complement(left), "complement")


def marks(kit: Kit) -> None:
    """What is new in the shift of all intervals, beside that of the old ones."""
    ours, theirs = CudaTimeline(kit.device), CpuTimeline()
    for operand in _readers(kit, Choice.ALL):
        old = replace(operand, choice=Choice.OLD)
        masks = []
        for timeline in (ours, theirs):
            runs = timeline.shift(operand, Shift.DIAMOND_MINUS, 0, 4)
            timeline.mark_new(runs, timeline.shift(old, Shift.DIAMOND_MINUS, 0, 4))
            masks.append(timeline.with_new(runs))
            new = Reader(runs, np.arange(len(runs), dtype=np.uint32), Choice.NEW)
            masks.append(timeline.fetched(timeline.shift(new, Shift.BOX_MINUS, 0, 2)).counts)
            timeline.mark_all(runs)
            masks.append(timeline.with_new(runs))
        for found, expected in zip(masks[:3], masks[3:], strict=True):
            expect(found, expected, "what is new")


def emitted(kit: Kit) -> None:
    ours, theirs = CudaTimeline(kit.device), CpuTimeline()
    for choice, horizon in ((Choice.ALL, (MINUS_INFINITY, INFINITY)), (Choice.NEW, (-20, 31))):
        for results in _readers(kit, choice):
            known = _runs(kit, len(results))
            heads = kit.ids(len(results), len(results))
            found = ours.emit(results, heads, known, *horizon)
            for one, other in zip(found, theirs.emit(results, heads, known, *horizon), strict=True):
                expect(one, other, "what is derived")


CHECKS = tuple(
    Check(f"timeline: {check.__name__}", check) for check in (shifts, chains, sets, marks, emitted)
)
