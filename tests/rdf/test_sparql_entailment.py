"""The W3C's cases for SPARQL under entailment, over engines with a profile: each passes, or says why not."""

from __future__ import annotations

import pytest

import gpuengine as ge
from gpuengine.rdf.sparql.parser import parse_query
from tests.rdf import w3c

CASES = [case for case in w3c.cases() if case.regime is not None]

_DIRECT = "asks about class expressions under OWL's direct semantics, which triples do not have"
_RIF = "has its rules in RIF"
AXIOMATIC = {
    *("rdf01", "rdfs05", "rdfs11", "sparqldl-02", "sparqldl-03", "sparqldl-10"),
    *("paper-sparqldl-Q1-rdfs", "paper-sparqldl-Q1", "paper-sparqldl-Q4"),
}
"""They ask for classes below themselves, terms that are the same as themselves, or what is a property:
what is left out unless it is asked for."""
NOT_PASSING = {
    "sparqldl-11": "asks for owl:Thing as a range, which no rule of OWL 2 RL states",
    "sparqldl-12": "asks for owl:Thing as a domain, which no rule of OWL 2 RL states",
    **dict.fromkeys(["rif01", "rif03", "rif04", "rif06"], _RIF),
    **dict.fromkeys([f"paper-sparqldl-Q{number}" for number in (2, 3)], _DIRECT),
    **dict.fromkeys([f"parent{number}" for number in range(3, 11)], _DIRECT),
    **dict.fromkeys([f"simple{number}" for number in range(1, 9)], _DIRECT),
}


def marked(case: w3c.Case) -> object:
    name = case.name.rsplit("/", 1)[1]
    reason = NOT_PASSING.get(name)
    marks = [pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason)] if reason else []
    return pytest.param(case, id=name, marks=marks)


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_case(case: w3c.Case) -> None:
    text = w3c.archive()[case.query].decode()
    base = w3c.BASE + case.query
    assert case.regime is not None and case.result is not None
    profile = "rdfs" if {"RDF", "RDFS"} & set(case.regime.split(",")) else "owl2rl"
    kb = ge.RdfEngine(profile=profile, axiomatic=case.name.rsplit("/", 1)[1] in AXIOMATIC)
    kb.load([quad[:3] for name in case.data for quad in w3c.quads(name)])
    found = kb.sparql(text, base=base)
    wanted = w3c.expected(case.result, parse_query(text, base=base).form)
    if wanted.truth is not None:
        assert bool(found) == wanted.truth
        return
    order = [found.variables.index(name) for name in wanted.variables]
    rows = [tuple(row[place] for place in order) for row in found.rows()]
    assert w3c.same(rows, list(wanted.rows)), (sorted(rows, key=str), sorted(wanted.rows, key=str))


def test_the_list_names_cases_that_exist() -> None:
    assert {*NOT_PASSING, *AXIOMATIC} <= {case.name.rsplit("/", 1)[1] for case in CASES}
