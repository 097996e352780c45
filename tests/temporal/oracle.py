"""DatalogMTL time by time: a naive evaluator that shares nothing with the engine but the syntax tree.

Ends are integers, so truth is the same throughout each gap between two of them. A line of elements stands
for time: every integer and every gap between -REACH and REACH; what lies beyond is as the outermost element
is. An
element is looked at from a moment in it, and what an operator asks of other moments is asked of quarters, so
that every
side of every moment is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product

import numpy as np

from gpuengine.temporal.syntax import (
    Binary,
    Bottom,
    Comparison,
    Constant,
    Interval,
    Literal,
    Metric,
    Negated,
    Operator,
    Relational,
    Rule,
    Term,
    Top,
    Unary,
    Variable,
    atoms_of,
)

REACH = 44
ELEMENTS = np.arange(-2 * REACH, 2 * REACH + 1)
"""Half units: even ones are points, odd ones gaps."""
BEYOND = REACH + 8
QUARTERS = np.arange(-8 * BEYOND, 8 * BEYOND + 1)
"""Eighths of a unit: moments at which operands are asked; quarters are even ones.

They reach beyond the elements by more than any finite range, so that none is empty at the edge.
"""
ELEMENT_OF = np.clip(
    np.where(QUARTERS % 8 == 0, QUARTERS // 4, 2 * (QUARTERS // 8) + 1) + 2 * REACH, 0, len(ELEMENTS) - 1
)
"""The place of the element of each moment."""

Truth = np.ndarray
World = dict[tuple[str, tuple[str, ...]], Truth]


def true_in(interval: Interval) -> Truth:
    """The elements of an interval with integer ends."""
    moment = ELEMENTS / 2
    truth = np.ones(len(ELEMENTS), bool)
    if interval.lower is not None:
        low = float(interval.lower)
        truth &= moment > low if interval.lower_open else moment >= low
    if interval.upper is not None:
        high = float(interval.upper)
        truth &= moment < high if interval.upper_open else moment <= high
    return truth


@cache
def _within(interval: Interval, past: bool) -> np.ndarray:
    """For each element and each moment.

    Is the distance from the element's middle to the moment in the range?
    """
    assert interval.lower is not None
    distance = (4 * ELEMENTS[:, None] - QUARTERS[None, :]) * (1 if past else -1)
    low = 8 * int(interval.lower)
    found = distance > low if interval.lower_open else distance >= low
    if interval.upper is not None:
        high = 8 * int(interval.upper)
        found &= distance < high if interval.upper_open else distance <= high
    return found


def evaluate(metric: Metric, binding: dict[Variable, str], world: World) -> Truth:
    if isinstance(metric, Top):
        return np.ones(len(ELEMENTS), bool)
    if isinstance(metric, Bottom):
        return np.zeros(len(ELEMENTS), bool)
    if isinstance(metric, Relational):
        return world.get(ground(metric, binding), np.zeros(len(ELEMENTS), bool))
    within = _within(metric.range, metric.operator.is_past)
    if isinstance(metric, Unary):
        operand = evaluate(metric.operand, binding, world)[ELEMENT_OF]
        if metric.operator.is_box:
            return (~within | operand).all(axis=1)
        return (within & operand).any(axis=1)
    assert isinstance(metric, Binary)
    left = evaluate(metric.left, binding, world)[ELEMENT_OF]
    right = evaluate(metric.right, binding, world)[ELEMENT_OF]
    # How often the left operand fails before each moment.
    failures = np.concatenate([[0], np.cumsum(~left)])
    places = np.arange(len(QUARTERS))
    middles = 4 * ELEMENTS + 8 * BEYOND
    result = np.zeros(len(ELEMENTS), bool)
    for element, middle in enumerate(middles):
        # Only even moments are candidates, so that an odd one lies on each side of them.
        candidates = places[within[element] & right & (places % 2 == 0)]
        low, high = np.minimum(candidates, middle), np.maximum(candidates, middle)
        inside = failures[np.maximum(high, low + 1)] - failures[low + 1]
        result[element] = bool((inside == 0).any())
    return result


def ground(atom: Relational, binding: dict[Variable, str]) -> tuple[str, tuple[str, ...]]:
    return atom.predicate, tuple(_value(term, binding) for term in atom.terms)


def _value(term: Term, binding: dict[Variable, str]) -> str:
    return term.text if isinstance(term, Constant) else binding[term]


def body_holds(body: Iterable[Literal], binding: dict[Variable, str], world: World) -> Truth:
    truth = np.ones(len(ELEMENTS), bool)
    for literal in body:
        if isinstance(literal, Negated):
            truth &= ~evaluate(literal.metric, binding, world)
        elif isinstance(literal, Comparison):
            left, right = _value(literal.left, binding), _value(literal.right, binding)
            truth &= {"=": left == right, "!=": left != right}[literal.operator]
        else:
            truth &= evaluate(literal, binding, world)
        if not truth.any():
            break
    return truth


def head_times(head: Metric, truth: Truth) -> tuple[Relational, Truth]:
    """When the atom under the boxes of a head must hold."""
    while isinstance(head, Unary):
        assert head.operator in (Operator.BOX_MINUS, Operator.BOX_PLUS)
        within = _within(head.range, head.operator.is_past)
        moments = (within & truth[:, None]).any(axis=0)
        truth = np.zeros(len(ELEMENTS), bool)
        truth[ELEMENT_OF[moments]] = True
        head = head.operand
    assert isinstance(head, Relational)
    return head, truth


def step(rules: Sequence[Rule], world: World, constants: Sequence[str]) -> World:
    """The immediate consequences, with everything that was there."""
    result = {atom: truth.copy() for atom, truth in world.items()}
    for rule in rules:
        literals = (*rule.body, *atoms_of(rule.head))
        variables = list(dict.fromkeys(t for t in _terms(literals) if isinstance(t, Variable)))
        for values in product(constants, repeat=len(variables)):
            binding = dict(zip(variables, values, strict=True))
            truth = body_holds(rule.body, binding, world)
            if truth.any():
                head, times = head_times(rule.head, truth)
                atom = ground(head, binding)
                result[atom] = result.get(atom, np.zeros(len(ELEMENTS), bool)) | times
    return result


def _terms(literals: Iterable[Literal]) -> Iterable[Term]:
    for literal in literals:
        if isinstance(literal, Comparison):
            yield from (literal.left, literal.right)
        for atom in atoms_of(literal):
            yield from atom.terms
