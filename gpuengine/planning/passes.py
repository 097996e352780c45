"""Rewrites of the checked program before it is split into strata; `PASSES` is their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from gpuengine.language.program import (
    Aggregate,
    Atom,
    AtomArg,
    Comparison,
    Functor,
    Literal,
    Negation,
    Pack,
    Program,
    Relation,
    Rule,
    Term,
    Variable,
    Wildcard,
)
from gpuengine.planning.plan import describe


def close_equivalences(program: Program) -> Program:
    """Give each `eqrel` the rules that make it an equivalence.

    .decl r(x, y) eqrel   →   r(x, x) :- r(x, _).  r(x, x) :- r(_, x).
                              r(y, x) :- r(x, y).  r(x, z) :- r(x, y), r(y, z).
    """
    added: list[Rule] = []
    for relation in program.relations.values():
        if "eqrel" in relation.qualifiers:
            added += _equivalence_rules(relation)
    return replace(program, rules=program.rules + tuple(added)) if added else program


def _equivalence_rules(relation: Relation) -> list[Rule]:
    x, y, z = (Variable(name, relation.attributes[0].type) for name in "xyz")
    shapes: list[tuple[tuple[AtomArg, AtomArg], ...]] = [
        ((x, x), (x, Wildcard())),
        ((x, x), (Wildcard(), x)),
        ((y, x), (x, y)),
        ((x, z), (x, y), (y, z)),
    ]
    rules = []
    for shape in shapes:
        head, *body = (Atom(relation.name, args, relation.span) for args in shape)
        text = f"{describe(head)} :- {', '.join(map(describe, body))}. // eqrel"
        rules.append(Rule(head, tuple(body), relation.span, text))
    return rules


def blank_single_variables(program: Program) -> Program:
    """A variable that occurs once is a wildcard, so that a join may stop at the first match.

    p(x) :- q(x, y), r(y, z).   →   p(x) :- q(x, y), r(y, _).
    """
    return replace(program, rules=tuple(blank_rule(rule) for rule in program.rules))


def blank_rule(rule: Rule) -> Rule:
    """The rule with wildcards for variables that occur once in it."""
    counts = Counter(occurrences(rule.head))
    for literal in rule.body:
        counts.update(occurrences(literal))
    single = {variable for variable, count in counts.items() if count == 1}
    if not single:
        return rule
    body = tuple(_blank_atom(part, single) if isinstance(part, Atom) else part for part in rule.body)
    return replace(rule, body=body)


def _blank_atom(atom: Atom, single: set[Variable]) -> Atom:
    return replace(atom, args=tuple(Wildcard() if arg in single else arg for arg in atom.args))


def occurrences(literal: Literal) -> Iterator[Variable]:
    """Every variable as often as it stands in a literal; of an aggregate those that it shares."""
    if isinstance(literal, Atom):
        yield from (arg for arg in literal.args if isinstance(arg, Variable))
    elif isinstance(literal, Negation):
        yield from occurrences(literal.atom)
    elif isinstance(literal, Comparison):
        yield from _term_occurrences(literal.left)
        yield from _term_occurrences(literal.right)
    else:
        assert isinstance(literal, Aggregate)
        yield literal.result
        yield from literal.outer


def _term_occurrences(term: Term | Wildcard) -> Iterator[Variable]:
    if isinstance(term, Variable):
        yield term
    elif isinstance(term, Functor | Pack):
        for arg in term.args:
            yield from _term_occurrences(arg)


PASSES: tuple[Callable[[Program], Program], ...] = (close_equivalences, blank_single_variables)


def rewrite(program: Program) -> Program:
    """Apply all passes."""
    for one in PASSES:
        program = one(program)
    return program
