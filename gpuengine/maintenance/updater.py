"""From one materialisation to the next: by what changes, or computed anew."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np

from gpuengine.evaluation.driver.node_room import join_large_nodes
from gpuengine.evaluation.host_work import HostOperation
from gpuengine.evaluation.materialisation import Materialisation, evaluate, view_aliases
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.evaluation.placement.failures import device_failures
from gpuengine.evaluation.placement.placement import Placement
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import Program, Rule
from gpuengine.limits import suspended
from gpuengine.maintenance.delta import Delta, Deltas, difference
from gpuengine.maintenance.maintainer import Maintainer
from gpuengine.maintenance.persistence import Durable
from gpuengine.maintenance.stated import StatedFacts
from gpuengine.maintenance.stratum import SlowerThanAnew
from gpuengine.maintenance.update_deltas import UpdateDeltas
from gpuengine.planning.plan import Plan, Stratum
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.selection import selections_of
from gpuengine.planning.shapes import Shape
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.table import Table

Updated = tuple[Materialisation, Deltas]
"""The next materialisation, and by relation what changed."""
_ANEW_SHARE = 8
"""If one in so many stated facts changes, everything is computed anew."""
_PATIENCE, _LEAST_PATIENCE = 0.5, 0.2
"""Maintaining is given up after this share of the time that computing anew took last, or so many seconds."""
_FIRST_PATIENCE = 8
"""The first update also makes indexes, and compiles what others only run."""


class Updater:
    """Takes a materialisation and what is asked of it, and gives the next one with what changed.

    If that fails, the materialisation is what it was. What maintains the last one, and how rules are compiled
    for it, is kept from one update to the next. `stop[0]` set to 1 from any thread ends an update with
    `Interrupted`. With `durable`, what is given is on disk.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.durable: Durable | None = None
        self.stop = np.zeros(1, np.int64)
        self._given_up: float = math.inf
        """How many facts changed in an update that was given up; such ones are computed anew for a while."""
        self._maintainer: Maintainer | None = None
        self._has_run_out = False
        """Has the device's memory ended in an update? From then on they run on the host."""

    def update(
        self, before: Materialisation, prepared: Prepared, stated: Deltas, progress: Progress
    ) -> Updated:
        """The next materialisation, of another program or with other facts `stated`.

        It is made by what changes, or anew where that is likely to take longer.
        """
        count = sum(delta.count for delta in stated.values())
        why_anew = self._why_anew(before, prepared, stated, count)
        if not why_anew:
            progress.work = "update, maintained"
            try:
                with self._counting(before, count):
                    return self._maintained_somewhere(before, prepared, stated, progress)
            except SlowerThanAnew:
                if count:
                    self._given_up = count
                progress.restart()
                why_anew = "maintaining took too long and was given up"
        progress.work = f"update, computed anew: {why_anew}"
        return self.anew(before, prepared, stated, before.wanted, progress)

    def _counting(self, before: Materialisation, count: int) -> AbstractContextManager[object]:
        """Count a change with what the host did to compute what it changes, if the host maintains."""
        if before.progress is None:
            return nullcontext()
        host_work = before.progress.host_work
        host_work.is_counted |= self.options.accelerator.is_possible
        if not self._placement(before).current.on_host:
            return nullcontext()
        return host_work.counting(HostOperation.UPDATE, "a change of facts or rules", count)

    def forget(self) -> None:
        """Do not keep what maintains a materialisation that is gone."""
        self._maintainer = None

    def counter_nbytes(self, relation: str) -> int:
        """What the derivation counters of a relation take; 0 if there are none."""
        maintainer = self._maintainer
        if maintainer is None:
            return 0
        sizes = [
            counters.nbytes
            for stratum in maintainer.strata
            for name, entry in stratum.rules.entries.items()
            if name == relation and (counters := stratum.derivations.counters.get(entry)) is not None
        ]
        return sum(sizes)

    # -- maintaining -----------------------------------------------------------------------------------

    def _why_anew(self, before: Materialisation, prepared: Prepared, stated: Deltas, count: int) -> str:
        """Why what there is can't be maintained; empty if the change is small enough, and of a kind."""
        database = before.database
        if database is None:
            return "nothing was there yet"
        if before.is_behind:
            return "facts were loaded since the last evaluation"
        if prepared.has_limits:
            return "the program has a .limitsize"
        if prepared is not before.prepared and not _select_alike(before.prepared, prepared):
            return "a relation selects what it keeps in another way"
        gaining = [name for name, delta in stated.items() if delta.may_gain]
        if any(_is_linear_closure(prepared, prepared.stored(name), database) for name in gaining):
            return "facts are stated of a closure that only its edges derive"
        if prepared is not before.prepared and (
            before.wanted is not None  # other rules may need what was left out
            or not _same_schemes(before.prepared, prepared, database)
        ):
            return "other rules need relations that were left out, or others stored otherwise"
        if count * 2 > self._given_up:
            self._given_up += count / _ANEW_SHARE  # so that it is tried again one day
            return "maintaining a change of this size took too long before"
        if count < 1000 or count * _ANEW_SHARE <= sum(len(table) for table in before.stated.values()):
            return ""
        return f"more than one in {_ANEW_SHARE} stated facts change"

    def _placement(self, of: Materialisation) -> Placement:
        """Where a materialisation is maintained.

        On the host if its facts are there; if derivations are counted, or relations keep only the best of
        what is derived, which the host does; or if the device has had too little memory for that.
        """
        if self._maintainer is not None and self._is_maintained(of):
            return self._maintainer.context.placement
        placement = Placement(self.options.accelerator, always=self.options.always)
        on_host = self.options.counting or of.prepared.selects or self._has_run_out
        if of.database is not None:
            placement.begin_update(list(of.database.all_tables()), on_host=on_host)
        return placement

    def _maintained_somewhere(
        self, before: Materialisation, prepared: Prepared, stated: Deltas, progress: Progress
    ) -> Updated:
        """Do an update on the device or, if that has too little memory and need not do it, on the host."""
        assert before.database is not None
        with device_failures(lambda: f"updating, deriving by: {progress.rule}", before.database.all_tables):
            try:
                return self._maintained(before, prepared, stated, progress)
            except DeviceMemoryError:
                self._maintainer = None
                if self.options.always:
                    raise
                self._has_run_out = True
                progress.restart()
            return self._maintained(before, prepared, stated, progress)

    def _maintained(
        self, before: Materialisation, prepared: Prepared, stated: Deltas, progress: Progress
    ) -> Updated:
        """Do an update to the end, durable if that is asked for, or leave everything as it was."""
        done: list[tuple[Maintainer, UpdateDeltas]] = []
        tables: set[str] | None = None
        facts = before.stated
        try:
            is_first = not self._is_maintained(before)
            old = self.maintainer(before)
            patience = max(_LEAST_PATIENCE, _PATIENCE * before.anew_seconds)
            patience *= _FIRST_PATIENCE if is_first else 1
            old.context.begin(progress, time.perf_counter() + patience)
            if prepared is before.prepared:
                done.append((old, old.update(stated)))
            else:
                tables = set(old.database.tables)
                facts = _declare(before, old, prepared.program)
                self._change_rules(old, before.prepared, prepared, stated, done)
            maintainer = done[-1][0]
            view_aliases(maintainer.database, prepared)
            after = replace(before, prepared=prepared, stated=facts)
            deltas: dict[str, Delta] = {}
            for _, some in done:
                for name, delta in some.items():
                    deltas[name] = deltas[name].then(delta) if name in deltas else delta
            if self.durable is not None:
                self.durable.commit(before, after, maintainer.hidden, maintainer.stated.done, deltas)
        except BaseException:
            is_stopped, self.stop[0] = self.stop[0], 0  # what follows is not to be stopped
            with suspended():
                for one, some in reversed(done):
                    one.revert(some)
                if tables is not None:
                    self._undeclare(before, tables)
            self.stop[0] = is_stopped
            raise
        self._maintainer = maintainer
        maintainer.stated.keep()
        maintainer.forget_others()
        return after, {name: delta for name, delta in deltas.items() if name in prepared.program.relations}

    def _change_rules(
        self,
        old: Maintainer,
        former: Prepared,
        prepared: Prepared,
        stated: Deltas,
        done: list[tuple[Maintainer, UpdateDeltas]],
    ) -> None:
        """Remove rules, then add others: each step with strata that fit what it starts from and leads to.

        The completed steps are put into `done`.
        """
        remaining = set(prepared.program.rules)
        kept = [rule for rule in former.program.rules if rule in remaining]
        tables = old.database.tables
        compact = [name for name in prepared.schemes if not tables[name].is_listed]
        maintainer = old
        if len(kept) < len(former.program.rules):
            maintainer = self._maintainer_after(old, prepared.with_rules(kept, compact), loses=True)
            removed = _missing(old.rules, maintainer.rules)
            losses = maintainer.update({}, removed=removed)
            losses.find_unions()
            done.append((maintainer, losses))
        later = self._maintainer_after(maintainer, prepared)
        done.append((later, later.update(stated, added=_missing(later.rules, maintainer.rules))))

    def _undeclare(self, before: Materialisation, known: set[str]) -> None:
        """Rules could not be changed: have only the tables that were there, and begin with them again."""
        assert before.database is not None
        before.database.program = before.prepared.program
        for name in set(before.database.tables) - known:
            del before.database.tables[name]
        self._maintainer = None

    def _is_maintained(self, materialisation: Materialisation) -> bool:
        maintainer = self._maintainer
        return maintainer is not None and maintainer.database is materialisation.database

    def maintainer(self, of: Materialisation) -> Maintainer:
        """What maintains a materialisation; made when it is first needed."""
        if self._maintainer is None or not self._is_maintained(of):
            self._maintainer = self._make_maintainer(of)
        return self._maintainer

    def _make_maintainer(self, of: Materialisation) -> Maintainer:
        assert of.database is not None
        context = Context(of.plan, of.database, self.options, placement=self._placement(of), stop=self.stop)
        join_large_nodes(of.plan, of.database, context.budget)
        return Maintainer(of.plan, context, StatedFacts(of.stated, of.prepared.aliases))

    def _maintainer_after(self, before: Maintainer, prepared: Prepared, *, loses: bool = False) -> Maintainer:
        """One for another program on the same facts; tables that it newly needs hold what held before.

        If it `loses` rules, it maintains relations as well that have no more of them.
        """
        plan = prepared.plan()
        if loses:
            plan = _with_strata_of(plan, before.plan)
        context = before.context.with_plan(plan)
        before.database.evaluators.add(plan.program.rules)
        join_large_nodes(plan, before.database, context.budget, only_new=True)
        return Maintainer(plan, context, before.stated)

    # -- computing anew --------------------------------------------------------------------------------

    def anew(
        self,
        before: Materialisation,
        prepared: Prepared,
        stated: Deltas,
        wanted: tuple[str, ...] | None,
        progress: Progress,
    ) -> Updated:
        """State other facts and compute all that follows, durable if that is asked for, or change nothing."""
        former = before.database
        tables = dict(before.stated)
        for name, relation in prepared.program.relations.items():
            if name not in tables:
                tables[name] = Table(name, relation.arity, CPU)
        held = {name for name in tables if former is not None and former.tables.get(name) is tables[name]}
        for name in held & stated.keys():
            tables[name] = _copy(tables[name])  # what read it is to be compared with what reads it now
        facts, maintainer = StatedFacts(tables, {}), None
        try:
            facts.apply(stated)
            after = evaluate(
                Materialisation(prepared, tables, before.dictionary, notes=before.notes),
                self.options,
                wanted=wanted,
                progress=progress,
                stop=self.stop,
                idle=former.all_tables if former is not None else tuple,
            )
            if self.durable is not None:
                maintainer = self._make_maintainer(after)
                after = replace(after)  # with what the maintainer put in the place of relations
                self.durable.rewrite(after, maintainer.hidden)
        except BaseException:
            is_stopped, self.stop[0] = self.stop[0], 0
            with suspended():
                facts.undo()
            self.stop[0] = is_stopped
            raise
        done = {delta.relation: delta for delta in facts.done}
        facts.keep()
        self._maintainer = maintainer
        assert after.relations is not None
        deltas: dict[str, Delta] = {}
        has_same_aliases = prepared.aliases == before.prepared.aliases
        for name, new in after.relations.items():
            if name in prepared.aliases and has_same_aliases:
                continue  # it changes as the relation that it stands for
            old = former.tables.get(name) if former is not None else None
            if name in held and name in done and new is tables[name]:
                deltas[name] = done[name]
            elif old is not new:
                old = Table(name, new.arity, CPU) if old is None else old
                deltas[name] = difference(old, new, Budget(self.options.memory))
        return after, deltas


def _declare(before: Materialisation, maintainer: Maintainer, program: Program) -> Mapping[str, Table]:
    """Have tables for the relations that came with rules; those of stated facts."""
    database = maintainer.database
    database.program = program
    stated = dict(before.stated)
    for name in [name for name in program.relations if name not in database.tables]:
        arity = program.relations[name].arity
        stated[name] = Table(name, arity, CPU)
        stated[name].maintained = True
        database.tables[name] = Table(name, arity, CPU)
    maintainer.stated.tables = stated
    return stated


def _copy(table: Table) -> Table:
    copy = Table(table.name, table.arity, CPU)
    table.move_to(CPU)
    copy.restore(table.columns(), len(table))
    copy.settle()
    return copy


def _missing(rules: Iterable[Rule], others: Iterable[Rule]) -> tuple[Rule, ...]:
    present = set(others)
    return tuple(rule for rule in rules if rule not in present)


def _with_strata_of(plan: Plan, former: Plan) -> Plan:
    """A plan with a stratum, without rules, for each relation that only the former one derives."""
    derived = {name for stratum in plan.strata for name in stratum.relations}
    lost = [name for stratum in former.strata for name in stratum.relations if name not in derived]
    return replace(plan, strata=(*(Stratum(0, (name,), (), ()) for name in lost), *plan.strata))


def _select_alike(old: Prepared, new: Prepared) -> bool:
    """Do relations keep what they kept: with the new rules, and with those that are old and new?"""
    remaining = set(new.program.rules)
    common = replace(new.program, rules=tuple(rule for rule in old.program.rules if rule in remaining))
    before = selections_of(old.program)
    return all(
        before.get(name) == after.get(name)
        for after in (selections_of(new.program), selections_of(common))
        for name in old.program.relations
    )


def _is_linear_closure(prepared: Prepared, relation: str, database: Database) -> bool:
    """Is a relation stored as the closure of another one, to which no facts may be added?"""
    plan = prepared.schemes.get(relation)
    candidate = plan.candidate(Shape.CLOSURE) if plan is not None else None
    is_linear = candidate is not None and candidate.linear
    scheme = database.tables.get(relation)
    return is_linear and scheme is not None and scheme.kind == Closure.kind


def _same_schemes(old: Prepared, new: Prepared, database: Database) -> bool:
    """Can every relation stay what it is: are the rules that its scheme implies the same?"""
    if old.aliases != new.aliases:
        return False
    return all(
        scheme.is_listed or name not in old.schemes or old.schemes[name] == new.schemes.get(name)
        for name, scheme in database.tables.items()
    )
