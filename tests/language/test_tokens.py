"""Between preprocessor and parser: annotations, and the functors that are no reserved words."""

from __future__ import annotations

import pytest

import gpuengine as ge
from gpuengine.language import parse_program, parse_query
from tests.language.rendering import diagnostics, rules

P = ".decl p(x: float)\n"


def test_annotations_mean_nothing() -> None:
    plain = P + "p(x) :- p(x), x > 1.0."
    annotated = '@![top("(", [{}])]\n' + P + '@[a]\n@[b = "]"]\np(x) :- @[c] p(x), @[d(e)] x > 1.0.'
    assert rules(annotated) == rules(plain)


def test_an_annotation_that_is_never_closed() -> None:
    (found,) = diagnostics("@[a(b\n" + P)
    assert (found.code, found.span.line, found.message) == ("E0001", 1, "this annotation is never closed")


def test_a_name_is_the_functor_unless_a_relation_has_it() -> None:
    assert rules(P + "p(x) :- p(y), x = log(y).") != []
    both = P + ".decl log(x: float)\np(x) :- log(x).\n"
    program = parse_program(both)
    assert parse_query("log(x)", program).body
    assert parse_query("p(x), x = sqrt(4.0)", program).body
    (found,) = diagnostics(both + "p(x) :- p(y), x = log(y).")
    assert found.code == "E0001"


def test_a_relation_of_an_earlier_text_has_its_name() -> None:
    kb = ge.Engine(P + ".decl exp(x: float)\nexp(1.0).\n")
    kb.materialise()
    with kb.update() as update:
        update.add_rules("p(x) :- exp(x).")
    assert kb["p"].to_pylist() == [(1.0,)]


@pytest.mark.parametrize("name", ["sin", "acosh", "floor"])
def test_they_may_be_variables(name: str) -> None:
    assert rules(P + f"p({name}) :- p({name}), {name} > 1.0.") != []
