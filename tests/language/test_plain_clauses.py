"""Clauses that are lowered without inference become what inference makes of them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from gpuengine import GpuEngineError
from gpuengine.language import parse_program
from gpuengine.language.plain_clauses import PlainClause

PROGRAMS = sorted((Path(__file__).parent.parent / "programs").glob("*/program.dl"))

TYPES = """
.type A <: symbol
.type B <: symbol
.type C <: A
.type Pair = [x: A, y: A]
.decl a(x: A, y: A)
.decl b(x: B, y: B)
.decl c(x: C, y: C)
.decl s(x: symbol, y: symbol)
.decl n(x: number, y: number)
.decl r(x: Pair, y: Pair)
"""
CLAUSES = [
    "a(x, y) :- a(y, x).",
    "a(x, y) :- c(x, y).",
    "c(x, y) :- a(x, y).",
    "a(x, y) :- b(x, y).",
    "s(x, y) :- a(x, y), b(x, y).",
    "s(x, y) :- a(x, y).",
    "n(x, y) :- n(x, _), n(_, y).",
    "n(x, y) :- s(x, y).",
    'a("text", x) :- a(x, "text").',
    'n("text", x) :- n(x, x).',
    'r("text", x) :- r(x, x).',
    'a("one", "two").',
    "a(x, y) :- a(x, x).",
    "a(x, y).",
    "a(_, x) :- a(x, x).",
    "a(x) :- a(x, x).",
    "a(x, x) :- other(x, x).",
    "a(x, y), s(x, y) :- a(x, y) ; c(x, y).",
    "n(min x, y) :- n(x, y).",
    "n(x, 1) :- n(x, y), x != y.",
]


def _outcome(source: str | Path) -> tuple[object, ...]:
    """All of a program, what takes no part in comparisons too; or what is wrong with it."""
    try:
        program = parse_program(source)
    except GpuEngineError as error:
        return (str(error),)
    texts = [(rule.text, str(rule.span), str(rule.head.span)) for rule in program.rules]
    return program, texts, program.warnings


def _both(source: str | Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = _outcome(source)
    with monkeypatch.context() as context:
        context.setattr(PlainClause, "rule", lambda *_: None)
        assert _outcome(source) == here


def test_plain_clauses_are_what_inference_makes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for clause in CLAUSES:
        _both(TYPES + clause, monkeypatch)


def test_golden_programs_are_what_inference_makes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROGRAMS
    for program in PROGRAMS:
        _both(program, monkeypatch)


def test_plain_clauses_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    original = PlainClause.rule

    def noted(*arguments: object) -> object:
        found.append(original(*arguments))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(PlainClause, "rule", noted)
    parse_program(TYPES + 'a(x, y) :- a(y, x).\na("one", "two").\nn(x, 1) :- n(x, _).')
    assert [one is not None for one in found] == [True, True, False]


def test_a_rule_in_another_process_hashes_as_it_does_there() -> None:
    rule = parse_program(TYPES + "a(x, y) :- a(y, x).").rules[0]
    hash(rule)
    copy = pickle.loads(pickle.dumps(rule))
    assert copy == rule
    assert copy._hash is None
    assert hash(copy) == hash(rule)
