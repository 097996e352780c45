"""Compiled rules against the meta rules of the profile, on random ontologies."""

from __future__ import annotations

import pytest

from gpuengine.rdf.ontology import AUXILIARY
from gpuengine.rdf.terms import TYPE
from tests.rdf.entailment import Statement, broken, compiled_closure
from tests.rdf.random_ontologies import ontology


def shown(triples: set[Statement]) -> set[Statement]:
    """What both ways have to say: no auxiliary terms, no members of expressions, no properties without a
    name."""
    return {
        triple
        for triple in triples
        if not any(term.startswith(AUXILIARY) for term in triple)
        and not triple[1].startswith("_:")
        and not (triple[1] == TYPE and triple[2].startswith("_:"))
    }


@pytest.mark.parametrize("seed", range(120))
def test_compiled_rules_derive_what_the_meta_rules_do(seed: int) -> None:
    statements = ontology(seed)
    compiled, one = compiled_closure(statements, "owl2rl", axiomatic=True)
    by_meta, other = compiled_closure(statements, "owl2rl", axiomatic=True, meta=True)
    assert shown(compiled) == shown(by_meta)
    assert {case.rule for case in broken(compiled, one)} == {case.rule for case in broken(by_meta, other)}
