"""Tables that live as long as one evaluation of a rule, under names that no program can spell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from types import TracebackType

import numpy as np

from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import Backend
from gpuengine.schemes.table import Table

_NUMBERS = count()


class TemporaryTables:
    """``with TemporaryTables(database, backend) as tables:`` has tables in the database until the end."""

    def __init__(self, database: Database, backend: Backend) -> None:
        self._database = database
        self._backend = backend
        self._names: list[str] = []

    def __enter__(self) -> TemporaryTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._names:
            del self._database.tables[name]

    def empty(self, arity: int) -> Table:
        """A new table without facts."""
        table = Table(f"@temporary{next(_NUMBERS)}", arity, self._backend)
        self._database.tables[table.name] = table
        self._names.append(table.name)
        return table

    def holding(self, columns: Sequence[np.ndarray], rows: int) -> Table:
        """A new table with facts that are distinct, all of them OLD."""
        table = self.empty(len(columns))
        if self._backend.on_host and columns:
            table.restore(columns, rows)
        else:
            table.insert(columns, rows)
            table.settle()
        return table
