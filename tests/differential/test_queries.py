"""A conjunctive query answers what a rule with the same body derives."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given

import gpuengine as ge
from tests.differential.compare import oracle_facts
from tests.generated import Case, Clause
from tests.strategies import queries


@given(queries())
def test_query_is_a_rule(question: tuple[Case, Clause]) -> None:
    case, rule = question
    variables = re.findall(r"v\d+", rule.heads[0])
    expected = oracle_facts(str(replace(case, clauses=(*case.clauses, rule))), case.facts)
    assert expected is not None
    kb = ge.Engine(str(replace(case, relations=case.relations[:-1])), threads=2)
    for name, rows in case.facts.items():
        kb.load(name, rows)
    kb.materialise()
    answer = kb.query(", ".join(rule.body))
    assert sorted(answer.columns) == sorted(variables)
    places = [answer.columns.index(name) for name in variables]
    found = [tuple(row[place] for place in places) for row in answer.to_pylist()]
    assert len(found) == len(set(found)) == len(answer)
    assert set(found) == expected["q"]


def test_query_of_the_readme() -> None:
    kb = ge.Engine("""
    .decl edge(x: number, y: number)
    .decl path(x: number, y: number)
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    """)
    kb.load("edge", [(1, 2), (2, 3), (3, 4)])
    kb.materialise()
    answer = kb.query("path(1, x), !edge(1, x)")
    assert list(answer.columns) == ["x"]
    assert set(answer.to_pylist()) == {(3,), (4,)}
