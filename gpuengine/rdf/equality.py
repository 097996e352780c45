"""``owl:sameAs`` by representatives: of each class of equal terms one stands for all in the facts.

    a owl:sameAs b,  a :knows c        representative(b) = a,  p_knows(a, c)

Stated triples that mention a term of a class are kept as they were given (`RAW`), and in the relations that
rules read they stand with representatives. When classes grow or fall apart, the triples that mention their
terms, and no others, are written anew from what was given: so deletions are as exact as insertions.

A class has at most one term that a rule names, and that one is its representative: rules stay what they are.
Where rules name two terms of a class, `NamedTwice` is raised; facts are then stored for every term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from gpuengine.engine import Engine
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.loading import EncodedFacts
from gpuengine.rdf.graph import Among, Terms
from gpuengine.rdf.layout import RAW, REPRESENTATIVE, TRIPLES, Layout, triples_of
from gpuengine.rdf.ontology import SAME
from gpuengine.rdf.quads import NO_GRAPH, Quads, joined
from gpuengine.rdf.routing import route
from gpuengine.rdf.rules import Call, Filter, Rule, Triple
from gpuengine.rdf.terms import TYPE
from gpuengine.schemes.table import Table

Columns = dict[str, np.ndarray]


class NamedTwice(Exception):
    """Two terms that rules name are the same."""


class Statements(Protocol):
    """What takes changes of stated facts: an update of an engine."""

    def insert(self, relation: str, data: EncodedFacts) -> int: ...

    def delete(self, relation: str, data: EncodedFacts) -> int: ...


@dataclass(frozen=True)
class Classes:
    """Terms that are the same as others, in order of their ids, and the representative of each."""

    members: np.ndarray
    representatives: np.ndarray

    @staticmethod
    def none() -> Classes:
        return Classes(np.zeros(0, np.uint32), np.zeros(0, np.uint32))

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def _lookup(self) -> np.ndarray:
        """By id, the representative."""
        lookup = np.arange(int(self.members[-1]) + 1, dtype=np.uint32)
        lookup[self.members] = self.representatives
        return lookup

    def of(self, ids: np.ndarray) -> np.ndarray:
        """The representatives of terms; those of no class are their own."""
        if not len(self) or not len(ids):
            return ids
        lookup = self._lookup
        if int(ids.max()) < len(lookup):
            return lookup[ids]
        representatives = ids.copy()
        inside = ids < len(lookup)
        representatives[inside] = lookup[ids[inside]]
        return representatives

    def have(self, ids: np.ndarray) -> np.ndarray:
        """A mask of the terms that are in a class."""
        return is_among(self.members, ids)

    def within(self, representatives: np.ndarray) -> np.ndarray:
        """All terms of some classes."""
        return self.members[is_among(np.unique(representatives), self.representatives)]

    def classes(self) -> np.ndarray:
        """Their representatives."""
        return np.unique(self.representatives)

    def normal(self, triples: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Triples with representatives for terms."""
        return [self.of(column) for column in triples]

    @cached_property
    def _listed(self) -> tuple[np.ndarray, np.ndarray]:
        """Members by class; and by id of a representative where its class begins."""
        order = np.argsort(self.representatives, kind="stable")
        size = np.bincount(self.representatives)
        return self.members[order], np.cumsum(size) - size

    def sizes(self, ids: np.ndarray, counted: np.ndarray | None = None) -> np.ndarray:
        """How many terms representatives stand for; of classes only those in a mask of `members`."""
        counts = np.ones(len(ids), np.int64)
        if len(self) and len(ids):
            inside = self.have(ids)
            size = np.bincount(self.representatives, counted, int(ids.max()) + 1).astype(np.int64)
            counts[inside] = size[ids[inside]]
        return counts

    def expanded(self, columns: Columns, among: Among | None = None) -> Columns:
        """Rows of representatives as rows of all that they stand for: each column by itself.

        Of the variables in `among` only the ids are taken that are wanted.
        """
        among = among or {}
        for name in sorted(columns, key=lambda name: name not in among):  # what leaves few rows first
            if name:
                columns = self._expanded(columns, name, among.get(name))
        return columns

    def _expanded(
        self, columns: Columns, name: str, is_wanted: Callable[[np.ndarray], np.ndarray] | None
    ) -> Columns:
        column = columns[name]
        counts = self.sizes(column)
        if int(counts.sum()) != len(column):
            members, starts = self._listed
            if is_wanted is not None:  # so that no class is listed of which little is wanted
                wanted = is_wanted(self.members)
                kept = Classes(self.members[wanted], self.representatives[wanted])
                columns = _taken(columns, ~self.have(column) | is_among(kept.classes(), column))
                column = columns[name]
                counts = self.sizes(column, wanted)
                if len(kept):
                    members, starts = kept._listed
            rows = np.repeat(np.arange(len(column)), counts)
            offsets = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            columns = {key: part[rows] for key, part in columns.items()}
            in_class = np.flatnonzero(self.have(columns[name]))
            places = starts[columns[name][in_class]] + offsets[in_class] if len(in_class) else in_class
            columns[name][in_class] = members[places]
        if is_wanted is not None:
            columns = _taken(columns, is_wanted(columns[name]))
        return columns

    def merged(self, pairs: Sequence[np.ndarray], named: np.ndarray, like: Classes | None = None) -> Classes:
        """The classes where the terms of pairs are the same too; self if nothing changes.

        `named` are the terms that rules name; raises `NamedTwice`. Otherwise representatives are chosen as in
        other classes (`like`, by default these), that of the largest one first.
        """
        like = like or self
        one, other = (self.of(column) for column in pairs)
        is_new = one != other
        if not is_new.any() and not self._is_misnamed(named):
            return self
        one = np.concatenate([one[is_new], self.members])
        other = np.concatenate([other[is_new], self.representatives])
        nodes, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
        labels = components(len(nodes), codes[: len(one)], codes[len(one) :])
        is_named = is_among(named, nodes)
        if len(is_named) and np.bincount(labels, is_named).max() > 1:
            raise NamedTwice
        size = np.where(like.of(nodes) == nodes, like.sizes(nodes), 0)
        order = np.lexsort((nodes, -size, ~is_named, labels))
        first = np.ones(len(order), np.bool_)
        first[1:] = labels[order][1:] != labels[order][:-1]
        chosen = np.zeros(len(nodes), np.uint32)
        chosen[labels[order[first]]] = nodes[order[first]]
        return Classes(nodes.astype(np.uint32), chosen[labels])

    def _is_misnamed(self, named: np.ndarray) -> bool:
        """Do rules name a term that is in a class but does not stand for it?"""
        return bool((self.of(named) != named).any())


def components(count: int, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The least node that each node of a graph is connected with."""
    label = np.arange(count)
    while True:
        left, right = label[one], label[other]
        if (left == right).all():
            return label
        low = np.minimum(left, right)
        np.minimum.at(label, left, low)
        np.minimum.at(label, right, low)
        while not ((further := label[label]) == label).all():
            label = further


def _taken(columns: Columns, mask: np.ndarray) -> Columns:
    return {name: column[mask] for name, column in columns.items()}


def is_among(some: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """A mask of the ids that are among some."""
    if not len(some) or not len(ids):
        return np.zeros(len(ids), np.bool_)
    marks = np.zeros(max(int(some.max()), int(ids.max())) + 1, np.bool_)
    marks[some] = True
    return marks[ids]


def keeps_equality(rules: Iterable[Rule]) -> bool:
    """Do rules derive the same of representatives as of all terms?

    They do if nothing but the equality of terms matters to them: no expressions, negations, aggregates or
    named graphs, and inequalities only where equal terms would be found to be the same.
    """
    for rule in rules:
        equates = all(head.predicate == SAME for head in rule.heads)
        if any(head.graph is not None for head in rule.heads):
            return False
        for item in rule.body:
            if isinstance(item, Triple) and item.graph is None:
                continue
            if not (equates and isinstance(item, Filter) and _is_inequality(item)):
                return False
    return True


def _is_inequality(item: Filter) -> bool:
    call = item.condition
    if not isinstance(call, Call) or call.function != "!":
        return False
    inner = call.arguments[0]
    return isinstance(inner, Call) and inner.function == "SAMETERM"


def equalities(quads: Quads, terms: Terms) -> list[np.ndarray]:
    """The pairs of different terms that triples of the default graph say to be the same."""
    s, p, o, g = quads.columns
    rows = np.flatnonzero((p == terms.add([SAME])[0]) & (g == NO_GRAPH) & (s != o))
    return [s[rows], o[rows]]


def stored_classes(engine: Engine) -> Classes:
    """The classes that an engine keeps."""
    members, representatives = engine.loaded[REPRESENTATIVE].columns()
    order = np.argsort(members)
    return Classes(members[order], representatives[order])


def named_terms(rules: Iterable[Rule], layout: Layout, terms: Terms) -> np.ndarray:
    """The ids of the terms that rules name, and that relations are named after."""
    texts = {TYPE: None, SAME: None} | dict.fromkeys(layout.classes) | dict.fromkeys(layout.properties)
    for rule in rules:
        for triple in triples_of(rule):
            for place in (triple.subject, triple.predicate, triple.object):
                if isinstance(place, str):
                    texts[place] = None
    return np.unique(terms.add(list(texts)))


class Restatement:
    """How the stated facts of an engine change when triples come and go, and classes become others.

    `before` are the classes now, `changes` are triples that come (True) and go (False); what is later holds.
    *Touched* are the terms of classes that change, or that changes of triples mention: everything that is
    stated of them is looked at again, and nothing else.
    """

    def __init__(
        self,
        engine: Engine,
        layout: Layout,
        terms: Terms,
        before: Classes,
        changes: Iterable[tuple[bool, Quads]],
    ) -> None:
        self._engine, self._layout, self._terms = engine, layout, terms
        self._before = before
        self._changes = list(changes)

    def equalities(self) -> list[np.ndarray]:
        """The pairs that are stated to be the same, once everything has changed."""
        (same,) = self._terms.add([SAME])
        pairs = Table("same", 2, CPU)
        columns = self._engine.loaded[RAW].columns()
        rows = np.flatnonzero(columns[1] == same) if len(columns[1]) else np.zeros(0, np.int64)
        _add(pairs, [columns[0][rows], columns[2][rows]])
        for inserts, quads in self._changes:
            (_add if inserts else _take)(pairs, equalities(quads, self._terms))
        return pairs.columns()

    def state(self, after: Classes, update: Statements) -> None:
        """Change the facts to what they are with other classes."""
        before = self._before
        touched = self._touched(after)
        stated = given_triples(self._engine, self._layout, self._terms, before, touched)
        with_classes = Table("stated", 3, CPU)
        _add(with_classes, stated)
        for inserts, quads in self._changes:
            s, p, o, g = quads.columns
            here = (g == NO_GRAPH) & _any(touched, (s, p, o))
            self._route(update, inserts, Quads((s[~here], p[~here], o[~here], g[~here])))
            (_add if inserts else _take)(with_classes, [s[here], p[here], o[here]])
        now = with_classes.columns()
        for classes, columns, inserts in ((before, stated, False), (after, now, True)):
            self._route(update, inserts, _as_quads(classes.normal(columns)))
            members = touched[classes.have(touched)]
            self._route(update, inserts, self._reflexive(np.unique(classes.of(members))))
        was = Table("was", 3, CPU)
        _add(was, _rows(stated, _any(before.members, stated)))
        has = Table("has", 3, CPU)
        _add(has, _rows(now, _any(after.members, now)))
        _state(update, False, RAW, _missing(was, has))
        _state(update, True, RAW, _missing(has, was))
        differ = (before.of(touched) != after.of(touched)) | (before.have(touched) != after.have(touched))
        for classes, inserts in ((before, False), (after, True)):
            members = touched[differ & classes.have(touched)]
            _state(update, inserts, REPRESENTATIVE, [members, classes.of(members)])

    def _touched(self, after: Classes) -> np.ndarray:
        """Terms of classes that change, or that changes of triples mention."""
        before = self._before
        both = np.union1d(before.members, after.members)
        # A class is the same if it has the same representative, and as many members, all of which had it.
        differ = (before.of(both) != after.of(both)) | (
            before.sizes(before.of(both)) != after.sizes(after.of(both))
        )
        touched = [both[differ], before.within(before.of(both[differ])), after.within(after.of(both[differ]))]
        for _, quads in self._changes:
            for column in quads.columns[:3]:
                for classes in (before, after):
                    touched.append(classes.within(classes.of(column[classes.have(column)])))
        return np.unique(np.concatenate(touched)).astype(np.uint32)

    def _reflexive(self, representatives: np.ndarray) -> Quads:
        same = np.repeat(self._terms.add([SAME]), len(representatives)).astype(np.uint32)
        ids = representatives.astype(np.uint32)
        return _as_quads([ids, same, ids])

    def _route(self, update: Statements, inserts: bool, quads: Quads) -> None:
        for relation, columns in route(quads, self._layout, self._terms).items():
            _state(update, inserts, relation, columns)


def represented(quads: Quads, classes: Classes, terms: Terms) -> tuple[Quads, list[np.ndarray]]:
    """Triples with representatives for terms, and those, as they are, that mention terms of classes."""
    s, p, o, g = quads.columns
    rows = np.flatnonzero((g == NO_GRAPH) & _any(classes.members, (s, p, o)))
    if not len(rows):
        return quads, [column[:0] for column in (s, p, o)]
    ids = classes.classes().astype(np.uint32)
    same = np.repeat(terms.add([SAME]), len(ids)).astype(np.uint32)
    in_default = g == NO_GRAPH
    normal = [np.where(in_default, classes.of(column), column) for column in (s, p, o)]
    whole = joined([Quads((normal[0], normal[1], normal[2], g)), _as_quads([ids, same, ids])])
    return whole, [column[rows] for column in (s, p, o)]


def stated_columns(
    engine: Engine, layout: Layout, terms: Terms, mentioning: np.ndarray | None = None
) -> Iterable[list[np.ndarray]]:
    """The triples of the default graph that are stated, as they stand in the relations of a layout.

    With `mentioning`, those of relations that no row of mentions one of these terms are left out.
    """
    for predicate, klass, relation in (*layout.slots, ("", None, TRIPLES)):
        table = engine.loaded[relation]
        if not len(table):
            continue
        columns = table.columns()
        names = np.zeros(0, np.uint32)
        if relation != TRIPLES:
            names = np.asarray(terms.add([predicate] if klass is None else [predicate, klass]), np.uint32)
        if mentioning is not None and not is_among(mentioning, names).any():
            rows = _any(mentioning, columns)
            if not rows.any():
                continue
            columns = _rows(columns, rows)
        if relation != TRIPLES:
            first, count = columns[0], len(columns[0])
            last = columns[1] if klass is None else np.repeat(names[1], count)
            columns = [first, np.repeat(names[0], count), last]
        yield columns


def given_quads(engine: Engine, layout: Layout, terms: Terms, classes: Classes) -> Quads:
    """The triples of the default graph that are stated, as they were given."""
    parts = []
    for columns in stated_columns(engine, layout, terms):
        if len(classes):
            rows = ~_any(classes.members, columns)
            columns = [column[rows] for column in columns]
        parts.append(_as_quads(columns))
    return joined([*parts, _as_quads(engine.loaded[RAW].columns())])


def given_triples(
    engine: Engine, layout: Layout, terms: Terms, classes: Classes, mentioned: np.ndarray
) -> list[np.ndarray]:
    """The stated triples of the default graph that mention terms, as they were given."""
    raw = engine.loaded[RAW].columns()
    parts = [_rows(raw, _any(mentioned, raw))]
    alone = mentioned[~classes.have(mentioned)]
    if len(alone):
        for columns in stated_columns(engine, layout, terms, alone):
            parts.append(_rows(columns, _any(alone, columns) & ~_any(classes.members, columns)))
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def _any(some: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """A mask of the rows that have one of some ids."""
    if not len(columns[0]) or not len(some):
        return np.zeros(len(columns[0]), np.bool_)
    mask: np.ndarray = np.logical_or.reduce([is_among(some, column) for column in columns])
    return mask


def _as_quads(columns: Sequence[np.ndarray]) -> Quads:
    return Quads((columns[0], columns[1], columns[2], np.full(len(columns[0]), NO_GRAPH, np.uint32)))


def _state(update: Statements, inserts: bool, relation: str, columns: list[np.ndarray]) -> None:
    if len(columns[0]):
        facts = EncodedFacts([np.ascontiguousarray(column, np.uint32) for column in columns], len(columns[0]))
        (update.insert if inserts else update.delete)(relation, facts)


def _rows(columns: Sequence[np.ndarray], mask: np.ndarray) -> list[np.ndarray]:
    return [column[mask] for column in columns]


def _missing(table: Table, other: Table) -> list[np.ndarray]:
    """The rows of a table that another has not."""
    if not len(table) or not len(other):
        return table.columns()
    return _rows(table.columns(), ~other.contains(table.columns(), len(table)))


def _add(table: Table, columns: Sequence[np.ndarray]) -> None:
    if len(columns[0]):
        table.insert([np.ascontiguousarray(column, np.uint32) for column in columns], len(columns[0]))


def _take(table: Table, columns: Sequence[np.ndarray]) -> None:
    if len(table) and len(columns[0]):
        table.delete([np.ascontiguousarray(column, np.uint32) for column in columns], len(columns[0]))
        table.take_back()
