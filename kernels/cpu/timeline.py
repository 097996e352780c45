"""Interval operations of metric time on the host: compiled kernels on NumPy arrays. See `kernels.timeline`.

Each call runs on the calling thread, without the GIL.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu import timeline_kernels as kernels
from gpuengine.kernels.timeline import (
    INFINITY,
    MINUS_INFINITY,
    Chain,
    Merged,
    Pool,
    Reader,
    Runs,
    Shift,
    Timeline,
)

_SPARSE = 8
"""Of fewer than one interval in so many rows the rows are sorted, not counted."""


class CpuTimeline(Timeline):
    """See `kernels.timeline.Timeline`."""

    def shift(self, operand: Reader, shift: Shift, p: int, q: int) -> Runs:
        room = kernels.count_read(operand.runs.counts, operand.rows, len(operand))
        out = _room(len(operand), room)
        written = kernels.shift_rows(int(shift), p, q, *_read(operand), len(operand), *_write(out))
        return _cut(out, written)

    def chain(self, left: Reader, right: Reader, chain: Chain, p: int, q: int) -> Runs:
        room = kernels.count_read(left.runs.counts, left.rows, len(left))
        room += kernels.count_read(right.runs.counts, right.rows, len(right))
        out = _room(len(left), 2 * room)
        written = kernels.chain_rows(int(chain), p, q, *_read(left), *_read(right), len(left), *_write(out))
        return _cut(out, written)

    def intersect(self, left: Reader, right: Reader) -> Runs:
        room = kernels.count_read(left.runs.counts, left.rows, len(left))
        room += kernels.count_read(right.runs.counts, right.rows, len(right))
        out = _room(len(left), room)
        return _cut(out, kernels.intersect_rows(*_read(left), *_read(right), len(left), *_write(out)))

    def complement(self, operand: Reader) -> Runs:
        room = kernels.count_read(operand.runs.counts, operand.rows, len(operand)) + len(operand)
        out = _room(len(operand), room)
        return _cut(out, kernels.complement_rows(*_read(operand), len(operand), *_write(out)))

    def mark_new(self, runs: Runs, old: Runs) -> None:
        if len(runs.flags) != len(runs.lower):
            runs.flags = np.zeros(len(runs.lower), np.uint8)
        kernels.mark_rows(
            runs.starts, runs.counts, runs.lower, runs.upper, runs.flags,
            old.starts, old.counts, old.lower, old.upper, len(runs),
        )  # fmt: skip

    def mark_all(self, runs: Runs) -> None:
        runs.flags = np.ones(len(runs.lower), np.uint8)

    def holding(self, runs: Runs) -> np.ndarray:
        return runs.counts > 0

    def with_new(self, runs: Runs) -> np.ndarray:
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(runs.flags, dtype=np.int64)])
        return before[runs.starts + runs.counts] > before[runs.starts]

    def fetched(self, runs: Runs) -> Runs:
        return runs

    def emit(
        self, results: Reader, heads: np.ndarray, known: Runs, low: int, high: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        room = kernels.count_read(results.runs.counts, results.rows, len(results))
        rows, lower, upper = np.empty(room, np.uint32), np.empty(room, np.int64), np.empty(room, np.int64)
        written = kernels.emit_rows(
            *_read(results), len(results), heads,
            known.starts, known.counts, known.lower, known.upper, low, high, rows, lower, upper,
        )  # fmt: skip
        for array in (rows, lower, upper):
            array.resize(written, refcheck=False)
        return rows, lower, upper

    def merge(
        self, pool: Pool, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, keep_old: bool
    ) -> Merged:
        touched, begins, lower, upper = _grouped(rows, lower, upper, pool.rows)
        _make_room(pool, len(lower) + kernels.count_read(pool.runs.counts, touched, len(touched)))
        runs = pool.runs
        state = np.array([pool.used, pool.live, INFINITY + 1, MINUS_INFINITY - 1, 0], np.int64)
        changed = np.empty(len(touched), np.uint32)
        old_starts, old_counts = np.empty(len(touched), np.int64), np.empty(len(touched), np.int64)
        count = kernels.merge_rows(
            touched, begins, len(touched), lower, upper, runs.starts, runs.counts, runs.lower, runs.upper,
            runs.flags, int(keep_old), state, changed, old_starts, old_counts,
        )  # fmt: skip
        pool.used, pool.live = int(state[kernels.USED]), int(state[kernels.LIVE])
        return Merged(
            changed[:count].copy(),
            old_starts[:count].copy(),
            old_counts[:count].copy(),
            int(state[kernels.FIRST_NEW]),
            int(state[kernels.LAST_NEW]),
            int(state[kernels.LARGEST]),
        )

    def settle(self, pool: Pool, rows: np.ndarray) -> None:
        runs = pool.runs
        kernels.settle_rows(rows, len(rows), runs.starts, runs.counts, runs.flags)

    def compact(self, pool: Pool) -> None:
        runs = pool.runs
        lower, upper = np.empty(pool.live, np.int64), np.empty(pool.live, np.int64)
        flags = np.empty(pool.live, np.uint8)
        kernels.compact_rows(
            runs.starts, runs.counts, pool.rows, runs.lower, runs.upper, runs.flags, lower, upper, flags
        )
        pool.runs = Runs(runs.starts, runs.counts, lower, upper, flags)
        pool.used = pool.live

    def subtract(self, pool: Pool, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        touched, begins, lower, upper = _grouped(rows, lower, upper, pool.rows)
        _make_room(pool, len(lower) + kernels.count_read(pool.runs.counts, touched, len(touched)))
        runs = pool.runs
        state = np.array([pool.used, pool.live], np.int64)
        changed = np.empty(len(touched), np.uint32)
        count = kernels.subtract_rows(
            touched, begins, len(touched), lower, upper, runs.starts, runs.counts, runs.lower, runs.upper,
            runs.flags, state, changed,
        )  # fmt: skip
        pool.used, pool.live = int(state[kernels.USED]), int(state[kernels.LIVE])
        return changed[:count].copy()


def _grouped(
    rows: np.ndarray, lower: np.ndarray, upper: np.ndarray, n_rows: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Intervals row by row: (rows that have any, where theirs begin and the last ends, lower, upper)."""
    count = len(rows)
    if count * _SPARSE < n_rows:
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        first = np.flatnonzero(
            np.concatenate([np.ones(min(count, 1), np.bool_), ordered[1:] != ordered[:-1]])
        )
        begins = np.append(first, count).astype(np.int64)
        return ordered[first], begins, lower[order], upper[order]
    offsets = np.zeros(n_rows + 1, np.int64)
    grouped_lower, grouped_upper = np.empty(count, np.int64), np.empty(count, np.int64)
    kernels.scatter_rows(rows, lower, upper, count, offsets, n_rows, grouped_lower, grouped_upper)
    most = min(count, n_rows)
    touched, begins = np.empty(most, np.uint32), np.empty(most + 1, np.int64)
    used = kernels.list_touched(offsets, n_rows, touched, begins)
    return touched[:used], begins[: used + 1], grouped_lower, grouped_upper


def _make_room(pool: Pool, extra: int) -> None:
    """Room for `extra` more intervals; with amortised doubling."""
    runs = pool.runs
    needed = pool.used + extra
    if needed <= len(runs.lower):
        return
    size = max(needed, pool.used + pool.used // 2)
    grown = []
    for array in (runs.lower, runs.upper, runs.flags):
        larger = np.empty(size, array.dtype)
        larger[: pool.used] = array[: pool.used]
        grown.append(larger)
    pool.runs = Runs(runs.starts, runs.counts, *grown)


def _read(reader: Reader) -> tuple[np.ndarray | int, ...]:
    runs = reader.runs
    return runs.starts, runs.counts, runs.lower, runs.upper, runs.flags, int(reader.choice), reader.rows


def _room(rows: int, intervals: int) -> Runs:
    return Runs(
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(intervals, np.int64),
        np.empty(intervals, np.int64),
        _NO_FLAGS,
    )


def _write(runs: Runs) -> tuple[np.ndarray, ...]:
    return runs.starts, runs.counts, runs.lower, runs.upper


def _cut(runs: Runs, written: int) -> Runs:
    """Give back what was not needed."""
    if written * 2 < len(runs.lower):
        runs.lower, runs.upper = runs.lower[:written].copy(), runs.upper[:written].copy()
    else:
        runs.lower, runs.upper = runs.lower[:written], runs.upper[:written]
    return runs


_NO_FLAGS = np.zeros(0, np.uint8)
