"""Aggregates over groups of rows.

``count`` and ``sum`` wrap around 2**64; ``min`` and ``max`` order numbers by value, symbols by bytes, and
pass over NaN unless there is nothing else; ``mean`` is the sum as floats divided by the count, whatever is
averaged. The order of rows makes no difference: an update computes again what was, and must find it. So a sum
of floats is exact, and rounded once.
"""

from __future__ import annotations

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.kernels.contract import Operator
from gpuengine.kernels.cpu.exact_sums import ExactSums
from gpuengine.kernels.cpu.reductions import add_integers, choose_values, count_rows
from gpuengine.language.extensions import aggregate
from gpuengine.language.program import FLOAT, Aggregate, Functor, Kind, Type, Variable
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.functors import evaluate_partly
from gpuengine.terms.ranks import ranks

_CHOICES = {
    ("min", Kind.NUMBER): Operator.MINIMUM,
    ("min", Kind.UNSIGNED): Operator.MINIMUM_UNSIGNED,
    ("min", Kind.FLOAT): Operator.MINIMUM_FLOAT,
    ("max", Kind.NUMBER): Operator.MAXIMUM,
    ("max", Kind.UNSIGNED): Operator.MAXIMUM_UNSIGNED,
    ("max", Kind.FLOAT): Operator.MAXIMUM_FLOAT,
}
_DTYPES = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}


class PythonReduction:
    """As `Reduction`, by a function of `gpuengine.language.extensions`, which is given all rows at once.

    They come in the order of their values, so that a function that minds the order gives the same each time.
    """

    def __init__(self, op: str, type: Type, groups: int, dictionary: Dictionary) -> None:
        function = aggregate(op)
        if function is None:
            raise EvaluationError(f"there is no aggregate {op} in this process")
        self._function, self._type, self._groups, self._dictionary = function, type, groups, dictionary
        self._group: list[np.ndarray] = []
        self._target: list[np.ndarray] = []

    def add(self, group: np.ndarray, target: np.ndarray | None) -> None:
        """More rows: the group of each, and the ids of its target."""
        assert target is not None
        self._group.append(group.astype(np.int64))
        self._target.append(target)

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """The groups that have a value, and its id."""
        group = np.concatenate([np.zeros(0, np.int64), *self._group])
        ids = np.concatenate([np.zeros(0, np.uint32), *self._target])
        order = np.argsort(ranks(ids, self._type, self._dictionary), kind="stable")
        values = self._function(self._dictionary.strings(ids[order]), group[order], self._groups)
        found = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        return found, self._dictionary.encode(self._type.space, values.drop_null())


class Fold:
    """As `Reduction`, by a function of the user that takes what there is so far, and one value more.

    A group's values come in their order, so that what a function gives that minds the order is the same
    each time. The function is called for all groups at once, with the first value of each, the second, ..
    """

    def __init__(self, literal: Aggregate, groups: int, dictionary: Dictionary) -> None:
        assert literal.initial is not None and literal.target is not None
        self._functor = Functor(
            literal.op[1:],
            (Variable("so far", literal.initial.type), Variable("value", literal.target.type)),
            literal.result.type,
            literal.span,
        )
        self._first = dictionary.intern_constant(literal.initial)
        self._type, self._groups, self._dictionary = literal.target.type, groups, dictionary
        self._group: list[np.ndarray] = []
        self._target: list[np.ndarray] = []

    def add(self, group: np.ndarray, target: np.ndarray | None) -> None:
        """More rows: the group of each, and the ids of its target."""
        assert target is not None
        self._group.append(group.astype(np.int64))
        self._target.append(target)

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """The groups that have a value, and its id; those without rows have the initial one."""
        group = np.concatenate([np.zeros(0, np.int64), *self._group])
        ids = np.concatenate([np.zeros(0, np.uint32), *self._target])
        order = np.lexsort((ranks(ids, self._type, self._dictionary), group))
        group, ids = group[order], ids[order]
        so_far = np.full(self._groups, self._first, np.uint32)
        holds = np.ones(self._groups, np.bool_)
        counts = np.bincount(group, minlength=self._groups)
        starts = np.cumsum(counts) - counts
        place, left = 0, np.flatnonzero(counts)
        while len(left):
            arguments = (so_far[left], ids[starts[left] + place])
            bindings = dict(zip(self._functor.args, arguments, strict=True))
            found, values = evaluate_partly(self._functor, bindings, len(left), self._dictionary)  # type: ignore[arg-type]
            holds[left] = False
            holds[left[found]] = True
            so_far[left[found]] = values
            place += 1
            left = left[found]
            left = left[counts[left] > place]
        there = np.flatnonzero(holds)
        return there, so_far[there]


class Reduction:
    """The aggregate of each of `groups` groups, of rows that come in pieces and are not kept.

    `type` is the target's type, for ``count`` the result's. ``mean`` gives ids of float, everything else ids
    of `type`.
    """

    def __init__(self, op: str, type: Type, groups: int, dictionary: Dictionary) -> None:
        self._op, self._type, self._dictionary = op, type, dictionary
        self._counts = np.zeros(groups, np.int64)
        self._floats: ExactSums | None = None
        if op == "mean" or (op == "sum" and type.kind is Kind.FLOAT):
            self._floats = ExactSums(groups)
            self._counts = self._floats.counts
        self._is_text = op != "count" and type.kind in (Kind.SYMBOL, Kind.RECORD, Kind.ADT)
        if self._is_text:
            self._results = np.zeros(groups, np.uint32)
        else:
            self._results = np.zeros(groups, _DTYPES.get(type.kind, np.int64))

    def add(self, group: np.ndarray, target: np.ndarray | None) -> None:
        """More rows: the group of each, and the values of its target (ids of symbols), if it has one."""
        if not len(group):
            return
        group = np.ascontiguousarray(group, np.uint32)
        if self._is_text:
            assert target is not None
            self._add_text(group, target)
        elif self._floats is not None:
            assert target is not None
            self._floats.add(group, target)
        elif target is None or self._op == "count":
            count_rows(group, len(group), self._counts)
        else:
            self._add_values(group, np.ascontiguousarray(target, self._results.dtype))

    def _add_values(self, group: np.ndarray, values: np.ndarray) -> None:
        if self._op in ("min", "max"):
            operator = _CHOICES[self._op, self._type.kind]
            choose_values(group, values, len(group), operator, self._results, self._counts)
        else:
            add_integers(group, values, len(group), self._results, self._counts)

    def _add_text(self, group: np.ndarray, target: np.ndarray) -> None:
        # What is known of a group takes part as one more row of it.
        known = np.flatnonzero(self._counts)
        touched = known[np.isin(known, group)]
        group, target = np.concatenate([touched, group]), np.concatenate([self._results[touched], target])
        order = np.argsort(group, kind="stable")
        group, target = group[order], target[order]
        starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        found = group[starts].astype(np.int64)
        self._results[found] = _extreme_symbols(self._op, target, starts, self._dictionary)
        self._counts[found] += np.diff(starts, append=len(group))

    def results(self) -> tuple[np.ndarray, np.ndarray]:
        """The groups that have rows, and the id of the aggregate of each."""
        found = np.flatnonzero(self._counts)
        results = (self._results if self._floats is None else self._floats.results())[found]
        if self._is_text:
            return found, results
        if self._op == "count":
            return found, self._dictionary.encode(self._type.space, self._counts[found])
        if self._op == "mean":
            with np.errstate(all="ignore"):
                return found, self._dictionary.encode_words(FLOAT.space, results / self._counts[found])
        return found, self._dictionary.encode_words(self._type.space, results)


def identity(op: str, type: Type, dictionary: Dictionary) -> int | None:
    """The id of the aggregate of nothing: 0 of the result's type for ``count`` and ``sum``, else None."""
    if op not in ("count", "sum"):
        return None
    dtype = np.float64 if type.kind is Kind.FLOAT else np.int64
    return int(dictionary.encode(type.space, np.zeros(1, dtype))[0])


def _extreme_symbols(op: str, ids: np.ndarray, starts: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """``min`` or ``max`` by bytes: the distinct symbols are ranked once, then ranks are compared."""
    import pyarrow.compute as pc

    distinct, which = np.unique(ids, return_inverse=True)
    order = pc.sort_indices(dictionary.strings(distinct)).to_numpy().astype(np.int64)
    ranks = np.empty(len(distinct), np.int64)
    ranks[order] = np.arange(len(distinct))
    extreme = (np.minimum if op == "min" else np.maximum).reduceat(ranks[which], starts)
    return distinct[order[extreme]]
