"""Relations that keep the best value of each key, while they are maintained.

What rules derive and users state is offered, and at the end of a round what betters the fact of its key is
added to the table as the next delta. What was bettered stays until the stratum is done: as the recursion is
monotone, all that follows from it follows from what is better.

If values only get worse from premise to conclusion (`planning.decline`), a fact loses its witness when an
instance goes that derives its value. Otherwise it may have come from a worse fact of a key, which the table
does not know any more: it goes whenever an instance goes that derives any value for its key.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Merge, Rule, Variable
from gpuengine.loading import Facts
from gpuengine.schemes.contract import Columns
from gpuengine.schemes.table import Table, as_table
from gpuengine.schemes.table_reads import is_row_of
from gpuengine.terms.ranks import merits


class KeptFacts:
    """The facts of one relation: `offer` in a round, `apply` at its end, `bettered` when there is no more.

    `values` are the columns of which one value stays for each key. A fact that is stated stays whatever is
    derived, if it `stays_when_stated`; what goes takes out the facts of its key if that is said, or if it
    is `always_by_key`.
    """

    stays_when_stated = True
    always_by_key = True

    def __init__(self, name: str, values: Collection[int], database: Database) -> None:
        self.name = name
        self.database = database
        self.values = sorted(values)
        self.types = [attribute.type for attribute in database.program.relations[name].attributes]
        self.keys = [column for column in range(len(self.types)) if column not in self.values]
        self._waiting: list[list[np.ndarray]] = []
        self._bettered: list[list[np.ndarray]] = []

    @property
    def table(self) -> Table:
        return as_table(self.database.tables[self.name])

    def besides(self, rule: Rule) -> tuple[Variable, ...]:
        """The variables of a rule that tell apart what is offered, but do not stand in its head."""
        return ()

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        """Facts that are derived or stated; they count from the end of the round on."""
        if rows:
            self._waiting.append([np.array(column[:rows], np.uint32) for column in columns])

    def start_again(self, stated: Table, gone: Table) -> None:
        """Some facts are gone: what is stated of their keys may be what holds now."""
        if len(stated) and len(gone):
            stated.take_in()  # indexes have what is settled
            _, columns = self.of_keys(stated, gone.columns(), len(gone))
            self.offer(columns, len(columns[0]))

    def current(self, columns: Columns, count: int) -> Facts:
        """The facts that the table has for the keys of the given ones; distinct, if those are."""
        _, facts = self.of_keys(self.table, columns, count)
        return _distinct(facts)

    def apply(self) -> bool:
        """Add to the table what is better than what it has; does it admit more ids than before?"""
        raise NotImplementedError

    def bettered(self) -> Facts:
        """The facts of the table for the keys of which there are better ones by now."""
        batches, self._bettered = self._bettered, []
        if not batches:
            return [], 0
        return _distinct([np.concatenate(parts) for parts in zip(*batches, strict=True)])

    def forget(self) -> None:
        """The update has failed."""
        self._waiting, self._bettered = [], []

    def waiting(self) -> list[np.ndarray]:
        """What was offered since the last time, if anything was."""
        columns = [np.concatenate(parts) for parts in zip(*self._waiting, strict=True)]
        self._waiting = []
        return columns

    def replace(self, worse: Sequence[np.ndarray], better: Sequence[np.ndarray]) -> bool:
        """Facts that are bettered, and facts that the table has not; does it admit more ids than before?"""
        if len(worse[0]):
            self._bettered.append(list(worse))
        table = self.table
        bounds = list(table.bounds)
        table.insert(list(better), len(better[0]))
        return list(table.bounds) != bounds

    def of_keys(self, table: Table, columns: Columns, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """The facts of a table for the keys of the given ones, and to which of them each belongs."""
        arity = len(columns)
        places, facts = [np.zeros(0, np.int64)], [[np.zeros(0, np.uint32)] * arity]
        if not self.keys:
            places.append(np.repeat(np.arange(count), len(table)))
            facts.append([np.tile(column, count) for column in table.columns()])
        elif count and len(table):
            bound = {key: np.ascontiguousarray(columns[key], np.uint32) for key in self.keys}
            for place, found in table.expand(bound, count):
                places.append(place.astype(np.int64))
                rows = [columns[column][place] for column in range(arity)]
                for column, values in zip(self.values, found, strict=True):
                    rows[column] = values
                facts.append(rows)
        return np.concatenate(places), [np.concatenate(parts) for parts in zip(*facts, strict=True)]


class MergedFacts(KeptFacts):
    """Keeps the best value."""

    always_by_key = False

    def __init__(self, name: str, merge: Merge, database: Database) -> None:
        super().__init__(name, [merge.column], database)
        self._value = merge.column
        self._largest = merge.op == "max"

    def apply(self) -> bool:
        columns = self.waiting()
        if not columns:
            return False
        count = len(columns[0])
        places, facts = self.of_keys(self.table, columns, count)
        ids = columns[self._value]
        merit = merits(
            np.concatenate([ids, facts[self._value]]),
            self.types[self._value],
            self.database.dictionary,
            largest=self._largest,
        )
        offered, there = merit[:count], merit[count:]
        is_best = np.ones(count, np.bool_)
        np.logical_and.at(is_best, places, offered[places] < there)
        order = np.flatnonzero(is_best)
        order = order[np.lexsort((offered[order], *(columns[key][order] for key in self.keys)))]
        first = np.ones(len(order), np.bool_)
        if len(order):
            first[1:] = False
            for key in self.keys:
                first[1:] |= columns[key][order[1:]] != columns[key][order[:-1]]
        chosen = order[first]
        if not len(chosen):
            return False
        is_chosen = np.zeros(count, np.bool_)
        is_chosen[chosen] = True
        worse = is_chosen[places]
        return self.replace([column[worse] for column in facts], [column[chosen] for column in columns])


def _distinct(columns: list[np.ndarray]) -> Facts:
    if not len(columns[0]):
        return columns, 0
    distinct, count = CPU.distinct_rows(columns, len(columns[0]))
    return [np.asarray(column) for column in distinct], count


def old_of(facts: Facts, tail: Columns) -> Facts:
    """Those of the facts that are not among the last rows of a table."""
    columns, count = facts
    if not count or not len(tail[0]):
        return facts
    kept = ~is_row_of(columns, tail)
    return [column[kept] for column in columns], int(np.count_nonzero(kept))
