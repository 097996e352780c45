"""The W3C's cases for SPARQL 1.0 and 1.1 that need no entailment: every one passes, or is listed with its
reason."""

from __future__ import annotations

import csv
import io

import pytest

from gpuengine.errors import ProgramErrors
from gpuengine.rdf.sparql import answer
from gpuengine.rdf.sparql.parser import parse_query
from tests.rdf import w3c
from tests.rdf.memory_graph import MemoryGraph

CASES = [case for case in w3c.cases() if case.regime is None]

NOT_PASSING: dict[str, str] = {}


def marked(case: w3c.Case) -> object:
    reason = NOT_PASSING.get(case.name)
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_case(case: w3c.Case) -> None:
    text = w3c.archive()[case.query].decode()
    base = w3c.BASE + case.query
    if case.kind == "NegativeSyntaxTest11":
        with pytest.raises(ProgramErrors):
            parse_query(text, base=base)
        return
    quads = [quad for name in case.data for quad in w3c.quads(name)]
    quads += [quad for name in case.graphs for quad in w3c.quads(name, f"<{w3c.BASE}{name}>")]
    query = parse_query(text, base=base)
    for name in (*(query.dataset.default or ()), *(query.dataset.named or ())):
        quads += w3c.quads(name[1:-1].removeprefix(w3c.BASE), name)
    found = answer(text, MemoryGraph(quads), base=base)
    if case.result.endswith(".csv"):
        rows = list(csv.reader(io.StringIO(w3c.archive()[case.result].decode())))
        given = list(csv.reader(io.StringIO(found.write("csv").decode())))
        assert given[0] == rows[0]
        assert w3c.same([tuple(row) for row in given[1:]], [tuple(row) for row in rows[1:]])
        return
    wanted = w3c.expected(case.result, query.form)
    if wanted.truth is not None:
        assert bool(found) == wanted.truth
        return
    assert set(found.variables) >= set(wanted.variables)
    order = [found.variables.index(name) for name in wanted.variables]
    rows = [tuple(row[place] for place in order) for row in found.rows()]
    assert w3c.same(rows, list(wanted.rows)), (sorted(rows, key=str), sorted(wanted.rows, key=str))


def test_the_list_names_cases_that_exist() -> None:
    assert set(NOT_PASSING) <= {case.name for case in CASES}
