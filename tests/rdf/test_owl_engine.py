"""Profiles in the engine: the conformance cases, random ontologies against naive evaluation, axioms that
change."""

from __future__ import annotations

import random

import pytest

from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.ontology import AUXILIARY
from gpuengine.rdf.rules import Triple, Variable
from tests.rdf.entailment import Statement, broken, compiled_closure, parsed, stored
from tests.rdf.random_ontologies import ontology

SUITES = stored("owl2_rdf_based_cases.json.gz")["suites"]


def made(
    statements: list[Statement], profile: str, others: list[Statement] = (), **options: bool
) -> RdfEngine:
    kb = RdfEngine(profile=profile, **options)
    kb.terms.add([term for triple in others for term in triple if term.startswith('"')])
    kb.load(statements)
    kb.materialise()
    return kb


def triples_of(kb: RdfEngine) -> set[Statement]:
    return set(zip(*(column.to_pylist() for column in kb.triples().to_arrow().columns), strict=True))


def shown(triples: set[Statement]) -> set[Statement]:
    return {
        triple
        for triple in triples
        if not triple[0].startswith('"')
        and triple[1].startswith("<")
        and not any(term.startswith(AUXILIARY) for term in triple)
    }


@pytest.mark.parametrize(
    ("profile", "case"),
    [
        pytest.param(suite, case, id=f"{suite}-{case['name'].removeprefix('rdfbased-')}")
        for suite, cases in SUITES.items()
        for case in cases
        # The engine has axioms for the container properties that its triples have, and for the first.
        if (suite, case["name"]) != ("rdfs", "rdfbased-sem-rdf-container-highval-axiom")
    ],
)
def test_case(profile: str, case: dict) -> None:
    if case["kind"] == "INCONSISTENCY":
        kb = made(parsed(case["graph"], scope="g"), profile, axiomatic=True)
        assert list(kb.inconsistencies())
        return
    premise, conclusion = parsed(case["premise"], scope="p"), parsed(case["conclusion"], scope="c")
    kb = made(premise, profile, conclusion, axiomatic=True)
    patterns = [
        Triple(*(Variable(term[2:]) if term.startswith("_:") else term for term in triple))
        for triple in conclusion
    ]
    assert all(len(column) for column in kb.solve(patterns).values())
    assert not list(kb.inconsistencies())


@pytest.mark.parametrize("meta", [False, True], ids=["compiled", "meta"])
@pytest.mark.parametrize("seed", range(12))
def test_random_ontology(seed: int, meta: bool) -> None:
    statements = ontology(seed, 6, 8)
    kb = made(statements, "owl2rl", meta=meta)
    expected, compiled = compiled_closure(statements, "owl2rl", meta=meta)
    assert triples_of(kb) == shown(expected)
    assert set(kb.inconsistencies()) == set(broken(expected, compiled))


@pytest.mark.parametrize("seed", range(8))
def test_axioms_and_facts_come_and_go(seed: int) -> None:
    draw = random.Random(seed)
    everything = ontology(seed, 7, 12)
    # Lists that axioms need stay whole, and the expressions that they are part of.
    fixed = {triple for triple in everything if triple[0].startswith("_:")}
    stated = [triple for triple in everything if triple in fixed or draw.random() < 0.6]
    kb = made(stated, "owl2rl")
    for _ in range(3):
        gone = [triple for triple in stated if triple not in fixed and draw.random() < 0.3]
        come = [triple for triple in everything if triple not in stated and draw.random() < 0.5]
        with kb.update() as update:
            update.delete(gone)
            update.insert(come)
        stated = [triple for triple in stated if triple not in gone] + come
        assert triples_of(kb) == triples_of(made(stated, "owl2rl"))
