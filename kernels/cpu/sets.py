"""`KeySet`: which rows a relation holds, in the smallest of three representations."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.contract import Bounds
from gpuengine.kernels.cpu import erase, keyset
from gpuengine.kernels.cpu.crew import each_part
from gpuengine.kernels.cpu.layout import (
    BITMAP,
    HASHED,
    SET_ARITY,
    SET_CAPACITY,
    SET_COLUMNS,
    SET_DATA,
    SET_KIND,
    SET_REFUSED,
    WIDE,
)
from gpuengine.kernels.cpu.memory import Memory
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.identity import NotCopied

SMALL_BITMAP_BYTES = 1 << 22
FULL_EXTENT = 1 << 32
UNLIMITED = 1 << 62
_PACKED_LIMIT = 1 << 63
_DOUBLING_LIMIT = 1 << 22
_SPREAD_HEAD = 1 << 16
_REFILL_ROWS = 1 << 16


class KeySet(NotCopied):
    """The set of the rows of one `Rows`; kernels insert into it and test against it.

    `reserve` must have made room before rows are inserted, and the inserted ids must lie within
    `bounds` (`widen` moves them). Both may rebuild the set from the rows, which must by then hold
    everything that was inserted and nothing that was erased. What lies outside is refused, and `check`
    raises. Costs: a bitmap where the product of the extents takes at most twice the memory of a hash
    table; 12 to 18 bytes a row in a hash table; more only for rows wider than 64 bits.
    """

    __slots__ = ("_bounds", "_capacity", "_memory", "_requested", "address", "arity", "header")

    def __init__(self, arity: int, bounds: Bounds, capacity: int = 0) -> None:
        self.arity = arity
        self.header = np.zeros(SET_COLUMNS + 3 * max(arity, 1), np.int64)
        self.address = address_of(self.header)
        self.header[SET_ARITY] = arity
        self._bounds = list(bounds)
        self._capacity = 0
        self._requested = 0
        self._memory = Memory()
        self._allocate(max(capacity, 16))

    @property
    def kind(self) -> int:
        return int(self.header[SET_KIND])

    @property
    def nbytes(self) -> int:
        return self._memory.nbytes

    @property
    def capacity(self) -> int:
        """How many rows may be in the set before `reserve` is due."""
        return self._capacity

    def reserve(self, capacity: int, rows: Rows) -> None:
        """Make room for `capacity` rows in all."""
        if capacity > self._capacity:
            growth = self._capacity if self._capacity < _DOUBLING_LIMIT else self._capacity >> 1
            capacity = max(capacity, self._capacity + growth)
            if not self._spread(capacity):
                self._allocate(capacity)
                self._refill(rows)

    def widen(self, bounds: Bounds, rows: Rows) -> None:
        """Admit ids within `bounds` as well."""
        merged = [
            (min(low, new_low), max(high, new_high))
            for (low, high), (new_low, new_high) in zip(self._bounds, bounds, strict=True)
        ]
        if merged != self._bounds:
            self._bounds = merged
            if self.kind == BITMAP or (self.kind == HASHED and self.arity > 2):
                self._allocate(max(self._requested, rows.count))
                self._refill(rows)

    def insert(self, rows: Rows, start: int, end: int) -> np.ndarray:
        """Insert rows [start, end) of `rows`; which of them were new."""
        new = np.empty(end - start, np.uint8)
        scratch = np.empty(max(self.arity, 1), np.int64)
        keyset.insert_rows(self.address, rows.address, start, end, scratch, new)
        self.check()
        return new.view(np.bool_)

    def check(self) -> None:
        """Raise if a kernel was asked to insert ids outside the bounds: there is no room for them."""
        if self.header[SET_REFUSED]:
            raise AssertionError(f"ids outside the bounds {self._bounds} were to be inserted into a set")

    def erase(self, rows: Rows, start: int, end: int) -> int:
        """Take rows [start, end) of `rows` out, passing over those that are not in the set; how many went.

        For one thread, with no pipeline at work on the set.
        """
        scratch = np.empty(max(self.arity, 1), np.int64)
        return erase.erase_keys(self.address, rows.address, start, end, scratch)

    def contains(self, rows: Rows, start: int, end: int) -> np.ndarray:
        """Which of the rows [start, end) of `rows` are in the set."""
        mask = np.empty(end - start, np.uint8)
        scratch = np.empty(max(self.arity, 1), np.int64)
        keyset.contains_rows(self.address, rows.address, start, end, scratch, mask)
        return mask.view(np.bool_)

    def _spread(self, capacity: int) -> bool:
        """Grow a hash table in place; False if it should become a bitmap, or if its keys cluster too much.

        Places are monotone in the hash. So the upper slots, whose keys all move behind the old end, are moved
        first, by all threads; then those whose keys move to where these were, and so on down to the first
        slots, which wait in memory of their own: among them may be keys that have come around the end.
        """
        slots, old_slots = table_size(capacity), int(self.header[SET_CAPACITY])
        if self.kind != HASHED or self._bitmap_words() * 8 <= 16 * slots:
            return False
        cuts = self._cuts(old_slots, slots)
        if not cuts:
            return False
        self._memory.resize(8 * slots)
        table, head = self._memory.address, cuts[-1]
        each_part(lambda low, high: ctypes.memset(table + 8 * low, 0, 8 * (high - low)), old_slots, slots)
        scratch = np.empty(head, np.uint64)
        ctypes.memmove(address_of(scratch), table, 8 * head)
        ctypes.memset(table, 0, 8 * head)
        for top, cut in pairwise(cuts):
            each_part(lambda low, high: keyset.move_keys(table, low, high, table, slots), cut, top)
        # Keys that came around the end have found room if the last of the first slots is free.
        is_done = keyset.after_gap(table, head, head + 1) == head
        keyset.move_keys(scratch, 0, head, table, slots)
        self.header[SET_DATA] = table
        self.header[SET_CAPACITY] = slots
        self._capacity = self._requested = capacity
        return is_done

    def _cuts(self, old_slots: int, slots: int) -> list[int]:
        """Slots, from the end down, between any two of which all keys belong behind the upper one by now.

        None if keys lie so close that there is no such slot.
        """
        head, cuts, lowest = min(old_slots, _SPREAD_HEAD), [old_slots], old_slots
        while lowest > head:
            lowest = max(-(-cuts[-1] * old_slots // slots), head)
            cut = keyset.after_gap(self._memory.address, lowest, cuts[-1])
            if cut == cuts[-1]:
                return []
            cuts.append(cut)
        return cuts

    def _bitmap_words(self) -> int:
        """The size of a bitmap over the bounds."""
        product = 1
        for low, high in self._bounds:
            product *= max(high - low, 1)
        return product // 64 + 1

    def _refill(self, rows: Rows) -> None:
        """Insert all rows, which are distinct."""

        def insert(start: int, end: int) -> None:
            new, scratch = np.empty(_REFILL_ROWS, np.uint8), np.empty(max(self.arity, 1), np.int64)
            for low in range(start, end, _REFILL_ROWS):
                high = min(low + _REFILL_ROWS, end)
                keyset.insert_rows(self.address, rows.address, low, high, scratch, new)

        each_part(insert, 0, rows.count)
        self.check()

    def _allocate(self, capacity: int) -> None:
        self._requested = capacity
        extents = [max(high - low, 1) for low, high in self._bounds]
        product = 1
        for extent in extents:
            product *= extent
        slots, words = table_size(capacity), self._bitmap_words()
        if 8 * words <= max(SMALL_BITMAP_BYTES, 16 * slots):
            self._use(BITMAP, words, 1, self._bounds, extents)
            self._capacity = UNLIMITED
        elif self.arity <= 2 or product < _PACKED_LIMIT:
            bounds, packed = self._bounds, extents
            if self.arity <= 2:
                bounds, packed = [(0, FULL_EXTENT)] * self.arity, [FULL_EXTENT] * self.arity
            self._use(HASHED, slots, 1, bounds, packed)
            self._capacity = capacity
        else:
            self._use(WIDE, slots, (self.arity + 1) // 2 + 1, self._bounds, [1] * self.arity)
            self._capacity = capacity

    def _use(self, kind: int, capacity: int, width: int, bounds: Bounds, extents: Sequence[int]) -> None:
        self._memory = Memory()
        self._memory.resize_zeroed(8 * capacity * width)
        self.header[SET_KIND] = kind
        self.header[SET_DATA] = self._memory.address
        self.header[SET_CAPACITY] = capacity
        stride = 1
        for j in reversed(range(self.arity)):
            at = SET_COLUMNS + 3 * j
            self.header[at : at + 3] = (bounds[j][0], stride, extents[j])
            stride *= extents[j]


def table_size(capacity: int) -> int:
    """Slots of a table that is seven tenths full with `capacity` rows."""
    return capacity * 10 // 7 + 16
