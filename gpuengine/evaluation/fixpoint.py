"""Semi-naive evaluation of a plan: stratum by stratum, round by round, to the fixpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpuengine.errors import EvaluationError, Interrupted
from gpuengine.evaluation.body import BodyProgram, compile_body
from gpuengine.evaluation.bounds import flow_bounds
from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.progress import Progress, RuleStatistics
from gpuengine.evaluation.small_rounds import Outcome, run_small_rounds
from gpuengine.evaluation.workers import Workers
from gpuengine.kernels.contract import Status
from gpuengine.language.program import Atom, Variable
from gpuengine.planning.order import order_body
from gpuengine.planning.plan import Plan, Stratum, Variant
from gpuengine.schemes.table import Table

SMALL_DELTA = 4096
SMALL_WORK = 100_000
_REPLAN_GROWTH = 8
_INSERT_ROOM = 1 << 12


@dataclass
class _Prepared:
    """A variant compiled for the sizes it saw."""

    body: BodyProgram
    sizes: dict[str, int]


class Fixpoint:
    """Evaluates a plan into a database. `stop[0]` set to 1 from any thread ends it with `Interrupted`."""

    def __init__(
        self,
        plan: Plan,
        database: Database,
        *,
        threads: int = 1,
        budget: Budget | None = None,
        progress: Progress | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        self.plan = plan
        self.database = database
        self.budget = budget or Budget()
        self.progress = progress or Progress()
        self.stop = np.zeros(1, np.int64)
        self.workers = Workers(threads)
        self.limits = limits or {}
        self._prepared: dict[int, _Prepared] = {}
        self._members: frozenset[str] = frozenset()

    def run(self) -> None:
        """Evaluate every stratum. Tables are complete and settled afterwards."""
        self.progress.strata = len(self.plan.strata)
        try:
            for table in self.database.all_tables():
                table.settle()
            for stratum in self.plan.strata:
                self._run_stratum(stratum)
        finally:
            self.workers.close()
        self.progress.facts = sum(map(len, self.database.all_tables()))

    def _run_stratum(self, stratum: Stratum) -> None:
        progress = self.progress
        progress.stratum, progress.relations, progress.round_in_stratum = stratum.number + 1, stratum.relations, 0
        tables = [self.database.tables[name] for name in stratum.relations]
        self._members = frozenset(stratum.relations)
        self.database.growing = self._members if stratum.is_recursive else frozenset()
        self._prepared.clear()
        rules = [variant.rule for variant in (*stratum.once, *stratum.recursive)]
        flow_bounds(rules, self.database)
        for table in tables:
            table.rows.delta = (0, 0)
        for number, variant in enumerate(stratum.once):
            self._run_variant(-1 - number, variant)
        for table in tables:
            table.rows.delta = (0, table.rows.count)
        self._finish_round(tables)
        if stratum.is_recursive:
            self._iterate(stratum, tables)
        for table in tables:
            table.settle()
            table.forget_indexes()
            table.rows.trim()
        self._prepared.clear()

    def _iterate(self, stratum: Stratum, tables: list[Table]) -> None:
        """Rounds until no relation has a delta, or a size limit is reached."""
        large_work = False
        while self.progress.delta and not self._limit_reached(stratum):
            self._prepare_all(stratum)
            if not large_work and self.progress.delta <= SMALL_DELTA and self._all_pure(stratum):
                if self._run_small(stratum, tables) is Outcome.FIXPOINT:
                    return
                large_work = True
                continue
            work = sum(self._run_variant(number, v) for number, v in enumerate(stratum.recursive))
            large_work = work > SMALL_WORK
            for table in tables:
                table.rows.advance()
            self.workers.each(
                lambda index: index.ensure(), [index for table in tables for index in table.indexes]
            )
            for table in tables:
                table.drop_stale_indexes()
            self._finish_round(tables)

    def _run_small(self, stratum: Stratum, tables: list[Table]) -> Outcome:
        programs = []
        for number, variant in enumerate(stratum.recursive):
            assert variant.delta is not None
            atom = variant.rule.body[variant.delta]
            assert isinstance(atom, Atom)
            tables_of = self.database.tables
            programs.append(
                (self._prepared[number].body, tables_of[atom.relation], tables_of[variant.rule.head.relation])
            )
        rule = stratum.recursive[0].rule.text
        limits = (SMALL_DELTA, SMALL_WORK) if not self.limits else (-1, -1)
        started = time.perf_counter()
        before = [body.candidates for body, _, _ in programs]
        outcome, rounds = run_small_rounds(
            programs, tables, self.stop, limits, lambda table: self._check_budget(table, rule)
        )
        seconds = (time.perf_counter() - started) / len(programs)
        for (body, _, _), variant, seen in zip(programs, stratum.recursive, before, strict=True):
            self._note(variant, seconds, body.candidates - seen, 0)
        self.progress.rounds += rounds - 1
        self.progress.round_in_stratum += rounds - 1
        self._finish_round(tables)
        return outcome

    def _finish_round(self, tables: list[Table]) -> None:
        progress = self.progress
        progress.rounds += 1
        progress.round_in_stratum += 1
        progress.delta = sum(end - start for start, end in (table.rows.delta for table in tables))
        progress.facts = sum(map(len, self.database.all_tables()))
        if self.stop[0]:
            raise Interrupted("stopped")

    def _limit_reached(self, stratum: Stratum) -> bool:
        return any(
            name in self.limits and len(self.database.tables[name]) >= self.limits[name]
            for name in stratum.relations
        )

    def _all_pure(self, stratum: Stratum) -> bool:
        return all(
            self._prepared[number].body.is_pure and not self._prepared[number].body.impossible
            for number in range(len(stratum.recursive))
        )

    def _prepare_all(self, stratum: Stratum) -> None:
        for number, variant in enumerate(stratum.recursive):
            self._prepare(number, variant)

    def _prepare(self, number: int, variant: Variant) -> BodyProgram:
        """The compiled variant: as before, unless tables were rebuilt or sizes are far from what it saw."""
        known = self._prepared.get(number)
        sizes = {
            part.relation: len(self.database.tables[part.relation])
            for part in variant.rule.body
            if isinstance(part, Atom)
        }
        if known is not None and known.body.is_current and not _outgrown(known.sizes, sizes):
            return known.body
        plan = order_body(variant.rule.body, self.database, driver=variant.delta)
        body = compile_body(
            variant.rule.body,
            plan,
            self.database,
            sink=variant.rule.head,
            stop=self.stop,
            old=variant.old,
            growing=self._members if variant.delta is not None else frozenset(),
        )
        self._prepared[number] = _Prepared(body, sizes)
        return body

    def _run_variant(self, number: int, variant: Variant) -> int:
        """Evaluate one variant over its driver; returns the candidates seen."""
        head = self.database.tables[variant.rule.head.relation]
        self.progress.rule = variant.rule.text
        started = time.perf_counter()
        body = self._prepare(number, variant)
        if body.impossible:
            return 0
        before = len(head)
        try:
            if body.is_pure:
                candidates = self._run_pure(body, variant, head)
            else:
                candidates = self._run_computing(body, variant, head)
        except EvaluationError as error:
            error.add_note(f"in rule: {variant.rule.text}")
            raise
        self._note(variant, time.perf_counter() - started, candidates, len(head) - before)
        return candidates

    def _driver_span(self, body: BodyProgram, variant: Variant) -> tuple[int, int]:
        """The rows that drive a variant: the delta, or all of the first atom, or the one unit row."""
        stage = body.stages[0]
        if stage.input is not None:
            return 0, stage.input.count
        rows = stage.pipeline.driver.rows
        start, end = rows.delta if variant.delta is not None else (0, rows.delta[1])
        if all(binding == -1 for binding in stage.pipeline.driver.bindings):
            end = min(end, start + 1)
        return start, end

    def _run_pure(self, body: BodyProgram, variant: Variant, head: Table) -> int:
        start, end = self._driver_span(body, variant)
        program = body.stages[0].program
        if end - start > SMALL_DELTA and self.workers.threads > 1:
            return self.workers.insert(
                program, head, start, end, lambda: self._check_budget(head, variant.rule.text)
            )
        before = program.candidates
        self._insert_final(body, variant, head, start, end)
        return program.candidates - before

    def _run_computing(self, body: BodyProgram, variant: Variant, head: Table) -> int:
        before = body.candidates
        for start, end in body.final_inputs(*self._driver_span(body, variant)):
            self._widen_head(body, variant, head)
            self._insert_final(body, variant, head, start, end)
        return body.candidates - before

    def _insert_final(self, body: BodyProgram, variant: Variant, head: Table, start: int, end: int) -> None:
        program = body.stages[-1].program
        head.reserve(_INSERT_ROOM)
        status = program.run(head.rows, start, end)
        while status is Status.FULL:
            self._check_budget(head, variant.rule.text)
            head.reserve(max(_INSERT_ROOM, head.rows.count >> 2))
            status = program.resume(head.rows)
        if status is Status.STOPPED:
            raise Interrupted("stopped")

    def _widen_head(self, body: BodyProgram, variant: Variant, head: Table) -> None:
        """Admit computed ids: with room to spare, so that a counter does not widen every round."""
        stage = body.stages[-1]
        assert stage.input is not None
        bounds = list(head.bounds)
        for column, arg in enumerate(variant.rule.head.args):
            if isinstance(arg, Variable) and arg in stage.inputs:
                ids = stage.input.column(stage.inputs.index(arg))
                low, high = int(ids.min()), int(ids.max()) + 1
                old_low, old_high = bounds[column]
                if (old_low, old_high) == (0, 0):
                    bounds[column] = (low, high)
                elif low < old_low or high > old_high:
                    spare = min(2 * (max(high, old_high) - min(low, old_low)), 1 << 22)
                    bounds[column] = (
                        max(0, low - spare) if low < old_low else old_low,
                        min((1 << 32) - 1, high + spare) if high > old_high else old_high,
                    )
        if any(bound == (0, 0) for bound in bounds):
            return
        if bounds != head.bounds:
            head.widen(bounds)
            flow_bounds([rule for rule in self._stratum_rules()], self.database)

    def _stratum_rules(self) -> list:  # type: ignore[type-arg]
        return [rule for rule in self.plan.program.rules if rule.head.relation in self._members and rule.body]

    def _check_budget(self, head: Table, rule: str) -> None:
        self.budget.check(self.database.all_tables(), head, rule)
        self.progress.facts = sum(map(len, self.database.all_tables()))

    def _note(self, variant: Variant, seconds: float, candidates: int, derived: int) -> None:
        text = variant.rule.text
        entry = self.progress.rules.setdefault(text, RuleStatistics(text))
        entry.seconds += seconds
        entry.candidates += candidates
        entry.derived += derived
        entry.evaluations += 1


def _outgrown(then: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Has a relation grown so much that another order may be better?"""
    return any(now[name] > 1000 and now[name] > _REPLAN_GROWTH * max(then[name], 125) for name in now)
