"""What can fail when it is evaluated: it has to wait until the rest of its body has said which rows count.

    d(x, x / y) :- a(x, y), y != 0.

Here 0 / 0 is no error of the program, even if a(0, 0) holds. `gpuengine.terms.functors` says what fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuengine.language.extensions import functor as extension
from gpuengine.language.program import (
    Atom,
    Comparison,
    Constant,
    Functor,
    Kind,
    Literal,
    Negation,
    Pack,
    Term,
    Variable,
    Wildcard,
    binds,
    literal_variables,
)

_INTEGERS = (Kind.NUMBER, Kind.UNSIGNED)
_MOST_STEPS = 1 << 20
"""A range between constants that takes no more steps than this surely ends."""


def can_fail(literal: Literal) -> bool:
    """Is there a value of its variables for which a literal can't be evaluated, or is better not?"""
    if isinstance(literal, Atom | Negation):
        return False
    if isinstance(literal, Comparison):
        if literal.op.lstrip("!") == "match" and not isinstance(literal.left, Constant):
            return True
        return _term_can_fail(literal.left) or _term_can_fail(literal.right)
    target_fails = literal.target is not None and _term_can_fail(literal.target)
    return target_fails or literal.initial is not None or any(can_fail(part) for part in literal.body)


def without_fallible(body: Sequence[Literal]) -> tuple[Literal, ...]:
    """The literals of a body that can't fail, without those that only what can fail makes evaluable."""
    kept = [part for part in body if not can_fail(part)]
    bound: frozenset[Variable] = frozenset()
    for part in kept:
        if isinstance(part, Atom):
            bound |= literal_variables(part)
    waiting = [part for part in kept if not isinstance(part, Atom)]
    progress = True
    while progress:
        progress = False
        for part in list(waiting):
            more = binds(part, bound)
            if more is not None:
                bound |= more
                waiting.remove(part)
                progress = True
    return tuple(part for part in kept if not any(part is other for other in waiting))


def _term_can_fail(term: Term | Wildcard) -> bool:
    if isinstance(term, Functor):
        return _functor_can_fail(term) or any(map(_term_can_fail, term.args))
    return isinstance(term, Pack) and any(map(_term_can_fail, term.args))


def _functor_can_fail(functor: Functor) -> bool:
    op, kind = functor.op, functor.type.kind
    if op in ("/", "%"):
        return kind in _INTEGERS and not (_is_constant(functor.args[1]) and _constant(functor.args[1]) != 0)
    if op == "^":
        return kind is Kind.NUMBER and not (_is_constant(functor.args[1]) and _constant(functor.args[1]) >= 0)
    if op in ("to_number", "to_unsigned", "to_float"):
        source = functor.args[0].type.kind
        return source is Kind.SYMBOL or (source is Kind.FLOAT and kind in _INTEGERS)
    if op == "as":
        return (
            kind in (Kind.SYMBOL, Kind.RECORD, Kind.ADT) and functor.args[0].type.space != functor.type.space
        )
    if op == "ord":  # of what is built: it takes a place in a table, which is to be kept for what counts
        return isinstance(functor.args[0], Pack)
    if op.startswith("@"):
        return extension(op) is None  # a function of the user
    return op == "range" and not _surely_ends(functor)


def _surely_ends(functor: Functor) -> bool:
    """Is it a range between integers that are written down, and near each other?"""
    if functor.type.kind not in _INTEGERS or not all(map(_is_constant, functor.args)):
        return False
    return abs(_constant(functor.args[1]) - _constant(functor.args[0])) <= _MOST_STEPS


def _is_constant(term: Term) -> bool:
    """A number as it is written down: a sign before it is an operation."""
    return isinstance(term, Constant) or (
        isinstance(term, Functor) and term.op == "neg" and isinstance(term.args[0], Constant)
    )


def _constant(term: Term) -> float:
    if isinstance(term, Functor):
        return -_constant(term.args[0])
    assert isinstance(term, Constant) and isinstance(term.value, int | float)
    return term.value
