"""Rewrites of the checked program before it is split into strata; `PASSES` is their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gpuengine.language.monotony import Merges, merges_of
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
from gpuengine.planning.schemes import read_overrides, tables_only
from gpuengine.planning.sharing import share_equal_relations


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


def name_what_is_added(program: Program) -> Program:
    """In a rule of a sum every binding of the body counts: as in an aggregate, wildcards are variables too.

    p(x, sum n) :- q(x, n, _).   →   p(x, sum n) :- q(x, n, @way1).
    """
    if not any(rule.merge is not None and rule.merge.is_sum for rule in program.rules):
        return program
    merges = merges_of(program.rules, program.relations)
    return replace(program, rules=tuple(_named(rule, program.relations, merges) for rule in program.rules))


def _named(rule: Rule, relations: Mapping[str, Relation], merges: Merges) -> Rule:
    if rule.merge is None or not rule.merge.is_sum:
        return rule
    body: list[Literal] = []
    for number, part in enumerate(rule.body):
        if isinstance(part, Atom):
            moving = {merge.column for merge in merges.get(part.relation, ())}
            args = tuple(
                Variable(f"@way{number}.{place}", relations[part.relation].attributes[place].type)
                if isinstance(arg, Wildcard) and place not in moving
                else arg
                for place, arg in enumerate(part.args)
            )
            part = replace(part, args=args)
        body.append(part)
    return replace(rule, body=tuple(body))


def blank_single_variables(program: Program) -> Program:
    """A variable that occurs once is a wildcard, so that a join may stop at the first match.

    p(x) :- q(x, y), r(y, z).   →   p(x) :- q(x, y), r(y, _).
    """
    return replace(program, rules=tuple(blank_rule(rule) for rule in program.rules))


def blank_rule(rule: Rule) -> Rule:
    """The rule with wildcards for variables that occur once in it, unless all bindings of its body count."""
    if rule.merge is not None and rule.merge.is_sum:
        return rule
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


def store_equal_relations_once(program: Program) -> Program:
    """Leave of relations that copy each other one, of which the others are aliases (`sharing.py`).

    narrower(y, x) :- broader(x, y).           broader(x, z) :- broader(x, y), broader(y, z).
    broader(y, x) :- narrower(x, y).      →    out(x) :- broader(1, x).
    broader(x, z) :- broader(x, y),            // narrower(a0, a1) is stored as broader(a1, a0)
                     broader(y, z).
    out(x) :- narrower(x, 1).
    """
    shared, aliases = share_equal_relations(program, tables_only(program, read_overrides(program)))
    return replace(shared, aliases=aliases)


PASSES: tuple[Callable[[Program], Program], ...] = (
    close_equivalences,
    name_what_is_added,
    blank_single_variables,
    store_equal_relations_once,
)
"""What becomes of a checked program before anything is known of its facts, in order.

What depends on sizes is decided at run time and has its pictures there: `linearise`, `node_rules`, `split`.
"""


def pass_name(one: Callable[[Program], Program]) -> str:
    """What a pass is called on the command line."""
    return one.__name__.replace("_", "-")


def rewrite(program: Program, last: str | None = None) -> Program:
    """Apply all passes, or those up to the one of the given name."""
    for one in PASSES:
        program = one(program)
        if pass_name(one) == last:
            break
    return program


def spell_program(program: Program) -> str:
    """A program between two passes, as one would write it."""
    lines = []
    for relation in program.relations.values():
        columns = ", ".join(f"{one.name}: {one.type.name}" for one in relation.attributes)
        lines.append(" ".join([f".decl {relation.name}({columns})", *sorted(relation.qualifiers)]))
    for name, alias in program.aliases.items():
        args = [f"a{j}" for j in range(len(alias.permutation))]
        stored = ", ".join(args[j] for j in alias.permutation)
        lines.append(f"// {name}({', '.join(args)}) is stored as {alias.of}({stored})")
    for rule in program.rules:
        body = ", ".join(map(describe, rule.body))
        lines.append(f"{describe(rule.head)}{' :- ' if body else ''}{body}.")
    return "\n".join(lines) + "\n"
