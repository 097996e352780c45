"""Ids of values as nodes of a graph: numbered 0, 1, ... as they appear."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.position_reads import look_up
from gpuengine.kernels.primitives import NONE

_SPREAD = 16
"""Ids are looked up by address if their range is at most so many times their number, else by bisection."""
_SMALL_RANGE = 1 << 16


class Nodes:
    """The nodes that ids stand for; `ids` has the id of each.

    A look-up is one read where ids lie close together, and logarithmic where they do not.
    """

    def __init__(self) -> None:
        self.ids = np.empty(0, np.uint32)
        self._low = self._high = 0
        self._by_address: np.ndarray | None = np.empty(0, np.uint32)
        self._sorted = self._order = self.ids

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        arrays = [self.ids, self._sorted, self._order]
        return sum(a.nbytes for a in arrays) + (
            self._by_address.nbytes if self._by_address is not None else 0
        )

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The node of each id, NONE for those that have none."""
        ids = np.ascontiguousarray(ids, np.uint32)
        found = np.empty(len(ids), np.uint32)
        if self._by_address is not None:
            look_up(ids, len(ids), self._low, self._high, self._by_address, found)
            return found
        at = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        np.copyto(found, self._order[at])
        found[self._sorted[at] != ids] = NONE
        return found

    def add(self, ids: np.ndarray) -> None:
        """Make nodes of the ids that are none yet, in ascending order."""
        if not len(ids):
            return
        fresh = self._missing(ids)
        if not len(fresh):
            return
        first = len(self.ids)
        self.ids = np.concatenate([self.ids, fresh])
        low, high = int(self.ids.min()), int(self.ids.max()) + 1
        if high - low <= max(_SPREAD * len(self.ids), _SMALL_RANGE):
            self._address(fresh, first, low, high)
        else:
            self._by_address = None
            self._order = np.argsort(self.ids).astype(np.uint32)
            self._sorted = self.ids[self._order]
        self._low, self._high = low, high

    def _missing(self, ids: np.ndarray) -> np.ndarray:
        """The ids that have no node, each once, ascending."""
        unknown = ids[self.find(ids) == NONE] if len(self.ids) else ids
        if not len(unknown):
            return unknown
        low, high = int(unknown.min()), int(unknown.max()) + 1
        if high - low > max(_SPREAD * len(unknown), _SMALL_RANGE):
            return np.unique(unknown)
        there = np.zeros(high - low, np.bool_)
        there[unknown - np.uint32(low)] = True
        return (np.flatnonzero(there) + low).astype(np.uint32)

    def _address(self, fresh: np.ndarray, first: int, low: int, high: int) -> None:
        known = self._by_address
        if known is None or (low, high) != (self._low, self._high):
            known = np.full(high - low, NONE, np.uint32)
            known[self.ids[:first] - np.uint32(low)] = np.arange(first, dtype=np.uint32)
        known[fresh - np.uint32(low)] = np.arange(first, len(self.ids), dtype=np.uint32)
        self._by_address = known
        self._sorted = self._order = np.empty(0, np.uint32)
