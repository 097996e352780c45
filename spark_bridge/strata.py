"""A plan on a cluster: stratum by stratum, each by the method that suits it.

| method | for | what is shuffled |
|---|---|---|
| driver | strata that read few facts | nothing: an engine on the driver evaluates them |
| joins | strata without recursion | what Spark's joins need |
| condensed | closures and equivalences | nothing after the pairs are condensed |
| decomposed | recursions that keep a partition key | the facts that they start from, once |
| rounds | all other recursions | what joins need, in each round |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import Interrupted, MemoryBudgetError
from gpuengine.evaluation.interruptible import run_interruptibly
from gpuengine.evaluation.progress import Progress
from gpuengine.language.program import Rule
from gpuengine.planning.plan import Plan, Stratum
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.strata import body_relations
from gpuengine.spark_bridge.carriers import Carriers
from gpuengine.spark_bridge.computing import Computing
from gpuengine.spark_bridge.condensed import condensable, run_condensed
from gpuengine.spark_bridge.decomposed import run_in_parts
from gpuengine.spark_bridge.decomposition import choose_key, partition_keys, why_not
from gpuengine.spark_bridge.keeping import Held, Keeper, RoundState, nothing
from gpuengine.spark_bridge.progress import JobWatch, RoundReport, StratumReport, describe_round
from gpuengine.spark_bridge.rounds import Recursion
from gpuengine.spark_bridge.rule_frames import RowStatistics, RuleFrames
from gpuengine.spark_bridge.task_engine import CarriedProgram, Results
from gpuengine.spark_bridge.transfer import arrow_batches, frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METHODS = ("driver", "condensed", "decomposed", "rounds")


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of facts that decide where a stratum is evaluated, and by which of `METHODS`.

    A stratum that reads at most `driver` facts is evaluated by an engine on the driver, and so is the rest of
    a recursion once its deltas are at most `small_delta` facts. `sent` is how many facts may go to every
    task, `condensed` how many pairs of a closure the driver takes.
    """

    driver: int = 200_000
    small_delta: int = 20_000
    finished: int = 5_000_000
    sent: int = 20_000_000
    condensed: int = 50_000_000
    methods: tuple[str, ...] = METHODS


@dataclass
class StrataRun:
    """Evaluates the strata of a carried program over frames of carriers."""

    spark: SparkSession
    prepared: Prepared
    carriers: Carriers
    keeper: Keeper
    watch: JobWatch
    limits: Limits
    listen: Callable[[str], None]

    def __post_init__(self) -> None:
        self.reports: list[StratumReport] = []
        self._computing = Computing(self.prepared, self.carriers)
        self.strata = 0  # of how many a message tells

    def run(self, plan: Plan, facts: Mapping[str, Held]) -> dict[str, Held]:
        """All relations of the plan and of `facts`, to which those of the plan's strata are added."""
        relations = self.prepared.program.relations
        frames = {name: nothing(self.spark, relation, self.carriers) for name, relation in relations.items()}
        frames.update(facts)
        self.strata = len(plan.strata)
        for number, stratum in enumerate(plan.strata):
            read_later = {
                name
                for later in plan.strata[number + 1 :]
                for rule in rules_of(later)
                for name in reads([rule])
            }
            results = self.keeper.earlier_results(stratum.number)
            if results is None:
                results = self.evaluate(stratum, frames, bool(read_later & set(stratum.relations)))
                self.keeper.stratum_done(stratum.number, results)
            else:
                why = "an interrupted run had completed it"
                self.reports.append(
                    StratumReport(stratum.number, stratum.relations, "resumed", why, [], 0.0, 0)
                )
            frames.update(results)
        return frames

    def evaluate(self, stratum: Stratum, frames: Mapping[str, Held], is_read: bool) -> dict[str, Held]:
        """The relations of a stratum; what no later one reads may be computed only when it is asked for."""
        started, shuffled = time.perf_counter(), self.watch.shuffle_bytes()
        report = StratumReport(stratum.number, stratum.relations, "", "", [], 0.0, 0)
        # Users count strata from 1.
        names = ", ".join(stratum.relations)
        self.listen(f"stratum {stratum.number + 1}/{self.strata} {names}")
        with self.watch.named(f"stratum {stratum.number + 1} ({names})"):
            results = self._by_some_method(stratum, frames, is_read, report)
        report.seconds = time.perf_counter() - started
        report.shuffle_bytes = self.watch.shuffle_bytes() - shuffled
        self.reports.append(report)
        return results

    def _by_some_method(
        self, stratum: Stratum, frames: Mapping[str, Held], is_read: bool, report: StratumReport
    ) -> dict[str, Held]:
        if "driver" in self.limits.methods and (found := self._on_driver(stratum, frames)) is not None:
            report.method, report.why = "driver", f"it reads at most {self.limits.driver:,} facts"
            return found
        if not stratum.is_recursive:
            report.method, report.why = "joins", "it is not recursive"
            return self._without_recursion(stratum, frames, is_read)
        condensed = self._condensed(stratum, frames, is_read, report)
        if condensed is not None:
            return condensed
        base = self._base(stratum, frames, ())
        decomposed = self._in_parts(stratum, frames, base, is_read, report)
        if decomposed is not None:
            return decomposed
        report.method = "rounds"
        recursion = self.recursion(stratum, frames, report)
        return recursion.run(RoundState(0, {name: [held] for name, held in base.items()}, base))

    # -- methods -----------------------------------------------------------------------------------

    def _without_recursion(
        self, stratum: Stratum, frames: Mapping[str, Held], is_read: bool
    ) -> dict[str, Held]:
        heads = self._heads(stratum, frames, ())
        return {
            name: self._held(stratum, j, self._with_own(heads[name], frames[name]), is_read)
            for j, name in enumerate(stratum.relations)
        }

    def _condensed(
        self, stratum: Stratum, frames: Mapping[str, Held], is_read: bool, report: StratumReport
    ) -> dict[str, Held] | None:
        """A closure or an equivalence, if it is one and not too large for the driver."""
        shape = condensable(self.prepared, stratum, self.carriers)
        name = stratum.relations[0]
        if shape is None or "condensed" not in self.limits.methods:
            return None
        if shape.source is None:
            pairs = self._base(stratum, frames, shape.handled)[name]
        elif frames[name].rows == 0:
            pairs = shape.permuted(frames)
        else:  # facts of its own make it more than the closure of its source
            return None
        found = run_condensed(self.spark, shape, pairs, self.limits.condensed)
        if found is None:
            return None
        report.method, report.why = "condensed", shape.why
        return {name: self._held(stratum, 0, found, is_read)}

    def _base(self, stratum: Stratum, frames: Mapping[str, Held], without: Iterable[Rule]) -> dict[str, Held]:
        """What a recursion starts from: the facts of its relations, and what its other rules derive."""
        heads = self._heads(stratum, frames, without)
        return {
            name: self.keeper.keep(
                f"stratum-{stratum.number}/{name}/base", self._with_own(found, frames[name])
            )
            if found
            else frames[name]
            for name, found in heads.items()
        }

    def _heads(
        self, stratum: Stratum, frames: Mapping[str, Held], without: Iterable[Rule]
    ) -> dict[str, list[DataFrame]]:
        """What the rules without recursion derive, by relation, with repetitions."""
        left_out = set(without)
        rule_frames = self.rule_frames({name: held.rows for name, held in frames.items()})
        heads: dict[str, list[DataFrame]] = {name: [] for name in stratum.relations}
        for variant in stratum.once:
            if variant.rule not in left_out:
                head = rule_frames.head(variant.rule, lambda _, relation: frames[relation])
                heads[variant.rule.head.relation].append(head)
        return heads

    def _with_own(self, heads: Sequence[DataFrame], own: Held) -> DataFrame:
        if not heads:
            return own.frame
        parts = [*heads, *([own.frame] if own.rows != 0 else [])]
        return reduce(lambda a, b: a.unionAll(b), parts).distinct()

    def _in_parts(
        self,
        stratum: Stratum,
        frames: Mapping[str, Held],
        base: Mapping[str, Held],
        is_read: bool,
        report: StratumReport,
    ) -> dict[str, Held] | None:
        """By tasks that each run the whole fixpoint, if there is a key and the rest can be sent to all."""
        keys = partition_keys(stratum)
        if not keys or "decomposed" not in self.limits.methods:
            report.why = why_not(stratum) or "other methods were not asked for"
            return None
        statistics = RowStatistics({name: held.rows for name, held in frames.items()})
        rows = {name: statistics.count(name) for name in frames}
        key = choose_key(keys, rows, statistics.distinct)
        to_send = sum(rows[name] for name in key.broadcast)
        if to_send > self.limits.sent:
            report.why = f"{to_send:,.0f} facts are too many to send to every task"
            return None
        told = ", ".join(
            f"{name}.{self.prepared.program.relations[name].attributes[at].name}"
            for name, at in key.columns.items()
        )
        report.method, report.why = "decomposed", f"its rules keep {told} from body to head"
        columns = {**key.columns, **{n: at for n, at in key.partitioned.items() if at is not None}}
        # What each task needs a part of only is better sent whole if it is small: no shuffle of its own.
        sent = {n: frames[n] for n in key.partitioned if n not in columns or frames[n].is_small}
        facts = {**base, **{n: frames[n] for n in columns if n not in base and n not in sent}}
        carried = self.carried([variant.rule for variant in stratum.recursive])
        packed, layout = run_in_parts(
            self.spark, carried, facts, columns, sent, stratum.relations, self._partitions(facts)
        )
        if layout.is_single:
            return {stratum.relations[0]: self._held(stratum, 0, packed, is_read)}
        kept = self.keeper.keep(f"stratum-{stratum.number}/all", packed)
        return {
            name: Held(layout.unpacked(kept.frame, number), None)
            for number, name in enumerate(stratum.relations)
        }

    def _partitions(self, facts: Mapping[str, Held]) -> int:
        """One part for each core, or a few if there is enough to do for parts to differ."""
        cores = max(1, self.spark.sparkContext.defaultParallelism)
        rows = sum(held.rows or 0 for held in facts.values())
        return cores if rows < 100_000 else 3 * cores

    def recursion(self, stratum: Stratum, frames: Mapping[str, Held], report: StratumReport) -> Recursion:
        """The rounds of a stratum; their reports go to `report` and to whoever listens."""
        members = set(stratum.relations)
        lower = {name: held for name, held in frames.items() if name not in members}
        read = reads(variant.rule for variant in stratum.recursive) - members

        may_finish = "driver" in self.limits.methods

        def finish(complete: Mapping[str, Held], delta: int) -> dict[str, Held] | None:
            nonlocal may_finish
            taken = {**complete, **{name: lower[name] for name in read}}
            if not may_finish or delta > self.limits.small_delta or not _fit(taken, self.limits.finished):
                return None
            started = time.perf_counter()
            rules = [variant.rule for variant in stratum.recursive]
            found = self._by_engine(rules, taken, stratum.relations, self.limits.finished)
            if found is None:  # out of memory: no later round will do better
                may_finish = False
                return None
            delta_rows = {n: (found[n].rows or 0) - (complete[n].rows or 0) for n in found}
            seconds = time.perf_counter() - started
            tell(RoundReport(len(report.rounds) + 1, delta_rows, seconds, 0, "driver"))
            return found

        def tell(done: RoundReport) -> None:
            report.rounds.append(done)
            self.listen(describe_round(stratum.number + 1, self.strata, stratum.relations, done))

        return Recursion(stratum, lower, self.keeper, self.watch, self.rule_frames, finish, tell)

    # -- parts of methods --------------------------------------------------------------------------

    def rule_frames(self, rows: Mapping[str, int | None]) -> RuleFrames:
        return RuleFrames(self.spark, self._computing, RowStatistics(rows))

    def carried(self, rules: Iterable[Rule]) -> CarriedProgram:
        """An engine's program of some rules only."""
        return CarriedProgram(self.prepared.with_rules(tuple(dict.fromkeys(rules)), ()), self.carriers)

    def _held(self, stratum: Stratum, number: int, frame: DataFrame, is_read: bool) -> Held:
        """Kept if it is read more than once, and counted then."""
        name = f"stratum-{stratum.number}/{stratum.relations[number]}"
        if is_read or self.keeper.keeps_all:
            return self.keeper.keep(name, frame)
        return Held(frame, None)

    def _on_driver(self, stratum: Stratum, frames: Mapping[str, Held]) -> dict[str, Held] | None:
        rules = rules_of(stratum)
        taken = {name: frames[name] for name in reads(rules) | set(stratum.relations)}
        return self._by_engine(rules, taken, stratum.relations, self.limits.driver)

    def _by_engine(
        self, rules: Sequence[Rule], facts: Mapping[str, Held], wanted: Sequence[str], limit: int
    ) -> dict[str, Held] | None:
        """The relations by an engine on the driver, if it has to be given at most `limit` facts."""
        if not _fit(facts, limit):
            return None
        tables = {
            name: list(arrow_batches(held.frame, rows=held.rows)) for name, held in facts.items() if held.rows
        }
        stop, progress = np.zeros(1, np.int64), Progress()
        found: list[Results] = []
        carried = self.carried(rules)
        try:
            late = run_interruptibly(
                lambda: found.append(carried.run(tables, wanted, progress=progress, stop=stop)),
                stop,
                progress,
                None,
            )
        except MemoryBudgetError:
            return None
        if late is not None:
            raise Interrupted("interrupted; nothing was changed") from late
        return {name: self._sent_back(found[0], name) for name in wanted}

    def _sent_back(self, results: Results, name: str) -> Held:
        import pyarrow as pa

        batches = list(results.batches(name))
        if not batches:
            return nothing(self.spark, self.prepared.program.relations[name], self.carriers)
        table = pa.Table.from_batches(batches)
        return Held(frame_of(self.spark, table), table.num_rows)


def _fit(facts: Mapping[str, Held], limit: int) -> bool:
    """Are these known to be at most `limit` facts?"""
    rows = [held.rows for held in facts.values()]
    return all(count is not None for count in rows) and sum(count or 0 for count in rows) <= limit


def rules_of(stratum: Stratum) -> list[Rule]:
    """The rules of a stratum, each once."""
    return list(dict.fromkeys(variant.rule for variant in (*stratum.once, *stratum.recursive)))


def reads(rules: Iterable[Rule]) -> set[str]:
    """Every relation that rules read."""
    return set().union(*(body_relations(rule.body) for rule in rules))
