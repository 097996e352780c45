"""Relations that keep one fact for each key, made of the values of all that were offered: sums and joins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.evaluation.driver.contributions import Contributions
from gpuengine.evaluation.driver.relation_selector import Columns, OneFactForEachKey
from gpuengine.evaluation.rules.variants import VariantRunner
from gpuengine.kernels.cpu.groups import KeyNumbers
from gpuengine.language.monotony import Merges
from gpuengine.language.program import Merge, Rule, Type, Variable
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.functors import evaluate
from gpuengine.terms.joins import join


class Summing(OneFactForEachKey):
    """Keeps for each key the sum of what is added to it, see `Contributions`."""

    def __init__(self, name: str, runner: VariantRunner, merge: Merge, moving: Merges) -> None:
        super().__init__(name, runner, [merge.column])
        self._contributions = Contributions(name, self.database, merge, moving)

    @property
    def known(self) -> int:
        return self._contributions.known

    def besides(self, rule: Rule) -> tuple[Variable, ...]:
        return self._contributions.besides(rule)

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        self._contributions.offer(columns, rows, rule)

    def apply(self) -> None:
        moved = self._contributions.moved()
        self.append_for(moved.numbers, moved.keys, [moved.ids])


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
        columns = without_bottoms(columns, rows, self._joins, self.database.dictionary)
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
            type_ = self.types[merge.column]
            joined.append(fold(merge, type_, numbers[order], values[order], self.database.dictionary))
        is_other = np.zeros(len(touched), np.bool_)
        for ids, made in zip(self._ids, joined, strict=True):
            is_other |= ids[touched] != made
        touched, joined = touched[is_other], [made[is_other] for made in joined]
        for ids, made in zip(self._ids, joined, strict=True):
            ids[touched] = made
        parts = [self._numbers.rows.column(j)[touched] for j in range(len(self._keys))]
        self.append_for(touched, parts, joined)


def without_bottoms(
    columns: Columns, rows: int, joins: Sequence[Merge], dictionary: Dictionary
) -> list[np.ndarray]:
    """The facts that do not have the least value of a lattice."""
    is_said = np.ones(rows, np.bool_)
    for merge in joins:
        if merge.bottom is not None:
            bottom = evaluate(merge.bottom, {}, 1, dictionary)
            is_said &= np.asarray(columns[merge.column][:rows]) != bottom[0]
    return [np.asarray(column[:rows])[is_said] for column in columns]


def fold(
    merge: Merge, type: Type, numbers: np.ndarray, ids: np.ndarray, dictionary: Dictionary
) -> np.ndarray:
    """The join of the values of each number, which stand side by side: two at a time."""
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
        ids[pairs] = join(merge, type, ids[pairs], ids[pairs + 1], dictionary)
        numbers, ids = numbers[lefts], ids[lefts]
