"""Maintain one stratum: overdelete, then rederive and insert (DRed with modules, Algorithm 3 of the paper).

Overdeletion takes out, round by round, what has lost a derivation, unless it is stated; what follows from the
rest comes back with what is new, in one semi-naive evaluation that begins with the rules restricted to
what was overdeleted. Closures and equivalences are exact by themselves: they follow the table they are fed
from and are never overdeleted on their own account.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.context import Context
from gpuengine.language.program import Rule
from gpuengine.maintenance import names
from gpuengine.maintenance.delta_rules import Direction
from gpuengine.maintenance.derivations import CountedDerivations, Derivations, SetDerivations
from gpuengine.maintenance.stated import Facts, StatedFacts
from gpuengine.maintenance.stratum_deltas import StratumDeltas
from gpuengine.maintenance.stratum_rules import StratumRules
from gpuengine.maintenance.stratum_tables import SlowerThanAnew, StratumTables
from gpuengine.maintenance.transition import Changes, View
from gpuengine.planning.strata import body_relations

_FEW = 10_000
_SECONDS_A_FACT = 1e-6
"""About what it takes to overdelete a fact, and to look for it again."""


@dataclass
class StratumChange:
    """What an update asks of a stratum by itself: facts by relation, and rules."""

    deleted: dict[str, Facts] = field(default_factory=dict)
    inserted: dict[str, Facts] = field(default_factory=dict)
    removed_rules: tuple[Rule, ...] = ()
    added_rules: tuple[Rule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deleted or self.inserted or self.removed_rules or self.added_rules)


class StratumMaintenance:
    """Keeps the relations of one stratum true; lives as long as the program and its schemes stay the same.

    `stated` tells which facts hold by themselves, `read_above` which relations upper strata read. Between
    updates everything is settled; `run` leaves a transition in `changes` for each relation that changed;
    `undo` brings back what was there before `run`.
    """

    def __init__(
        self,
        rules: StratumRules,
        context: Context,
        stated: StatedFacts,
        *,
        read_above: frozenset[str],
    ) -> None:
        self.rules = rules
        self.context = context
        self.stated = stated
        self.derivations = self._choose_derivations()
        self.deltas = self.derivations.deltas
        self.tables = StratumTables(rules, self.deltas, context, read_above)
        self._relation_of = {entry: relation for relation, entry in rules.entries.items()}
        self.is_running = False
        self._fill(self.tables.make_missing())
        self.derivations.recount()

    # -- set-up ----------------------------------------------------------------------------------------

    def _choose_derivations(self) -> Derivations:
        """With counters, unless a scheme answers in its own way for what the stratum's recursion reads."""
        relations, members = self.context.database.program.relations, self.rules.members
        plain = StratumDeltas(self.rules, relations, exact=False)
        if not self.context.counting or plain.reads_itself & {*self.rules.fed, *self.rules.parts}:
            return SetDerivations(self.context, plain, members)
        return CountedDerivations(self.context, StratumDeltas(self.rules, relations, exact=True), members)

    def _fill(self, missing: list[str]) -> None:
        """What rules derive and users state in the tables that are new: all else is known by now."""
        for name in missing:
            relation = self._relation_of.get(name)
            for columns, count in () if relation is None else self.stated.facts(relation):
                self.tables.table(name).insert(columns, count)
        self.tables.flow_bounds()
        for rule in self.rules.rules:
            if rule.head.relation in missing:
                self.derivations.runner.run(self.deltas.whole(rule).variant)
        for name in missing:
            self.tables.table(name).settle()
        self.tables.feed_schemes(missing)

    # -- one update ------------------------------------------------------------------------------------

    def run(self, changes: Changes, own: StratumChange) -> None:
        """Bring the stratum up to date with what changed below it and with what is asked of it."""
        reads = self.deltas.reads | frozenset(
            name for rule in own.removed_rules for name in body_relations(rule.body)
        )
        reads -= self.rules.members
        if not own and not any(changes.net(name) for name in reads):
            return
        self.is_running = True
        self.tables.flow_bounds()
        self._project_changes(changes)
        self._find_affected(changes)
        if self._may_lose(changes, own):
            changes.show(reads, View.BEFORE)
            self._find_going(changes, own)
            changes.show(reads, View.COMMON)
            self._overdelete()
        changes.show(reads, View.AFTER)
        self._find_coming(changes, own)
        changes.show(reads, View.NOW)
        self._insert()
        self.tables.note_changes(changes)
        self.is_running = False

    def _may_lose(self, changes: Changes, own: StratumChange) -> bool:
        """Can the stratum lose facts at all?"""
        if (
            own.deleted
            or own.removed_rules
            or any(changes.may_show_new(name, View.BEFORE) for name in self.deltas.reads)
        ):
            return True
        return any(changes.may_show_new(name, View.AFTER) for name in self.deltas.reads_against)

    def undo(self) -> None:
        """After a failure in `run`: bring back what was there before it."""
        self.tables.undo()
        self.is_running = False

    def _find_going(self, changes: Changes, own: StratumChange) -> None:
        """What loses a derivation by what changed below, or is no longer stated."""
        for relation, (columns, count) in own.deleted.items():
            self.tables.table(names.going(self.rules.entries[relation])).insert(columns, count)
        self.tables.remember_schemes()
        self._start(Direction.GOING, changes)
        for rule in own.removed_rules:
            self.derivations.runner.run(self.deltas.whole(rule, Direction.GOING).variant)

    def _overdelete(self) -> None:
        """Take out what was found, and what loses a derivation by that, and so on."""
        seen = dict.fromkeys(self.rules.tables, 0)
        while self._delete_next(seen):
            for rule in self.deltas.recursive[Direction.GOING]:
                if self.tables.has_new(rule.trigger):
                    self.derivations.run(rule, Direction.GOING)
                    self._check_time()
            self.tables.remove()
            self._check()

    def _delete_next(self, seen: dict[str, int]) -> bool:
        """Make NEW what was found to go since the last time; is there any?"""
        any_new = False
        for name in self.rules.tables:
            found = self.tables.table(names.going(name))
            columns = [column[seen[name] : found.rows.count].copy() for column in found.columns()]
            count, seen[name] = found.rows.count - seen[name], found.rows.count
            table = self.tables.table(name)
            if count:
                goes = table.contains(columns, count)
                goes &= ~self.derivations.has_other(name, columns, count)
                if name in self._relation_of:
                    goes &= ~self.stated.contains(self._relation_of[name], columns, count)
                columns, count = [column[goes] for column in columns], int(np.count_nonzero(goes))
            if count:
                self._check_time(_SECONDS_A_FACT * count)
                self.tables.delete(name, columns, count)
                any_new = True
        self.tables.delete_edges()
        return any_new

    def _find_coming(self, changes: Changes, own: StratumChange) -> None:
        """What is stated, what follows again, and what gains a derivation by what changed below."""
        self.tables.begin_inserting()
        for relation, (columns, count) in own.inserted.items():
            self.tables.table(self.rules.entries[relation]).insert(columns, count)
        self.tables.flow_bounds()
        self.derivations.rederive(self._check_time)
        self._start(Direction.COMING, changes)
        for added in own.added_rules:
            self.derivations.runner.run(self.deltas.whole(added).variant)

    def _insert(self) -> None:
        """Take in what was found, and what gains a derivation by that, and so on."""
        while self.tables.advance():
            for rule in self.deltas.recursive[Direction.COMING]:
                if self.tables.has_new(rule.trigger):
                    self.derivations.run(rule, Direction.COMING)
                    self._check_time()
            self._check()
        self.tables.settle()

    def _start(self, direction: Direction, changes: Changes) -> None:
        """Run the rules that start from what changed below: atoms, negated atoms, aggregates."""
        view = View.BEFORE if direction is Direction.GOING else View.AFTER
        for rule in self.deltas.lower[direction]:
            if changes.may_show_new(rule.trigger, view):
                self.derivations.run(rule, direction)
                self._check_time()
        driven = [rule for rule, _ in self.deltas.negated[direction]]
        driven += [rules[direction] for _, rules in self.deltas.groups]
        for rule in driven:
            if len(self.tables.table(rule.trigger)):
                self.derivations.run(rule, direction)

    def _project_changes(self, changes: Changes) -> None:
        """Fill the tables that rules with negated literals start from."""
        for projection in self.deltas.projections:
            table = self.tables.clear(projection.name)
            source = changes.deleted if projection.change == "deleted" else changes.inserted
            facts = source(projection.relation)
            if facts:
                columns = [facts.column(c) for c in projection.columns]
                table.insert(columns, len(facts) if columns else 1)
                table.renew()

    def _find_affected(self, changes: Changes) -> None:
        """Find the groups of aggregates that what came, and what went, belongs to."""
        touched = [group for group, _ in self.deltas.groups if _any_changed(changes, group.reads)]
        for group, _ in self.deltas.groups:
            self.tables.clear(group.name)
        for group in touched:
            if not group.rules:
                self.tables.table(group.name).insert([], 1)
        for view in (View.AFTER, View.BEFORE):
            if not any(group.rules for group in touched):
                break
            changes.show(self.deltas.reads, view)
            for rule in (rule for group in touched for rule in group.rules):
                if changes.may_show_new(rule.trigger, view):
                    self.derivations.runner.run(rule.variant)
        for group in touched:
            self.tables.table(group.name).renew()

    def _check(self) -> None:
        progress = self.context.progress
        progress.rounds += 1
        progress.round_in_stratum += 1
        if self.context.stop[0]:
            raise Interrupted("stopped")
        self._check_time()

    def _check_time(self, seconds: float = 0.0) -> None:
        """Give up if the time is over, or will be before something is done that takes so long.

        Not for a few facts: if these took long it was to make indexes, which will be there the next time.
        """
        if time.perf_counter() + seconds > self.context.deadline and self.tables.touched > _FEW:
            raise SlowerThanAnew


def _any_changed(changes: Changes, relations: Iterable[str]) -> bool:
    return any(changes.net(name) for name in relations)
