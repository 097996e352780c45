"""Groundedness: every literal of a rule can be evaluated in some order, and binds the head's variables."""

from __future__ import annotations

from collections.abc import Iterable

from gpuengine.language.program import (
    Aggregate,
    Atom,
    Literal,
    Negation,
    Rule,
    Variable,
    binds,
    literal_variables,
    term_variables,
)


def stuck_literals(
    body: Iterable[Literal], given: frozenset[Variable]
) -> tuple[list[Literal], set[Variable]]:
    """The literals of a body that can't be evaluated in any order, and the variables that the others bind."""
    body = list(body)
    bound = {arg for part in body if isinstance(part, Atom) for arg in part.args if isinstance(arg, Variable)}
    bound |= given
    return _evaluate([part for part in body if not isinstance(part, Atom)], bound), bound


def ungrounded(rule: Rule) -> list[Variable]:
    """The variables of a rule that nothing binds, aggregates' bodies included; empty if all is well."""
    needed = (arg for arg in rule.head.args if isinstance(arg, Variable))
    return list(dict.fromkeys(unbound(rule.body, needed, frozenset())))


def unbound(
    body: Iterable[Literal], needed: Iterable[Variable], given: frozenset[Variable]
) -> list[Variable]:
    """What stays unbound when `body` is evaluated with `given` bound and `needed` asked for."""
    bound = set(given)
    ready: list[Literal] = []
    for literal in body:
        if isinstance(literal, Atom):
            bound.update([arg for arg in literal.args if isinstance(arg, Variable)])
        else:
            ready.append(literal)
    stuck = _evaluate(ready, bound)
    missing: list[Variable] = []
    for literal in ready:
        if isinstance(literal, Aggregate):
            target = () if literal.target is None else term_variables(literal.target)
            missing += unbound(literal.body, target, frozenset(literal.outer))
    missing += [variable for variable in needed if variable not in bound]
    for literal in stuck:
        missing += [variable for variable in _in_order(literal) if variable not in bound]
    return missing


def _evaluate(literals: list[Literal], bound: set[Variable]) -> list[Literal]:
    """Evaluate literals in any order that works, adding what they bind; returns those that never can be.

    A literal that has to wait is looked at again only when one of its variables becomes bound.
    """
    waiting: dict[Variable, list[int]] = {}
    stuck: dict[int, Literal] = {}
    ready = list(range(len(literals) - 1, -1, -1))
    while ready:
        number = ready.pop()
        literal = literals[number]
        mentioned = literal_variables(literal)
        new = binds(literal, mentioned & bound)
        if new is None:
            stuck[number] = literal
            for variable in mentioned - bound:
                waiting.setdefault(variable, []).append(number)
            continue
        stuck.pop(number, None)
        bound |= new
        for variable in new:
            ready.extend(other for other in waiting.pop(variable, ()) if other in stuck)
    return list(stuck.values())


def _in_order(literal: Literal) -> list[Variable]:
    if isinstance(literal, Negation):
        return [arg for arg in literal.atom.args if isinstance(arg, Variable)]
    return sorted(literal_variables(literal), key=lambda variable: variable.name)
