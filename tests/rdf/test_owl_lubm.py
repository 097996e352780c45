"""The ontology of the Lehigh University Benchmark: what it compiles to, and what follows for one university.

``bench/lubm/univ-bench.owl`` is the benchmark's own file (http://swat.cse.lehigh.edu/onto/univ-bench.owl).
"""

from __future__ import annotations

import pyoxigraph
import pytest

from bench.lubm import FOLDER, read_axioms
from bench.lubm.generator import universities
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.owl import compile_ontology
from gpuengine.rdf.rules import Rule, Triple, Variable, canonical
from gpuengine.rdf.terms import TYPE
from tests.rdf.entailment import Statement, is_axiom

BASE = "http://swat.cse.lehigh.edu/onto/univ-bench.owl"
X, Y, Z = Variable("x"), Variable("y"), Variable("z")


def name(local: str) -> str:
    return f"<{BASE}#{local}>"


def ontology() -> list[Statement]:
    found = pyoxigraph.parse(
        path=FOLDER / "univ-bench.owl", format=pyoxigraph.RdfFormat.RDF_XML, base_iri=BASE
    )
    return [tuple(map(str, (quad.subject, quad.predicate, quad.object))) for quad in found]


def is_a(variable: Variable, local: str) -> Triple:
    return Triple(variable, TYPE, name(local))


def published(axiom: str) -> Rule:
    """One line of the benchmark's axioms, as the papers read it."""
    kind, left, right = [*axiom.split("\t"), ""][:3]
    edge = Triple(X, name(left), Y)
    if kind == "contains":
        parts = {
            "some": lambda n: Triple(X, name(n), Y),
            "in": lambda n: is_a(Y, n),
            "": lambda n: is_a(X, n),
        }
        words = [part.rpartition(" ") for part in right.split(" and ")]
        return Rule((is_a(X, left),), tuple(parts[word](local) for word, _, local in words))
    return {
        "subClassOf": lambda: Rule((is_a(X, right),), (is_a(X, left),)),
        "domain": lambda: Rule((is_a(X, right),), (edge,)),
        "range": lambda: Rule((is_a(Y, right),), (edge,)),
        "subPropertyOf": lambda: Rule((Triple(X, name(right), Y),), (edge,)),
        "inverse": lambda: Rule((Triple(Y, name(right), X),), (edge,)),
        "transitive": lambda: Rule((Triple(X, name(left), Z),), (edge, Triple(Y, name(left), Z))),
    }[kind]()


def by_restrictions() -> list[Rule]:
    """What follows by comparing restrictions (scm-svf1): the papers leave it out.

    An assistant of research works for some group, which is an organisation, and a person that works for some
    organisation is an employee; likewise for graduates and their courses.
    """
    pairs = (("Employee", "ResearchAssistant"), ("Student", "GraduateStudent"))
    return [Rule((is_a(X, top),), (is_a(X, "Person"), is_a(X, sub))) for top, sub in pairs]


def test_rules_are_the_axioms() -> None:
    rules = compile_ontology(filter(is_axiom, ontology()), "owl2rl").rules
    compiled = {canonical(rule) for rule in rules if not rule.name.startswith("scm-")}
    expected = {canonical(rule) for rule in [*map(published, read_axioms()), *by_restrictions()]}
    assert compiled == expected


def test_schemes_are_seen() -> None:
    kb = RdfEngine(profile="owl2rl")
    kb.load(ontology())
    schemes = kb.engine.plan().schemes
    shapes = {
        local: {candidate.shape.value for candidate in schemes[kb.layout.properties[name(local)]].candidates}
        for local in ("subOrganizationOf", "memberOf", "degreeFrom")
    }
    assert shapes == {"subOrganizationOf": {"closure"}, "memberOf": {"union"}, "degreeFrom": {"union"}}


@pytest.mark.slow
def test_one_university() -> None:
    facts = {tuple(fact) for fact in universities(1)}
    triples = [
        (f"<http://{fact[1]}>", TYPE, name(fact[0]))
        if len(fact) == 2
        else (f"<http://{fact[1]}>", name(fact[0]), f"<http://{fact[2]}>")
        for fact in facts
    ]
    assert len(triples) == 100_543
    kb = RdfEngine(profile="owl2rl")
    kb.load(ontology())
    kb.load(triples)
    columns = [column.to_pylist() for column in kb.triples().to_arrow().columns]
    found = {
        triple
        for triple in zip(*columns, strict=True)
        if triple[0].startswith("<http://")
        and name("")[:-1] in (triple[2] if triple[1] == TYPE else triple[1])
    }
    assistants = {fact[1] for fact in facts if fact[0] == "ResearchAssistant"}
    assert len(found) == 137_931 + len(assistants)
    assert not list(kb.inconsistencies())
