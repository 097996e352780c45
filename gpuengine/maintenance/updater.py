"""Commit updates: choose between maintaining and computing anew, and tell who wants to know."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.context import Context
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.interruptible import Watcher, run_interruptibly
from gpuengine.evaluation.node_room import join_large_nodes
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.workers import Workers
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Program, Rule
from gpuengine.maintenance.change import Change, Listed, RelationChange, difference, permuted
from gpuengine.maintenance.maintainer import FactsChange, Maintainer
from gpuengine.maintenance.nets import table_of
from gpuengine.maintenance.persistence import Durable, snapshot_of, table_nets
from gpuengine.maintenance.stated import StatedFacts
from gpuengine.maintenance.stratum_tables import SlowerThanAnew
from gpuengine.maintenance.transaction import Update
from gpuengine.maintenance.transition import Changes
from gpuengine.planning.plan import Plan, Stratum
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.shapes import Shape
from gpuengine.planning.strata import body_relations
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.table import Table

if TYPE_CHECKING:
    from gpuengine.engine import Engine

Nets = dict[str, Callable[[], Listed]]
Subscriber = Callable[[RelationChange], None]
_ANEW_SHARE = 8
"""If one in so many stated facts changes, everything is computed anew."""
_PATIENCE, _LEAST_PATIENCE = 0.5, 0.2
"""Maintaining is given up after this share of the time that computing anew took last, or so many seconds."""
_FIRST_PATIENCE = 8
"""The first update also makes indexes, and compiles what others only run."""


class Updater:
    """Commits the updates of one engine, one at a time.

    What is maintained, and how rules are compiled for it, is kept from one update to the next until
    somebody materialises anew (`forget`).
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.durable: Durable | None = None
        self._stop = np.zeros(1, np.int64)
        self._given_up: float = math.inf
        """How many facts changed in an update that was given up; such ones are computed anew for a while."""
        self._maintainer: Maintainer | None = None
        self._subscribers: dict[str, list[Subscriber]] = {}
        self._changes: list[weakref.ref[Change]] = []
        self._late: BaseException | None = None

    def forget(self) -> None:
        """The materialisation is another one."""
        self._maintainer = None

    def subscribe(self, relation: str, callback: Subscriber) -> Callable[[], None]:
        """Call back with each change of a relation; the result ends that."""
        found = self._subscribers.setdefault(relation, [])
        found.append(callback)
        return lambda: found.remove(callback) if callback in found else None

    def commit(self, update: Update) -> Change:
        """Make an update happen; `Change` says what came of it. On any failure nothing has changed."""
        engine = self._engine
        prepared = engine.prepared if update.edited is None else engine.prepare(update.edited.text)
        facts = update.facts
        nets = None
        if self._is_small(prepared, facts):
            nets = self._maintained(prepared, facts, update.watch)
        if nets is None:
            nets = self._anew(prepared, facts, engine.wanted, update.watch)
        return self._change(nets)

    def counter_nbytes(self, relation: str) -> int:
        """What the derivation counters of a relation take; 0 if there are none."""
        if self._maintainer is None:
            return 0
        found = [
            stratum.derivations.counters[entry].nbytes
            for stratum in self._maintainer.strata
            for name, entry in stratum.rules.entries.items()
            if name == relation and entry in stratum.derivations.counters
        ]
        return sum(found)

    def compute_anew(self, wanted: tuple[str, ...] | None, watch: Watcher | None) -> None:
        """Compute everything from the facts that are stated, loaded ones included."""
        self.tell(self._change(self._anew(self._engine.prepared, FactsChange({}, {}), wanted, watch)))

    # -- maintaining -----------------------------------------------------------------------------------

    def _is_small(self, prepared: Prepared, facts: FactsChange) -> bool:
        """Is the change small enough, and of a kind, to maintain what there is?"""
        engine = self._engine
        if engine.database is None or engine.has_pending or prepared.has_limits:
            return False
        if any(
            _is_linear_closure(prepared, prepared.stored(name), engine.database) for name in facts.inserted
        ):
            return False
        if prepared is not engine.prepared and (
            engine.wanted is not None  # other rules may need what was left out
            or not _same_schemes(engine.prepared, prepared, engine.database)
        ):
            return False
        stated = sum(len(table) for table in engine.loaded.values())
        if facts.count * 2 > self._given_up:
            self._given_up += facts.count / _ANEW_SHARE  # so that it is tried again one day
            return False
        return facts.count * _ANEW_SHARE <= stated or facts.count < 1000

    def _maintained(self, prepared: Prepared, facts: FactsChange, watch: Watcher | None) -> Nets | None:
        """The net changes, or None if it is better to begin anew."""
        progress = Progress()
        self._stop[0] = 0
        self._find_changes()
        nets: Nets = {}
        try:
            late = run_interruptibly(
                lambda: self._maintain(prepared, facts, progress, nets), self._stop, progress, watch
            )
        except SlowerThanAnew:
            if facts.count:
                self._given_up = facts.count
            return None
        self._late = late
        return nets

    def _maintain(self, prepared: Prepared, facts: FactsChange, progress: Progress, nets: Nets) -> None:
        """Do an update to the end, durable if that is asked for, or leave everything as it was."""
        engine = self._engine
        done: list[tuple[Maintainer, Changes]] = []
        known: set[str] | None = None
        try:
            is_first = self._maintainer is None
            old = self.maintainer()
            patience = max(_LEAST_PATIENCE, _PATIENCE * engine.anew_seconds)
            patience *= _FIRST_PATIENCE if is_first else 1
            old.context.begin(progress, time.perf_counter() + patience)
            if prepared is engine.prepared:
                done.append((old, old.update(facts)))
            else:
                known = set(old.database.tables)
                self._declare(old.database, prepared.program)
                self._change_rules(old, prepared, facts, done)
            maintainer, changes = done[-1][0], [changes for _, changes in done]
            nets.update(table_nets(changes))
            if self.durable is not None:
                tables = prepared, engine.loaded, maintainer.database, maintainer.hidden
                self.durable.commit(*tables, maintainer.stated.done, changes)
        except BaseException:
            self._stop[0] = 0  # what follows is not to be stopped
            for one, changed in reversed(done):
                one.revert(changed)
            if known is not None:
                self._undeclare(known)
            raise
        self._maintainer = maintainer
        maintainer.stated.keep()
        maintainer.forget_others()
        engine.adopt(prepared)
        for name in [name for name in nets if name not in engine.relations]:
            del nets[name]

    def _change_rules(
        self,
        old: Maintainer,
        prepared: Prepared,
        facts: FactsChange,
        done: list[tuple[Maintainer, Changes]],
    ) -> None:
        """Remove rules, then add others: each step with strata that fit what it starts from and leads to.

        The completed steps are put into `done`.
        """
        remaining = set(prepared.program.rules)
        kept = [rule for rule in self._engine.prepared.program.rules if rule in remaining]
        tables = old.database.tables
        compact = [name for name in prepared.schemes if not isinstance(tables[name], Table)]
        maintainer = old
        if len(kept) < len(self._engine.prepared.program.rules):
            maintainer = self._maintainer_after(old, prepared.with_rules(kept, compact), loses=True)
            removed = _missing(old.rules, maintainer.rules)
            changes = maintainer.update(FactsChange({}, {}), removed=removed)
            changes.find_unions()
            done.append((maintainer, changes))
        later = self._maintainer_after(maintainer, prepared)
        done.append((later, later.update(facts, added=_missing(later.rules, maintainer.rules))))

    def _declare(self, database: Database, program: Program) -> None:
        """Have tables for the relations that came with rules."""
        facts = self._engine.loaded
        database.program = program
        for name in [name for name in program.relations if name not in database.tables]:
            arity = program.relations[name].arity
            facts[name] = Table(name, arity, CPU)
            facts[name].maintained = True
            database.tables[name] = Table(name, arity, CPU)

    def _undeclare(self, known: set[str]) -> None:
        """Rules could not be changed: have only the tables that were there, and begin with them again."""
        engine = self._engine
        assert engine.database is not None
        engine.database.program = engine.prepared.program
        for name in set(engine.database.tables) - known:
            del engine.database.tables[name]
            engine.loaded.pop(name, None)
        self.forget()

    def maintainer(self) -> Maintainer:
        """What maintains the materialisation; made when it is first needed."""
        engine = self._engine
        assert engine.database is not None
        if self._maintainer is None:
            stated = StatedFacts(engine.loaded, engine.aliases)
            context = self._context(engine.prepared, engine.database)
            plan = engine.plan(engine.wanted)
            join_large_nodes(plan, engine.database, context.budget)
            self._maintainer = Maintainer(plan, context, stated)
        return self._maintainer

    def _maintainer_after(self, before: Maintainer, prepared: Prepared, *, loses: bool = False) -> Maintainer:
        """One for another program on the same facts; tables that it newly needs hold what held before.

        If it `loses` rules, it maintains relations as well that have no more of them.
        """
        plan = prepared.plan(self._engine.wanted)
        if loses:
            plan = _with_strata_of(plan, before.plan)
        context = replace(
            before.context, schemes=plan.schemes, read_relations=_read_relations(prepared.program)
        )
        before.database.evaluators.add(plan.program.rules)
        join_large_nodes(plan, before.database, context.budget, only_new=True)
        return Maintainer(plan, context, before.stated)

    def _context(self, prepared: Prepared, database: Database) -> Context:
        engine = self._engine
        return Context(
            database,
            Workers(engine.threads),
            Budget(engine.memory),
            Progress(),
            {},
            schemes=prepared.schemes,
            modules=engine.modules,
            counting=engine.counting,
            read_relations=_read_relations(prepared.program),
            stop=self._stop,
        )

    # -- computing anew --------------------------------------------------------------------------------

    def _anew(
        self,
        prepared: Prepared,
        facts: FactsChange,
        wanted: tuple[str, ...] | None,
        watch: Watcher | None,
    ) -> Nets:
        """State the facts and compute everything that follows."""
        progress, nets = Progress(), Nets()
        self._stop[0] = 0
        self._find_changes()
        self._late = run_interruptibly(
            lambda: self._compute(prepared, facts, wanted, progress, nets), self._stop, progress, watch
        )
        return nets

    def _compute(
        self,
        prepared: Prepared,
        facts: FactsChange,
        wanted: tuple[str, ...] | None,
        progress: Progress,
        nets: Nets,
    ) -> None:
        """Do that to the end, durable if that is asked for, or leave everything as it was."""
        engine = self._engine
        before = engine.database
        tables = dict(engine.loaded)
        for name, relation in prepared.program.relations.items():
            if name not in tables:
                tables[name] = Table(name, relation.arity, CPU)
        held = {name for name in tables if before is not None and before.tables.get(name) is tables[name]}
        for name in held & {*facts.deleted, *facts.inserted}:
            tables[name] = _copy(tables[name])  # what read it is to be compared with what reads it now
        stated, maintainer = StatedFacts(tables, {}), None
        try:
            stated.apply(facts.deleted, facts.inserted)
            database = engine.evaluate(prepared, tables, wanted, progress, self._stop)
            if self.durable is not None:
                context = self._context(prepared, database)
                plan = prepared.plan(wanted)
                join_large_nodes(plan, database, context.budget)
                maintainer = Maintainer(plan, context, StatedFacts(tables, prepared.aliases))
                self.durable.rewrite(
                    snapshot_of(engine, prepared, tables, database, maintainer.hidden, wanted)
                )
        except BaseException:
            self._stop[0] = 0
            stated.undo()
            raise
        done = {
            name: (table_of(name, tables[name].arity, *gone), table_of(name, tables[name].arity, *come))
            for name, gone, come in stated.keep()
        }
        has_same_aliases = prepared.aliases == engine.aliases
        engine.adopt(prepared, tables, database, wanted)
        self._maintainer = maintainer
        for name, relation in prepared.program.relations.items():
            old, new = before.tables.get(name) if before is not None else None, database.tables[name]
            if name in engine.aliases and has_same_aliases:
                continue  # it changes as the relation that it stands for
            if name in held and name in done and new is tables[name]:
                nets[name] = partial(_given, done[name])
            elif old is not new:
                old = Table(name, relation.arity, CPU) if old is None else old
                nets[name] = partial(difference, old, new, Budget(engine.memory))

    # -- telling ---------------------------------------------------------------------------------------

    def _change(self, nets: Nets) -> Change:
        engine = self._engine
        for name, alias in engine.aliases.items():
            if alias.of in nets and name not in nets:
                nets[name] = partial(_of_alias, nets[alias.of], name, alias.permutation)
        attributes = {name: relation.attributes for name, relation in engine.relations.items()}
        change = Change(attributes, nets, engine.dictionary, Budget(engine.memory))
        self._changes = [*(one for one in self._changes if one() is not None), weakref.ref(change)]
        return change

    def _find_changes(self) -> None:
        """Have changes that somebody still holds find out what they are, before that changes again."""
        for known in self._changes:
            change = known()
            if change is not None:
                change.find_all()
        self._changes = []

    def tell(self, change: Change) -> None:
        """Call back who wants to know; then raise what came too late to stop the update, or their errors."""
        errors: list[BaseException] = []
        for relation, callbacks in self._subscribers.items():
            if callbacks and relation in self._engine.relations and change[relation]:
                for callback in list(callbacks):
                    try:
                        callback(change[relation])
                    except Exception as error:
                        errors.append(error)
        late, self._late = self._late, None
        if late is not None:
            raise late
        if errors:
            raise errors[0]


def _copy(table: Table) -> Table:
    copy = Table(table.name, table.arity, CPU)
    table.move_to(CPU)
    copy.restore(table.columns(), len(table))
    copy.settle()
    return copy


def _given(net: Listed) -> Listed:
    return net


def _of_alias(net: Callable[[], Listed], name: str, permutation: tuple[int, ...]) -> Listed:
    return permuted(net(), name, permutation)


def _missing(rules: Iterable[Rule], others: Iterable[Rule]) -> tuple[Rule, ...]:
    known = set(others)
    return tuple(rule for rule in rules if rule not in known)


def _with_strata_of(plan: Plan, former: Plan) -> Plan:
    """A plan with a stratum, without rules, for each relation that only the former one derives."""
    derived = {name for stratum in plan.strata for name in stratum.relations}
    lost = [name for stratum in former.strata for name in stratum.relations if name not in derived]
    return replace(plan, strata=(*(Stratum(0, (name,), (), ()) for name in lost), *plan.strata))


def _is_linear_closure(prepared: Prepared, relation: str, database: Database) -> bool:
    """Is a relation stored as the closure of another one, to which no facts may be added?"""
    plan = prepared.schemes.get(relation)
    candidate = plan.candidate(Shape.CLOSURE) if plan is not None else None
    is_linear = candidate is not None and candidate.linear
    return is_linear and isinstance(database.tables.get(relation), Closure)


def _read_relations(program: Program) -> frozenset[str]:
    return frozenset().union(*(body_relations(rule.body) for rule in program.rules))


def _same_schemes(old: Prepared, new: Prepared, database: Database) -> bool:
    """Can every relation stay what it is: are the rules that its scheme implies the same?"""
    if old.aliases != new.aliases:
        return False
    return all(
        isinstance(scheme, Table) or name not in old.schemes or old.schemes[name] == new.schemes.get(name)
        for name, scheme in database.tables.items()
    )
