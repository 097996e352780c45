"""Relations that keep for each key what all values come to, while they are maintained: joins and sums.

What comes is joined to the fact of its key, or added to it; what the fact was stays until the stratum is
done, as that of `merged`. What goes may have been part of any fact of its key: the fact goes, and is made
anew by the rules, restricted to such keys, and of what is stated.

Of sums the contributions are kept from one update to the next, so that a binding which is found again is not
added again; a key that is gone begins with none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from gpuengine.evaluation.driver.contributions import Contributions
from gpuengine.evaluation.driver.folding import fold, without_bottoms
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.cpu.groups import KeyNumbers
from gpuengine.language.monotony import Merges
from gpuengine.language.program import Merge, Rule, Variable
from gpuengine.loading import Facts
from gpuengine.maintenance.merged import KeptFacts
from gpuengine.schemes.contract import Columns
from gpuengine.schemes.table import Table


class JoinedFacts(KeptFacts):
    """Keeps the join of the values of each column that has one."""

    def __init__(self, name: str, joins: Sequence[Merge], database: Database) -> None:
        super().__init__(name, [one.column for one in joins], database)
        self._joins = sorted(joins, key=lambda one: one.column)

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        if rows:
            columns = without_bottoms(columns, rows, self._joins, self.database.dictionary)
            super().offer(columns, len(columns[0]), rule)

    def apply(self) -> bool:
        columns = self.waiting()
        if not columns:
            return False
        count = len(columns[0])
        distinct = KeyNumbers(max(1, len(self.keys)))
        key = [columns[column] for column in self.keys] or [np.zeros(count, np.uint32)]
        numbers = distinct.number(key, count).astype(np.int64)
        made = [np.zeros(len(distinct), np.uint32) for _ in columns]
        for place, column in enumerate(self.keys):
            made[column] = distinct.rows.column(place).copy()
        places, facts = self.of_keys(self.table, made, len(distinct))
        is_other = np.ones(len(distinct), np.bool_)
        is_other[places] = False
        order = np.argsort(np.concatenate([places, numbers]), kind="stable")
        together = np.concatenate([places, numbers])[order]
        there = np.argsort(places, kind="stable")
        for merge in self._joins:
            column, dictionary = merge.column, self.database.dictionary
            type_ = self.types[column]
            offered = np.concatenate([facts[column], columns[column]])[order]
            made[column] = fold(merge, type_, together, offered, dictionary)
            before = fold(merge, type_, places[there], facts[column][there], dictionary)
            known = np.unique(places)
            is_other[known] |= made[column][known] != before
        if not is_other.any():
            return False
        worse = is_other[places]
        return self.replace([column[worse] for column in facts], [column[is_other] for column in made])


class SummedFacts(KeptFacts):
    """Keeps the sum of the contributions, which are counted by `recount` before anything is offered."""

    stays_when_stated = False

    def __init__(
        self, name: str, merge: Merge, database: Database, moving: Merges, originals: Mapping[Rule, Rule]
    ) -> None:
        super().__init__(name, [merge.column], database)
        self.contributions = Contributions(name, database, merge, moving, originals)
        self._is_counted = False

    @property
    def is_counted(self) -> bool:
        """Are the contributions those of what the table holds, and most of what is kept contributions?"""
        return self._is_counted and not self.contributions.is_wasteful

    def begin_counting(self, stated: Iterable[Facts]) -> None:
        """What is stated counts; what the rules derive of a complete materialisation is to be offered."""
        self.contributions.clear()
        for columns, count in stated:
            self.contributions.offer(columns, count)

    def end_counting(self) -> None:
        self.contributions.moved()
        self._is_counted = True

    def besides(self, rule: Rule) -> tuple[Variable, ...]:
        return self.contributions.besides(rule)

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        self.contributions.offer(columns, rows, rule)

    def start_again(self, stated: Table, gone: Table) -> None:
        self.contributions.lose(gone.columns(), len(gone))
        super().start_again(stated, gone)

    def apply(self) -> bool:
        moved = self.contributions.moved()
        if not len(moved.numbers):
            return False
        known = moved.before >= 0
        worse = self._facts([key[known] for key in moved.keys], moved.before[known].astype(np.uint32))
        return self.replace(worse, self._facts(moved.keys, moved.ids))

    def forget(self) -> None:
        super().forget()
        self._is_counted = False

    def _facts(self, keys: Sequence[np.ndarray], ids: np.ndarray) -> list[np.ndarray]:
        parts = iter(keys)
        return [ids if column in self.values else next(parts) for column in range(len(self.types))]
