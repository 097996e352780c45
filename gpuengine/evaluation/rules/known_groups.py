"""What an aggregate gives for groups that were asked for before in the same run of a body.

    r(c, n) :- t(_, b, c), n = count : { t(_, b, c) }.

Bindings come in chunks, and the same groups come in many of them: each is evaluated once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_MOST = 1 << 20
"""How many groups are remembered: more would take long to look up, and come back more rarely."""
_RARE = 16
"""If fewer than one group in so many was known before, none are remembered any more."""


class _Codes:
    """Numbers, in the order of their arrival, for keys of 64 bits."""

    def __init__(self) -> None:
        self._keys = np.zeros(0, np.uint64)
        self._codes = np.zeros(0, np.int64)

    def find(self, keys: np.ndarray) -> np.ndarray:
        """The number of each key, -1 of those that have none."""
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._codes[at], -1)

    def add(self, keys: np.ndarray) -> np.ndarray:
        """The number of each key, of those that have none a new one."""
        codes = self.find(keys)
        new = np.unique(keys[codes < 0])
        if not len(new):
            return codes
        at = np.searchsorted(self._keys, new)
        numbers = np.arange(len(self._keys), len(self._keys) + len(new), dtype=np.int64)
        self._keys = np.insert(self._keys, at, new)
        self._codes = np.insert(self._codes, at, numbers)
        return self.find(keys)


class KnownGroups:
    """Results of one aggregate by the ids of its outer variables, while what it reads stays as it is."""

    def __init__(self, width: int) -> None:
        self._levels = [_Codes() for _ in range(max(width - 1, 1))]
        self._results = np.zeros(0, np.uint32)
        self._holds = np.zeros(0, np.bool_)
        self._asked = self._hits = 0
        self._is_worth_it = width > 0

    def find(self, columns: Sequence[np.ndarray], groups: int) -> np.ndarray:
        """Where the results of groups are, -1 of those that are not known; each group is there once."""
        if not self._is_worth_it:
            return np.full(groups, -1, np.int64)
        codes = _key(columns[0], columns[1] if len(columns) > 1 else None)
        codes = self._levels[0].find(codes)
        for level, column in zip(self._levels[1:], columns[2:], strict=True):
            codes = np.where(codes < 0, -1, level.find(_key(codes, column)))
        hits = int(np.count_nonzero(codes >= 0))
        self._is_worth_it = self._asked == 0 or _RARE * (self._hits + hits) >= self._asked
        self._asked += groups
        self._hits += hits
        return codes

    def results(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ids of results, whether the aggregate holds) of known groups."""
        return self._results[codes], self._holds[codes]

    def add(self, columns: Sequence[np.ndarray], results: np.ndarray, holds: np.ndarray) -> None:
        """Remember the results of groups that are not known, if there is room."""
        if not self._is_worth_it or len(self._results) + len(results) > _MOST:
            return
        codes = self._levels[0].add(_key(columns[0], columns[1] if len(columns) > 1 else None))
        for level, column in zip(self._levels[1:], columns[2:], strict=True):
            codes = level.add(_key(codes, column))
        order = np.argsort(codes)  # all are new, so they are the next numbers
        self._results = np.concatenate([self._results, results[order]])
        self._holds = np.concatenate([self._holds, holds[order]])


def _key(high: np.ndarray, low: np.ndarray | None) -> np.ndarray:
    if low is None:
        return high.astype(np.uint64)
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
