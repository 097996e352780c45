"""Taking facts out of a table in time that depends on the facts, not on the table.

A fact that goes is swapped with the last row, so that rows stay side by side; indexes keep values, not row
numbers, and need not know. A locator says which row a fact is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.locator import RowLocator
from gpuengine.kernels.cpu.rows import Batch, Rows
from gpuengine.kernels.cpu.sets import KeySet
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes.contract import Columns

if TYPE_CHECKING:
    from gpuengine.schemes.table import Table


_NOWHERE = np.empty(0, np.uint32)


class RowRemoval:
    """The locator of a table's rows, which takes in those that came since when it is next asked."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self._locator = RowLocator(rows)
        self._located = 0

    @property
    def nbytes(self) -> int:
        return self._locator.nbytes

    def find(self, columns: Columns, count: int) -> np.ndarray:
        """The distinct numbers of the given rows, without those that are not there."""
        if self._located < self.rows.count:
            self._locator.append(self._located, self.rows.count)
            self._located = self.rows.count
        places = self._locator.locate(Batch(columns, count), 0, count)
        places.sort()
        first = np.ones(len(places), np.bool_)
        first[1:] = places[1:] != places[:-1]
        return places[first & (places != NONE)]

    def remove(self, places: np.ndarray) -> None:
        """Fill the places with the last rows; everything is settled then."""
        self._locator.remove(places)
        self._located = self.rows.count

    def cut(self, start: int) -> None:
        """Forget rows from `start` on, which are about to be cut off."""
        if self._located > start:
            self._locator.truncate(start)
            self._located = start


def move_to_delta(table: Table, columns: Columns, count: int) -> int:
    """Make those of the given rows that are there the delta, at the end; how many they are."""
    places = _removal_of(table).find(columns, count) if count and len(table) else np.empty(0, np.uint32)
    if not len(places):
        table.refresh_indexes()
        return 0
    going = [column[places] for column in table.columns()]
    batch = Batch(going, len(places))
    table.refresh_indexes()
    _erase_from_indexes(table, batch)
    table.keep_readable(places, len(table) - len(places))
    _removal_of(table).remove(places)
    table.note_removal()
    table.rows.append(going, len(places))
    table.rows.advance()
    table.refresh_indexes()
    return len(places)


def show_last(table: Table, count: int) -> None:
    """Make the last rows, which came last and in one piece, the delta."""
    start = table.rows.count - count
    table.rows.delta = (start, table.rows.count)
    kept = []
    for index in table.indexes:
        assert isinstance(index, RowIndex)
        if not index.is_exact:
            index.retract(start)
            index.ensure()
            kept.append(index)
    if len(kept) < len(table.indexes):
        table.keep_indexes(kept)
        table.epoch += 1


def drop_delta(table: Table) -> None:
    """Cut the delta, the last rows, off the rows, the set and the indexes. All that is left is OLD."""
    start, end = table.rows.delta
    assert end == table.rows.count, "facts are scheduled behind the delta"
    rows = table.rows
    assert isinstance(rows, Rows)
    if table.has_set:
        keyset = table.keyset
        assert isinstance(keyset, KeySet)
        keyset.erase(rows, start, end)
    table.refresh_indexes()
    for index in table.indexes:
        assert isinstance(index, RowIndex)
        index.retract(start)
    if table.removal is not None:
        table.removal.cut(start)
    table.keep_readable(_NOWHERE, start)
    rows.count = start
    table.rows.settle()
    table.note_removal()


def _removal_of(table: Table) -> RowRemoval:
    rows = table.rows
    assert isinstance(rows, Rows), "tables lose facts on the host"
    if table.removal is None or table.removal.rows is not rows:
        table.removal = RowRemoval(rows)
    return table.removal


def _erase_from_indexes(table: Table, batch: Rows) -> None:
    """Take rows out of the indexes; one for which that takes longer than making it anew is dropped."""
    kept = [
        index for index in table.indexes if isinstance(index, RowIndex) and index.erase(batch, 0, batch.count)
    ]
    if len(kept) < len(table.indexes):
        table.keep_indexes(kept)
        table.epoch += 1
