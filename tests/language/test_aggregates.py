"""Aggregates: scoping, nesting, and what becomes of their bodies."""

from __future__ import annotations

from gpuengine.language import parse_program
from gpuengine.language.program import FLOAT, NUMBER, Aggregate
from tests.language.rendering import codes_of, diagnostics, errors, rules

DECLARATIONS = """
.decl a(x: number) .decl b(x: number) .decl e(x: number, y: number) .decl f(x: float) .decl g(x: float)
"""


def lowered(text: str) -> list[str]:
    return rules(DECLARATIONS + text)


def test_outer_variables_are_those_the_rest_of_the_rule_mentions() -> None:
    assert lowered("a(s) :- b(x), s = sum y : { e(x, y), y < z, b(z) }.") == [
        "a(s) :- b(x), s = sum y { e(x, y), y < z, b(z) } for x"
    ]


def test_the_forms_of_an_aggregate() -> None:
    assert lowered(
        "a(s) :- s = count : { e(_, _) }. a(s) :- s = count : b(_). a(s) :- s = max y : e(_, y)."
    ) == [
        "a(s) :- s = count { e(@1, @2) }",
        "a(s) :- s = count { b(@1) }",
        "a(s) :- s = max y { e(@1, y) }",
    ]


def test_wildcards_stay_in_negated_atoms_of_a_body() -> None:
    assert lowered("a(s) :- s = count : { b(x), !e(x, _) }.") == ["a(s) :- s = count { b(x), !e(x, _) }"]


def test_an_aggregate_inside_an_expression_is_pulled_out() -> None:
    assert lowered("a(1 + sum x * 2 : { b(x) }) :- b(3).") == [
        "a(@2) :- @1 = sum *(x, 2) { b(x) }, @2 = +(1, @1), b(3)"
    ]
    assert lowered("a(x) :- b(x), x > min y : { b(y) }.") == ["a(x) :- b(x), @1 = min y { b(y) }, x > @1"]


def test_a_target_variable_is_local_even_if_the_rule_uses_the_name() -> None:
    assert lowered("a(x) :- b(x), x = max x : { e(x, _) }.") == ["a(x) :- b(x), x = max x@1 { e(x@1, @1) }"]


def test_siblings_have_variables_of_their_own() -> None:
    assert lowered("a(s + t) :- s = sum y : { b(y) }, t = sum y : { e(y, y) }.") == [
        "a(@1) :- @1 = +(s, t), s = sum y { b(y) }, t = sum y@3 { e(y@3, y@3) }"
    ]


def test_nested_aggregates_pass_outer_variables_on() -> None:
    assert lowered("a(s) :- b(o), s = sum y : { b(y), y < max z : { e(z, w), w < o, z > y } }.") == [
        "a(s) :- b(o), s = sum y { b(y), @1 = max z { e(z, w), w < o, z > y } for o, y, y < @1 } for o"
    ]


def test_types_of_results() -> None:
    program = parse_program(
        DECLARATIONS
        + "f(m) :- m = mean x : { b(x) }. g(s) :- s = sum x : { f(x) }. a(c) :- c = count : { f(_) }."
    )
    found = [rule.body[0] for rule in program.rules]
    assert all(isinstance(literal, Aggregate) for literal in found)
    assert [literal.result.type for literal in found] == [FLOAT, FLOAT, NUMBER]  # type: ignore[union-attr]
    assert lowered("f(m) :- m = mean x : { b(x) }.") == ["f(m) :- m = mean to_float(x) { b(x) }"]


def test_a_variable_bound_only_inside_is_not_bound_outside() -> None:
    found = diagnostics(DECLARATIONS + "a(y) :- 1 = count : { b(y) }.")
    assert [(error.code, error.span.column) for error in found] == [("E0401", 3)]
    assert found[0].hint and "outside the aggregate" in found[0].hint


def test_variables_of_the_body_must_be_bound_in_it() -> None:
    assert errors(DECLARATIONS + "a(s) :- s = sum x : { b(y), x > y }.") == [("E0401", 3, 29)]


def test_wrong_aggregates() -> None:
    assert codes_of(DECLARATIONS + "a(s) :- s = count : { b(_) ; b(_) }.") == ["E0406"]
    assert codes_of(DECLARATIONS + "a(s) :- s = count x : { b(x) }.") == ["E0406"]
    assert codes_of(DECLARATIONS + "a(s) :- s = sum : { b(_) }.") == ["E0406"]
    assert codes_of(DECLARATIONS + "a(s) :- s = sum(1, 2).") == ["E0406"]
    assert codes_of(".decl s(x: symbol)\ns(x) :- x = max y : { s(y) }.") == ["E0301"]
