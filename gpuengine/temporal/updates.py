"""`TemporalUpdate`: a transaction on temporal facts, all of it or nothing.

Inserting costs what changes: the inserted facts are the delta, and semi-naive rounds go on from there.
Deleting, and inserting where something is negated or rounds were bounded, derives anew what the changed
predicates reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.errors import GpuEngineError
from gpuengine.kernels.timeline import INFINITY, MINUS_INFINITY, Merged, Runs
from gpuengine.temporal.compiled import compile_rule
from gpuengine.temporal.constraints import check_constraints
from gpuengine.temporal.editing import Edited, difference, with_rules, without_rules
from gpuengine.temporal.engine import TemporalEngine, renew, source_of
from gpuengine.temporal.evaluation import derive
from gpuengine.temporal.facts import GivenFacts, OnError, Problems, given_facts
from gpuengine.temporal.procedures import Progress, check_fits, run_rules
from gpuengine.temporal.relations import TIMELINE, TemporalRelation
from gpuengine.temporal.scales import check_operators, program_scale
from gpuengine.temporal.strata import body_predicates, head_predicate, reached_from
from gpuengine.temporal.syntax import Program, Relational, Rule
from gpuengine.temporal.view import Calendar, TemporalView
from gpuengine.terms.dictionary import Dictionary

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuengine.maintenance.transaction import Wait
    from gpuengine.temporal.evaluation import World


@dataclass
class Rows:
    """Facts by ids: a column for each argument, and the ends of intervals."""

    columns: list[np.ndarray]
    lower: np.ndarray
    upper: np.ndarray

    def __len__(self) -> int:
        return len(self.lower)


@dataclass
class PredicateChange:
    """The coalesced facts of a predicate that came and those that went; one that grew went and came."""

    inserted: Rows
    deleted: Rows


@dataclass
class TemporalChange:
    """What an update did: by predicate what came and went, and which predicates were derived anew."""

    relations: dict[str, PredicateChange] = field(default_factory=dict)
    recomputed: tuple[str, ...] = ()
    _calendar: Calendar | None = None
    _dictionary: Dictionary | None = None

    def inserted(self, name: str) -> pa.Table:
        """The facts of a predicate that came, with their times."""
        return self._view(name, came=True).to_arrow()

    def deleted(self, name: str) -> pa.Table:
        """The facts of a predicate that went, with their times."""
        return self._view(name, came=False).to_arrow()

    def _view(self, name: str, *, came: bool) -> TemporalView:
        assert self._calendar is not None and self._dictionary is not None
        change = self.relations[name]
        rows = change.inserted if came else change.deleted
        relation = TemporalRelation(name, len(rows.columns))
        if len(rows):
            relation.merge(relation.intern(rows.columns, len(rows)), rows.lower, rows.upper)
        names = [f"arg{j}" for j in range(relation.arity)]
        return TemporalView(name, names, relation, self._dictionary, self._calendar)

    def __bool__(self) -> bool:
        return bool(self.relations)

    def __repr__(self) -> str:
        parts = [
            f"{name}: +{len(c.inserted)} -{len(c.deleted)}" for name, c in sorted(self.relations.items())
        ]
        anew = f"; derived anew: {', '.join(self.recomputed)}" if self.recomputed else ""
        return f"<change: {', '.join(parts) or 'none'}{anew}>"


class TemporalUpdate:
    """What is to be inserted and deleted; nothing happens before the `with` block ends.

    A fact that is inserted and then deleted, or the other way round, counts as it was said last. If the block
    raises, or if committing does, nothing has changed. Afterwards `change` says what came of it.
    """

    def __init__(self, engine: TemporalEngine, wait: Wait = "default") -> None:
        self._engine = engine
        self._wait = wait
        self._turn = ExitStack()
        self._steps: list[tuple[bool, GivenFacts]] = []
        self._program = engine.program
        self._arities = engine.arities
        self._change: TemporalChange | None = None
        self.skipped = 0

    def __enter__(self) -> TemporalUpdate:
        self._turn.enter_context(self._engine.turn(self._wait))
        # Another thread may have changed them before it was this one's turn.
        self._program, self._arities = self._engine.program, self._engine.arities
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._turn:
            if kind is None:
                commit = _Commit(self._engine, self._steps, self._program, self._arities)
                with self._engine.limits("updating").applied():
                    self._change = commit.perform()

    @property
    def change(self) -> TemporalChange:
        """What the update changed; known once the `with` block has ended."""
        if self._change is None:
            raise GpuEngineError("an update has no change before its `with` block has ended")
        return self._change

    def insert(
        self,
        what: str | PathLike[str],
        data: Any = None,
        *,
        on_error: OnError = "fail",
        timestamps: bool = False,
    ) -> None:
        """State facts, given as to `TemporalEngine.load`."""
        self._note(True, what, data, on_error, timestamps)

    def delete(
        self,
        what: str | PathLike[str],
        data: Any = None,
        *,
        on_error: OnError = "fail",
        timestamps: bool = False,
    ) -> None:
        """State facts no longer: the times given are taken out of those that were stated."""
        self._note(False, what, data, on_error, timestamps)

    def add_rules(self, rules: str | PathLike[str]) -> None:
        """Add rules: text, or the path of a file. Facts among them are stated.

        Raises `ProgramErrors` if they do not go with the program.
        """
        self._edit(True, with_rules(self._program, source_of(rules)))

    def remove_rules(self, rules: str | PathLike[str]) -> None:
        """Remove rules: text, or the path of a file. Names of variables do not matter.

        Facts among them are stated no longer. Raises `GpuEngineError` if the program has no such rule.
        """
        self._edit(False, without_rules(self._program, source_of(rules)))

    def _edit(self, came: bool, edited: Edited) -> None:
        arities = {**self._arities, **edited.program.arities}
        for name, arity in self._arities.items():
            if arities[name] != arity:
                raise GpuEngineError(f"{name} has {arities[name]} arguments in the rules, but {arity} before")
        given = given_facts(edited.facts)
        for facts in given:
            self._engine.check(facts, arities)
        self._program, self._arities = edited.program, arities
        self._steps += [(came, facts) for facts in given]

    def _note(
        self, came: bool, what: str | PathLike[str], data: Any, on_error: OnError, timestamps: bool
    ) -> None:
        problems = Problems(on_error)
        with self._engine.limits(f"reading {what}").applied():
            given = list(self._engine.read(what, data, problems, timestamps, self._arities))
        for facts in given:
            self._engine.check(facts, self._arities)
            self._steps.append((came, facts))
        self.skipped += problems.skipped


@dataclass
class _Undo:
    """Where lists were before an update touched them."""

    relation: TemporalRelation
    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    used: int
    live: int

    def undo(self) -> None:
        pool = self.relation.pool
        pool.runs.starts[self.rows] = self.starts
        pool.runs.counts[self.rows] = self.counts
        pool.runs.changed()
        pool.live = self.live
        self.relation.delta = np.zeros(0, np.uint32)


class _Commit:
    """One update, from the facts given to the change."""

    def __init__(
        self,
        engine: TemporalEngine,
        steps: list[tuple[bool, GivenFacts]],
        program: Program,
        arities: dict[str, int],
    ) -> None:
        self._engine = engine
        self._steps = steps
        self._program = program
        self._arities = arities
        self._added, self._removed = difference(engine.program, program)
        self._undo: list[_Undo] = []
        self._stated: dict[str, list[_Undo]] = {}
        self._derived: dict[str, list[_Undo]] = {}

    def perform(self) -> TemporalChange:
        engine = self._engine
        state = engine.state
        pending = engine.take_pending()
        self._steps = [*((True, facts) for facts in pending), *self._steps]
        program, arities = engine.program, engine.arities
        before, stated = dict(state.world.relations), dict(engine.stated)
        atoms = [(relation, relation.atoms) for relation in (*before.values(), *stated.values())]
        was_cut, notes = engine.sides_cut(state.bounds), state.notes
        try:
            if self._added or self._removed:
                engine.use_program(self._program, {**arities, **self._arities})
                engine.refine([program_scale(self._program)])
                check_operators(self._program, engine.encoding)
            engine.refine(facts.scale for _, facts in self._steps)
            for relation in before.values():
                relation.settle()
            self._take_in_predicates(state.world)
            inserted = self._change_stated()
            if self._may_go_on_for_ever():
                notes = engine.check_ends(state.bounds)
            is_bounded_as_before = was_cut == engine.sides_cut(state.bounds) and notes == state.notes
            changed = set(self._stated) | self._heads(self._removed) | self._heads(self._added)
            if is_bounded_as_before and self._is_incremental(changed):
                self._insert(state.world, inserted)
                check_constraints(engine.program, state.world, engine.calendar, state.world.horizon)
                change = TemporalChange({name: _net(undo) for name, undo in self._derived.items()})
            else:
                change = self._recompute(state, changed, everything=not is_bounded_as_before)
            change.relations = {
                name: one for name, one in change.relations.items() if len(one.inserted) or len(one.deleted)
            }
            change._calendar, change._dictionary = engine.calendar, engine.dictionary
            if engine.store is not None:
                from gpuengine.temporal.saving import commit

                commit(engine, {name: _net(undo) for name, undo in self._stated.items()}, change)
        except BaseException:
            engine.give_back(pending)
            engine.use_program(program, arities)
            state.world.relations, engine.stated = before, stated
            engine.adopt(state)
            for entry in reversed(self._undo):
                entry.undo()
            for relation, count in atoms:
                relation.forget(count)
            raise
        for relation in engine.state.world.relations.values():
            relation.settle()
        return change

    def _may_go_on_for_ever(self) -> bool:
        """Can rules go on for ever that did not before? Not by facts that have ends."""
        endless = any(
            (facts.lower == MINUS_INFINITY).any() or (facts.upper == INFINITY).any()
            for came, facts in self._steps
            if came
        )
        return endless or bool(self._added) or bool(self._removed)

    def _heads(self, rules: Iterable[Rule]) -> set[str]:
        return {name for rule in rules if (name := head_predicate(rule)) is not None}

    def _take_in_predicates(self, world: World) -> None:
        """Have a relation for each predicate, and stated facts apart from those that added rules derive."""
        engine = self._engine
        for name, arity in self._arities.items():
            if name not in world.relations:
                world.relations[name] = TemporalRelation(name, arity)
        for name in self._heads(self._added):
            if engine.stated.get(name) is world.relations[name]:
                world.relations[name] = world.relations[name].copy()
                world.relations[name].settle()

    def _change_stated(self) -> dict[str, list[tuple[np.ndarray, ...]]]:
        """Change the stated facts; what was inserted, by predicate, as columns of ids with ends."""
        engine = self._engine
        inserted: dict[str, list[tuple[np.ndarray, ...]]] = {}
        for came, facts in self._steps:
            name = facts.predicate
            relation = engine.stated.get(name)
            if relation is None:
                relation = engine.stated[name] = engine.new_relation(name, len(facts.arguments))
            atoms, lower, upper = engine.encode(facts, relation, intern=came)
            self._stated.setdefault(name, [])
            if came:
                columns = [relation.column(j, atoms) for j in range(relation.arity)]
                inserted.setdefault(name, []).append((*columns, lower, upper))
                self._merge(relation, atoms, lower, upper, self._stated[name])
            else:
                self._subtract(relation, atoms, lower, upper, self._stated[name])
        return inserted

    def _merge(
        self,
        relation: TemporalRelation,
        atoms: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        into: list[_Undo],
    ) -> Merged:
        used, live = relation.pool.used, relation.pool.live
        merged = relation.merge(atoms, lower, upper, keep_old=True)
        entry = _Undo(relation, merged.rows, merged.old_starts, merged.old_counts, used, live)
        self._undo.append(entry)
        into.append(entry)
        return merged

    def _subtract(
        self,
        relation: TemporalRelation,
        atoms: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        into: list[_Undo],
    ) -> None:
        pool = relation.pool
        used, live = pool.used, pool.live
        touched = np.unique(atoms)
        starts, counts = pool.runs.starts[touched], pool.runs.counts[touched]
        TIMELINE.subtract(pool, atoms, lower, upper)
        pool.runs.changed()
        entry = _Undo(relation, touched, starts, counts, used, live)
        self._undo.append(entry)
        into.append(entry)

    def _is_incremental(self, changed: set[str]) -> bool:
        """Can semi-naive rounds go on from the inserted facts?"""
        engine = self._engine
        state = engine.state
        if state.bounds.rounds is not None or engine.is_cut_late(state.bounds):
            return False
        if self._removed or not all(came for came, _ in self._steps):
            return False
        reached = reached_from(engine.program.rules, changed)
        negated = {name for rule in engine.program.rules for name in body_predicates(rule, negated=True)}
        return reached.isdisjoint(negated)

    def _insert(self, world: World, inserted: dict[str, list[tuple[np.ndarray, ...]]]) -> None:
        engine = self._engine
        for name, parts in inserted.items():
            relation = world.relations.get(name)
            if relation is None:
                is_cut = engine.state.bounds.horizon is not None
                stated = engine.stated[name]
                relation = TemporalRelation(name, stated.arity) if is_cut else stated
                world.relations[name] = relation
            if relation is engine.stated[name]:
                self._derived[name] = list(self._stated[name])
                continue
            *columns, lower, upper = (np.concatenate(column) for column in zip(*parts, strict=True))
            lower, upper = np.maximum(lower, world.horizon[0]), np.minimum(upper, world.horizon[1])
            inside = lower <= upper
            atoms = relation.intern([column[inside] for column in columns], int(np.count_nonzero(inside)))
            self._merge(relation, atoms, lower[inside], upper[inside], self._derived.setdefault(name, []))
        progress = Progress(
            "seminaive" if engine.progress.procedure == "naive" else engine.progress.procedure
        )

        def log(name: str, rows: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> None:
            relation = world.relations[name]
            entry = _Undo(
                relation, rows, starts, counts, 0, relation.pool.live - _grown(relation, rows, counts)
            )
            self._undo.append(entry)
            self._derived.setdefault(name, []).append(entry)

        added = {id(rule) for rule in self._added}
        for layer in engine.layers():
            for relation in world.relations.values():
                relation.settle()
            # What added rules derive from everything comes first.
            for number, rule in layer:
                for compiled in compile_rule(rule, number) if id(rule) in added else ():
                    assert isinstance(compiled.head, Relational)
                    head = compiled.head.predicate
                    for derived in list(derive(compiled, world)):
                        into = self._derived.setdefault(head, [])
                        check_fits(head, self._merge(world.relations[head], *derived, into))
            # Everything that changed so far is new to this layer.
            for relation in world.relations.values():
                relation.settle()
            for name, entries in self._derived.items():
                _show_changed(world.relations[name], entries)
            run_rules(layer, world, progress, rounds=None, log=log)

    def _recompute(self, state: Any, changed: set[str], *, everything: bool) -> TemporalChange:
        """Derive anew what the changed predicates reach.

        Everything, if rounds or a horizon bound the result.
        """
        engine = self._engine
        rules = engine.program.rules
        old = dict(state.world.relations)
        partly = not everything and state.bounds.rounds is None and not engine.is_cut_late(state.bounds)
        world, notes = engine.prepare(state.bounds)
        reached = reached_from(rules, changed) if partly else set(world.relations) | changed
        for name, relation in old.items():
            if name not in reached:
                world.relations[name] = relation
        progress = Progress(state.bounds.procedure)
        is_fixpoint = True
        for layer in engine.layers():
            renew(world)
            active = [(number, rule) for number, rule in layer if head_predicate(rule) in reached]
            is_fixpoint &= run_rules(active, world, progress, rounds=state.bounds.rounds)
        for relation in world.relations.values():
            relation.settle()
        progress.is_fixpoint = is_fixpoint
        engine.cut_to_horizon(world, state.bounds)
        engine.adopt(type(state)(world, state.bounds, progress, is_fixpoint and not notes, notes))
        derived = tuple(sorted(n for n in reached if any(head_predicate(rule) == n for rule in rules)))
        changes = {}
        for name in sorted(reached):
            if name in self._stated and old.get(name) is world.relations.get(name):
                changes[name] = _net(self._stated[name])
            else:
                changes[name] = _compared(old.get(name), world.relations[name])
        return TemporalChange(changes, derived)


def _grown(relation: TemporalRelation, rows: np.ndarray, old_counts: np.ndarray) -> int:
    return int(relation.pool.runs.counts[rows].sum() - old_counts.sum())


def _show_changed(relation: TemporalRelation, entries: list[_Undo]) -> None:
    """Have everything that an update changed so far as the delta."""
    rows, starts, counts = _first_lists(entries)
    runs = relation.pool.runs
    old = Runs(starts, counts, runs.lower, runs.upper, runs.flags)
    TIMELINE.mark_new(Runs(runs.starts[rows], runs.counts[rows], runs.lower, runs.upper, runs.flags), old)
    relation.show(rows)


def _first_lists(entries: list[_Undo]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each row that was touched, with where its list was before the first time."""
    rows = np.concatenate([entry.rows for entry in entries])
    starts = np.concatenate([entry.starts for entry in entries])
    counts = np.concatenate([entry.counts for entry in entries])
    distinct, first = np.unique(rows, return_index=True)
    return distinct.astype(np.uint32), starts[first], counts[first]


def _net(entries: list[_Undo]) -> PredicateChange:
    """What a predicate's facts were and are, where they were touched."""
    relation = entries[0].relation
    runs = relation.pool.runs
    rows, starts, counts = _first_lists(entries)
    old = _listed(relation, rows, starts, counts)
    new = _listed(relation, rows, runs.starts[rows], runs.counts[rows])
    return _difference(old, new)


def _listed(relation: TemporalRelation, rows: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> Rows:
    places = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    atoms = np.repeat(rows, counts)
    runs = relation.pool.runs
    columns = [relation.column(j, atoms) for j in range(relation.arity)]
    return Rows(columns, runs.lower[places], runs.upper[places])


def _compared(old: TemporalRelation | None, new: TemporalRelation) -> PredicateChange:
    def everything(relation: TemporalRelation) -> Rows:
        atoms, lower, upper = relation.entries()
        return Rows([relation.column(j, atoms) for j in range(relation.arity)], lower.copy(), upper.copy())

    nothing = Rows([np.zeros(0, np.uint32)] * new.arity, np.zeros(0, np.int64), np.zeros(0, np.int64))
    return _difference(nothing if old is None else everything(old), everything(new))


def _difference(old: Rows, new: Rows) -> PredicateChange:
    was, now = _keys(old), _keys(new)
    came, went = ~np.isin(now, was), ~np.isin(was, now)
    return PredicateChange(_chosen(new, came), _chosen(old, went))


def _keys(rows: Rows) -> np.ndarray:
    """Each row as one value."""
    matrix = np.stack([*(column.astype(np.int64) for column in rows.columns), rows.lower, rows.upper], axis=1)
    return np.ascontiguousarray(matrix).view([("", np.int64)] * matrix.shape[1]).reshape(len(rows))


def _chosen(rows: Rows, mask: np.ndarray) -> Rows:
    return Rows([column[mask] for column in rows.columns], rows.lower[mask], rows.upper[mask])
