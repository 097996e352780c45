"""The rules of a stratum as maintenance evaluates them, and what a change of facts makes of each.

Every head is a table; what schemes imply is left to them. A closure or an equivalence r is fed from the
table of its external facts, which the other rules derive and the user states; so is a transitive relation
that is a table, by the modular paper's linear form:

    r(x, y) :- b(x, y).                 @r.external(x, y) :- b(x, y).
    r(x, z) :- r(x, y), r(y, z).   →    r(x, y) :- @r.external(x, y).                  (a table only)
                                        r(x, z) :- r(x, y), @r.external(y, z).         (a table only)

A union keeps a table of its own for what is not copied. Rules that are evaluated over the nodes of hypertrees
are maintained over them, and with them the nodes: a node belongs to the first stratum that reads it.

A change of facts makes of a rule the rule once for each way in which an instance can come or go. It goes if
a fact it reads goes, if one that it negates comes, or if a group that it aggregates changes; it comes the
other way round. The first such literal is where it is found, so that it is found once:

    p(x) :- q(x, y), !r(y).       going:  @p.going(x) :- Δq(x, y), !r(y).
                                          @p.going(x) :- @r.inserted(y), q(x, y), !r(y).
                                  coming: p(x) :- Δq(x, y), !r(y).
                                          p(x) :- @r.deleted(y), q(x, y), !r(y).
                                  again:  p(x) :- @p.gone(x), q(x, y), !r(y).

    d(y, min a) :- d(x, b), ..    again:  d(y, min a) :- @d.gone(y, _), d(x, b), ..

What goes is looked for in the state before the change, what comes in the state after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import count

from gpuengine.evaluation.rules.evaluators import Evaluators
from gpuengine.language.program import (
    Aggregate,
    Atom,
    AtomArg,
    Literal,
    Merge,
    Negation,
    Program,
    Relation,
    Rule,
    Variable,
    Wildcard,
)
from gpuengine.maintenance import names
from gpuengine.planning.fallible import without_fallible
from gpuengine.planning.linearise import external_name, linear_rule
from gpuengine.planning.plan import Stratum, Variant, body_relations
from gpuengine.planning.schemes import SchemePlan
from gpuengine.planning.selection import Selection
from gpuengine.planning.shapes import Candidate, Shape
from gpuengine.planning.strata import member_positions
from gpuengine.schemes.contract import Scheme


@dataclass(frozen=True)
class StratumRules:
    """`rules` derive into tables. `entries` say for each relation into which table its explicit facts go.

    `fed` has for each closure and equivalence the table that its edges come from; `unions` are the relations
    that read others; `parts` the relations that each of them copies, with their permutations. `merges` are
    those that keep the best value of each key, `sums` and `joins` what all its values come to.
    """

    relations: tuple[str, ...]
    rules: tuple[Rule, ...]
    entries: Mapping[str, str]
    fed: Mapping[str, str]
    parts: Mapping[str, tuple[tuple[str, tuple[int, ...]], ...]]
    merges: Mapping[str, Merge]
    sums: Mapping[str, Merge]
    joins: Mapping[str, tuple[Merge, ...]]

    def values(self, relation: str) -> frozenset[int]:
        """The columns of which a relation keeps one value for each key."""
        kept = [one[relation] for one in (self.merges, self.sums) if relation in one]
        return frozenset(merge.column for merge in (*kept, *self.joins.get(relation, ())))

    @property
    def keeps_values(self) -> bool:
        """Is there a relation that does not keep all that is derived?"""
        return bool(self.merges or self.sums or self.joins)

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
    selections: Mapping[str, Selection],
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
        if scheme.is_paired:
            shape = Shape(scheme.kind)
            candidate = _candidate(plan, shape)
            copies = {source.rule for source in candidate.sources} if shape is Shape.CLOSURE else set()
            entries[name] = fed[name] = external_name(name)
            rules = _without(rules, set(candidate.handled) - copies, name, fed[name])
        elif scheme.is_view:
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
    kept = {name: selections[name] for name in stratum.relations if name in selections}
    return StratumRules(
        stratum.relations,
        tuple(maintained),
        entries,
        fed,
        parts,
        merges={name: one.merge for name, one in kept.items() if one.merge is not None},
        sums={name: one.sum for name, one in kept.items() if one.sum is not None},
        joins={name: one.joins for name, one in kept.items() if one.joins},
    )


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
    return scheme.is_listed and is_closure


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


class Direction(Enum):
    """Which instances are looked for."""

    GOING = "going"
    COMING = "coming"


@dataclass(frozen=True, slots=True)
class Projection:
    """The distinct values of some columns of what was `inserted` into or `deleted` from a relation."""

    relation: str
    change: str
    columns: tuple[int, ...]

    @property
    def name(self) -> str:
        return names.projected(self.relation, self.change, self.columns)


@dataclass(frozen=True, slots=True)
class DeltaRule:
    """A variant, and the relation whose change it starts from.

    `trigger` is that relation, or, for negated literals and aggregates, the table that drives it.
    `is_recursive` if its rule reads a relation of its own stratum.
    """

    variant: Variant
    trigger: str
    is_recursive: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The groups of an aggregate that a change touches: `name` holds the values of `outer` variables.

    `rules` find them. Without any, all are touched if what is aggregated (`reads`) has changed: the table has
    no columns then, and holds or does not.
    """

    name: str
    outer: tuple[Variable, ...]
    reads: frozenset[str]
    rules: tuple[DeltaRule, ...]


@dataclass(frozen=True, slots=True)
class RuleDeltas:
    """Makes the delta rules of one rule.

    With `exact`, each instance is found once: at the first of its literals that changed, those before which
    are read as they are both before and after the change. Without, it may be found several times, which for
    sets of facts comes to the same.
    """

    rule: Rule
    direction: Direction
    groups: Mapping[Aggregate, Group]
    exact: bool
    is_recursive: bool

    def of_atom(self, at: int) -> DeltaRule:
        """Starts from a change of what an atom in the body reads."""
        atom = self.rule.body[at]
        assert isinstance(atom, Atom)
        rule = replace(self.rule, body=(*self.rule.body, *self._unchanged_before(at)))
        return DeltaRule(self._variant(rule, at, self._atoms_before(at)), atom.relation, self.is_recursive)

    def of_member(self, at: int) -> DeltaRule:
        """Starts from a change, within the stratum, of what an atom reads; what changed below is done with.

        What goes is then looked for among what is left below, where negated atoms see less than before.
        """
        atom = self.rule.body[at]
        assert isinstance(atom, Atom)
        extra: list[Literal] = []
        if self.exact and self.direction is Direction.GOING:
            for literal in self.rule.body:
                if isinstance(literal, Negation):
                    extra += [_absent(literal, change) for change in ("deleted", "inserted")]
                elif isinstance(literal, Aggregate):
                    extra.append(self._untouched(literal))
        rule = replace(self.rule, body=(*self.rule.body, *extra))
        return DeltaRule(self._variant(rule, at, self._atoms_before(at)), atom.relation, self.is_recursive)

    def of_negation(self, at: int) -> tuple[DeltaRule, Projection]:
        """Starts from what was inserted into, or deleted from, a relation that is negated."""
        literal = self.rule.body[at]
        assert isinstance(literal, Negation)
        projection = projection_of(literal, "inserted" if self.direction is Direction.GOING else "deleted")
        return self._driven(at, projection.name, _named_args(literal)), projection

    def of_aggregate(self, at: int) -> DeltaRule:
        """Starts from the groups that were touched."""
        literal = self.rule.body[at]
        assert isinstance(literal, Aggregate)
        group = self.groups[literal]
        return self._driven(at, group.name, group.outer)

    def _driven(self, at: int, relation: str, args: tuple[AtomArg, ...]) -> DeltaRule:
        driver = Atom(relation, args, self.rule.head.span)
        rule = replace(self.rule, body=(driver, *self.rule.body, *self._unchanged_before(at)))
        old = frozenset(i + 1 for i in self._atoms_before(at)) if self.exact else frozenset()
        return DeltaRule(self._variant(rule, 0, old), relation, self.is_recursive)

    def _variant(self, rule: Rule, at: int, old: frozenset[int]) -> Variant:
        return Variant(rule, at, old, in_hindsight=self.direction is Direction.GOING)

    def _atoms_before(self, at: int) -> frozenset[int]:
        return frozenset(i for i, part in enumerate(self.rule.body[:at]) if isinstance(part, Atom))

    def _unchanged_before(self, at: int) -> list[Literal]:
        """That the negated literals and the aggregates before a place did not change."""
        if not self.exact:
            return []
        change = "inserted" if self.direction is Direction.GOING else "deleted"
        literals: list[Literal] = []
        for literal in self.rule.body[:at]:
            if isinstance(literal, Negation):
                literals.append(_absent(literal, change))
            elif isinstance(literal, Aggregate):
                literals.append(self._untouched(literal))
        return literals

    def _untouched(self, aggregate: Aggregate) -> Negation:
        group = self.groups[aggregate]
        return Negation(Atom(group.name, group.outer, self.rule.head.span))


def projection_of(literal: Negation, change: str) -> Projection:
    """What changed of the columns that a negated literal names."""
    args = literal.atom.args
    columns = tuple(c for c, arg in enumerate(args) if not isinstance(arg, Wildcard))
    return Projection(literal.atom.relation, change, columns)


def _named_args(literal: Negation) -> tuple[AtomArg, ...]:
    return tuple(arg for arg in literal.atom.args if not isinstance(arg, Wildcard))


def _absent(literal: Negation, change: str) -> Negation:
    """That what a literal negates is not among what changed."""
    return Negation(Atom(projection_of(literal, change).name, _named_args(literal), literal.atom.span))


def spell_out(rule: Rule, relations: Mapping[str, Relation]) -> Rule:
    """A rule with variables for the wildcards of its atoms: there is an instance for each fact they match.

    p(x) :- q(x, _), !r(x, _).   →   p(x) :- q(x, @any0), !r(x, _).
    """
    numbers = count()
    body: list[Literal] = []
    for literal in rule.body:
        if isinstance(literal, Atom) and any(isinstance(arg, Wildcard) for arg in literal.args):
            types = [attribute.type for attribute in relations[literal.relation].attributes]
            args = tuple(
                Variable(f"@any{next(numbers)}", kind) if isinstance(arg, Wildcard) else arg
                for arg, kind in zip(literal.args, types, strict=True)
            )
            literal = replace(literal, args=args)
        body.append(literal)
    return replace(rule, body=tuple(body))


def into_going(rule: Rule) -> Rule:
    """The rule, with what it derives as candidates for deletion."""
    return replace(rule, head=replace(rule.head, relation=names.going(rule.head.relation)))


def rederiving(rule: Rule, values: Collection[int]) -> DeltaRule:
    """The rule for what was overdeleted of its head; with columns of values, for the keys of that."""
    args = tuple(Wildcard() if place in values else arg for place, arg in enumerate(rule.head.args))
    driver = Atom(names.gone(rule.head.relation), args, rule.head.span)
    variant = Variant(replace(rule, body=(driver, *rule.body)), 0, frozenset())
    return DeltaRule(variant, driver.relation)


def find_group(rule: Rule, aggregate: Aggregate, number: str) -> Group:
    """Which groups of an aggregate a change touches: those that its body, started from the change, finds.

    Only if the atoms of the body bind all outer variables, and the rest of it reads no relation. What can
    fail is left out, since the guards outside the aggregate are: it may find more groups than are touched.
    """
    reads = frozenset(body_relations(aggregate.body))
    bound = {arg for part in aggregate.body if isinstance(part, Atom) for arg in part.args}
    simple = all(not isinstance(part, Negation | Aggregate) for part in aggregate.body)
    if not simple or not set(aggregate.outer) <= bound:
        return Group(names.affected(number, 0), (), reads, ())
    name = names.affected(number, len(aggregate.outer))
    head = Atom(name, aggregate.outer, rule.head.span)
    body = without_fallible(aggregate.body)
    finding = RuleDeltas(
        Rule(head, body, rule.span, rule.text),
        Direction.COMING,
        {},
        exact=False,
        is_recursive=False,
    )
    atoms = [i for i, part in enumerate(body) if isinstance(part, Atom)]
    return Group(name, aggregate.outer, reads, tuple(finding.of_atom(at) for at in atoms))


class DeltaRules:
    """`lower` start from what changed in lower strata, `recursive` from what changes in this one.

    `negated` and `groups` start from tables that the caller fills: projections of what changed, and the
    groups of aggregates that it touches. `again` start from what was overdeleted. Those that are GOING derive
    candidates for deletion, those that are COMING the facts themselves: `originals` says of which rule they
    find instances. `reads_itself` are the relations of the stratum that its rules read. `reads` are the
    relations below; `reads_against` those of them whose new facts may take others away. With `exact`, each
    instance of a rule is found once.
    """

    def __init__(self, rules: StratumRules, relations: Mapping[str, Relation], *, exact: bool) -> None:
        self.tables = rules.tables
        self.rules = tuple(spell_out(rule, relations) for rule in rules.rules) if exact else rules.rules
        self._members, self._exact = rules.members, exact
        self.lower: dict[Direction, list[DeltaRule]] = {direction: [] for direction in Direction}
        self.recursive: dict[Direction, list[DeltaRule]] = {direction: [] for direction in Direction}
        self.negated: dict[Direction, list[tuple[DeltaRule, Projection]]] = {d: [] for d in Direction}
        self.groups: list[tuple[Group, dict[Direction, DeltaRule]]] = []
        self.again = [rederiving(rule, rules.values(rule.head.relation)) for rule in self.rules]
        self.originals: dict[Rule, Rule] = {
            again.variant.rule: rule for again, rule in zip(self.again, self.rules, strict=True)
        }
        for rule in self.rules:
            self._add(rule, rules.relations[0])
        self.reads_itself = frozenset(delta.trigger for delta in self.recursive[Direction.GOING])
        read = frozenset().union(*(body_relations(rule.body) for rule in self.rules))
        copied = frozenset(part for parts in rules.parts.values() for part, _ in parts)
        self.reads = (read | copied) - self._members
        self.reads_against = frozenset(
            name
            for rule in self.rules
            for part in rule.body
            if not isinstance(part, Atom)
            for name in body_relations([part])
        )

    def _add(self, rule: Rule, stratum: str) -> None:
        """Make the delta rules of a rule."""
        aggregates = [part for part in rule.body if isinstance(part, Aggregate)]
        first = len(self.groups)
        groups = {
            aggregate: find_group(rule, aggregate, f"{stratum}.{first + k}")
            for k, aggregate in enumerate(dict.fromkeys(aggregates))
        }
        driven: dict[Aggregate, dict[Direction, DeltaRule]] = {aggregate: {} for aggregate in groups}
        for direction, form in ((Direction.GOING, into_going(rule)), (Direction.COMING, rule)):
            deltas = RuleDeltas(form, direction, groups, self._exact, self._is_recursive(rule))
            found: list[DeltaRule] = []
            for at, literal in enumerate(rule.body):
                if isinstance(literal, Atom):
                    is_member = literal.relation in self._members
                    found.append(deltas.of_member(at) if is_member else deltas.of_atom(at))
                    (self.recursive if is_member else self.lower)[direction].append(found[-1])
                elif isinstance(literal, Negation):
                    self.negated[direction].append(deltas.of_negation(at))
                    found.append(self.negated[direction][-1][0])
                elif isinstance(literal, Aggregate) and direction not in driven[literal]:
                    driven[literal][direction] = deltas.of_aggregate(at)
                    found.append(driven[literal][direction])
            if direction is Direction.COMING:
                self.originals |= {delta.variant.rule: rule for delta in found}
        self.groups += [(group, driven[aggregate]) for aggregate, group in groups.items()]

    def _is_recursive(self, rule: Rule) -> bool:
        return bool(member_positions(rule, self._members))

    @cached_property
    def projections(self) -> list[Projection]:
        """What is asked of changes: for each negated literal what came, and what went."""
        literals = [part for rule in self.rules for part in rule.body if isinstance(part, Negation)]
        projections = (projection_of(part, change) for part in literals for change in ("deleted", "inserted"))
        return list(dict.fromkeys(projections))

    @cached_property
    def drivers(self) -> dict[str, int]:
        """The tables that the caller fills, with their arities."""
        arities = {projection.name: len(projection.columns) for projection in self.projections}
        return arities | {group.name: len(group.outer) for group, _ in self.groups}

    @cached_property
    def all_rules(self) -> list[Rule]:
        """Every rule that is evaluated in some form."""
        rules: dict[Rule, None] = {}
        for by_direction in (self.lower, self.recursive):
            rules.update((delta.variant.rule, None) for deltas in by_direction.values() for delta in deltas)
        rules.update((delta.variant.rule, None) for deltas in self.negated.values() for delta, _ in deltas)
        for group, driven in self.groups:
            rules.update((delta.variant.rule, None) for delta in (*group.rules, *driven.values()))
        rules.update((delta.variant.rule, None) for delta in self.again)
        for rule in self.rules:
            rules.update([(rule, None), (into_going(rule), None)])
        return list(rules)

    @cached_property
    def bounding(self) -> list[str]:
        """The relations whose bounds say what rules can derive."""
        relations: dict[str, None] = {}
        for rule in self.rules:
            relations.update(dict.fromkeys([rule.head.relation, *sorted(body_relations(rule.body))]))
        return list(relations)

    def whole(self, rule: Rule, direction: Direction = Direction.COMING) -> DeltaRule:
        """The rule evaluated once over everything."""
        going = direction is Direction.GOING
        form = into_going(rule) if going else rule
        return DeltaRule(Variant(form, None, frozenset(), in_hindsight=going), "", self._is_recursive(rule))
