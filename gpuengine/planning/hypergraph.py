"""The variable dependency hypergraph of a body, and whether it has a join tree.

Each positive atom is a hyperedge, the set of its variables.  A rule is cyclic if there is no tree of its
atoms in which the atoms of every variable are connected (definitions 1 and 2 of the thesis).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
        """All positions, each after its children, the root last; in time quadratic in the tree."""
        order = [self.root]
        for position in order:
            order.extend(self.children(position))
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
    """A join tree of one or more edges, None if there is none; cubic in the number of edges.

    GYO: an edge is an *ear* if what it shares with the others lies within one of them, below which it
    then hangs.  The hypergraph is acyclic exactly if removing ears leaves a single edge, whatever the order.
    Edges that share nothing with the others are ears anywhere.
    """
    remaining = dict(edges)
    parent: dict[int, int] = {}
    while len(remaining) > 1:
        ear = _ear(remaining)
        if ear is None:
            return None
        position, above = ear
        parent[position] = above
        del remaining[position]
    return JoinTree(next(iter(remaining)), parent)


def _ear(edges: Mapping[int, frozenset[Variable]]) -> tuple[int, int] | None:
    """The position of an ear, and one that it can hang below."""
    for position, edge in edges.items():
        others = {other: variables for other, variables in edges.items() if other != position}
        shared = edge.intersection(frozenset().union(*others.values()))
        for other, variables in others.items():
            if shared <= variables:
                return position, other
    return None


def is_cyclic(body: Sequence[Literal]) -> bool:
    """Does the hypergraph of `body` have no join tree?"""
    edges = edges_of(body)
    return bool(edges) and join_tree(edges) is None
