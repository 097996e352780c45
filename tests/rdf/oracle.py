"""Rules over triples by their definition, with negation and aggregates: naive, stratum by stratum.

Shares nothing with the product but the classes that rules are made of. A quad is (s, p, o, g), g None by
default. Numbers are the only literals that expressions compute with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuengine.rdf.rules import Aggregate, Bind, Call, Filter, Negation, Rule, Triple, Variable

Quad = tuple[str, str, str, str | None]
Binding = dict[str, str]
_INTEGER = re.compile(r'"(-?\d+)"\^\^<http://www.w3.org/2001/XMLSchema#integer>')


def closure(rules: Iterable[Rule], quads: Iterable[Quad]) -> set[Quad]:
    """All that follows. Rules that negate or aggregate run after those that do not: callers see to it that
    these derive nothing that the former read."""
    known = set(quads)
    rules = list(rules)
    late = [rule for rule in rules if any(isinstance(item, Negation | Aggregate) for item in rule.body)]
    for layer in ([rule for rule in rules if rule not in late], late):
        while True:
            new = {quad for rule in layer for quad in _derived(rule, known)} - known
            if not new:
                break
            known |= new
    return known


def _derived(rule: Rule, known: set[Quad]) -> set[Quad]:
    return {
        (
            _at(h.subject, b),
            _at(h.predicate, b),
            _at(h.object, b),
            None if h.graph is None else _at(h.graph, b),
        )
        for b in _bindings(rule.body, known, {})
        for h in rule.heads
    }


def _bindings(body: tuple, known: set[Quad], start: Binding) -> Iterator[Binding]:
    order = [Triple, Aggregate, Bind, Filter, Negation]
    items = sorted(body, key=lambda item: order.index(type(item)))
    yield from _search(items, known, start)


def _search(items: list, known: set[Quad], binding: Binding) -> Iterator[Binding]:
    if not items:
        yield binding
        return
    first, rest = items[0], items[1:]
    if isinstance(first, Triple):
        for quad in known:
            more = _match(first, quad, binding)
            if more is not None:
                yield from _search(rest, known, more)
    elif isinstance(first, Aggregate):
        for more in _groups(first, known):
            if all(binding.get(name, value) == value for name, value in more.items()):
                yield from _search(rest, known, {**binding, **more})
    elif isinstance(first, Bind):
        value = _value(first.expression, binding)
        if value is not None and binding.get(first.variable.name, value) == value:
            yield from _search(rest, known, {**binding, first.variable.name: value})
    elif isinstance(first, Filter):
        if _value(first.condition, binding) is True:
            yield from _search(rest, known, binding)
    else:
        outer = {name: value for name, value in binding.items() if Variable(name) not in first.local}
        if next(_bindings(first.body, known, outer), None) is None:
            yield from _search(rest, known, binding)


def _match(triple: Triple, quad: Quad, binding: Binding) -> Binding | None:
    if (triple.graph is None) != (quad[3] is None):
        return None
    found = dict(binding)
    for place, term in zip(
        (triple.subject, triple.predicate, triple.object, triple.graph), quad, strict=True
    ):
        if place is None:
            continue
        if isinstance(place, Variable):
            if found.setdefault(place.name, str(term)) != term:
                return None
        elif place != term:
            return None
    return found


def _groups(item: Aggregate, known: set[Quad]) -> Iterator[Binding]:
    groups: dict[tuple[str, ...], list[Binding]] = {}
    for binding in _bindings(item.body, known, {}):
        groups.setdefault(tuple(binding[v.name] for v in item.groups), []).append(binding)
    for key, rows in groups.items():
        found = {v.name: value for v, value in zip(item.groups, key, strict=True)}
        for one in item.aggregations:
            values = [r if one.argument is None else _value(one.argument, r) for r in rows]
            if one.distinct:
                values = list(dict.fromkeys(map(str, values)))
            if one.function == "COUNT":
                found[one.variable.name] = _integer(len(values))
                continue
            numbers = [int(_INTEGER.fullmatch(str(v))[1]) for v in values]  # type: ignore[index]
            found[one.variable.name] = _integer({"SUM": sum, "MIN": min, "MAX": max}[one.function](numbers))
        yield found


def _value(expression: object, binding: Binding) -> object:
    if isinstance(expression, Variable):
        return binding[expression.name]
    if not isinstance(expression, Call):
        return expression
    values = [_value(one, binding) for one in expression.arguments]
    numbers = [int(m[1]) if (m := _INTEGER.fullmatch(str(v))) else None for v in values]
    if None in numbers:
        return values[0] == values[1] if expression.function == "=" and None not in values else None
    left, right = numbers
    operation = expression.function
    if operation in "+-*":
        return _integer({"+": left + right, "-": left - right, "*": left * right}[operation])
    return {"<": left < right, "=": left == right, "!=": left != right, ">": left > right}[operation]


def _integer(value: int) -> str:
    return f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def _at(place: str | Variable, binding: Binding) -> str:
    return binding[place.name] if isinstance(place, Variable) else place
