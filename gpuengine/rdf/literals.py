"""The literals that stated triples and rules mention, and what holds of them by what they denote.

    :a :age "18"^^xsd:int,  :b :age "+18"^^xsd:int        "18"^^xsd:int owl:sameAs "+18"^^xsd:int

That is stated beside the triples, for the rules to read, as triples whose subjects are literals: nobody else
can state those. It comes with the first mention of a literal and goes with the last, so that an update leaves
what computing anew would have. Literals that only rules compute are compared as terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuengine.engine import Engine
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.rdf.datatypes import Value
from gpuengine.rdf.equality import Classes, given_quads, given_triples, is_among
from gpuengine.rdf.layout import QUADS, Layout, triples_of
from gpuengine.rdf.ontology import Statement
from gpuengine.rdf.owl import LiteralFacts
from gpuengine.rdf.quads import NO_GRAPH, DictionaryTerms, Quads, distinct_ids, joined
from gpuengine.rdf.rules import Rule
from gpuengine.rdf.terms import is_literal
from gpuengine.schemes.table import Table


@dataclass(frozen=True)
class Literals:
    """What is stated of literals: by what they denote, those that are mentioned. None are known while nothing
    is to be said of them."""

    facts: LiteralFacts = field(default_factory=LiteralFacts)
    mentioned: dict[Value, tuple[str, ...]] = field(default_factory=dict)
    waiting: Mapping[Value, tuple[str, ...]] = field(default_factory=dict)
    """What is different from `mentioned` until `settled`, so that a change costs no more than it changes."""

    @staticmethod
    def of(facts: LiteralFacts, quads: Quads, terms: DictionaryTerms, rules: Iterable[Rule]) -> Literals:
        """Those that triples and rules mention."""
        if facts.says_nothing:
            return Literals(facts)
        return Literals(facts, facts.by_value([*_objects(quads, terms), *rule_literals(rules)]))

    def triples(self) -> list[Statement]:
        """What is stated of them."""
        now = {**self.mentioned, **self.waiting} if self.waiting else self.mentioned
        return self.facts.triples({denoted: texts for denoted, texts in now.items() if texts})

    def changed(self, gone: Iterable[str], come: Iterable[str]) -> Literals:
        """Those without the literals that are mentioned no longer, and with those that are now."""
        lost, new = self.facts.by_value(gone), self.facts.by_value(come)
        waiting = {}
        for denoted in {**lost, **new}:
            before = self.mentioned.get(denoted, ())
            kept = [text for text in before if text not in lost.get(denoted, ())]
            after = tuple(dict.fromkeys([*kept, *new.get(denoted, ())]))
            if after != before:
                waiting[denoted] = after
        return Literals(self.facts, self.mentioned, waiting)

    def settled(self) -> Literals:
        """These, once what they say is stated; not to be called twice from the same ones."""
        for denoted, texts in self.waiting.items():
            if texts:
                self.mentioned[denoted] = texts
            else:
                self.mentioned.pop(denoted, None)
        return Literals(self.facts, self.mentioned)

    def until(self, after: Literals) -> tuple[list[Statement], list[Statement]]:
        """What has to be stated no longer, and what now, for the literals to be others."""
        if after.mentioned is self.mentioned and not self.facts.different:
            values = after.waiting
            before = self.facts.of_values({v: self.mentioned[v] for v in values if v in self.mentioned})
            now = self.facts.of_values({v: texts for v, texts in values.items() if texts})
        else:
            before, now = self.triples(), after.triples()
        both = set(before) & set(now)
        return [fact for fact in before if fact not in both], [fact for fact in now if fact not in both]


class Mentions:
    """Which literals stated triples mention once some have come and gone.

    `changes` are triples that come (True) and go (False); what is later holds.
    """

    def __init__(
        self,
        engine: Engine,
        layout: Layout,
        terms: DictionaryTerms,
        classes: Classes,
        changes: Sequence[tuple[bool, Quads]],
    ) -> None:
        self._engine, self._layout, self._terms, self._classes = engine, layout, terms, classes
        self._come, self._gone = Table("come", 4, CPU), Table("gone", 4, CPU)
        for inserts, quads in changes:
            here, there = (self._come, self._gone) if inserts else (self._gone, self._come)
            if quads.rows:
                columns = [np.ascontiguousarray(column) for column in quads.columns]
                here.insert(columns, quads.rows)
                if len(there):
                    there.delete(columns, quads.rows)
                    there.take_back()

    def after(self, before: Literals, rules: tuple[Iterable[Rule], Iterable[Rule]]) -> Literals:
        """The literals that are mentioned then, if they were others `before`; with rules before and then."""
        come = [*_objects(_quads(self._come), self._terms), *rule_literals(rules[1])]
        gone = [*_objects(_quads(self._gone), self._terms), *rule_literals(rules[0])]
        doubtful = list(dict.fromkeys(gone).keys() - set(come))
        kept = set(_objects(self._kept(doubtful), self._terms)) if doubtful else set()
        return before.changed([text for text in doubtful if text not in kept], come)

    def all_after(self, facts: LiteralFacts, rules: Iterable[Rule]) -> Literals:
        """The literals that are mentioned then, with other facts to state of them."""
        if facts.says_nothing:
            return Literals(facts)
        return Literals.of(facts, joined([self._kept(None), _quads(self._come)]), self._terms, rules)

    def _kept(self, literals: Sequence[str] | None) -> Quads:
        """The triples that were stated before and still are; only those that mention some literals."""
        engine, layout, terms = self._engine, self._layout, self._terms
        quads = engine.loaded[QUADS].columns()
        if literals is None:
            default = given_quads(engine, layout, terms, self._classes)
        else:
            ids = terms.add(literals)
            columns = given_triples(engine, layout, terms, self._classes, ids)
            default = Quads(
                (columns[0], columns[1], columns[2], np.full(len(columns[0]), NO_GRAPH, np.uint32))
            )
            mask = is_among(ids, quads[2])
            quads = [column[mask] for column in quads]
        stated = joined([default, Quads((quads[0], quads[1], quads[2], quads[3]))])
        if not len(self._gone) or not stated.rows:
            return stated
        columns = [np.ascontiguousarray(column) for column in stated.columns]
        mask = ~self._gone.contains(columns, stated.rows)
        s, p, o, g = (column[mask] for column in columns)
        return Quads((s, p, o, g))


def stated_literals(
    facts: LiteralFacts,
    engine: Engine,
    layout: Layout,
    terms: DictionaryTerms,
    classes: Classes,
    rules: Iterable[Rule],
) -> Literals:
    """Those that the stated triples of an engine mention."""
    return Mentions(engine, layout, terms, classes, ()).all_after(facts, rules)


def rule_literals(rules: Iterable[Rule]) -> list[str]:
    """The literals in the triples of rules."""
    places = (
        place
        for rule in rules
        for one in triples_of(rule)
        for place in (one.subject, one.predicate, one.object)
    )
    return [place for place in places if isinstance(place, str) and is_literal(place)]


def _quads(table: Table) -> Quads:
    s, p, o, g = table.columns()
    return Quads((s, p, o, g))


def _objects(quads: Quads, terms: DictionaryTerms) -> list[str]:
    """The literals that triples mention; what is stated of literals themselves mentions none."""
    s, _, o, _ = quads.columns
    ids = distinct_ids(o)
    literals = ids[terms.are_literals(ids)]
    if not len(literals):
        return []
    rows = np.flatnonzero(is_among(literals, o))
    subjects = distinct_ids(s[rows])
    nodes = subjects[~terms.are_literals(subjects)]
    return terms.texts(distinct_ids(o[rows[is_among(nodes, s[rows])]]))
