"""Binary relations whose partners are position sets: what closures and equivalences have in common."""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gpuengine.kernels.cpu.position_sets import contains, expand
from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import NONE, Primitives
from gpuengine.schemes.contract import BATCH, Columns, Domain, ReadOnly, Scheme
from gpuengine.schemes.labels import DeviceLabels
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
        within = nodes < len(self.owners)
        owners[within] = self.owners[nodes[within]]
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
        within = targets < len(self.positions)
        places[within] = self.positions[targets[within]]
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

    difference: HasReached
    positions: np.ndarray
    ids_at: np.ndarray

    @property
    def reading(self) -> Reading:
        return Reading(self.difference.reached, self.positions, self.ids_at)

    def scan(self, nodes: Nodes, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        """The pairs, as columns of ids."""
        for sources, values in self.reading.all_partners(room):
            yield [nodes.ids[sources], values]


@dataclass(frozen=True, slots=True)
class Kept:
    """All facts at one time, in what never changes in place; worked out when somebody asks.

    `backward` is None if nobody has asked by the second column before. `are_mutual` says of nodes x and y,
    where R(x, y) holds, whether R(y, x) does.
    """

    forward: Callable[[], Reading]
    backward: Callable[[], Reading] | None
    mutual_pairs: Callable[[], int]
    are_mutual: Callable[[np.ndarray, np.ndarray], np.ndarray]


class PairScheme(Scheme):
    """Reads facts R(x, y) from sets of partners; how they come to be is the business of its subclasses.

    With `keeps_all`, what is inserted is kept as an edge even if it is a fact already: then to delete some
    of it leaves exactly what follows from the rest.
    """

    is_paired = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.arity = 2
        self.bounds = [(0, 0), (0, 0)]
        self._nodes = Nodes()
        self._scheduled: list[tuple[np.ndarray, np.ndarray]] = []
        self._deleting = False
        self._changes = 0
        self.keeps_all = False
        self._making = threading.RLock()
        self._begun: PairSnapshot | None = None
        self._last_snapshot: weakref.ref[PairSnapshot] | None = None
        self._on_device: DeviceLabels | None = None

    def labels_on(self, primitives: Primitives) -> DeviceLabels:
        """What a device reads of it."""
        if self._on_device is None or self._on_device.primitives is not primitives:
            self._on_device = DeviceLabels(self, primitives)
        return self._on_device

    def leave_device(self) -> bool:
        had_copies = self.device_nbytes > 0
        self._on_device = None
        return had_copies

    @property
    def device_nbytes(self) -> int:
        return self._on_device.nbytes if self._on_device is not None else 0

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
    def kept(self) -> Kept:
        """All facts as they are now."""

    @property
    @abstractmethod
    def mutual_pairs(self) -> int:
        """How many facts R(x, y) there are with R(y, x) a fact too."""

    @abstractmethod
    def are_mutual(self, columns: Columns) -> np.ndarray:
        """Which of some facts R(x, y) are facts the other way round as well."""

    def snapshot(self) -> PairSnapshot:
        if self._begun is not None:
            return self._begun
        snapshot = self._last_snapshot() if self._last_snapshot is not None else None
        if snapshot is None or snapshot.version != self.version:
            snapshot = PairSnapshot(self)
            self._last_snapshot = weakref.ref(snapshot)
        return snapshot

    def begin_change(self) -> None:
        if self._begun is None:
            self._begun = self.snapshot()

    def end_change(self) -> None:
        self._begun = self._last_snapshot = None

    @abstractmethod
    def _reading(self, column: int, domain: Domain) -> Reading:
        """The partners of the nodes in a column."""

    def contains(self, columns: Columns, count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        sources, targets = self._nodes.find(columns[0]), self._nodes.find(columns[1])
        return self._reading(FORWARD, domain).holds(sources, targets)

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        ((column, ids),) = bound.items()
        for places, values in self._reading(column, domain).partners(self._nodes.find(ids), room):
            yield places, [values]

    def scan(self, domain: Domain = Domain.ALL, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        for nodes, values in self._reading(FORWARD, domain).all_partners(room):
            yield [self._nodes.ids[nodes], values]

    def exists(self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        return self._degrees(bound, domain) > 0

    def degrees(self, bound: Mapping[int, np.ndarray], count: int) -> np.ndarray:
        return self._degrees(bound, Domain.ALL)

    def values(self, column: int, domain: Domain = Domain.ALL) -> np.ndarray:
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
        self._scheduled = []
        self.insert(columns, len(columns[0]))
        self.settle()

    @property
    @abstractmethod
    def edges(self) -> list[np.ndarray]:
        """The facts that are kept as edges, as columns of ids."""

    @abstractmethod
    def _reset(self) -> None:
        """Forget all facts."""

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
        owned = owners != NONE
        sizes[owned] = reached.sets.sizes[owners[owned]]
        return sizes


class PairSnapshot(ReadOnly, PairScheme):
    """A closure or an equivalence as it was when this was made: sets of partners never change in place.

    Making one costs next to nothing; reading it first costs a pass over the nodes. Where partners by the
    second column were not known by then, all facts are compared to find them.
    """

    kind = "snapshot"

    def __init__(self, scheme: PairScheme) -> None:
        super().__init__(scheme.name)
        self._nodes = scheme.nodes
        self.bounds = list(scheme.bounds)
        self._changes = scheme.version[0]
        self._kept = scheme.kept()
        self._readings: dict[int, Reading] = {}
        self._facts: int | None = None

    @property
    def host_nbytes(self) -> int:
        return 0

    @property
    def mutual_pairs(self) -> int:
        return self._kept.mutual_pairs()

    def are_mutual(self, columns: Columns) -> np.ndarray:
        return self._kept.are_mutual(*(self._nodes.find(column) for column in columns))

    def kept(self) -> Kept:
        return self._kept

    def snapshot(self) -> PairSnapshot:
        return self

    def count(self, domain: Domain) -> int:
        if domain not in (Domain.ALL, Domain.OLD):
            return 0
        if self._facts is None:
            self._facts = self.reading(FORWARD).reached.pairs
        return self._facts

    def distinct(self, column: int) -> float:
        return float(max(len(self.reading(FORWARD).reached.owners), 1))

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        if FORWARD not in bound and self._kept.backward is None:
            for batch in self.scan(domain):
                yield from match_rows(batch, bound, room)
            return
        yield from super().expand(bound, count, domain, room)

    def values(self, column: int, domain: Domain = Domain.ALL) -> np.ndarray:
        if column == BACKWARD and self._kept.backward is None:
            return Scheme.values(self, column, domain)
        return super().values(column, domain)

    def _degrees(self, bound: Mapping[int, np.ndarray], domain: Domain) -> np.ndarray:
        if FORWARD not in bound and self._kept.backward is None and domain is not Domain.NEW:
            return Scheme.degrees(self, bound, len(bound[BACKWARD]))
        return super()._degrees(bound, domain)

    def _reading(self, column: int, domain: Domain) -> Reading:
        if domain is Domain.NEW:
            all_of = self._reading(FORWARD, Domain.ALL)
            return replace(all_of, reached=replace(all_of.reached, owners=np.empty(0, np.uint32)))
        reading = self._readings.get(column)
        if reading is None:
            make = self._kept.forward if column == FORWARD else self._kept.backward
            assert make is not None
            reading = self._readings.setdefault(column, make())
        return reading

    def news(self) -> Gone:
        raise AssertionError(f"{self.name} is only read")

    @property
    def edges(self) -> list[np.ndarray]:
        raise AssertionError(f"{self.name} is only read")

    def _reset(self) -> None:
        raise AssertionError(f"{self.name} is only read")


def as_pairs(scheme: Scheme) -> PairScheme:
    """The scheme of pairs that a scheme is known to be."""
    assert isinstance(scheme, PairScheme), f"{scheme.name} is not kept as sets of partners"
    return scheme
