"""Which unit of time a program needs: the denominators and the sizes of its operators' intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from gpuengine.temporal.encoding import OPERATOR_LIMIT, Encoding, overflow, worst_of
from gpuengine.temporal.syntax import Binary, Interval, Negated, Program, Rule, Unary


def intervals_of(rule: Rule) -> Iterable[Interval]:
    def within(literal: Any) -> Iterable[Interval]:
        if isinstance(literal, Unary):
            yield literal.range
            yield from within(literal.operand)
        elif isinstance(literal, Binary):
            yield literal.range
            yield from within(literal.left)
            yield from within(literal.right)
        elif isinstance(literal, Negated):
            yield from within(literal.metric)

    for literal in (rule.head, *rule.body):
        yield from within(literal)


def rule_scale(rule: Rule) -> int:
    ends = [end for interval in intervals_of(rule) for end in (interval.lower, interval.upper)]
    return math.lcm(1, *(end.denominator for end in ends if end is not None))


def program_scale(program: Program) -> int:
    return math.lcm(1, *map(rule_scale, program.rules))


def check_operators(program: Program, encoding: Encoding) -> None:
    """Raise if the operators of a rule may move a time beyond 64 bits in one step."""
    for rule in program.rules:
        ends = [end for interval in intervals_of(rule) for end in (interval.lower, interval.upper)]
        finite = [end for end in ends if end is not None]
        if 2 * encoding.scale * sum(finite) >= OPERATOR_LIMIT:
            raise overflow(worst_of(finite), encoding.scale)
