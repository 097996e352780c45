"""Rules of relations that keep one value for each key, made of many: what a proof by one of them has to show.

    total(x, y, sum n) :- control(x, z), owns(z, y, n).

is shown as if it were ``total(x, y, s) :- control(x, z), owns(z, y, n), s = sum n : { .. }`` with the same in
the braces. An instance of the body says that the key has a value at all, and what is added up is shown beside
it. The value itself is that of the fact, whatever other rules and stated facts add to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuengine.language.monotony import merges_of
from gpuengine.language.program import (
    Aggregate,
    Atom,
    AtomArg,
    Comparison,
    Constant,
    Literal,
    Merge,
    Program,
    Rule,
    Variable,
)
from gpuengine.language.rewrite import all_variables, substitute_literal
from gpuengine.schemes.contract import Scheme

_KEPT = "@kept."


def kept(relation: str) -> str:
    """Another name of a relation, by which it is read as what is complete."""
    return _KEPT + relation


def is_kept(literal: Literal) -> bool:
    """Does it only say which value a key has?"""
    return isinstance(literal, Atom) and literal.relation.startswith(_KEPT)


def as_it_is(literal: Literal) -> Literal:
    """What it says, by the name of the relation itself."""
    assert isinstance(literal, Atom)
    return replace(literal, relation=literal.relation.removeprefix(_KEPT))


def with_kept(relations: Mapping[str, Scheme], program: Program) -> dict[str, Scheme]:
    """Relations, those that are made of many values by their other names too."""
    folded = {name for name, merges in _folds(program).items() if name in relations}
    return {**relations, **{kept(name): relations[name] for name in folded}}


def shown_folds(program: Program) -> tuple[Rule, ...]:
    """The rules of a program, with the value of the fact in the heads of those that only add to it."""
    folds = _folds(program)
    if not folds:
        return program.rules
    by_head: dict[str, list[Rule]] = {}
    for rule in program.rules:
        if rule.body and rule.merge is not None and rule.merge.is_sum:
            by_head.setdefault(rule.head.relation, []).append(rule)
    return tuple(
        _shown(rule, folds[rule.head.relation], by_head.get(rule.head.relation, ()))
        if rule.body and rule.head.relation in folds
        else rule
        for rule in program.rules
    )


def _folds(program: Program) -> dict[str, tuple[Merge, ...]]:
    merges = merges_of(program.rules, program.relations)
    return {name: own for name, own in merges.items() if len(own) > 1 or not own[0].is_best}


def _shown(rule: Rule, merges: Sequence[Merge], others: Sequence[Rule]) -> Rule:
    head = rule.head
    args: list[AtomArg] = list(head.args)
    for merge in merges:
        type_ = head.args[merge.column].type  # type: ignore[union-attr]
        args[merge.column] = Variable(f"@value{merge.column}", type_)
    values = {merge.column for merge in merges}
    value = Atom(kept(head.relation), tuple(args), head.span)
    added = [_added(other, number, args, values) for number, other in enumerate(others)]
    return replace(rule, head=replace(head, args=tuple(args)), body=(*rule.body, value, *added))


def _added(rule: Rule, number: int, args: Sequence[AtomArg], values: set[int]) -> Aggregate:
    """What one rule adds to the key of a head."""
    mapping: dict[Variable, Variable | Constant] = {}
    equations: list[Literal] = []
    for place, (own, arg) in enumerate(zip(rule.head.args, args, strict=True)):
        if place in values:
            continue
        assert isinstance(arg, Variable | Constant)
        if isinstance(own, Variable) and own not in mapping:
            mapping[own] = arg
        elif isinstance(own, Variable | Constant) and mapping.get(own, own) != arg:  # type: ignore[arg-type]
            equations.append(Comparison("=", arg, mapping.get(own, own), rule.span))  # type: ignore[arg-type]
    for part in rule.body:
        for variable in all_variables(part):
            if variable not in mapping:
                mapping[variable] = Variable(f"{variable.name}@{number}", variable.type)
    body = (*equations, *(substitute_literal(part, mapping) for part in rule.body))
    assert rule.merge is not None
    term = rule.head.args[rule.merge.column]
    assert isinstance(term, Variable | Constant)
    target = mapping.get(term, term) if isinstance(term, Variable) else term
    result = Variable(f"part@{number}", term.type)
    outer = tuple(dict.fromkeys(arg for place, arg in enumerate(args) if place not in values))
    return Aggregate(
        result,
        rule.merge.op,
        None if rule.merge.op == "count" else target,
        body,
        tuple(arg for arg in outer if isinstance(arg, Variable)),
        rule.span,
    )
