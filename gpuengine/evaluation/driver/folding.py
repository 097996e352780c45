"""Relations that keep one fact for each key, made of the values of all that were offered: sums and joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.evaluation.driver.relation_selector import Columns, OneFactForEachKey
from gpuengine.evaluation.rules.variants import VariantRunner
from gpuengine.kernels.cpu.exact_sums import ExactSums
from gpuengine.kernels.cpu.groups import KeyNumbers
from gpuengine.language.monotony import Merges, moving_variables
from gpuengine.language.program import Kind, Merge, Rule, Variable, literal_variables
from gpuengine.terms.functors import evaluate
from gpuengine.terms.joins import join

_DTYPES: dict[Kind, type] = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}


@dataclass
class _Added:
    """What one rule adds: for each binding of its body the largest of its values, and to which key."""

    bindings: KeyNumbers
    values: np.ndarray
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def take(
        self, columns: Columns, values: np.ndarray, keys: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """More bindings: the keys to which more is added, how much was, and how much is."""
        known = len(self.bindings)
        numbers = self.bindings.number(columns, len(values)).astype(np.int64)
        order = np.lexsort((values, numbers))
        last = np.ones(len(order), np.bool_)
        last[:-1] = numbers[order][1:] != numbers[order][:-1]
        chosen = order[last]
        numbers = numbers[chosen]
        more = len(self.bindings) - len(self.values)
        self.values = np.concatenate([self.values, np.zeros(more, self.values.dtype)])
        self.keys = np.concatenate([self.keys, np.zeros(more, np.int64)])
        is_more = (numbers >= known) | (values[chosen] > self.values[numbers])
        numbers, chosen = numbers[is_more], chosen[is_more]
        before = self.values[numbers]
        self.values[numbers] = values[chosen]
        self.keys[numbers] = keys[chosen]
        return keys[chosen], before, values[chosen]


class Summing(OneFactForEachKey):
    """Keeps for each key the sum of the values of all bindings of bodies, of each rule for itself.

    A value that moves while the fixpoint is computed counts as it is by now. Facts that are stated, and
    those of rules that do not say so, are added as they are, each once. In a recursion sums must not get
    smaller, so that no value may be negative.
    """

    def __init__(self, name: str, runner: VariantRunner, merge: Merge, moving: Merges) -> None:
        super().__init__(name, runner, [merge.column])
        self._merge = merge
        self._moving = moving
        self._type = self.types[merge.column]
        self._dtype = _DTYPES[self._type.kind]
        self._numbers = KeyNumbers(max(1, len(self._keys)))
        self._added: dict[Rule | None, _Added] = {}
        self._besides: dict[Rule, tuple[Variable, ...]] = {}
        self._totals: np.ndarray = np.zeros(0, self._dtype)
        self._ids = np.zeros(0, np.int64)
        self._is_touched = np.zeros(0, np.bool_)

    @property
    def known(self) -> int:
        return len(self._numbers) + sum(len(added.bindings) for added in self._added.values())

    def besides(self, rule: Rule) -> tuple[Variable, ...]:
        if rule.merge is None:
            return ()
        if rule not in self._besides:
            variables = frozenset().union(*(literal_variables(part) for part in rule.body))
            own = {rule.head.args[column] for column in self._keys}
            told_apart = variables - moving_variables(rule, self._moving) - own
            self._besides[rule] = tuple(sorted(told_apart, key=lambda variable: variable.name))
        return self._besides[rule]

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        if not rows:
            return
        rule = rule if rule is not None and rule.merge is not None else None
        keys = self.keys_of(columns, rows)
        numbers = self._numbers.number(keys, rows).astype(np.int64)
        self._grow()
        ids = np.ascontiguousarray(columns[self._merge.column], np.uint32)
        values = self.database.dictionary.values(self._type.space, ids)
        self._check_signs(values)
        told_apart = [*keys, ids] if rule is None else [*keys, *columns[self.table.arity :]]
        added = self._added.get(rule)
        if added is None:
            added = self._added[rule] = _Added(KeyNumbers(len(told_apart)), np.zeros(0, self._dtype))
        touched, before, now = added.take(told_apart, values, numbers)
        if self._dtype is not np.float64:
            np.add.at(self._totals, touched, now - before)
        self._is_touched[touched] = True

    def _check_signs(self, values: np.ndarray) -> None:
        if self._moving and self._dtype is not np.uint64 and not (values >= 0).all():
            wrong = values[~(values >= 0)][0]
            raise EvaluationError(
                f"{wrong} can't be added to the {self._merge.op} of {self.name}: it depends on itself, and "
                "would get less\n  hint: leave out what is negative, by a comparison in the rule"
            )

    def _grow(self) -> None:
        more = len(self._numbers) - len(self._totals)
        if more:
            self._totals = np.concatenate([self._totals, np.zeros(more, self._dtype)])
            self._ids = np.concatenate([self._ids, np.full(more, -1, np.int64)])
            self._is_touched = np.concatenate([self._is_touched, np.zeros(more, np.bool_)])

    def apply(self) -> None:
        touched = np.flatnonzero(self._is_touched)
        if not len(touched):
            return
        if self._dtype is np.float64:
            self._add_floats()
        self._is_touched[touched] = False
        totals = self._totals[touched]
        ids = self.database.dictionary.encode_words(self._type.space, totals).astype(np.int64)
        is_other = ids != self._ids[touched]
        self._check_growth(touched[is_other], totals[is_other])
        touched, ids = touched[is_other], ids[is_other]
        self._ids[touched] = ids
        parts = [self._numbers.rows.column(j)[touched] for j in range(len(self._keys))]
        self.append_for(touched, parts, [ids.astype(np.uint32)])

    def _add_floats(self) -> None:
        """Sums of floats are made anew of all that is added: rounded once, they don't get less by more."""
        keys = np.concatenate([one.keys for one in self._added.values()])
        values = np.concatenate([one.values for one in self._added.values()])
        there = self._is_touched[keys]
        touched = np.flatnonzero(self._is_touched)
        sums = ExactSums(len(touched))
        sums.add(np.searchsorted(touched, keys[there]), values[there])
        self._totals[touched] = sums.results()

    def _check_growth(self, numbers: np.ndarray, totals: np.ndarray) -> None:
        known = self._ids[numbers] >= 0
        if self._moving and known.any():
            before = self.database.dictionary.values(
                self._type.space, self._ids[numbers[known]].astype(np.uint32)
            )
            if not (totals[known] > before).all():
                rules = "".join(f"\n  by the rule: {rule.text}" for rule in self._added if rule is not None)
                raise EvaluationError(
                    f"the {self._merge.op} of {self.name} does not fit 64 bits any more{rules}\n"
                    "  hint: does it grow around a cycle? Then it has no end"
                )


class Joining(OneFactForEachKey):
    """Keeps for each key the join of the values of each column that has one, by its lattice.

    A fact with the least value of a lattice says nothing, and is left out.
    """

    def __init__(self, name: str, runner: VariantRunner, joins: Sequence[Merge]) -> None:
        super().__init__(name, runner, [one.column for one in joins])
        self._joins = sorted(joins, key=lambda one: one.column)
        self._values = [one.column for one in self._joins]
        self._numbers = KeyNumbers(max(1, len(self._keys)))
        self._ids = [np.zeros(0, np.int64) for _ in self._joins]
        self._waiting: list[tuple[np.ndarray, list[np.ndarray]]] = []

    @property
    def known(self) -> int:
        return len(self._numbers)

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        is_said = np.ones(rows, np.bool_)
        for merge in self._joins:
            if merge.bottom is not None:
                bottom = evaluate(merge.bottom, {}, 1, self.database.dictionary)
                is_said &= np.asarray(columns[merge.column]) != bottom[0]
        columns = [np.asarray(column)[is_said] for column in columns]
        rows = len(columns[0])
        if rows:
            numbers = self._numbers.number(self.keys_of(columns, rows), rows).astype(np.int64)
            self._waiting.append((numbers, [np.array(columns[column], np.uint32) for column in self._values]))

    def apply(self) -> None:
        if not self._waiting:
            return
        offered = np.concatenate([numbers for numbers, _ in self._waiting])
        columns = [
            np.concatenate(parts) for parts in zip(*(values for _, values in self._waiting), strict=True)
        ]
        self._waiting = []
        more = len(self._numbers) - len(self._ids[0])
        self._ids = [np.concatenate([ids, np.full(more, -1, np.int64)]) for ids in self._ids]
        touched = np.unique(offered)
        known = touched[self._ids[0][touched] >= 0]
        numbers = np.concatenate([known, offered])
        order = np.argsort(numbers, kind="stable")
        joined = []
        for merge, ids, column in zip(self._joins, self._ids, columns, strict=True):
            values = np.concatenate([ids[known].astype(np.uint32), column])
            joined.append(self._fold(merge, numbers[order], values[order]))
        is_other = np.zeros(len(touched), np.bool_)
        for ids, made in zip(self._ids, joined, strict=True):
            is_other |= ids[touched] != made
        touched, joined = touched[is_other], [made[is_other] for made in joined]
        for ids, made in zip(self._ids, joined, strict=True):
            ids[touched] = made
        parts = [self._numbers.rows.column(j)[touched] for j in range(len(self._keys))]
        self.append_for(touched, parts, joined)

    def _fold(self, merge: Merge, numbers: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The join of the values of each number, which stand side by side: two at a time."""
        type_, dictionary = self.types[merge.column], self.database.dictionary
        while True:
            first = np.ones(len(numbers), np.bool_)
            first[1:] = numbers[1:] != numbers[:-1]
            starts = np.flatnonzero(first)
            if len(starts) == len(numbers):
                return ids
            place = np.arange(len(numbers)) - np.repeat(starts, np.diff(np.append(starts, len(numbers))))
            lefts = np.flatnonzero(place % 2 == 0)
            has_right = np.zeros(len(numbers) + 1, np.bool_)
            has_right[:-1] = place % 2 == 1
            pairs = lefts[has_right[lefts + 1]]
            ids = ids.copy()
            ids[pairs] = join(merge, type_, ids[pairs], ids[pairs + 1], dictionary)
            numbers, ids = numbers[lefts], ids[lefts]
