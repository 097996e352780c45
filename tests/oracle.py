"""The oracle: a slow, obvious evaluator of core programs, to compare the engine with.

What was decided (the functors' table is in oracle_functors.py):

| construct | meaning |
|---|---|
| values | number, unsigned: int; float: float; symbol: str |
| record, ADT values | ``("[]", args...)`` or None for nil; ``("$Branch", args...)`` |
| a stratum | all its rules over all facts, again and again until nothing is new |
| order of literals | by `binds`: of the evaluable ones, filters first, atoms last, else as written |
| comparison of symbols | by UTF-8 bytes (which is the order of code points) |
| ``match`` | the regular expression matches the whole string |
| aggregate | for each binding of its outer variables, over the distinct bindings of its body |
| aggregate of nothing | ``count`` and ``sum`` are 0; ``min``, ``max`` and ``mean`` do not hold |
| ``mean`` | a float, whatever is averaged |
| eqrel | reflexive on what is mentioned, symmetric, transitive |
| ``.limitsize r(n=N)`` | the stratum of r stops after the first round with N or more facts of r |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Any

from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Constant,
    Functor,
    Kind,
    Literal,
    Negation,
    Pack,
    Program,
    Rule,
    Term,
    Type,
    Variable,
    Wildcard,
    binds,
    term_variables,
)
from tests.oracle_functors import INTEGERS, apply, span, wrap

Value = Any
Facts = dict[str, set[tuple[Value, ...]]]
Binding = dict[Variable, Value]


def naive(program: Program, facts: Mapping[str, Iterable[tuple[Value, ...]]]) -> Facts:
    """Every fact that `program` derives from `facts`, by relation."""
    known: Facts = {name: set(facts.get(name, ())) for name in program.relations}
    limits = {d.relation: int(d.params["n"]) for d in program.directives if d.kind == "limitsize"}
    for stratum in strata(program):
        rules = [rule for rule in program.rules if rule.head.relation in stratum]
        while _apply_once(program, rules, stratum, known):
            if any(len(known[name]) >= limits[name] for name in stratum & limits.keys()):
                break
    return known


def _apply_once(program: Program, rules: list[Rule], stratum: frozenset[str], known: Facts) -> bool:
    """Add what the rules derive in one step; is anything new?"""
    before = sum(len(known[name]) for name in stratum)
    derived = [(rule.head.relation, list(consequences(rule, known))) for rule in rules]
    for relation, rows in derived:
        known[relation].update(rows)
    for name in stratum:
        if "eqrel" in program.relations[name].qualifiers:
            known[name] = _equivalence(known[name])
    return sum(len(known[name]) for name in stratum) > before


def consequences(rule: Rule, known: Facts) -> Iterator[tuple[Value, ...]]:
    for binding in solutions(rule.body, {}, known):
        yield tuple(_value(arg, binding) for arg in rule.head.args)  # type: ignore[arg-type]


def strata(program: Program) -> list[frozenset[str]]:
    """The strongly connected components of the relations' dependencies, dependencies first."""
    depends: dict[str, set[str]] = {name: set() for name in program.relations}
    for rule in program.rules:
        depends[rule.head.relation].update(*(_relations(literal) for literal in rule.body))
    reaches = {name: _reachable(depends, name) for name in depends}
    component = {
        name: frozenset({name, *(other for other in reaches[name] if name in reaches[other])})
        for name in depends
    }
    graph = {
        component[name]: {component[other] for other in reaches[name]} - {component[name]} for name in depends
    }
    return list(TopologicalSorter(graph).static_order())


def _relations(literal: Literal) -> set[str]:
    if isinstance(literal, Atom):
        return {literal.relation}
    if isinstance(literal, Negation):
        return {literal.atom.relation}
    if isinstance(literal, Aggregate):
        return set().union(*(_relations(inner) for inner in literal.body))
    return set()


def _reachable(depends: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = set(depends[start])
    while todo:
        seen |= todo
        todo = set().union(*(depends[name] for name in todo)) - seen
    return seen


def _equivalence(pairs: set[tuple[Value, ...]]) -> set[tuple[Value, ...]]:
    classes: dict[Value, set[Value]] = {}
    for left, right in pairs:
        merged = classes.get(left, {left}) | classes.get(right, {right})
        classes.update(dict.fromkeys(merged, merged))
    return {(left, right) for left, members in classes.items() for right in members}


def solutions(body: tuple[Literal, ...], binding: Binding, known: Facts) -> Iterator[Binding]:
    """Every extension of `binding` that makes all literals of `body` true."""
    if not body:
        yield binding
        return
    bound = frozenset(binding)
    evaluable = [literal for literal in body if binds(literal, bound) is not None]
    chosen = min(evaluable, key=lambda literal: (isinstance(literal, Atom), bool(binds(literal, bound))))
    rest = tuple(literal for literal in body if literal is not chosen)
    for extended in _extensions(chosen, binding, known):
        yield from solutions(rest, extended, known)


def _extensions(literal: Literal, binding: Binding, known: Facts) -> Iterator[Binding]:
    """Every extension of `binding` that makes one evaluable literal true."""
    if isinstance(literal, Atom):
        for row in known[literal.relation]:
            extended = _unify_all(literal.args, row, binding)
            if extended is not None:
                yield extended
    elif isinstance(literal, Negation):
        if not any(True for _ in _extensions(literal.atom, binding, known)):
            yield binding
    elif isinstance(literal, Aggregate):
        result = _aggregate(literal, binding, known)
        extended = None if result is None else _unify(literal.result, result, binding)
        if extended is not None:
            yield extended
    elif literal.op == "=":
        yield from _equate(literal, binding)
    elif _holds(literal.op, _value(literal.left, binding), _value(literal.right, binding)):
        yield binding


def _holds(op: str, left: Value, right: Value) -> bool:
    match op.lstrip("!") if op != "!=" else op:
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
        case "match":
            return (re.fullmatch(left, right) is not None) != op.startswith("!")
        case "contains":
            return (left in right) != op.startswith("!")
    raise AssertionError(f"unknown comparison {op}")


def _equate(literal: Comparison, binding: Binding) -> Iterator[Binding]:
    """``left = right``: compute one side and match the other against it."""
    pattern, source = literal.left, literal.right
    if _is_range(pattern) or not term_variables(source) <= frozenset(binding):
        pattern, source = source, pattern
    for value in _values(source, binding):
        extended = _unify(pattern, value, binding)
        if extended is not None:
            yield extended


def _unify_all(
    patterns: tuple[Term | Wildcard, ...], values: tuple[Value, ...], binding: Binding
) -> Binding | None:
    extended: Binding | None = binding
    for pattern, value in zip(patterns, values, strict=True):
        if extended is None:
            return None
        extended = _unify(pattern, value, extended)
    return extended


def _unify(pattern: Term | Wildcard, value: Value, binding: Binding) -> Binding | None:
    if isinstance(pattern, Wildcard):
        return binding
    if isinstance(pattern, Variable) and pattern not in binding:
        return {**binding, pattern: value}
    if isinstance(pattern, Pack):
        if value is None or value[0] != _tag(pattern):
            return None
        return _unify_all(pattern.args, value[1:], binding)
    return binding if _value(pattern, binding) == value else None


def _is_range(term: Term) -> bool:
    return isinstance(term, Functor) and term.op == "range"


def _values(term: Term, binding: Binding) -> Iterator[Value]:
    if isinstance(term, Functor) and term.op == "range":
        yield from span(term.type.kind, *(_value(arg, binding) for arg in term.args))
    else:
        yield _value(term, binding)


def _value(term: Term, binding: Binding) -> Value:
    if isinstance(term, Variable):
        return binding[term]
    if isinstance(term, Constant):
        return term.value
    if isinstance(term, Pack):
        return (_tag(term), *(_value(arg, binding) for arg in term.args))  # type: ignore[arg-type]
    return apply(
        term.op, term.type.kind, [_value(a, binding) for a in term.args], [a.type.kind for a in term.args]
    )


def _tag(pack: Pack) -> str:
    return "[]" if pack.branch is None else f"${pack.branch}"


def _aggregate(aggregate: Aggregate, binding: Binding, known: Facts) -> Value:
    """The aggregate's value, or None where it does not hold."""
    outer = {variable: binding[variable] for variable in aggregate.outer}
    distinct = {frozenset(found.items()): found for found in solutions(aggregate.body, outer, known)}
    if aggregate.op == "count":
        return len(distinct)
    assert aggregate.target is not None
    values = [_value(aggregate.target, found) for found in distinct.values()]
    if aggregate.op == "sum":
        return _sum(values, aggregate.result.type)
    if not values:
        return None
    if aggregate.op == "mean":
        return float(sum(values)) / len(values)
    return min(values) if aggregate.op == "min" else max(values)


def _sum(values: list[Value], type_: Type) -> Value:
    return wrap(sum(values), type_.kind) if type_.kind in INTEGERS else sum(values, 0.0)


def text(value: Value, kind: Kind) -> Value:
    """A value as the engine shows it: records and ADTs as Soufflé's text, the rest as it is."""
    return _term_text(value) if kind in (Kind.RECORD, Kind.ADT) else value


def _term_text(value: Value) -> str:
    if value is None:
        return "nil"
    if isinstance(value, float):
        return f"{value:.17g}"
    if not isinstance(value, tuple):
        return str(value)
    tag, *args = value
    inner = ", ".join(_term_text(arg) for arg in args)
    if tag == "[]":
        return f"[{inner}]"
    return f"{tag}({inner})" if args else tag
