"""What a change of facts makes of a rule: the rule once for each way in which an instance can come or go.

An instance goes if a fact it reads goes, if one that it negates comes, or if a group that it aggregates
changes; it comes the other way round. The first such literal is where it is found, so that it is found once:

    p(x) :- q(x, y), !r(y).       going:  @p.going(x) :- Δq(x, y), !r(y).
                                          @p.going(x) :- @r.inserted(y), q(x, y), !r(y).
                                  coming: p(x) :- Δq(x, y), !r(y).
                                          p(x) :- @r.deleted(y), q(x, y), !r(y).
                                  again:  p(x) :- @p.gone(x), q(x, y), !r(y).

What goes is looked for in the state before the change, what comes in the state after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count

from gpuengine.language.program import (
    Aggregate,
    Atom,
    AtomArg,
    Literal,
    Negation,
    Relation,
    Rule,
    Variable,
    Wildcard,
)
from gpuengine.maintenance import names
from gpuengine.planning.plan import Variant
from gpuengine.planning.strata import body_relations


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
class Deltas:
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
        return DeltaRule(Variant(rule, at, self._atoms_before(at)), atom.relation, self.is_recursive)

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
        return DeltaRule(Variant(rule, at, self._atoms_before(at)), atom.relation, self.is_recursive)

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
        return DeltaRule(Variant(rule, 0, old), relation, self.is_recursive)

    def _atoms_before(self, at: int) -> frozenset[int]:
        return frozenset(i for i, part in enumerate(self.rule.body[:at]) if isinstance(part, Atom))

    def _unchanged_before(self, at: int) -> list[Literal]:
        """That the negated literals and the aggregates before a place did not change."""
        if not self.exact:
            return []
        change = "inserted" if self.direction is Direction.GOING else "deleted"
        found: list[Literal] = []
        for literal in self.rule.body[:at]:
            if isinstance(literal, Negation):
                found.append(_absent(literal, change))
            elif isinstance(literal, Aggregate):
                found.append(self._untouched(literal))
        return found

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


def rederiving(rule: Rule) -> DeltaRule:
    """The rule for what was overdeleted of its head."""
    driver = Atom(names.gone(rule.head.relation), rule.head.args, rule.head.span)
    variant = Variant(replace(rule, body=(driver, *rule.body)), 0, frozenset())
    return DeltaRule(variant, driver.relation)


def find_group(rule: Rule, aggregate: Aggregate, number: str) -> Group:
    """Which groups of an aggregate a change touches: those that its body, started from the change, finds.

    Only if the atoms of the body bind all outer variables, and the rest of it reads no relation.
    """
    reads = frozenset(body_relations(aggregate.body))
    bound = {arg for part in aggregate.body if isinstance(part, Atom) for arg in part.args}
    simple = all(not isinstance(part, Negation | Aggregate) for part in aggregate.body)
    if not simple or not set(aggregate.outer) <= bound:
        return Group(names.affected(number, 0), (), reads, ())
    name = names.affected(number, len(aggregate.outer))
    head = Atom(name, aggregate.outer, rule.head.span)
    finding = Deltas(
        Rule(head, aggregate.body, rule.span, rule.text),
        Direction.COMING,
        {},
        exact=False,
        is_recursive=False,
    )
    atoms = [i for i, part in enumerate(aggregate.body) if isinstance(part, Atom)]
    return Group(name, aggregate.outer, reads, tuple(finding.of_atom(at) for at in atoms))
