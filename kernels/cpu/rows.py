"""Growable columns of ids, and the header through which kernels read and write them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cpu.layout import (
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
    ROWS_DELTA_END,
    ROWS_DELTA_START,
)

_libc = ctypes.CDLL(None)
_libc.realloc.restype = ctypes.c_void_p
_libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.calloc.restype = ctypes.c_void_p
_libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.argtypes = [ctypes.c_void_p]
_view_of_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_view_of_memory.restype = ctypes.py_object
_view_of_memory.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_WRITABLE = 0x200


class Memory:
    """A block of memory that grows without copying where the system can move its pages.

    Fresh pages cost more to get than most of what is done with them: growing keeps those in use.

    Arrays from `view` are valid until the next `resize`.
    """

    __slots__ = ("address", "nbytes")

    def __init__(self) -> None:
        self.address = 0
        self.nbytes = 0

    def resize(self, nbytes: int) -> None:
        """Grow or shrink; the new part is not initialised."""
        address = _libc.realloc(self.address or None, max(nbytes, 8))
        if not address:
            raise MemoryError(f"can't allocate {nbytes:,} bytes")
        self.address = address
        self.nbytes = nbytes

    def resize_zeroed(self, nbytes: int) -> None:
        """Replace the block by one of zeros, whose pages take no room until they are written."""
        if self.address:
            _libc.free(self.address)
        address = _libc.calloc(max(nbytes, 8), 1)
        if not address:
            self.address = 0
            raise MemoryError(f"can't allocate {nbytes:,} bytes")
        self.address = address
        self.nbytes = nbytes

    def view(self, dtype: type, count: int) -> np.ndarray:
        if not count:
            return np.empty(0, dtype)
        size = count * np.dtype(dtype).itemsize
        return np.frombuffer(_view_of_memory(self.address, size, _WRITABLE), dtype, count)

    def __del__(self) -> None:
        if self.address:
            _libc.free(self.address)


class Rows:
    """Rows of ids by column, append-only, in insertion order.

    Life of a row: appended (beyond the delta) → in the delta after `advance` → old after the next.
    ``[0, delta_start)`` is OLD, ``[delta_start, delta_end)`` is NEW, and both together are ALL.
    """

    __slots__ = ("_memory", "address", "arity", "capacity", "header")

    def __init__(self, arity: int, capacity: int = 0) -> None:
        self.arity = arity
        self.header = np.zeros(ROWS_COLUMNS + arity, np.int64)
        self.address = int(self.header.ctypes.data)
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
        """Make room for `capacity` rows in all; columns may move."""
        if capacity <= self.capacity:
            return
        for j, memory in enumerate(self._memory):
            memory.resize(4 * capacity)
            self.header[ROWS_COLUMNS + j] = memory.address
        self.capacity = capacity
        self.header[ROWS_CAPACITY] = capacity

    def grow(self, extra: int) -> None:
        """Make room for `extra` more rows, with amortised doubling (half as much again when large)."""
        needed = self.count + extra
        if needed > self.capacity:
            step = self.capacity if self.capacity < 1 << 20 else self.capacity >> 1
            self.reserve(max(needed, self.capacity + step))

    def trim(self) -> None:
        """Give back what is not used."""
        if self.capacity > self.count:
            for j, memory in enumerate(self._memory):
                memory.resize(4 * self.count)
                self.header[ROWS_COLUMNS + j] = memory.address
            self.capacity = self.count
            self.header[ROWS_CAPACITY] = self.count

    def column(self, j: int) -> np.ndarray:
        """Column `j` of all rows, as a view that is valid until the rows grow."""
        return self._memory[j].view(np.uint32, self.count)

    def columns(self) -> list[np.ndarray]:
        return [self.column(j) for j in range(self.arity)]

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

    def advance(self) -> int:
        """What was appended becomes the delta; returns its size."""
        self.delta = (self.delta[1], self.count)
        return self.count - self.delta[0]

    def settle(self) -> None:
        """Everything becomes old: the delta is empty."""
        self.delta = (self.count, self.count)
