"""Inline relations, where they are inlined and where they are kept."""

from __future__ import annotations

from gpuengine.language import parse_program
from tests.language.rendering import codes_of, errors, rules

P = """
.decl a(x: number) .decl b(x: number) .decl e(x: number, y: number)
.decl geq(x: number, y: number) inline
geq(x, y) :- x >= y.
"""


def test_an_ungrounded_relation_is_inlined() -> None:
    assert rules(P + "a(x) :- b(x), geq(x, 3).") == ["a(x) :- b(x), x >= 3"]
    assert "geq" not in parse_program(P).relations


def test_computed_arguments_and_several_rules() -> None:
    text = P + ".decl near(x: number, y: number) inline\nnear(x, x + 1). near(x, y) :- e(x, z), e(z, y).\n"
    assert rules(text + "a(x) :- b(x), near(x, y).") == [
        "a(x) :- b(x), y = +(x, 1)",
        "a(x) :- b(x), e(x, z@i1), e(z@i1, y)",
    ]


def test_constants_and_repeated_variables_in_the_head() -> None:
    text = P + ".decl k(x: number, y: number) inline\nk(1, 2). k(x, x) :- b(x).\n"
    assert rules(text + "a(x) :- b(x), k(1, x).") == ["a(x) :- b(x), x = 2", "a(x) :- b(x), x = 1, b(1)"]
    assert rules(text + "a(x) :- b(x), k(3, 2).") == []
    assert rules(text + "a(x) :- b(x), k(x, _).") == ["a(x) :- b(x), x = 1", "a(x) :- b(x), b(x)"]


def test_inline_relations_use_each_other() -> None:
    text = (
        P
        + ".decl between(l: number, x: number, h: number) inline\nbetween(l, x, h) :- geq(x, l), geq(h, x).\n"
    )
    assert rules(text + "a(x) :- b(x), between(1, x, 5).") == ["a(x) :- b(x), x >= 1, 5 >= x"]


def test_negated() -> None:
    assert rules(P + "a(x) :- b(x), !geq(x, 3).") == ["a(x) :- b(x), x < 3"]
    text = P + ".decl odd(x: number) inline\nodd(x) :- x % 2 = 1, e(x, _). odd(7).\n"
    assert rules(text + "a(x) :- b(x), !odd(x).") == [
        "a(x) :- b(x), %(x, 2) != 1, x != 7",
        "a(x) :- b(x), !e(x, _), x != 7",
    ]


def test_a_negated_relation_with_variables_of_its_own_is_kept() -> None:
    text = P + ".decl two(x: number, y: number) inline\ntwo(x, y) :- e(x, z), e(z, y).\n"
    program = parse_program(text + "a(x) :- b(x), !two(x, x).")
    assert "two" in program.relations
    assert rules(text + "a(x) :- b(x), !two(x, x), two(x, 1).") == [
        "a(x) :- b(x), !two(x, x), e(x, z@i2), e(z@i2, 1)",
        "two(x, y) :- e(x, z), e(z, y)",
    ]


def test_in_aggregates() -> None:
    assert rules(P + "a(s) :- s = count : { b(x), geq(x, 3), !geq(x, 9) }.") == [
        "a(s) :- s = count { b(x), x >= 3, x < 9 }"
    ]
    text = P + ".decl from(x: number) inline\nfrom(x) :- e(x, _).\n"
    assert rules(text + "a(s) :- s = count : { from(x) }.") == [
        "a(s) :- s = count { from(x) }",
        "from(x) :- e(x, _)",
    ]
    assert rules(text + "a(x) :- from(x), 1 < max y : { b(y), 2 = count : { from(y) } }.") == [
        "a(x) :- e(x, _), @1 = max y { b(y), @2 = count { from(y) } for y, 2 = @2 }, 1 < @1",
        "from(x) :- e(x, _)",
    ]


def test_an_aggregate_is_inlined_with_its_rule() -> None:
    text = P + ".decl total(x: number, s: number) inline\ntotal(x, s) :- s = sum y : { e(x, y) }.\n"
    assert rules(text + "a(s) :- b(z), total(z, s).") == ["a(s) :- b(z), s = sum y@i1 { e(z, y@i1) } for z"]
    assert rules(text + "a(1) :- b(z), total(z, 5).") == [
        "a(1) :- b(z), s@i2 = 5, s@i2 = sum y@i1 { e(z, y@i1) } for z"
    ]


def test_relations_with_directives_are_not_inlined() -> None:
    program = parse_program(".decl p(x: number) inline\n.decl q(x: number)\np(1).\nq(x) :- p(x).\n.output p")
    assert list(program.relations) == ["p", "q"] and not program.inlines


def test_wrong_inlining() -> None:
    assert errors(P + ".decl r(x: number) inline\nr(x) :- b(x), r(x).") == [("E0404", 5, 7)]
    assert codes_of(P + ".decl r, s(x: number) inline\nr(x) :- s(x). s(x) :- r(x).") == ["E0404", "E0404"]
    bigger = ".decl bigger(x: number) inline\nbigger(x) :- x > y, y = z, e(z, x).\n"
    assert rules(P + bigger + "a(x) :- b(x), !bigger(x).")[0] == "a(x) :- b(x), !bigger(x)"
    unbound = ".decl any(x: number) inline\nany(x) :- x > y, b(y).\n"
    assert codes_of(P + unbound + "a(x) :- b(x), !any(x).") == ["E0405"]
    assert rules(P + unbound + "a(x) :- b(x), any(x).") == ["a(x) :- b(x), x > y@i1, b(y@i1)"]
    assert codes_of(P + "a(x) :- geq(x, 3).") == ["E0401"]


def test_too_many_alternatives() -> None:
    text = P + ".decl k(x: number) inline\n" + "".join(f"k({n}).\n" for n in range(20))
    assert codes_of(text + "a(x) :- b(x), k(x), k(x), k(x), k(x).") == ["E0012"]
