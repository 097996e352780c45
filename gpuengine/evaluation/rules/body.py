"""Evaluate an ordered body: pipelines for the joins, vectorised steps for the rest, in bounded chunks.

A body becomes a list of stages. Each stage is a pipeline, driven by an atom, by the previous stage's
bindings, or by bindings given from outside; all but the last collect their bindings in a buffer, apply
the computing steps that follow, and hand the result on. Reading a relation that is not a table is such a
step. The last pipeline inserts into the head's set or collects the result. A body without computing steps is
one pipeline: it is *pure*. So is one that was compiled `in_one`: its pipeline computes on numbers itself, a
binding at a time, for the compiled loop over small rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import FunctorError, Interrupted
from gpuengine.evaluation.host_work import HostOperation
from gpuengine.evaluation.rules.blocks import Calculation, calculation_of, goes_along
from gpuengine.evaluation.rules.calculation import is_calculable
from gpuengine.evaluation.rules.compute import Bindings, apply_comparison, is_range, ranged
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.rules.device_bindings import DeviceBindings
from gpuengine.evaluation.rules.join import JoinBuilder, is_fusable
from gpuengine.evaluation.rules.scheme_reads import read_scheme
from gpuengine.kernels.contract import (
    IGNORE,
    Backend,
    Driver,
    Exists,
    Pipeline,
    Probe,
    Program,
    RowIndex,
    Rows,
    Status,
)
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Literal,
    Negation,
    Variable,
    literal_variables,
)
from gpuengine.limits import check as check_memory
from gpuengine.planning.fallible import can_fail
from gpuengine.planning.order import order_body
from gpuengine.planning.plan import Access, BodyPlan, Step
from gpuengine.schemes.contract import Domain
from gpuengine.schemes.table import Table, tables_among
from gpuengine.schemes.union import tables_in

if TYPE_CHECKING:
    from gpuengine.evaluation.rules.device_steps import Helpers, Steps
    from gpuengine.evaluation.rules.known_groups import KnownGroups

CHUNK_ROWS = 1 << 16
_DEVICE_CHUNKS = 16
"""A device that computes takes so many times as much at once: each time it is waited for."""


@dataclass(frozen=True, slots=True)
class Computation:
    """A step that is evaluated on columns of bindings; `domain` is what it reads of a relation."""

    step: Step
    domain: Domain


@dataclass
class Stage:
    """One pipeline, and the computing steps applied to what it collects.

    `input` are the rows it reads (None: a table's), `inputs` their variables; `collected` are the
    variables of the rows it writes to `buffer`. `registers` are those of its variables. `on_device` says that
    the computing steps are the device's: bindings stay there. If it `copies`, what it would collect are
    columns of its driver as they are, and nobody runs it.
    """

    pipeline: Pipeline
    program: Program
    input: Rows | None
    inputs: tuple[Variable, ...]
    registers: Mapping[Variable, int]
    collected: tuple[Variable, ...] = ()
    computations: tuple[Computation | Calculation, ...] = ()
    buffer: Rows | None = None
    on_device: bool = False
    copies: bool = False

    def copy(self) -> Stage:
        """The same on the host for another thread, with rows of its own."""
        pipeline, rows, buffer = self.pipeline, self.input, self.buffer
        if rows is not None:
            rows = CPU.rows(rows.arity)
            pipeline = replace(pipeline, driver=replace(pipeline.driver, rows=rows))
        if buffer is not None:
            buffer = CPU.rows(buffer.arity, CHUNK_ROWS)
        program = CPU.program(pipeline, self.program.stop)
        return replace(self, pipeline=pipeline, program=program, input=rows, buffer=buffer)

    def copied(self, start: int, end: int) -> Iterator[Bindings]:
        """Rows of the driver as bindings, in chunks that stay what they are."""
        driver = self.pipeline.driver
        columns = {variable: driver.bindings.index(self.registers[variable]) for variable in self.collected}
        for first in range(start, end, CHUNK_ROWS):
            stop = min(first + CHUNK_ROWS, end)
            chunk = {name: driver.rows.column(j)[first:stop].copy() for name, j in columns.items()}
            yield Bindings(chunk, stop - first)


@dataclass
class BodyProgram:
    """The stages of one body over one database, on one backend; good while `is_current`.

    `in_one` is the same body as one pipeline, for who has `tried_in_one` whether there is one.
    """

    stages: list[Stage]
    database: Database
    backend: Backend
    body_plan: BodyPlan
    absent: tuple[Table, ...]
    _epochs: tuple[tuple[Table, int], ...]
    in_hindsight: bool = False
    is_set: bool = False
    """Does it matter only which bindings reach the end, and not how often?"""
    in_one: BodyProgram | None = None
    tried_in_one: bool = False
    known: dict[Aggregate, KnownGroups] = field(default_factory=dict)
    """Of each aggregate the groups that were evaluated in the present run."""
    _copies: list[BodyProgram] = field(default_factory=list)

    @property
    def is_pure(self) -> bool:
        return len(self.stages) == 1

    @property
    def impossible(self) -> bool:
        """Has a table facts now that must have none for the body to hold?"""
        return any(map(len, self.absent))

    @property
    def is_current(self) -> bool:
        """Do the tables stand where they were, with the indexes it was made with?"""
        return all(table.epoch == epoch for table, epoch in self._epochs)

    @property
    def candidates(self) -> int:
        """Bindings that reached the end so far."""
        return self.stages[-1].program.candidates

    def copies(self, count: int) -> list[BodyProgram]:
        """The same for so many threads, with rows of their own between stages; each time the same ones."""
        while len(self._copies) < count:
            stages = [stage.copy() for stage in self.stages]
            self._copies.append(replace(self, stages=stages, in_one=None, known={}, _copies=[]))
        return self._copies[:count]

    def indexes(self) -> Iterator[RowIndex]:
        """Every index that its pipelines probe."""
        for stage in self.stages:
            for operation in stage.pipeline.operations:
                if isinstance(operation, Probe):
                    yield from (probe.index for probe in operation.alternatives)
                elif isinstance(operation, Exists):
                    yield operation.probe.index
            if stage.on_device:
                for computation in stage.computations:
                    if isinstance(computation, Computation):
                        yield from self._read_indexes(computation.step.literal)

    def _read_indexes(self, literal: Literal) -> Iterator[RowIndex]:
        """The indexes of tables that a union shows: a device probes them."""
        atom = literal.atom if isinstance(literal, Negation) else literal
        if isinstance(atom, Atom):
            for table in tables_in(self.database.tables[atom.relation]):
                yield from table.indexes

    def input_bounds(self, variable: Variable) -> tuple[int, int] | None:
        """The bounds of the ids that the last stage reads for a variable; None if an atom binds it."""
        stage = self.stages[-1]
        for j, name in enumerate(stage.inputs):
            if stage.input is not None and stage.registers[name] == stage.registers[variable]:
                (found,) = self.backend.bounds([stage.input.device_columns()[j]], stage.input.count)
                return found
        return None

    def feed(self, bindings: Bindings | DeviceBindings) -> tuple[int, int]:
        """Make given bindings the driver; returns the rows to run."""
        return _load(self.stages[0], bindings)

    def final_inputs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Run all stages but the last; for each chunk that reaches it, the rows of its driver to run."""
        self.known.clear()  # what aggregates read may have changed
        if not self.impossible:
            yield from self._spans(len(self.stages) - 1, start, end)
        self.known.clear()

    def collect(self, start: int, end: int) -> Iterator[Bindings]:
        """Run a collecting body; its bindings in chunks."""
        last = self.stages[-1]
        if self._ends_with_copies:
            self.known.clear()
            for bindings in self._bindings(len(self.stages) - 1, start, end) if not self.impossible else ():
                assert isinstance(bindings, Bindings)
                yield Bindings({name: bindings.columns[name] for name in last.collected}, bindings.rows)
            self.known.clear()
            return
        for first, stop in self.final_inputs(start, end):
            for _ in _chunks(last, first, stop):
                yield _unload(last)

    def collect_on_device(self, start: int, end: int) -> Iterator[DeviceBindings]:
        """Run a collecting body on a device; its bindings in chunks, each valid until the next."""
        last = self.stages[-1]
        assert last.buffer is not None
        for first, stop in self.final_inputs(start, end):
            for _ in _chunks(last, first, stop):
                columns = dict(zip(last.collected, last.buffer.device_columns(), strict=True))
                yield DeviceBindings(columns, last.buffer.count)

    def _computed(self, stage: Stage, copied: Bindings | None) -> Iterator[Bindings | DeviceBindings]:
        """What the computing steps of a stage leave of the bindings that it has collected, or `copied`."""
        if stage.on_device and not self.in_hindsight:
            from gpuengine.evaluation.rules.device_steps import computed_on_device

            assert stage.buffer is not None
            columns = dict(zip(stage.collected, stage.buffer.device_columns(), strict=True))
            given = DeviceBindings(columns, stage.buffer.count)
            steps = [(one.step, one.domain) for one in stage.computations if isinstance(one, Computation)]
            stop, helpers = stage.program.stop, self._helpers(stage)
            yield from computed_on_device(steps, given, self.database, self.backend, stop, helpers)
            return
        bindings = _unload(stage) if copied is None else copied
        if not self.in_hindsight:
            yield from self._after(stage, bindings)
            return
        parts = [bindings]
        while parts:
            part = parts.pop()
            try:
                copy = Bindings(dict(part.columns), part.rows)
                yield from list(self._after(stage, copy))
            except FunctorError:
                # Which of them fail is found by halving: failures are few.
                if part.rows > 1:
                    parts += part.halves()

    def _helpers(self, stage: Stage) -> Helpers:
        from gpuengine.evaluation.rules.device_steps import Helpers

        stop = stage.program.stop

        def collect(
            body: tuple[Literal, ...], given: DeviceBindings, wanted: tuple[Variable, ...]
        ) -> Iterator[DeviceBindings]:
            program = _compile_inner(body, tuple(given.columns), wanted, self.database, stop)
            yield from program.collect_on_device(*program.feed(given))

        def apply_on_host(literal: Literal, bindings: Bindings) -> None:
            _apply(literal, bindings, self.database, stop, self.known, False)

        def read_on_host(step: Step, domain: Domain, bindings: Bindings) -> Iterator[Bindings]:
            return _computed((Computation(step, domain),), bindings, self.database, stop, self.known, False)

        return Helpers(collect, apply_on_host, read_on_host)

    def _after(self, stage: Stage, bindings: Bindings) -> Iterator[Bindings]:
        # In hindsight, bindings may be tried again of which groups are known by then.
        once = self.is_set and not self.in_hindsight
        return _computed(stage.computations, bindings, self.database, stage.program.stop, self.known, once)

    @property
    def _ends_with_copies(self) -> bool:
        """Does the last stage collect nothing but what the computing steps before it leave on the host?"""
        last = self.stages[-1]
        return (
            len(self.stages) > 1
            and not last.pipeline.operations
            and not self.stages[-2].on_device
            and self.backend.on_host
            and set(last.collected) <= set(last.inputs)
        )

    def _spans(self, number: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Run all stages before one of them; for each chunk that reaches it, the rows of it to run."""
        if number == 0:
            yield start, end
            return
        for bindings in self._bindings(number, start, end):
            yield _load(self.stages[number], bindings)

    def _bindings(self, number: int, start: int, end: int) -> Iterator[Bindings | DeviceBindings]:
        """Run all stages before one of them; the bindings that it reads."""
        stage = self.stages[number - 1]
        for span in self._spans(number - 1, start, end):
            for copied in stage.copied(*span) if stage.copies else _chunks(stage, *span):
                check_memory("what a body computes")
                for bindings in self._computed(stage, copied):
                    self.database.refresh_values()
                    yield bindings
                if stage.program.stop[0]:
                    raise Interrupted("stopped")


def compile_body(
    body: Sequence[Literal],
    plan: BodyPlan,
    database: Database,
    *,
    sink: Atom | tuple[Variable, ...],
    stop: np.ndarray,
    given: tuple[Variable, ...] | None = None,
    delta: int | None = None,
    old: frozenset[int] = frozenset(),
    growing: frozenset[str] = frozenset(),
    distinct: bool = False,
    exact: bool = False,
    in_hindsight: bool = False,
    in_one: bool = False,
    best: object | None = None,
) -> BodyProgram:
    """Make the stages of `plan`. `sink` is the head to insert into, a table's, or the variables to collect.

    With `given` the body is driven by bindings of those variables (see `BodyProgram.feed`). The atom at
    `delta` reads NEW facts, those at `old` OLD ones; of a table that drives, the caller chooses the rows.
    `distinct` promises that the head's rows come out once each and are not in its table yet. With `exact`,
    every atom reads just its domain; otherwise one that only checks may see facts of other domains, and those
    that are scheduled, which for sets of facts comes to the same. `in_hindsight` drops bindings for which a
    literal can't be computed, instead of failing. `in_one` has pipelines compute what they can; who runs them
    has to know of that (see `Status`). `best` has the best value of each of the head's keys (see `Improve`).
    """
    compiler = _Compiler(body, plan, database, sink, stop, delta, old, growing, distinct, exact, in_one, best)
    program = compiler.compile(given)
    program.in_hindsight = in_hindsight and any(can_fail(part) for part in body)
    database.refresh_values()
    return program


def is_relational(literal: Literal, database: Database) -> bool:
    """Can a pipeline that computes do a literal, once what it needs is bound?"""
    if isinstance(literal, Comparison):
        bound = literal_variables(literal)
        return is_fusable(literal, bound) or is_calculable(literal, bound)
    return not isinstance(literal, Aggregate) and _reads_table(literal, database)


class _Compiler:
    def __init__(
        self,
        body: Sequence[Literal],
        plan: BodyPlan,
        database: Database,
        sink: Atom | tuple[Variable, ...],
        stop: np.ndarray,
        delta: int | None,
        old: frozenset[int],
        growing: frozenset[str],
        distinct: bool,
        exact: bool,
        in_one: bool,
        best: object | None,
    ) -> None:
        self.body, self.plan, self.database, self.sink = body, plan, database, sink
        self.stop, self.delta, self.old, self.growing, self.distinct = stop, delta, old, growing, distinct
        self.exact = exact
        self.in_one = in_one
        self.best = best
        self.stages: list[Stage] = []
        self.builders: list[JoinBuilder] = []
        self.tables = _tables(body, sink, database)
        self.backend = self.tables[0].backend if self.tables else database.backend
        assert all(table.backend is self.backend for table in self.tables), "tables on several backends"

    def compile(self, given: tuple[Variable, ...] | None) -> BodyProgram:
        steps = [one for step in self.plan.steps for one in self._of_one_kind(step)]
        builder, driver, rows, inputs = self._first_driver(steps, given)
        while steps:
            computed = self._next_computed(steps, builder)
            if not computed:
                self._add(builder, steps.pop(0))
                continue
            del steps[: len(computed)]
            builder, driver, rows, inputs = self._cut(builder, driver, rows, inputs, computed, steps)
        self._finish(builder, driver, rows, inputs)
        return BodyProgram(
            self.stages,
            self.database,
            self.backend,
            self.plan,
            tuple(table for each in self.builders for table in each.absent),
            tuple((table, table.epoch) for table in self.tables),
            is_set=isinstance(self.sink, Atom) and not self.exact,
        )

    def _builder(self) -> JoinBuilder:
        builder = JoinBuilder(self.database, self.old, self.growing, self.exact)
        self.builders.append(builder)
        return builder

    def _first_driver(
        self, steps: list[Step], given: tuple[Variable, ...] | None
    ) -> tuple[JoinBuilder, Driver, Rows | None, tuple[Variable, ...]]:
        builder = self._builder()
        if (
            given is None
            and steps
            and steps[0].access is Access.DRIVE
            and self._reads_table(steps[0].literal)
        ):
            literal = steps.pop(0).literal
            assert isinstance(literal, Atom)
            return builder, builder.drive_atom(literal), None, ()
        rows = self.backend.rows(len(given or ()))
        rows.count = 0 if given else 1
        return builder, builder.drive_variables(rows, given or ()), rows, given or ()

    def _is_relational(self, step: Step, bound: frozenset[Variable]) -> bool:
        if isinstance(step.literal, Comparison):
            return is_fusable(step.literal, bound) or (self.in_one and is_calculable(step.literal, bound))
        return not isinstance(step.literal, Aggregate) and self._reads_table(step.literal)

    def _reads_table(self, literal: Literal) -> bool:
        return _reads_table(literal, self.database)

    def _next_computed(self, steps: Sequence[Step], builder: JoinBuilder) -> list[Step]:
        """The next steps that are computed together; none if the first is the pipeline's.

        On the host, comparisons that a pipeline could do go along with those that it can't: behind them, and
        before them if nothing else comes between a driver and them.
        """
        bound = frozenset(builder.registers)
        found: list[Step] = []
        kept = 0
        for step in steps:
            is_relational = self._is_relational(step, bound)
            if is_relational and not (self.backend.on_host and goes_along(step.literal, bound)):
                break
            found.append(step)
            bound |= literal_variables(step.literal)
            if not is_relational:
                kept = len(found)
        if builder.operations and self._is_relational(steps[0], frozenset(builder.registers)):
            return []
        return found if kept else []

    def _of_one_kind(self, step: Step) -> list[Step]:
        """A step whose atoms compete, as steps that read tables or none: others are checked after them.

        If reads must be exact they do not compete: those that lose are checked against a whole set.
        """
        positions = (step.position, *step.alternatives)
        tables = [i for i in positions if self._reads_table(self.body[i])] if step.alternatives else ()
        if not step.alternatives or (len(tables) == len(positions) and not self.exact):
            return [step]
        first, *rivals = tables or positions[:1]
        rivals = [] if self.exact else rivals
        atom = self.body[first]
        assert isinstance(atom, Atom)
        known = [c for c, arg in enumerate(atom.args) if arg not in self._new_variables(step)]
        leader = replace(
            step, literal=atom, position=first, bound_columns=tuple(known), alternatives=tuple(rivals)
        )
        checked = [i for i in positions if i != first and i not in rivals]
        return [leader, *(Step(self.body[i], i, Access.CHECK, (), step.estimate) for i in checked)]

    def _new_variables(self, step: Step) -> frozenset[Variable]:
        """What a step whose atoms compete binds: the one variable outside its bound columns."""
        assert isinstance(step.literal, Atom)
        args = [arg for c, arg in enumerate(step.literal.args) if c not in step.bound_columns]
        return frozenset(arg for arg in args if isinstance(arg, Variable))

    def _domain(self, position: int) -> Domain:
        if position == self.delta:
            return Domain.NEW
        return Domain.OLD if position in self.old else Domain.ALL

    def _add(self, builder: JoinBuilder, step: Step) -> None:
        if step.alternatives:
            atoms = [(step.literal, step.position), *((self.body[i], i) for i in step.alternatives)]
            builder.add_alternatives([(a, i) for a, i in atoms if isinstance(a, Atom)])
        else:
            builder.add(step)

    def _needed(self, steps: Sequence[Step]) -> frozenset[Variable]:
        """Variables that the sink or some of `steps` mention."""
        head = self.sink.args if isinstance(self.sink, Atom) else self.sink
        needed = frozenset(arg for arg in head if isinstance(arg, Variable))
        for step in steps:
            needed |= literal_variables(step.literal)
            for other in step.alternatives:
                needed |= literal_variables(self.body[other])
        return needed

    def _cut(
        self,
        builder: JoinBuilder,
        driver: Driver,
        rows: Rows | None,
        inputs: tuple[Variable, ...],
        computed: list[Step],
        rest: list[Step],
    ) -> tuple[JoinBuilder, Driver, Rows, tuple[Variable, ...]]:
        """End a stage before computing literals, and begin the next one from their bindings."""
        needed = self._needed([*computed, *rest])
        kept = tuple(variable for variable in builder.registers if variable in needed)
        pipeline = builder.collect(driver, kept)
        after = self._needed(rest)
        computations = tuple(Computation(step, self._domain(step.position)) for step in computed)
        self._add_stage(pipeline, rows, inputs, builder, kept, computations, after)
        bound = {*kept, *(variable for step in computed for variable in literal_variables(step.literal))}
        following = tuple(sorted(bound & after, key=lambda variable: variable.name))
        fresh = self._builder()
        fresh_rows = self.backend.rows(len(following))
        return fresh, fresh.drive_variables(fresh_rows, following), fresh_rows, following

    def _finish(
        self, builder: JoinBuilder, driver: Driver, rows: Rows | None, inputs: tuple[Variable, ...]
    ) -> None:
        if isinstance(self.sink, Atom):
            if not self.stages:
                builder.check_bounds(self.sink)
            pipeline = builder.insert_into(driver, self.sink, distinct=self.distinct, best=self.best)
            program = self.backend.program(pipeline, self.stop)
            self.stages.append(Stage(pipeline, program, rows, inputs, builder.registers))
        else:
            self._add_stage(builder.collect(driver, self.sink), rows, inputs, builder, self.sink)

    def _add_stage(
        self,
        pipeline: Pipeline,
        rows: Rows | None,
        inputs: tuple[Variable, ...],
        builder: JoinBuilder,
        collected: tuple[Variable, ...],
        computations: tuple[Computation, ...] = (),
        after: frozenset[Variable] = frozenset(),
    ) -> None:
        """Add a stage that collects, with what is computed of that for what comes `after`."""
        program = self.backend.program(pipeline, self.stop)
        steps = [(one.step, one.domain) for one in computations]
        on_device = bool(steps) and self._can_compute_on_device(steps, collected)
        buffer = self.backend.rows(len(collected), CHUNK_ROWS * (_DEVICE_CHUNKS if on_device else 1))
        computing: tuple[Computation | Calculation, ...] = computations
        if not on_device:
            computing = _grouped(computations, collected, after, self.database)
        copies = bool(computations) and not on_device and self._copies(pipeline)
        self.stages.append(
            Stage(
                pipeline, program, rows, inputs, builder.registers, collected, computing, buffer, on_device,
                copies,
            )
        )  # fmt: skip

    def _copies(self, pipeline: Pipeline) -> bool:
        """Does a pipeline on the host collect columns of its driver, whatever is in them?"""
        bindings = pipeline.driver.bindings
        is_bare = not pipeline.operations and min(bindings, default=IGNORE) >= IGNORE
        return self.backend.on_host and is_bare and set(pipeline.sink.registers) <= set(bindings)

    def _can_compute_on_device(self, steps: Steps, bound: Iterable[Variable]) -> bool:
        if self.backend.on_host:
            return False
        from gpuengine.evaluation.rules.device_steps import can_compute_on_device

        return can_compute_on_device(steps, bound, self.database, self.backend)


def _reads_table(literal: Literal, database: Database) -> bool:
    atom = literal.atom if isinstance(literal, Negation) else literal
    assert isinstance(atom, Atom)
    return database.tables[atom.relation].is_listed


def _grouped(
    computations: Sequence[Computation],
    collected: Iterable[Variable],
    after: frozenset[Variable],
    database: Database,
) -> tuple[Computation | Calculation, ...]:
    """Computing steps, with each run of comparisons on numbers as one calculation."""
    result: list[Computation | Calculation] = []
    bound = frozenset(collected)
    rest = list(computations)
    while rest:
        inside, run = bound, list[Comparison]()
        while len(run) < len(rest) and goes_along(rest[len(run)].step.literal, inside):
            literal = rest[len(run)].step.literal
            assert isinstance(literal, Comparison)
            run.append(literal)
            inside |= literal_variables(literal)
        taken = max(1, len(run))
        needed = after.union(*(literal_variables(one.step.literal) for one in rest[taken:]))
        result.append(calculation_of(run, bound, needed, database.dictionary) if run else rest[0])
        bound = inside & needed if run else bound | literal_variables(rest[0].step.literal)
        del rest[:taken]
    return tuple(result)


def _tables(
    body: Sequence[Literal], sink: Atom | tuple[Variable, ...], database: Database
) -> tuple[Table, ...]:
    """The tables that a body reads outside its aggregates, and the one it inserts into."""
    atoms = [part.atom if isinstance(part, Negation) else part for part in body]
    named = dict.fromkeys(atom.relation for atom in [*atoms, sink] if isinstance(atom, Atom))
    return tuple(tables_among(database.tables[name] for name in named))


def _chunks(stage: Stage, start: int, end: int) -> Iterator[None]:
    """Run a collecting stage; each time its buffer holds something, let the caller take it."""
    buffer = stage.buffer
    assert buffer is not None
    buffer.count = 0
    status = stage.program.run(buffer, start, end)
    while True:
        if status is Status.STOPPED:
            raise Interrupted("stopped")
        if buffer.count:
            yield
        if status is Status.DONE:
            return
        buffer.count = 0
        status = stage.program.resume(buffer)


def _unload(stage: Stage) -> Bindings:
    """The buffered bindings, copied."""
    rows = stage.buffer
    assert rows is not None
    columns = {variable: rows.column(j).copy() for j, variable in enumerate(stage.collected)}
    return Bindings(columns, rows.count)


def _load(stage: Stage, bindings: Bindings | DeviceBindings) -> tuple[int, int]:
    """Make bindings the input of a stage."""
    assert stage.input is not None
    stage.input.count = 0
    stage.input.append([bindings.columns[variable] for variable in stage.inputs], bindings.rows)
    return 0, bindings.rows


def _computed(
    computations: Sequence[Computation | Calculation],
    bindings: Bindings,
    database: Database,
    stop: np.ndarray,
    known: dict[Aggregate, KnownGroups],
    once: bool,
) -> Iterator[Bindings]:
    """What is left of bindings after the given steps, in pieces; none are empty.

    If `once` is enough, groups that nothing else is known of are left out when they come again.
    """
    if not bindings.rows:
        return
    if not computations:
        yield bindings
        return
    first, *rest = computations
    if isinstance(first, Calculation):
        with database.host_work.counting(HostOperation.COMPUTATION, database.host_work.rule, bindings.rows):
            first.apply(bindings, database.dictionary)
        yield from _computed(rest, bindings, database, stop, known, once)
    elif isinstance(first.step.literal, Atom | Negation):
        reading = read_scheme(first.step, first.domain, bindings, database, stop)
        for made in database.host_work.each(
            HostOperation.READ, _relation(first.step.literal), reading, lambda some: some.rows
        ):
            yield from _computed(rest, made, database, stop, known, once)
    elif isinstance(first.step.literal, Comparison) and is_range(first.step.literal):
        ranging = ranged(first.step.literal, bindings, database.dictionary)
        for made in database.host_work.each(
            HostOperation.COMPUTATION, database.host_work.rule, ranging, lambda some: some.rows
        ):
            yield from _computed(rest, made, database, stop, known, once)
            if stop[0]:
                return
    else:
        _apply(first.step.literal, bindings, database, stop, known, once)
        yield from _computed(rest, bindings, database, stop, known, once)


def _apply(
    literal: Literal,
    bindings: Bindings,
    database: Database,
    stop: np.ndarray,
    known: dict[Aggregate, KnownGroups],
    once: bool,
) -> None:
    if isinstance(literal, Comparison):
        with database.host_work.counting(HostOperation.COMPUTATION, database.host_work.rule, bindings.rows):
            apply_comparison(literal, bindings, database.dictionary)
        return
    from gpuengine.evaluation.rules.aggregate import apply_aggregate
    from gpuengine.evaluation.rules.known_groups import KnownGroups

    assert isinstance(literal, Aggregate)

    def collect(
        body: tuple[Literal, ...], given: Bindings, wanted: tuple[Variable, ...]
    ) -> Iterator[Bindings]:
        program = _compile_inner(body, tuple(given.columns), wanted, database, stop)
        yield from program.collect(*program.feed(given))

    groups = known.setdefault(literal, KnownGroups(len(literal.outer)))
    with database.host_work.counting(HostOperation.AGGREGATE, database.host_work.rule, bindings.rows):
        apply_aggregate(literal, bindings, database, collect, groups, stop, once=once)


def _compile_inner(
    body: tuple[Literal, ...],
    given: tuple[Variable, ...],
    wanted: tuple[Variable, ...],
    database: Database,
    stop: np.ndarray,
) -> BodyProgram:
    """The body of an aggregate, to be fed with bindings of its outer variables."""
    plan = order_body(body, database, given=frozenset(given))
    return compile_body(body, plan, database, sink=wanted, stop=stop, given=given)


def _relation(literal: Atom | Negation) -> str:
    return literal.atom.relation if isinstance(literal, Negation) else literal.relation
