"""Taking facts out of a table in time that depends on the facts, not on the table.

A fact that goes is swapped with the last row, so that rows stay side by side. A locator says which row a fact
is. On the host indexes keep values, not row numbers, and need not know what moved. On a device they are
written again without what went: that takes a pass over them, but only the numbers of rows leave the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.kernels.contract import Array, Backend, Rows
from gpuengine.kernels.primitives import NONE

if TYPE_CHECKING:
    from gpuengine.schemes.table import Table


_NOWHERE = np.empty(0, np.uint32)


class RowRemoval:
    """The locator of a table's rows, which takes in those that came since when it is next asked."""

    def __init__(self, backend: Backend, rows: Rows) -> None:
        self.rows = rows
        self._locator = backend.locator(rows)

    @property
    def nbytes(self) -> int:
        return self._locator.nbytes

    def find(self, batch: Rows) -> np.ndarray:
        """The distinct numbers of the given rows, without those that are not there."""
        self._take_in()
        places = self._locator.locate(batch, 0, batch.count)
        places.sort()
        first = np.ones(len(places), np.bool_)
        first[1:] = places[1:] != places[:-1]
        return places[first & (places != NONE)]

    def remove(self, places: np.ndarray) -> None:
        """Fill the places with the last rows; everything is settled then."""
        self._take_in()
        self._locator.remove(places)

    def cut(self, start: int) -> None:
        """Forget rows from `start` on, which are about to be cut off."""
        if self._locator.count > start:
            self._locator.truncate(start)

    def _take_in(self) -> None:
        if self._locator.count < self.rows.count:
            self._locator.append(self._locator.count, self.rows.count)


def move_to_delta(table: Table, columns: Sequence[Array], count: int) -> int:
    """Make those of the given rows that are there the delta, at the end; how many they are."""
    places = _NOWHERE
    if count and len(table):
        places = _removal_of(table).find(table.batch(columns, count))
    table.refresh_indexes()
    if not len(places):
        return 0
    going = table.rows.taken(places)
    _erase_from_indexes(table, table.batch(going, len(places)), places)
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
    kept = [index for index in table.indexes if index.show_delta()]
    if len(kept) < len(table.indexes):
        table.keep_indexes(kept)
        table.epoch += 1


def drop_delta(table: Table) -> None:
    """Cut the delta, the last rows, off the rows, the set and the indexes. All that is left is OLD."""
    start, end = table.rows.delta
    assert end == table.rows.count, "facts are scheduled behind the delta"
    if table.has_set:
        table.keyset.erase(table.rows, start, end)
    table.refresh_indexes()
    for index in table.indexes:
        index.retract(start)
    if table.removal is not None:
        table.removal.cut(start)
    table.keep_readable(_NOWHERE, start)
    table.rows.count = start
    table.rows.settle()
    table.note_removal()


def _removal_of(table: Table) -> RowRemoval:
    if table.removal is None or table.removal.rows is not table.rows:
        table.removal = RowRemoval(table.backend, table.rows)
    return table.removal


def _erase_from_indexes(table: Table, batch: Rows, places: np.ndarray) -> None:
    """Take rows out of the indexes; one for which that takes longer than making it anew is dropped."""
    kept = [index for index in table.indexes if index.erase(batch, 0, batch.count, places)]
    if len(kept) < len(table.indexes):
        table.keep_indexes(kept)
        table.epoch += 1
