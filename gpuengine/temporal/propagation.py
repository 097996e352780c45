"""Where rules move facts to: forward or backward through time, and whether for ever.

An operator moves the ends of an interval: ``Diamondminus[a,b]`` the lower one by a and the upper one by b,
``Boxminus[a,b]`` by b and a, their mirrors backward; a head's boxes as the diamonds of the other direction.
A cycle of the dependency graph along which upper ends move up moves facts forward for ever, one along which
lower ends
move down backward. A rule whose body has a literal outside the cycle that ends some time can't go on beyond
it;
nor can Since beyond what is left of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gpuengine.temporal.spelling import time_text
from gpuengine.temporal.strata import body_predicates, components, head_predicate
from gpuengine.temporal.syntax import (
    Binary,
    Bottom,
    Comparison,
    Interval,
    Literal,
    Metric,
    Negated,
    Operator,
    Relational,
    Rule,
    Top,
    Unary,
    atoms_of,
)


def is_forward(rule: Rule) -> bool:
    """No Top or Bottom, past operators only in the body, future ones only in the head."""
    return _propagates(rule, past_in_body=True)


def is_backward(rule: Rule) -> bool:
    return _propagates(rule, past_in_body=False)


def _propagates(rule: Rule, *, past_in_body: bool) -> bool:
    body = [op for literal in rule.body for op in _operators(literal)]
    head = list(_operators(rule.head))
    mentions = any(_mentions_constants(literal) for literal in (*rule.body, rule.head))
    return (
        not mentions
        and all(operator.is_past is past_in_body for operator in body)
        and all(operator.is_past is not past_in_body for operator in head)
    )


def _operators(literal: Literal) -> Iterator[Operator]:
    if isinstance(literal, Unary):
        yield literal.operator
        yield from _operators(literal.operand)
    elif isinstance(literal, Binary):
        yield literal.operator
        yield from _operators(literal.left)
        yield from _operators(literal.right)
    elif isinstance(literal, Negated):
        yield from _operators(literal.metric)


def _mentions_constants(literal: Literal) -> bool:
    if isinstance(literal, Unary):
        return _mentions_constants(literal.operand)
    if isinstance(literal, Binary):
        return _mentions_constants(literal.left) or _mentions_constants(literal.right)
    if isinstance(literal, Negated):
        return _mentions_constants(literal.metric)
    return isinstance(literal, Top | Bottom)


@dataclass(frozen=True, slots=True)
class _Edge:
    """How a rule moves the ends of facts of `source` on their way to `target`."""

    source: str
    target: str
    lower: Fraction
    upper: Fraction
    rule: Rule


@dataclass(frozen=True, slots=True)
class Drift:
    """A cycle that moves facts for ever: its predicates and rules in order, and by how much each turn."""

    forward: bool
    predicates: tuple[str, ...]
    rules: tuple[Rule, ...]
    step: Fraction

    def __str__(self) -> str:
        way = " -> ".join((*self.predicates, self.predicates[0]))
        direction = "forward" if self.forward else "backward"
        return f"{way} moves facts {direction} by up to {time_text(abs(self.step))} each time round"


def drifts(rules: Sequence[Rule], data: Mapping[str, tuple[bool, bool]]) -> list[Drift]:
    """The cycles that move facts for ever, at most one forward and one backward.

    `data` says of predicates with facts whether these have a first time and a last time; of those that it
    lacks there are none.
    """
    moving = []
    for forward in (True, False):
        ending = _ending(rules, data, forward)
        for members in components(rules):
            inside = set(members)
            edges = [
                edge
                for rule in rules
                if head_predicate(rule) in inside and not _is_stopped(rule, inside, ending, forward)
                for edge in _edges(rule, ending, forward)
                if edge.source in inside
            ]
            drift = _drifting(edges, members, forward)
            if drift is not None:
                moving.append(drift)
                break
    return moving


def _ending(rules: Sequence[Rule], data: Mapping[str, tuple[bool, bool]], forward: bool) -> set[str]:
    """The predicates whose facts have a last time (a first one, backward), as far as that is plain."""
    names = {name for rule in rules for name in body_predicates(rule)}
    names |= {name for rule in rules if (name := head_predicate(rule)) is not None}
    derived: dict[str, list[Rule]] = {}
    for rule in rules:
        head = head_predicate(rule)
        if head is not None:
            derived.setdefault(head, []).append(rule)
    bounded = {name for name in names if data.get(name, (True, True))[1 if forward else 0]}
    ending: set[str] = set()
    grew = True
    while grew:
        grew = False
        for name in bounded - ending:
            if all(
                any(_ends(literal, ending, forward) for literal in rule.body)
                and _head_ends(rule.head, forward)
                for rule in derived.get(name, ())
            ):
                ending.add(name)
                grew = True
    return ending


def _is_stopped(rule: Rule, inside: set[str], ending: set[str], forward: bool) -> bool:
    """Does a literal that does not read the cycle end?"""
    return any(
        _ends(literal, ending, forward) and inside.isdisjoint(atom.predicate for atom in atoms_of(literal))
        for literal in rule.body
    )


def _ends(literal: Literal, ending: set[str], forward: bool) -> bool:
    """Does a literal have a last (first) time if the predicates `ending` have?"""
    if isinstance(literal, Relational):
        return literal.predicate in ending
    if isinstance(literal, Unary):
        if not _ends(literal.operand, ending, forward):
            return False
        widens = literal.operator is (Operator.DIAMOND_MINUS if forward else Operator.DIAMOND_PLUS)
        return not (widens and literal.range.upper is None)
    if isinstance(literal, Binary):
        widens = literal.operator is (Operator.SINCE if forward else Operator.UNTIL)
        if not _ends(literal.right, ending, forward):
            return False
        return not widens or literal.range.upper is not None or _ends(literal.left, ending, forward)
    return isinstance(literal, Bottom)


def _head_ends(head: Metric, forward: bool) -> bool:
    while isinstance(head, Unary):
        if head.range.upper is None and (head.operator is Operator.BOX_PLUS) is forward:
            return False
        head = head.operand
    return True


def _edges(rule: Rule, ending: set[str], forward: bool) -> Iterator[_Edge]:
    target = head_predicate(rule)
    assert target is not None
    lower = upper = Fraction(0)
    node = rule.head
    while isinstance(node, Unary):
        low, high = _moves(
            Operator.DIAMOND_MINUS if node.operator is Operator.BOX_PLUS else Operator.DIAMOND_PLUS,
            node.range,
        )
        lower, upper = lower + low, upper + high
        node = node.operand
    for literal in rule.body:
        if not isinstance(literal, Negated | Comparison):
            for source, low, high in _moved(literal, ending, forward):
                yield _Edge(source, target, lower + low, upper + high, rule)


def _moved(metric: Metric, ending: set[str], forward: bool) -> Iterator[tuple[str, Fraction, Fraction]]:
    if isinstance(metric, Relational):
        yield metric.predicate, Fraction(0), Fraction(0)
    elif isinstance(metric, Unary):
        low, high = _moves(metric.operator, metric.range)
        for name, lower, upper in _moved(metric.operand, ending, forward):
            yield name, lower + low, upper + high
    elif isinstance(metric, Binary):
        yield from _moved(metric.left, ending, forward)
        since = metric.operator is Operator.SINCE
        low, high = _moves(Operator.DIAMOND_MINUS if since else Operator.DIAMOND_PLUS, metric.range)
        if since is forward and _ends(metric.left, ending, forward):
            # What is right of Since is carried on only as long as what is left of it holds.
            low, high = (low, Fraction(0)) if forward else (Fraction(0), high)
        for name, lower, upper in _moved(metric.right, ending, forward):
            yield name, lower + low, upper + high


def _moves(operator: Operator, range: Interval) -> tuple[Fraction, Fraction]:
    """How far the lower and the upper end move; one that becomes infinite moves once, and no further."""
    near = range.lower or Fraction(0)
    far = range.upper
    if operator is Operator.DIAMOND_MINUS:
        return near, far if far is not None else Fraction(0)
    if operator is Operator.DIAMOND_PLUS:
        return -(far if far is not None else Fraction(0)), -near
    if operator is Operator.BOX_MINUS:
        return (far if far is not None else near), near
    return -near, -(far if far is not None else near)


def _drifting(edges: Sequence[_Edge], members: Sequence[str], forward: bool) -> Drift | None:
    """A cycle whose steps add up to more than nothing in a direction: by Bellman and Ford."""
    if not edges:
        return None

    def step(edge: _Edge) -> Fraction:
        return edge.upper if forward else -edge.lower

    reached = dict.fromkeys(members, Fraction(0))
    came: dict[str, _Edge] = {}
    last: str | None = None
    for _ in range(len(members) + 1):
        last = None
        for edge in edges:
            if reached[edge.source] + step(edge) > reached[edge.target]:
                reached[edge.target] = reached[edge.source] + step(edge)
                came[edge.target] = edge
                last = edge.target
        if last is None:
            return None
    assert last is not None
    for _ in members:
        last = came[last].source
    cycle = []
    at = last
    while True:
        cycle.append(came[at])
        at = came[at].source
        if at == last:
            break
    cycle.reverse()
    return Drift(
        forward,
        tuple(edge.source for edge in cycle),
        tuple(edge.rule for edge in cycle),
        sum((step(edge) for edge in cycle), Fraction(0)),
    )
