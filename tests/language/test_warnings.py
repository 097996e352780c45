"""Warnings: what is found, where, and what is left alone."""

from __future__ import annotations

import pytest

import gpuengine
from gpuengine.errors import ProgramErrors
from gpuengine.language import codes, parse_program

DECLARATIONS = """
.decl a(x: number, y: number)
.decl b(x: number)
.decl d(x: number, y: number)
.input a, b
.output d
"""


def found(rules: str) -> list[tuple[str, str]]:
    """The code of each warning, and the text it points at; both inputs are used."""
    whole = DECLARATIONS + rules + "\nd(x, x) :- a(x, x), b(x)."
    lines = whole.splitlines()
    return [
        (w.code, lines[w.span.line - 1][w.span.column - 1 : w.span.end_column - 1])
        for w in parse_program(whole).warnings
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("d(x, x) :- a(x, once).", ["once"]),
        ("d(x, x) :- a(x, _once), a(x, _).", []),
        ("d(x, x), d(y, y) :- a(x, y).", []),  # each head uses one
        ("d(x, x) :- (a(x, y) ; b(x)).", ["y"]),
        ("d(x, x) :- b(x), (a(x, y), y > 1 ; a(y, x), y < 1).", []),
        ("d(x, n) :- b(x), n = count : { a(x, y) }.", ["y"]),
        ("d(x, n) :- b(x), n = sum y : { a(x, y) }.", []),
        ("d(n, m) :- n = count : { a(x, _), b(x) }, m = count : { a(_, x), b(x) }.", []),
        ("d(x, y) :- a(x, z), y = x + 1.", ["z"]),
        ("d(x, x) :- b(x), !a(x, _).", []),
        ("d(x, x) :- b(x), x = as(x, number).", []),
        (".type R = [p: number, q: number] .decl r(v: R) r([x, x]) :- b(x). d(x, x) :- r([x, y]).", ["y"]),
        (".decl q(x: number, y: number) inline\nq(x, y) :- b(x), y = x. d(x, y) :- q(x, y).", []),
        (".comp C { .decl p(x: number) p(x) :- a(x, y). } .init c = C .init e = C d(x, x) :- c.p(x).", ["y"]),
    ],
)
def test_variables_that_occur_once(rules: str, expected: list[str]) -> None:
    assert found(rules) == [(codes.SINGLE_VARIABLE, name) for name in expected]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("d(x, y) :- b(x), b(y).", ["b(y)"]),
        ("d(x, y) :- b(x), b(y), x < y.", []),
        ("d(x, y) :- b(x), y = x + 1, b(y).", []),
        ("d(x, z) :- b(x), a(y, z), b(z), b(y).", ["a(y, z)"]),
        ("d(x, x) :- b(x), b(_), a(1, 2).", []),  # only checks
        ("d(x, y) :- a(x, _), !a(x, y), b(y).", []),
        ("d(x, n) :- b(x), n = count : { b(y), a(z, y), b(z) }.", []),
        ("d(x, n) :- b(x), n = sum y : { b(y), b(z), z > 1 }.", ["b(z)"]),
        ("d(x, n) :- b(x), n = sum y : { a(x, y), b(x) }.", []),
        (".decl q(x: number, y: number) inline\nq(x, y) :- b(x), b(y). d(x, y) :- q(x, y), a(x, y).", []),
    ],
)
def test_bodies_that_are_products(rules: str, expected: list[str]) -> None:
    assert found(rules) == [(codes.CROSS_PRODUCT, part) for part in expected]


def test_relations_that_nothing_fills() -> None:
    assert found(".decl e(x: number)\nd(x, x) :- e(x).") == [(codes.NEVER_FILLED, "e")]
    assert found(".decl e(x: number)\nd(x, x) :- b(x), !e(x).") == [(codes.NEVER_FILLED, "e")]
    assert found(".decl e(x: number) e(1).\nd(x, x) :- e(x).") == []
    (warning,) = parse_program(".decl e(x: number) .decl f(x: number)\nf(x) :- e(x).").warnings
    assert warning.notes == ("it is read at <program>:2:9",) and "load its facts" in (warning.hint or "")


def test_relations_that_nothing_uses() -> None:
    assert found(".decl e(x: number)\nd(1, 1).") == [(codes.NEVER_USED, "e")]
    assert found(".decl e(x: number)\ne(x) :- b(x). d(1, 1).") == [(codes.NEVER_USED, "e")]
    assert found(".decl e(x: number) .printsize e\ne(x) :- b(x). d(1, 1).") == []
    # A program that writes nothing is there to be queried.
    queried = parse_program(".decl e(x: number) .decl f(x: number) .input f\ne(x) :- f(x).")
    assert queried.warnings == ()
    # What a component declares may be there for other instances.
    assert (
        found(".comp C { .decl p(x: number) .decl q(x: number) q(x) :- p(x). } .init c = C\nd(1, 1).") == []
    )


def test_a_wrong_program_has_errors_only() -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_program(DECLARATIONS + "d(x, x) :- a(x, once), nowhere(x).")
    assert [one.code for one in caught.value.diagnostics] == [codes.UNDECLARED_RELATION]


def test_an_engine_has_the_warnings_of_its_program() -> None:
    engine = gpuengine.Engine(".decl e(x: number, y: number) .decl f(x: number)\nf(x) :- e(x, y).")
    assert [one.code for one in engine.warnings] == [codes.NEVER_FILLED, codes.SINGLE_VARIABLE]
    engine.load("e", [(1, 2)])
    assert [one.code for one in engine.warnings] == [codes.SINGLE_VARIABLE]
    with engine.update() as update:
        update.add_rules("f(x) :- e(x, _), e(_, z), z > 0.")
    assert {one.code for one in engine.warnings} == {codes.SINGLE_VARIABLE, codes.CROSS_PRODUCT}
    with engine.update() as update:
        update.remove_rules("f(x) :- e(x, y).")
    assert [one.code for one in engine.warnings] == [codes.CROSS_PRODUCT]
