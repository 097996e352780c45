"""Comparisons with arithmetic as steps on words: of pipelines in small rounds, and on columns of a device.

Of a pipeline, what can fail is left to the steps that compute on columns, where it waits for the rest of its
body.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

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

_CONVERSIONS = ("as", "to_number", "to_unsigned", "to_float")
_FLOAT_OF = {Kind.NUMBER: Operator.FLOAT_OF_NUMBER, Kind.UNSIGNED: Operator.FLOAT_OF_UNSIGNED}
_SIGNED = {
    "neg": Operator.NEGATE,
    "bnot": Operator.COMPLEMENT,
    "lnot": Operator.NOT,
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
_FLOAT = {
    "neg": Operator.NEGATE_FLOAT,
    "+": Operator.ADD_FLOAT,
    "-": Operator.SUBTRACT_FLOAT,
    "*": Operator.MULTIPLY_FLOAT,
    "/": Operator.DIVIDE_FLOAT,
    "min": Operator.MINIMUM_FLOAT,
    "max": Operator.MAXIMUM_FLOAT,
    "=": Operator.IS_EQUAL_FLOAT,
    "!=": Operator.IS_NOT_EQUAL_FLOAT,
    "<": Operator.IS_LESS_FLOAT,
    "<=": Operator.IS_LESS_EQUAL_FLOAT,
}
_OPERATORS = {Kind.NUMBER: _SIGNED, Kind.UNSIGNED: _UNSIGNED, Kind.FLOAT: _FLOAT}
_COMPARISONS = ("=", "!=", "<", "<=")
_MIRRORED = {">": "<", ">=": "<="}


def is_calculable(literal: Comparison, bound: frozenset[Variable]) -> bool:
    """Can a pipeline compute this comparison, or what it gives an unbound variable?"""
    return not can_fail(literal) and is_calculable_on_columns(literal, bound)


def is_calculable_on_columns(literal: Comparison, bound: frozenset[Variable]) -> bool:
    """Can a backend's calculator compute this comparison, or what it gives an unbound variable?

    Its divisions may fail.
    """
    sides = (literal.left, literal.right)
    if _MIRRORED.get(literal.op, literal.op) not in _COMPARISONS:
        return False
    if literal.left.type.kind is not literal.right.type.kind or not all(map(is_number_term, sides)):
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
        return [CalculationStep(Operator.CONSTANT, _bits(term))]
    assert isinstance(term, Functor)
    operands = [value_steps(arg, register_of, words_of) for arg in term.args]
    steps, source = operands[0], term.args[0].type.kind
    if term.op in _CONVERSIONS:
        is_computed = term.op == "to_float" and source in _FLOAT_OF
        return [*steps, CalculationStep(_FLOAT_OF[source])] if is_computed else steps
    operator = _OPERATORS[source][term.op]
    if len(operands) == 1:
        return steps if operator >= Operator.ADD else [*steps, CalculationStep(operator)]
    for operand in operands[1:]:
        steps += [*operand, CalculationStep(operator)]
    return steps


def truth_steps(
    literal: Comparison, register_of: Callable[[Variable], int], words_of: Callable[[str], Words]
) -> list[CalculationStep]:
    """The steps that leave whether a comparison holds."""
    left, right, op = literal.left, literal.right, literal.op
    if op in _MIRRORED:
        left, right, op = right, left, _MIRRORED[op]
    steps = value_steps(left, register_of, words_of) + value_steps(right, register_of, words_of)
    return [*steps, CalculationStep(_OPERATORS[left.type.kind][op])]


def is_number_term(term: Term | Wildcard) -> bool:
    """Is it a term of numbers with operators that pipelines and calculators know?"""
    if isinstance(term, Wildcard) or term.type.kind not in _OPERATORS:
        return False
    if isinstance(term, Variable | Constant):
        return True
    if not isinstance(term, Functor) or not all(map(is_number_term, term.args)):
        return False
    if term.op in _CONVERSIONS:
        return term.op == "as" or term.type.kind is Kind.FLOAT or term.args[0].type.kind is not Kind.FLOAT
    same_kind = all(arg.type.kind is term.type.kind for arg in term.args)
    return same_kind and term.op in _OPERATORS[term.type.kind]


def _bits(constant: Constant) -> int:
    """The number with the same 64 bits as a constant's value."""
    value = constant.value
    assert isinstance(value, int | float)
    if constant.type.kind is Kind.FLOAT:
        return int(np.float64(value).view(np.int64))
    assert isinstance(value, int)
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
