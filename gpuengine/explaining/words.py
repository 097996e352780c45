"""Literals with values in the place of variables, as one would write them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Functor,
    Literal,
    Negation,
    Pack,
    Term,
    Variable,
    Wildcard,
)

Words = Mapping[Variable, str]


def written_name(variable: Variable) -> str:
    """The name of a variable in the text; ``_`` if it has none there."""
    return variable.name.partition("@")[0] or "_"


def is_named(variable: Variable) -> bool:
    """Does the text name it?"""
    return "@" not in variable.name


def spell(literal: Literal, words: Words) -> str:
    """A literal with words for the variables that have some."""
    if isinstance(literal, Negation):
        return f"!{spell(literal.atom, words)}"
    if isinstance(literal, Atom):
        return f"{literal.relation}({', '.join(_term(arg, words) for arg in literal.args)})"
    if isinstance(literal, Comparison):
        left, right = _term(literal.left, words), _term(literal.right, words)
        if literal.op.lstrip("!") in ("match", "contains"):
            return f"{literal.op}({left}, {right})"
        return f"{left} {'=' if literal.op == '==' else literal.op} {right}"
    assert isinstance(literal, Aggregate)
    target = f" {_term(literal.target, words)}" if literal.target is not None else ""
    body = ", ".join(spell(part, words) for part in literal.body)
    if literal.initial is not None:
        first = _term(literal.initial, words)
        return f"{_term(literal.result, words)} = {literal.op} {first} :{target}, {{ {body} }}"
    return f"{_term(literal.result, words)} = {literal.op}{target} : {{ {body} }}"


def _term(term: Term | Wildcard, words: Words) -> str:
    if isinstance(term, Variable):
        return words.get(term) or written_name(term)
    if isinstance(term, Constant):
        if term.value is None:
            return "nil"
        from gpuengine.explaining.proof import spell_value

        return spell_value(term.value, term.type)
    if isinstance(term, Functor):
        args = [_term(arg, words) for arg in term.args]
        if len(args) == 2 and not term.op.isalpha():
            return f"({args[0]} {term.op} {args[1]})"
        return f"-{args[0]}" if term.op == "neg" else f"{term.op}({', '.join(args)})"
    if isinstance(term, Pack):
        args_text = ", ".join(_term(arg, words) for arg in term.args)
        return f"[{args_text}]" if term.branch is None else f"${term.branch}({args_text})"
    return "_"
