"""What each node of a directed graph reaches, kept compactly while edges come and go."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cpu import digraph_kernels as kernels
from gpuengine.kernels.cpu.position_sets import NEVER, Unions, subtract, trim, unite
from gpuengine.kernels.position_sets import PositionSets, empty_pool, empty_sets
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes.digraph import Adjacency, adjacency
from gpuengine.schemes.pairs import Reached

NO_LIMIT = 1 << 62
_REBUILD_SHARE = 2
"""A batch of at least one part in so many of the edges makes everything anew, newly numbered."""
_GARBAGE_SHARE = 2
_WIDE_LEVEL = 4096
"""From so many independent components on, several threads share the work."""


@dataclass(frozen=True, slots=True)
class _Version:
    """The strongly connected component of each node, and for each component what it reaches.

    `places` has the position of a node of each, `cyclic` whether it reaches itself.
    """

    component: np.ndarray
    cyclic: np.ndarray
    places: np.ndarray
    sets: PositionSets

    @property
    def nodes(self) -> int:
        return len(self.component)

    @property
    def pairs(self) -> int:
        return int(self.sets.sizes[self.component[self.component != NONE]].sum())


@dataclass(frozen=True, slots=True)
class _Condensed:
    """Components of some nodes, those that others lead to first: their members one after another."""

    members: np.ndarray
    ends: np.ndarray

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def starts(self) -> np.ndarray:
        return np.concatenate([np.zeros(1, np.uint32), self.ends[:-1]])

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.ends, prepend=np.uint32(0))

    @property
    def number_of_member(self) -> np.ndarray:
        return np.repeat(np.arange(self.count, dtype=np.uint32), self.sizes)


class Reachability:
    """A graph over nodes 0, 1, ... and what each node reaches by one edge or more, after and before a change.

    Strongly connected components share a set of positions: nodes are numbered in post-order of a tree cover
    (Agrawal, Borgida and Jagadish), so that most sets are a few intervals. A set includes its component's own
    nodes only if an edge, or a way through others, leads back.

    Life-cycle: `insert` or `delete` changes the graph; until `merge`, `now` and `before` are the two versions
    and `change` is what the one has more than the other; `merge` forgets `before`. Sets are never changed in
    place: a change makes new ones for the components that it touches, which are those that lead to a changed
    edge, and the two versions share the rest. Its cost is that of these components and their edges.
    """

    def __init__(self, *, stop: np.ndarray = NEVER, threads: int = 1, limit: int = NO_LIMIT) -> None:
        self.stop = stop
        self.threads = threads
        self.limit = limit
        none = np.empty(0, np.uint32)
        self._out: Adjacency = adjacency(none, none, 0)
        self._in: Adjacency | None = None
        self._edges = 0
        self.positions = none
        self.node_at = none
        self._now = self._before = _Version(
            none, np.empty(0, np.uint8), none, empty_sets(empty_pool(0, 0), 0)
        )
        self._change: Reached | None = None

    @property
    def nodes(self) -> int:
        return self._now.nodes

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

    @property
    def pairs(self) -> tuple[int, int]:
        """How many pairs there are now, and how many there were before."""
        now = self._now.pairs
        return now, now if self._before is self._now else self._before.pairs

    @property
    def mutual_pairs(self) -> int:
        """How many of the pairs there are the other way round as well: those within a component."""
        sizes = np.bincount(self._now.component, minlength=len(self._now.cyclic)).astype(np.uint64)
        return int((sizes[self._now.cyclic != 0] ** 2).sum())

    @property
    def nbytes(self) -> int:
        versions = (self._now,) if self._before is self._now else (self._now, self._before)
        parts = [self._out.nbytes, self._in.nbytes if self._in is not None else 0, self._now.sets.pool.nbytes]
        parts += [self.positions.nbytes, self.node_at.nbytes]
        for version in versions:
            parts += [version.component.nbytes, version.cyclic.nbytes, version.places.nbytes]
            parts.append(version.sets.nbytes)
        if self._change is not None:
            parts += [self._change.owners.nbytes, self._change.sets.nbytes, self._change.sets.pool.nbytes]
        return sum(parts)

    @property
    def change(self) -> Reached:
        """What is reached in one of the versions and not in the other; made when first asked for."""
        if self._change is None:
            self._change = self._difference()
        return self._change

    def insert(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> None:
        """Add edges between the nodes, which are `nodes` now; the version until now becomes `before`.

        An edge may come several times; to delete it takes it away altogether.
        """
        self.merge()
        if not len(sources):
            return
        if len(sources) * _REBUILD_SHARE >= self._edges:
            self._insert_by_rebuilding(sources, targets, nodes)
        else:
            self._insert_by_extending(sources, targets, nodes)
        self._edges += len(sources)

    def delete(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Take away edges; a mask of those that were there. The version until now becomes `before`."""
        self.merge()
        if not len(sources):
            return np.zeros(0, np.bool_)
        incoming = self._incoming()
        marked, nodes = self._leading_to(np.unique(sources), incoming)
        found = self._out.remove(sources, targets)
        incoming.remove(targets[found], sources[found])
        self._edges -= int(np.count_nonzero(found))
        self._now = self._recomputed(marked, nodes, new_from=0, with_bases=False)
        return found

    def merge(self) -> None:
        """Forget the version before."""
        self._before = self._now
        self._change = None
        self._collect_garbage()

    def _insert_by_rebuilding(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> None:
        old = self._out
        had_edges = self._edges > 0
        if had_edges:
            old_sources, old_targets = old.edges()
            sources, targets = np.concatenate([old_sources, sources]), np.concatenate([old_targets, targets])
        self._out, self._in = adjacency(sources, targets, nodes), None
        self._now = self._built(self._out, nodes, number=True)
        if had_edges:
            again = adjacency(old_sources, old_targets, self._before.nodes)
            self._before = self._built(again, self._before.nodes, number=False, pool_of=self._now)
        else:
            self._before = _Version(
                np.full(self._before.nodes, NONE, np.uint32), *_nothing(), empty_sets(self._now.sets.pool, 0)
            )

    def _built(
        self, out: Adjacency, nodes: int, *, number: bool, pool_of: _Version | None = None
    ) -> _Version:
        """A version made from nothing, in the pool of another if one is given."""
        marked = np.ones(nodes, np.uint8)
        condensed = _condense(out, np.arange(nodes, dtype=np.uint32), marked)
        count = condensed.count
        component = np.empty(nodes, np.uint32)
        component[condensed.members] = condensed.number_of_member
        cyclic = np.zeros(count, np.uint8)
        child_offsets, children = self._children(
            out, condensed, component, np.arange(count, dtype=np.uint32), marked, 0, cyclic
        )
        if number:
            self._number(condensed, child_offsets, children, nodes)
        places = self.positions[condensed.members[condensed.starts]] if count else np.empty(0, np.uint32)
        pool = pool_of.sets.pool if pool_of is not None else empty_pool(2 * nodes, nodes // 64, self.limit)
        sets = empty_sets(pool, count)
        own_offsets, own = self._own(condensed, cyclic)
        order, spans = np.arange(count, dtype=np.uint32), [(0, count, False)]
        if self.threads > 1 and count >= 4 * _WIDE_LEVEL:
            order, spans = _by_level(count, child_offsets, children)
            child_offsets, children = _gathered(order, child_offsets, children)
            own_offsets, own = _gathered(order, own_offsets, own)
        no_bases = np.zeros(count + 1, np.uint64), np.empty(0, np.uint32)
        unions = Unions(order, *no_bases, child_offsets, children, own_offsets, own, places, cyclic, spans)
        unite(unions, sets, sets, len(self.node_at), stop=self.stop, threads=self.threads)
        trim(pool)
        return _Version(component, cyclic, places, sets)

    def _number(
        self, condensed: _Condensed, child_offsets: np.ndarray, children: np.ndarray, nodes: int
    ) -> None:
        count = condensed.count
        level = np.zeros(count, np.uint32)
        parent, first, last, sibling = (np.full(count, NONE, np.uint32) for _ in range(4))
        kernels.choose_parents(count, child_offsets, children, level, parent, first, last, sibling)
        self.positions, self.node_at = np.empty(nodes, np.uint32), np.empty(nodes, np.uint32)
        kernels.number_positions(
            count, parent, first, sibling, condensed.members, condensed.ends, self.positions, self.node_at
        )

    def _children(
        self,
        out: Adjacency,
        condensed: _Condensed,
        component: np.ndarray,
        rank: np.ndarray,
        marked: np.ndarray,
        new_from: int,
        cyclic: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and children of the components; sets `cyclic` of those that are."""
        members = condensed.members.astype(np.int64)
        degrees = out.offsets[members + 1] - out.offsets[members]
        children = np.empty(int(degrees.sum()) + out.linked, np.uint32)
        offsets = np.empty(condensed.count + 1, np.uint64)
        written = kernels.list_children(
            *out.arrays, condensed.members, condensed.ends, condensed.count, component, rank, marked,
            new_from, offsets, children, cyclic,
        )  # fmt: skip
        return offsets, children[:written]

    def _own(self, condensed: _Condensed, cyclic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Offsets and positions of the nodes of cyclic components; `cyclic` is by number here."""
        lengths = np.where(cyclic != 0, condensed.sizes, 0)
        offsets = np.zeros(condensed.count + 1, np.uint64)
        np.cumsum(lengths, out=offsets[1:])
        of_cyclic = np.repeat(cyclic != 0, condensed.sizes)
        return offsets, self.positions[condensed.members[of_cyclic]]

    def _insert_by_extending(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> None:
        incoming = self._incoming()
        self._add_nodes(nodes)
        new_from = self._out.link(sources, targets)
        incoming.link(targets, sources)
        marked, affected = self._leading_to(np.unique(sources), incoming)
        self._now = self._recomputed(marked, affected, new_from=new_from, with_bases=True)
        self._out, self._in = self._out.folded(), incoming.folded()

    def _add_nodes(self, nodes: int) -> None:
        """New nodes get the positions at the end, and components of their own that reach nothing."""
        now, added = self._now, nodes - self._now.nodes
        if not added:
            return
        fresh = np.arange(len(self.node_at), len(self.node_at) + added, dtype=np.uint32)
        components = len(now.cyclic)
        self.positions = np.concatenate([self.positions, fresh])
        self.node_at = np.concatenate([self.node_at, np.arange(now.nodes, nodes, dtype=np.uint32)])
        self._now = _Version(
            np.concatenate([now.component, np.arange(components, components + added, dtype=np.uint32)]),
            np.concatenate([now.cyclic, np.zeros(added, np.uint8)]),
            np.concatenate([now.places, fresh]),
            now.sets.copy(components + added),
        )
        self._out.add_nodes(nodes)
        self._incoming().add_nodes(nodes)

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
    ) -> _Version:
        """The version after a change that touches the given nodes, which are whole components.

        With bases, sets only grow: to what was reached come the targets of new links and what changed
        components reach. Without, they are made anew from all edges.
        """
        now = self._now
        condensed = _condense(self._out, nodes, marked)
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
        child_offsets, children = self._children(
            self._out, condensed, component, rank, wanted, new_from, cyclic
        )
        base_offsets, bases = _bases(number_of, old, condensed.count, with_bases)
        sets = now.sets.copy(total)
        own_offsets, own = self._own(condensed, cyclic[owners])
        unions = Unions(
            owners, base_offsets, bases, child_offsets, children, own_offsets, own, places, cyclic,
            [(0, condensed.count, False)],
        )  # fmt: skip
        unite(unions, now.sets, sets, len(self.node_at), stop=self.stop)
        return _Version(component, cyclic, places, sets)

    def _owners(
        self, condensed: _Condensed, old: np.ndarray, number_of: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """An owner for each component, and how many there are then: its own if its members are as before."""
        first_old = old[condensed.starts]
        strangers = np.bincount(number_of, weights=old != first_old[number_of], minlength=condensed.count)
        before = np.bincount(old, minlength=len(self._now.cyclic))
        changed = (strangers > 0) | (before[first_old] != condensed.sizes)
        owners, total = first_old.copy(), len(self._now.cyclic)
        fresh = int(np.count_nonzero(changed))
        owners[changed] = np.arange(total, total + fresh, dtype=np.uint32)
        return owners, total + fresh

    def _difference(self) -> Reached:
        now, before = self._now, self._before
        if now is before:
            return Reached(np.empty(0, np.uint32), empty_sets(now.sets.pool, 0))
        # Where there was nothing, an empty set is subtracted: that of an owner past the others.
        empty = len(before.sets)
        earlier = PositionSets(*_with_empty(before.sets))
        old = np.full(now.nodes, empty, np.uint32)
        known = before.component != NONE
        old[: before.nodes][known] = before.component[known]
        changed = now.sets.sizes[now.component] != earlier.sizes[old]
        pairs = (now.component[changed].astype(np.uint64) << np.uint64(32)) | old[changed]
        distinct, which = np.unique(pairs, return_inverse=True)
        new_owner = (distinct >> np.uint64(32)).astype(np.uint32)
        old_owner = (distinct & np.uint64(NONE)).astype(np.uint32)
        grown = bool(np.all(now.sets.sizes[new_owner] >= earlier.sizes[old_owner]))
        more = (
            (now.sets, new_owner, earlier, old_owner) if grown else (earlier, old_owner, now.sets, new_owner)
        )
        sets = subtract(*more, len(self.node_at), stop=self.stop)
        owners = np.full(now.nodes, NONE, np.uint32)
        owners[changed] = which
        return Reached(owners, sets)

    def _collect_garbage(self) -> None:
        """Make the sets and their pool anew if most of it belongs to no component any more."""
        sets, pool = self._now.sets, self._now.sets.pool
        used = np.zeros(len(sets), np.bool_)
        used[self._now.component] = True
        intervals = int(sets.interval_counts[used].sum())
        blocks = int(sets.block_counts[used].sum())
        live = 8 * intervals + 68 * blocks + (1 << 16)
        if 8 * pool.intervals + 68 * pool.block_count <= _GARBAGE_SHARE * live:
            return
        kept = np.flatnonzero(used).astype(np.uint32)
        number = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
        none = PositionSets(*_with_empty(sets))
        empty = np.full(len(kept), len(sets), np.uint32)
        self._now = self._before = _Version(
            number[self._now.component],
            self._now.cyclic[kept],
            self._now.places[kept],
            subtract(sets, kept, none, empty, len(self.node_at)),
        )
        self._now.sets.pool.limit = self.limit


def _condense(out: Adjacency, nodes: np.ndarray, marked: np.ndarray) -> _Condensed:
    """The strongly connected components of the marked nodes, which `nodes` lists; marks become 2."""
    total, count = len(marked), len(nodes)
    number = np.zeros(total, np.uint32)
    low, cursor = np.empty(total, np.uint32), np.empty(total, np.uint64)
    stack, path, members, ends = (np.empty(count, np.uint32) for _ in range(4))
    components = kernels.find_components(
        *out.arrays, nodes, count, marked, number, low, cursor, stack, path, members, ends
    )
    return _Condensed(members, ends[:components])


def _by_level(
    count: int, child_offsets: np.ndarray, children: np.ndarray
) -> tuple[np.ndarray, list[tuple[int, int, bool]]]:
    """An order of the components by height, and its stretches: each wide level, and all between two of them.

    If few are in wide levels, the order they have.
    """
    heights = np.empty(count, np.uint32)
    levels = kernels.find_heights(count, child_offsets, children, heights) + 1
    widths = np.bincount(heights, minlength=levels)
    wide = widths >= _WIDE_LEVEL
    if 2 * widths[wide].sum() < count:
        return np.arange(count, dtype=np.uint32), [(0, count, False)]
    ends = np.cumsum(widths)
    order = np.empty(count, np.uint32)
    kernels.order_by_key(heights, count, (ends - widths).astype(np.uint64), order)
    spans: list[tuple[int, int, bool]] = []
    done = 0
    for level in np.flatnonzero(wide):
        begin, end = int(ends[level] - widths[level]), int(ends[level])
        spans += [(done, begin, False)] if begin > done else []
        spans.append((begin, end, True))
        done = end
    return order, [*spans, (done, count, False)] if done < count else spans


def _gathered(order: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lists in another order."""
    gathered_offsets, gathered = np.empty(len(offsets), np.uint64), np.empty(len(values), np.uint32)
    kernels.gather_lists(order, len(order), offsets, values, gathered_offsets, gathered)
    return gathered_offsets, gathered


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


def _nothing() -> tuple[np.ndarray, np.ndarray]:
    return np.empty(0, np.uint8), np.empty(0, np.uint32)


def _with_empty(sets: PositionSets) -> tuple:
    grown = sets.copy(len(sets) + 1)
    return grown.pool, *grown.arrays
