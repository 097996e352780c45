"""Evaluate one delta variant of a rule: order and compile it when need be, drive it, insert what is new."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gpuengine.errors import EvaluationError, Interrupted, MemoryBudgetError
from gpuengine.evaluation.host_work import HostOperation
from gpuengine.evaluation.progress import Progress, UsedPlan
from gpuengine.evaluation.rules.body import BodyProgram, compile_body, is_relational
from gpuengine.evaluation.rules.bounds import flow_bounds, widen_head
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.improving import Improving
from gpuengine.evaluation.rules.multiway_join import MultiwayJoin
from gpuengine.evaluation.rules.parallel_body import can_run_in_parallel, insert_in_parallel
from gpuengine.kernels.contract import IGNORE, Array, Status
from gpuengine.kernels.cpu.merging import RoundMerge
from gpuengine.kernels.cpu.program import Program as CpuProgram
from gpuengine.language.program import (
    Atom,
    BodyOrder,
    Comparison,
    Functor,
    Literal,
    Rule,
    Variable,
    Wildcard,
    literal_variables,
)
from gpuengine.planning.order import order_as_written, order_body
from gpuengine.planning.passes import blank_rule
from gpuengine.planning.plan import Access, BodyPlan, Variant
from gpuengine.schemes.contract import Bounds, Scheme
from gpuengine.schemes.table import Table, as_table

if TYPE_CHECKING:
    from gpuengine.evaluation.rules.tree_join import TreeJoin

SMALL_DELTA = 4096
"""Up to this many driver rows are not worth splitting over threads."""
_SMALL_COPY = 1 << 16
"""Nor are so many where each row gives at most one fact."""
_REPLAN_GROWTH = 8
_INSERT_ROOM = 1 << 12
_DEVICE_ROOM = 1 << 16
_LARGEST_SPARE = 1 << 22


@dataclass
class _Prepared:
    """A variant compiled for the sizes it saw."""

    body: BodyProgram
    sizes: dict[str, int]
    used: UsedPlan
    noted_in: Progress


class Selector(Protocol):
    """What keeps the facts of a relation that does not keep all that is derived (`driver.selectors`)."""

    def offer(self, columns: Sequence[np.ndarray], rows: int, rule: Rule | None = None) -> None:
        """Facts that a rule derives, a column more for each variable that it was asked for `besides`."""

    def besides(self, rule: Rule) -> tuple[Variable, ...]:
        """The variables of a rule that tell apart what is offered, but do not stand in its head."""


class VariantRunner:
    """Runs the variants of one stratum; `members` are its relations, `rules` the rules that are evaluated.

    `bound_rules` are all rules through which ids get into its relations, those that a scheme implies
    included.
    """

    def __init__(self, context: Context, members: frozenset[str], rules: Sequence[Rule]) -> None:
        self.context = context
        self.members = members
        self.rules = list(rules)
        self.bound_rules = list(rules)
        self._is_inner = False
        self._prepared: dict[Variant, _Prepared] = {}
        self._admitted: dict[Variant, list[Bounds]] = {}
        self.selectors: Mapping[str, Selector] = {}
        self.improved: Mapping[str, Callable[[], RoundMerge | None]] = {}
        """Of the selectors those that pipelines may improve in place, as things are when they are called."""
        self._multiway_join = MultiwayJoin(context)

    @cached_property
    def _tree_join(self) -> TreeJoin:
        from gpuengine.evaluation.rules.tree_join import TreeJoin

        return TreeJoin(self.context)

    def prepare(self, variant: Variant) -> BodyProgram:
        """The compiled variant: as before, unless tables were rebuilt or sizes are far from what it saw."""
        self._admit(variant)
        database = self.context.database
        prepared = self._prepared.get(variant)
        read = {
            part.relation: database.tables[part.relation]
            for part in variant.rule.body
            if isinstance(part, Atom)
        }
        sizes = {name: len(table) for name, table in read.items() if table.is_listed}
        if prepared is not None and prepared.noted_in is not self.context.progress:
            prepared.noted_in = self.context.progress
            if not self._is_inner:
                prepared.used = prepared.noted_in.plans.setdefault(variant, replace(prepared.used, times=0))
        if prepared is not None and prepared.body.is_current and not _outgrown(prepared.sizes, sizes):
            return prepared.body
        self.context.progress.rule = variant.rule.text
        body = self._compile(variant)
        if prepared is not None:  # to look a variant up takes long enough to notice in short rounds
            prepared.body, prepared.sizes = body, sizes
        else:
            progress = self.context.progress
            prepared = self._prepared[variant] = _Prepared(body, sizes, self._used_plan(variant), progress)
        prepared.used.choose(body.body_plan, assumed=any(database.is_assumed(name) for name in read))
        return body

    def _used_plan(self, variant: Variant) -> UsedPlan:
        """Where to note how a variant is evaluated; who runs an inner one notes that."""
        return UsedPlan() if self._is_inner else self.context.progress.used_plan(variant)

    def prepare_all(self, variants: Sequence[Variant]) -> list[BodyProgram]:
        """Prepare variants that are to run together: what one has its head admit may concern the others."""
        while True:
            bodies = [self.prepare(variant) for variant in variants]
            if all(body.is_current for body in bodies):
                return bodies

    def in_one(self, variant: Variant, body: BodyProgram) -> BodyProgram | None:
        """A prepared variant as one pipeline, which may compute; None if some step needs columns.

        If its head does not keep everything, it collects what is to be offered. It is good as long as `body`
        is, and the head's table.
        """
        if body.is_pure and variant.rule.head.relation not in self.selectors:
            return body
        # The head of what only collects is none of its tables.
        if not body.tried_in_one or (body.in_one is not None and not body.in_one.is_current):
            body.tried_in_one = True
            if all(is_relational(part, self.context.database) for part in self._body(variant)):
                made = self._compile_by(body.body_plan, variant, in_one=True)
                body.in_one = made if made.is_pure else None
        return body.in_one

    def admit_row(self, variant: Variant, row: Sequence[int]) -> None:
        """Have the head admit the ids of a row that was computed, and what may come of them elsewhere."""
        head = self.context.database.tables[variant.rule.head.relation]
        head.widen([_stretch(bounds, id, id + 1) for bounds, id in zip(head.bounds, row, strict=True)])
        flow_bounds(self.bound_rules, self.context.database)

    def _admit(self, variant: Variant) -> None:
        """Have the head admit what the body can bring by now: what it reads may admit more than it did.

        Pipelines insert into sets that have no room for ids outside their bounds.
        """
        rule, tables = variant.rule, self.context.database.tables
        named = [rule.head.relation, *(part.relation for part in rule.body if isinstance(part, Atom))]
        bounds = [tables[name].bounds for name in named]
        if bounds != self._admitted.get(variant):
            if widen_head(rule, self.context.database):
                flow_bounds([rule, *self.bound_rules], self.context.database)
            self._admitted[variant] = [tables[name].bounds for name in named]

    def _compile(self, variant: Variant) -> BodyProgram:
        return self._compile_by(self._order(variant, self._body(variant)), variant, in_one=False)

    def _compile_by(self, plan: BodyPlan, variant: Variant, *, in_one: bool) -> BodyProgram:
        database, head = self.context.database, variant.rule.head
        into_table = database.tables[head.relation].is_listed
        selector = self.selectors.get(head.relation)
        variables = set(literal_variables(head))
        if selector is not None:
            into_table = into_table and in_one
            variables |= set(selector.besides(variant.rule))
        return compile_body(
            self._body(variant),
            plan,
            database,
            sink=head if into_table else tuple(sorted(variables, key=str)),
            stop=self.context.stop,
            delta=variant.delta,
            old=variant.old,
            growing=self.members,
            distinct=selector is not None or self._is_distinct(variant),
            in_hindsight=variant.in_hindsight,
            in_one=in_one,
            best=self.improved[head.relation]() if in_one and selector is not None else None,
        )

    def _body(self, variant: Variant) -> tuple[Literal, ...]:
        """The body to join; several heads may share one, in which some variables are no use for this one."""
        is_shared = variant.rule.order is BodyOrder.TREE
        return blank_rule(variant.rule).body if is_shared else variant.rule.body

    def _order(self, variant: Variant, body: tuple[Literal, ...]) -> BodyPlan:
        database, driver = self.context.database, self._driver(variant)
        if variant.rule.order is BodyOrder.WRITTEN:
            return order_as_written(body, database, driver=driver)
        return order_body(body, database, driver=driver)

    def like(self, rule: Rule) -> VariantRunner:
        """Another runner for a rule of the same stratum that reads only what is complete.

        Whoever asks for it notes what it does.
        """
        other = VariantRunner(self.context, frozenset(), [*self.rules, rule])
        other.bound_rules = self.bound_rules
        other._is_inner = True
        return other

    def replace(self, rule: Rule, other: Rule) -> None:
        """Evaluate another rule in the place of one."""
        if other is not rule:
            self.rules = [other if one == rule else one for one in self.rules]
            self.bound_rules.append(other)

    def forget(self) -> None:
        """Have every variant compiled anew: a relation has another scheme now."""
        self._prepared.clear()

    def run(self, variant: Variant) -> int:
        """Evaluate a variant over its driver; returns the candidates seen."""
        head = self.context.database.tables[variant.rule.head.relation]
        self.context.progress.rule = self.context.progress.host_work.rule = variant.rule.text
        started = time.perf_counter()
        candidates = self._run_otherwise(variant)
        if candidates is not None:
            return candidates
        body = self.prepare(variant)
        if body.impossible:
            return 0
        before = _rows(head)
        derived = 0
        try:
            if variant.rule.head.relation in self.selectors:
                candidates = self._run_into_selector(body, variant)
            elif not head.is_listed:
                candidates, derived = self._run_into_scheme(body, variant, head)
            elif body.is_pure:
                candidates = self._run_pure(body, variant, as_table(head))
            else:
                candidates = self._run_computing(body, variant, as_table(head))
        except MemoryBudgetError as error:
            self._name_listed(body, error)
            raise
        except EvaluationError as error:
            error.add_note(f"in rule: {variant.rule.text}")
            raise
        derived += _rows(head) - before
        if not self._is_inner:
            seconds = time.perf_counter() - started
            uncounted = candidates if variant.rule.head.relation in self.selectors else 0
            lost, derived = (derived, 0) if variant.in_hindsight else (0, derived)
            self.context.note(variant.rule, seconds, candidates, derived, uncounted=uncounted, lost=lost)
        return candidates

    def _run_otherwise(self, variant: Variant) -> int | None:
        """Evaluate a variant without a pipeline of its own, if that is better; the candidates seen."""
        head = self.context.database.tables[variant.rule.head.relation]
        started, before = time.perf_counter(), _rows(head)
        if variant.rule.head.relation in self.selectors:
            return None
        if variant.rule.order is BodyOrder.TREE and self._is_reduced_first(variant):
            how = "reduced by semi-joins along its hypertree, then joined"
            candidates = self._tree_join.run(variant, self)
        elif (multiway := self._multiway_join.find(variant)) is not None:
            how = "one variable after the other, by intersections"
            candidates = self._multiway_join.run(variant, multiway, self, distinct=self._is_distinct(variant))
        else:
            return None
        derived = _rows(head) - before
        if not self._is_inner:
            self.context.progress.used_plan(variant).choose(None, how)
            lost, derived = (derived, 0) if variant.in_hindsight else (0, derived)
            self.context.note(variant.rule, time.perf_counter() - started, candidates, derived, lost=lost)
        return candidates

    def _is_reduced_first(self, variant: Variant) -> bool:
        cost = self._order(variant, self._body(variant)).cost
        return self._tree_join.is_worth_while(variant, cost)

    def _name_listed(self, body: BodyProgram, error: MemoryBudgetError) -> None:
        """Say that a rule lists all facts of a relation that is kept compactly, if that is what it does."""
        for step in body.body_plan.steps:
            atom = step.literal
            if isinstance(atom, Atom) and step.access in (Access.DRIVE, Access.SCAN):
                scheme = self.context.database.tables[atom.relation]
                if not scheme.is_listed:
                    error.add_note(
                        f"the rule lists all {len(scheme):,} facts of {atom.relation}, which is kept as "
                        f"{scheme.kind}"
                    )

    def _is_distinct(self, variant: Variant) -> bool:
        """Is this the only rule of an empty relation, and does each of its bindings give another fact?"""
        head = variant.rule.head
        return (
            variant.delta is None
            and self.context.database.tables[head.relation].is_listed
            and not len(self.context.database.tables[head.relation])
            and head.relation not in self.selectors
            and sum(rule.head.relation == head.relation for rule in self.rules) == 1
            and _is_injective(variant.rule)
        )

    def _driver(self, variant: Variant) -> int | None:
        """The atom that must come first: a table's delta. Other schemes can be read in any place."""
        if variant.delta is None:
            return None
        atom = variant.rule.body[variant.delta]
        assert isinstance(atom, Atom)
        return variant.delta if self.context.database.tables[atom.relation].is_listed else None

    def _driver_span(self, body: BodyProgram, variant: Variant) -> tuple[int, int]:
        """The rows that drive a variant: the delta, all of the first atom's domain, or the one unit row."""
        stage = body.stages[0]
        if stage.input is not None:
            return 0, stage.input.count
        rows = stage.pipeline.driver.rows
        start, end = rows.delta
        position = body.body_plan.steps[0].position
        if position != variant.delta:
            start, end = (0, start) if position in variant.old else (0, end)
        if all(binding == IGNORE for binding in stage.pipeline.driver.bindings):
            end = min(end, start + 1)
        return start, end

    def _run_pure(self, body: BodyProgram, variant: Variant, head: Table) -> int:
        return self._insert_last(body, variant, head, *self._driver_span(body, variant))

    def _insert_last(self, body: BodyProgram, variant: Variant, head: Table, start: int, end: int) -> int:
        """Run the last stage over rows of its driver, by all threads if there are many; its candidates."""
        program = body.stages[-1].program
        few = SMALL_DELTA if len(body.body_plan.steps) > 1 else _SMALL_COPY
        if isinstance(program, CpuProgram) and end - start > few and self.context.workers.threads > 1:
            return self.context.workers.insert(
                program, head, start, end, lambda: self.context.check_budget(head, variant.rule.text)
            )
        before = program.candidates
        self._insert_final(body, variant, head, start, end)
        return program.candidates - before

    def _run_computing(self, body: BodyProgram, variant: Variant, head: Table) -> int:
        start, end = self._driver_span(body, variant)
        if self.context.workers.threads > 1 and end - start > _SMALL_COPY and can_run_in_parallel(body):
            return self._compute_in_parallel(body, variant, head, (start, end))
        candidates = 0
        for first, stop in body.final_inputs(start, end):
            self._widen_head(body, variant, head)
            candidates += self._insert_last(body, variant, head, first, stop)
        return candidates

    def _compute_in_parallel(
        self, body: BodyProgram, variant: Variant, head: Table, span: tuple[int, int]
    ) -> int:
        work = self.context.progress.host_work
        with work.counting(HostOperation.COMPUTATION, work.rule, span[1] - span[0]):
            return insert_in_parallel(
                body,
                variant.rule.head.args,
                head,
                span,
                self.context.workers,
                lambda needed: self._widen_for(needed, head),
                lambda: self.context.check_budget(head, variant.rule.text),
            )

    def _run_into_scheme(self, body: BodyProgram, variant: Variant, head: Scheme) -> tuple[int, int]:
        """Schedule what a variant derives in a scheme; the bindings seen, and the facts taken."""
        seen = taken = 0
        for columns, rows in self._heads(body, variant):
            seen += rows
            bounds = list(head.bounds)
            with self.context.progress.host_work.counting(HostOperation.SCHEME, head.name, rows):
                taken += head.insert(columns, rows)
            if list(head.bounds) != bounds:
                flow_bounds(self.bound_rules, self.context.database)
            self.context.check_budget(head, variant.rule.text)
        return seen, taken

    def _run_into_selector(self, body: BodyProgram, variant: Variant) -> int:
        """Offer what a variant derives to what selects the facts of its head; how much that is."""
        seen, name = 0, variant.rule.head.relation
        selector = self.selectors[name]
        if name in self.improved and (candidates := self._run_in_place(body, variant)) is not None:
            return candidates
        besides = selector.besides(variant.rule)
        heads = self._heads if body.backend.on_host else self._heads_on_device
        for columns, rows in heads(body, variant, besides):
            seen += rows
            selector.offer(columns, rows, variant.rule)
            self.context.check_budget(self.context.database.tables[name], variant.rule.text)
        return seen

    def _run_in_place(self, body: BodyProgram, variant: Variant) -> int | None:
        """Have a pipeline improve what is known of keys; the candidates seen, None if none can.

        If something is computed that the head does not admit, it does from then on, and all is done again.
        """
        name = variant.rule.head.relation
        head, refresh = self.context.database.tables[name], self.improved[name]
        while True:
            merge = refresh()
            made = self.in_one(variant, body) if merge is not None and body.backend.on_host else None
            if merge is None or made is None:
                return None
            if made.impossible:
                return 0
            improving = Improving(made, merge, self.selectors[name].offer, refresh)
            before = improving.program.candidates
            candidates = improving.run(
                *self._driver_span(made, variant),
                self.context.workers,
                lambda: self.context.check_budget(head, variant.rule.text),
            )
            if candidates is not None:
                return candidates - before
            self.admit_row(variant, improving.program.row())
            body = self.prepare(variant)

    def _heads(
        self, body: BodyProgram, variant: Variant, besides: tuple[Variable, ...] = ()
    ) -> Iterator[tuple[list[np.ndarray], int]]:
        """What a collecting body derives, in chunks; a fact as often as it is derived."""
        dictionary = self.context.database.dictionary
        for bindings in body.collect(*self._driver_span(body, variant)):
            columns = [
                bindings.columns[arg]
                if isinstance(arg, Variable)
                else np.full(bindings.rows, dictionary.intern_constant(arg), np.uint32)
                for arg in (*variant.rule.head.args, *besides)
                if not isinstance(arg, Wildcard)
            ]
            yield columns, bindings.rows

    def _heads_on_device(
        self, body: BodyProgram, variant: Variant, besides: tuple[Variable, ...] = ()
    ) -> Iterator[tuple[list[Array], int]]:
        """`_heads` where the device has them."""
        dictionary = self.context.database.dictionary
        for bindings in body.collect_on_device(*self._driver_span(body, variant)):
            columns = [
                bindings.columns[arg]
                if isinstance(arg, Variable)
                else body.backend.column(np.full(bindings.rows, dictionary.intern_constant(arg), np.uint32))
                for arg in (*variant.rule.head.args, *besides)
                if not isinstance(arg, Wildcard)
            ]
            yield columns, bindings.rows

    def _insert_final(self, body: BodyProgram, variant: Variant, head: Table, start: int, end: int) -> None:
        program = body.stages[-1].program
        # On a device every stop for more room is a wait.
        room = _INSERT_ROOM if body.backend.on_host else max(_DEVICE_ROOM, end - start)
        head.reserve(room)
        status = program.run(head.rows, start, end)
        while status is Status.FULL:
            self.context.check_budget(head, variant.rule.text)
            head.reserve(max(room, head.rows.count >> 2))
            status = program.resume(head.rows)
        if status is Status.STOPPED:
            raise Interrupted("stopped")

    def _widen_head(self, body: BodyProgram, variant: Variant, head: Table) -> None:
        """Admit the ids that were computed."""
        args = variant.rule.head.args
        self._widen_for([body.input_bounds(arg) if isinstance(arg, Variable) else None for arg in args], head)

    def _widen_for(self, needed: Sequence[tuple[int, int] | None], head: Table) -> None:
        """Admit ids within bounds, None where nothing was computed, in the stratum's others too."""
        bounds = list(head.bounds)
        for column, inside in enumerate(needed):
            if inside is not None:
                bounds[column] = _stretch(bounds[column], *inside)
        if bounds != head.bounds:
            head.widen(bounds)
            flow_bounds(self.bound_rules, self.context.database)


def _stretch(bounds: tuple[int, int], low: int, high: int) -> tuple[int, int]:
    """Bounds that hold [low, high): with room to spare, so that a counter does not widen every round."""
    if bounds == (0, 0):
        return low, high
    if low >= bounds[0] and high <= bounds[1]:
        return bounds
    spare = min(2 * (max(high, bounds[1]) - min(low, bounds[0])), _LARGEST_SPARE)
    return (
        max(0, low - spare) if low < bounds[0] else bounds[0],
        min((1 << 32) - 1, high + spare) if high > bounds[1] else bounds[1],
    )


def _is_injective(rule: Rule) -> bool:
    """Does the head keep every variable of the atoms, so that different bindings give different facts?"""
    kept = literal_variables(rule.head)
    for literal in rule.body:
        if isinstance(literal, Atom):
            if any(
                isinstance(arg, Wildcard) or (arg in literal_variables(literal) and arg not in kept)
                for arg in literal.args
            ):
                return False
        elif isinstance(literal, Comparison) and any(
            isinstance(side, Functor) and side.op == "range" for side in (literal.left, literal.right)
        ):
            return False
    return True


def _outgrown(then: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Has a relation grown so much that another order may be better?"""
    return any(now[name] > 1000 and now[name] > _REPLAN_GROWTH * max(then[name], 125) for name in now)


def _rows(scheme: Scheme) -> int:
    """How many facts were derived into a table so far; those of other schemes are counted as they come."""
    return len(scheme) if scheme.is_listed else 0
