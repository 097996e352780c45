"""Join with a transitive relation's external facts, which other rules derive, not with its closure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from gpuengine.language.program import Atom, Negation, Relation, Rule, Variable
from gpuengine.planning.passes import occurrences


def external_name(relation: str) -> str:
    """The relation of the facts of a transitive relation that other rules derive."""
    return f"@{relation}.external"


def linear_rule(relation: Relation, external: str, permutation: tuple[int, int] = (0, 1)) -> Rule:
    """The transitive rule with external facts on one side: what a chain of them leads to is the closure.

    r(x, z) :- r(x, y), r(y, z).   →   r(x, z) :- r(x, y), @r.external(y, z).
    """
    x, y, z = (Variable(name, relation.attributes[0].type) for name in "xyz")
    step = (y, z) if permutation == (0, 1) else (z, y)
    head = Atom(relation.name, (x, z), relation.span)
    body = Atom(relation.name, (x, y), relation.span), Atom(external, step, relation.span)
    text = f"{relation.name}(x, z) :- {relation.name}(x, y), {relation.name}(y, z). // by its external facts"
    return Rule(head, body, relation.span, text)


def read_external(rule: Rule, relation: str, external: str) -> Rule:
    """A rule that derives the relation from itself, reading external facts where these lead to all others.

    r(x, z) :- r(x, y), d(y, z).   →   r(x, z) :- @r.external(x, y), d(y, z).

    If x stands nowhere else, then what holds for the last external fact of a chain from x to y holds, by
    transitivity, for its beginning; likewise for the last argument.
    """
    if rule.head.relation != relation:
        return rule
    counts = Counter(variable for literal in (rule.head, *rule.body) for variable in occurrences(literal))
    body = []
    for literal in rule.body:
        if isinstance(literal, Atom) and literal.relation == relation:
            ends = zip(literal.args, rule.head.args, strict=True)
            if any(isinstance(arg, Variable) and arg == kept and counts[arg] == 2 for arg, kept in ends):
                literal = replace(literal, relation=external)
        body.append(literal)
    return replace(rule, body=tuple(body))


def with_external_facts(rules: Sequence[Rule], relation: Relation, handled: Collection[Rule]) -> list[Rule]:
    """The rules of a stratum with the transitive rule of `relation` in linear form.

    What others derive that is no fact yet becomes external, and every external fact is one of the relation:

    r(x, y) :- b(x, y).                   @r.external(x, y) :- b(x, y), !r(x, y).
    r(x, z) :- r(x, y), r(y, z).    →     r(x, y) :- @r.external(x, y).
                                          r(x, z) :- r(x, y), @r.external(y, z).

    See `read_external` for rules that derive the relation from itself.

    The negation is only a shortcut, whatever it sees of a relation that grows: a fact that is
    there already comes from a chain of external ones.
    """
    external = external_name(relation.name)
    result = []
    for rule in rules:
        if rule in handled:
            continue
        if rule.head.relation == relation.name:
            rule = read_external(rule, relation.name, external)
            unless_there = Negation(rule.head)
            rule = replace(rule, head=replace(rule.head, relation=external), body=(*rule.body, unless_there))
        result.append(rule)
    x, y = (Variable(name, relation.attributes[0].type) for name in "xy")
    copied = Atom(relation.name, (x, y), relation.span), Atom(external, (x, y), relation.span)
    text = f"{relation.name}(x, y) :- {external}(x, y)."
    result.append(Rule(copied[0], copied[1:], relation.span, text))
    return [*result, linear_rule(relation, external)]
