"""What a table was when a change of it began, while its rows are overwritten in place.

Facts that go are overwritten by others, and facts that come take the places of those that went. Whoever reads
meanwhile needs the rows as they were: what is overwritten is saved before, which costs what the change costs.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.contract import Backend, Rows
from gpuengine.schemes.contract import Bounds


class Undo:
    """Rows [0, `_whole`) are as they were but for places that were saved; the others, up to `count`, are
    saved. A place that was saved twice was first what it had been. For one thread at a time.
    """

    __slots__ = ("_saved", "_whole", "backend", "bounds", "count", "rows", "version")

    def __init__(self, backend: Backend, rows: Rows, bounds: Bounds, version: tuple[int, int]) -> None:
        """`version` is the table's, which begins with how many rows there are."""
        self.backend = backend
        self.rows = rows
        self.bounds = bounds
        self.version = version
        self.count = self._whole = version[0]
        self._saved: list[tuple[np.ndarray | slice, list[np.ndarray]]] = []

    @property
    def is_untouched(self) -> bool:
        """Have rows only been appended?"""
        return self._whole == self.count and not self._saved

    def save(self, places: np.ndarray, left: int) -> None:
        """Rows at `places` are about to be overwritten, and those from `left` on to be cut off."""
        columns, whole = self.rows.columns(), self._whole
        kept = places[places < min(left, whole)]
        if len(kept):
            self._saved.append((kept, [column[kept] for column in columns]))
        if left < whole:
            self._saved.append((slice(left, whole), [column[left:whole].copy() for column in columns]))
            self._whole = left

    def columns(self) -> list[np.ndarray]:
        """The rows as they were, copied."""
        columns = []
        for j in range(self.rows.arity):
            column = np.empty(self.count, np.uint32)
            column[: self._whole] = self.rows.column(j)[: self._whole]
            for places, values in reversed(self._saved):
                column[places] = values[j]
            columns.append(column)
        return columns
