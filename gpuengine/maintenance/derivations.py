"""How the delta rules of a stratum are evaluated: for the facts they derive, or counting how often they do.

Without counters (DRed), what was overdeleted is looked for again with the rules restricted to it. With
counters (DRed^c), facts that rules outside the recursion derive are not overdeleted in the first place,
and which of the others are derived by what is left is known without looking.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from gpuengine.evaluation.rules.body import BodyProgram, compile_body
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.variants import VariantRunner
from gpuengine.language.program import Rule, literal_variables
from gpuengine.maintenance import names
from gpuengine.maintenance.counters import Counters, Derivation
from gpuengine.maintenance.rules import DeltaRule, DeltaRules, Direction
from gpuengine.planning.order import order_body
from gpuengine.planning.plan import Variant
from gpuengine.schemes.table import Table, as_table


class Derivations(ABC):
    """Evaluates the delta rules of one stratum. If it is not `is_counted`, a `recount` is due."""

    def __init__(self, context: Context, delta_rules: DeltaRules, members: frozenset[str]) -> None:
        self.context = context
        self.database = context.database
        self.delta_rules = delta_rules
        self.runner = VariantRunner(context, members, delta_rules.all_rules)
        self.is_counted = True

    @abstractmethod
    def run(self, rule: DeltaRule, direction: Direction) -> None:
        """Put what a rule derives into the table of its head; what is GOING is a candidate for deletion."""

    @abstractmethod
    def has_other(self, table: str, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Which facts of a table are known to be derived outside the recursion: a mask."""

    @abstractmethod
    def rederive(self, check: Callable[[], None]) -> None:
        """Put back what was overdeleted and follows from what is left; `check` is called now and then."""

    @abstractmethod
    def recount(self) -> None:
        """Make the counters anew, if there are any, from a materialisation that is complete."""

    @property
    def counters(self) -> Mapping[str, Counters]:
        """By table, where they are kept."""
        return {}

    def _table(self, name: str) -> Table:
        return as_table(self.database.tables[name])


class SetDerivations(Derivations):
    """Derives facts, however often."""

    def run(self, rule: DeltaRule, direction: Direction) -> None:
        self.runner.run(rule.variant)

    def recount(self) -> None:
        """There are none."""
        self.is_counted = True

    def has_other(self, table: str, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """None: it would have to be looked for."""
        return np.zeros(count, np.bool_)

    def rederive(self, check: Callable[[], None]) -> None:
        for rule in self.delta_rules.again:
            gone = self._table(rule.trigger)
            if len(gone):
                gone.renew()
                self.runner.run(rule.variant)
                check()


class CountedDerivations(Derivations):
    """Keeps the counters of every table of the stratum. Needs delta rules that find each instance once."""

    def __init__(self, context: Context, delta_rules: DeltaRules, members: frozenset[str]) -> None:
        super().__init__(context, delta_rules, members)
        self._counting = _CountingRunner(context, members, delta_rules.all_rules)
        self._counters: dict[str, Counters] = {}

    @property
    def counters(self) -> Mapping[str, Counters]:
        return self._counters

    def recount(self) -> None:
        self.is_counted = False
        self._counters = {name: Counters(self._table(name).arity) for name in self.delta_rules.tables}
        for rule in self.delta_rules.rules:
            self._count(self.delta_rules.whole(rule), rule.head.relation, 1)
        self.is_counted = True

    def run(self, rule: DeltaRule, direction: Direction) -> None:
        head = rule.variant.rule.head.relation
        if direction is Direction.GOING:
            chunks = self._count(rule, names.without_going(head), -1)
        else:
            chunks = self._count(rule, head, 1)
        for columns, count in chunks:
            self._table(head).insert(columns, count)

    def has_other(self, table: str, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        mask: np.ndarray = self._counters[table].of(columns, count)[Derivation.NONRECURSIVE] > 0
        return mask

    def rederive(self, check: Callable[[], None]) -> None:
        """By the counters alone: what an instance still derives follows from what is left."""
        for name in self.delta_rules.tables:
            gone = self._table(names.gone(name))
            if len(gone):
                kept = self._counters[name].of(gone.columns(), len(gone)).any(axis=0)
                columns = [column[kept] for column in gone.columns()]
                self._table(name).insert(columns, int(np.count_nonzero(kept)))

    def _count(self, rule: DeltaRule, table: str, sign: int) -> list[tuple[list[np.ndarray], int]]:
        """Add to, or subtract from, the counters of what a rule derives; which facts that is."""
        kind = Derivation.RECURSIVE if rule.is_recursive else Derivation.NONRECURSIVE
        chunks = []
        for columns, count in self._counting.heads(rule.variant):
            distinct, derivations = distinct_counts(columns, count)
            self._counters[table].add(kind, distinct, len(derivations), sign * derivations)
            chunks.append((distinct, len(derivations)))
        self.context.counter_bytes[names.counters(table)] = self._counters[table].nbytes
        if chunks:
            self.context.check_budget(self._table(table), rule.variant.rule.text)
        return chunks


class _CountingRunner(VariantRunner):
    """Collects heads, each as often as it is derived."""

    def heads(self, variant: Variant) -> Iterator[tuple[list[np.ndarray], int]]:
        started = time.perf_counter()
        body = self.prepare(variant)
        seen = 0
        if not body.impossible:
            for columns, count in self._heads(body, variant):
                seen += count
                yield columns, count
        self.context.note(variant.rule, time.perf_counter() - started, seen, 0, uncounted=seen)

    def _compile(self, variant: Variant) -> BodyProgram:
        rule: Rule = variant.rule
        return compile_body(
            rule.body,
            order_body(rule.body, self.context.database, driver=self._driver(variant)),
            self.context.database,
            sink=tuple(sorted(literal_variables(rule.head), key=str)),
            stop=self.context.stop,
            delta=variant.delta,
            old=variant.old,
            growing=self.members,
            exact=True,
            in_hindsight=variant.in_hindsight,
        )


def distinct_counts(columns: Sequence[np.ndarray], count: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The distinct rows, and how often each occurs."""
    if not columns:
        return [], np.full(min(count, 1), count, np.int64)
    order = np.lexsort(columns)
    ordered = [column[order] for column in columns]
    starts = np.ones(count, np.bool_)
    starts[1:] = False
    for column in ordered:
        starts[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(starts)
    return [column[first] for column in ordered], np.diff(np.append(first, count))
