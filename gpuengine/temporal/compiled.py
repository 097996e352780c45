"""Rules as joins of relational atoms with trees of interval operations over them.

A left operand of Since or Until need not hold at all if the range has 0 in it: then what is right of it is
enough. Such a rule becomes two, one with the left operand and one without, so that every atom of a compiled
rule must match. Both derive together what the rule derives, time by time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from gpuengine.kernels.timeline import Chain, Shift
from gpuengine.temporal.syntax import (
    Binary,
    Bottom,
    Comparison,
    Interval,
    Metric,
    Negated,
    Operator,
    Relational,
    Rule,
    Top,
    Unary,
    atoms_of,
    head_atom,
)

_SHIFTS = {
    Operator.DIAMOND_MINUS: Shift.DIAMOND_MINUS,
    Operator.DIAMOND_PLUS: Shift.DIAMOND_PLUS,
    Operator.BOX_MINUS: Shift.BOX_MINUS,
    Operator.BOX_PLUS: Shift.BOX_PLUS,
}
_HEAD_SHIFTS = {Operator.BOX_MINUS: Shift.DIAMOND_PLUS, Operator.BOX_PLUS: Shift.DIAMOND_MINUS}


@dataclass(frozen=True, slots=True)
class Leaf:
    """When an atom holds: its place among the atoms of the compiled rule."""

    atom: int


@dataclass(frozen=True, slots=True)
class Shifted:
    shift: Shift
    range: Interval
    operand: Tree


@dataclass(frozen=True, slots=True)
class Chained:
    chain: Chain
    range: Interval
    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class Always:
    """Top."""


Tree = Leaf | Shifted | Chained | Always


@dataclass(frozen=True, slots=True)
class CompiledLiteral:
    """A metric atom: its tree, the places of its atoms, and what it was."""

    tree: Tree
    atoms: tuple[int, ...]
    metric: Metric


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule all of whose positive atoms must match.

    `atoms` are those of `literals`; the trees of `negated` have numbers of `looked_up`. `head_shifts` are
    applied in order to when the body holds.
    """

    rule: Rule
    number: int
    atoms: tuple[Relational, ...]
    literals: tuple[CompiledLiteral, ...]
    negated: tuple[Tree, ...]
    looked_up: tuple[Relational, ...]
    comparisons: tuple[Comparison, ...]
    head: Relational | Bottom
    head_shifts: tuple[tuple[Shift, Interval], ...] = field(default=())


def compile_rule(rule: Rule, number: int) -> list[CompiledRule]:
    """The compiled rules of a rule; none if its body can't hold or its head says nothing."""
    head = head_atom(rule.head)
    if isinstance(head, Top):
        return []
    shifts = []
    node = rule.head
    while isinstance(node, Unary):
        shifts.append((_HEAD_SHIFTS[node.operator], node.range))
        node = node.operand
    looked_up: list[Relational] = []
    negated = []
    for literal in rule.body:
        if isinstance(literal, Negated):
            tree = _tree(_simplified(literal.metric), looked_up)
            if tree is not None:
                negated.append(tree)
    metrics = [literal for literal in rule.body if not isinstance(literal, Negated | Comparison)]
    compiled = []
    # Without a left operand Top may be all that an operator has.
    alternatives = [map(_simplified, _alternatives(_simplified(metric))) for metric in metrics]
    for choice in product(*alternatives):
        if any(isinstance(metric, Bottom) for metric in choice):
            continue
        atoms: list[Relational] = []
        literals = []
        for metric in choice:
            first = len(atoms)
            tree = _tree(metric, atoms)
            assert tree is not None
            literals.append(CompiledLiteral(tree, tuple(range(first, len(atoms))), metric))
        compiled.append(
            CompiledRule(
                rule,
                number,
                tuple(atoms),
                tuple(literals),
                tuple(negated),
                tuple(looked_up),
                tuple(literal for literal in rule.body if isinstance(literal, Comparison)),
                head,
                tuple(shifts),
            )
        )
    return compiled


def _simplified(metric: Metric) -> Metric:
    """Without Top and Bottom where they decide: the result has Bottom only as itself."""
    if isinstance(metric, Unary):
        operand = _simplified(metric.operand)
        if isinstance(operand, Top | Bottom):
            return operand
        return Unary(metric.operator, metric.range, operand, metric.span)
    if isinstance(metric, Binary):
        left, right = _simplified(metric.left), _simplified(metric.right)
        if isinstance(right, Bottom):
            return right
        if isinstance(left, Bottom):
            return right if metric.range.holds_zero else left
        if isinstance(left, Top):
            since = metric.operator is Operator.SINCE
            diamond = Operator.DIAMOND_MINUS if since else Operator.DIAMOND_PLUS
            return _simplified(Unary(diamond, metric.range, right, metric.span))
        return Binary(metric.operator, metric.range, left, right, metric.span)
    return metric


def alternatives(metric: Metric) -> int:
    """How many compiled rules a metric atom takes, at most: see the module."""
    if isinstance(metric, Unary):
        return alternatives(metric.operand)
    if isinstance(metric, Binary):
        right = alternatives(metric.right)
        return alternatives(metric.left) * right + (right if metric.range.holds_zero else 0)
    return 1


def _alternatives(metric: Metric) -> list[Metric]:
    """The metric atom with each left operand that it can do without, and without it."""
    if isinstance(metric, Unary):
        return [
            Unary(metric.operator, metric.range, operand, metric.span)
            for operand in _alternatives(metric.operand)
        ]
    if isinstance(metric, Binary):
        alternatives: list[Metric] = [
            Binary(metric.operator, metric.range, left, right, metric.span)
            for left in _alternatives(metric.left)
            for right in _alternatives(metric.right)
        ]
        if metric.range.holds_zero and any(True for _ in atoms_of(metric.left)):
            alternatives += _alternatives(metric.right)
        return alternatives
    return [metric]


def _tree(metric: Metric, atoms: list[Relational]) -> Tree | None:
    """The tree of a simplified metric atom, whose atoms are added to `atoms`; None for Bottom."""
    if isinstance(metric, Relational):
        atoms.append(metric)
        return Leaf(len(atoms) - 1)
    if isinstance(metric, Unary):
        operand = _tree(metric.operand, atoms)
        assert operand is not None
        return Shifted(_SHIFTS[metric.operator], metric.range, operand)
    if isinstance(metric, Binary):
        left, right = _tree(metric.left, atoms), _tree(metric.right, atoms)
        assert left is not None and right is not None
        chain = Chain.SINCE if metric.operator is Operator.SINCE else Chain.UNTIL
        return Chained(chain, metric.range, left, right)
    return Always() if isinstance(metric, Top) else None
