"""`RowIndex`: from the values of one or two columns to the rest of the matching rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.contract import Bounds
from gpuengine.kernels.cpu import erase, rowindex
from gpuengine.kernels.cpu.crew import each_part, each_share, shares_of
from gpuengine.kernels.cpu.layout import (
    HASHED_WORDS,
    INDEX_COLUMNS,
    INDEX_FREE,
    INDEX_HASHED,
    INDEX_KEYS,
    INDEX_PAYLOAD,
    INDEX_PAYLOAD_CAPACITY,
    INDEX_ROUND,
    INDEX_SLOT_CAPACITY,
    INDEX_SLOT_COUNT,
    INDEX_SLOTS,
    INDEX_WIDTH,
    SLOT_WORDS,
)
from gpuengine.kernels.cpu.memory import Memory
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import FULL_EXTENT
from gpuengine.kernels.identity import NotCopied

_SMALL_DIRECT_SLOTS = 1 << 16
_SIZE_CLASSES = 34
_HASHED_SLOT_BYTES = 40
_FIRST_SLOTS = 1024
_DIRECT_SLOT_BYTES = 4 * SLOT_WORDS
# What building an index takes, in the units of `erase.erase_work`: in all, and for each row with
# slots that are addressed by the key and with hashed ones.
_BUILD_WORK = 1 << 16
_BUILD_ROW_WORK = (32, 160)


class RowIndex(NotCopied):
    """An index of a `Rows` by `keys` (at most two columns); the other columns are its payload.

    Life: built over all rows at once (`build`), then `append` adds each delta. An index over rows that
    will not change is built `exact`, without spare room. `ensure` brings it up to date with the rows'
    delta: what lies before the delta is OLD, the delta is NEW. `erase` and `retract` take rows out again.
    """

    __slots__ = (
        "_exact",
        "_free",
        "_indexed",
        "_payload",
        "_round_start",
        "_slots",
        "address",
        "header",
        "keys",
        "rows",
    )

    def __init__(self, rows: Rows, keys: Sequence[int], bounds: Bounds) -> None:
        self.rows = rows
        self.keys = tuple(keys)
        payload = [j for j in range(rows.arity) if j not in self.keys]
        self.header = np.zeros(INDEX_COLUMNS + 4 * len(self.keys) + len(payload), np.int64)
        self.address = address_of(self.header)
        self.header[INDEX_KEYS] = len(self.keys)
        self.header[INDEX_WIDTH] = len(payload)
        self.header[INDEX_COLUMNS + 4 * len(self.keys) :] = payload
        self._free: list[np.ndarray] = []
        self._free_lists(1)
        self._payload = Memory()
        self._slots = np.zeros(SLOT_WORDS, np.uint32)
        self._indexed = 0
        self._round_start = 0
        self._exact = False
        self._address_slots(bounds, rows.count)

    @property
    def indexed(self) -> int:
        """How many of the rows, from the first, are in the index."""
        return self._indexed

    def note_current(self) -> None:
        """The compiled loop has brought the index up to the rows' delta."""
        self._round_start, self._indexed = self.rows.delta

    @property
    def nbytes(self) -> int:
        return int(self._slots.nbytes + self._payload.nbytes)

    @property
    def is_exact(self) -> bool:
        """Was it built for rows that do not change?"""
        return self._exact

    def build(self, exact: bool) -> None:
        """Index the rows up to the delta's end, from nothing.

        `exact` leaves no spare room and knows no delta: all its rows are OLD.
        """
        start, end = self.rows.delta
        self._exact = exact
        old = end if exact else start
        index, rows = self.address, self.rows.address
        self._in_shares(lambda row, *share: rowindex.assign_slots(index, rows, row, old, *share), 0, old)
        used = rowindex.place_blocks(self.address, 1 if exact else 0)
        self._reserve_payload(used if exact else used + max(16, (end - start) * 2))
        self._in_shares(lambda row, *share: rowindex.fill_blocks(index, rows, row, old, *share), 0, old)
        self._indexed = old
        if exact:
            self.header[INDEX_ROUND] += 1
        else:
            self._begin_round(start, end)

    def ensure(self) -> bool:
        """Add the delta as a new round if it is not in yet. False if the index must be built anew."""
        start, end = self.rows.delta
        if self._exact or (self._indexed == end and self._round_start == start):
            return self._indexed == end
        if self._indexed != start:
            return False
        self._begin_round(start, end)
        return True

    def erase(self, rows: Rows, start: int, end: int, places: np.ndarray) -> bool:
        """Take rows [start, end) of `rows`, a batch of the same columns, out of the index: those at `places`
        of `self.rows`, which are of no use here.

        Before: every row of `self.rows` is in the index and old (`indexed` is their count; the delta is
        settled), and the batch holds distinct rows of it. After True the caller at once takes the same rows
        out of `self.rows`, in whatever order leaves the rest in [0, n), and settles its delta to (n, n):
        `ensure` goes on from there. The rows of a key are then in no particular order.

        False if the index must be dropped: it is exact, or looking for the rows among those of their keys
        would take longer than building it anew (then nothing has changed), or some row is not in it.
        """
        count = end - start
        limit = _BUILD_WORK + _BUILD_ROW_WORK[self.header[INDEX_HASHED]] * self._indexed
        if self._exact or erase.ROW_WORK * count > limit:
            return False
        payload = [j for j in range(self.rows.arity) if j not in self.keys]
        by_key = [rows.column(j)[start:end] for j in (*self.keys, *payload)]
        order = np.lexsort(by_key[::-1]).astype(np.int64, copy=False) + start
        if not 0 <= erase.erase_work(self.address, rows.address, order, count) <= limit:
            return False
        gone = erase.erase_entries(self.address, rows.address, order, count)
        self._settle_at(self._indexed - count)
        return gone == count

    def retract(self, start: int) -> None:
        """Take the rows from number `start` on, which came last, out of the index; the others become old.

        Before: the index is not exact, `self.rows` still holds those rows, and no `erase` has come after
        any of them. Afterwards the caller sets the count of `self.rows` to `start` and settles its delta to
        (start, start); `ensure` goes on from there. Nothing happens if `start` is not below `indexed`.
        """
        assert not self._exact, "an exact index does not change"
        if start < self._indexed:
            erase.retract_entries(self.address, self.rows.address, start, self._indexed)
            self._settle_at(start)

    def show_delta(self) -> bool:
        """Have the rows of the delta, which are the last ones and in the index, as its last round."""
        if self._exact:
            return False
        self.retract(self.rows.delta[0])
        return self.ensure()

    def _settle_at(self, count: int) -> None:
        """The index holds `count` rows, all of them old."""
        self._indexed = self._round_start = count
        self.header[INDEX_ROUND] += 1

    def _begin_round(self, start: int, end: int) -> None:
        self.header[INDEX_ROUND] += 1
        self._round_start = start
        self._append_until(end)

    def make_room(self) -> None:
        """Grow whatever kept the last append from going on."""
        header = self.header
        if header[INDEX_HASHED] and 10 * header[INDEX_SLOT_COUNT] >= 7 * header[INDEX_SLOT_CAPACITY]:
            self._grow_slots()
        else:
            capacity = int(self.header[INDEX_PAYLOAD_CAPACITY])
            self._reserve_payload(capacity + max(1024, capacity >> 1))

    def _append_until(self, end: int) -> None:
        index, rows = self.address, self.rows.address
        free = self._free_lists(shares_of(end - self._indexed))
        self._in_shares(
            lambda row, share, shares: rowindex.append(index, rows, row, end, share, shares, free[share]),
            self._indexed,
            end,
        )
        self._indexed = end

    def _in_shares(self, run: Callable[[int, int, int], int], start: int, end: int) -> None:
        """Have `run` go over rows [start, end) for each share of the slots, with more room each time.

        It takes the row to begin with, the share and how many shares there are, and returns how far it came.
        """
        shares = shares_of(end - start)
        if shares == 1:  # deltas of updates are this small
            while start < end:
                start = run(start, 0, 1)
                if start < end:
                    self.make_room()
            return
        rows = [start] * shares

        def go_on(share: int) -> None:
            rows[share] = run(rows[share], share, shares)

        while waiting := [share for share in range(shares) if rows[share] < end]:
            each_share(go_on, waiting)
            if min(rows) < end:
                self.make_room()

    def _free_lists(self, shares: int) -> list[np.ndarray]:
        """The heads of the lists of free blocks, by size class, for so many shares of the slots."""
        while len(self._free) < shares:
            self._free.append(np.full(_SIZE_CLASSES, rowindex.NO_BLOCK, np.uint32))
            self.header[INDEX_FREE] = address_of(self._free[0])
        return self._free

    def _reserve_payload(self, capacity: int) -> None:
        width = int(self.header[INDEX_WIDTH])
        self._payload.resize(4 * width * max(capacity, 1))
        self.header[INDEX_PAYLOAD] = self._payload.address
        self.header[INDEX_PAYLOAD_CAPACITY] = capacity

    def _address_slots(self, bounds: Bounds, count: int) -> None:
        """Choose direct addressing where the slots of all possible keys take no more room than a table."""
        extents = [max(bounds[key][1] - bounds[key][0], 1) for key in self.keys]
        product = extents[0] * (extents[1] if len(extents) > 1 else 1)
        direct = product <= _SMALL_DIRECT_SLOTS or (
            product * _DIRECT_SLOT_BYTES <= max(count, _SMALL_DIRECT_SLOTS) * _HASHED_SLOT_BYTES
        )
        lows = [bounds[key][0] for key in self.keys]
        if not direct:
            extents, lows = [FULL_EXTENT] * len(self.keys), [0] * len(self.keys)
        stride = 1
        for j in reversed(range(len(self.keys))):
            at = INDEX_COLUMNS + 4 * j
            self.header[at : at + 4] = (self.keys[j], lows[j], stride, extents[j])
            stride *= extents[j]
        self.header[INDEX_HASHED] = 0 if direct else 1
        if direct:
            self._set_slots(np.zeros(product * SLOT_WORDS, np.uint32), product)
        else:
            first = max(_FIRST_SLOTS, count // 2)
            self._set_slots(np.zeros(first * HASHED_WORDS, np.uint32), first)

    def _set_slots(self, slots: np.ndarray, capacity: int) -> None:
        self._slots = slots
        self.header[INDEX_SLOTS] = address_of(slots)
        self.header[INDEX_SLOT_CAPACITY] = capacity

    def _grow_slots(self) -> None:
        old, old_capacity = self._slots, int(self.header[INDEX_SLOT_CAPACITY])
        capacity = 2 * old_capacity if old_capacity < 1 << 20 else old_capacity + (old_capacity >> 1)
        slots = np.zeros(capacity * HASHED_WORDS, np.uint32)
        each_part(lambda low, high: rowindex.rehash(old, low, high, slots, capacity), 0, old_capacity)
        self._set_slots(slots, capacity)
