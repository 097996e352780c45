"""Diagnostics: each code is triggered, texts are golden, all errors of a program come in one run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuengine.errors import ProgramErrors
from gpuengine.language import codes, parse_program
from gpuengine.language.diagnostics import MAX_DIAGNOSTICS
from tests.language.rendering import codes_of, diagnostics, errors

N = ".decl n(x: number) .decl m(x: number)\n"
DEEP = "-(" * 400 + "1" + ")" * 400
TRIGGERS = {
    codes.SYNTAX: N + "n(1",
    codes.CHARACTER: N + "n(1) & n(2).",
    codes.UNTERMINATED: N + '"abc',
    codes.ESCAPE: '.decl s(x: symbol)\ns("\\z").',
    codes.LITERAL: N + "n(18446744073709551616).",
    codes.INCLUDE_OUTSIDE: '.include "../x.dl"',
    codes.PREPROCESSOR: "#elif X",
    codes.MACRO: "#define",
    codes.TOO_DEEP: N + f"n({DEEP}).",
    codes.TOO_LARGE: N + "n(x) :- " + ", ".join(["(m(x) ; m(x))"] * 20) + ".",
    codes.UNDECLARED_RELATION: N + "n(x) :- k(x).",
    codes.DUPLICATE: N + ".decl n(x: number)",
    codes.DUPLICATE_ATTRIBUTE: ".decl p(x: number, x: number)",
    codes.ARITY: N + "n(1, 2).",
    codes.UNDECLARED_TYPE: ".decl p(x: nowhere)",
    codes.CYCLIC_TYPE: ".type T <: T",
    codes.MIXED_UNION: ".type T = number | float",
    codes.EQREL: ".decl p(x: number) eqrel",
    codes.DIRECTIVE: N + ".limitsize n(k=1)",
    codes.UNKNOWN_BRANCH: N + "n(1) :- $None = $None.",
    codes.UNKNOWN_COMPONENT: ".init a = A",
    codes.COMPONENT_PARAMETERS: ".comp A { } .init a = A<number>",
    codes.OVERRIDE: ".comp A { .override p } .init a = A",
    codes.COMPONENT_CYCLE: ".comp A : A { } .init a = A",
    codes.TYPE_CLASH: N + 'n("a").',
    codes.NO_COMMON_SUBTYPE: N
    + ".type A <: number .type B <: number .decl a(x: A) .decl b(x: B)\nn(x) :- a(x), b(x).",
    codes.NOT_A_SUBTYPE: N + ".type A <: number .decl a(x: A)\na(x) :- n(x).",
    codes.UNKNOWN_RECORD: N + "n(1) :- [1] != [1].",
    codes.ARGUMENT_COUNT: N + "n(strlen()).",
    codes.CAST: '.decl f(x: float)\nf(as("a", float)).',
    codes.PATTERN: N + '.decl s(x: symbol)\nn(1) :- s(x), !match("(a)\\\\1", x).',
    codes.UNGROUNDED: N + "n(x) :- m(y).",
    codes.WILDCARD: N + "n(_).",
    codes.UNSTRATIFIABLE: N + "n(x) :- m(x), !n(x).",
    codes.RECURSIVE_INLINE: ".decl p(x: number) inline\np(x) :- p(x).",
    codes.INLINE_USE: N + ".decl p(x: number) inline\np(x) :- x > y, m(y).\nn(x) :- m(x), !p(x).",
    codes.AGGREGATE_BODY: N + "n(x) :- x = sum : { m(_) }.",
    codes.MERGE: N + "n(mean x) :- m(x).",
    codes.NOT_MONOTONE: N + "n(min x + 1) :- n(x), x > 3.",
    codes.SELECTION: ".decl p(x: number, y: number) choice-domain x\np(1, min 2).",
    codes.SUBSUMPTION: N + "n(x) <= m(y) :- x < y.",
    codes.LATTICE: ".type L <: number .lattice L<> { Bottom -> 0 }",
    codes.USER_FUNCTOR: N + "n(@f(1)).",
    codes.CHOICE_DOMAIN: ".decl p(x: number) choice-domain y",
    codes.COUNTER: N + "m(1).\nn(autoinc()) :- n(_), m(_).",
    codes.PROVENANCE: '.pragma "provenance" "explain"',
}


ELSEWHERE = (codes.INCLUDE_CYCLE, codes.UNREADABLE, codes.UNKNOWN_RULE)
"""Codes that take files, or an edit, to trigger; the last is in test_editing.py."""


@pytest.mark.parametrize("code", [code for code in codes.DESCRIPTIONS if code not in ELSEWHERE])
def test_each_code_is_triggered_alone(code: str) -> None:
    assert set(codes_of(TRIGGERS[code])) == {code}


def test_the_codes_of_files(tmp_path: Path) -> None:
    main = tmp_path / "main.dl"
    main.write_text('.include "main.dl"\n.include "none.dl"\n')
    with pytest.raises(ProgramErrors) as caught:
        parse_program(main)
    assert [found.code for found in caught.value.diagnostics] == [codes.INCLUDE_CYCLE, codes.UNREADABLE]


def test_every_code_is_in_the_one_table_and_in_the_docs() -> None:
    constants = {value for name, value in vars(codes).items() if name.isupper() and isinstance(value, str)}
    assert constants == {*codes.DESCRIPTIONS, *codes.WARNINGS}
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    listed = dict(re.findall(r"^\| (E\d{4}) \| (.*?) \|$", page, re.MULTILINE))
    assert listed == codes.DESCRIPTIONS
    assert dict(re.findall(r"^\| (W\d{4}) \| (.*?) \|$", page, re.MULTILINE)) == codes.WARNINGS


GOLDEN_PROGRAM = """.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edgy(x, y).
path(x, z) :- path(x, y), edge(y).
\tpath(x, "a") :- edge(x, w), z < 3,
path(x, y) :- edge(x, y) edge(y, x).
path(x, y) :- edge(x, y), !path(y, x).
"""
GOLDEN_ERRORS = """\
error[E0101]: the relation edgy is not declared
 --> reach.dl:3:15
  |
3 | path(x, y) :- edgy(x, y).
  |               ^^^^
  = hint: did you mean the relation 'edge'?

error[E0104]: edge has 2 attributes, 1 argument given
 --> reach.dl:4:27
  |
4 | path(x, z) :- path(x, y), edge(y).
  |                           ^^^^^^^
  = hint: it is declared as edge(x, y) at reach.dl:1:7

error[E0001]: unexpected ':-', expected ',' or '.' or ';'
 --> reach.dl:6:12
  |
6 | path(x, y) :- edge(x, y) edge(y, x).
  |            ^^

error[E0403]: path is defined through its own negation: path -> !path
 --> reach.dl:7:28
  |
7 | path(x, y) :- edge(x, y), !path(y, x).
  |                            ^^^^^^^^^^
  = note: path reads !path at reach.dl:7:28
  = hint: break the cycle: a relation can only negate or aggregate what is complete before it

4 errors; nothing was evaluated"""


def test_golden_text() -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_program(GOLDEN_PROGRAM, name="reach.dl")
    assert str(caught.value) == GOLDEN_ERRORS


def test_syntax_errors_are_found_in_each_clause_and_checking_goes_on() -> None:
    text = N + 'n(1, .\nn(2).\nm(x) :- n(x) n(x).\n.output n(IO=)\nn(y).\nn(3)\nm(4).\n.oops\nm("a").\n'
    assert errors(text) == [
        ("E0001", 2, 6),
        ("E0001", 4, 14),
        ("E0001", 5, 14),
        ("E0401", 6, 3),
        ("E0001", 8, 1),
        ("E0001", 9, 1),
        ("E0301", 10, 3),
    ]


def test_a_missing_full_stop_costs_no_clause() -> None:
    found = diagnostics(N + 'n(1)\nn("a").\nm(x) :- n(x)\n')
    assert [(error.code, error.span.line) for error in found] == [("E0001", 3), ("E0301", 3), ("E0001", 5)]
    assert found[0].hint == "a fact or rule ends with '.': is it missing before this?"


def test_errors_inside_components_leave_the_component() -> None:
    text = ".comp A { .decl p(x: number)\n p(1 2).\n p(x) :- 1 = count : { p(x } .\n p(3).\n}\n"
    text += '.init a = A\na.p("x").\n'
    assert errors(text) == [("E0001", 2, 6), ("E0001", 3, 28), ("E0301", 7, 5)]
    assert [code for code, _, _ in errors(".comp A { ) .decl p(x: number) }\n.init a = A\na.p(x).")] == [
        "E0001",
        "E0401",
    ]
    assert codes_of(".comp A { .decl p(x: number)") == ["E0001"]


def test_a_lost_declaration_causes_no_other_errors() -> None:
    assert codes_of(".decl p(x number)\n.decl q(x: number)\nq(x) :- p(x).\n") == ["E0001"]
    assert codes_of(".type T == number\n.decl q(x: T)\nq(1).\n") == ["E0001"]


@pytest.mark.parametrize(
    ("types", "code"),
    [
        (".type A <: B\n.type B <: A", codes.CYCLIC_TYPE),
        (".type A = number | symbol", codes.MIXED_UNION),
        (".type A <: nowhere", codes.UNDECLARED_TYPE),
        (".type A = number | nowhere", codes.UNDECLARED_TYPE),
        (".type B = number | symbol\n.type A <: B", codes.MIXED_UNION),
    ],
)
def test_a_wrong_type_fits_everything(types: str, code: str) -> None:
    uses = """
    .type S <: symbol
    .type R = [a: A]
    .decl p(x: A) .decl e(x: A, y: number) eqrel .decl s(x: S) .decl r(x: R)
    p("a"). p(1). r([1]). r(["a"]).
    p(x) :- r([x]).
    s(as(x, A)) :- p(x).
    s(x) :- p(x).
    """
    assert codes_of(types + uses) == [code]


def test_one_argument_is_no_arguments() -> None:
    assert diagnostics("#define F(x) x\n" + N + "n(F(1, 2)).")[0].message == (
        "the macro F takes 1 argument, 2 given"
    )
    assert diagnostics(N + "n(strlen()).")[0].message == "strlen takes 1 argument, 0 given"
    assert diagnostics(".comp A<T> { }\n.init a = A")[0].message == (
        "the component A takes 1 type parameter, 0 given"
    )


def test_a_wrong_token_does_not_take_the_declaration_before_it_along() -> None:
    assert codes_of(".decl p(x: number)\n)\np(y).") == ["E0001"]
    assert errors('.decl p(x: number)\n.lattice f {}\np("a").') == [("E0001", 2, 12), ("E0301", 3, 3)]


def test_hints() -> None:
    assert diagnostics(N + "n(x) :- m(x), x == 1.")[0].hint == "equality is written with one '='"
    assert diagnostics(".dcel p(x: number)")[0].hint == "did you mean the directive '.decl'?"
    assert diagnostics(".decl sum(x: number)")[0].hint == "'sum' is a reserved word: choose another name"


def test_there_is_a_limit_to_the_number_of_errors() -> None:
    assert len(diagnostics(N + "n(x).\nn(1 2).\n" * 1000)) == MAX_DIAGNOSTICS


def test_an_empty_program_is_right() -> None:
    assert parse_program("").rules == ()
    assert parse_program(" \n // nothing\n").relations == {}


@pytest.mark.parametrize(("limit", "shown"), [(1, 1), (7, 7), (0, 60)])
def test_as_many_errors_are_shown_as_asked_for(limit: int, shown: int) -> None:
    from gpuengine.language.editing import ProgramText

    with pytest.raises(ProgramErrors) as caught:
        ProgramText.read(N + "n(x).\n" * 60, error_limit=limit)
    assert len(caught.value.diagnostics) == shown


def test_a_wrong_qualifier_is_the_only_error() -> None:
    text = ".decl a(x: number) inlin\n.decl b(x: number) eqrell\nb(x) :- a(x).\n"
    assert [(found.span.line, found.message) for found in diagnostics(text)] == [
        (1, "there is no qualifier inlin"),
        (2, "there is no qualifier eqrell"),
    ]


def test_the_hint_for_records_is_not_a_conversion() -> None:
    (found,) = diagnostics(N + ".type R = [x: number]\n.decl r(x: R)\nn(x) :- r(x).")
    assert found.hint is not None and "ord(" in found.hint
    (found,) = diagnostics(N + ".decl s(x: symbol)\nn(x) :- s(x).")
    assert found.hint is not None and "to_number" in found.hint
