"""The facts that hold because they are stated, whatever the rules derive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Alias
from gpuengine.loading import Facts
from gpuengine.maintenance.delta import Delta, Deltas
from gpuengine.schemes.table import Table

_MANY, _FEW = 8, 10_000
"""If so many of them go, one in eight, it is faster to go through all facts."""


class StatedFacts:
    """The stated facts of each relation; those of an alias count for the relation that it stands for.

    `apply` changes them; `undo` takes back what was applied since the last `keep`, which `done` lists.
    """

    def __init__(self, facts: Mapping[str, Table], aliases: Mapping[str, Alias]) -> None:
        self.tables = facts
        self.aliases = aliases
        self._of: dict[str, list[str]] = {}
        for name, alias in aliases.items():
            self._of.setdefault(alias.of, []).append(name)
        self.done: list[Delta] = []
        for table in facts.values():
            table.maintained = True

    def facts(self, relation: str) -> Iterator[Facts]:
        """The facts stated for a relation that is stored."""
        yield self.tables[relation].columns(), len(self.tables[relation])
        for name in self._of.get(relation, ()):
            table = self.tables[name]
            yield [table.column(j) for j in self.aliases[name].permutation], len(table)

    def contains(self, relation: str, columns: list[np.ndarray], count: int) -> np.ndarray:
        """Which facts of a relation that is stored are stated, for it or for an alias: a mask."""
        mask = _contains(self.tables[relation], columns, count)
        for name in self._of.get(relation, ()):
            permuted = [columns[self.aliases[name].permutation.index(j)] for j in range(len(columns))]
            mask |= _contains(self.tables[name], permuted, count)
        return mask

    def apply(self, asked: Deltas) -> dict[str, Delta]:
        """State other facts; what is stated no longer and what is now, by the relation that is stored."""
        lost: dict[str, list[Facts]] = {}
        gained: dict[str, list[Facts]] = {}
        for name, delta in asked.items():
            table = self.tables[name]
            gone = _take_out(table, *delta.minus_facts)
            self.done.append(Delta.listed(name, table.arity, gone))
            come = _add(table, *delta.plus_facts)
            self.done[-1] = Delta.listed(name, table.arity, gone, come)
            table.take_in()
            for by_relation, (columns, count) in ((lost, gone), (gained, come)):
                if count:
                    stored, columns = self._stored(name, columns)
                    by_relation.setdefault(stored, []).append((columns, count))
        return {
            name: Delta.listed(
                name,
                self.tables[name].arity,
                self._no_longer_stated(name, lost.get(name, [])),
                _joined(gained.get(name, [])),
            )
            for name in dict.fromkeys((*lost, *gained))
        }

    def undo(self) -> None:
        """Take back what was applied since the last `keep`."""
        done, self.done = self.done, []
        for delta in reversed(done):
            table = self.tables[delta.relation]
            _take_out(table, *delta.plus_facts)
            _add(table, *delta.minus_facts)
            table.take_in()
        for table in self.tables.values():
            table.settle()  # what was about to go when it failed, stays

    def keep(self) -> None:
        """What was applied stands."""
        self.done = []

    def _stored(self, name: str, columns: list[np.ndarray]) -> tuple[str, list[np.ndarray]]:
        alias = self.aliases.get(name)
        if alias is None:
            return name, columns
        return alias.of, [columns[j] for j in alias.permutation]

    def _no_longer_stated(self, relation: str, facts: list[Facts]) -> Facts:
        """Those of the facts that were taken out which no alias states either."""
        columns, count = _joined(facts)
        if relation not in self._of or not count:
            return columns, count
        kept = ~self.contains(relation, columns, count)
        return [column[kept] for column in columns], int(np.count_nonzero(kept))


def _contains(table: Table, columns: list[np.ndarray], count: int) -> np.ndarray:
    return table.contains(columns, count) if len(table) else np.zeros(count, np.bool_)


def _take_out(table: Table, columns: list[np.ndarray], count: int) -> Facts:
    """Remove those of the facts that are there; which they were."""
    if count * _MANY >= max(len(table), _FEW) and table.arity and table.backend.on_host:
        return _sift_out(table, columns, count)
    if not count or not table.delete(columns, count):
        return [], 0
    start, end = table.rows.delta
    gone = table.between(start, end)
    table.take_back()
    table.refresh_indexes()
    return gone, end - start


def _sift_out(table: Table, columns: list[np.ndarray], count: int) -> Facts:
    """The same, going through all facts of the table once."""
    going = Table(table.name, table.arity, CPU)
    going.insert(columns, count)
    goes = np.asarray(going.keyset.contains(table.rows, 0, len(table)))
    gone = [column[goes] for column in table.columns()]
    table.keep(~goes)
    return gone, int(np.count_nonzero(goes))


def _add(table: Table, columns: list[np.ndarray], count: int) -> Facts:
    """Add those of the facts that are not there, to be taken in; which they were."""
    before = len(table)
    if not count or not table.insert(columns, count):
        return [], 0
    come = table.between(before, len(table))
    return come, len(table) - before


def _joined(facts: list[Facts]) -> Facts:
    columns = [np.concatenate(parts) for parts in zip(*(columns for columns, _ in facts), strict=True)]
    return columns, sum(count for _, count in facts)
