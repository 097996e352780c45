"""Semi-naive evaluation of one stratum: once-rules, then rounds over the deltas to the fixpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from gpuengine.errors import Interrupted
from gpuengine.evaluation.bounds import flow_bounds
from gpuengine.evaluation.context import Context
from gpuengine.evaluation.failures import device_failures
from gpuengine.evaluation.progress import StratumStatistics
from gpuengine.evaluation.small_rounds import Outcome, run_small_rounds
from gpuengine.evaluation.variants import SMALL_DELTA, VariantRunner
from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.language.program import Atom, Literal, Rule
from gpuengine.planning.plan import Stratum, Variant
from gpuengine.planning.split import Split, find_split
from gpuengine.planning.strata import body_relations, delta_variants, member_positions
from gpuengine.schemes.table import Table

SMALL_WORK = 100_000
"""Rounds with fewer candidates than this stay in the compiled loop."""
_KNOWN_FACTS = 1000
_RECONSIDER_GROWTH = 4
T = TypeVar("T")


class StratumEvaluation:
    """Brings the relations of one stratum to their fixpoint.

    The tables' deltas belong to it while it runs. Rules may be split on the way (see `planning.split`);
    the relations that this adds live as long as the evaluation.
    """

    def __init__(self, stratum: Stratum, context: Context) -> None:
        self.context = context
        self.database = context.database
        self.stratum = stratum
        self.members = frozenset(stratum.relations)
        self.recursive = list(stratum.recursive)
        rules = list(dict.fromkeys(variant.rule for variant in (*stratum.once, *stratum.recursive)))
        self.runner = VariantRunner(context, self.members, rules)
        self.placement = context.placement
        self.tables = [self.database.tables[name] for name in stratum.relations]
        self.statistics = StratumStatistics(stratum.number, stratum.relations)
        self._added: list[str] = []
        self._considered: dict[Rule, int] = {}

    def run(self) -> None:
        """Derive everything; an error of the device says by which rule."""
        self.context.progress.placed.append(self.statistics)
        progress = self.context.progress
        with device_failures(lambda: f"deriving by: {progress.rule}", self._tables_used):
            self._run()

    def _run(self) -> None:
        progress = self.context.progress
        progress.stratum = self.stratum.number + 1
        progress.relations = self.stratum.relations
        progress.round_in_stratum = 0
        progress.rule = self.runner.rules[0].text if self.runner.rules else ""
        self.database.growing = self.members if self.stratum.is_recursive else frozenset()
        self._retrying(lambda: self.placement.begin(self._tables_used()))
        flow_bounds(self.runner.rules, self.database)
        for table in self.tables:
            table.rows.delta = (0, 0)
        for variant in self.stratum.once:
            self._run_variant(variant)
        for table in self.tables:
            table.rows.delta = (0, table.rows.count)
        self._finish_round(1)
        if self.stratum.is_recursive:
            self._iterate()
        self._retrying(self._settle)
        for name in self._added:
            del self.database.tables[name]

    def _settle(self) -> None:
        """Everything is derived and old; what only the evaluation needed is freed."""
        for table in self.tables:
            table.settle()
            table.forget_indexes()
            table.drop_stale_copy()
            table.rows.trim()

    def _iterate(self) -> None:
        """Rounds until no relation has a delta, or a size limit is reached."""
        last_was_large = False
        while self.context.progress.delta and not self._limit_reached():
            self._place()
            self._consider_splits()
            bodies = self._retrying(lambda: [self.runner.prepare(variant) for variant in self.recursive])
            used = {index for body in bodies for index in body.indexes()}
            for table in self.tables:
                table.keep_indexes(used)
            on_host = self.placement.current.on_host
            simple = on_host and all(body.is_pure and not body.impossible for body in bodies)
            if simple and not last_was_large and self.context.progress.delta <= SMALL_DELTA:
                if self._run_small_rounds() is Outcome.FIXPOINT:
                    return
                last_was_large = True
            else:
                last_was_large = self._run_round() > SMALL_WORK

    def _run_round(self) -> int:
        """One round driven from here; returns its candidates."""
        work = sum(self._run_variant(variant) for variant in self.recursive)
        for table in self.tables:
            table.rows.advance()
        self._retrying(self._index_deltas)
        for table in self.tables:
            table.drop_stale_indexes()
        self._finish_round(1)
        return work

    def _index_deltas(self) -> None:
        indexes = [index for table in self.tables for index in table.indexes]
        if self.placement.current.on_host:
            self.context.workers.each(lambda index: index.ensure(), indexes)
        else:
            for index in indexes:
                index.ensure()

    def _run_variant(self, variant: Variant) -> int:
        """Evaluate a variant; to do it twice over the same rows adds nothing."""
        return self._retrying(lambda: self.runner.run(variant))

    def _retrying(self, action: Callable[[], T]) -> T:
        """Do what can be done again if the accelerator runs out of memory, with more room or on the host."""
        while True:
            try:
                return action()
            except DeviceMemoryError:
                if not self.placement.recover(self._tables_used()):
                    raise

    def _place(self) -> None:
        """Let the stratum move before a round, if it should."""
        if self.placement.is_active:
            delta = self.context.progress.delta
            self._retrying(lambda: self.placement.before_round(self._tables_used(), delta))

    def _tables_used(self) -> list[Table]:
        """The tables that the stratum reads or writes."""
        names = dict.fromkeys(self.members)
        for rule in self.runner.rules:
            names.update(dict.fromkeys([rule.head.relation, *sorted(body_relations(rule.body))]))
        return [self.database.tables[name] for name in names]

    def _run_small_rounds(self) -> Outcome:
        programs = []
        for variant in self.recursive:
            head = self.database.tables[variant.rule.head.relation]
            programs.append((self.runner.prepare(variant), self._driver_table(variant), head))
        before = [body.candidates for body, _, _ in programs]
        sizes = [len(head) for _, _, head in programs]
        largest = min(SMALL_DELTA, self.placement.largest_host_delta)
        limits = (-1, -1) if self.context.limits else (largest, SMALL_WORK)
        text = self.recursive[0].rule.text
        started = time.perf_counter()
        outcome, rounds = run_small_rounds(
            programs,
            self.tables,
            self.context.stop,
            limits,
            lambda table: self.context.check_budget(table, text),
        )
        # The compiled loop does not time its variants one by one.
        seconds = (time.perf_counter() - started) / len(programs)
        for k, variant in enumerate(self.recursive):
            body, _, head = programs[k]
            derived = len(head) - sizes[k] if len(programs) == 1 else 0
            self.context.note(variant.rule, seconds, body.candidates - before[k], derived)
        self._finish_round(rounds)
        return outcome

    def _driver_table(self, variant: Variant) -> Table:
        assert variant.delta is not None
        atom = variant.rule.body[variant.delta]
        assert isinstance(atom, Atom)
        return self.database.tables[atom.relation]

    def _finish_round(self, rounds: int) -> None:
        progress = self.context.progress
        name = self.placement.current.name
        self.statistics.rounds[name] = self.statistics.rounds.get(name, 0) + rounds
        self.statistics.moves = self.placement.moves
        progress.rounds += rounds
        progress.round_in_stratum += rounds
        progress.delta = sum(end - start for start, end in (table.rows.delta for table in self.tables))
        self.context.count_facts()
        if self.context.stop[0]:
            raise Interrupted("stopped")

    def _limit_reached(self) -> bool:
        limits = self.context.limits
        return any(
            name in limits and len(self.database.tables[name]) >= limits[name]
            for name in self.stratum.relations
        )

    def _consider_splits(self) -> None:
        """Split rules for which the sizes have come to say that it pays off; what remains may split again."""
        rules = list(dict.fromkeys(variant.rule for variant in self.recursive))
        while rules:
            rule = rules.pop()
            if self._has_outgrown(rule):
                split = self._find_split(rule)
                if split is not None:
                    self._apply(rule, split)
                    rules.append(split.outer)

    def _find_split(self, rule: Rule) -> Split | None:
        return self._retrying(lambda: find_split(rule, self.members, self.database.tables, self.database))

    def _has_outgrown(self, rule: Rule) -> bool:
        """Are the rule's relations of this stratum large enough to tell, and much larger than last time?"""
        relations = {part.relation for part in rule.body if isinstance(part, Atom)} & self.members
        facts = [len(self.database.tables[name]) for name in relations if name not in self._added]
        if not facts or min(facts) < _KNOWN_FACTS:
            return False
        if sum(facts) < _RECONSIDER_GROWTH * self._considered.get(rule, 0):
            return False
        self._considered[rule] = sum(facts)
        return True

    def _apply(self, rule: Rule, split: Split) -> None:
        """Replace a rule by its split, with the new relation filled from the OLD facts of its atoms.

        This happens between rounds: the rule has seen every combination of OLD facts and none with
        the delta, so the new relation starts with nothing but OLD facts as well.
        """
        name = split.inner.head.relation
        table = Table(name, len(split.inner.head.args), self.placement.current)
        self.database.tables[name] = table
        self._added.append(name)
        self.tables.append(table)
        self.members |= {name}
        self.database.growing = self.members
        self.runner.members = self.members
        self.runner.rules.remove(rule)
        self.runner.rules += [split.inner, split.outer]
        flow_bounds(self.runner.rules, self.database)
        old = frozenset(member_positions(split.inner, self.members))
        if all(self._has_old(split.inner.body[position]) for position in old):
            self._run_variant(Variant(split.inner, None, old))
        table.settle()
        self.recursive = [variant for variant in self.recursive if variant.rule != rule]
        self.recursive += delta_variants(split.inner, self.members)
        self.recursive += delta_variants(split.outer, self.members)

    def _has_old(self, literal: Literal) -> bool:
        assert isinstance(literal, Atom)
        return self.database.tables[literal.relation].rows.delta[0] > 0
