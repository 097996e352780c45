"""The closure scheme: a transitive relation as a graph, with what each node reaches in compact form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuengine.kernels.cpu.position_sets import NEVER
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes.contract import Columns, Domain, Scheme
from gpuengine.schemes.nodes import Nodes
from gpuengine.schemes.pairs import BACKWARD, FORWARD, Gone, Kept, PairScheme, Reached, Reading
from gpuengine.schemes.reachability import NO_LIMIT, Reachability
from gpuengine.schemes.table import Table


class Closure(PairScheme):
    """Facts R(x, y) closed under R(x, z) :- R(x, y), R(y, z).

    What other rules derive are the edges of a graph; a fact holds if a way of one edge or more leads from x
    to y. Only edges that were no facts yet when they came are kept. `Reachability` has what each node
    reaches, and, once somebody asks by the second column, another one what it is reached from. R(x, x) holds
    only where a cycle leads through x.

    `external`, if there is one, is a table that every edge is put into as well, for rules that read edges
    only.

    Making it can be ended through `stop` (raises `Stopped`); what nodes reach takes `limit` bytes at most, in
    each direction (raises `PoolFull`).

    NEW is a difference of two versions, never a list of pairs. Inserting costs what the components cost from
    which the new edges can be reached; so does deleting, which is exact.
    """

    kind = "closure"

    def __init__(
        self, name: str, *, stop: np.ndarray = NEVER, threads: int = 1, limit: int = NO_LIMIT
    ) -> None:
        super().__init__(name)
        self.stop = stop
        self.threads = threads
        self.limit = limit
        self._ways: list[Reachability | None] = [self._empty_way(), None]
        self._ids: list[tuple[np.ndarray, np.ndarray] | None] = [None, None]
        self._last_edges: tuple[np.ndarray, np.ndarray] | None = None
        self.external: Table | None = None

    @property
    def host_nbytes(self) -> int:
        total = self._nodes.nbytes + sum(way.nbytes for way in self._ways if way is not None)
        total += sum(ids[1].nbytes for ids in self._ids if ids is not None)
        return total + sum(a.nbytes + b.nbytes for a, b in self._scheduled)

    @property
    def edges(self) -> list[np.ndarray]:
        """The facts that are kept as edges, as columns of ids."""
        return [self._nodes.ids[nodes] for nodes in self._forward.edges]

    @property
    def mutual_pairs(self) -> int:
        now, before = self._forward.mutual_pairs
        return before if self._deleting else now

    def are_mutual(self, columns: Columns) -> np.ndarray:
        """x and y reach each other: they are in one component."""
        sources, targets = (self._nodes.find(column) for column in columns)
        owners = self._reading(FORWARD, Domain.ALL).reached.owners
        return owners[sources] == owners[targets]

    @property
    def _forward(self) -> Reachability:
        forward = self._ways[FORWARD]
        assert forward is not None
        return forward

    def count(self, domain: Domain) -> int:
        now, before = self._forward.pairs
        if domain is Domain.NEW:
            return abs(now - before)
        return before if self._is_before(domain) else now

    def _is_before(self, domain: Domain) -> bool:
        """Is a domain the version before the last change: what is left out of it if facts came, else all?"""
        return (domain is Domain.OLD) is not self._deleting

    def insert(self, columns: Columns, count: int) -> int:
        before = len(self._scheduled)
        taken = super().insert(columns, count)
        if self.external is not None and len(self._scheduled) > before:
            self.external.insert(self._scheduled[-1], taken)
        return taken

    def keep_external(self, external: Table) -> None:
        """Put all edges, those scheduled too, into a table from now on."""
        sources, targets = self.edges
        for batch in ((sources, targets), *self._scheduled):
            external.insert(batch, len(batch[0]))
        self.external = external

    def keep_edges(self, columns: Columns) -> None:
        self.external = None
        super().keep_edges(columns)

    def distinct(self, column: int) -> float:
        way = self._ways[column]
        if way is None or not way.nodes:
            return float(max(len(self._nodes), 1))
        return float(max(way.sources, 1))

    def advance(self) -> int:
        self._changes += 1
        scheduled = list(self._scheduled)
        sources, targets = self._take_scheduled()
        try:
            self._forward.insert(sources, targets, len(self._nodes))
        except BaseException:
            self._scheduled = scheduled
            raise
        backward = self._ways[BACKWARD]
        if backward is not None:
            # It can be made again when it is next asked for, should it not come through.
            self._ways[BACKWARD] = None
            backward.insert(targets, sources, len(self._nodes))
            self._ways[BACKWARD] = backward
        self._last_edges = sources, targets
        self._deleting = False
        return self.count(Domain.NEW)

    def renew(self) -> int:
        if self._forward.nodes:
            sources, targets = self.edges
            self._reset()
            self._scheduled.append((sources, targets))
        return self.advance()

    def _reset(self) -> None:
        self._nodes = Nodes()
        self._ways = [self._empty_way(), None]
        self._ids = [None, None]
        self._last_edges = None
        self._deleting = False

    def settle(self) -> None:
        if self._scheduled:
            self.advance()
        for way in self._ways:
            if way is not None:
                way.merge()
        self._last_edges = None

    def delete(self, columns: Columns, count: int) -> int:
        self.settle()
        sources, targets = (self._nodes.find(column) for column in columns)
        have_nodes = (sources != NONE) & (targets != NONE)
        sources, targets = sources[have_nodes], targets[have_nodes]
        were_edges = self._forward.delete(sources, targets)
        backward = self._ways[BACKWARD]
        if backward is not None:
            self._ways[BACKWARD] = None
            backward.delete(targets, sources)
            self._ways[BACKWARD] = backward
        self._last_edges = sources[were_edges], targets[were_edges]
        self._deleting = True
        return self.count(Domain.NEW)

    def remove(self) -> None:
        self._changes += 1
        self._deleting = False
        self.settle()

    def news(self) -> Gone:
        way = self._forward
        return Gone(way.difference, way.positions, self._ids_at(FORWARD, way.node_at))

    def kept(self) -> Kept:
        forward = self._kept_way(FORWARD)
        assert forward is not None
        version = self._forward.version(before=self._is_before(Domain.ALL))
        return Kept(
            forward,
            self._kept_way(BACKWARD),
            lambda: version.mutual_pairs,
            lambda sources, targets: version.component[sources] == version.component[targets],
        )

    def _kept_way(self, column: int) -> Callable[[], Reading] | None:
        """What makes a reading of all facts as they are now, at any time later."""
        way, nodes = self._ways[column], self._nodes
        if way is None:
            return None
        version = way.version(before=self._is_before(Domain.ALL))
        reached = Reached(version.component, version.sets.kept())
        positions, node_at, last = way.positions[: version.nodes], version.node_at, self._ids[column]

        def read() -> Reading:
            is_known = last is not None and last[0] is node_at
            return Reading(reached, positions, last[1] if last and is_known else _ids(node_at, nodes))

        return read

    def _empty_way(self) -> Reachability:
        return Reachability(stop=self.stop, threads=self.threads, limit=self.limit)

    def _way(self, column: int) -> Reachability:
        """What is reached from the nodes of a column; backward it is made when first asked for."""
        way = self._ways[column]
        if way is None:
            with self._making:  # several readers may be the first to ask
                way = self._ways[column] or self._reversed()
                self._ways[column] = way
        return way

    def _reversed(self) -> Reachability:
        """The backward way in the same two versions as the forward one."""
        forward, way = self._forward, self._empty_way()
        sources, targets = forward.edges
        now, before = forward.pairs
        if self._last_edges is None or now == before:
            way.insert(targets, sources, forward.nodes)
            way.merge()
            return way
        last_sources, last_targets = self._last_edges
        if self._deleting:
            all_targets, all_sources = (
                np.concatenate(pair) for pair in ((targets, last_targets), (sources, last_sources))
            )
            way.insert(all_targets, all_sources, forward.nodes)
            way.delete(last_targets, last_sources)
            return way
        earlier = ~np.isin(_packed(sources, targets), _packed(last_sources, last_targets))
        way.insert(targets[earlier], sources[earlier], forward.nodes)
        way.insert(last_targets, last_sources, forward.nodes)
        return way

    def _reading(self, column: int, domain: Domain) -> Reading:
        way = self._way(column)
        if domain is Domain.NEW:
            return Reading(way.difference.reached, way.positions, self._ids_at(column, way.node_at))
        if self._is_before(domain):
            positions = way.positions[: len(way.before.owners)]
            return Reading(way.before, positions, self._ids_at(column, way.node_at_before))
        return Reading(way.now, way.positions, self._ids_at(column, way.node_at))

    def _ids_at(self, column: int, node_at: np.ndarray) -> np.ndarray:
        """The id at each position, NONE where there is no node; the last one asked for is remembered."""
        last = self._ids[column]
        if last is None or last[0] is not node_at:
            last = self._ids[column] = (node_at, _ids(node_at, self._nodes))
        return last[1]


def _ids(node_at: np.ndarray, nodes: Nodes) -> np.ndarray:
    """The id of the node at each position, NONE where there is none."""
    ids = np.full(len(node_at), NONE, np.uint32)
    taken = node_at != NONE
    ids[taken] = nodes.ids[node_at[taken]]
    return ids


def _packed(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return (sources.astype(np.uint64) << np.uint64(32)) | targets


def as_closure(scheme: Scheme) -> Closure:
    """The closure that a scheme is known to be."""
    assert isinstance(scheme, Closure), f"{scheme.name} is no closure"
    return scheme
