"""The groups of an aggregate, and what it gives for each, in one run of a body.

    r(c, n) :- t(_, b, c), n = count : { t(_, b, c) }.

Bindings come in chunks, and the same groups come in many of them: each is evaluated once. So there is one
result for a group, also where another evaluation would round another way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.evaluation.rules.table_groups import TableGroups
from gpuengine.kernels.cpu.groups import KeyNumbers

_FIRST_ROOM = 64


class KnownGroups:
    """Results of one aggregate by the ids of its outer variables, while what it reads stays as it is.

    Groups have numbers, in the order in which they first came. Those from `evaluated` on have no result yet.
    `in_table` are those of a table, if that has been passed over for all of them.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.clear()

    def clear(self) -> None:
        """Know nothing any more."""
        self._keys = KeyNumbers(max(1, self._width))
        self._results = np.zeros(_FIRST_ROOM, np.uint32)
        self._holds = np.zeros(_FIRST_ROOM, np.bool_)
        self.evaluated = 0
        self.in_table: TableGroups | None = None

    def number(self, columns: Sequence[np.ndarray], rows: int) -> np.ndarray:
        """The number of each row's group; those that are not known get one."""
        return self._keys.number(columns or [np.zeros(rows, np.uint32)], rows)

    def new(self) -> tuple[list[np.ndarray], int]:
        """The groups that have no result yet: columns of ids in the order of their numbers, and how many."""
        columns = [self._keys.rows.column(j)[self.evaluated :] for j in range(self._width)]
        return columns, len(self._keys) - self.evaluated

    def add(self, results: np.ndarray, holds: np.ndarray) -> None:
        """The ids of the results of all groups that had none, and whether the aggregate holds."""
        known = len(self._keys)
        if known > len(self._results):
            self._results, self._holds = (
                np.concatenate([had, np.zeros(2 * known - len(had), had.dtype)])
                for had in (self._results, self._holds)
            )
        self._results[self.evaluated : known] = results
        self._holds[self.evaluated : known] = holds
        self.evaluated = known

    def results(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(ids of results, whether the aggregate holds) for groups by number."""
        return self._results[numbers], self._holds[numbers]
