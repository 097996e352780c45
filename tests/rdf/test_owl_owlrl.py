"""Closures against owlrl, an implementation of OWL 2 RL by others, on random ontologies.

Both have the facts about the vocabulary; they differ in these: owlrl knows the datatypes ``xsd:date``,
``xsd:time`` and ``rdf:HTML``, which OWL 2 RL has not; we know ``owl:real`` and ``owl:rational``, which
OWL 2 has; owlrl gives a literal the types that its own has above it, we give it all that have its value.
What is said of literals is left to other tests, since rdflib writes them anew.
"""

from __future__ import annotations

import owlrl
import pytest
import rdflib

from gpuengine.rdf.terms import OWL, RDF, XSD
from tests.rdf.entailment import Statement, compiled_closure
from tests.rdf.random_ontologies import ontology
from tests.rdf.test_owl_compiler import shown

THEIRS = {f"<{XSD}date>", f"<{XSD}time>", f"<{RDF}HTML>"}
OURS = {f"<{OWL}real>", f"<{OWL}rational>"}


def _node(text: str) -> rdflib.term.Node:
    if text.startswith("_:"):
        return rdflib.BNode(text[2:])
    return rdflib.URIRef(text[1:-1]) if text.startswith("<") else rdflib.util.from_n3(text)


def _closure(statements: list[Statement]) -> set[Statement]:
    graph = rdflib.Graph()
    for statement in statements:
        graph.add(tuple(map(_node, statement)))
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    return {tuple(f"_:{t}" if isinstance(t, rdflib.BNode) else t.n3() for t in triple) for triple in graph}


@pytest.mark.parametrize("meta", [False, True], ids=["compiled", "meta"])
@pytest.mark.parametrize("seed", range(25))
def test_closure_is_that_of_owlrl(seed: int, meta: bool) -> None:
    statements = ontology(seed, literals=False, constraints=False)
    ours, _ = compiled_closure(statements, "owl2rl", axiomatic=True, meta=meta)
    expected = _closure(statements)
    assert _compared(ours, OURS) == _compared(expected, THEIRS)


def _compared(triples: set[Statement], but: set[str]) -> set[Statement]:
    return {triple for triple in shown(triples) if not triple[0].startswith('"') and triple[0] not in but}
