"""A relation before or after a change, with the change as its NEW facts: what upper strata read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import numpy as np

from gpuengine.schemes.contract import BATCH, Columns, Domain, Scheme
from gpuengine.schemes.pairs import BACKWARD, FORWARD, Gone, PairScheme, Reading
from gpuengine.schemes.table import Table


class ReadOnly(Scheme):
    """What can't be written to."""

    def insert(self, columns: Columns, count: int) -> int:
        raise AssertionError(f"{self.name} is only read")

    def advance(self) -> int:
        raise AssertionError(f"{self.name} is only read")

    def renew(self) -> int:
        raise AssertionError(f"{self.name} is only read")

    def settle(self) -> None:
        """There is nothing to settle."""

    def delete(self, columns: Columns, count: int) -> int:
        raise AssertionError(f"{self.name} is only read")

    def remove(self) -> None:
        raise AssertionError(f"{self.name} is only read")

    def rederivable(self, columns: Columns, count: int) -> np.ndarray:
        """None: nothing is DELETED."""
        return np.zeros(count, np.bool_)

    def forget(self) -> None:
        """There is nothing to forget."""


class Changed(ReadOnly):
    """Reads `state`, of which the facts in `change` are NEW and the others OLD.

    The change is a settled table, a part of `state`, and found out when it is first asked for. Without
    `with_change`, ALL is only what is OLD.
    """

    kind = "changed"

    def __init__(self, state: Scheme, change: Callable[[], Table], *, with_change: bool = True) -> None:
        self.state = state
        self._find_change = change
        self.with_change = with_change
        self.name = state.name
        self.arity = state.arity

    @cached_property
    def change(self) -> Table:
        return self._find_change()

    @property
    def bounds(self) -> list[tuple[int, int]]:  # type: ignore[override]
        return self.state.bounds

    @property
    def host_nbytes(self) -> int:
        return self.change.host_nbytes

    @property
    def version(self) -> tuple[int, ...]:
        return (*self.state.version, *self.change.version, self.with_change)

    def count(self, domain: Domain) -> int:
        changed = len(self.change)
        if domain is Domain.NEW:
            return changed if self.with_change else 0
        total = len(self.state)
        return total if self._is_whole(domain) else total - changed

    def _is_whole(self, domain: Domain) -> bool:
        """Is the domain all of the state?"""
        return not len(self.change) or (domain is Domain.ALL and self.with_change)

    def distinct(self, column: int) -> float:
        return self.state.distinct(column)

    def contains(self, columns: Columns, count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        if domain is Domain.NEW:
            none = np.zeros(count, np.bool_)
            return self.change.contains(columns, count) if self.with_change else none
        found = self.state.contains(columns, count)
        if not self._is_whole(domain):
            found &= ~self.change.contains(columns, count)
        return found

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        if domain is Domain.NEW:
            if self.with_change and len(self.change):
                yield from self.change.expand(bound, count, Domain.ALL, room)
            return
        free = [column for column in range(self.arity) if column not in bound]
        for places, columns in self.state.expand(bound, count, Domain.ALL, room):
            if not self._is_whole(domain):
                row = [columns[free.index(c)] if c in free else bound[c][places] for c in range(self.arity)]
                kept = ~self.change.contains(row, len(places))
                places, columns = places[kept], [column[kept] for column in columns]
            if len(places):
                yield places, columns

    def scan(self, domain: Domain = Domain.ALL, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        if domain is Domain.NEW:
            if self.with_change:
                yield from self.change.scan(Domain.ALL, room)
            return
        for batch in self.state.scan(Domain.ALL, room):
            if not self._is_whole(domain):
                kept = ~self.change.contains(batch, len(batch[0]))
                batch = [column[kept] for column in batch]
            if len(batch[0]):
                yield batch


class PairSnapshot(ReadOnly, PairScheme):
    """A closure or an equivalence as it was when this was made: sets of partners never change in place.

    What was not asked for by then, partners by the second column, is found by comparing with all facts.
    """

    kind = "snapshot"

    def __init__(self, scheme: PairScheme, *, both_ways: bool) -> None:
        super().__init__(scheme.name)
        self._nodes = scheme.nodes
        self.bounds = list(scheme.bounds)
        self._readings = {FORWARD: scheme.reading(FORWARD)}
        if both_ways:
            self._readings[BACKWARD] = scheme.reading(BACKWARD)
        self._changes = scheme.version[0]
        self._facts = len(scheme)

    @property
    def host_nbytes(self) -> int:
        return 0

    def count(self, domain: Domain) -> int:
        return self._facts if domain in (Domain.ALL, Domain.OLD) else 0

    def distinct(self, column: int) -> float:
        reached = self._readings[FORWARD].reached
        return float(max(len(reached.owners), 1))

    def _reading(self, column: int, domain: Domain) -> Reading:
        return self._readings[column]

    def news(self) -> Gone:
        raise AssertionError(f"{self.name} is only read")

    @property
    def edges(self) -> list[np.ndarray]:
        raise AssertionError(f"{self.name} is only read")

    def _reset(self) -> None:
        raise AssertionError(f"{self.name} is only read")
