"""Growable columns of ids, and the header through which kernels read and write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.addresses import address_of, data_address
from gpuengine.kernels.cpu.layout import (
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
    ROWS_DELTA_END,
    ROWS_DELTA_START,
)
from gpuengine.kernels.cpu.memory import Memory
from gpuengine.kernels.identity import NotCopied


class Rows(NotCopied):
    """Rows of ids by column, append-only, in insertion order.

    Life of a row: appended (beyond the delta) → in the delta after `advance` → old after the next.
    ``[0, delta_start)`` is OLD, ``[delta_start, delta_end)`` is NEW, and both together are ALL.

    Arrays from `column` keep their content while rows are only appended, also after these rows are gone.
    Who changes rows in place calls `unshare` first if arrays must go on showing what they showed.
    """

    __slots__ = ("_memory", "address", "arity", "capacity", "header")

    def __init__(self, arity: int, capacity: int = 0) -> None:
        self.arity = arity
        self.header = np.zeros(ROWS_COLUMNS + arity, np.int64)
        self.address = address_of(self.header)
        self._memory = [Memory() for _ in range(arity)]
        self.capacity = 0
        self.reserve(max(capacity, 16))

    @property
    def count(self) -> int:
        return int(self.header[ROWS_COUNT])

    @count.setter
    def count(self, count: int) -> None:
        self.header[ROWS_COUNT] = count

    def limit(self, count: int) -> None:
        """Have pipelines stop as FULL at `count` rows, even if there is room for more."""
        self.header[ROWS_CAPACITY] = min(count, self.capacity)

    @property
    def delta(self) -> tuple[int, int]:
        return int(self.header[ROWS_DELTA_START]), int(self.header[ROWS_DELTA_END])

    @delta.setter
    def delta(self, span: tuple[int, int]) -> None:
        self.header[ROWS_DELTA_START], self.header[ROWS_DELTA_END] = span

    @property
    def nbytes(self) -> int:
        return 4 * self.arity * self.capacity

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` rows in all; where kernels find the columns may change."""
        if capacity <= self.capacity:
            return
        self._resize(capacity)

    def grow(self, extra: int) -> None:
        """Make room for `extra` more rows, with amortised doubling (half as much again when large)."""
        needed = self.count + extra
        if needed > self.capacity:
            step = self.capacity if self.capacity < 1 << 20 else self.capacity >> 1
            self.reserve(max(needed, self.capacity + step))

    def trim(self) -> None:
        """Give back what is not used."""
        if self.capacity > self.count and not self.is_shared:
            self._resize(self.count)

    def _resize(self, capacity: int) -> None:
        for j, memory in enumerate(self._memory):
            memory.resize(4 * capacity)
            self.header[ROWS_COLUMNS + j] = memory.address
        self.capacity = capacity
        self.header[ROWS_CAPACITY] = capacity

    @property
    def is_shared(self) -> bool:
        """Does anybody hold an array of some column?"""
        return any(memory.is_shared for memory in self._memory)

    def unshare(self) -> None:
        """Go on in memory that nobody has an array of: what is changed in place is then seen by none."""
        for j, memory in enumerate(self._memory):
            memory.unshare()
            self.header[ROWS_COLUMNS + j] = memory.address

    def frozen(self, count: int) -> Rows:
        """The first `count` rows in the same memory: they stay what they are while rows are only appended."""
        other = Rows.__new__(Rows)
        other.arity, other.capacity = self.arity, count
        other.header = self.header.copy()
        other.address = data_address(other.header)
        other._memory = [memory.same() for memory in self._memory]
        other.header[ROWS_CAPACITY] = other.count = count
        other.settle()
        for j, memory in enumerate(other._memory):
            other.header[ROWS_COLUMNS + j] = memory.address
        return other

    def column(self, j: int) -> np.ndarray:
        """Column `j` of all rows, as a view that owns what it shows (see `Memory`)."""
        return self._memory[j].view(np.uint32, self.count)

    def columns(self) -> list[np.ndarray]:
        return [self.column(j) for j in range(self.arity)]

    def between(self, start: int, end: int) -> list[np.ndarray]:
        """Every column of rows [start, end), copied."""
        return [column[start:end].copy() for column in self.columns()]

    def taken(self, places: np.ndarray) -> list[np.ndarray]:
        """Every column of the rows at `places`, copied."""
        return [column[places] for column in self.columns()]

    def device_columns(self) -> list[np.ndarray]:
        """The same as `columns`: the host is the device."""
        return self.columns()

    def append(self, columns: Sequence[np.ndarray], count: int) -> None:
        """Append `count` rows beyond the delta."""
        self.grow(count)
        start = self.count
        for j, column in enumerate(columns):
            self._memory[j].view(np.uint32, self.capacity)[start : start + count] = column
        self.count = start + count

    def close_gaps(self, end: int, gaps: Sequence[tuple[int, int]]) -> None:
        """Rows up to `end` were written, but for `gaps` in order; the last ones move there, and all count."""
        gaps = list(gaps)
        while gaps:
            low, high = gaps[0]
            last = gaps[-1]
            if last[1] == end:
                end = last[0]
                gaps.pop()
                continue
            moved = min(high - low, end - last[1])
            for memory in self._memory:
                column = memory.view(np.uint32, end)
                column[low : low + moved] = column[end - moved : end]
            end -= moved
            gaps[0] = low + moved, high
            if low + moved == high:
                del gaps[0]
        self.count = end

    def advance(self) -> int:
        """What was appended becomes the delta; returns its size."""
        self.delta = (self.delta[1], self.count)
        return self.count - self.delta[0]

    def settle(self) -> None:
        """Everything becomes old: the delta is empty."""
        self.delta = (self.count, self.count)


class Batch(Rows):
    """Arrays of ids as rows for kernels that read them: nothing is copied, and nothing can be added.

    Whoever owns the arrays leaves them as they are while the batch is used.
    """

    __slots__ = ("_shown",)

    def __init__(self, columns: Sequence[np.ndarray], count: int) -> None:
        self._shown = [np.ascontiguousarray(column[:count], np.uint32) for column in columns]
        self._memory = []
        self.arity, self.capacity = len(columns), count
        self.header = np.zeros(ROWS_COLUMNS + self.arity, np.int64)
        self.address = address_of(self.header)
        self.header[ROWS_COUNT] = self.header[ROWS_CAPACITY] = count
        for j, column in enumerate(self._shown):
            self.header[ROWS_COLUMNS + j] = address_of(column)

    def column(self, j: int) -> np.ndarray:
        return self._shown[j]
