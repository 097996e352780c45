"""Whether columns have negative values, while facts come and go."""

from __future__ import annotations

import numpy as np

from gpuengine.evaluation.rules.database import Database
from gpuengine.maintenance.update_deltas import UpdateDeltas
from gpuengine.planning.decline import Column
from gpuengine.schemes.contract import Scheme


class Signs:
    """Counts the negative values of columns, NaN included: when first asked, then by what changes.

    `columns` None stands for a condition that can't be met.
    """

    def __init__(self, columns: frozenset[Column] | None, database: Database) -> None:
        self._columns = columns
        self._database = database
        self._negative: dict[Column, int] = {}

    def were_right(self, deltas: UpdateDeltas) -> bool:
        """Had no column a negative value, before an update?"""
        if self._columns is None:
            return False
        for column in self._columns - self._negative.keys():
            now = self._count(column, self._database.tables[column[0]])
            self._negative[column] = now - self._gain(column, deltas)
        return not any(self._negative.values())

    def follow(self, deltas: UpdateDeltas) -> None:
        """The update has been made."""
        for column in self._negative:
            self._negative[column] += self._gain(column, deltas)

    def forget(self) -> None:
        """Count anew when asked."""
        self._negative.clear()

    def _gain(self, column: Column, deltas: UpdateDeltas) -> int:
        relation = column[0]
        come, gone = deltas.plus(relation), deltas.minus(relation)
        return (self._count(column, come) if come is not None else 0) - (
            self._count(column, gone) if gone is not None else 0
        )

    def _count(self, column: Column, facts: Scheme) -> int:
        relation, place = column
        type = self._database.program.relations[relation].attributes[place].type
        total = 0
        for batch in facts.scan():
            values = self._database.dictionary.values(type.space, batch[place])
            total += int(np.count_nonzero(~(values >= 0)))
        return total
