"""Which relation of the engine keeps which triples.

| relation | keeps |
|---|---|
| ``c_Person(x)`` | ``[x, rdf:type, :Person]``, for each class that rules name |
| ``p_knows(x, y)`` | ``[x, :knows, y]``, for each property that rules name |
| ``t(s, p, o)`` | the other triples of the default graph |
| ``q(s, p, o, g)`` | those of named graphs |
| ``representative(x, r)`` | which term stands for a term that is the same as others |
| ``stated(s, p, o)`` | the stated triples that mention such terms, as they were given |

A triple is in one relation only, whatever derives it. Where rules have variables for predicates in more than
one place of a body, everything would have to be said once for each pair of relations: then all triples are in
``t``. The layout is settled before the first triple is loaded and stays: rules that come later name what they
need in ``t`` by constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuengine.rdf.rules import Aggregate, BodyItem, Constraint, Negation, Rule, Triple, Variable
from gpuengine.rdf.terms import OWL, TYPE, is_iri

TRIPLES = "t"
QUADS = "q"
TERM = "Term"
REPRESENTATIVE, RAW = "representative", "stated"
SAME = f"<{OWL}sameAs>"
NAMED_CLASS, NAMED_PROPERTY = "named_class", "named_property"
ALWAYS = "always"
"""Holds: the body of what a rule says without one, so that it is no triple that anybody stated."""

_MOST_CLAUSES = 3000
"""So many clauses may come of variables in the place of predicates before all triples go to one relation."""

_WORD = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Layout:
    """The relations of classes and properties, by the text of the class or property."""

    classes: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(rules: Iterable[Rule | Constraint], *, equality: bool = False) -> Layout:
        """The layout for a program; with `equality`, ``owl:sameAs`` has a relation of its own in any case."""
        rules = list(rules)
        classes: dict[str, None] = {}
        properties: dict[str, None] = {SAME: None} if equality else {}
        variable_rules = 0
        for rule in rules:
            triples = [triple for triple in triples_of(rule) if triple.graph is None]
            predicates = {triple.predicate for triple in triples if isinstance(triple.predicate, Variable)}
            types = {
                triple.object
                for triple in triples
                if triple.predicate == TYPE and isinstance(triple.object, Variable)
            }
            if len(predicates | types) > 1:
                return Layout(properties=_equality(rules, equality))
            variable_rules += bool(predicates or types)
            for triple in triples:
                if isinstance(triple.predicate, Variable) or not is_iri(triple.predicate):
                    continue
                if triple.predicate != TYPE:
                    properties[triple.predicate] = None
                elif isinstance(triple.object, str) and is_iri(triple.object):
                    classes[triple.object] = None
        if variable_rules * (len(classes) + len(properties) + 1) > _MOST_CLAUSES:
            return Layout(properties=_equality(rules, equality))
        return Layout(_named(classes, "c_"), _named(properties, "p_"))

    @property
    def slots(self) -> Iterator[tuple[str, str | None, str]]:
        """(predicate, class or None, relation) of each relation but ``t`` and ``q``."""
        for predicate, relation in self.properties.items():
            yield predicate, None, relation
        for klass, relation in self.classes.items():
            yield TYPE, klass, relation

    def declarations(self) -> str:
        """Those of all relations that triples are stored in."""
        lines = [
            f".type {TERM} <: symbol",
            f".decl {TRIPLES}(s: {TERM}, p: {TERM}, o: {TERM})",
            f".decl {QUADS}(s: {TERM}, p: {TERM}, o: {TERM}, g: {TERM})",
            f".decl {REPRESENTATIVE}(x: {TERM}, r: {TERM})",
            f".decl {RAW}(s: {TERM}, p: {TERM}, o: {TERM})",
            f".decl {ALWAYS}()",
            f"{ALWAYS}().",
        ]
        lines += [f".decl {relation}(x: {TERM})" for relation in self.classes.values()]
        lines += [f".decl {relation}(x: {TERM}, y: {TERM})" for relation in self.properties.values()]
        return "\n".join(lines) + "\n"


def _equality(rules: Iterable[Rule | Constraint], asked: bool) -> dict[str, str]:
    """``owl:sameAs`` has a relation of its own wherever rules name it, so that it can be an equivalence."""
    names = asked or any(triple.predicate == SAME for rule in rules for triple in triples_of(rule))
    return _named([SAME], "p_") if names else {}


def triples_of(rule: Rule | Constraint) -> Iterator[Triple]:
    """All triples of a rule, those of its negations and aggregates too."""
    if isinstance(rule, Rule):
        yield from rule.heads
    yield from _of_body(rule.body)


def _of_body(body: Iterable[BodyItem]) -> Iterator[Triple]:
    for item in body:
        if isinstance(item, Triple):
            yield item
        elif isinstance(item, Negation | Aggregate):
            yield from _of_body(item.body)


def _named(texts: Iterable[str], prefix: str) -> dict[str, str]:
    """A name for each, after the last words of its IRI."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for text in texts:
        words = _WORD.findall(text)
        name = wanted = f"{prefix}{words[-1] if words else ''}"
        number = 2
        while name in used:
            name = f"{wanted}_{number}"
            number += 1
        used.add(name)
        names[text] = name
    return names


def quoted(text: str) -> str:
    """A string of the language that the program is written in."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
