"""Witnesses: what a minimum or maximum is reached with may be used outside of it.

    tallest(name, h) :- h = max x : { student(name, x) }.

Nothing but the aggregate mentions `name`, so it ranges over all students, and the rule holds for each of them
who is as tall as the tallest: the body of the aggregate stands once more, for the value that was found.

    tallest(name, h) :- h = max x : { student(name', x) }, student(name, h).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from gpuengine.language.grounding import stuck_literals, unbound
from gpuengine.language.lowering import LoweredRule
from gpuengine.language.program import (
    Aggregate,
    Comparison,
    Literal,
    Term,
    Variable,
    term_variables,
)
from gpuengine.language.rewrite import all_variables, substitute_literal, substitute_term


def bind_witnesses(lowered: LoweredRule) -> LoweredRule:
    """The rule with the witnesses of its aggregates bound; one without any is returned as it is."""
    body = lowered.rule.body
    if not any(_has_extremum(part) for part in body):
        return lowered
    taken = {variable.name for part in body for variable in all_variables(part)}
    return lowered._replace(rule=replace(lowered.rule, body=_bind(body, frozenset(), taken)))


def _has_extremum(literal: Literal) -> bool:
    return isinstance(literal, Aggregate) and (
        literal.op in ("min", "max") or any(_has_extremum(part) for part in literal.body)
    )


def _bind(body: Iterable[Literal], given: frozenset[Variable], taken: set[str]) -> tuple[Literal, ...]:
    """A body with the witnesses of its aggregates bound, and of those inside; `given` is bound before."""
    parts: list[Literal] = [
        replace(part, body=_bind(part.body, frozenset(part.outer), taken))
        if isinstance(part, Aggregate) and _has_extremum(part)
        else part
        for part in body
    ]
    while (found := _with_witnesses(parts, given, taken)) is not None:
        at, aggregate, witnesses = found
        parts[at : at + 1] = _bound(aggregate, witnesses, taken)
    return tuple(parts)


def _with_witnesses(
    body: list[Literal], given: frozenset[Variable], taken: set[str]
) -> tuple[int, Aggregate, frozenset[Variable]] | None:
    """Where a minimum or maximum is whose body binds what the rest of the rule leaves unbound.

    That may be a witness of an aggregate inside it, and then is bound there first.
    """
    stuck, bound = stuck_literals(body, given)
    for part in stuck:
        if isinstance(part, Aggregate) and part.op in ("min", "max"):
            witnesses = frozenset(part.outer) - bound
            outer = frozenset(part.outer) - witnesses
            if not witnesses:
                continue
            aggregate = part
            if unbound(part.body, witnesses, outer) and any(map(_has_extremum, part.body)):
                aggregate = replace(part, body=_bind(part.body, outer, taken))
            if not unbound(aggregate.body, witnesses, outer):
                at = next(place for place, one in enumerate(body) if one is part)
                return at, aggregate, witnesses
    return None


def _bound(aggregate: Aggregate, witnesses: frozenset[Variable], taken: set[str]) -> list[Literal]:
    """The aggregate over all witnesses, and its body once more, for its result."""
    inside = _renamed(sorted(witnesses, key=_by_name), taken)
    over_all = cast(Aggregate, substitute_literal(aggregate, inside))
    outer = tuple(variable for variable in aggregate.outer if variable not in witnesses)
    over_all = replace(over_all, result=aggregate.result, outer=outer)
    local = frozenset().union(*(all_variables(part) for part in aggregate.body))
    assert aggregate.target is not None
    local |= term_variables(aggregate.target)
    outside = _renamed(sorted(local.difference(aggregate.outer), key=_by_name), taken)
    if aggregate.target in outside:
        outside[aggregate.target] = aggregate.result
    again = [substitute_literal(part, outside) for part in aggregate.body]
    target = cast(Term, substitute_term(aggregate.target, outside))
    if target != aggregate.result:
        again.append(Comparison("=", target, aggregate.result, aggregate.span))
    return [over_all, *again]


def _renamed(variables: Iterable[Variable], taken: set[str]) -> dict[Variable, Variable]:
    """A variable of its own for each, called as before as far as errors show it."""
    new: dict[Variable, Variable] = {}
    for variable in variables:
        number = len(taken)
        while (name := f"{variable.name.partition('@')[0]}@{number}") in taken:
            number += 1
        taken.add(name)
        new[variable] = Variable(name, variable.type)
    return new


def _by_name(variable: Variable) -> str:
    return variable.name
