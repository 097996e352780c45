"""The addresses that are handed to kernels; the checked build knows what lies there.

Kernels find arrays by addresses and look at no length. With ``GPUENGINE_CHECKED_KERNELS=1`` they are compiled
so that they do (see `cpu.checked`): every array and block of memory whose address gets into a header is then
kept here as a range, for the compiled code to look addresses up in. Without it nothing is kept.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from bisect import bisect_left
from collections import Counter, deque

import numpy as np

CHECKED_VARIABLE = "GPUENGINE_CHECKED_KERNELS"
CHECKED = os.environ.get(CHECKED_VARIABLE, "0") not in ("", "0")
"""Are kernels compiled with checks in this process?"""

TABLE_COUNT = 0
TABLE_STARTS = 1  # the ranges' first addresses, in order; then as many addresses of their ends
_KEPT_TABLES = 256


_word_at = ctypes.c_size_t.from_address
_HEAD_BYTES = object.__basicsize__


def _read_address(array: np.ndarray) -> int:
    """`array.ctypes.data`, for a sixth of the time: it is what NumPy's objects hold first, by its binary
    interface, and small updates ask for it thousands of times."""
    return _word_at(id(array) + _HEAD_BYTES).value


def _asked_address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def _is_readable() -> bool:
    probe = np.zeros(8, np.uint8)
    return sys.implementation.name == "cpython" and all(
        _read_address(array) == array.ctypes.data for array in (probe, probe[3:], probe[:0])
    )


data_address = _read_address if _is_readable() else _asked_address
"""Where the elements of an array lie."""


def address_of(array: np.ndarray) -> int:
    """Where an array lies, for a kernel; whoever passes it on keeps the array."""
    address = data_address(array)
    if CHECKED:
        weakref.finalize(array, RANGES.forget, address, array.nbytes)
        RANGES.note(address, array.nbytes)
    return address


class Ranges:
    """Where memory may be read and written, as a table for compiled code that is replaced whole.

    `cell` holds the address of the table in use. What is forgotten goes when something is next noted:
    arrays end at any time, also while the table is being replaced.
    """

    def __init__(self) -> None:
        self.cell = np.zeros(1, np.int64)
        self._known: Counter[tuple[int, int]] = Counter()
        self._order: list[tuple[int, int]] = []
        self._gone: deque[tuple[int, int]] = deque()
        self._tables: deque[np.ndarray] = deque(maxlen=_KEPT_TABLES)  # a kernel may still look at an old one
        self._lock = threading.Lock()
        self._publish()

    def note(self, address: int, nbytes: int) -> None:
        """There are so many bytes at an address, for as long as they are not forgotten as often."""
        with self._lock:
            while self._gone:
                self._drop(self._gone.popleft())
            one = (address, address + nbytes)
            self._known[one] += 1
            if self._known[one] == 1:
                self._order.insert(bisect_left(self._order, one), one)
            self._publish()

    def forget(self, address: int, nbytes: int) -> None:
        self._gone.append((address, address + nbytes))

    def _drop(self, one: tuple[int, int]) -> None:
        self._known[one] -= 1
        if not self._known[one]:
            del self._known[one]
            del self._order[bisect_left(self._order, one)]

    def _publish(self) -> None:
        table = np.empty(TABLE_STARTS + 2 * len(self._order), np.int64)
        table[TABLE_COUNT] = len(self._order)
        if self._order:
            table[TABLE_STARTS:] = np.array(self._order, np.int64).T.ravel()
        self._tables.append(table)
        self.cell[0] = table.ctypes.data


RANGES = Ranges()
