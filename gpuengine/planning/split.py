"""Split a recursive rule where joining two atoms first, and forgetting the variable between, pays off.

    p(x, w) :- load(x, y), p(y, z), p(z, w).

becomes, when the statistics say so,

    @p.y(x, z) :- load(x, y), p(y, z).
    p(x, w)    :- @p.y(x, z), p(z, w).

The pairs (x, z) are kept once, however many y lead to them, and each later delta of the other atoms meets
them by one probe instead of joining the two atoms again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from gpuengine.language.program import (
    Atom,
    Literal,
    Rule,
    Variable,
    literal_variables,
)
from gpuengine.planning.order import Statistics, order_body

WORTHWHILE_COST = 1_000_000
"""Rules expected to cost less than this many bindings are left alone."""
WORTHWHILE_GAIN = 0.8
"""The split must be expected to cost at most this share."""


@dataclass(frozen=True, slots=True)
class Split:
    """`inner` derives the new relation, `outer` replaces the rule; costs are expected bindings."""

    inner: Rule
    outer: Rule
    cost_before: float
    cost_after: float


class _WithNewRelation:
    """Statistics extended by the estimated size of a relation that does not exist yet."""

    def __init__(self, statistics: Statistics, name: str, count: float, distinct: list[float]) -> None:
        self._statistics, self._name, self._count, self._distinct = statistics, name, count, distinct

    def count(self, relation: str) -> float:
        return self._count if relation == self._name else self._statistics.count(relation)

    def distinct(self, relation: str, column: int) -> float:
        if relation == self._name:
            return self._distinct[column]
        return self._statistics.distinct(relation, column)

    def skew(self, relation: str, column: int) -> float:
        return 1.0 if relation == self._name else self._statistics.skew(relation, column)


def find_split(
    rule: Rule, members: frozenset[str], taken: Collection[str], statistics: Statistics
) -> Split | None:
    """The best split of a rule of the stratum `members`, or None if none is clearly cheaper.

    `taken` are the names that the new relation can't have.
    """
    atoms = [part for part in rule.body if isinstance(part, Atom)]
    if len(atoms) < 3:
        return None
    before = _incremental_cost(rule, members, statistics)
    if before < WORTHWHILE_COST:
        return None
    best: Split | None = None
    for left, right, variable in _pairs(rule):
        split = _split(rule, left, right, variable, members, taken, statistics, before)
        if best is None or split.cost_after < best.cost_after:
            best = split
    return best if best is not None and best.cost_after <= WORTHWHILE_GAIN * before else None


def _pairs(rule: Rule) -> Iterator[tuple[int, int, Variable]]:
    """Two body positions and a variable that occurs in those two atoms and nowhere else.

    An atom whose variables the other one binds all is only a check: joining it first gains nothing.
    """
    places: dict[Variable, list[int]] = {}
    for position, literal in enumerate(rule.body):
        for variable in literal_variables(literal):
            places.setdefault(variable, []).append(position)
    in_head = literal_variables(rule.head)
    for variable, positions in places.items():
        if variable not in in_head and len(positions) == 2:
            pair = [rule.body[position] for position in positions]
            first, second = (literal_variables(literal) for literal in pair)
            if all(isinstance(literal, Atom) for literal in pair) and not (
                first <= second or second <= first
            ):
                yield positions[0], positions[1], variable


def _split(
    rule: Rule,
    left: int,
    right: int,
    variable: Variable,
    members: frozenset[str],
    taken: Collection[str],
    statistics: Statistics,
    before: float,
) -> Split:
    pair = (rule.body[left], rule.body[right])
    rest = [part for i, part in enumerate(rule.body) if i not in (left, right)]
    kept = _kept_variables(pair, rest, rule.head)
    name = _fresh_name(f"@{rule.head.relation}.{variable.name}", taken)
    head = Atom(name, kept, rule.span)
    text = f"{name}({', '.join(v.name for v in kept)}) // from: {rule.text}"
    inner = Rule(head, pair, rule.span, text)
    outer = replace(rule, body=(head, *rest))
    distinct = [_distinct_of(v, pair, statistics) for v in kept]
    count = order_body(pair, statistics).steps[-1].estimate
    product = 1.0
    for values in distinct:
        product *= max(values, 1.0)
    with_inner = _WithNewRelation(statistics, name, min(count, product), distinct)
    after = _incremental_cost(inner, members, with_inner) + _incremental_cost(
        outer, members | {name}, with_inner
    )
    return Split(inner, outer, before, after)


def _kept_variables(pair: tuple[Literal, Literal], rest: list[Literal], head: Atom) -> tuple[Variable, ...]:
    """The pair's variables that the rest of the rule mentions, in order of appearance."""
    wanted = literal_variables(head).union(*(literal_variables(part) for part in rest))
    kept: list[Variable] = []
    for literal in pair:
        assert isinstance(literal, Atom)
        for arg in literal.args:
            if isinstance(arg, Variable) and arg in wanted and arg not in kept:
                kept.append(arg)
    return tuple(kept)


def _distinct_of(variable: Variable, pair: tuple[Literal, Literal], statistics: Statistics) -> float:
    return min(
        statistics.distinct(literal.relation, column)
        for literal in pair
        if isinstance(literal, Atom)
        for column, arg in enumerate(literal.args)
        if arg == variable
    )


def _incremental_cost(rule: Rule, members: frozenset[str], statistics: Statistics) -> float:
    """Expected bindings if every fact of the recursive atoms passes once as a delta."""
    return sum(
        order_body(rule.body, statistics, driver=position).cost
        for position, literal in enumerate(rule.body)
        if isinstance(literal, Atom) and literal.relation in members
    )


def _fresh_name(wanted: str, taken: Collection[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}.{number}", number + 1
    return name
