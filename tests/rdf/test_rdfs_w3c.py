"""W3C's tests of RDF's semantics (rdf-mt), by their manifest: entailment, and its absence.

All regimes but the simple one are tested with RDFS: it entails what RDF does, and where it does not entail
something, RDF does not either.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
import rdflib

from tests.rdf.entailment import broken, compiled_closure, holds, parsed, stored

FILES = stored("w3c_rdf_mt.json.gz")["files"]
BASE = "http://example.org/rdf-mt/"
MF = rdflib.Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")


def _manifest() -> list:
    graph = rdflib.Graph()
    graph.parse(data=FILES["manifest.ttl"], format="turtle", publicID=f"{BASE}manifest.ttl")
    entries = graph.value(predicate=rdflib.RDF.type, object=MF.Manifest)
    cases = []
    for test in graph.items(graph.value(entries, MF.entries)):
        result = graph.value(test, MF.result)
        cases.append(
            pytest.param(
                str(graph.value(test, rdflib.RDF.type)).rpartition("#")[2] == "PositiveEntailmentTest",
                str(graph.value(test, MF.entailmentRegime)),
                [f"<{each}>" for each in graph.items(graph.value(test, MF.recognizedDatatypes))],
                str(graph.value(test, MF.action)).removeprefix(BASE),
                None if isinstance(result, rdflib.Literal) else str(result).removeprefix(BASE),
                id=str(test).rpartition("#")[2],
            )
        )
    return cases


CASES = _manifest()


def test_manifest_is_whole() -> None:
    assert len(CASES) == 48


@pytest.mark.parametrize(("positive", "regime", "datatypes", "action", "result"), CASES)
def test_rdf_mt(positive: bool, regime: str, datatypes: list[str], action: str, result: str | None) -> None:
    premise = parsed(FILES[action], PurePosixPath(action).suffix, "p")
    conclusion = parsed(FILES[result], PurePosixPath(result).suffix, "c") if result else []
    if regime == "simple":
        assert holds(set(premise), conclusion) is positive
        return
    members = {term for triple in conclusion for term in triple if "rdf-syntax-ns#_" in term}
    triples, compiled = compiled_closure(
        premise, "rdfs", others=conclusion, axiomatic=True, datatypes=datatypes, containers=members
    )
    inconsistent = bool(broken(triples, compiled))
    if result is None:
        assert inconsistent is positive
    else:
        assert (inconsistent or holds(triples, conclusion)) is positive
