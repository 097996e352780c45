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
from gpuengine.evaluation.bounds import flow_bounds
from gpuengine.evaluation.context import Context
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Rule
from gpuengine.maintenance import names
from gpuengine.maintenance.delta_rules import Direction
from gpuengine.maintenance.derivations import CountedDerivations, Derivations, SetDerivations
from gpuengine.maintenance.passing import facts_over
from gpuengine.maintenance.stated import Facts, StatedFacts
from gpuengine.maintenance.stratum_deltas import StratumDeltas
from gpuengine.maintenance.stratum_rules import StratumRules
from gpuengine.maintenance.transition import Changes, Transition, View, table_of
from gpuengine.planning.strata import body_relations
from gpuengine.schemes.changed import Changed, PairSnapshot
from gpuengine.schemes.contract import Domain, Scheme
from gpuengine.schemes.pairs import PairScheme
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union

_MOST_PASSING = 1 << 22
"""If more facts pass over edges that go, everything is computed anew."""


class SlowerThanAnew(Exception):
    """Maintaining has taken so long that to compute everything anew is likely to be faster."""


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
        self.database = context.database
        self.stated = stated
        self.read_above = read_above
        self.derivations = self._choose_derivations()
        self.deltas = self.derivations.deltas
        self._relation_of = {entry: relation for relation, entry in rules.entries.items()}
        self._bounds: list[object] | None = None
        self.is_running = False
        self._marks: dict[str, int] = {}
        self._before: dict[str, PairSnapshot] = {}
        self._stood_for: dict[str, Scheme] = {}
        self._make_hidden_tables()
        self.derivations.recount()

    # -- set-up ----------------------------------------------------------------------------------------

    def _choose_derivations(self) -> Derivations:
        """With counters, unless a scheme answers in its own way for what the stratum's recursion reads."""
        relations, members = self.context.database.program.relations, self.rules.members
        plain = StratumDeltas(self.rules, relations, exact=False)
        if not self.context.counting or plain.reads_itself & {*self.rules.fed, *self.rules.parts}:
            return SetDerivations(self.context, plain, members)
        return CountedDerivations(self.context, StratumDeltas(self.rules, relations, exact=True), members)

    def _make_hidden_tables(self) -> None:
        """Make the tables that maintenance needs; fill those that feed other schemes."""
        tables = self.database.tables
        arities = {entry: tables[relation].arity for relation, entry in self.rules.entries.items()}
        arities |= {rule.head.relation: len(rule.head.args) for rule in self.rules.rules}
        missing = [name for name in self.rules.tables if name not in tables]
        for name in missing:
            tables[name] = Table(name, arities[name], CPU)
        for name, arity in arities.items():
            for hidden in (names.going(name), names.gone(name)):
                tables.setdefault(hidden, Table(hidden, arity, CPU))
        for relation in self.rules.fed:
            for hidden in (names.gone(relation), names.come(relation)):
                tables.setdefault(hidden, Table(hidden, tables[relation].arity, CPU))
        for name, arity in self.deltas.drivers.items():
            tables.setdefault(name, Table(name, arity, CPU))
        for name in self.rules.tables:
            table = self._table(name)
            table.move_to(CPU)
            table.maintained = True
        self._fill(missing)

    def _fill(self, missing: list[str]) -> None:
        """What rules derive and users state in the tables that are new: all else is known by now."""
        for name in missing:
            for columns, count in self.stated.facts(self._relation_of[name]):
                self._table(name).insert(columns, count)
        self._flow_bounds()
        for rule in self.rules.rules:
            if rule.head.relation in missing:
                self.derivations.runner.run(self.deltas.whole(rule).variant)
        for name in missing:
            self._table(name).settle()
        for relation, entry in self.rules.fed.items():
            if entry in missing:
                self._keep_all_edges(relation, self._table(entry))
        for relation, parts in self.rules.parts.items():
            own = self._table(self.rules.entries[relation])
            members = [Part(self.database.tables[part], permutation) for part, permutation in parts]
            self.database.tables[relation] = Union(relation, members, own)

    def _keep_all_edges(self, relation: str, external: Table) -> None:
        """Have a closure or an equivalence keep every external fact, also those it could do without."""
        scheme = self.database.tables[relation]
        assert isinstance(scheme, PairScheme)
        scheme.keep_edges(external.columns())

    # -- one update ------------------------------------------------------------------------------------

    def run(self, changes: Changes, own: StratumChange) -> None:
        """Bring the stratum up to date with what changed below it and with what is asked of it."""
        reads = self.deltas.reads | frozenset(
            name for rule in own.removed_rules for name in body_relations(rule.body)
        )
        reads -= self.rules.members
        if not own and not any(changes.deleted(name) or changes.inserted(name) for name in reads):
            return
        self.is_running = True
        self._flow_bounds()
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
        self._note_changes(changes)

    def _may_lose(self, changes: Changes, own: StratumChange) -> bool:
        """Can the stratum lose facts at all?"""
        if own.deleted or own.removed_rules or any(changes.deleted(name) for name in self.deltas.reads):
            return True
        return any(changes.inserted(name) for name in self.deltas.reads_against)

    def _find_going(self, changes: Changes, own: StratumChange) -> None:
        """What loses a derivation by what changed below, or is no longer stated."""
        for relation, (columns, count) in own.deleted.items():
            self._table(names.going(self.rules.entries[relation])).insert(columns, count)
        self._remember_schemes()
        self._start(Direction.GOING, changes)
        for rule in own.removed_rules:
            self.derivations.runner.run(self.deltas.whole(rule, Direction.GOING).variant)

    def _overdelete(self) -> None:
        """Take out what was found, and what loses a derivation by that, and so on."""
        seen = dict.fromkeys(self.rules.tables, 0)
        while self._delete_next(seen):
            for rule in self.deltas.recursive[Direction.GOING]:
                if self._has_new(rule.trigger):
                    self.derivations.run(rule, Direction.GOING)
            self._remove()
            self._check()

    def _delete_next(self, seen: dict[str, int]) -> bool:
        """Make NEW what was found to go since the last time; is there any?"""
        any_new = False
        for name in self.rules.tables:
            found = self._table(names.going(name))
            columns = [column[seen[name] : found.rows.count].copy() for column in found.columns()]
            count, seen[name] = found.rows.count - seen[name], found.rows.count
            table = self._table(name)
            if count:
                goes = table.contains(columns, count)
                goes &= ~self.derivations.has_other(name, columns, count)
                if name in self._relation_of:
                    goes &= ~self.stated.contains(self._relation_of[name], columns, count)
                columns, count = [column[goes] for column in columns], int(np.count_nonzero(goes))
            if count:
                table.delete(columns, count)
                self._table(names.gone(name)).insert(columns, count)
                any_new = True
        for relation, entry in self.rules.fed.items():
            self._delete_edges(relation, self._table(entry))
        return any_new

    def _delete_edges(self, relation: str, external: Table) -> None:
        """Have a closure or an equivalence follow its external facts."""
        start, end = external.rows.delta
        if start < end:
            scheme = self._pairs(relation)
            edges = [column[start:end].copy() for column in external.columns()]
            passing = self._passing(scheme, edges) if relation in self.deltas.reads_itself else None
            scheme.delete(edges, end - start)
            self._list_new(scheme, names.gone(relation))
            if passing is not None:
                self._stood_for[relation] = scheme
                self.database.tables[relation] = passing

    def _passing(self, scheme: PairScheme, edges: list[np.ndarray]) -> Changed:
        """What stands for a relation that its own stratum reads: NEW is all that edges that go support."""
        before = PairSnapshot(scheme, both_ways=True)
        facts = facts_over(before, edges, _MOST_PASSING)
        if facts is None:
            raise SlowerThanAnew
        return Changed(before, facts)

    def _stand_back(self) -> None:
        self.database.tables.update(self._stood_for)
        self._stood_for.clear()

    def _remove(self) -> None:
        self._stand_back()
        for name in self.rules.tables:
            self._table(name).take_back()
        for relation in self.rules.fed:
            scheme = self._pairs(relation)
            if scheme.count(Domain.NEW):
                scheme.remove()
                scheme.forget()

    def _find_coming(self, changes: Changes, own: StratumChange) -> None:
        """What is stated, what follows again, and what gains a derivation by what changed below."""
        self._remember_schemes()
        for name in self.rules.tables:
            table = self._table(name)
            table.take_in()
            self._marks[name] = len(table)
        for relation, (columns, count) in own.inserted.items():
            self._table(self.rules.entries[relation]).insert(columns, count)
        self._flow_bounds()
        self.derivations.rederive()
        self._start(Direction.COMING, changes)
        for added in own.added_rules:
            self.derivations.runner.run(self.deltas.whole(added).variant)

    def _insert(self) -> None:
        """Take in what was found, and what gains a derivation by that, and so on."""
        while self._advance():
            for rule in self.deltas.recursive[Direction.COMING]:
                if self._has_new(rule.trigger):
                    self.derivations.run(rule, Direction.COMING)
            self._check()
        self._settle()

    def _start(self, direction: Direction, changes: Changes) -> None:
        """Run the rules that start from what changed below: atoms, negated atoms, aggregates."""
        view = View.BEFORE if direction is Direction.GOING else View.AFTER
        for rule in self.deltas.lower[direction]:
            if changes.shows_new(rule.trigger, view):
                self.derivations.run(rule, direction)
        driven = [rule for rule, _ in self.deltas.negated[direction]]
        driven += [rules[direction] for _, rules in self.deltas.groups]
        for rule in driven:
            if len(self._table(rule.trigger)):
                self.derivations.run(rule, direction)

    def _project_changes(self, changes: Changes) -> None:
        """Fill the tables that rules with negated literals start from."""
        for projection in self.deltas.projections:
            table = self._clear(projection.name)
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
            self._clear(group.name)
        for group in touched:
            if not group.rules:
                self._table(group.name).insert([], 1)
        for view, changed in ((View.AFTER, changes.inserted), (View.BEFORE, changes.deleted)):
            if not any(group.rules for group in touched):
                break
            changes.show(self.deltas.reads, view)
            for rule in (rule for group in touched for rule in group.rules):
                if changed(rule.trigger):
                    self.derivations.runner.run(rule.variant)
        for group in touched:
            self._table(group.name).renew()

    def _advance(self) -> bool:
        """What was derived becomes NEW; is there any?"""
        any_new = False
        for name in self.rules.tables:
            table = self._table(name)
            any_new |= table.advance() > 0
            table.refresh_indexes()
        for relation, entry in self.rules.fed.items():
            external, scheme = self._table(entry), self._pairs(relation)
            start, end = external.rows.delta
            if start < end:
                scheme.insert([column[start:end].copy() for column in external.columns()], end - start)
                scheme.advance()
                self._list_new(scheme, names.come(relation))
            elif scheme.count(Domain.NEW):
                scheme.settle()
        return any_new

    def _settle(self) -> None:
        for name in self.rules.tables:
            table = self._table(name)
            table.take_in()
        for relation in self.rules.fed:
            self._pairs(relation).settle()

    def _note_changes(self, changes: Changes) -> None:
        """Tell upper strata the net change of each relation, and be ready for the next update."""
        for name in self.rules.tables:
            table, gone = self._table(name), self._table(names.gone(name))
            tail = [column[self._marks[name] :] for column in table.columns()]
            came = len(table) - self._marks[name]
            net = _net(table, gone, tail, came)
            changes.add(Transition(table, *net, at_end=len(net[1]) == came))
        for relation in self.rules.fed:
            scheme, gone = self._pairs(relation), self._table(names.gone(relation))
            come = self._table(names.come(relation))
            net = _net(scheme, gone, come.columns(), len(come))
            changes.add(Transition(scheme, *net, self._before.get(relation)))
        for relation, parts in self.rules.parts.items():
            union = self.database.tables[relation]
            assert isinstance(union, Union)
            changes.add_union(union, parts)
        self.forget()

    def forget(self) -> None:
        """Empty what only one update needs."""
        self.is_running = False
        self._before.clear()
        self._marks.clear()
        for name in self.rules.tables:
            self._clear(names.going(name))
            self._clear(names.gone(name))
        for relation in self.rules.fed:
            self._clear(names.gone(relation))
            self._clear(names.come(relation))

    def undo(self) -> None:
        """After a failure in `run`: bring back what was there before it."""
        self._stand_back()
        for name in self.rules.tables:
            table, gone = self._table(name), self._table(names.gone(name))
            if name in self._marks:
                tail = [column[self._marks[name] :].copy() for column in table.columns()]
                count = len(table) - self._marks[name]
                table.delete(tail, count)
                table.take_back()
            else:
                table.settle()
            table.insert(gone.columns(), len(gone))
            table.take_in()
        for relation, entry in self.rules.fed.items():
            if relation in self._before:
                self._pairs(relation).rebuild(self._table(entry).columns())
        self.forget()

    def rebuild_schemes(self, changes: Changes) -> None:
        """After the tables have been undone: have closures and equivalences follow them again."""
        for relation, entry in self.rules.fed.items():
            if relation in changes.transitions or entry in changes.transitions:
                self._pairs(relation).rebuild(self._table(entry).columns())

    # -- small things ----------------------------------------------------------------------------------

    def _remember_schemes(self) -> None:
        """Keep what closures and equivalences were, for upper strata; O(nodes) at most."""
        for relation in self.rules.fed:
            if relation not in self._before:
                both = relation in self.read_above
                self._before[relation] = PairSnapshot(self._pairs(relation), both_ways=both)

    def _list_new(self, scheme: PairScheme, name: str) -> None:
        """Put what is NEW in a table."""
        self.context.budget.check_answers(scheme.count(Domain.NEW), scheme.arity)
        for batch in scheme.scan(Domain.NEW):
            self._table(name).insert(batch, len(batch[0]))

    def _has_new(self, relation: str) -> bool:
        scheme = self.database.tables[relation]
        return isinstance(scheme, Union) or scheme.count(Domain.NEW) > 0

    def _driver(self, name: str) -> Table:
        """A table that drives rules, all of it NEW."""
        table = self._table(name)
        table.renew()
        return table

    def _clear(self, name: str) -> Table:
        table = self._table(name)
        table.renew()
        table.take_back()
        return table

    def _table(self, name: str) -> Table:
        table = self.database.tables[name]
        assert isinstance(table, Table)
        return table

    def _pairs(self, name: str) -> PairScheme:
        scheme = self.database.tables[name]
        assert isinstance(scheme, PairScheme)
        return scheme

    def _flow_bounds(self) -> None:
        """Have every table admit what rules can bring, if what they read admits more than last time."""
        bounds: list[object] = [self.database.tables[name].bounds for name in self.deltas.bounding]
        if bounds == self._bounds:
            return
        for name in self.rules.tables:
            for hidden in (names.going(name), names.gone(name)):
                self._table(hidden).widen(self._table(name).bounds)
        for projection in self.deltas.projections:
            source = self.database.tables[projection.relation].bounds
            self._table(projection.name).widen([source[c] for c in projection.columns])
        flow_bounds(self.deltas.all_rules, self.database)
        self._bounds = [self.database.tables[name].bounds for name in self.deltas.bounding]

    def _check(self) -> None:
        progress = self.context.progress
        progress.rounds += 1
        progress.round_in_stratum += 1
        if self.context.stop[0]:
            raise Interrupted("stopped")
        if time.perf_counter() > self.context.deadline:
            raise SlowerThanAnew


def _any_changed(changes: Changes, relations: Iterable[str]) -> bool:
    return any(changes.deleted(name) or changes.inserted(name) for name in relations)


def _net(scheme: Scheme, gone: Table, came: list[np.ndarray], count: int) -> tuple[Table, Table]:
    """What went and did not come back, and what came and had not been there."""
    name, arity = scheme.name, scheme.arity
    columns = gone.columns()
    lost = ~scheme.contains(columns, len(gone)) if len(gone) else np.zeros(0, np.bool_)
    fresh = ~gone.contains(came, count) if count and len(gone) else np.ones(count, np.bool_)
    return (
        table_of(name, arity, [column[lost] for column in columns], int(np.count_nonzero(lost))),
        table_of(name, arity, [column[fresh] for column in came], int(np.count_nonzero(fresh))),
    )
