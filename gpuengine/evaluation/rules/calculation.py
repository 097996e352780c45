"""Comparisons with integer arithmetic as operations of a pipeline, for the compiled loop over small rounds.

What can fail is left to the steps that compute on columns, where it waits for the rest of its body.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuengine.kernels.contract import CalculationStep, Operator, Words
from gpuengine.language.program import (
    Comparison,
    Constant,
    Functor,
    Kind,
    Term,
    Variable,
    Wildcard,
    term_variables,
)
from gpuengine.planning.fallible import can_fail

_INTEGERS = (Kind.NUMBER, Kind.UNSIGNED)
_CONVERSIONS = ("as", "to_number", "to_unsigned")
_UNARY = {"neg": Operator.NEGATE, "bnot": Operator.COMPLEMENT, "lnot": Operator.NOT}
_SIGNED = {
    "+": Operator.ADD,
    "-": Operator.SUBTRACT,
    "*": Operator.MULTIPLY,
    "/": Operator.DIVIDE,
    "%": Operator.REMAINDER,
    "band": Operator.BIT_AND,
    "bor": Operator.BIT_OR,
    "bxor": Operator.BIT_XOR,
    "bshl": Operator.SHIFT_LEFT,
    "bshr": Operator.SHIFT_RIGHT,
    "bshru": Operator.SHIFT_RIGHT_UNSIGNED,
    "land": Operator.AND,
    "lor": Operator.OR,
    "lxor": Operator.XOR,
    "min": Operator.MINIMUM,
    "max": Operator.MAXIMUM,
    "=": Operator.IS_EQUAL,
    "!=": Operator.IS_NOT_EQUAL,
    "<": Operator.IS_LESS,
    "<=": Operator.IS_LESS_EQUAL,
}
_UNSIGNED = _SIGNED | {
    "/": Operator.DIVIDE_UNSIGNED,
    "%": Operator.REMAINDER_UNSIGNED,
    "bshr": Operator.SHIFT_RIGHT_UNSIGNED,
    "min": Operator.MINIMUM_UNSIGNED,
    "max": Operator.MAXIMUM_UNSIGNED,
    "<": Operator.IS_LESS_UNSIGNED,
    "<=": Operator.IS_LESS_EQUAL_UNSIGNED,
}
_COMPARISONS = ("=", "!=", "<", "<=")
_MIRRORED = {">": "<", ">=": "<="}


def is_calculable(literal: Comparison, bound: frozenset[Variable]) -> bool:
    """Can a pipeline compute this comparison, or what it gives an unbound variable?"""
    sides = (literal.left, literal.right)
    if _MIRRORED.get(literal.op, literal.op) not in _COMPARISONS or can_fail(literal):
        return False
    if literal.left.type.kind is not literal.right.type.kind or not all(map(_is_integer_term, sides)):
        return False
    unbound = (term_variables(literal.left) | term_variables(literal.right)) - bound
    return not unbound or defined_variable(literal, bound) is not None


def defined_variable(literal: Comparison, bound: frozenset[Variable]) -> tuple[Variable, Term] | None:
    """The unbound variable that an equation defines, and what by."""
    if literal.op == "=":
        for target, source in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(target, Variable) and target not in bound and term_variables(source) <= bound:
                return target, source
    return None


def value_steps(
    term: Term, register_of: Callable[[Variable], int], words_of: Callable[[str], Words]
) -> list[CalculationStep]:
    """The steps that leave the value of a term on the stack."""
    if isinstance(term, Variable):
        return [CalculationStep(Operator.LOAD, register_of(term), words_of(term.type.space))]
    if isinstance(term, Constant):
        assert isinstance(term.value, int)
        return [CalculationStep(Operator.CONSTANT, _as_int64(term.value))]
    assert isinstance(term, Functor)
    operands = [value_steps(arg, register_of, words_of) for arg in term.args]
    if term.op in _CONVERSIONS:
        return operands[0]
    if term.op in _UNARY:
        return [*operands[0], CalculationStep(_UNARY[term.op])]
    steps = operands[0]
    for operand in operands[1:]:
        steps += [*operand, CalculationStep(_operators(term)[term.op])]
    return steps


def truth_steps(
    literal: Comparison, register_of: Callable[[Variable], int], words_of: Callable[[str], Words]
) -> list[CalculationStep]:
    """The steps that leave whether a comparison holds."""
    left, right, op = literal.left, literal.right, literal.op
    if op in _MIRRORED:
        left, right, op = right, left, _MIRRORED[op]
    steps = value_steps(left, register_of, words_of) + value_steps(right, register_of, words_of)
    return [*steps, CalculationStep(_operators(left)[op])]


def _operators(term: Term) -> dict[str, Operator]:
    return _SIGNED if term.type.kind is Kind.NUMBER else _UNSIGNED


def _is_integer_term(term: Term | Wildcard) -> bool:
    if isinstance(term, Variable | Constant):
        return term.type.kind in _INTEGERS
    if not isinstance(term, Functor) or term.type.kind not in _INTEGERS:
        return False
    if not all(map(_is_integer_term, term.args)):
        return False
    if term.op in _CONVERSIONS:
        return True
    same_kind = all(arg.type.kind is term.type.kind for arg in term.args)
    return same_kind and (term.op in _UNARY or term.op in _SIGNED)


def _as_int64(value: int) -> int:
    """The number with the same 64 bits."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
