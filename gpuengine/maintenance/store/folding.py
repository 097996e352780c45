"""Deltas folded into a table: the last thing that happened to a row counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store.contents import StoredTable


def fold(base: StoredTable, deltas: Sequence[Delta]) -> StoredTable:
    """The table after the deltas. `base` stays as it is."""
    if not base.columns:
        return _fold_presence(base, deltas)
    parts: list[tuple[Sequence[np.ndarray], bool]] = []
    for delta in deltas:
        for (columns, rows), present in ((delta.minus_facts, False), (delta.plus_facts, True)):
            parts += [(columns, present)] if rows else []
    if not parts:
        return base
    touched = [
        np.concatenate([columns[position] for columns, _ in parts]) for position in range(len(base.columns))
    ]
    alive = np.repeat([present for _, present in parts], [len(columns[0]) for columns, _ in parts])
    distinct = _DistinctRows(touched)
    last = distinct.last_places()
    added = last[alive[last]]
    kept = np.ones(base.rows, np.bool_)
    kept[distinct.places_in(base.columns)] = False
    columns = [
        np.concatenate([old[kept], new[added]]) for old, new in zip(base.columns, touched, strict=True)
    ]
    return StoredTable(columns, len(columns[0]))


class _DistinctRows:
    """Rows told apart by a code, found column by column: values of the column, then pairs of the code so far
    and the value. Codes and values are both below the number of rows, so that a pair fits 64 bits."""

    def __init__(self, columns: Sequence[np.ndarray]) -> None:
        self._levels: list[tuple[np.ndarray, np.ndarray]] = []
        self._codes = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            values, which = np.unique(column, return_inverse=True)
            pairs, self._codes = np.unique(self._codes * len(values) + which, return_inverse=True)
            self._levels.append((values, pairs))

    def last_places(self) -> np.ndarray:
        """For each distinct row the last place it has."""
        last = np.zeros(len(self._levels[-1][1]), np.int64)
        last[self._codes] = np.arange(len(self._codes))
        return last

    def places_in(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """The places in another table where one of these rows is."""
        places = _likely_places(self._levels[0][0], columns[0])
        codes = np.zeros(len(places), np.int64)
        for column, (values, pairs) in zip(columns, self._levels, strict=True):
            which, hit = _find(values, column[places])
            codes, places = codes[hit] * len(values) + which[hit], places[hit]
            which, hit = _find(pairs, codes)
            codes, places = which[hit], places[hit]
        return places


def _likely_places(values: np.ndarray, column: np.ndarray) -> np.ndarray:
    """All places where the column has one of the values, and some more.

    Few rows of a large table have changed as a rule, and one look at the low bits of an id rules out most
    others at a fraction of the cost of a search.
    """
    mask = np.uint32((1 << min(len(values).bit_length() + 4, 22)) - 1)
    marked = np.zeros(int(mask) + 1, np.bool_)
    marked[values & mask] = True
    return np.flatnonzero(marked[column & mask])


def _find(sorted_values: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(where each value would be, is it there?)"""
    which = np.searchsorted(sorted_values, values)
    which[which == len(sorted_values)] = 0
    return which, sorted_values[which] == values


def _fold_presence(base: StoredTable, deltas: Sequence[Delta]) -> StoredTable:
    """A table without columns: only whether it has its one row."""
    rows = base.rows
    for delta in deltas:
        rows = 1 if delta.plus_facts[1] else 0 if delta.minus_facts[1] else rows
    return StoredTable([], rows)
