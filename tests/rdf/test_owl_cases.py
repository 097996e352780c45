"""The cases of the OWL 2 RDF-based test suite: OWL 2 RL by compilation and by the meta rules, and RDFS."""

from __future__ import annotations

import pytest

from tests.rdf.entailment import broken, compiled_closure, holds, parsed, stored

SUITES = stored("owl2_rdf_based_cases.json.gz")["suites"]


def _case(suite: str) -> list:
    return [pytest.param(case, id=case["name"].removeprefix("rdfbased-")) for case in SUITES[suite]]


def _check(case: dict, profile: str, **options: object) -> None:
    if case["kind"] == "INCONSISTENCY":
        statements = parsed(case["graph"], scope="g")
        triples, compiled = compiled_closure(statements, profile, **options)
        found = broken(triples, compiled)
        assert found
        assert all(inconsistency.rule and inconsistency.triples for inconsistency in found)
        return
    premise, conclusion = parsed(case["premise"], scope="p"), parsed(case["conclusion"], scope="c")
    triples, compiled = compiled_closure(premise, profile, others=conclusion, **options)
    assert holds(triples, conclusion)
    assert not broken(triples, compiled)


def test_suites_are_whole() -> None:
    assert {suite: len(cases) for suite, cases in SUITES.items()} == {"owl2rl": 182, "rdfs": 36}


@pytest.mark.parametrize("meta", [False, True], ids=["compiled", "meta"])
@pytest.mark.parametrize("case", _case("owl2rl"))
def test_owl2rl(case: dict, meta: bool) -> None:
    _check(case, "owl2rl", axiomatic=True, meta=meta)


@pytest.mark.parametrize("case", _case("rdfs"))
def test_rdfs(case: dict) -> None:
    members = {f"<http://www.w3.org/1999/02/22-rdf-syntax-ns#_{n}>" for n in (1, 42)}
    _check(case, "rdfs", axiomatic=True, containers=members)
