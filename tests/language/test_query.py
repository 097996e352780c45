"""Queries over a program."""

from __future__ import annotations

import pytest

from gpuengine.errors import ProgramErrors
from gpuengine.language import parse_program, parse_query
from gpuengine.language.program import NUMBER, Program, Variable
from tests.language.rendering import render

PROGRAM = """
.type City <: symbol .type L = [x: number, y: L] .type D = B { x: number }
.decl edge(x: number, y: number) .decl path(x: number, y: number)
.decl city(c: City) .decl l(x: L) .decl d(x: D)
.decl geq(x: number, y: number) inline
.decl two(x: number, y: number) inline
.decl alt(x: number) inline
geq(x, y) :- x >= y.
two(x, y) :- edge(x, z), edge(z, y).
alt(1). alt(2).
path(x, y) :- edge(x, y).
.comp C { .decl p(x: number) } .init c = C
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return parse_program(PROGRAM)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("path(1, x), !edge(1, x)", "?(x) :- path(1, x), !edge(1, x)"),
        ("?- path(1, x).", "?(x) :- path(1, x)"),
        ("  path(y, x)  .  ", "?(y, x) :- path(y, x)"),
        ("path(1, 2)", "?() :- path(1, 2)"),
        ("path(x, _), y = x + 1", "?(x, y) :- path(x, _), y = +(x, 1)"),
        ("path(x + 1, y), x = 2", "?(x, y) :- path(@1, y), @1 = +(x, 1), x = 2"),
        ("n = count : { path(x, _) }", "?(n) :- n = count { path(x, @1) }"),
        ("edge(x, y), geq(x, y)", "?(x, y) :- edge(x, y), x >= y"),
        ("edge(x, y), !geq(x, 2)", "?(x, y) :- edge(x, y), x < 2"),
        ("two(1, y)", "?(y) :- edge(1, z@i1), edge(z@i1, y)"),
        ('city(as("Oslo", City))', "?() :- city('Oslo')"),
        ("l([x, _])", "?(x) :- l(@2), @2 = [x, @1]"),
        ("d($B(x))", "?(x) :- d(@1), @1 = $B(x)"),
        ("c.p(x)", "?(x) :- c.p(x)"),
    ],
)
def test_queries(program: Program, text: str, rendered: str) -> None:
    assert render(parse_query(text, program)) == rendered


def test_the_head_has_types(program: Program) -> None:
    assert parse_query("path(x, _)", program).head.args == (Variable("x", NUMBER),)


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("pth(1, x)", "E0101", 1),
        ("?- pth(1, x)", "E0101", 4),
        ("path(x)", "E0104", 1),
        ('path("a", x)', "E0301", 6),
        ("path(x, _), y < x", "E0401", 13),
        ("path(x, _), !path(y, _)", "E0401", 19),
        ("path(x", "E0001", 7),
        ("", "E0001", 1),
        ("path(1, 2) :- path(2, 1).", "E0001", 12),
        ("path(1, x) ; path(2, x)", "E0012", 1),
        ("path(x, y), !two(x, y)", "E0405", 14),
        ("path(x, y), alt(x)", "E0405", 1),
        ("edge(x, $)", "E0505", 9),
        ("edge(x, `)", "E0002", 9),
        ("path(" + "-(" * 500 + "1" + ")" * 500 + ", x)", "E0011", 1),
    ],
)
def test_wrong_queries(program: Program, text: str, code: str, column: int) -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_query(text, program)
    first = caught.value.diagnostics[0]
    assert (first.code, first.span.file, first.span.column) == (code, "<query>", column)
