"""Hypertree decompositions of a body, the cheapest by a cost model.

A body becomes a tree of nodes.  Each node p joins a few atoms, λ(p), and keeps some of their variables, χ(p);
the nodes are then joined as an acyclic query is, with semi-joins along the tree.  For

    PC(x, y) :- CW(x, z1), CA(x, z2), PC(z1, y), PC(z2, y).

there are two nodes, CW ⋈ PC over {x, z1, y} and CA ⋈ PC over {x, z2, y}: neither pairs the z1 with the z2 of
an x.

The search is cost-k-decomp of Scarcello, Greco and Leone: of the decompositions in normal form whose
nodes are covered by at most k atoms, the cheapest, by dynamic programming over pairs of a component and the
variables by which it hangs on the rest.  Decompositions are *complete*: a node also joins the atoms that
its variables cover, though they add none.

The smallest k with a decomposition is not always the best one.  A cycle of eight atoms has width two, but
then some of its nodes are cross products; with three, nodes can be paths of up to five atoms, and two paths
of four make up the cycle.  So k goes on beyond the width, and the cost decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import inf

from gpuengine.language.program import Atom, Literal, Variable
from gpuengine.planning.hypergraph import edges_of
from gpuengine.planning.join_size import JoinSizes, bits
from gpuengine.planning.order import Statistics

THOROUGH_ATOMS = 12
"""Bodies of more atoms are searched for connected nodes covered by at most two atoms only."""
MOST_ATOMS = 30
"""Longer bodies are not decomposed at all: nobody writes them by hand, and recursion would be deep."""
MOST_CANDIDATES = 10_000
"""So many covers are considered for a body; a width that needs more is given up."""
NEARLY = 0.99
"""A larger width must cost at most this share of a smaller one."""


@dataclass(frozen=True)
class Node:
    """One join of a decomposition and what hangs below it. Atoms are body positions, in ascending order."""

    cover: tuple[int, ...]
    """Atoms whose variables include all of `variables`."""
    atoms: tuple[int, ...]
    """λ: the cover, and the atoms that `variables` covers unless a node above joins them."""
    variables: frozenset[Variable]
    """χ: an atom of the cover that another node enforces may have more, which are projected away."""
    children: tuple[Node, ...]
    rows: float
    """Expected bindings of the variables that another node or the rest of the rule mentions."""
    cost: float
    """Expected bindings, intermediate and final, of the join of the atoms."""


@dataclass(frozen=True)
class Decomposition:
    """A complete hypertree decomposition in normal form.

    `cost` is that of its nodes, plus twice the rows of both for any two that are adjacent: their semi-joins.
    """

    root: Node
    cost: float

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """In preorder: every node before its children."""
        preorder: list[Node] = []
        pending = [self.root]
        while pending:
            node = pending.pop()
            preorder.append(node)
            pending.extend(reversed(node.children))
        return tuple(preorder)

    @property
    def width(self) -> int:
        return max(len(node.cover) for node in self.nodes)


def decompose(
    body: Sequence[Literal],
    statistics: Statistics,
    wanted: frozenset[Variable],
    *,
    most: int = 4,
    divided: bool = False,
) -> Decomposition | None:
    """The cheapest decomposition of the positive atoms of `body`; `wanted` are the variables needed after.

    If it is to be `divided`, one node does not do, even if that is the cheapest.
    Widths go up to `most`, or to one more than the smallest possible. None if there are fewer than two atoms
    or more than `MOST_ATOMS`, or if the search is given up before there is any.  For n atoms and width k it
    considers O(n^k) nodes for each of O(n^k) components, together at most `MOST_CANDIDATES`.
    """
    if not 2 <= sum(isinstance(part, Atom) for part in body) <= MOST_ATOMS:
        return None
    search = Search(body, statistics, wanted, divided=divided)
    best: Decomposition | None = None
    width, last = 1, search.atoms if search.atoms <= THOROUGH_ATOMS else 2
    while width <= last:
        try:
            candidate = search.cheapest(width)
        except _GivenUp:
            break
        if candidate is not None:
            if best is None:
                last = min(last, max(width + 1, most))
            if best is None or candidate.cost < NEARLY * best.cost:
                best = candidate
        width += 1
    return best


class _GivenUp(Exception):
    """`MOST_CANDIDATES` have been considered."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Atoms that are left below some node and connected by variables outside of its χ, and their
    `connecting` variables within it."""

    atoms: int
    connecting: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """A node in bit masks, with the parts below it; `total` is the cost of the subtree."""

    cover: int
    atoms: int
    variables: int
    parts: tuple[_Part, ...]
    rows: float
    total: float


class Search:
    """Decompositions of one body under one set of statistics; what does not depend on the width is kept.

    Atoms and variables are bits. A part is solved once for each width; only the whole body may be
    unconnected.
    """

    def __init__(
        self,
        body: Sequence[Literal],
        statistics: Statistics,
        wanted: frozenset[Variable],
        *,
        divided: bool = False,
    ) -> None:
        edges = edges_of(body)
        self.atoms = len(edges)
        self._positions = list(edges)
        self._variables = list(dict.fromkeys(v for edge in edges.values() for v in sorted(edge, key=_name)))
        vertices = {variable: 1 << i for i, variable in enumerate(self._variables)}
        self._edges = {1 << i: sum(vertices[v] for v in edge) for i, edge in enumerate(edges.values())}
        self._wanted = sum(vertices[variable] for variable in wanted if variable in vertices)
        atoms = [part for part in body if isinstance(part, Atom)]
        self._sizes = JoinSizes(atoms, vertices, statistics)
        self._connected: dict[int, bool] = {}
        self._parts: dict[tuple[int, int], tuple[_Part, ...]] = {}
        self._divided = divided
        self._considered = 0
        self._width = 0
        self._solved: dict[_Part, _Choice | None] = {}

    def cheapest(self, width: int) -> Decomposition | None:
        """The cheapest decomposition of at most this width, None if there is none."""
        self._width, self._solved = width, {}
        everything = _Part((1 << self.atoms) - 1, 0)
        choice = self._solve(everything, root=True)
        return None if choice is None else Decomposition(self._node(choice), choice.total)

    def _solve(self, part: _Part, root: bool = False) -> _Choice | None:
        """The best subtree for `part`.

        A node that is a cross product is taken only if there is no other way. Its rows count for the
        semi-joins with the node above, so a cheaper subtree with a larger root can be the worse one.
        """
        if part in self._solved:
            return self._solved[part]
        best: _Choice | None = None
        least = inf
        weight = 0.0 if root else 2.0
        for connected in (True, False):
            for cover, variables, atoms in self._candidates(part, connected):
                choice = self._completed(part, cover, variables, atoms, least)
                if root and self._divided and choice is not None and not choice.parts:
                    continue
                if choice is not None and choice.total + weight * choice.rows < least:
                    best, least = choice, choice.total + weight * choice.rows
            if best is not None or self.atoms > THOROUGH_ATOMS:
                break
        self._solved[part] = best
        return best

    def _completed(self, part: _Part, cover: int, variables: int, atoms: int, bound: float) -> _Choice | None:
        """The node with the best subtrees below it, if there are any and it costs less than `bound`."""
        total = self._sizes.cost(atoms)
        if total >= bound:
            return None
        enforced = self._covered(part.atoms, variables)
        parts = self._split(part.atoms & ~enforced, variables)
        needed = self._wanted | part.connecting
        for below in parts:
            needed |= below.connecting
        rows = self._sizes.projected(atoms, needed & variables)
        for below in parts:
            choice = self._solve(below)
            if choice is None:
                return None
            total += choice.total + 2.0 * (rows + choice.rows)
            if total >= bound:
                return None
        return _Choice(cover, atoms, variables, parts, rows, total)

    def _candidates(self, part: _Part, connected: bool) -> Iterator[tuple[int, int, int]]:
        """Covers for the top node of `part`, small ones first, with their χ and λ.

        Normal form: the cover has an atom of the part, which is then done, so every part below is smaller.
        Atoms from elsewhere only ever add connecting variables (any other variable of a part is in atoms of
        that part alone), so they are taken in only for those that would otherwise be missing.
        """
        inside = bits(part.atoms)
        inside = [atom for atom in inside if self._edges[atom]] or inside
        scope = self._variables_of(part.atoms)
        seen = set()
        for count in range(1, self._width + 1):
            for chosen in combinations(inside, count):
                own = sum(chosen)
                missing = part.connecting & ~self._variables_of(own)
                for added in self._fillings(missing, part.atoms, self._width - count):
                    self._considered += 1
                    if self._considered > MOST_CANDIDATES:
                        raise _GivenUp
                    cover = own | added
                    variables = self._variables_of(cover) & scope
                    atoms = cover | self._covered(part.atoms, variables)
                    if (variables, atoms) in seen:
                        continue
                    seen.add((variables, atoms))
                    if self._is_connected(atoms) == connected:
                        yield cover, variables, atoms

    def _fillings(self, missing: int, inside: int, most: int) -> Iterator[int]:
        """Sets of at most `most` atoms outside of `inside` that cover `missing`, none of them superfluous."""
        if not missing:
            yield 0
            return
        outside = [atom for atom, edge in self._edges.items() if edge & missing and not atom & inside]
        for count in range(1, most + 1):
            for chosen in combinations(outside, count):
                added = sum(chosen)
                if not missing & ~self._variables_of(added) and all(
                    missing & ~self._variables_of(added ^ atom) for atom in chosen
                ):
                    yield added

    def _variables_of(self, atoms: int) -> int:
        variables = 0
        for atom in bits(atoms):
            variables |= self._edges[atom]
        return variables

    def _covered(self, atoms: int, variables: int) -> int:
        return sum(atom for atom in bits(atoms) if not self._edges[atom] & ~variables)

    def _split(self, atoms: int, separator: int) -> tuple[_Part, ...]:
        """The parts into which `atoms` fall when the variables in `separator` no longer connect them."""
        split = self._parts.get((atoms, separator))
        if split is None:
            parts = []
            rest = atoms
            while rest:
                component = self._reached(rest, separator)
                rest &= ~component
                parts.append(_Part(component, self._variables_of(component) & separator))
            split = self._parts[atoms, separator] = tuple(parts)
        return split

    def _reached(self, atoms: int, separator: int) -> int:
        """The atoms connected with the first one by variables outside of `separator`."""
        connected = atoms & -atoms
        reach = self._edges[connected] & ~separator
        rest = bits(atoms ^ connected)
        while True:
            more = [atom for atom in rest if self._edges[atom] & reach]
            if not more:
                return connected
            for atom in more:
                connected |= atom
                reach |= self._edges[atom] & ~separator
            rest = [atom for atom in rest if not atom & connected]

    def _is_connected(self, atoms: int) -> bool:
        """Can the atoms be joined without a cross product? Those without variables only filter."""
        connected = self._connected.get(atoms)
        if connected is None:
            joined = sum(atom for atom in bits(atoms) if self._edges[atom])
            connected = self._connected[atoms] = not joined or self._reached(joined, 0) == joined
        return connected

    def _node(self, choice: _Choice) -> Node:
        children = []
        for part in choice.parts:
            below = self._solved[part]
            assert below is not None
            children.append(self._node(below))
        return Node(
            self._positions_of(choice.cover),
            self._positions_of(choice.atoms),
            frozenset(v for i, v in enumerate(self._variables) if choice.variables >> i & 1),
            tuple(children),
            choice.rows,
            self._sizes.cost(choice.atoms),
        )

    def _positions_of(self, atoms: int) -> tuple[int, ...]:
        return tuple(position for i, position in enumerate(self._positions) if atoms >> i & 1)


def _name(variable: Variable) -> str:
    return variable.name
