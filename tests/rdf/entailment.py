"""Whether triples entail others: the closure under what an ontology compiles to, by naive evaluation."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyoxigraph

from gpuengine.rdf.ontology import SAME, STRUCTURE, is_axiom_class
from gpuengine.rdf.owl import Compiled, compile_ontology
from gpuengine.rdf.owl_inconsistencies import Inconsistency, inconsistencies
from gpuengine.rdf.rules import Triple, Variable
from gpuengine.rdf.terms import TYPE
from tests.rdf.naive_rules import Index, NaiveGraph, bindings, closure

Statement = tuple[str, str, str]
DATA = Path(__file__).parent / "data"


def stored(name: str) -> dict[str, Any]:
    """A file of cases."""
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


def parsed(text: str, suffix: str = ".ttl", scope: str = "") -> list[Statement]:
    """The triples of a document; blank nodes of different scopes differ."""
    formats = {".ttl": pyoxigraph.RdfFormat.TURTLE, ".nt": pyoxigraph.RdfFormat.N_TRIPLES}
    found = pyoxigraph.parse(text.encode(), format=formats[suffix], base_iri="http://example.org/base")
    return [tuple(_text(part, scope) for part in (q.subject, q.predicate, q.object)) for q in found]


def _text(term: Any, scope: str) -> str:
    if isinstance(term, pyoxigraph.BlankNode):
        return f"_:{scope}{term.value}"
    if isinstance(term, pyoxigraph.Literal) and term.language:
        return str(pyoxigraph.Literal(term.value, language=term.language.lower()))
    return str(term)


def is_axiom(statement: Statement) -> bool:
    """Whether a triple may say something of classes and properties, rather than of individuals only."""
    _, predicate, target = statement
    return predicate in STRUCTURE or (predicate == TYPE and is_axiom_class(target))


def compiled_closure(
    statements: Iterable[Statement], profile: str, *, others: Iterable[Statement] = (), **options: Any
) -> tuple[set[Statement], Compiled]:
    """What follows from triples; literals of others are known too."""
    statements = list(statements)
    same = any(predicate == SAME for _, predicate, _ in statements)
    axioms = [each for each in statements if is_axiom(each)]
    compiled = compile_ontology(axioms, profile, equality=same, **options)
    literals = {term for triple in (*statements, *others) for term in triple if term.startswith('"')}
    facts = compiled.literals.triples(compiled.literals.by_value(sorted(literals)))
    return closure([*statements, *facts], compiled.rules), compiled


def holds(triples: set[Statement], pattern: Iterable[Statement]) -> bool:
    """Whether a graph has an instance among triples; blank nodes are existential."""

    def argument(text: str) -> str | Variable:
        return Variable(text) if text.startswith("_:") else text

    items = [Triple(*map(argument, triple)) for triple in pattern]
    return next(bindings(Index(triples), items, {}), None) is not None


def broken(triples: set[Statement], compiled: Compiled) -> list[Inconsistency]:
    return list(inconsistencies(NaiveGraph(triples), compiled))
