"""`TemporalEngine`: a DatalogMTL program, its facts, and what follows from them in metric time."""

from __future__ import annotations

import datetime as dates
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from gpuengine.errors import DataError, GpuEngineError
from gpuengine.evaluation.options import check_wait
from gpuengine.kernels.identity import NotCopied
from gpuengine.kernels.timeline import INFINITY, MINUS_INFINITY, Timeline
from gpuengine.language.diagnostics import nearest
from gpuengine.limits import Limits, parse_size
from gpuengine.limits import check as check_memory
from gpuengine.states import Turns
from gpuengine.temporal.bounds import Bounds, Unbounded, horizon_of, is_exact_within
from gpuengine.temporal.compiled import compile_rule
from gpuengine.temporal.constraints import check_constraints
from gpuengine.temporal.encoding import Encoding, TooFine, overflow, worst_of
from gpuengine.temporal.evaluation import World, answers, collect
from gpuengine.temporal.facts import (
    GivenFacts,
    OnError,
    Problems,
    given_facts,
    read_lines,
    read_path,
)
from gpuengine.temporal.language import parse_atom, parse_program, parse_query
from gpuengine.temporal.procedures import PROCEDURES, Procedure, Progress, Round, run_rules
from gpuengine.temporal.propagation import drifts, is_backward, is_forward
from gpuengine.temporal.relations import TIMELINE, TemporalRelation
from gpuengine.temporal.scales import check_operators, intervals_of, program_scale, rule_scale
from gpuengine.temporal.spelling import range_text
from gpuengine.temporal.strata import body_predicates, head_predicate, layers
from gpuengine.temporal.syntax import (
    Bottom,
    GivenFact,
    Interval,
    Literal,
    Negated,
    Program,
    Relational,
    Rule,
    atoms_of,
    head_atom,
    variables_of,
)
from gpuengine.temporal.tables import from_table, read_named, read_stream, table_of_rows, time_of
from gpuengine.temporal.timeless import derive_timeless, timeless_rules
from gpuengine.temporal.view import Calendar, TemporalView, times_of
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.text import from_strings

if TYPE_CHECKING:
    from gpuengine.kernels.contract import Backend
    from gpuengine.maintenance.transaction import Wait
    from gpuengine.temporal.updates import TemporalUpdate

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _in_turn(
    method: Callable[Concatenate[TemporalEngine, _Arguments], _Result],
) -> Callable[Concatenate[TemporalEngine, _Arguments], _Result]:
    """Have a method wait for what other threads are doing with the engine, and others wait for it."""

    @wraps(method)
    def taking_turns(
        self: TemporalEngine, /, *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        with self.turn():
            return method(self, *arguments, **named)

    return taking_turns


@dataclass
class _State:
    """A materialisation; replaced whole."""

    world: World
    bounds: Bounds
    progress: Progress
    is_exact: bool
    notes: list[str] = field(default_factory=list)


class TemporalEngine(NotCopied):
    """Holds a checked DatalogMTL program, facts with times, and what follows from them.

    Life-cycle: made from a program (a path that ends in ``.mtl`` or names a file, or text); `load` adds
    facts; `materialise` applies the rules up to a fixpoint, a number of rounds or within a horizon;
    ``engine[name]``
    reads a predicate, `query`, `holds` and `when` ask. `update` changes facts, `save` and `gpuengine.open`
    keep all of it on disk. A failed or interrupted operation leaves the engine as it was before.

    `backend` says where interval operations of rules run: ``"cpu"`` or ``"auto"``, the host; ``"cuda"``, a
    GPU (number `device`); or a `Backend` object. Joins and the merging of facts are the host's. `memory` is
    what the process may take (``"8GB"``; default: most of what is free).

    Threads may share an engine: whatever they do takes turns, so that each sees the state before or after a
    transaction. They queue for `wait` seconds at most (None: as long as it takes). Views are copies, and are
    read without waiting.
    """

    instead = "keep it with kb.save(path), and gpuengine.open(path) makes another"

    def __init__(
        self,
        program: str | os.PathLike[str],
        *,
        backend: str | Backend = "auto",
        device: int = 0,
        device_memory: str | int | None = None,
        memory: str | int | None = None,
        wait: float | None = 60.0,
    ) -> None:
        self.memory = None if memory is None else parse_size(memory)
        self.wait = check_wait(wait)
        self._turns = Turns()
        self.backend = _device_backend(backend, device, device_memory)
        self.program: Program = parse_program(source_of(program))
        self.dictionary = Dictionary()
        self.stated: dict[str, TemporalRelation] = {}
        self.skipped: list[str] = []
        self.skipped_rows = 0
        self._encoding = Encoding()
        self._stamp: Any = None
        self._times_known = False
        self._pending: list[GivenFacts] = []
        self._arities = dict(self.program.arities)
        self._state: _State | None = None
        self.store: Any = None
        self._take_program_facts()

    def turn(self, wait: Wait = "default") -> AbstractContextManager[None]:
        """Have the engine to oneself until the block ends; raises `Busy` if that takes too long."""
        return self._turns.turn(self.wait if wait == "default" else wait)

    def limits(self, doing: str) -> Limits:
        """What an operation may have the process take."""
        return Limits(self.memory, lambda: self.nbytes, lambda: doing)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that facts and terms take, those included that wait to be taken in."""
        relations = list(self.stated.values())
        if self._state is not None:
            relations += self._state.world.relations.values()
        held = {id(relation): relation.nbytes for relation in relations}
        for facts in self._pending:
            held |= {id(array): array.nbytes for array in facts.arrays()}
        return sum(held.values()) + self.dictionary.nbytes

    # -- facts -------------------------------------------------------------------------------------

    @_in_turn
    def load(
        self,
        what: str | os.PathLike[str],
        data: Any = None,
        *,
        on_error: OnError = "fail",
        timestamps: bool = False,
    ) -> int:
        """Add facts; how many were read.

        With `data`, facts of the predicate `what`: rows ``(c1, c2, start, end)``, perhaps with two booleans
        that say which ends are closed, a table with such columns, the path of one or of a text of facts, or
        the bytes of a CSV, a TSV or a text. Without, `what` is a file or a folder of facts, or a text of
        them. None is infinity. `timestamps` reads text as ISO 8601.
        """
        problems = Problems(on_error)
        with self.limits(f"loading {what}").applied():
            given = list(self.read(what, data, problems, timestamps))
        for facts in given:
            self.check(facts)
        self._pending += given
        for facts in given:
            self._arities.setdefault(facts.predicate, len(facts.arguments))
        self.skipped_rows += problems.skipped
        self.skipped += problems.messages
        return sum(map(len, given))

    def read(
        self,
        what: str | os.PathLike[str],
        data: Any,
        problems: Problems,
        timestamps: bool,
        arities: Mapping[str, int] | None = None,
    ) -> Iterable[GivenFacts]:
        """Facts as `load` takes them; `arities` are those of a program that is to be."""
        arities = self._arities if arities is None else arities
        if data is None:
            if isinstance(what, str) and ("@" in what or "\n" in what) and not Path(what[:200]).exists():
                return read_lines(what.encode(), "<facts>", problems, arities, timestamps=timestamps)
            return read_path(Path(what), arities, problems, timestamps=timestamps)
        name = str(what)
        arity = arities.get(name)
        if isinstance(data, bytes):
            return read_stream(data, name, arity, problems, timestamps=timestamps)
        if isinstance(data, str | os.PathLike):
            return read_named(Path(data), name, arity, problems, timestamps=timestamps)
        import pyarrow as pa

        if isinstance(data, pa.Table):
            table = data
        elif hasattr(data, "__arrow_c_stream__"):
            table = pa.table(data)
        elif hasattr(data, "__dataframe__") or type(data).__module__.startswith("pandas"):
            table = pa.Table.from_pandas(data, preserve_index=False)
        elif isinstance(data, Mapping):
            table = pa.table(data)
        else:
            from gpuengine.io.tabular import listed

            if not isinstance(data, Iterable):
                kind = type(data).__name__
                raise DataError(f"{name}: can't read facts from {kind}; give rows, a table, a path or bytes")
            rows = listed(data, name)
            if not rows:
                return []
            table = table_of_rows(name, rows)
        from gpuengine.io.conform import check_columns

        check_columns(table, name)
        return [from_table(name, table, arity, name, problems, timestamps=timestamps)]

    def check(self, facts: GivenFacts, arities: Mapping[str, int] | None = None) -> None:
        """Raise if facts do not go with the program and the facts that are there."""
        arity = (self._arities if arities is None else arities).get(facts.predicate)
        if arity is not None and arity != len(facts.arguments):
            raise DataError(
                f"{facts.predicate} has {len(facts.arguments)} arguments in the facts, but {arity} in the "
                "program or in other facts"
            )
        # What holds always says nothing of how times are written.
        if not ((facts.lower != MINUS_INFINITY).any() or (facts.upper != INFINITY).any()):
            return
        if self._times_known and (facts.stamp is None) != (self._stamp is None):
            raise DataError(
                f"{facts.predicate}: timestamps and plain numbers as times of one engine\n"
                "  hint: load all times as timestamps (--timestamps for text), or all as numbers"
            )
        self._times_known = True
        self._stamp = self._stamp or facts.stamp

    def _take_program_facts(self) -> None:
        for given in given_facts(self.program.facts):
            self.check(given)
            self._pending.append(given)

    @property
    def arities(self) -> dict[str, int]:
        """How many arguments each predicate has."""
        return dict(self._arities)

    def use_program(self, program: Program, arities: Mapping[str, int]) -> None:
        """Have other rules, and predicates with these arities."""
        self.program = program
        self._arities = dict(arities)

    def fold(self) -> None:
        """Make what was loaded part of the stated facts."""
        if not self._pending:
            return
        self.refine(facts.scale for facts in self._pending)
        for facts in self._pending:
            relation = self.stated.get(facts.predicate)
            if relation is None:
                relation = TemporalRelation(facts.predicate, len(facts.arguments))
                self.stated[facts.predicate] = relation
            elif self._state is not None and self._state.world.relations.get(facts.predicate) is relation:
                # The materialisation goes on reading what it has.
                relation = self.stated[facts.predicate] = relation.copy()
            relation.merge(*self.encode(facts, relation))
            check_memory(f"facts of {facts.predicate}")
        self._pending = []

    def take_pending(self) -> list[GivenFacts]:
        """What was loaded and is not part of the stated facts yet; the caller makes it so."""
        pending, self._pending = self._pending, []
        return pending

    def give_back(self, pending: list[GivenFacts]) -> None:
        """Have facts that were taken, and that nothing came of, as loaded ones again."""
        self._pending = pending + self._pending

    def new_relation(self, name: str, arity: int) -> TemporalRelation:
        """A relation without facts for a predicate that had none."""
        self._arities.setdefault(name, arity)
        return TemporalRelation(name, arity)

    def encode(
        self, facts: GivenFacts, relation: TemporalRelation, *, intern: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Facts as (atoms, lower, upper) of a relation; without `intern` only those of known atoms."""
        try:
            lower, upper = self._encoding.rescaled(facts.lower, facts.upper, Encoding(facts.scale))
        except TooFine as error:
            raise overflow(self._worst_time(), error.scale) from None
        if intern:
            columns = [self.dictionary.encode_text(text) for text in facts.arguments]
            return relation.intern(columns, len(facts)), lower, upper
        known = np.ones(len(facts), np.bool_)
        columns = []
        for text in facts.arguments:
            ids, is_interned = self.dictionary.find_text(text)
            columns.append(ids)
            known &= is_interned
        atoms, is_interned = relation.find(columns, len(facts))
        known &= is_interned
        return atoms[known], lower[known], upper[known]

    def refine(self, scales: Iterable[int]) -> None:
        """Have a unit in which times of these scales are whole too; raises if times no longer fit."""
        scales = list(scales)
        try:
            self.use_encoding(self._encoding.with_scales(scales))
        except TooFine as error:
            raise overflow(self._worst_time(), error.scale) from None

    def _worst_time(self) -> Fraction:
        """Of all times of program and facts the one with the largest denominator."""
        times = [end for rule in self.program.rules for i in intervals_of(rule) for end in (i.lower, i.upper)]
        stated = [time for time in times if time is not None]
        for facts in self._pending:
            stated.append(_worst_encoded(facts.lower, facts.upper, facts.scale))
        for relation in self.stated.values():
            _, lower, upper = relation.entries()
            stated.append(_worst_encoded(lower, upper, self._encoding.scale))
        return worst_of(stated)

    def use_encoding(self, encoding: Encoding) -> None:
        """Have all times in another unit, those of the materialisation too."""
        if encoding.scale == self._encoding.scale:
            return
        relations = list(self.stated.values())
        if self._state is not None:
            shared = {id(relation) for relation in relations}
            relations += [r for r in self._state.world.relations.values() if id(r) not in shared]
        for relation in relations:
            relation.check_scale(self._encoding, encoding)
        for relation in relations:
            relation.rescale(self._encoding, encoding)
        if self._state is not None:
            self._state.world.use_encoding(encoding)
        self._encoding = encoding

    # -- evaluation --------------------------------------------------------------------------------

    @_in_turn
    def materialise(
        self,
        *,
        rounds: int | None = None,
        horizon: Interval | str | tuple[Any, Any] | None = None,
        procedure: Procedure = "optimised",
        watch: Callable[[Round], None] | None = None,
    ) -> TemporalEngine:
        """Apply the rules until nothing new follows, for so many rounds, or within a horizon.

        With `rounds` the result is T^rounds of the facts (of each layer, if there is negation). Raises
        `EvaluationError` before any work if the program would go on for ever, and `Inconsistent` if a
        constraint is violated; then nothing has changed.
        """
        if procedure not in PROCEDURES:
            raise GpuEngineError(f"there is no procedure {procedure!r}: it is one of {', '.join(PROCEDURES)}")
        if rounds is not None and not (isinstance(rounds, int) and rounds >= 0):
            raise GpuEngineError(f"the number of rounds is a whole number from 0 on, not {rounds!r}")
        bounds = Bounds(rounds, horizon_of(horizon, timestamps=self._stamp is not None), procedure)
        with self.limits("materialising").applied():
            self._materialise(bounds, watch)
        return self

    def _materialise(self, bounds: Bounds, watch: Callable[[Round], None] | None) -> None:
        rounds, procedure = bounds.rounds, bounds.procedure
        self.fold()
        world, notes = self.prepare(bounds)
        progress = Progress(procedure, watch=watch)
        done = self._derive_timeless(world, progress) if rounds is None else set()
        is_fixpoint = True
        for layer in self.layers():
            renew(world)
            remaining = [(number, rule) for number, rule in layer if number not in done]
            is_fixpoint &= run_rules(remaining, world, progress, rounds=rounds)
        for relation in world.relations.values():
            relation.settle()
        progress.is_fixpoint = is_fixpoint
        self.cut_to_horizon(world, bounds)
        self._state = _State(world, bounds, progress, is_fixpoint and not notes, notes)
        if self.store is not None:
            from gpuengine.temporal.saving import rewrite

            rewrite(self)

    def _derive_timeless(self, world: World, progress: Progress) -> set[int]:
        """Derive strata without time as ordinary Datalog; the numbers of their rules."""
        deriving = [rule for rule in self.program.rules if head_predicate(rule) is not None]
        rules = timeless_rules(deriving, world)
        if not any(len(world.relations[name]) for rule in rules for name in body_predicates(rule)):
            return set()
        derive_timeless(rules, world)
        progress.timeless = sorted({name for rule in rules if (name := head_predicate(rule)) is not None})
        chosen = {id(rule) for rule in rules}
        return {number for number, rule in enumerate(self.program.rules, 1) if id(rule) in chosen}

    def layers(self) -> list[list[tuple[int, Rule]]]:
        """The rules with their numbers, in layers of negation."""
        numbers = {id(rule): number for number, rule in enumerate(self.program.rules, 1)}
        return [[(numbers[id(rule)], rule) for rule in layer] for layer in layers(self.program.rules)]

    def _timeline(self) -> Timeline:
        """What does interval operations."""
        if self.backend is None:
            return TIMELINE
        from gpuengine.kernels.cuda.timeline import CudaTimeline

        return CudaTimeline(self.backend.device)

    def prepare(self, bounds: Bounds) -> tuple[World, list[str]]:
        """A world with the stated facts, cut to the horizon; and what to say of bounds that are not exact."""
        self.refine([program_scale(self.program)])
        check_operators(self.program, self._encoding)
        notes = self.check_ends(bounds)
        if bounds.horizon is not None:
            ends = [e for e in (bounds.horizon.lower, bounds.horizon.upper) if e is not None]
            self.use_encoding(self._encoding.with_times(ends))
        horizon = self._evaluated_within(bounds)
        derived = {name for rule in self.program.rules if (name := head_predicate(rule)) is not None}
        relations: dict[str, TemporalRelation] = {}
        for name, arity in self._arities.items():
            stated = self.stated.get(name)
            if stated is None:
                relations[name] = TemporalRelation(name, arity)
                if name not in derived and bounds.horizon is None:
                    self.stated[name] = relations[name]
            elif name in derived or bounds.horizon is not None:
                relations[name] = _cut(stated, horizon)
            else:
                relations[name] = stated
        return World(relations, self.dictionary, self._encoding, horizon, timeline=self._timeline()), notes

    def sides_cut(self, bounds: Bounds) -> tuple[bool, bool]:
        """Are facts before and after the horizon left out while rules are applied?

        What a forward-propagating program derives within the horizon it derives from what is before its end,
        so only there facts are cut; the others go when everything is derived. Backward it is the other way
        round.
        """
        if bounds.horizon is None:
            return False, False
        rules = [rule for rule in self.program.rules if head_predicate(rule) is not None]
        forward, backward = all(map(is_forward, rules)), all(map(is_backward, rules))
        return backward or not forward, forward or not backward

    def _evaluated_within(self, bounds: Bounds) -> tuple[int, int]:
        """Where facts are kept while rules are applied (encoded)."""
        if bounds.horizon is None:
            return MINUS_INFINITY, INFINITY
        low, high = self._encoding.range(bounds.horizon)
        before, after = self.sides_cut(bounds)
        return low if before else MINUS_INFINITY, high if after else INFINITY

    def is_cut_late(self, bounds: Bounds) -> bool:
        """Does the result lack facts that were needed to derive it?"""
        if bounds.horizon is None:
            return False
        return self._evaluated_within(bounds) != self._encoding.range(bounds.horizon)

    def cut_to_horizon(self, world: World, bounds: Bounds) -> None:
        """Leave what lies within the horizon; raises `Inconsistent` if a constraint is violated there."""
        within = world.horizon if bounds.horizon is None else self._encoding.range(bounds.horizon)
        check_constraints(self.program, world, self.calendar, within)
        if self.is_cut_late(bounds):
            world.horizon = within
            world.relations = {name: _cut(r, world.horizon) for name, r in world.relations.items()}
            for relation in world.relations.values():
                relation.settle()

    def check_ends(self, bounds: Bounds) -> list[str]:
        """Raise if the program would go on for ever.

        Notes where the horizon makes a lower bound of the result, or less.
        """
        rules = [rule for rule in self.program.rules if head_predicate(rule) is not None]
        notes: list[str] = []
        horizon = bounds.horizon
        if bounds.rounds is None:
            for drift in drifts(rules, self._ends()):
                if horizon is None or (horizon.upper if drift.forward else horizon.lower) is None:
                    raise Unbounded(drift)
        if horizon is None:
            return notes
        within = f"within {range_text(horizon, as_timestamp=self._stamp is not None)}"
        if not is_exact_within(rules, horizon):
            if any(isinstance(literal, Negated) for rule in rules for literal in rule.body):
                text = "the result is an approximation: rules may need, or negate, facts from outside"
            else:
                text = "the result is a lower bound: rules may need facts from outside"
            notes.append(f"{within} {text}")
        elif not is_exact_within((*rules, *_constraint_bodies(self.program)), horizon):
            notes.append(f"{within} constraints are checked without the facts from outside")
        return notes

    def _ends(self) -> dict[str, tuple[bool, bool]]:
        """Of each predicate with facts whether these have a first and a last time."""
        ends = {}
        for name, relation in self.stated.items():
            if len(relation):
                _, lower, upper = relation.entries()
                ends[name] = bool((lower != MINUS_INFINITY).all()), bool((upper != INFINITY).all())
        return ends

    # -- reading -----------------------------------------------------------------------------------

    @property
    def state(self) -> _State:
        if self._state is None:
            raise GpuEngineError("nothing is materialised yet\n  hint: call materialise() first")
        return self._state

    def adopt(self, state: _State) -> None:
        """Have another materialisation."""
        self._state = state

    def resume(
        self,
        relations: dict[str, TemporalRelation],
        bounds: Bounds,
        progress: Progress,
        is_exact: bool,
        notes: list[str],
        stamp: Any,
    ) -> None:
        """Have a materialisation that was saved; the stated facts and the encoding are there already."""
        self._stamp = stamp
        self._times_known = any(len(relation) for relation in relations.values())
        world = World(relations, self.dictionary, self._encoding, timeline=self._timeline())
        if bounds.horizon is not None:
            world.horizon = self._encoding.range(bounds.horizon)
        self._state = _State(world, bounds, progress, is_exact, notes)

    @property
    def progress(self) -> Progress:
        """What the last materialisation did, round by round."""
        return self.state.progress

    @property
    def notes(self) -> list[str]:
        """What limits the result, if anything does."""
        return list(self.state.notes)

    @property
    def is_exact(self) -> bool:
        """Is the result everything that follows (within the horizon, if there is one)?"""
        return self.state.is_exact

    @property
    def calendar(self) -> Calendar:
        return Calendar(self._encoding, self._stamp)

    @property
    def stamp(self) -> Any:
        return self._stamp

    @property
    def encoding(self) -> Encoding:
        return self._encoding

    @property
    def warnings(self) -> list[str]:
        """Predicates of bodies that no rule derives and no facts have, with the nearest known name."""
        derived = {head_predicate(rule) for rule in self.program.rules}
        loaded = {facts.predicate for facts in self._pending} | {n for n, r in self.stated.items() if len(r)}
        predicates = {name for name in derived | loaded if name is not None}
        warnings = []
        for rule in self.program.rules:
            for literal in rule.body:
                for atom in atoms_of(literal):
                    if atom.predicate not in predicates:
                        place = self.program.sources.span(*atom.span)
                        text = f"{place}: {atom.predicate} is in no head and no facts: it never holds"
                        hint = nearest(atom.predicate, predicates, "predicate")
                        warnings.append((atom.predicate, text + (f"\n  hint: {hint}" if hint else "")))
        return list(dict(reversed(warnings)).values())[::-1]

    @property
    def relations(self) -> list[str]:
        """The predicates of program and facts."""
        return sorted(self._arities)

    @_in_turn
    def __getitem__(self, name: str) -> TemporalView:
        world = self.state.world
        if name not in self._arities:
            hint = nearest(name, self._arities, "predicate")
            raise KeyError(f"there is no predicate {name!r}" + (f": {hint}" if hint else ""))
        # Facts that wait for the next update may have a predicate of their own.
        relation = world.relations.get(name, TemporalRelation(name, self._arities[name]))
        columns = [f"arg{j}" for j in range(relation.arity)]
        return TemporalView(name, columns, relation, self.dictionary, self.calendar)

    def __contains__(self, name: str) -> bool:
        return name in self._arities

    @_in_turn
    def when(self, atom: str) -> list[Interval]:
        """The intervals in which a ground atom holds, such as ``R6(c2)``."""
        relation, number = self._atom(parse_atom(atom, self._arities))
        return [] if number is None else times_of(relation, number, self._encoding)

    def holds(self, atom: str, at: Any) -> bool:
        """Does a ground atom hold at a time (a number, text such as ``1/3``, a datetime)?"""
        time = time_of(at, timestamps=self._stamp is not None and isinstance(at, str))
        if not isinstance(time, Fraction):
            raise GpuEngineError(f"{at!r} is no time")
        # A number is one of seconds where times are timestamps: `when` gives such.
        is_timestamp = self._stamp is not None or isinstance(at, dates.date)
        return self.entails(GivenFact(parse_atom(atom, self._arities), Interval(time, time), is_timestamp))

    @_in_turn
    def entails(self, fact: GivenFact) -> bool:
        """Does a fact hold, throughout its interval?"""
        is_endless = fact.range.lower is None and fact.range.upper is None
        if self._times_known and not is_endless and fact.is_timestamp != (self._stamp is not None):
            times = "numbers" if self._stamp is None else "timestamps"
            raise GpuEngineError(f"the times of this engine are {times}\n  hint: ask for such a time")
        relation, number = self._atom(fact.atom)
        return number is not None and relation.contains(number, *self._encoding.cover(fact.range))

    def _relation(self, atom: Relational) -> TemporalRelation:
        relations = self.state.world.relations
        if atom.predicate not in relations:
            hint = nearest(atom.predicate, relations, "predicate")
            raise GpuEngineError(
                f"there is no predicate {atom.predicate}" + (f"\n  hint: {hint}" if hint else "")
            )
        return relations[atom.predicate]

    def _atom(self, atom: Relational) -> tuple[TemporalRelation, int | None]:
        relation = self._relation(atom)
        columns = []
        for term in atom.terms:
            ids, is_interned = self.dictionary.find_text(from_strings([getattr(term, "text", str(term))]))
            if not is_interned[0]:
                return relation, None
            columns.append(ids)
        numbers, is_interned = relation.find(columns, 1)
        return relation, int(numbers[0]) if is_interned[0] else None

    @_in_turn
    def query(self, text: str) -> TemporalView | bool:
        """A fact such as ``P(a)@[1,2]``: does it hold? A body such as ``P(X), Boxminus[0,2] Q(X)``: its
        answers.

        Answers have a column for each variable, and the times at which the body holds. In a fact everything
        is a constant; in a body names that begin with an upper-case letter are variables, and constants can
        be
        quoted.
        """
        asked = parse_query(text, self._arities)
        if isinstance(asked, GivenFact):
            return self.entails(asked)
        with self.limits(f"answering {text}").applied():
            return self._answers(text, asked)

    def _answers(self, text: str, body: tuple[Literal, ...]) -> TemporalView:
        world = self.state.world
        for literal in body:
            for atom in atoms_of(literal):
                self._relation(atom)
        named = [
            v
            for literal in body
            if not isinstance(literal, Negated)
            for atom in atoms_of(literal)
            for v in variables_of(atom)
        ]
        variables = tuple(v for v in dict.fromkeys(named) if not v.name.startswith("_"))
        rule = Rule(Relational("answer", variables), body)
        self.refine([rule_scale(rule)])
        result = TemporalRelation("answer", len(variables))
        for compiled in compile_rule(rule, 0):
            for batch, runs in answers(compiled, world):
                collect(result, batch, variables, runs)
                check_memory("answers")
        names = [str(variable) for variable in variables]
        return TemporalView("answer", names, result, self.dictionary, self.calendar)

    # -- changes -----------------------------------------------------------------------------------

    def update(self, *, wait: Wait = "default") -> TemporalUpdate:
        """A transaction: ``with kb.update() as u: u.insert("P", rows)``.

        `u.change` says what came and went. If another thread uses the engine, the block waits for it before
        it begins, `wait` seconds at most (by default those of the engine; None: as long as it takes).
        """
        from gpuengine.temporal.updates import TemporalUpdate

        return TemporalUpdate(self, wait if wait == "default" else check_wait(wait))

    @_in_turn
    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write the engine to a directory that `gpuengine.open` reads; raises `StoreError` if it is taken."""
        from gpuengine.temporal.saving import save

        save(self, path, replace=replace)

    def close(self) -> None:
        """Give up the directory that the engine was opened from, if it was."""
        if self.store is not None:
            self.store.close()
            self.store = None

    def __enter__(self) -> TemporalEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def renew(world: World) -> None:
    """Everything is new: the delta that a layer begins with."""
    for relation in world.relations.values():
        relation.renew()


def _cut(relation: TemporalRelation, horizon: tuple[int, int]) -> TemporalRelation:
    """A copy with what lies within the horizon."""
    copy = TemporalRelation(relation.name, relation.arity)
    atoms, lower, upper = relation.entries()
    lower, upper = np.maximum(lower, horizon[0]), np.minimum(upper, horizon[1])
    inside = lower <= upper
    copy.intern([relation.column(j) for j in range(relation.arity)], relation.atoms)
    if inside.any():
        copy.merge(atoms[inside], lower[inside], upper[inside])
    return copy


def _constraint_bodies(program: Program) -> Iterator[Rule]:
    """Constraints as rules that derive something: what their heads say does not matter."""
    for rule in program.rules:
        if isinstance(head_atom(rule.head), Bottom):
            yield Rule(Relational("Bottom", ()), rule.body)


def _worst_encoded(lower: np.ndarray, upper: np.ndarray, scale: int) -> Fraction:
    ends = np.concatenate([lower[lower != MINUS_INFINITY] >> 1, (upper[upper != INFINITY] + 1) >> 1])
    if not len(ends):
        return Fraction(0)
    finest = np.gcd(ends, scale).min()
    return worst_of(Fraction(int(end), scale) for end in ends[np.gcd(ends, scale) == finest][:1000].tolist())


def _device_backend(backend: str | Backend, device: int, memory: str | int | None) -> Any:
    """The backend of a device, None for the host; raises `BackendError` if it can't be used."""
    if backend in ("auto", "cpu"):
        return None
    from gpuengine.evaluation.placement.accelerator import find_accelerator

    return find_accelerator(backend, device, None if memory is None else parse_size(memory), None).backend


def source_of(program: str | os.PathLike[str]) -> str | Path:
    """A path if it is one or looks like one, else text."""
    if not isinstance(program, str):
        return Path(program)
    if "\n" not in program and (
        program.strip().endswith(".mtl") or (len(program) < 1000 and Path(program).is_file())
    ):
        return Path(program)
    return program
