"""A plan on a cluster: stratum by stratum, each by the method that suits it.

| method | for | what is shuffled |
|---|---|---|
| driver | strata that read few facts | nothing: an engine on the driver evaluates them |
| joins | strata without recursion | what Spark's joins need |
| condensed | closures and equivalences | nothing after the pairs are condensed |
| decomposed | recursions that keep a partition key | the facts that they start from, once |
| exchanged | all other recursions, where tasks can run at the same time and reach each other | facts, once |
| rounds | those that are left | what joins need, in each round |
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
from gpuengine.planning.plan import Plan, Stratum, Variant, body_relations
from gpuengine.planning.prepared import Prepared
from gpuengine.spark_bridge.carriers import Carriers
from gpuengine.spark_bridge.closures import condensable, run_condensed
from gpuengine.spark_bridge.connect import parallelism
from gpuengine.spark_bridge.decomposition import choose_key, partition_keys, run_in_parts, why_not
from gpuengine.spark_bridge.exchange import run_exchanged, tasks_at_once, why_not_exchanged
from gpuengine.spark_bridge.frames import Held, Keeper, RoundState, arrow_batches, frame_of, nothing, union
from gpuengine.spark_bridge.progress import JobWatch, RoundReport, StratumReport, describe_round
from gpuengine.spark_bridge.rules import Computing, RowStatistics, RuleFrames
from gpuengine.spark_bridge.shares import choose_shared, share_out
from gpuengine.spark_bridge.tasks import CarriedProgram, Results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METHODS = ("driver", "condensed", "decomposed", "exchanged", "rounds")


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
        if "driver" in self.limits.methods and (results := self._on_driver(stratum, frames)) is not None:
            report.method, report.why = "driver", f"it reads at most {self.limits.driver:,} facts"
            return results
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
        if "exchanged" in self.limits.methods:
            exchanged = self._exchanged(stratum, frames, base, report)
            if exchanged is not None:
                return exchanged
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
        frame = run_condensed(self.spark, shape, pairs, self.limits.condensed)
        if frame is None:
            return None
        report.method, report.why = "condensed", shape.why
        return {name: self._held(stratum, 0, frame, is_read)}

    def _base(self, stratum: Stratum, frames: Mapping[str, Held], without: Iterable[Rule]) -> dict[str, Held]:
        """What a recursion starts from: the facts of its relations, and what its other rules derive."""
        heads = self._heads(stratum, frames, without)
        return {
            name: self.keeper.keep(
                f"stratum-{stratum.number}/{name}/base", self._with_own(derived, frames[name])
            )
            if derived
            else frames[name]
            for name, derived in heads.items()
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

    def _exchanged(
        self,
        stratum: Stratum,
        frames: Mapping[str, Held],
        base: Mapping[str, Held],
        report: StratumReport,
    ) -> dict[str, Held] | None:
        """By tasks that hold a share of the facts each and tell each other what is new, if they can."""
        tasks, why = tasks_at_once(self.spark)
        if self.keeper.keeps_all:
            why = "a checkpoint is of rounds"
        rules = list(dict.fromkeys(variant.rule for variant in stratum.recursive))
        statistics = RowStatistics({name: held.rows for name, held in frames.items()})
        lower = {name: statistics.count(name) for name in reads(rules) - set(stratum.relations)}
        chosen = choose_shared(rules, lower, self.limits.sent)
        if chosen is None:
            why = why or "too many facts of negated or aggregated relations to send to every task"
        if chosen is None or why:
            report.why = f"{report.why}; no exchange: {why}"
            return None
        relations = self.prepared.program.relations
        shares = share_out(rules, relations, stratum.relations, chosen)
        facts = {**base, **{name: frames[name] for name in chosen}}
        sent = {name: frames[name] for name in shares.sent}
        made = run_exchanged(self.spark, self.carried(rules), shares, facts, sent, stratum.relations, tasks)
        try:
            kept = self.keeper.keep(f"stratum-{stratum.number}/all", made.frame)
            rounds = made.rounds(kept.frame)
        except Exception as error:
            why = why_not_exchanged(self.spark, error)
            if not why:
                raise
            report.why = f"{report.why}; no exchange: {why}"
            self.listen(f"stratum {stratum.number + 1}/{self.strata}: evaluated in rounds, {why}")
            return None
        report.method = "exchanged"
        # What the first one brings is where all begin.
        for number, (new, seconds, sent_bytes) in enumerate(rounds[1:], 1):
            delta = {name: new[name] for name in stratum.relations}
            done = RoundReport(number, delta, seconds, sent_bytes, "cluster")
            report.rounds.append(done)
            self.listen(describe_round(stratum.number + 1, self.strata, stratum.relations, done))
        rows = {name: sum(new[name] for new, _, _ in rounds) for name in stratum.relations}
        return {
            name: Held(made.layout.unpacked(kept.frame, number), rows[name])
            for number, name in enumerate(stratum.relations)
        }

    def _partitions(self, facts: Mapping[str, Held]) -> int:
        """One part for each core, or a few if there is enough to do for parts to differ."""
        cores = parallelism(self.spark)
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
            results = self._by_engine(rules, taken, stratum.relations, self.limits.finished)
            if results is None:  # out of memory: no later round will do better
                may_finish = False
                return None
            delta_rows = {n: (results[n].rows or 0) - (complete[n].rows or 0) for n in results}
            seconds = time.perf_counter() - started
            tell(RoundReport(len(report.rounds) + 1, delta_rows, seconds, 0, "driver"))
            return results

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
        results: list[Results] = []
        carried = self.carried(rules)
        try:
            late = run_interruptibly(
                lambda: results.append(carried.run(tables, wanted, progress=progress, stop=stop)),
                stop,
                progress,
                None,
            )
        except MemoryBudgetError:
            return None
        if late is not None:
            raise Interrupted("interrupted; nothing was changed") from late
        return {name: self._sent_back(results[0], name) for name in wanted}

    def _sent_back(self, results: Results, name: str) -> Held:
        if not results.count(name):
            return nothing(self.spark, self.prepared.program.relations[name], self.carriers)
        table = results.table(name)
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


SMALL_DELTA = 50_000
"""Deltas of at most this many facts are taken to lead to candidates that are few as well."""

MOST_PIECES = 8
"""Facts in more pieces than this are put into one: each is a scan in every plan that reads them."""


@dataclass(frozen=True)
class Recursion:
    """One recursive stratum, and what its rounds need.

    `lower` are the relations below it. `finish` ends the recursion elsewhere, given all facts so far, or
    answers None because that is not worth it; it is asked before each round.
    """

    stratum: Stratum
    lower: Mapping[str, Held]
    keeper: Keeper
    watch: JobWatch
    frames: Callable[[Mapping[str, int | None]], RuleFrames]
    finish: Callable[[Mapping[str, Held], int], dict[str, Held] | None]
    report: Callable[[RoundReport], None]

    def run(self, start: RoundState) -> dict[str, Held]:
        """All facts at the fixpoint, from some facts, or from where an interrupted run left them."""
        return self._to_fixpoint(self.keeper.earlier_round(self.stratum.number) or start)[0]

    def added(self, start: RoundState) -> dict[str, Held]:
        """The facts at the fixpoint that are not in the first piece of their relation."""
        relations, state = self._to_fixpoint(start)
        if state is not None:
            return {name: union(pieces[1:]) for name, pieces in state.pieces.items() if len(pieces) > 1}
        result = {}
        for name, held in relations.items():
            first = start.pieces[name][0]
            new = held.frame.join(first.frame, held.frame.columns, "left_anti")
            result[name] = self.keeper.cut(f"stratum-{self.stratum.number}/{name}/added", new)
        return result

    def _to_fixpoint(self, state: RoundState) -> tuple[dict[str, Held], RoundState | None]:
        """All facts, and in which pieces they are, unless the recursion ended elsewhere."""
        while any(held.rows for held in state.delta.values()):
            complete = {name: union(pieces) for name, pieces in state.pieces.items()}
            finished = self.finish(complete, sum(held.rows or 0 for held in state.delta.values()))
            if finished is not None:
                return finished, None
            state = self._round(state)
        return {name: union(pieces) for name, pieces in state.pieces.items()}, state

    def _round(self, state: RoundState) -> RoundState:
        number = state.number + 1
        started, shuffled = time.perf_counter(), self.watch.shuffle_bytes()
        with self.watch.named(f"stratum {self.stratum.number + 1} ({self._names}), round {number}"):
            derived = self._derive(state)
            delta = {name: held for name, held in derived.items() if held.rows}
            pieces = {
                name: self._compacted(name, number, [*before, *([delta[name]] if name in delta else [])])
                for name, before in state.pieces.items()
            }
        after = RoundState(number, pieces, delta)
        self.keeper.round_done(self.stratum.number, after)
        self.report(
            RoundReport(
                number,
                {name: held.rows or 0 for name, held in delta.items()},
                time.perf_counter() - started,
                self.watch.shuffle_bytes() - shuffled,
                "cluster",
            )
        )
        return after

    @property
    def _names(self) -> str:
        return ", ".join(self.stratum.relations)

    def _derive(self, state: RoundState) -> dict[str, Held]:
        """The new facts of each relation that the last delta may lead to."""
        candidates: dict[str, list[DataFrame]] = {}
        complete = {name: union(pieces) for name, pieces in state.pieces.items()}
        rows = {name: held.rows for name, held in (*self.lower.items(), *complete.items())}
        frames = self.frames(rows)
        for variant in self.stratum.recursive:
            if self._driven(variant, state.delta):
                head = frames.head(variant.rule, self._reader(variant, state, complete), variant.delta)
                candidates.setdefault(variant.rule.head.relation, []).append(head)
        led_by = sum(held.rows or 0 for held in state.delta.values())
        return {
            name: self._novel(name, state.number + 1, heads, complete[name], led_by)
            for name, heads in candidates.items()
        }

    def _driven(self, variant: Variant, delta: Mapping[str, Held]) -> bool:
        assert variant.delta is not None
        (relation,) = body_relations([variant.rule.body[variant.delta]])
        return relation in delta and bool(delta[relation].rows)

    def _reader(
        self, variant: Variant, state: RoundState, complete: Mapping[str, Held]
    ) -> Callable[[int, str], Held]:
        def read(position: int, relation: str) -> Held:
            if relation not in complete:
                return self.lower[relation]
            if position == variant.delta:
                return state.delta[relation]
            if position in variant.old:
                return self._before(state, relation)
            return complete[relation]

        return read

    def _before(self, state: RoundState, relation: str) -> Held:
        """All facts but those of the last delta."""
        delta = state.delta.get(relation)
        pieces = [piece for piece in state.pieces[relation] if piece is not delta]
        if delta is None or len(pieces) == len(state.pieces[relation]):  # it is part of a compacted piece
            return union(state.pieces[relation])
        return union(pieces) if pieces else Held(delta.frame.limit(0), 0)

    def _novel(self, name: str, number: int, heads: Sequence[DataFrame], known: Held, expected: int) -> Held:
        """Those of the candidates that are no facts yet; `expected` is how many facts led to them."""
        from pyspark.sql import functions as F

        candidates = reduce(lambda a, b: a.unionAll(b), heads).distinct()
        at = f"stratum-{self.stratum.number}/{name}/round-{number}"
        columns = candidates.columns
        if known.is_small:
            return self.keeper.cut(at, candidates.join(F.broadcast(known.frame), columns, "left_anti"))
        if expected > SMALL_DELTA:
            return self.keeper.cut(at, candidates.join(known.frame, columns, "left_anti"))
        # Few candidates go to where the facts are, instead of shuffling all facts for them.
        few = self.keeper.cut(f"{at}-candidates", candidates)
        if not few.is_small:
            return self.keeper.cut(at, few.frame.join(known.frame, columns, "left_anti"))
        repeated = known.frame.join(F.broadcast(few.frame), columns, "left_semi")
        return self.keeper.cut(at, few.frame.join(F.broadcast(repeated), columns, "left_anti"))

    def _compacted(self, name: str, number: int, pieces: list[Held]) -> list[Held]:
        """Many pieces as three: the first may be large and stays as it is, the last may be the delta."""
        if len(pieces) <= MOST_PIECES:
            return pieces
        first, *others, last = pieces
        at = f"stratum-{self.stratum.number}/{name}/to-round-{number - 1}"
        whole = union(others).frame
        return [first, self.keeper.cut(at, whole.coalesce(parallelism(whole.sparkSession))), last]
