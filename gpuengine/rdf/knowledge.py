"""What the axioms among the triples ask for: the rules they compile to, and how those change with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.rdf.graph import Terms
from gpuengine.rdf.ontology import SAME, STRUCTURE, Statement, is_axiom_class
from gpuengine.rdf.quads import NO_GRAPH, DictionaryTerms, Quads, distinct_ids
from gpuengine.rdf.rules import Rule, Variable, canonical
from gpuengine.rdf.terms import TYPE, is_literal

if TYPE_CHECKING:
    from gpuengine.rdf.owl import Compiled, LiteralFacts


@dataclass(frozen=True)
class Entailment:
    """What follows by itself: the profile, and the options of `gpuengine.rdf.owl.compile_ontology`."""

    profile: str
    axiomatic: bool = False
    meta: bool = False
    copies: bool = False
    """Are facts stored for every one of the terms that are the same?"""

    @property
    def represents(self) -> bool:
        """Are facts stored for one of the terms that are the same only?"""
        return self.profile == "owl2rl" and not self.axiomatic and not self.copies


@dataclass(frozen=True)
class Knowledge:
    """The stated axioms, the pairs of ``owl:sameAs`` that are stated, and what all that compiles to."""

    entailment: Entailment | None = None
    axioms: frozenset[Statement] = frozenset()
    equal: frozenset[tuple[int, int]] = frozenset()
    equality: bool = False
    """Whether things may be stated to be the same, or rules of the user's own say so."""
    compiled: Compiled | None = None
    rules: dict[Rule, Rule] = field(default_factory=dict)

    @staticmethod
    def of(
        entailment: Entailment | None, quads: Quads, terms: DictionaryTerms, rules: Iterable[Rule] = ()
    ) -> Knowledge:
        """That of triples, with rules of the user's own."""
        if entailment is None:
            return Knowledge()
        axioms, equal = frozenset(axioms_of(quads, terms)), frozenset(_equalities(quads, terms))
        return _compiled(Knowledge(entailment), axioms, equal, rules)

    def changed(
        self, changes: Sequence[tuple[bool, Quads]], terms: DictionaryTerms, rules: Iterable[Rule] = ()
    ) -> Knowledge:
        """That after triples came (True) and went (False), in this order; self if it is the same."""
        axioms, equal = self.axioms, self.equal
        for inserts, quads in changes:
            if affected := axioms_of(quads, terms):
                axioms = axioms.union(affected) if inserts else axioms.difference(affected)
            if pairs := _equalities(quads, terms):
                equal = equal.union(pairs) if inserts else equal.difference(pairs)
        if axioms == self.axioms and equal == self.equal and self.equality == _equates(equal, rules):
            return self
        return _compiled(self, axioms, equal, rules)

    def with_copies(self, rules: Iterable[Rule] = ()) -> Knowledge:
        """That where facts are stored for every one of the terms that are the same."""
        assert self.entailment is not None
        before = replace(self, entailment=replace(self.entailment, copies=True), compiled=None)
        return _compiled(before, self.axioms, self.equal, rules)

    @property
    def equates(self) -> bool:
        """Whether things may come to be the same."""
        return self.compiled is not None and self.compiled.literals.equal

    @property
    def literals(self) -> LiteralFacts:
        """What holds of literals."""
        from gpuengine.rdf.owl import LiteralFacts

        return LiteralFacts() if self.compiled is None else self.compiled.literals


def _equates(equal: Iterable[tuple[int, int]], rules: Iterable[Rule]) -> bool:
    """Whether triples or rules say of things that they are the same."""
    heads = (head.predicate for rule in rules for head in rule.heads)
    return bool(equal) or any(predicate == SAME or isinstance(predicate, Variable) for predicate in heads)


def _compiled(
    before: Knowledge, axioms: frozenset[Statement], equal: frozenset[tuple[int, int]], rules: Iterable[Rule]
) -> Knowledge:
    from gpuengine.rdf.owl import compile_ontology

    entailment = before.entailment
    assert entailment is not None
    equality = _equates(equal, rules)
    if before.compiled is not None and axioms == before.axioms and equality == before.equality:
        return replace(before, equal=equal)
    compiled = compile_ontology(
        sorted(axioms),
        entailment.profile,
        axiomatic=entailment.axiomatic,
        meta=entailment.meta,
        equality=equality,
        representatives=entailment.represents,
    )
    return replace(
        before,
        axioms=axioms,
        equal=equal,
        equality=equality,
        compiled=compiled,
        rules={canonical(rule): rule for rule in compiled.rules},
    )


def axioms_of(quads: Quads, terms: Terms) -> list[Statement]:
    """The triples of the default graph that may say something of classes and properties."""
    s, p, o, g = quads.columns
    predicates = _distinct(p, terms)
    chosen = _where(p, predicates, lambda text: text in STRUCTURE)
    typed = np.flatnonzero(_where(p, predicates, lambda text: text == TYPE))
    chosen[typed[_where(o[typed], _distinct(o[typed], terms), is_axiom_class)]] = True
    rows = np.flatnonzero(chosen & (g == NO_GRAPH))
    columns = [terms.texts(column[rows]) for column in (s, p, o)]
    return [triple for triple in zip(*columns, strict=True) if not is_literal(triple[0])]


def _distinct(column: np.ndarray, terms: Terms) -> dict[int, str]:
    """The ids of a column and their texts."""
    ids = distinct_ids(column)
    return dict(zip(ids.tolist(), terms.texts(ids), strict=True))


def _where(column: np.ndarray, texts: dict[int, str], is_meant: Callable[[str], bool]) -> np.ndarray:
    """In which rows of a column a text is that is meant."""
    meant = np.zeros(max(texts, default=-1) + 1, np.bool_)
    meant[[number for number, text in texts.items() if is_meant(text)]] = True
    return meant[column]


def _equalities(quads: Quads, terms: DictionaryTerms) -> list[tuple[int, int]]:
    """The pairs that are said to be the same; those of literals hold by what they denote, nobody says so."""
    same = terms.lookup(SAME)
    if same is None:
        return []
    s, p, o, g = quads.columns
    rows = np.flatnonzero((p == same) & (g == NO_GRAPH))
    rows = rows[~terms.are_literals(s[rows])]
    return list(zip(s[rows].tolist(), o[rows].tolist(), strict=True))
