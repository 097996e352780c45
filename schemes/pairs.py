"""Binary relations whose partners are position sets: what closures and equivalences have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpuengine.kernels.cpu.position_sets import contains, expand
from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes.contract import BATCH, Columns, Domain, Scheme
from gpuengine.schemes.nodes import Nodes
from gpuengine.schemes.table_reads import match_rows, rows_missing

FORWARD, BACKWARD = 0, 1


@dataclass(frozen=True, slots=True)
class Reached:
    """Node x has the partners at the positions in set ``owners[x]`` of `sets`.

    Owner NONE, and nodes past the end of `owners`, have none.
    """

    owners: np.ndarray
    sets: PositionSets

    @property
    def pairs(self) -> int:
        return int(self.sets.sizes[self.owners[self.owners != NONE]].sum())

    def owners_of(self, nodes: np.ndarray) -> np.ndarray:
        """The owner of each node's partners; NONE for NONE and for nodes that are not known."""
        owners = np.full(len(nodes), NONE, np.uint32)
        known = nodes < len(self.owners)
        owners[known] = self.owners[nodes[known]]
        return owners


@dataclass(frozen=True, slots=True)
class Reading:
    """Partners, with what their positions mean: the position of each node, and the id at each position."""

    reached: Reached
    positions: np.ndarray
    ids_at: np.ndarray

    def holds(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Is each target a partner of the source beside it?"""
        places = np.full(len(targets), NONE, np.uint32)
        known = targets < len(self.positions)
        places[known] = self.positions[targets[known]]
        return contains(self.reached.sets, self.reached.owners_of(sources), places)

    def partners(self, nodes: np.ndarray, room: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Places in `nodes`, with the id of a partner beside each."""
        yield from expand(self.reached.sets, self.reached.owners_of(nodes), self.ids_at, room)

    def all_partners(self, room: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Nodes, with the id of a partner beside each."""
        yield from expand(self.reached.sets, self.reached.owners, self.ids_at, room)


class HasReached(Protocol):
    """Partners that may be found out only when they are asked for."""

    @property
    def reached(self) -> Reached: ...


@dataclass(frozen=True, slots=True)
class Gone:
    """Pairs that went, or came, at one time, with what positions meant then."""

    change: HasReached
    positions: np.ndarray
    ids_at: np.ndarray

    @property
    def reading(self) -> Reading:
        return Reading(self.change.reached, self.positions, self.ids_at)

    def scan(self, nodes: Nodes, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        """The pairs, as columns of ids."""
        for sources, values in self.reading.all_partners(room):
            yield [nodes.ids[sources], values]


class PairScheme(Scheme):
    """Reads facts R(x, y) from sets of partners; how they come to be is the business of its subclasses.

    With `keeps_all`, what is inserted is kept as an edge even if it is a fact already: then to delete some
    of it leaves exactly what follows from the rest.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.arity = 2
        self.bounds = [(0, 0), (0, 0)]
        self._nodes = Nodes()
        self._scheduled: list[tuple[np.ndarray, np.ndarray]] = []
        self._deleting = False
        self._deleted: list[Gone] = []
        self._changes = 0
        self.keeps_all = False

    @property
    def version(self) -> tuple[int, ...]:
        return (self._changes,)

    @property
    def nodes(self) -> Nodes:
        """The ids that are known, which only grow."""
        return self._nodes

    def reading(self, column: int) -> Reading:
        """The partners of the nodes in a column as they are now: what is read stays as it is."""
        return self._reading(column, Domain.ALL)

    @abstractmethod
    def _reading(self, column: int, domain: Domain) -> Reading:
        """The partners of the nodes in a column; never DELETED."""

    def contains(self, columns: Columns, count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        sources, targets = self._nodes.find(columns[0]), self._nodes.find(columns[1])
        if domain is not Domain.DELETED:
            return self._reading(FORWARD, domain).holds(sources, targets)
        found = np.zeros(count, np.bool_)
        for gone in self._deleted:
            found |= gone.reading.holds(sources, targets)
        return found

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        ((column, ids),) = bound.items()
        if domain is Domain.DELETED:
            yield from self._expand_deleted(column, ids, room)
            return
        for places, values in self._reading(column, domain).partners(self._nodes.find(ids), room):
            yield places, [values]

    def scan(self, domain: Domain = Domain.ALL, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        if domain is Domain.DELETED:
            readings = [gone.reading for gone in self._deleted]
        else:
            readings = [self._reading(FORWARD, domain)]
        for reading in readings:
            for nodes, values in reading.all_partners(room):
                yield [self._nodes.ids[nodes], values]

    def exists(self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        if domain is Domain.DELETED:
            return super().exists(bound, count, domain)
        return self._degrees(bound, domain) > 0

    def degrees(self, bound: Mapping[int, np.ndarray], count: int) -> np.ndarray:
        return self._degrees(bound, Domain.ALL)

    def values(self, column: int, domain: Domain = Domain.ALL) -> np.ndarray:
        if domain is Domain.DELETED:
            return super().values(column, domain)
        reached = self._reading(column, domain).reached
        owned = np.flatnonzero(reached.owners != NONE)
        return self._nodes.ids[owned[reached.sets.sizes[reached.owners[owned]] > 0]]

    def insert(self, columns: Columns, count: int) -> int:
        if not count:
            return 0
        fresh = self.insertable(columns, count) if not self.keeps_all else np.ones(count, np.bool_)
        taken = int(np.count_nonzero(fresh))
        if taken:
            sources, targets = (np.asarray(column, np.uint32)[fresh] for column in columns)
            self._scheduled.append((sources, targets))
            self.widen([(int(ids.min()), int(ids.max()) + 1) for ids in (sources, targets)])
        return taken

    @abstractmethod
    def news(self) -> Gone:
        """What is NEW now, to be listed at any time later."""

    def keep_edges(self, columns: Columns) -> None:
        """Keep all of the given facts as edges from now on, and whatever else comes."""
        self.keeps_all = True
        missing = rows_missing(columns, self.edges)
        self.insert(missing, len(missing[0]))
        self.settle()

    def rebuild(self, columns: Columns) -> None:
        """Begin anew with nothing but the given edges."""
        self._reset()
        self._scheduled, self._deleted = [], []
        self.insert(columns, len(columns[0]))
        self.settle()

    @property
    @abstractmethod
    def edges(self) -> list[np.ndarray]:
        """The facts that are kept as edges, as columns of ids."""

    @abstractmethod
    def _reset(self) -> None:
        """Forget all facts."""

    def rederivable(self, columns: Columns, count: int) -> np.ndarray:
        """None: deleting is exact, so that what goes does not follow from what is left."""
        return self.contains(columns, count, Domain.DELETED) & self.contains(columns, count)

    def forget(self) -> None:
        self._deleted = []

    def _take_scheduled(self) -> tuple[np.ndarray, np.ndarray]:
        """What is scheduled, now as nodes; a pair that was twice comes twice."""
        scheduled, self._scheduled = self._scheduled, []
        if not scheduled:
            return np.empty(0, np.uint32), np.empty(0, np.uint32)
        sources, targets = (np.concatenate([batch[c] for batch in scheduled]) for c in (0, 1))
        self._nodes.add(np.concatenate([sources, targets]))
        return self._nodes.find(sources), self._nodes.find(targets)

    def _degrees(self, bound: Mapping[int, np.ndarray], domain: Domain) -> np.ndarray:
        ((column, ids),) = bound.items()
        reached = self._reading(column, domain).reached
        owners = reached.owners_of(self._nodes.find(ids))
        sizes = np.zeros(len(ids), np.uint64)
        known = owners != NONE
        sizes[known] = reached.sets.sizes[owners[known]]
        return sizes

    def _expand_deleted(
        self, column: int, ids: np.ndarray, room: int
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """By comparing with all of them: what was deleted is seldom asked for by a column."""
        for batch in self.scan(Domain.DELETED):
            yield from match_rows(batch, {column: ids}, room)
