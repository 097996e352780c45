"""Why a fact does not hold: how far each rule gets."""

from __future__ import annotations

import pytest

import gpuengine as ge

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl big(x: number, n: number)
.decl free(x: number)
edge(1, 2). edge(2, 3).
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
big(x, n) :- edge(x, _), n = count : { path(x, _) }, n > 1.
free(x) :- path(x, y), !edge(x, 2), y > 7.
free(3) :- edge(1, 2).
"""


@pytest.fixture(scope="module")
def kb() -> ge.Engine:
    return ge.Engine(PROGRAM).materialise()


def test_the_literal_that_fails(kb: ge.Engine) -> None:
    reason = kb.why_not("path(1, 4)")
    assert reason and not reason.holds
    copy, step = reason.attempts
    assert (copy.failed, copy.because) == ("edge(x, y)", "there is no edge(1, 4)")
    assert step.held == ("path(x, y)",)
    assert (step.failed, step.bindings) == ("edge(y, z)", 2)


def test_what_else_fails(kb: ge.Engine) -> None:
    (one,) = kb.why_not("big(2, 1)").attempts
    assert (one.failed, one.because) == ("n > 1", "it would be 1 > 1")
    (one,) = kb.why_not("big(2, 5)").attempts
    assert one.failed == "n = count : { path(x, _) }"
    first, second = kb.why_not("free(1)").attempts
    assert (first.failed, first.because) == ("!edge(x, 2)", "there is edge(1, 2), nor for the other bindings")
    assert second.failed is None and "free(3)" in second.because
    assert kb.why_not("free(2)").attempts[0].failed == "y > 7"


def test_queries_and_facts_that_hold(kb: ge.Engine) -> None:
    assert kb.why_not("path(1, 3)").holds
    assert not kb.why_not("path(1, 3)")
    assert "no rule derives edge" in str(kb.why_not("edge(7, 7)"))
    (one,) = kb.why_not("path(x, y), edge(y, x)").attempts
    assert (one.held, one.failed) == (("path(x, y)",), "edge(y, x)")


def test_all_derivations(kb: ge.Engine) -> None:
    proof = kb.explain("path(1, 3)", all=True)
    (derivations,) = proof.others.values()
    assert [one.bindings for one in derivations] == [{"x": 1, "z": 3, "y": 2}]
    proof = kb.explain("free(3)", all=True)
    assert [one.kind for one in proof.others[proof.goals[0]]] == ["rule"]


def test_forms(kb: ge.Engine) -> None:
    proof = kb.explain("big(1, 2)")
    assert "2 from 2 rows" in str(proof)
    assert "2 &gt; 1" in proof.to_html() and "2 &gt; 1" in proof._repr_html_()
    assert proof.to_text(depth=1).count("…") == 0
    assert kb.explain("path(1, 3)").to_text(depth=1).count("…") == 1
    assert len(kb.explain("path(1, 3)").to_dict(depth=1)["steps"]) == 3
    assert not kb.explain("path(3, 1)")


def test_facts_with_records_are_facts() -> None:
    made = ge.Engine("""
    .type List = [head: number, tail: List]
    .decl a(x: number)
    .decl list(l: List)
    .decl yes()
    a(1). list([x, nil]) :- a(x). yes() :- list([_, nil]).
    """).materialise()
    proof = made.explain("list([1, nil])")
    assert [step.fact.text for step in proof] == ["list([1, nil])", "a(1)"]
    assert made.explain("yes()").height == 2
    assert not made.explain("list([2, nil])")
    assert len(made.explain("list([x, _])").goals) == 1
