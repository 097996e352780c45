"""Derivation counters: by how many rule instances each fact is derived, outside and inside the recursion."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from gpuengine.kernels.cpu.locator import RowLocator
from gpuengine.kernels.cpu.rows import Batch, Rows
from gpuengine.kernels.primitives import NONE

_FEW = 1000


class Derivation(IntEnum):
    """Which instances are counted: of rules that read no relation of their head's stratum, or of others."""

    NONRECURSIVE = 0
    RECURSIVE = 1


class Counters:
    """The counters C_nr and C_r of the facts of one relation (section 4.2 of the modular paper).

    Facts without derivations have no counters, or 0; facts that are not there any more may have some: those
    that were overdeleted keep theirs. Each change costs what it changes.
    """

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self._rows = Rows(arity)
        self._locator = RowLocator(self._rows)
        self._counts = np.zeros((len(Derivation), 16), np.int64)

    @property
    def nbytes(self) -> int:
        return int(self._rows.nbytes + self._locator.nbytes + self._counts.nbytes)

    def of(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The counters of the given facts: an array (2, count)."""
        places = self._locator.locate(Batch(columns, count), 0, count)
        is_known = places != NONE
        counts = np.zeros((len(Derivation), count), np.int64)
        counts[:, is_known] = self._counts[:, places[is_known]]
        return counts

    def add(
        self, kind: Derivation, columns: Sequence[np.ndarray], count: int, derivations: np.ndarray
    ) -> None:
        """Add to one of the counters of distinct facts; what is added may be negative."""
        places = self._locator.locate(Batch(columns, count), 0, count)
        missing = places == NONE
        fresh = int(np.count_nonzero(missing))
        if fresh:
            first = self._rows.count
            self._rows.append([np.asarray(column)[missing] for column in columns], fresh)
            self._locator.append(first, first + fresh)
            places[missing] = np.arange(first, first + fresh, dtype=np.uint32)
            self._grow()
        self._counts[kind, places] += derivations
        assert (self._counts[kind, places] >= 0).all(), "a derivation went that had not been counted"
        if fresh == 0:
            self._tidy_up()

    def _grow(self) -> None:
        if self._rows.count > self._counts.shape[1]:
            larger = np.zeros((len(Derivation), max(self._rows.count, 2 * self._counts.shape[1])), np.int64)
            larger[:, : self._counts.shape[1]] = self._counts
            self._counts = larger

    def _tidy_up(self) -> None:
        """Forget facts whose counters are all 0, once they are many."""
        used = self._rows.count
        if used < _FEW:
            return
        kept = np.flatnonzero(self._counts[:, :used].any(axis=0))
        if 2 * len(kept) > used:
            return
        columns = [column[kept] for column in self._rows.columns()]
        counts = self._counts[:, kept]
        self._rows = Rows(self.arity, len(kept))
        self._rows.append(columns, len(kept))
        self._locator = RowLocator(self._rows)
        self._locator.append(0, len(kept))
        self._counts = np.zeros((len(Derivation), max(len(kept), 16)), np.int64)
        self._counts[:, : len(kept)] = counts

    def all(self) -> dict[tuple[int, ...], tuple[int, int]]:
        """The counters that are not all 0, by fact; for comparisons."""
        rows = zip(*(column.tolist() for column in self._rows.columns()), strict=True)
        counts = self._counts[:, : self._rows.count].T.tolist()
        named = rows if self.arity else [()] * self._rows.count
        return {row: (one, other) for row, (one, other) in zip(named, counts, strict=True) if one or other}
