"""`RowLocator`: from the content of a row to its number, and the removal of rows by number.

An open-addressing table of ``number + 1`` (uint32, 0 is empty) with linear probing. It holds no hashes:
they are worked out from the columns again wherever an entry must be told from another or moved.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.cpu.atomics import as_u4, prefetch
from gpuengine.kernels.cpu.erase import passes
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.keyset import mix, place_of
from gpuengine.kernels.cpu.layout import MERGE_LOCATOR, MERGE_LOCATOR_SIZE, ROWS_COLUMNS
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import table_size
from gpuengine.kernels.filling import fill_holes

ABSENT = 0xFFFFFFFF
_AHEAD = 8  # how many rows ahead a place in the table is fetched
_NOWHERE = np.uint32(ABSENT)
_FIRST_CAPACITY = 64
_DOUBLING_LIMIT = 1 << 22


@device
def home_of(rows, arity, row, capacity):
    """Where the search for a row begins."""
    hashed = np.uint64(arity)
    for j in range(0, arity, 2):
        word = np.uint64(as_u4(rows[ROWS_COLUMNS + j])[row])
        if j + 1 < arity:
            word |= np.uint64(as_u4(rows[ROWS_COLUMNS + j + 1])[row]) << np.uint64(32)
        hashed = mix(hashed ^ word)
    return place_of(hashed, capacity)


@device
def is_same(rows, row, others, other, arity):
    for j in range(arity):
        if as_u4(rows[ROWS_COLUMNS + j])[row] != as_u4(others[ROWS_COLUMNS + j])[other]:
            return False
    return True


@device
def place_of_number(table, capacity, rows, arity, row):
    """The place of a row that is in the table."""
    place = home_of(rows, arity, row, capacity)
    while np.int64(table[place]) != row + 1:
        place = place + 1 if place + 1 < capacity else 0
    return place


@device
def drop_number(table, capacity, rows, arity, row):
    """Take a row that is in the table out; the columns still hold every row of the table."""
    hole = place_of_number(table, capacity, rows, arity, row)
    place = hole
    while True:
        place = place + 1 if place + 1 < capacity else 0
        if table[place] == np.uint32(0):
            break
        home = home_of(rows, arity, np.int64(table[place]) - 1, capacity)
        if passes(home, hole, place, capacity):
            table[hole] = table[place]
            hole = place
    table[hole] = np.uint32(0)


@kernel("i8(u4*, i8, i8*, i8, i8, i8)")
def put_numbers(table, capacity, rows, arity, start, end):
    """Enter rows [start, end), none of which is in the table."""
    for row in range(start, end):
        if row + _AHEAD < end:
            prefetch(table, home_of(rows, arity, row + _AHEAD, capacity))
        place = home_of(rows, arity, row, capacity)
        while table[place] != np.uint32(0):
            place = place + 1 if place + 1 < capacity else 0
        table[place] = np.uint32(row + 1)
    return end


@kernel("i8(u4*, i8, i8*, i8, i8*, i8, i8, u4*)")
def locate_rows(table, capacity, rows, arity, batch, start, end, numbers):
    """`numbers[i]` is the number of the batch's row start + i, or ABSENT. Returns how many there are."""
    count = 0
    for row in range(start, end):
        if row + _AHEAD < end:
            prefetch(table, home_of(batch, arity, row + _AHEAD, capacity))
        place = home_of(batch, arity, row, capacity)
        numbers[row - start] = _NOWHERE
        while table[place] != np.uint32(0):
            number = np.int64(table[place]) - 1
            if is_same(rows, number, batch, row, arity):
                numbers[row - start] = np.uint32(number)
                count += 1
                break
            place = place + 1 if place + 1 < capacity else 0
    return count


@kernel("i8(u4*, i8, i8*, i8, i8, i8)")
def drop_range(table, capacity, rows, arity, start, end):
    """Take rows [start, end) out of the table."""
    for row in range(start, end):
        drop_number(table, capacity, rows, arity, row)
    return end


@kernel("i8(u4*, i8, i8*, i8, i8*, i8)")
def drop_numbers(table, capacity, rows, arity, numbers, count):
    """Take the rows with these numbers out of the table."""
    for i in range(count):
        drop_number(table, capacity, rows, arity, numbers[i])
    return count


@kernel("i8(u4*, i8, i8*, i8, i8*, i8*, i8)")
def move_rows(table, capacity, rows, arity, movers, holes, count):
    """Move rows `movers` to the numbers `holes`, none of which is in the table."""
    for i in range(count):
        table[place_of_number(table, capacity, rows, arity, movers[i])] = np.uint32(holes[i] + 1)
        for j in range(arity):
            column = as_u4(rows[ROWS_COLUMNS + j])
            column[holes[i]] = column[movers[i]]
    return count


class RowLocator:
    """Finds the rows of one `Rows`, which must be distinct, by their content.

    Empty at first. It holds the rows [0, `count`): `append` adds the next ones, `truncate` takes the last
    ones out, and `remove` takes any out of the locator and out of its rows. Each costs what its rows cost
    (`append` on the average: the table grows by half or doubles, and never shrinks). While a row is in
    here, nothing else may change it. 6 to 12 bytes a row.
    """

    __slots__ = ("_capacity", "_table", "count", "rows")

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.count = 0
        self._capacity = _FIRST_CAPACITY
        self._table = np.zeros(table_size(self._capacity), np.uint32)

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes)

    def append(self, start: int, end: int) -> None:
        """Add rows [start, end) of its rows; `start` is `count`."""
        assert start == self.count, "rows are added in order"
        if end > self._capacity:
            growth = self._capacity if self._capacity < _DOUBLING_LIMIT else self._capacity >> 1
            self._capacity = max(end, self._capacity + growth)
            self._table = np.zeros(table_size(self._capacity), np.uint32)
            start = 0
        put_numbers(self._table, len(self._table), self.rows.address, self.rows.arity, start, end)
        self.count = end

    def locate(self, batch: Rows, start: int, end: int) -> np.ndarray:
        """The numbers (uint32) of rows [start, end) of `batch`, ABSENT for those that are not here."""
        numbers = np.empty(end - start, np.uint32)
        table, rows = self._table, self.rows
        locate_rows(table, len(table), rows.address, rows.arity, batch.address, start, end, numbers)
        return numbers

    def describe(self, header: np.ndarray) -> int:
        """Tell the compiled loop of `merging` where the table is; returns how many rows it may hold."""
        header[MERGE_LOCATOR] = address_of(self._table)
        header[MERGE_LOCATOR_SIZE] = len(self._table)
        return self._capacity

    def remove(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Take the rows with these numbers, distinct and in any order, out of here and out of its rows.

        Every row must be in the locator (`count` is that of its rows). With n rows left, those of the last
        ones that stay move to the removed numbers below n; the rows' count becomes n and their delta (n, n).
        Returns (movers, holes), int64 and equally long: whoever keeps an array beside the rows does
        ``array[holes] = array[movers]``.
        """
        table, rows = self._table, self.rows
        assert self.count == rows.count, "every row is in the locator"
        gone = np.ascontiguousarray(places, np.int64)
        left = rows.count - len(gone)
        drop_numbers(table, len(table), rows.address, rows.arity, gone, len(gone))
        movers, holes = fill_holes(rows.count, gone)
        move_rows(table, len(table), rows.address, rows.arity, movers, holes, len(holes))
        self.count = rows.count = left
        rows.settle()
        return movers, holes

    def truncate(self, start: int) -> None:
        """Take the rows from number `start` on out of here; its rows still hold them, and keep them."""
        if start < self.count:
            drop_range(self._table, len(self._table), self.rows.address, self.rows.arity, start, self.count)
            self.count = start
