"""A relation before or after an update, with what went or came as its NEW facts: what upper strata read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import numpy as np

from gpuengine.schemes.contract import BATCH, Columns, Domain, ReadOnly, Scheme
from gpuengine.schemes.table import Table


class DeltaView(ReadOnly):
    """Reads `state`, of which the facts in `delta` are NEW and the others OLD.

    The delta is a settled table, a part of `state`, and found out when it is first asked for. Without
    `with_delta`, ALL is only what is OLD.
    """

    kind = "delta view"

    def __init__(self, state: Scheme, delta: Callable[[], Table], *, with_delta: bool = True) -> None:
        self.state = state
        self._find_delta = delta
        self.with_delta = with_delta
        self.name = state.name
        self.arity = state.arity

    @cached_property
    def delta(self) -> Table:
        return self._find_delta()

    @property
    def bounds(self) -> list[tuple[int, int]]:  # type: ignore[override]
        return self.state.bounds

    @property
    def host_nbytes(self) -> int:
        return self.delta.host_nbytes

    @property
    def version(self) -> tuple[int, ...]:
        return (*self.state.version, *self.delta.version, self.with_delta)

    def count(self, domain: Domain) -> int:
        new = len(self.delta)
        if domain is Domain.NEW:
            return new if self.with_delta else 0
        total = len(self.state)
        return total if self._is_whole(domain) else total - new

    def _is_whole(self, domain: Domain) -> bool:
        """Is the domain all of the state?"""
        return not len(self.delta) or (domain is Domain.ALL and self.with_delta)

    def distinct(self, column: int) -> float:
        return self.state.distinct(column)

    def contains(self, columns: Columns, count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        if domain is Domain.NEW:
            none = np.zeros(count, np.bool_)
            return self.delta.contains(columns, count) if self.with_delta else none
        mask = self.state.contains(columns, count)
        if not self._is_whole(domain):
            mask &= ~self.delta.contains(columns, count)
        return mask

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        if domain is Domain.NEW:
            if self.with_delta and len(self.delta):
                yield from self.delta.expand(bound, count, Domain.ALL, room)
            return
        free = [column for column in range(self.arity) if column not in bound]
        for places, columns in self.state.expand(bound, count, Domain.ALL, room):
            if not self._is_whole(domain):
                row = [columns[free.index(c)] if c in free else bound[c][places] for c in range(self.arity)]
                kept = ~self.delta.contains(row, len(places))
                places, columns = places[kept], [column[kept] for column in columns]
            if len(places):
                yield places, columns

    def scan(self, domain: Domain = Domain.ALL, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        if domain is Domain.NEW:
            if self.with_delta:
                yield from self.delta.scan(Domain.ALL, room)
            return
        for batch in self.state.scan(Domain.ALL, room):
            if not self._is_whole(domain):
                kept = ~self.delta.contains(batch, len(batch[0]))
                batch = [column[kept] for column in batch]
            if len(batch[0]):
                yield batch
