"""The variable dependency hypergraph of a body, and whether it has a join tree.

Each positive atom is a hyperedge, the set of its variables.  A rule is cyclic if there is no tree of its
atoms in which the atoms of every variable are connected (definitions 1 and 2 of the thesis).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from gpuengine.language.program import Atom, Literal, Variable, literal_variables


@dataclass(frozen=True, slots=True)
class JoinTree:
    """A tree of the atoms at the body positions `root` and those in `parent`.

    For every variable, the atoms that mention it are connected in the tree.
    """

    root: int
    parent: Mapping[int, int]

    def children(self, position: int) -> tuple[int, ...]:
        """In ascending order; in time linear in the tree."""
        return tuple(sorted(child for child, above in self.parent.items() if above == position))

    def bottom_up(self) -> tuple[int, ...]:
        """All positions, each after its children, the root last."""
        below: dict[int, list[int]] = {}
        for child in sorted(self.parent):
            below.setdefault(self.parent[child], []).append(child)
        order = [self.root]
        for position in order:
            order.extend(below.get(position, ()))
        return tuple(reversed(order))

    def rerooted(self, root: int) -> JoinTree:
        """The same tree hung up at `root`: the edges on the way from there to the old root turn around."""
        parent = dict(self.parent)
        below, above = root, parent.pop(root, None)
        while above is not None:
            following = parent.get(above)
            parent[above] = below
            below, above = above, following
        return JoinTree(root, parent)


def edges_of(body: Sequence[Literal]) -> dict[int, frozenset[Variable]]:
    """The hyperedges by body position. Constants and wildcards are no vertices, so an edge may be empty."""
    return {i: literal_variables(part) for i, part in enumerate(body) if isinstance(part, Atom)}


def join_tree(edges: Mapping[int, frozenset[Variable]]) -> JoinTree | None:
    """A join tree of one or more edges, None if there is none.

    GYO: an edge is an *ear* if what it shares with the others lies within one of them, below which it
    then hangs.  The hypergraph is acyclic exactly if removing ears leaves a single edge, whatever the order.
    Edges that share nothing with the others are ears anywhere.  An edge that is no ear can only become one
    when nobody else holds one of its variables any more, so few are looked at twice.
    """
    remaining = dict(edges)
    holders: dict[Variable, set[int]] = {}
    for position, edge in edges.items():
        for variable in edge:
            holders.setdefault(variable, set()).add(position)
    parent: dict[int, int] = {}
    waiting = list(edges)
    heapify(waiting)
    while len(remaining) > 1:
        if not waiting:
            return None
        position = heappop(waiting)
        above = _parent(position, remaining, holders) if position in remaining else None
        if above is None:
            continue
        parent[position] = above
        for variable in remaining.pop(position):
            held_by = holders[variable]
            held_by.discard(position)
            if len(held_by) == 1:
                heappush(waiting, next(iter(held_by)))
    return JoinTree(next(iter(remaining)), parent)


def _parent(
    position: int, edges: Mapping[int, frozenset[Variable]], holders: Mapping[Variable, set[int]]
) -> int | None:
    """The first edge that one can hang below; None if it is no ear."""
    shared = frozenset(variable for variable in edges[position] if len(holders[variable]) > 1)
    if not shared:
        return next(other for other in edges if other != position)
    fewest = min((holders[variable] for variable in shared), key=len)
    return min((other for other in fewest if other != position and shared <= edges[other]), default=None)


def is_cyclic(body: Sequence[Literal]) -> bool:
    """Does the hypergraph of `body` have no join tree?"""
    edges = edges_of(body)
    return bool(edges) and join_tree(edges) is None
