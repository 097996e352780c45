"""Keep relations once that copy rules make equal, such as a relation and its inverse.

A copy rule says that every fact of one relation is a fact of another one, its arguments permuted:

    narrower(y, x) :- broader(x, y).        broader(x, y) :- narrower(y, x).

Relations on a cycle of copy rules hold the same facts. One of them represents the others, which
become aliases: no rule mentions them any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

from gpuengine.language.program import (
    Aggregate,
    Alias,
    Atom,
    AtomArg,
    Literal,
    Negation,
    Program,
    Rule,
    Type,
    Variable,
)
from gpuengine.planning.strata import make_plan

Part = tuple[str, tuple[int, ...]]
"""A relation read with its arguments permuted: b_j = a_{permutation[j]}, as in `Alias`."""


def share_equal_relations(
    program: Program, kept: frozenset[str] = frozenset()
) -> tuple[Program, dict[str, Alias]]:
    """Replace relations that are equal up to a permutation by one of them, and keep equal rules once.

    r(x, z) :- r(x, y), r(y, z).            r(x, z) :- r(x, y), r(y, z).
    s(x, z) :- s(x, y), s(y, z).
    s(y, x) :- r(x, y).              →
    r(y, x) :- s(x, y).
    out(x)  :- s(x, 1), !s(1, x).           out(x)  :- r(1, x), !r(x, 1).      s = Alias("r", (1, 0))

    Relations in `kept`, those with a `.limitsize` and those without columns take no part. Neither do
    relations of which some cycle of copy rules permutes the arguments, such as p(x, y) :- p(y, x).
    Facts that are loaded into an alias belong to the relation it stands for. Without aliases the result
    is the same object.
    """
    aliases = _find_aliases(program, kept)
    if not aliases:
        return program, {}
    shared = {alias.of for alias in aliases.values()}
    pairs = [(rule, resolve(rule, aliases)) for rule in program.rules]
    rewritten = {resolved.head.relation for rule, resolved in pairs if resolved is not rule}
    once: dict[object, Rule] = {}
    for number, (_, rule) in enumerate(pairs):
        if not (rule.head.relation in shared and _says_nothing(rule)):
            # Only what was rewritten can have become equal to another rule.
            once.setdefault(_canonical(rule) if rule.head.relation in rewritten else number, rule)
    return replace(program, rules=tuple(once.values())), aliases


def resolve(rule: Rule, aliases: Mapping[str, Alias]) -> Rule:
    """The rule (or query) over the relations that `aliases` stand for.

    out(x) :- s(x, 1), !s(1, x).   →   out(x) :- r(1, x), !r(x, 1).            s = Alias("r", (1, 0))
    """
    body = tuple(_resolve_literal(part, aliases) for part in rule.body)
    head = _resolve_atom(rule.head, aliases)
    if head is rule.head and all(one is other for one, other in zip(body, rule.body, strict=True)):
        return rule
    return replace(rule, head=head, body=body)


def _resolve_literal(literal: Literal, aliases: Mapping[str, Alias]) -> Literal:
    if isinstance(literal, Atom):
        return _resolve_atom(literal, aliases)
    if isinstance(literal, Negation):
        atom = _resolve_atom(literal.atom, aliases)
        return literal if atom is literal.atom else Negation(atom)
    if isinstance(literal, Aggregate):
        return replace(literal, body=tuple(_resolve_literal(part, aliases) for part in literal.body))
    return literal


def _resolve_atom(atom: Atom, aliases: Mapping[str, Alias]) -> Atom:
    alias = aliases.get(atom.relation)
    if alias is None:
        return atom
    return replace(atom, relation=alias.of, args=tuple(atom.args[i] for i in alias.permutation))


def copy_permutation(program: Program, rule: Rule) -> tuple[int, ...] | None:
    """How a copy rule permutes: u(a_0, ..) :- r(b_0, ..) with b_j = a_{permutation[j]}; None for other rules.

    u(x, y, z) :- r(z, x, y).   has   (2, 0, 1)
    """
    if len(rule.body) != 1 or not isinstance(rule.body[0], Atom):
        return None
    head, source = rule.head, rule.body[0]
    variables = {arg for arg in source.args if isinstance(arg, Variable)}
    if not len(head.args) == len(source.args) == len(variables) > 0 or variables != set(head.args):
        return None
    permutation = tuple(head.args.index(arg) for arg in source.args)
    into = program.relations[head.relation].attributes
    columns = program.relations[source.relation].attributes
    spaces_agree = all(columns[j].type.space == into[i].type.space for j, i in enumerate(permutation))
    return permutation if spaces_agree else None


def copy_cycles(program: Program, without: frozenset[str] = frozenset()) -> Iterator[list[Rule]]:
    """The copy rules of each strongly connected component of relations that copy each other.

    Relations in `without` are left out. A rule that copies a relation to itself is a component, too.
    """
    copies = tuple(
        rule
        for rule in program.rules
        if copy_permutation(program, rule) is not None and not without & {rule.head.relation, _source(rule)}
    )
    for stratum in make_plan(replace(program, rules=copies)).strata:
        if stratum.is_recursive:
            yield [variant.rule for variant in stratum.recursive]


def composition(rule: Rule) -> tuple[Part, Part] | None:
    """What a rule composes: h(x, z) :- left, right, where left joins x with y and right y with z.

    h(x, z) :- h(y, z), e(y, x).   composes   ("e", (1, 0)), ("h", (0, 1))
    """
    if len(rule.body) != 2 or len(rule.head.args) != 2:
        return None
    x, z = rule.head.args
    for first, second in (rule.body, rule.body[::-1]):
        if isinstance(first, Atom) and isinstance(second, Atom):
            for y in {*first.args} & {*second.args}:
                left, right = _part(first, (x, y)), _part(second, (y, z))
                if left and right and len({x, y, z}) == 3:
                    return left, right
    return None


def _part(atom: Atom, pair: tuple[AtomArg, AtomArg]) -> Part | None:
    """The atom as a relation between two variables, if it is one."""
    if {*atom.args} != {*pair} or not all(isinstance(arg, Variable) for arg in pair):
        return None
    return atom.relation, tuple(pair.index(arg) for arg in atom.args)


def is_transitive(rule: Rule) -> bool:
    """Is it p(x, z) :- p(x, y), p(y, z), whatever the names and the order?"""
    itself = (rule.head.relation, (0, 1))
    return composition(rule) == (itself, itself)


def _find_aliases(program: Program, kept: frozenset[str]) -> dict[str, Alias]:
    limited = {directive.relation for directive in program.directives if directive.kind == "limitsize"}
    transitive = {rule.head.relation for rule in program.rules if is_transitive(rule)}
    declared = {name: number for number, name in enumerate(program.relations)}

    def preference(name: str) -> tuple[bool, bool, int]:
        is_eqrel = "eqrel" in program.relations[name].qualifiers
        return not is_eqrel, name not in transitive, declared[name]

    aliases: dict[str, Alias] = {}
    for copies in copy_cycles(program, without=kept | limited):
        representative = min((rule.head.relation for rule in copies), key=preference)
        spread = _spread(program, copies, representative)
        if all(_says_nothing(resolve(rule, spread)) for rule in copies):
            aliases |= {name: alias for name, alias in spread.items() if name != representative}
    return {name: aliases[name] for name in program.relations if name in aliases}


def _spread(program: Program, copies: list[Rule], representative: str) -> dict[str, Alias]:
    """What each relation of a component is in terms of its representative, along a spanning tree.

    u(a) :- r(b) with b_j = a_{copy[j]}, and r(b) is p(c) with c_j = b_{known[j]}: u(a) is p(c) with
    c_j = a_{copy[known[j]]}.
    """
    by_source: dict[str, list[Rule]] = {}
    for rule in copies:
        by_source.setdefault(_source(rule), []).append(rule)
    identity = tuple(range(program.relations[representative].arity))
    aliases = {representative: Alias(representative, identity)}
    todo = [representative]
    for name in todo:
        for rule in by_source[name]:
            if rule.head.relation not in aliases:
                copy = copy_permutation(program, rule)
                assert copy is not None
                permutation = tuple(copy[i] for i in aliases[name].permutation)
                aliases[rule.head.relation] = Alias(representative, permutation)
                todo.append(rule.head.relation)
    return aliases


def _source(copy: Rule) -> str:
    source = copy.body[0]
    assert isinstance(source, Atom)
    return source.relation


def _says_nothing(rule: Rule) -> bool:
    """Is it p(x, y) :- p(x, y)?"""
    return rule.body == (rule.head,)


def _canonical(rule: Rule) -> str:
    """A text that is the same for rules that differ only in the names of variables.

    Variables are numbered as they appear: first in the head, then in the literal whose text, with what
    is numbered so far, is the smallest of those left; of equal ones in the first. So most rules
    that differ in the order of literals have the same text as well.
    """
    numbers: dict[Variable, int] = {}
    texts = [_spell(rule.head, numbers, learn=True)]
    unspelt = list(rule.body)
    while unspelt:
        literal = min(unspelt, key=lambda part: _spell(part, numbers, learn=False))
        unspelt.remove(literal)
        texts.append(_spell(literal, numbers, learn=True))
    return " ".join(texts)


def _spell(node: object, numbers: dict[Variable, int], *, learn: bool) -> str:
    if isinstance(node, Variable):
        if learn:
            numbers.setdefault(node, len(numbers))
        return f"#{numbers.get(node, '')}:{node.type.space}"
    if isinstance(node, Type):
        return node.space
    if isinstance(node, tuple):
        return f"({', '.join(_spell(part, numbers, learn=learn) for part in node)})"
    if is_dataclass(node):
        parts = tuple(getattr(node, field.name) for field in fields(node) if field.compare)
        return type(node).__name__ + _spell(parts, numbers, learn=learn)
    return repr(node)
