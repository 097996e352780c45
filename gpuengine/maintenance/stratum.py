"""Maintain one stratum: overdelete, then rederive and insert (DRed with modules, Algorithm 3 of the paper).

Overdeletion takes out, round by round, what has lost a derivation, unless it is stated; what follows from the
rest comes back with what is new, in one semi-naive evaluation that begins with the rules restricted to
what was overdeleted. Closures and equivalences are exact by themselves: they follow the table they are fed
from and are never overdeleted on their own account.

If rules of its own stratum read a closure or an equivalence, what an edge supports may be what supports the
edge. Then all that passes over an edge loses a derivation, also where other edges still lead from one end to
the other:

    r(x, y) :- e(x, y).   r(x, z) :- r(x, y), r(y, z).   r(y, x) :- r(x, y).          e(1, 2) goes:
    r(1, 1) passes over (1, 2), and (1, 2), by (2, 1), over (1, 1).

Of relations that keep the best value of each key, what follows again is looked for by keys, and offered to
what selects it (`merged`, `folded`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.progress import StratumStatistics
from gpuengine.evaluation.rules.bounds import flow_bounds
from gpuengine.evaluation.rules.context import Context
from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.monotony import merges_of
from gpuengine.language.program import Rule
from gpuengine.loading import Facts
from gpuengine.maintenance import names
from gpuengine.maintenance.delta import Deltas, delta_of, pair_delta
from gpuengine.maintenance.derivations import CountedDerivations, Derivations, SetDerivations
from gpuengine.maintenance.folded import JoinedFacts, SummedFacts
from gpuengine.maintenance.merged import KeptFacts, MergedFacts, old_of
from gpuengine.maintenance.rules import DeltaRules, Direction, StratumRules
from gpuengine.maintenance.signs import Signs
from gpuengine.maintenance.stated import StatedFacts
from gpuengine.maintenance.update_deltas import UpdateDeltas, View
from gpuengine.planning.decline import declining_if
from gpuengine.planning.plan import body_relations
from gpuengine.schemes.contract import Columns, Domain, Scheme
from gpuengine.schemes.delta_view import DeltaView
from gpuengine.schemes.pairs import BACKWARD, FORWARD, Gone, PairScheme, PairSnapshot, as_pairs
from gpuengine.schemes.table import Table, as_table
from gpuengine.schemes.union import Part, Union, as_union

_OVERDELETE, _INSERT = "overdelete", "insert"
_FEW = 10_000
_MANY_ROUNDS = 1000
"""After so many, values may get better for ever, which is found out by computing anew."""
_SECONDS_A_FACT = 1e-6
"""About what it takes to overdelete a fact, and to look for it again."""
_MOST_PASSING = 1 << 22
"""If more facts pass over edges that go, everything is computed anew."""


class SlowerThanAnew(Exception):
    """To compute everything anew is likely to be faster."""


class StratumTables:
    """Moves the facts of a stratum through an update: out, back and in; at the end upper strata are told.

    A closure or an equivalence follows the table that it is fed from. `read_above` are the relations that
    upper strata read.
    """

    def __init__(
        self, rules: StratumRules, delta_rules: DeltaRules, context: Context, read_above: frozenset[str]
    ) -> None:
        self.rules = rules
        self.delta_rules = delta_rules
        self.database = context.database
        self.budget = context.budget
        self.placement = context.placement
        self.read_above = read_above
        self._bounds: list[object] | None = None
        self._marks: dict[str, int] = {}
        self._tails: dict[str, list[np.ndarray]] = {}
        self._before: dict[str, PairSnapshot] = {}
        self._stood_for: dict[str, Scheme] = {}
        self._gone: dict[str, list[Gone]] = {relation: [] for relation in rules.fed}
        self._come: dict[str, list[Gone]] = {relation: [] for relation in rules.fed}

    def make_missing(self) -> list[str]:
        """Make the tables that maintenance needs; which of those that rules derive into are new and empty."""
        tables = self.database.tables
        arities = {entry: tables[relation].arity for relation, entry in self.rules.entries.items()}
        arities |= {rule.head.relation: len(rule.head.args) for rule in self.rules.rules}
        where = self.placement.current
        missing = [name for name in self.rules.tables if name not in tables]
        for name in missing:
            tables[name] = Table(name, arities[name], where)
        needed = {hidden: arity for name, arity in arities.items() for hidden in names.hidden(name)}
        for name, arity in (needed | self.delta_rules.drivers).items():
            if name not in tables:
                tables[name] = Table(name, arity, where)
        for name in self.rules.tables:
            table = self.table(name)
            table.move_to(where)
            table.maintained = True
        return missing

    def feed_schemes(self, filled: list[str]) -> None:
        """Have closures and equivalences keep all facts of tables that were filled; unions read theirs."""
        for relation, entry in self.rules.fed.items():
            if entry in filled:
                self.pairs(relation).keep_edges(self.table(entry).columns())
        for relation, parts in self.rules.parts.items():
            own = self.table(self.rules.entries[relation])
            members = [Part(self.database.tables[part], permutation) for part, permutation in parts]
            self.database.tables[relation] = Union(relation, members, own)

    def flow_bounds(self) -> None:
        """Have every table admit what rules can bring, if what they read admits more than last time."""
        bounds: list[object] = [self.database.tables[name].bounds for name in self.delta_rules.bounding]
        if bounds == self._bounds:
            return
        for name in self.rules.tables:
            for hidden in names.hidden(name):
                self.table(hidden).widen(self.table(name).bounds)
        for projection in self.delta_rules.projections:
            source = self.database.tables[projection.relation].bounds
            self.table(projection.name).widen([source[c] for c in projection.columns])
        flow_bounds(self.delta_rules.all_rules, self.database)
        self._bounds = [self.database.tables[name].bounds for name in self.delta_rules.bounding]

    def remember_schemes(self) -> None:
        """Keep what closures and equivalences were, for upper strata; O(nodes) at most."""
        for relation in self.rules.fed:
            if relation not in self._before:
                scheme = self.pairs(relation)
                if relation in self.read_above:
                    scheme.reading(BACKWARD)
                self._before[relation] = PairSnapshot(scheme)

    def delete(self, name: str, columns: list[np.ndarray], count: int) -> None:
        """Make facts of a table NEW that go."""
        self.table(name).delete(columns, count)
        self.table(names.gone(name)).insert(columns, count)

    def drop_bettered(self, name: str, bettered: Facts) -> None:
        """Take facts out of a table for which better ones have come."""
        columns, count = bettered
        if not count:
            return
        table = self.table(name)
        tail = self._tails[name] = table.between(self._marks[name], len(table))
        self.table(names.gone(name)).insert(*old_of(bettered, tail))
        table.delete(columns, count)
        table.take_back()

    def delete_edges(self) -> None:
        """Have closures and equivalences follow what goes from the tables that they are fed from."""
        for relation, entry in self.rules.fed.items():
            self._delete_edges(relation, self.table(entry))

    def _delete_edges(self, relation: str, external: Table) -> None:
        """Have a closure or an equivalence follow its external facts."""
        start, end = external.rows.delta
        if start < end:
            scheme = self.pairs(relation)
            edges = external.between(start, end)
            passing = self._passing(scheme, edges) if relation in self.delta_rules.reads_itself else None
            scheme.delete(edges, end - start)
            self._gone[relation].append(scheme.news())
            if passing is not None:
                self._stood_for[relation] = scheme
                self.database.tables[relation] = passing

    def _passing(self, scheme: PairScheme, edges: list[np.ndarray]) -> DeltaView:
        """What stands for a relation that its own stratum reads: NEW is all that edges that go support."""
        scheme.reading(BACKWARD)
        before = PairSnapshot(scheme)
        facts = facts_over(before, edges, _MOST_PASSING)
        if facts is None:
            raise SlowerThanAnew
        return DeltaView(before, lambda: facts)

    def stand_back(self) -> None:
        self.database.tables.update(self._stood_for)
        self._stood_for.clear()

    def remove(self) -> None:
        self.stand_back()
        for name in self.rules.tables:
            self.table(name).take_back()
        for relation in self.rules.fed:
            scheme = self.pairs(relation)
            if scheme.count(Domain.NEW):
                scheme.remove()

    def begin_inserting(self) -> None:
        """What is there now stays; what comes after it is new."""
        self.remember_schemes()
        for name in self.rules.tables:
            table = self.table(name)
            table.take_in()
            self._marks[name] = len(table)

    def advance(self) -> bool:
        """What was derived becomes NEW; is there any?"""
        any_new = False
        for name in self.rules.tables:
            table = self.table(name)
            any_new |= table.advance() > 0
            table.refresh_indexes()
        for relation, entry in self.rules.fed.items():
            external, scheme = self.table(entry), self.pairs(relation)
            start, end = external.rows.delta
            if start < end:
                scheme.insert(external.between(start, end), end - start)
                scheme.advance()
                self._come[relation].append(scheme.news())
            elif scheme.count(Domain.NEW):
                scheme.settle()
        return any_new

    def settle(self) -> None:
        for name in self.rules.tables:
            table = self.table(name)
            table.take_in()
        for relation in self.rules.fed:
            self.pairs(relation).settle()

    def note_deltas(self, deltas: UpdateDeltas) -> None:
        """Tell upper strata the net change of each relation, and be ready for the next update."""
        for name in self.rules.tables:
            table, gone = self.table(name), self.table(names.gone(name))
            tail, is_whole = self._tails.get(name), name not in self._tails
            if is_whole and not len(gone) and len(table) == self._marks[name]:
                continue
            if tail is None:
                tail = table.between(self._marks[name], len(table))
                came = len(table) - self._marks[name]
            else:
                kept = table.contains(tail, len(tail[0]))
                tail, came = [column[kept] for column in tail], int(np.count_nonzero(kept))
            delta = delta_of(table, gone, tail, came)
            deltas.add(table, delta, at_end=is_whole and delta.plus_facts[1] == came)
        for relation in self.rules.fed:
            if relation in self._before:
                scheme, before = self.pairs(relation), self._before[relation]
                delta = pair_delta(before, scheme, self._gone[relation], self._come[relation], self.budget)
                deltas.add(scheme, delta, before)
        for relation, parts in self.rules.parts.items():
            deltas.add_union(as_union(self.database.tables[relation]), parts)
        self.forget()

    def forget(self) -> None:
        """Empty what only one update needs."""
        self._before.clear()
        self._marks.clear()
        self._tails.clear()
        for name in self.rules.tables:
            for hidden in names.hidden(name):
                self._empty(hidden)
        for relation in self.rules.fed:
            self._gone[relation], self._come[relation] = [], []

    def undo(self) -> None:
        """After a failure in `run`: bring back what was there before it."""
        self.stand_back()
        for name in self.rules.tables:
            table, gone = self.table(name), self.table(names.gone(name))
            if name in self._marks:
                tail = self._tails.get(name)
                if tail is None:
                    tail = table.between(self._marks[name], len(table))
                    count = len(table) - self._marks[name]
                else:
                    count = len(tail[0])
                table.delete(tail, count)
                table.take_back()
            else:
                table.settle()
            table.insert(gone.columns(), len(gone))
            table.take_in()
        for relation, entry in self.rules.fed.items():
            if relation in self._before:
                self.pairs(relation).rebuild(self.table(entry).columns())
        self.forget()

    def rebuild_schemes(self, deltas: UpdateDeltas) -> None:
        """After the tables have been undone: have closures and equivalences follow them again."""
        for relation, entry in self.rules.fed.items():
            if relation in deltas or entry in deltas:
                self.pairs(relation).rebuild(self.table(entry).columns())

    @property
    def touched(self) -> int:
        """How many facts the update has found to go or to come, so far."""
        going = sum(len(self.table(names.going(name))) for name in self.rules.tables)
        return going + sum(len(self.table(name)) - mark for name, mark in self._marks.items())

    def has_new(self, relation: str) -> bool:
        return self.database.tables[relation].may_have_new

    def _empty(self, name: str) -> None:
        """Clear a table when the update is done with: what can't be undone any more must not fail."""
        try:
            self.clear(name)
        except DeviceMemoryError:
            self.table(name).retreat(0)

    def clear(self, name: str) -> Table:
        table = self.table(name)
        table.renew()
        table.take_back()
        return table

    def table(self, name: str) -> Table:
        return as_table(self.database.tables[name])

    def pairs(self, name: str) -> PairScheme:
        return as_pairs(self.database.tables[name])


class StratumMaintenance:
    """Keeps the relations of one stratum true; lives as long as the program and its schemes stay the same.

    `stated` tells which facts hold by themselves, `read_above` which relations upper strata read. Between
    updates everything is settled; `run` leaves in `deltas` one for each relation that changed;
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
        self.delta_rules = self.derivations.delta_rules
        self.tables = StratumTables(rules, self.delta_rules, context, read_above)
        self.sums = self._summed_facts()
        self._kept: dict[str, KeptFacts] = {
            **{name: MergedFacts(name, merge, context.database) for name, merge in rules.merges.items()},
            **{name: JoinedFacts(name, joins, context.database) for name, joins in rules.joins.items()},
            **self.sums,
        }
        self.derivations.runner.selectors = self._kept
        self._signs = Signs(declining_if(rules.rules, rules.merges, rules.members), context.database)
        self._by_key = False
        self._relation_of = {entry: relation for relation, entry in rules.entries.items()}
        self.is_running = False
        self._fill(self.tables.make_missing())
        self.derivations.recount()

    # -- set-up ----------------------------------------------------------------------------------------

    def _choose_derivations(self) -> Derivations:
        """With counters, unless a scheme answers in its own way for what the stratum's recursion reads, or
        facts go that are still derived.
        """
        relations, members = self.context.database.program.relations, self.rules.members
        plain = DeltaRules(self.rules, relations, exact=False)
        if (
            not self.context.options.counting
            or plain.reads_itself & {*self.rules.fed, *self.rules.parts}
            or self.rules.keeps_values
        ):
            return SetDerivations(self.context, plain, members)
        return CountedDerivations(self.context, DeltaRules(self.rules, relations, exact=True), members)

    def _fill(self, missing: list[str]) -> None:
        """What rules derive and users state in the tables that are new: all else is known by now."""
        for name in missing:
            relation = self._relation_of.get(name)
            for columns, count in () if relation is None else self.stated.facts(relation):
                self.tables.table(name).insert(columns, count)
        self.tables.flow_bounds()
        for rule in self.rules.rules:
            if rule.head.relation in missing:
                self.derivations.runner.run(self.delta_rules.whole(rule).variant)
        for name in missing:
            self.tables.table(name).settle()
        self.tables.feed_schemes(missing)

    def _summed_facts(self) -> dict[str, SummedFacts]:
        database, members = self.context.database, self.rules.members
        merges = merges_of(self.rules.rules, database.program.relations)
        is_recursive = bool(self.delta_rules.recursive[Direction.COMING])
        moving = {name: kept for name, kept in merges.items() if name in members and is_recursive}
        return {
            name: SummedFacts(name, merge, database, moving, self.delta_rules.originals)
            for name, merge in self.rules.sums.items()
        }

    def count(self, added: Collection[Rule]) -> None:
        """Count what is not counted: of what holds by now, without the rules that are to be `added`."""
        if not self.derivations.is_counted:
            self.derivations.recount()
        for name, facts in self.sums.items():
            if not facts.is_counted:
                facts.begin_counting(self.stated.facts(name))
                for rule in self.rules.rules:
                    if rule.head.relation == name and rule not in added:
                        self.derivations.runner.run(self.delta_rules.whole(rule).variant)
                facts.end_counting()
                self.context.counter_bytes[names.counters(name)] = facts.contributions.nbytes

    # -- one update ------------------------------------------------------------------------------------

    def run(
        self, deltas: UpdateDeltas, stated: Deltas, removed: Sequence[Rule], added: Sequence[Rule]
    ) -> None:
        """Bring the stratum up to date with what changed below it, and with what is asked of it: other facts
        `stated`, rules `removed` and `added`.
        """
        reads = self.delta_rules.reads | frozenset(
            name for rule in removed for name in body_relations(rule.body)
        )
        reads -= self.rules.members
        if not (stated or removed or added) and not any(deltas.get(name) for name in reads):
            return
        self.is_running = True
        self._begin_counting()
        self._by_key = bool(self.rules.merges) and (bool(removed) or not self._signs.were_right(deltas))
        self.tables.flow_bounds()
        self._project_deltas(deltas)
        self._find_affected(deltas)
        if removed or self._may_lose(deltas, stated):
            deltas.show(reads, View.BEFORE)
            self._find_going(deltas, stated, removed)
            deltas.show(reads, View.COMMON)
            self._count_round(_OVERDELETE)
            self._overdelete()
        deltas.show(reads, View.AFTER)
        self._find_coming(deltas, stated, added)
        deltas.show(reads, View.NOW)
        self._count_round(_INSERT)
        self._insert()
        for name, facts in self._kept.items():
            self.tables.drop_bettered(name, facts.bettered())
        self.tables.note_deltas(deltas)
        self._signs.follow(deltas)
        self.context.progress.timeline.end_stratum()
        self.is_running = False

    def _begin_counting(self) -> None:
        """Have the progress tell of the stratum."""
        progress = self.context.progress
        progress.round_in_stratum = 0
        progress.placed.append(StratumStatistics(progress.stratum - 1, self.rules.relations))
        progress.timeline.begin_stratum(progress.stratum - 1, self.rules.relations)

    def _count_round(self, step: str) -> None:
        """Have the progress tell that a round has ended."""
        progress, where = self.context.progress, self.context.placement.current.name
        rounds = progress.placed[-1].rounds
        rounds[where] = rounds.get(where, 0) + 1
        touched = self.tables.touched
        progress.timeline.end_rounds(progress.round_in_stratum, 1, touched, where, step)
        progress.rounds += 1
        progress.round_in_stratum += 1

    def _may_lose(self, deltas: UpdateDeltas, stated: Deltas) -> bool:
        """Can the stratum lose facts at all?"""
        if any(delta.may_lose for delta in stated.values()) or any(
            deltas.may_show_new(name, View.BEFORE) for name in self.delta_rules.reads
        ):
            return True
        return any(deltas.may_show_new(name, View.AFTER) for name in self.delta_rules.reads_against)

    def undo(self) -> None:
        """After a failure in `run`: bring back what was there before it."""
        for facts in self._kept.values():
            facts.forget()
        self.tables.undo()
        self.is_running = False

    def forget_counts(self) -> None:
        """What was counted is out of date: a later stratum has failed."""
        self.derivations.is_counted = False
        self._signs.forget()
        for facts in self.sums.values():
            facts.forget()

    def _find_going(self, deltas: UpdateDeltas, stated: Deltas, removed: Sequence[Rule]) -> None:
        """What loses a derivation by what changed below, or is no longer stated."""
        for relation, delta in stated.items():
            self.tables.table(names.going(self.rules.entries[relation])).insert(*delta.minus_facts)
        self.tables.remember_schemes()
        self._start(Direction.GOING, deltas)
        for rule in removed:
            self.derivations.runner.run(self.delta_rules.whole(rule, Direction.GOING).variant)

    def _overdelete(self) -> None:
        """Take out what was found, and what loses a derivation by that, and so on."""
        seen = dict.fromkeys(self.rules.tables, 0)
        while self._delete_next(seen):
            for rule in self.delta_rules.recursive[Direction.GOING]:
                if self.tables.has_new(rule.trigger):
                    self.derivations.run(rule, Direction.GOING)
                    self._check_time()
            self.tables.remove()
            self._count_round(_OVERDELETE)
            self._check()

    def _delete_next(self, seen: dict[str, int]) -> bool:
        """Make NEW what was found to go since the last time; is there any?"""
        any_new = False
        for name in self.rules.tables:
            going = self.tables.table(names.going(name))
            first, last = seen[name], going.rows.count
            if first == last:
                continue
            columns = going.between(first, last)
            count, seen[name] = last - first, last
            table = self.tables.table(name)
            kept = self._kept.get(name)
            if kept is not None and (self._by_key or kept.always_by_key):
                columns, count = kept.current(columns, count)
            if count:
                goes = table.contains(columns, count)
                goes &= ~self.derivations.has_other(name, columns, count)
                if name in self._relation_of and (kept is None or kept.stays_when_stated):
                    goes &= ~self.stated.contains(self._relation_of[name], columns, count)
                columns, count = [column[goes] for column in columns], int(np.count_nonzero(goes))
            if count:
                self._check_time(_SECONDS_A_FACT * count)
                self.tables.delete(name, columns, count)
                any_new = True
        self.tables.delete_edges()
        return any_new

    def _find_coming(self, deltas: UpdateDeltas, stated: Deltas, added: Sequence[Rule]) -> None:
        """What is stated, what follows again, and what gains a derivation by what changed below."""
        self.tables.begin_inserting()
        for relation, facts in self._kept.items():
            facts.start_again(self.stated.tables[relation], self.tables.table(names.gone(relation)))
        for relation, delta in stated.items():
            if relation in self._kept:
                self._kept[relation].offer(*delta.plus_facts)
            else:
                self.tables.table(self.rules.entries[relation]).insert(*delta.plus_facts)
        self.tables.flow_bounds()
        self.derivations.rederive(self._check_time)
        self._start(Direction.COMING, deltas)
        for rule in added:
            self.derivations.runner.run(self.delta_rules.whole(rule).variant)

    def _insert(self) -> None:
        """Take in what was found, and what gains a derivation by that, and so on."""
        self._select()
        while self.tables.advance():
            for rule in self.delta_rules.recursive[Direction.COMING]:
                if self.tables.has_new(rule.trigger):
                    self.derivations.run(rule, Direction.COMING)
                    self._check_time()
            self._select()
            self._count_round(_INSERT)
            self._check()
        self.tables.settle()

    def _select(self) -> None:
        """Take in what is better of that which was offered."""
        admits_more = False
        for facts in self._kept.values():
            admits_more |= facts.apply()
        if admits_more:
            self.tables.flow_bounds()

    def _start(self, direction: Direction, deltas: UpdateDeltas) -> None:
        """Run the rules that start from what changed below: atoms, negated atoms, aggregates."""
        view = View.BEFORE if direction is Direction.GOING else View.AFTER
        for rule in self.delta_rules.lower[direction]:
            if deltas.may_show_new(rule.trigger, view):
                self.derivations.run(rule, direction)
                self._check_time()
        driven = [rule for rule, _ in self.delta_rules.negated[direction]]
        driven += [rules[direction] for _, rules in self.delta_rules.groups]
        for rule in driven:
            if len(self.tables.table(rule.trigger)):
                self.derivations.run(rule, direction)

    def _project_deltas(self, deltas: UpdateDeltas) -> None:
        """Fill the tables that rules with negated literals start from."""
        for projection in self.delta_rules.projections:
            table = self.tables.clear(projection.name)
            source = deltas.minus if projection.change == "deleted" else deltas.plus
            facts = source(projection.relation)
            if facts:
                columns = [facts.column(c) for c in projection.columns]
                table.insert(columns, len(facts) if columns else 1)
                table.renew()

    def _find_affected(self, deltas: UpdateDeltas) -> None:
        """Find the groups of aggregates that what came, and what went, belongs to."""
        touched = [group for group, _ in self.delta_rules.groups if _any_changed(deltas, group.reads)]
        for group, _ in self.delta_rules.groups:
            self.tables.clear(group.name)
        for group in touched:
            if not group.rules:
                self.tables.table(group.name).insert([], 1)
        for view in (View.AFTER, View.BEFORE):
            if not any(group.rules for group in touched):
                break
            deltas.show(self.delta_rules.reads, view)
            for rule in (rule for group in touched for rule in group.rules):
                if deltas.may_show_new(rule.trigger, view):
                    self.derivations.runner.run(rule.variant)
        for group in touched:
            self.tables.table(group.name).renew()

    def _check(self) -> None:
        if self.context.stop[0]:
            raise Interrupted("stopped")
        self._check_time()

    def _check_time(self, seconds: float = 0.0) -> None:
        """Give up if the time is over, or will be before something is done that takes so long.

        Not for a few facts: if these took long it was to make indexes, which will be there the next time. But
        rounds that better a few values may be without end.
        """
        if time.perf_counter() + seconds <= self.context.deadline:
            return
        is_endless = bool(self._kept) and self.context.progress.round_in_stratum > _MANY_ROUNDS
        if is_endless or self.tables.touched > _FEW:
            raise SlowerThanAnew


def _any_changed(deltas: UpdateDeltas, relations: Iterable[str]) -> bool:
    return any(deltas.get(name) for name in relations)


def facts_over(state: Scheme, edges: Columns, most: int) -> Table | None:
    """The facts of a relation that pass over some of its edges; None if they are more than `most`."""
    count = len(edges[0])
    sources, source_starts = _ends(state, BACKWARD, edges[0])
    targets, target_starts = _ends(state, FORWARD, edges[1])
    if int((np.diff(source_starts) * np.diff(target_starts)).sum()) > most:
        return None
    before, after = np.diff(source_starts), np.diff(target_starts)
    pairs = before * after
    edge = np.repeat(np.arange(count), pairs)
    number = np.arange(len(edge)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    first = sources[source_starts[edge] + number // after[edge]]
    last = targets[target_starts[edge] + number % after[edge]]
    facts = Table(state.name, 2, CPU)
    facts.insert([first, last], len(edge))
    facts.settle()
    return facts


def _ends(state: Scheme, column: int, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each id and its partners by a column, side by side, and where those of each begin."""
    places, partners = [np.arange(len(ids))], [ids]
    for rows, (values,) in state.expand({column: ids}, len(ids)):
        places.append(rows.astype(np.int64))
        partners.append(values)
    place = np.concatenate(places)
    order = np.argsort(place, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(ids)))])
    return np.concatenate(partners)[order], starts
