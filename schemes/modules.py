"""Modules on tables: transitivity, and symmetry with transitivity, without looking at every rule instance.

After the modular materialisation paper. A module closes a table under its rules: `add` for facts that came
(Definition 3), `delete` for facts that go (Definition 6) and `rederive` for those that follow from what is
left (Definition 7). It changes no table but its own; the caller inserts and removes what it returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from gpuengine.schemes.contract import Columns, Domain
from gpuengine.schemes.equivalence import Equivalence
from gpuengine.schemes.table import Table

HasOther = Callable[[Columns, int], np.ndarray]
"""Which rows rules outside the recursion derive as well (their nonrecursive counter is not 0): a mask."""
Pairs = list[np.ndarray]


class Module(ABC):
    """Closes `table` under the rules that it stands for."""

    table: Table

    @abstractmethod
    def add(self, facts: Columns, count: int) -> Pairs:
        """What follows, in any number of steps, from facts that were added to the table and is not there."""

    @abstractmethod
    def delete(self, facts: Columns, count: int, has_other: HasOther) -> Pairs:
        """What else of the table goes, at least for now, when `facts` of it do.

        Facts that `has_other` speaks for stay, and nothing goes on their account.
        """

    @abstractmethod
    def rederive(self, facts: Columns, count: int) -> Pairs:
        """Those of the deleted facts that follow from what is left; the table has lost them by now."""


class TransitiveModule(Module):
    """R(x, z) :- R(x, y), R(y, z), with the *external* facts, which others derived, on one side (section 5).

    A chain of external facts leads to every fact, so that a fact is found once for each external fact
    that can begin its chain, not once for each node on the way.
    """

    def __init__(self, table: Table, external: str = "external") -> None:
        self.table = table
        self.external = Table(external, 2, table.backend)

    def add(self, facts: Columns, count: int) -> Pairs:
        """Algorithm 4."""
        self.external.insert(facts, count)
        self.external.settle()
        self.table.settle()
        known = Table("found", 2, self.table.backend)
        first = _composed(facts, self.table)
        frontier = [np.concatenate(pair) for pair in zip(facts, first, strict=True)]
        _keep_new(first, known, self.table)
        while len(frontier[0]):
            found = _preceded(frontier, self.external)
            frontier = _keep_new(found, known, self.table)
        return _rows_of(known)

    def delete(self, facts: Columns, count: int, has_other: HasOther) -> Pairs:
        """Algorithm 5."""
        self.external.delete(facts, count)
        self.external.remove()
        self.external.forget()
        seen = Table("seen", 2, self.table.backend)
        seen.insert(facts, count)
        going = Table("going", 2, self.table.backend)
        frontier = [*map(np.asarray, facts)]
        found = _composed(facts, self.table)
        while True:
            fresh = _keep_known(found, seen, self.table)
            if len(fresh[0]):
                lost = ~has_other(fresh, len(fresh[0]))
                going.insert([column[lost] for column in fresh], int(np.count_nonzero(lost)))
            frontier = [np.concatenate(pair) for pair in zip(frontier, fresh, strict=True)]
            if not len(frontier[0]):
                return _rows_of(going)
            found = _preceded(frontier, self.external)
            frontier = [np.empty(0, np.uint32)] * 2

    def rederive(self, facts: Columns, count: int) -> Pairs:
        """Algorithm 6: what each beginning of a deleted fact reaches by external facts."""
        reached = Table("reached", 2, self.table.backend)
        sources = np.unique(facts[0])
        frontier: Pairs = [sources, sources]
        while len(frontier[0]):
            found = [np.empty(0, np.uint32)] * 2
            if len(self.external):
                parts = list(self.external.expand({0: frontier[1]}, len(frontier[1])))
                found = _joined([[frontier[0][places], targets] for places, (targets,) in parts])
            frontier = _keep_new(found, reached, None)
        kept = reached.contains(facts, count) if len(reached) else np.zeros(count, np.bool_)
        return [np.asarray(column)[kept] for column in facts]


class SymmetricTransitiveModule(Module):
    """Symmetry and transitivity by connected components (section 6)."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.components = Equivalence(table.name)
        self._kept: list[Pairs] = []

    def add(self, facts: Columns, count: int) -> Pairs:
        """Algorithm 7."""
        return self._closed(facts, count)

    def delete(self, facts: Columns, count: int, has_other: HasOther) -> Pairs:
        """Algorithm 8: every pair of a component that loses a fact goes, unless others derive it."""
        members = np.unique(np.concatenate([np.asarray(column) for column in facts]))
        touched = _joined(
            [[members[places], ids] for places, (ids,) in self.components.expand({0: members}, len(members))]
        )
        inside = np.unique(touched[1])
        pairs = _joined(
            [[inside[places], ids] for places, (ids,) in self.components.expand({0: inside}, len(inside))]
        )
        edges = self.components.edges
        within = np.isin(edges[0], inside)
        self.components.delete([edge[within] for edge in edges], int(np.count_nonzero(within)))
        self.components.remove()
        self.components.forget()
        stays = has_other(pairs, len(pairs[0]))
        self._kept.append([column[stays] for column in pairs])
        scheduled = Table("facts", 2, self.table.backend)
        scheduled.insert(facts, count)
        goes = ~stays & ~scheduled.contains(pairs, len(pairs[0]))
        return [column[goes] for column in pairs]

    def rederive(self, facts: Columns, count: int) -> Pairs:
        """Algorithm 9."""
        kept, self._kept = _joined(self._kept), []
        closed = Table("closed", 2, self.table.backend)
        found = self._closed(kept, len(kept[0]))
        closed.insert(found, len(found[0]))
        again = closed.contains(facts, count)
        return [np.asarray(column)[again] for column in facts]

    def _closed(self, facts: Columns, count: int) -> Pairs:
        """The pairs that facts add to the components, without those that the table has."""
        self.components.insert(facts, count)
        self.components.advance()
        found = _joined(list(self.components.scan(Domain.NEW)))
        self.components.settle()
        if not len(found[0]):
            return found
        new = ~self.table.contains(found, len(found[0]))
        return [column[new] for column in found]


def _rows_of(table: Table) -> Pairs:
    """The rows of a table that won't live on."""
    return [column.copy() for column in table.columns()]


def _joined(parts: list[Pairs]) -> Pairs:
    if not parts:
        return [np.empty(0, np.uint32), np.empty(0, np.uint32)]
    return [np.concatenate([part[side] for part in parts]) for side in (0, 1)]


def _composed(facts: Columns, table: Table) -> Pairs:
    """(u, w) for each fact (u, v) and (v, w) of a table."""
    if not len(facts[0]) or not len(table):
        return _joined([])
    matches = table.expand({0: np.asarray(facts[1])}, len(facts[1]))
    return _joined([[np.asarray(facts[0])[places], ids] for places, (ids,) in matches])


def _preceded(facts: Columns, external: Table) -> Pairs:
    """(u, w) for each external (u, v) and fact (v, w)."""
    if not len(external):
        return _joined([])
    matches = external.expand({1: np.asarray(facts[0])}, len(facts[0]))
    return _joined([[ids, np.asarray(facts[1])[places]] for places, (ids,) in matches])


def _keep_new(found: Pairs, known: Table, table: Table | None) -> Pairs:
    """Those in neither table, each once; they are put into `known`."""
    if table is not None and len(found[0]):
        new = ~table.contains(found, len(found[0]))
        found = [column[new] for column in found]
    before = len(known)
    known.insert(found, len(found[0]))
    return [column[before:].copy() for column in known.columns()]


def _keep_known(found: Pairs, seen: Table, table: Table) -> Pairs:
    """Those in the table that were not seen yet, each once; they are then."""
    if len(found[0]):
        there = table.contains(found, len(found[0]))
        found = [column[there] for column in found]
    return _keep_new(found, seen, None)
