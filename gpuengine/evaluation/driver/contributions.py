"""What is added up for each key of a relation of sums: for each binding of a body, its value by now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.evaluation.driver.relation_selector import Columns
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.cpu.exact_sums import ExactSums
from gpuengine.kernels.cpu.groups import KeyNumbers
from gpuengine.language.monotony import Merges, moving_variables
from gpuengine.language.program import Kind, Merge, Rule, Variable, literal_variables

_DTYPES: dict[Kind, type] = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
_FEW = 10_000


class _Taken(NamedTuple):
    """The keys to which more is added, how much was, how much is, and which of it had not been known."""

    keys: np.ndarray
    before: np.ndarray
    now: np.ndarray
    is_new: np.ndarray


@dataclass
class _Added:
    """What one rule adds: for each binding of its body the largest of its values, and to which key.

    A binding counts if its `lives` are as many as those of its key.
    """

    bindings: KeyNumbers
    values: np.ndarray
    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    lives: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def take(self, columns: Columns, values: np.ndarray, keys: np.ndarray, lives: np.ndarray) -> _Taken:
        """More bindings; `lives` are those of all keys."""
        numbers = self.bindings.number(columns, len(values)).astype(np.int64)
        order = np.lexsort((values, numbers))
        last = np.ones(len(order), np.bool_)
        last[:-1] = numbers[order][1:] != numbers[order][:-1]
        chosen = order[last]
        numbers = numbers[chosen]
        more = len(self.bindings) - len(self.values)
        if more:
            self.values = np.concatenate([self.values, np.zeros(more, self.values.dtype)])
            self.keys = np.concatenate([self.keys, np.zeros(more, np.int64)])
            self.lives = np.concatenate([self.lives, np.full(more, -1, np.int64)])
        counts = self.lives[numbers] == lives[keys[chosen]]
        is_more = ~counts | (values[chosen] > self.values[numbers])
        numbers, chosen, is_new = numbers[is_more], chosen[is_more], ~counts[is_more]
        before = np.where(is_new, self.values.dtype.type(0), self.values[numbers])
        self.values[numbers] = values[chosen]
        self.keys[numbers] = keys[chosen]
        self.lives[numbers] = lives[keys[chosen]]
        return _Taken(keys[chosen], before, values[chosen], is_new)

    def counting(self, lives: np.ndarray) -> np.ndarray:
        """Which bindings count: a mask."""
        mask: np.ndarray = self.lives == lives[self.keys]
        return mask


class Moved(NamedTuple):
    """Keys of which the sum is another one: the ids of what it was, or -1, and of what it is."""

    numbers: np.ndarray
    keys: list[np.ndarray]
    before: np.ndarray
    ids: np.ndarray


class Contributions:
    """The sum, for each key, of the values of all bindings of bodies, of each rule for itself.

    A value that moves while the fixpoint is computed counts as it is by now. Facts that are stated, and
    those of rules that do not say so, are added as they are, each once. In a recursion sums must not get
    smaller, so that no value may be negative. `originals` has the rules that others find instances of.
    """

    def __init__(
        self,
        name: str,
        database: Database,
        merge: Merge,
        moving: Merges,
        originals: Mapping[Rule, Rule] | None = None,
    ) -> None:
        self.name = name
        self._database = database
        self._merge = merge
        self._moving = moving
        self._originals = originals or {}
        attributes = database.program.relations[name].attributes
        self._arity = len(attributes)
        self._type = attributes[merge.column].type
        self._dtype = _DTYPES[self._type.kind]
        self._keys = [column for column in range(self._arity) if column != merge.column]
        self._besides: dict[Rule, tuple[Variable, ...]] = {}
        self.clear()

    def clear(self) -> None:
        """Nothing is added to anything."""
        self._numbers = KeyNumbers(max(1, len(self._keys)))
        self._added: dict[Rule | None, _Added] = {}
        self._totals: np.ndarray = np.zeros(0, self._dtype)
        self._ids = np.zeros(0, np.int64)
        self._is_touched = np.zeros(0, np.bool_)
        self._lives = np.zeros(0, np.int64)
        self._sizes = np.zeros(0, np.int64)
        self._lost = 0

    @property
    def known(self) -> int:
        """How many keys, and bindings of bodies, there are."""
        return len(self._numbers) + sum(len(added.bindings) for added in self._added.values())

    @property
    def nbytes(self) -> int:
        total = self._numbers.nbytes + 33 * len(self._numbers)
        return total + sum(added.bindings.nbytes + 24 * len(added.values) for added in self._added.values())

    @property
    def is_wasteful(self) -> bool:
        """Are most of the bindings such as do not count any more?"""
        return self._lost > _FEW and 2 * self._lost > sum(len(one.values) for one in self._added.values())

    def besides(self, rule: Rule) -> tuple[Variable, ...]:
        """The variables that tell bindings of a body apart and do not stand in the key."""
        rule = self._originals.get(rule, rule)
        if rule.merge is None:
            return ()
        if rule not in self._besides:
            variables = frozenset().union(*(literal_variables(part) for part in rule.body))
            own = {rule.head.args[column] for column in self._keys}
            told_apart = variables - moving_variables(rule, self._moving) - own
            self._besides[rule] = tuple(sorted(told_apart, key=lambda variable: variable.name))
        return self._besides[rule]

    def offer(self, columns: Columns, rows: int, rule: Rule | None = None) -> None:
        """Facts, and for those of a rule that adds a column for each variable `besides`."""
        if not rows:
            return
        rule = None if rule is None else self._originals.get(rule, rule)
        rule = rule if rule is not None and rule.merge is not None else None
        keys = self._keys_of(columns, rows)
        numbers = self._number(keys, rows)
        ids = np.ascontiguousarray(columns[self._merge.column][:rows], np.uint32)
        values = self._database.dictionary.values(self._type.space, ids)
        self._check_signs(values)
        told_apart = [*keys, ids] if rule is None else [*keys, *columns[self._arity :]]
        added = self._added.get(rule)
        if added is None:
            added = self._added[rule] = _Added(KeyNumbers(len(told_apart)), np.zeros(0, self._dtype))
        known = len(added.values)
        taken = added.take(told_apart, values, numbers, self._lives)
        self._lost -= int(np.count_nonzero(taken.is_new)) - (len(added.values) - known)
        np.add.at(self._sizes, taken.keys[taken.is_new], 1)
        if self._dtype is not np.float64:
            np.add.at(self._totals, taken.keys, taken.now - taken.before)
        self._is_touched[taken.keys] = True

    def lose(self, columns: Columns, rows: int) -> None:
        """Nothing is added any more for the keys of some facts."""
        if rows:
            numbers = np.unique(self._number(self._keys_of(columns, rows), rows))
            self._totals[numbers] = 0
            self._ids[numbers] = -1
            self._is_touched[numbers] = False
            self._lives[numbers] += 1
            self._lost += int(self._sizes[numbers].sum())
            self._sizes[numbers] = 0

    def moved(self) -> Moved:
        """The keys of which the sum is another one than when this was last asked."""
        touched = np.flatnonzero(self._is_touched)
        if not len(touched):
            return Moved(touched, [np.zeros(0, np.uint32)] * len(self._keys), touched, np.zeros(0, np.uint32))
        if self._dtype is np.float64:
            self._add_floats(touched)
        self._is_touched[touched] = False
        totals = self._totals[touched]
        ids = self._database.dictionary.encode_words(self._type.space, totals).astype(np.int64)
        before = self._ids[touched]
        is_other = ids != before
        touched, ids, before = touched[is_other], ids[is_other], before[is_other]
        self._check_growth(before, totals[is_other])
        self._ids[touched] = ids
        keys = [self._numbers.rows.column(j)[touched] for j in range(len(self._keys))]
        return Moved(touched, keys, before, ids.astype(np.uint32))

    def all(self) -> dict[tuple[object, ...], float]:
        """What each binding that counts adds, by rule and binding; for comparisons."""
        found: dict[tuple[object, ...], float] = {}
        for rule, added in self._added.items():
            bindings = zip(*(column.tolist() for column in added.bindings.rows.columns()), strict=True)
            for binding, value, counts in zip(
                bindings, added.values.tolist(), added.counting(self._lives).tolist(), strict=True
            ):
                if counts:
                    found[rule, *binding] = value
        return found

    def _keys_of(self, columns: Columns, rows: int) -> list[np.ndarray]:
        """The columns of the key, one at least."""
        return [columns[column][:rows] for column in self._keys] or [np.zeros(rows, np.uint32)]

    def _number(self, keys: Columns, rows: int) -> np.ndarray:
        numbers = self._numbers.number(keys, rows).astype(np.int64)
        more = len(self._numbers) - len(self._totals)
        if more:
            self._totals = np.concatenate([self._totals, np.zeros(more, self._dtype)])
            self._ids = np.concatenate([self._ids, np.full(more, -1, np.int64)])
            self._is_touched = np.concatenate([self._is_touched, np.zeros(more, np.bool_)])
            self._lives = np.concatenate([self._lives, np.zeros(more, np.int64)])
            self._sizes = np.concatenate([self._sizes, np.zeros(more, np.int64)])
        return numbers

    def _add_floats(self, touched: np.ndarray) -> None:
        """Sums of floats are made anew of all that is added: rounded once, they don't get less by more."""
        keys, values = [], []
        for added in self._added.values():
            there = self._is_touched[added.keys] & added.counting(self._lives)
            keys.append(added.keys[there])
            values.append(added.values[there])
        sums = ExactSums(len(touched))
        sums.add(np.searchsorted(touched, np.concatenate(keys)), np.concatenate(values))
        self._totals[touched] = sums.results()

    def _check_signs(self, values: np.ndarray) -> None:
        if self._moving and self._dtype is not np.uint64 and not (values >= 0).all():
            wrong = values[~(values >= 0)][0]
            raise EvaluationError(
                f"{wrong} can't be added to the {self._merge.op} of {self.name}: it depends on itself, and "
                "would get less\n  hint: leave out what is negative, by a comparison in the rule"
            )

    def _check_growth(self, ids: np.ndarray, totals: np.ndarray) -> None:
        known = ids >= 0
        if self._moving and known.any():
            before = self._database.dictionary.values(self._type.space, ids[known].astype(np.uint32))
            if not (totals[known] > before).all():
                rules = "".join(f"\n  by the rule: {rule.text}" for rule in self._added if rule is not None)
                raise EvaluationError(
                    f"the {self._merge.op} of {self.name} does not fit 64 bits any more{rules}\n"
                    "  hint: does it grow around a cycle? Then it has no end"
                )
