"""The rules of a stratum as maintenance evaluates them: every head a table, what schemes imply left to them.

A closure or an equivalence r is fed from the table of its external facts, which the other rules derive and
the user states; so is a transitive relation that is a table, by the modular paper's linear form:

    r(x, y) :- b(x, y).                 @r.external(x, y) :- b(x, y).
    r(x, z) :- r(x, y), r(y, z).   →    r(x, y) :- @r.external(x, y).                  (a table only)
                                        r(x, z) :- r(x, y), @r.external(y, z).         (a table only)

A union keeps a table of its own for what is not copied. Rules that are evaluated over the nodes of hypertrees
are maintained over them, and with them the nodes: a node belongs to the first stratum that reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from gpuengine.language.program import Atom, Program, Relation, Rule, Variable
from gpuengine.maintenance import names
from gpuengine.planning.evaluators import Evaluators
from gpuengine.planning.linearise import external_name, linear_rule
from gpuengine.planning.plan import Stratum
from gpuengine.planning.schemes import SchemePlan
from gpuengine.planning.shapes import Candidate, Shape
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.equivalence import Equivalence
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Union


@dataclass(frozen=True)
class StratumRules:
    """`rules` derive into tables. `entries` say for each relation into which table its explicit facts go.

    `fed` has for each closure and equivalence the table that its edges come from; `unions` are the relations
    that read others; `parts` the relations that each of them copies, with their permutations.
    """

    relations: tuple[str, ...]
    rules: tuple[Rule, ...]
    entries: Mapping[str, str]
    fed: Mapping[str, str]
    parts: Mapping[str, tuple[tuple[str, tuple[int, ...]], ...]]

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that rules derive into, or that facts are stated in."""
        heads = [rule.head.relation for rule in self.rules]
        return tuple(dict.fromkeys([*self.entries.values(), *heads]))

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """The tables that the program does not know."""
        return tuple(name for name in self.tables if name not in self.relations)

    @cached_property
    def members(self) -> frozenset[str]:
        return frozenset((*self.relations, *self.tables))


def stratum_rules(
    stratum: Stratum,
    program: Program,
    tables: Mapping[str, Scheme],
    schemes: Mapping[str, SchemePlan],
    evaluators: Evaluators,
    *,
    modules: bool,
    below: Collection[str],
) -> StratumRules:
    """The maintained form of a stratum whose relations are stored as `tables` say.

    `below` are the tables that lower strata maintain.
    """
    rules = [variant.rule for variant in stratum.once]
    rules += dict.fromkeys(variant.rule for variant in stratum.recursive)
    written = set(rules)
    entries = {name: name for name in stratum.relations}
    fed: dict[str, str] = {}
    parts: dict[str, tuple[tuple[str, tuple[int, ...]], ...]] = {}
    for name in stratum.relations:
        scheme, plan = tables[name], schemes.get(name)
        if isinstance(scheme, Closure | Equivalence):
            candidate = _candidate(plan, Shape.CLOSURE if isinstance(scheme, Closure) else Shape.EQUIVALENCE)
            copies = {source.rule for source in candidate.sources} if isinstance(scheme, Closure) else set()
            entries[name] = fed[name] = external_name(name)
            rules = _without(rules, set(candidate.handled) - copies, name, fed[name])
        elif isinstance(scheme, Union):
            candidate = _candidate(plan, Shape.UNION)
            entries[name] = names.own(name)
            parts[name] = tuple((source.relation, source.permutation) for source in candidate.sources)
            rules = _without(rules, set(candidate.handled), name, entries[name])
        elif modules and plan is not None and _is_transitive_table(scheme, plan):
            entries[name] = external_name(name)
            candidate = _candidate(plan, Shape.CLOSURE)
            rules = _without(rules, set(candidate.handled), name, entries[name])
            relation = program.relations[name]
            rules += [_copy_rule(relation, entries[name]), linear_rule(relation, entries[name])]
    relation_of = {entry: relation for relation, entry in entries.items()}
    maintained: dict[Rule, None] = {}
    for rule in rules:
        derived = relation_of.get(rule.head.relation, rule.head.relation)
        original = replace(rule, head=replace(rule.head, relation=derived))
        if original in written:
            maintained.update(dict.fromkeys(_nodes_of(original, evaluators, below)))
            rule = replace(evaluators.evaluated(original), head=rule.head)
        maintained[rule] = None
    return StratumRules(stratum.relations, tuple(maintained), entries, fed, parts)


def _nodes_of(rule: Rule, evaluators: Evaluators, below: Collection[str]) -> list[Rule]:
    """The rules of the nodes that a rule is evaluated over, those that lower strata maintain left out."""
    choice = evaluators.choices.get(rule)
    if choice is None or choice.node_rules is None:
        return []
    return [node for node in choice.node_rules.nodes if node.head.relation not in below]


def _candidate(plan: SchemePlan | None, shape: Shape) -> Candidate:
    assert plan is not None
    return next(one for one in plan.candidates if one.shape is shape)


def _is_transitive_table(scheme: Scheme, plan: SchemePlan) -> bool:
    """Has a table a transitive rule, and no symmetric one that would take every fact back and forth?"""
    shapes = {candidate.shape: candidate for candidate in plan.candidates}
    closure = shapes.get(Shape.CLOSURE)
    is_closure = closure is not None and not closure.linear and Shape.EQUIVALENCE not in shapes
    return isinstance(scheme, Table) and is_closure


def _without(rules: list[Rule], handled: set[Rule], relation: str, entry: str) -> list[Rule]:
    """The rules that are not handled, those of the relation with another head."""
    return [
        replace(rule, head=replace(rule.head, relation=entry)) if rule.head.relation == relation else rule
        for rule in rules
        if rule not in handled
    ]


def _copy_rule(relation: Relation, external: str) -> Rule:
    x, y = (Variable(name, relation.attributes[0].type) for name in "xy")
    head, source = Atom(relation.name, (x, y), relation.span), Atom(external, (x, y), relation.span)
    return Rule(head, (source,), relation.span, f"{relation.name}(x, y) :- {external}(x, y).")
