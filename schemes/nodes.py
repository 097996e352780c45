"""Ids of values as nodes of a graph: numbered 0, 1, ... as they appear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cpu.position_reads import look_up
from gpuengine.kernels.primitives import NONE

_SPREAD = 16
"""Ids are looked up by address if their range is at most so many times their number, else by bisection."""
_SMALL_RANGE = 1 << 16


class Nodes:
    """The nodes that ids stand for; `ids` has the id of each.

    A look-up is one read where ids lie close together, and logarithmic where they do not. Others may look up
    while nodes are added: they may get nodes that are younger than what they look at.
    """

    def __init__(self) -> None:
        self.ids = np.empty(0, np.uint32)
        self._look_up: _ByAddress | _Bisection = _ByAddress(0, 0, self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes + self._look_up.nbytes)

    @property
    def table(self) -> tuple[np.ndarray | None, np.ndarray, int, int]:
        """What ids are looked up in: ids in ascending order, or None; nodes; the first one's id; how many.

        Without ids, the node of an id is as far from the first as the id is. Nodes are added in place.
        """
        by = self._look_up
        if isinstance(by, _ByAddress):
            return None, by.nodes, by.low, len(self.ids)
        return by.ids, by.nodes, 0, len(self.ids)

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The node of each id, NONE for those that have none."""
        return self._look_up.find(np.ascontiguousarray(ids, np.uint32))

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
            self._look_up = self._addressed(fresh, first, low, high)
        else:
            order = np.argsort(self.ids).astype(np.uint32)
            self._look_up = _Bisection(self.ids[order], order)

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

    def _addressed(self, fresh: np.ndarray, first: int, low: int, high: int) -> _ByAddress:
        before = self._look_up
        if isinstance(before, _ByAddress) and (low, high) == (before.low, before.high):
            nodes = before.nodes
        else:
            nodes = np.full(high - low, NONE, np.uint32)
            nodes[self.ids[:first] - np.uint32(low)] = np.arange(first, dtype=np.uint32)
        nodes[fresh - np.uint32(low)] = np.arange(first, len(self.ids), dtype=np.uint32)
        return _ByAddress(low, high, nodes)


@dataclass(frozen=True, slots=True)
class _ByAddress:
    """The nodes of the ids low, low + 1, ... below high."""

    low: int
    high: int
    nodes: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.nodes.nbytes

    def find(self, ids: np.ndarray) -> np.ndarray:
        numbers = np.empty(len(ids), np.uint32)
        look_up(ids, len(ids), self.low, self.high, self.nodes, numbers)
        return numbers


@dataclass(frozen=True, slots=True)
class _Bisection:
    """Ids in ascending order, with the node of each."""

    ids: np.ndarray
    nodes: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.nodes.nbytes

    def find(self, ids: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        numbers = self.nodes[at]
        numbers[self.ids[at] != ids] = NONE
        return numbers
