"""Relations of which a proof shows many steps as one: closures as paths, equivalences as chains.

    path(x, y) :- edge(x, y).                      path(1, 4): along edge(1, 2), edge(2, 3), edge(3, 4)
    path(x, z) :- path(x, y), path(y, z).          or with path(x, y), edge(y, z); edge(x, y), path(y, z)

    same(y, x) :- same(x, y).                      same(1, 3): by same(2, 1) backwards, same(2, 3)
    same(x, z) :- same(x, y), same(y, z).

A path leads through places: a value before or after the one fact of the relation itself that every path has
by its *other* rules, or stated. What may come before it and after it are the arcs of the chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuengine.explaining.rules import WrittenRule, WrittenRules
from gpuengine.language.graphs import strong_components
from gpuengine.language.program import Atom
from gpuengine.planning.plan import body_relations, needs_of
from gpuengine.planning.sharing import composition, is_transitive

Place = Literal[0, 1]
BEFORE: Place = 0
AFTER: Place = 1


@dataclass(frozen=True, slots=True)
class Arc:
    """Facts of a relation that lead from place to place; `rule` says so, if it is not the chain's own."""

    relation: str
    start: Place
    end: Place
    is_reversed: bool = False
    rule: WrittenRule | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """A relation whose `implied` rules are applied many times in one step of a proof.

    `others` derive the facts that it begins with. `arcs` with its own name mean facts by those, or stated.
    """

    relation: str
    kind: Literal["path", "chain"]
    implied: tuple[WrittenRule, ...]
    others: tuple[WrittenRule, ...]
    arcs: tuple[Arc, ...]


def find_chains(rules: WrittenRules) -> dict[str, Chain]:
    """The chains of a program by relation."""
    components = strong_components(needs_of(rules.program))
    component = {name: number for number, names in enumerate(components) for name in names}
    chains = {}
    for name, relation in rules.program.relations.items():
        if relation.arity == 2 and rules.of(name):
            chain = _transitive(name, rules) or _linear(name, rules, component)
            if chain is not None:
                chains[name] = chain
    return chains


def _transitive(name: str, rules: WrittenRules) -> Chain | None:
    own = rules.of(name)
    transitive = [written for written in own if is_transitive(written.rule)]
    if not transitive:
        return None
    symmetric = [written for written in own if _is_symmetric(written)]
    if not symmetric:
        arcs = [Arc(name, BEFORE, AFTER), Arc(name, AFTER, AFTER)]
        return _chain(name, "path", transitive, own, arcs)
    reflexive = [written for written in own if _is_reflexive(written)]
    arcs = [Arc(name, start, AFTER, back) for start in (BEFORE, AFTER) for back in (False, True)]
    return _chain(name, "chain", [*symmetric, *transitive, *reflexive], own, arcs)


def _linear(name: str, rules: WrittenRules, component: dict[str, int]) -> Chain | None:
    """Rules that put a fact of another relation before or after; nothing else may recur."""
    own = rules.of(name)
    itself = (name, (0, 1))
    arcs, implied = [Arc(name, BEFORE, AFTER)], []
    for written in own:
        parts = composition(written.rule)
        if parts is None or itself not in parts or parts[0] == parts[1]:
            continue
        left, right = parts
        (step, order), place = (right, AFTER) if left == itself else (left, BEFORE)
        if component[step] == component[name]:
            continue
        arcs.append(Arc(step, place, place, order == (1, 0), written))
        implied.append(written)
    if not implied:
        return None
    chain = _chain(name, "path", implied, own, arcs)
    recurs = any(
        component[read] == component[name]
        for written in chain.others
        for read in body_relations(written.rule.body)
    )
    return None if recurs else chain


def _chain(
    name: str,
    kind: Literal["path", "chain"],
    implied: Sequence[WrittenRule],
    own: Sequence[WrittenRule],
    arcs: Sequence[Arc],
) -> Chain:
    numbers = {written.number for written in implied}
    others = tuple(written for written in own if written.number not in numbers)
    return Chain(name, kind, tuple(implied), others, tuple(arcs))


def _copied(written: WrittenRule) -> Atom | None:
    """The only literal of a rule, if it is an atom of the relation that it derives."""
    (first, *more) = written.rule.body
    if more or not isinstance(first, Atom) or first.relation != written.head.relation:
        return None
    return first


def _is_symmetric(written: WrittenRule) -> bool:
    """r(y, x) :- r(x, y)."""
    atom = _copied(written)
    return atom is not None and len({*atom.args}) == 2 and written.head.args == atom.args[::-1]


def _is_reflexive(written: WrittenRule) -> bool:
    """r(x, x) :- r(x, _).  r(x, x) :- r(_, x)."""
    atom, (x, other) = _copied(written), written.head.args
    return atom is not None and x == other and x in atom.args and len({*atom.args}) == 2


@dataclass(frozen=True, slots=True)
class Arcs:
    """Facts that lead from place to place, with the heights of their proofs: a column for each.

    `labels` tell the arc and the fact.
    """

    starts: np.ndarray
    ends: np.ndarray
    heights: np.ndarray
    labels: np.ndarray

    def up_to(self, height: int) -> Arcs:
        kept = self.heights <= height
        return Arcs(self.starts[kept], self.ends[kept], self.heights[kept], self.labels[kept])


def place_of(place: Place, ids: np.ndarray) -> np.ndarray:
    """A number for each value at a place."""
    return (np.uint64(place) << np.uint64(32)) | ids.astype(np.uint64)


class Graph:
    """Places and the arcs between them, to find shortest walks in."""

    def __init__(self, arcs: Arcs, backwards: bool = False) -> None:
        starts, ends = (arcs.ends, arcs.starts) if backwards else (arcs.starts, arcs.ends)
        self._places = np.unique(np.concatenate([starts, ends]))
        order = np.argsort(starts, kind="stable")
        self._ends = np.searchsorted(self._places, ends[order])
        self._starts = np.searchsorted(self._places, starts[order])
        self._first = np.searchsorted(self._starts, np.arange(len(self._places) + 1))
        self._arcs = order

    def _number(self, place: int) -> int | None:
        at = int(np.searchsorted(self._places, np.uint64(place)))
        return at if at < len(self._places) and self._places[at] == np.uint64(place) else None

    def walks(self, start: int, targets: np.ndarray) -> Iterator[list[int] | None]:
        """For each target the numbers of the arcs of a shortest walk to it; None if there is none."""
        source = self._number(start)
        numbers = [self._number(int(target)) for target in targets]
        if source is None:
            yield from (None for _ in numbers)
            return
        came_by = self._search(source, {number for number in numbers if number is not None})
        for number in numbers:
            if number is None or came_by[number] < 0:
                yield None
                continue
            walk: list[int] = []
            at = number
            while not walk or at != source:
                arc = int(came_by[at])
                walk.append(int(self._arcs[arc]))
                at = int(self._starts[arc])
            yield walk[::-1]

    def _search(self, source: int, wanted: set[int]) -> np.ndarray:
        """By which arc each place is reached first; breadth first, until all that are wanted are."""
        came_by = np.full(len(self._places), -1, np.int64)
        targets = np.fromiter(wanted, np.int64, len(wanted))
        frontier = np.array([source])
        while len(frontier):
            first, after = self._first[frontier], self._first[frontier + 1]
            counts = after - first
            total = int(counts.sum())
            if not total:
                break
            offsets = np.repeat(first - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
            arcs = offsets + np.arange(total)
            arcs = arcs[came_by[self._ends[arcs]] < 0]
            frontier, at = np.unique(self._ends[arcs], return_index=True)
            came_by[frontier] = arcs[at]
            if (came_by[targets] >= 0).all():
                break
        return came_by


def find_walks(arcs: Arcs, starts: np.ndarray, ends: np.ndarray) -> list[list[int] | None]:
    """For each pair of places a shortest walk, as numbers of arcs; None where there is none."""
    walks: list[list[int] | None] = [None] * len(starts)
    if not len(arcs.starts):
        return walks
    backwards = len(np.unique(ends)) < len(np.unique(starts))
    graph = Graph(arcs, backwards)
    sources, targets = (ends, starts) if backwards else (starts, ends)
    order = np.argsort(sources, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(sources[order])) + 1) if len(order) else []
    for group in groups:
        shortest = graph.walks(int(sources[group[0]]), targets[group])
        for place, walk in zip(group, shortest, strict=True):
            walks[int(place)] = walk if walk is None or not backwards else walk[::-1]
    return walks
