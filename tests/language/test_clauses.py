"""Facts, rules, heads, disjunctions, negation, computed arguments: text to core rules."""

from __future__ import annotations

import pytest

from gpuengine.errors import Span
from gpuengine.language import parse_program
from gpuengine.language.program import NUMBER, SYMBOL, Kind, Rule
from tests.language.rendering import facts, render, rules

DECLARATIONS = """
.decl a(x: number) .decl b(x: number) .decl c(x: number)
.decl e(x: number, y: number) .decl s(x: symbol) .decl n()
"""


def lowered(text: str) -> list[str]:
    return rules(DECLARATIONS + text)


def test_a_program_keeps_relations_rules_and_directives_in_order() -> None:
    program = parse_program(".decl q(x: number)\n.decl p(x: number, who: symbol)\nq(1).\nq(x) :- p(x, _).\n")
    assert list(program.relations) == ["q", "p"]
    assert [(a.name, a.type) for a in program.relations["p"].attributes] == [("x", NUMBER), ("who", SYMBOL)]
    assert [render(rule) for rule in program.rules] == ["q(1)", "q(x) :- p(x, _)"]


def test_a_rule_keeps_its_span_and_text() -> None:
    text = ".decl q(x: number)\n  q(x) :- // all\n    q(x), q(1).\n"
    rule = parse_program(text, name="some.dl").rules[0]
    assert rule.span == Span("some.dl", 2, 3, 3, 16)
    assert rule.text == "q(x) :- // all\n    q(x), q(1)."
    assert rule.body[1].span == Span("some.dl", 3, 11, 3, 15)  # type: ignore[union-attr]


def test_several_heads_and_disjuncts_become_rules() -> None:
    assert lowered("a(x), b(x) :- c(x), (e(x, _) ; e(_, x)).") == [
        "a(x) :- c(x), e(x, _)",
        "a(x) :- c(x), e(_, x)",
        "b(x) :- c(x), e(x, _)",
        "b(x) :- c(x), e(_, x)",
    ]


def test_disjunction_binds_looser_than_conjunction() -> None:
    assert lowered("a(x) :- b(x), c(x) ; e(x, x).") == ["a(x) :- b(x), c(x)", "a(x) :- e(x, x)"]


def test_negation_is_pushed_inside_groups() -> None:
    assert lowered("a(x) :- c(x), !(b(x), x < 3).") == ["a(x) :- c(x), !b(x)", "a(x) :- c(x), x >= 3"]
    assert lowered("a(x) :- c(x), !(b(x) ; x = 3).") == ["a(x) :- c(x), !b(x), x != 3"]
    assert lowered("a(x) :- c(x), !!b(x).") == ["a(x) :- c(x), b(x)"]


@pytest.mark.parametrize(
    ("written", "negated"),
    [("=", "!="), ("!=", "="), ("<", ">="), ("<=", ">"), (">", "<="), (">=", "<")],
)
def test_negated_comparisons(written: str, negated: str) -> None:
    assert lowered(f"a(x) :- c(x), !(x {written} 3).") == [f"a(x) :- c(x), x {negated} 3"]


def test_string_predicates_and_their_negation() -> None:
    assert lowered('s(x) :- s(x), match("a.*", x), !match("b", x), contains("a", x), !contains("b", x).') == [
        "s(x) :- s(x), 'a.*' match x, 'b' !match x, 'a' contains x, 'b' !contains x"
    ]


def test_true_and_false() -> None:
    assert lowered("a(x) :- b(x), true. a(x) :- b(x), (false ; c(x)). a(x) :- b(x), !true.") == [
        "a(x) :- b(x)",
        "a(x) :- b(x), c(x)",
    ]


def test_relations_without_attributes() -> None:
    assert lowered("n() :- a(_). a(1) :- n(), !n().".replace(", !n()", "")) == ["n() :- a(_)", "a(1) :- n()"]
    assert facts(".decl n()\nn().") == ["n()"]


def test_computed_arguments_become_equations() -> None:
    assert lowered("a(x + 1) :- b(x), e(x * 2, y), !c(y - 1).") == [
        "a(@1) :- @1 = +(x, 1), b(x), e(@2, y), @2 = *(x, 2), @3 = -(y, 1), !c(@3)"
    ]


def test_facts_of_constants_have_no_body_and_computed_ones_do() -> None:
    text = ".decl a(x: number)\na(1). a(-2). a(1 + 2)."
    assert facts(text) == ["a(1)", "a(-2)"]
    assert rules(text) == ["a(@1) :- @1 = +(1, 2)"]


def test_range_stands_only_beside_an_equals_sign() -> None:
    assert lowered("a(x) :- x = range(1, 5). a(x) :- range(1, 9, 2) = x.") == [
        "a(x) :- x = range(1, 5)",
        "a(x) :- range(1, 9, 2) = x",
    ]
    assert lowered("a(range(1, 3)). a(x) :- x = range(1, 3) + 1. a(x) :- c(x), x < range(1, 3).") == [
        "a(@1) :- @1 = range(1, 3)",
        "a(x) :- @1 = range(1, 3), x = +(@1, 1)",
        "a(x) :- c(x), @1 = range(1, 3), x < @1",
    ]


@pytest.mark.parametrize(
    ("expression", "parsed"),
    [
        ("1 + 2 * 3", "+(1, *(2, 3))"),
        ("1 - 2 - 3", "-(-(1, 2), 3)"),
        ("(1 - 2) * 3", "*(-(1, 2), 3)"),
        ("2 ^ 3 ^ 2", "^(2, ^(3, 2))"),
        ("-2 ^ 2", "neg(^(2, 2))"),
        ("2 ^ -1", "^(2, -1)"),
        ("-x", "neg(x)"),
        ("- -x", "neg(neg(x))"),
        ("x % 3 / 2", "/(%(x, 3), 2)"),
        ("x band 1 bor 2", "bor(band(x, 1), 2)"),
        ("x bxor 1 band 2", "bxor(x, band(1, 2))"),
        ("x bshl 1 + 2", "bshl(x, +(1, 2))"),
        ("x bshr 1 bshru 2", "bshru(bshr(x, 1), 2)"),
        ("bnot x + 1", "+(bnot(x), 1)"),
        ("lnot x land 1", "land(lnot(x), 1)"),
        ("x lor 1 lxor 2 land 3", "lor(x, lxor(1, land(2, 3)))"),
        ("min(x, 1, 2)", "min(x, 1, 2)"),
        ("max(x, min(1, 2))", "max(x, min(1, 2))"),
        ('strlen(cat("a", "b", to_string(x)))', "strlen(cat('a', 'b', to_string(x)))"),
        ('ord("a") + to_number("1")', "+(ord('a'), to_number('1'))"),
        ('strlen(substr("abc", 0, x))', "strlen(substr('abc', 0, x))"),
    ],
)
def test_operators(expression: str, parsed: str) -> None:
    assert lowered(f"a(y) :- c(x), y = {expression}.") == [f"a(y) :- c(x), y = {parsed}"]


def test_literals() -> None:
    text = r"""
    .decl i(x: number) .decl u(x: unsigned) .decl f(x: float) .decl s(x: symbol)
    i(0x1F). i(0b101). i(1.2.3.4). i(-9223372036854775808).
    u(7). u(7u). u(0xffffffffffffffffu). u(0b11u). u(18446744073709551615).
    f(1). f(1.5). f(-2). f(-2.5). f(1.5e3).
    s("a\tb\n\"\\\'"). s("").
    """
    assert facts(text) == [
        "i(31)",
        "i(5)",
        "i(16909060)",
        "i(-9223372036854775808)",
        "u(7u)",
        "u(7u)",
        "u(18446744073709551615u)",
        "u(3u)",
        "u(18446744073709551615u)",
        "f(1.0f)",
        "f(1.5f)",
        "f(-2.0f)",
        "f(-2.5f)",
        "f(1500.0f)",
        "s('a\\tb\\n\"\\\\\\'')",
        "s('')",
    ]


def test_plain_integers_take_the_type_of_their_context() -> None:
    text = """
    .decl u(x: unsigned) .decl f(x: float)
    u(x + 1) :- u(x), x > 2. f(x * 2) :- f(x), x != 0.
    f(y) :- f(x), y = 1, x < y.
    """
    assert rules(text) == [
        "u(@1) :- @1 = +(x, 1u), u(x), x > 2u",
        "f(@1) :- @1 = *(x, 2.0f), f(x), x != 0.0f",
        "f(y) :- f(x), y = 1.0f, x < y",
    ]


def test_plus_of_symbols_is_cat() -> None:
    assert lowered('s(x + "b" + y) :- s(x), s(y).') == ["s(@1) :- @1 = cat(cat(x, 'b'), y), s(x), s(y)"]


def test_names_may_hold_question_marks_and_underscores() -> None:
    assert rules(".decl _p(x: number)\n.decl q?(x: number)\n_p(?x) :- q?(?x), q?(_y).") == [
        "_p(?x) :- q?(?x), q?(_y)"
    ]


def test_plans_are_accepted_and_ignored() -> None:
    assert lowered("a(x) :- b(x), c(x). .plan 0:(2,1), 1:()\na(x) :- c(x).") == [
        "a(x) :- b(x), c(x)",
        "a(x) :- c(x)",
    ]


def test_ten_thousand_parentheses_and_negations() -> None:
    deep = "(" * 10_000 + "x" + ")" * 10_000
    assert lowered(f"a(x) :- b(x), {deep} > 1.") == ["a(x) :- b(x), x > 1"]
    groups = "(" * 10_000 + "b(x)" + ")" * 10_000
    assert lowered(f"a(x) :- {groups}.") == ["a(x) :- b(x)"]


def test_a_rule_is_immutable_and_comparable() -> None:
    first, second = (parse_program(DECLARATIONS + "a(x) :- b(x), x < 3.").rules for _ in range(2))
    assert first == second and isinstance(first[0], Rule)
    assert first[0].head.args[0].type.kind is Kind.NUMBER  # type: ignore[union-attr]
