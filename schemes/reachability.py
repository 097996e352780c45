"""What each node of a directed graph reaches, kept compactly while edges come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuengine.kernels.cpu import digraph_kernels as kernels
from gpuengine.kernels.cpu.position_sets import NEVER, NO_POSITIONS, Unions, subtract, trim, unite
from gpuengine.kernels.position_sets import PositionSets, empty_pool, empty_sets
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes import condensation
from gpuengine.schemes.condensation import Condensed, Lists, by_level, children_of, condense, gathered
from gpuengine.schemes.digraph import Adjacency, adjacency
from gpuengine.schemes.numbering import no_numbering, number_nodes
from gpuengine.schemes.pairs import Reached
from gpuengine.schemes.versions import Difference, Version

NO_LIMIT = 1 << 62
_REBUILD_SHARE = 2
"""A batch of at least one part in so many of the edges makes everything anew, newly numbered."""
_MANY = 4
"""A change that touches one node in so many makes all sets anew: in parallel, and by fewer unions."""
_GARBAGE_SHARE = 2
_WORN_OUT = 2
"""Sets that have grown by such a factor since nodes were numbered are made anew, newly numbered."""
_SMALL = 1 << 16
"""So many bytes are not worth tidying up."""


class Reachability:
    """A graph over nodes 0, 1, ... and what each node reaches by one edge or more, after and before a change.

    Strongly connected components share a set of positions: nodes are numbered in post-order of a tree cover
    (Agrawal, Borgida and Jagadish), so that most sets are a few intervals. A set includes its component's own
    nodes only if an edge, or a way through others, leads back.

    Life-cycle: `insert` or `delete` changes the graph; until `merge`, `now` and `before` are the two versions
    and `difference` is what the one has more than the other; `merge` forgets `before`. Sets are never changed
    in place: a change makes new ones for the components that it touches, which are those that lead to a
    changed edge, and the two versions share the rest. Its cost is that of these components and their edges. A
    new node that one edge leads to takes a gap in the numbering if there is one; then no set changes at all.
    """

    def __init__(self, *, stop: np.ndarray = NEVER, threads: int = 1, limit: int = NO_LIMIT) -> None:
        self.stop = stop
        self.threads = threads
        self.limit = limit
        none = np.empty(0, np.uint32)
        self._out: Adjacency = adjacency(none, none, 0)
        self._in: Adjacency | None = None
        self._edges = 0
        self._numbering = no_numbering()
        empty = Version(none, np.empty(0, np.uint8), none, empty_sets(empty_pool(0, 0), 0), none)
        self._now = self._before = empty
        self._filled = none
        self._numbered_bytes = 0
        self._difference: Difference | None = None

    @property
    def nodes(self) -> int:
        return self._now.nodes

    @property
    def positions(self) -> np.ndarray:
        """The position of each node."""
        return self._numbering.positions

    @property
    def node_at(self) -> np.ndarray:
        """The node at each position, NONE where there is none."""
        return self._now.node_at

    @property
    def node_at_before(self) -> np.ndarray:
        return self._before.node_at

    @property
    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Sources and targets of the edges."""
        return self._out.edges()

    @property
    def now(self) -> Reached:
        return Reached(self._now.component, self._now.sets)

    @property
    def before(self) -> Reached:
        return Reached(self._before.component, self._before.sets)

    def version(self, *, before: bool) -> Version:
        """What there is now, or was before the last change; never changed in place."""
        return self._before if before else self._now

    @property
    def pairs(self) -> tuple[int, int]:
        """How many pairs there are now, and how many there were before."""
        now = self._now.pairs
        return now, now if self._before is self._now else self._before.pairs

    @property
    def sources(self) -> int:
        """How many nodes reach any."""
        return self._now.sources

    @property
    def mutual_pairs(self) -> tuple[int, int]:
        """How many pairs there are both ways, now and before."""
        return self._now.mutual_pairs, self._before.mutual_pairs

    @property
    def nbytes(self) -> int:
        versions = (self._now,) if self._before is self._now else (self._now, self._before)
        parts = [self._out.nbytes, self._in.nbytes if self._in is not None else 0, self._now.sets.pool.nbytes]
        parts.append(self._numbering.nbytes)
        for version in versions:
            parts += [version.component.nbytes, version.cyclic.nbytes, version.places.nbytes]
            parts.append(version.sets.nbytes)
        if self._difference is not None:
            parts.append(self._difference.nbytes)
        return sum(parts)

    @property
    def difference(self) -> Difference:
        """What is reached in one of the versions and not in the other."""
        if self._difference is None:
            self._difference = Difference(self._now, self._before, self._numbering, self._filled, self.stop)
        return self._difference

    def insert(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> None:
        """Add edges between the nodes, which are `nodes` now; the version until now becomes `before`.

        An edge may come several times; to delete it takes it away altogether.
        """
        self.merge()
        if not len(sources):
            return
        state = self._out, self._in, self._numbering, self._now, self._before
        try:
            if len(sources) * _REBUILD_SHARE >= self._edges:
                self._insert_by_rebuilding(sources, targets, nodes)
            else:
                self._insert_by_extending(sources, targets, nodes)
        except BaseException:
            self._out, self._in, self._numbering, self._now, self._before = state
            self._filled = NO_POSITIONS
            raise
        self._edges += len(sources)

    def delete(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Take away edges; a mask of those that were there. The version until now becomes `before`."""
        self.merge()
        if not len(sources):
            return np.zeros(0, np.bool_)
        incoming = self._incoming()
        marked, nodes = self._leading_to(np.unique(sources), incoming)
        were_edges = self._out.remove(sources, targets)
        sources, targets = sources[were_edges], targets[were_edges]
        incoming.remove(targets, sources)
        try:
            if len(nodes) * _MANY >= self.nodes:
                self._now = self._built(self._out, self.nodes, number=False, pool_of=self._now)
            else:
                self._now = self._recomputed(marked, nodes, new_from=0, with_bases=False)
        except BaseException:
            self._out.link(sources, targets)
            incoming.link(targets, sources)
            raise
        self._edges -= len(sources)
        return were_edges

    def merge(self) -> None:
        """Forget the version before."""
        self._before = self._now
        self._difference = None
        self._filled = NO_POSITIONS
        self._tidy_up()

    def _insert_by_rebuilding(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> None:
        old = self._out
        had_edges = self._edges > 0
        if had_edges:
            old_sources, old_targets = old.edges()
            sources, targets = np.concatenate([old_sources, sources]), np.concatenate([old_targets, targets])
        self._out, self._in, self._filled = adjacency(sources, targets, nodes), None, NO_POSITIONS
        self._now = self._built(self._out, nodes, number=True)
        if had_edges:
            again = adjacency(old_sources, old_targets, self._before.nodes)
            self._before = self._built(again, self._before.nodes, number=False, pool_of=self._now)
        else:
            none = np.empty(0, np.uint32)
            self._before = Version(
                none, np.empty(0, np.uint8), none, empty_sets(self._now.sets.pool, 0), none
            )

    def _built(self, out: Adjacency, nodes: int, *, number: bool, pool_of: Version | None = None) -> Version:
        """A version made from nothing, in the pool of another if one is given."""
        marked = np.ones(nodes, np.uint8)
        condensed = condense(out, np.arange(nodes, dtype=np.uint32), marked)
        count = condensed.count
        component = np.empty(nodes, np.uint32)
        component[condensed.members] = condensed.number_of_member
        cyclic = np.zeros(count, np.uint8)
        order = np.arange(count, dtype=np.uint32)
        children = children_of(out, condensed, component, order, marked, 0, cyclic)
        if number:
            self._numbering = number_nodes(condensed, children, nodes)
        numbering = self._numbering
        places = numbering.positions[condensed.members[condensed.starts]] if count else NO_POSITIONS
        pool = pool_of.sets.pool if pool_of is not None else empty_pool(2 * nodes, nodes // 64, self.limit)
        sets = empty_sets(pool, count)
        own = self._own(condensed, cyclic)
        spans = [(0, count, False)]
        if self.threads > 1 and count >= 4 * condensation.WIDE_LEVEL:
            order, spans = by_level(count, children)
            children, own = gathered(order, children), gathered(order, own)
        no_bases = np.zeros(count + 1, np.uint64), np.empty(0, np.uint32)
        unions = Unions(order, *no_bases, *children, *own, places, cyclic, spans)
        unite(unions, sets, sets, len(numbering.node_at), stop=self.stop, threads=self.threads)
        trim(pool)
        numbering.count(sets, order)
        if number:
            self._numbered_bytes = _bytes_of(sets, order)
        return Version(component, cyclic, places, sets, numbering.node_at)

    def _own(self, condensed: Condensed, cyclic: np.ndarray) -> Lists:
        """The positions that are a component's own: spare ones, and, if it is cyclic, those of its nodes.

        `cyclic` is by number here.
        """
        offsets = np.empty(condensed.count + 1, np.uint64)
        own = np.empty(2 * len(condensed.members), np.uint32)
        written = kernels.list_own(
            condensed.members, condensed.ends, condensed.count, cyclic, self.positions,
            self._numbering.spare, offsets, own,
        )  # fmt: skip
        return offsets, own[:written]

    def _insert_by_extending(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> None:
        incoming = self._incoming()
        silent = self._add_nodes(sources, targets, nodes)
        new_from = self._out.link(sources, targets)
        first_in = incoming.link(targets, sources)
        loud = np.unique(sources[~silent])
        marked, affected = self._leading_to(loud, incoming)
        many = len(affected) * _MANY >= nodes
        if many and self._do_components_merge(affected, marked):
            self._out.unlink(new_from)
            incoming.unlink(first_in)
            self._insert_by_rebuilding(sources, targets, nodes)
            return
        try:
            if many:
                self._now = self._built(self._out, nodes, number=False, pool_of=self._now)
            elif len(loud):
                self._now = self._recomputed(marked, affected, new_from=new_from, with_bases=True)
        except BaseException:
            self._out.unlink(new_from)
            incoming.unlink(first_in)
            raise
        if silent.any():
            _, grown = self._leading_to(np.unique(sources[silent]), incoming)
            self._numbering.count(self._now.sets, np.unique(self._now.component[grown]), anew=True)
        self._out, self._in = self._out.folded(), incoming.folded()

    def _do_components_merge(self, nodes: np.ndarray, marked: np.ndarray) -> bool:
        """Do several of the components that the nodes make up become one? It would lie scattered."""
        before = len(np.unique(self._now.component[nodes]))
        return condense(self._out, nodes, marked).count < before

    def _add_nodes(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        """Give new nodes positions, and components of their own that reach nothing.

        A mask of the edges whose targets took the spare position of their source: they change no set.
        """
        now, added, old = self._now, nodes - self._now.nodes, self._now.nodes
        silent = np.zeros(len(sources), np.bool_)
        if not added:
            return silent
        could = np.flatnonzero((targets >= old) & (sources < old))
        could = could[self._numbering.spare[sources[could]] != NONE]
        for ends in (sources, targets):
            could = could[np.unique(ends[could], return_index=True)[1]]
        silent[could] = True
        self._numbering = self._numbering.with_nodes(targets[could], sources[could], nodes)
        self._filled = self.positions[targets[could]]
        fresh = np.arange(len(now.cyclic), len(now.cyclic) + added, dtype=np.uint32)
        self._now = Version(
            np.concatenate([now.component, fresh]),
            np.concatenate([now.cyclic, np.zeros(added, np.uint8)]),
            np.concatenate([now.places, self.positions[old:]]),
            now.sets.copy(len(now.cyclic) + added),
            self._numbering.node_at,
        )
        self._out.add_nodes(nodes)
        self._incoming().add_nodes(nodes)
        return silent

    def _incoming(self) -> Adjacency:
        if self._in is None:
            sources, targets = self._out.edges()
            self._in = adjacency(targets, sources, self.nodes)
        return self._in

    def _leading_to(self, seeds: np.ndarray, incoming: Adjacency) -> tuple[np.ndarray, np.ndarray]:
        """Marks and a list of the nodes that lead to a seed."""
        marked = np.zeros(self.nodes, np.uint8)
        queue = np.empty(self.nodes, np.uint32)
        count = kernels.mark_reached(*incoming.arrays, seeds, len(seeds), marked, queue)
        return marked, queue[:count]

    def _recomputed(
        self, marked: np.ndarray, nodes: np.ndarray, *, new_from: int, with_bases: bool
    ) -> Version:
        """The version after a change that touches the given nodes, which are whole components.

        With bases, sets only grow: to what was reached come the targets of new links and what changed
        components reach. Without, they are made anew from all edges.
        """
        now = self._now
        condensed = condense(self._out, nodes, marked)
        number_of = condensed.number_of_member
        old = now.component[condensed.members]
        owners, total = self._owners(condensed, old, number_of)
        component = now.component.copy()
        component[condensed.members] = owners[number_of]
        cyclic = _resized(now.cyclic, total)
        places = _resized(now.places, total)
        cyclic[owners] = 0
        places[owners] = self.positions[condensed.members[condensed.starts]]
        rank = np.zeros(total, np.uint32)
        rank[owners] = np.arange(1, condensed.count + 1, dtype=np.uint32)
        wanted = marked if with_bases else np.ones(len(marked), np.uint8)
        children = children_of(self._out, condensed, component, rank, wanted, new_from, cyclic)
        bases = _bases(number_of, old, condensed.count, with_bases)
        sets = now.sets.copy(total)
        own = self._own(condensed, cyclic[owners])
        unions = Unions(owners, *bases, *children, *own, places, cyclic, [(0, condensed.count, False)])
        unite(unions, now.sets, sets, len(self.node_at), stop=self.stop)
        self._numbering.count(sets, owners)
        return Version(component, cyclic, places, sets, now.node_at)

    def _owners(self, condensed: Condensed, old: np.ndarray, number_of: np.ndarray) -> tuple[np.ndarray, int]:
        """An owner for each component, and how many there are then: its own if its members are as before."""
        first_old = old[condensed.starts]
        strangers = np.bincount(number_of, weights=old != first_old[number_of], minlength=condensed.count)
        before = np.bincount(old, minlength=len(self._now.cyclic))
        changed = (strangers > 0) | (before[first_old] != condensed.sizes)
        owners, total = first_old.copy(), len(self._now.cyclic)
        fresh = int(np.count_nonzero(changed))
        owners[changed] = np.arange(total, total + fresh, dtype=np.uint32)
        return owners, total + fresh

    def _renumber(self) -> None:
        """Number the nodes anew, and make all sets anew with that."""
        numbering = self._numbering
        self._out, self._in = adjacency(*self._out.edges(), self.nodes), None
        try:
            self._now = self._before = self._built(self._out, self.nodes, number=True)
        except BaseException:
            self._numbering = numbering
            raise

    def _tidy_up(self) -> None:
        """Renumber the nodes if sets have grown much since that was done; throw away sets that nobody has."""
        now = self._now
        used = np.zeros(len(now.sets), np.bool_)
        used[now.component] = True
        kept = np.flatnonzero(used).astype(np.uint32)
        live = _bytes_of(now.sets, kept)
        pool = now.sets.pool
        if live > _WORN_OUT * self._numbered_bytes + _SMALL:
            self._renumber()
        elif 8 * pool.intervals + 68 * pool.block_count > _GARBAGE_SHARE * live + _SMALL:
            number = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
            nothing = np.full(len(kept), len(now.sets), np.uint32)
            none = now.sets.copy(len(now.sets) + 1)
            sets = subtract(now.sets, kept, none, nothing, len(self.node_at))
            sets.sizes[:] = now.sets.sizes[kept]
            sets.pool.limit = self.limit
            component, cyclic, places = number[now.component], now.cyclic[kept], now.places[kept]
            self._now = self._before = replace(
                now, component=component, cyclic=cyclic, places=places, sets=sets
            )


def _bytes_of(sets: PositionSets, owners: np.ndarray) -> int:
    """What the sets of some owners take in the pool."""
    return 8 * int(sets.interval_counts[owners].sum()) + 68 * int(sets.block_counts[owners].sum())


def _bases(
    number_of: np.ndarray, old: np.ndarray, count: int, with_bases: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and the old components that each component's members were in."""
    offsets = np.zeros(count + 1, np.uint64)
    if not with_bases:
        return offsets, np.empty(0, np.uint32)
    distinct = np.unique((number_of.astype(np.uint64) << np.uint64(32)) | old)
    np.cumsum(np.bincount((distinct >> np.uint64(32)).astype(np.int64), minlength=count), out=offsets[1:])
    return offsets, (distinct & np.uint64(NONE)).astype(np.uint32)


def _resized(array: np.ndarray, length: int) -> np.ndarray:
    result = np.zeros(length, array.dtype)
    result[: len(array)] = array
    return result
