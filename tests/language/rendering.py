"""Core programs as short text, and the errors of a wrong program, for assertions."""

from __future__ import annotations

import pytest

from gpuengine.errors import Diagnostic, ProgramErrors
from gpuengine.language import parse_program
from gpuengine.language.program import (
    Atom,
    Comparison,
    Constant,
    Functor,
    Kind,
    Literal,
    Negation,
    Pack,
    Rule,
    Term,
    Variable,
    Wildcard,
)

_SUFFIX = {Kind.UNSIGNED: "u", Kind.FLOAT: "f"}


def rules(text: str) -> list[str]:
    """The core rules of a program without its facts, rendered."""
    return [render(rule) for rule in parse_program(text).rules if rule.body]


def facts(text: str) -> list[str]:
    return [render(rule) for rule in parse_program(text).rules if not rule.body]


def diagnostics(text: str) -> list[Diagnostic]:
    """The errors of a program that must be wrong."""
    with pytest.raises(ProgramErrors) as caught:
        parse_program(text)
    return list(caught.value.diagnostics)


def errors(text: str) -> list[tuple[str, int, int]]:
    """Code, line and column of each error of a program that must be wrong."""
    return [(found.code, found.span.line, found.span.column) for found in diagnostics(text)]


def codes_of(text: str) -> list[str]:
    return [found.code for found in diagnostics(text)]


def render(rule: Rule) -> str:
    head = literal(rule.head)
    return f"{head} :- {', '.join(map(literal, rule.body))}" if rule.body else head


def literal(part: Literal) -> str:
    if isinstance(part, Atom):
        return f"{part.relation}({', '.join(map(term, part.args))})"
    if isinstance(part, Negation):
        return f"!{literal(part.atom)}"
    if isinstance(part, Comparison):
        return f"{term(part.left)} {part.op} {term(part.right)}"
    target = "" if part.target is None else f" {term(part.target)}"
    outer = f" for {', '.join(map(term, part.outer))}" if part.outer else ""
    return f"{term(part.result)} = {part.op}{target} {{ {', '.join(map(literal, part.body))} }}{outer}"


def term(part: Term | Wildcard) -> str:
    if isinstance(part, Variable):
        return part.name
    if isinstance(part, Wildcard):
        return "_"
    if isinstance(part, Constant):
        return "nil" if part.value is None else f"{part.value!r}{_SUFFIX.get(part.type.kind, '')}"
    args = ", ".join(map(term, part.args))
    if isinstance(part, Functor):
        return f"{part.op}({args})"
    assert isinstance(part, Pack)
    return f"[{args}]" if part.branch is None else f"${part.branch}({args})"
