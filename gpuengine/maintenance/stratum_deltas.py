"""All delta rules of one stratum, made once: which change starts which of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from gpuengine.language.program import Aggregate, Atom, Negation, Relation, Rule
from gpuengine.maintenance.delta_rules import (
    DeltaRule,
    Deltas,
    Direction,
    Group,
    Projection,
    find_group,
    into_going,
    projection_of,
    rederiving,
    spell_out,
)
from gpuengine.maintenance.stratum_rules import StratumRules
from gpuengine.planning.plan import Variant
from gpuengine.planning.strata import body_relations, member_positions


class StratumDeltas:
    """`lower` start from what changed in lower strata, `recursive` from what changes in this one.

    `negated` and `groups` start from tables that the caller fills: projections of what changed, and the
    groups of aggregates that it touches. `again` start from what was overdeleted. Those that are GOING derive
    candidates for deletion, those that are COMING the facts themselves. `reads_itself` are the relations of
    the stratum that its rules read. `reads` are the relations below; `reads_against` those of them whose new
    facts may take others away. With `exact`, each instance of a rule is found once.
    """

    def __init__(self, rules: StratumRules, relations: Mapping[str, Relation], *, exact: bool) -> None:
        self.tables = rules.tables
        self.rules = tuple(spell_out(rule, relations) for rule in rules.rules) if exact else rules.rules
        self._members, self._exact = rules.members, exact
        self.lower: dict[Direction, list[DeltaRule]] = {direction: [] for direction in Direction}
        self.recursive: dict[Direction, list[DeltaRule]] = {direction: [] for direction in Direction}
        self.negated: dict[Direction, list[tuple[DeltaRule, Projection]]] = {d: [] for d in Direction}
        self.groups: list[tuple[Group, dict[Direction, DeltaRule]]] = []
        self.again = [rederiving(rule) for rule in self.rules]
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
            deltas = Deltas(form, direction, groups, self._exact, self._is_recursive(rule))
            for at, literal in enumerate(rule.body):
                if isinstance(literal, Atom):
                    if literal.relation in self._members:
                        self.recursive[direction].append(deltas.of_member(at))
                    else:
                        self.lower[direction].append(deltas.of_atom(at))
                elif isinstance(literal, Negation):
                    self.negated[direction].append(deltas.of_negation(at))
                elif isinstance(literal, Aggregate) and direction not in driven[literal]:
                    driven[literal][direction] = deltas.of_aggregate(at)
        self.groups += [(group, driven[aggregate]) for aggregate, group in groups.items()]

    def _is_recursive(self, rule: Rule) -> bool:
        return bool(member_positions(rule, self._members))

    @cached_property
    def projections(self) -> list[Projection]:
        """What is asked of changes: for each negated literal what came, and what went."""
        literals = [part for rule in self.rules for part in rule.body if isinstance(part, Negation)]
        found = (projection_of(part, change) for part in literals for change in ("deleted", "inserted"))
        return list(dict.fromkeys(found))

    @cached_property
    def drivers(self) -> dict[str, int]:
        """The tables that the caller fills, with their arities."""
        found = {projection.name: len(projection.columns) for projection in self.projections}
        return found | {group.name: len(group.outer) for group, _ in self.groups}

    @cached_property
    def all_rules(self) -> list[Rule]:
        """Every rule that is evaluated in some form."""
        found: dict[Rule, None] = {}
        for by_direction in (self.lower, self.recursive):
            found.update((delta.variant.rule, None) for deltas in by_direction.values() for delta in deltas)
        found.update((delta.variant.rule, None) for deltas in self.negated.values() for delta, _ in deltas)
        for group, driven in self.groups:
            found.update((delta.variant.rule, None) for delta in (*group.rules, *driven.values()))
        found.update((delta.variant.rule, None) for delta in self.again)
        for rule in self.rules:
            found.update([(rule, None), (into_going(rule), None)])
        return list(found)

    @cached_property
    def bounding(self) -> list[str]:
        """The relations whose bounds say what rules can derive."""
        found: dict[str, None] = {}
        for rule in self.rules:
            found.update(dict.fromkeys([rule.head.relation, *sorted(body_relations(rule.body))]))
        return list(found)

    def whole(self, rule: Rule, direction: Direction = Direction.COMING) -> DeltaRule:
        """The rule evaluated once over everything."""
        form = into_going(rule) if direction is Direction.GOING else rule
        return DeltaRule(Variant(form, None, frozenset()), "", self._is_recursive(rule))
