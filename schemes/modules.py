"""Modules on tables: transitivity, and symmetry with transitivity, without looking at every rule instance.

After the modular materialisation paper (Definition 3). `add` gives what follows, in any number of steps, from
facts that were added to the table and is not there yet. A module changes no table but its own; the caller
inserts what it returns.
"""

from __future__ import annotations

import numpy as np

from gpuengine.schemes.contract import Columns, Domain
from gpuengine.schemes.table import Table

Pairs = list[np.ndarray]


class TransitiveModule:
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
        implied = Table("found", 2, self.table.backend)
        first = _composed(facts, self.table)
        frontier = [np.concatenate(pair) for pair in zip(facts, first, strict=True)]
        _keep_new(first, implied, self.table)
        while len(frontier[0]):
            joined = _preceded(frontier, self.external)
            frontier = _keep_new(joined, implied, self.table)
        return implied.columns()


class SymmetricTransitiveModule:
    """Symmetry and transitivity by connected components (section 6)."""

    def __init__(self, table: Table) -> None:
        from gpuengine.schemes.equivalence import Equivalence

        self.table = table
        self.components = Equivalence(table.name)

    def add(self, facts: Columns, count: int) -> Pairs:
        """Algorithm 7: the pairs that facts add to the components, without those that the table has."""
        self.components.insert(facts, count)
        self.components.advance()
        pairs = _joined(list(self.components.scan(Domain.NEW)))
        self.components.settle()
        if not len(pairs[0]):
            return pairs
        new = ~self.table.contains(pairs, len(pairs[0]))
        return [column[new] for column in pairs]


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
