"""The table scheme: a predicate's facts as rows of ids, with a set and indexes made when first needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gpuengine.kernels.cpu import keyset as keyset_kernels
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import KeySet

Bounds = list[tuple[int, int]]
_SAMPLE = 1 << 16


class Table:
    """The facts of one predicate.

    Life-cycle: facts arrive in bulk (`insert`) or are derived by pipelines into `rows` through
    `keyset`; the rows' `advance` makes what arrived the delta, each index's `ensure` takes it in, and
    `settle` makes everything old. Invariants: rows are distinct; every id lies within `bounds`; the set, once
    made, holds exactly the rows; an index that `index` returned holds all rows up to the delta's end
    until `epoch` changes, which says that indexes have been dropped.
    """

    __slots__ = ("_distinct", "_indexes", "_keyset", "arity", "bounds", "epoch", "name", "rows")

    def __init__(self, name: str, arity: int) -> None:
        self.name = name
        self.arity = arity
        self.rows = Rows(arity)
        self.bounds: Bounds = [(0, 0)] * arity
        self.epoch = 0
        self._keyset: KeySet | None = None
        self._indexes: dict[tuple[int, ...], RowIndex] = {}
        self._distinct: dict[int, tuple[int, float]] = {}

    def __len__(self) -> int:
        return self.rows.count

    @property
    def nbytes(self) -> int:
        total = self.rows.nbytes + sum(index.nbytes for index in self._indexes.values())
        return total + (self._keyset.nbytes if self._keyset else 0)

    @property
    def indexes(self) -> tuple[RowIndex, ...]:
        return tuple(self._indexes.values())

    @property
    def keyset(self) -> KeySet:
        """The set of the rows; made on first use."""
        if self._keyset is None:
            self._keyset = KeySet(self.arity, self.bounds, self.rows.count)
            self._keyset.insert(self.rows, 0, self.rows.count)
        return self._keyset

    def insert(self, columns: Sequence[np.ndarray], count: int) -> int:
        """Add facts (columns of uint32 ids, possibly with duplicates) beyond the delta; how many were new."""
        if not count:
            return 0
        self.widen([(int(column.min()), int(column.max()) + 1) for column in columns])
        if self._keyset is None and self.rows.count == 0:
            columns, count = distinct_rows(columns, count)
            self.rows.append(columns, count)
            return count
        batch = Rows(self.arity, count)
        batch.append(columns, count)
        keyset = self.keyset
        self.reserve(count)
        new = keyset.insert(batch, 0, count)
        fresh = int(np.count_nonzero(new))
        if fresh == count:
            self.rows.append(columns, count)
        elif fresh:
            self.rows.append([column[new] for column in columns], fresh)
        return fresh

    def contains(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """Which of the given rows are facts."""
        batch = Rows(self.arity, count)
        batch.append(columns, count)
        return self.keyset.contains(batch, 0, count)

    def widen(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Admit ids within `bounds`; the set and direct-addressed indexes may be made anew."""
        merged = [_cover(old, new) for old, new in zip(self.bounds, bounds, strict=True)]
        if merged != self.bounds:
            self.bounds = merged
            self.forget_indexes()
            if self._keyset is not None:
                self._keyset.widen(merged, self.rows)

    def reserve(self, extra: int) -> None:
        """Make room for `extra` more derived rows in the rows, and in the set if there is one."""
        self.rows.grow(extra)
        if self._keyset is not None:
            self._keyset.reserve(self.rows.count + extra, self.rows)
            self.rows.limit(self._keyset.capacity)

    def index(self, keys: tuple[int, ...], *, growing: bool) -> RowIndex:
        """The index by `keys`, holding all rows up to the delta's end; `growing` if more will come."""
        index = self._indexes.get(keys)
        if index is None or not index.ensure():
            index = RowIndex(self.rows, keys, self.bounds)
            index.build(exact=not growing)
            self._indexes[keys] = index
        return index

    def drop_stale_indexes(self) -> None:
        """Forget indexes that could not be brought up to the delta's end."""
        for keys, index in list(self._indexes.items()):
            if index.indexed != self.rows.delta[1]:
                del self._indexes[keys]
                self.epoch += 1

    def settle(self) -> None:
        """Everything becomes old."""
        self.rows.settle()

    def keep_indexes(self, used: Collection[RowIndex]) -> None:
        """Free the indexes that no current plan probes; those in `used` stay as they are."""
        self._indexes = {keys: index for keys, index in self._indexes.items() if index in used}

    def forget_indexes(self) -> None:
        """Free the indexes; they come back when they are needed."""
        self._indexes.clear()
        self.epoch += 1

    def distinct(self, column: int) -> float:
        """About how many distinct ids a column has; exact up to 65,536 rows, from a sample beyond."""
        cached = self._distinct.get(column)
        count = self.rows.count
        if cached is not None and cached[0] <= count <= 2 * cached[0]:
            return cached[1]
        value = _estimate_distinct(self.rows.column(column)) if count else 0.0
        self._distinct[column] = (count, value)
        return value


def _cover(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """Bounds that hold both; (0, 0) is no id at all."""
    if old == (0, 0) or new == (0, 0):
        return new if old == (0, 0) else old
    return min(old[0], new[0]), max(old[1], new[1])


def distinct_rows(columns: Sequence[np.ndarray], count: int) -> tuple[list[np.ndarray], int]:
    """Sort rows lexicographically and drop duplicates."""
    if not columns:
        return [], min(count, 1)
    if len(columns) == 1:
        ordered_ids = np.sort(columns[0])
        unique = ordered_ids[np.concatenate(([True], ordered_ids[1:] != ordered_ids[:-1]))]
        return [unique], len(unique)
    if len(columns) == 2:
        packed = columns[0].astype(np.uint64) << np.uint64(32)
        packed |= columns[1]
        if not _strictly_increasing(packed):
            packed.sort()
            packed = packed[np.concatenate(([True], packed[1:] != packed[:-1]))]
        return [(packed >> np.uint64(32)).astype(np.uint32), packed.astype(np.uint32)], len(packed)
    order = np.lexsort(tuple(reversed(columns)))
    ordered = [column[order] for column in columns]
    keep = np.zeros(count, np.bool_)
    keep[0] = True
    for column in ordered:
        keep[1:] |= column[1:] != column[:-1]
    kept = [column[keep] for column in ordered]
    return kept, len(kept[0])


def _strictly_increasing(keys: np.ndarray) -> bool:
    return bool(np.all(keys[1:] > keys[:-1]))


def _estimate_distinct(column: np.ndarray) -> float:
    """Distinct ids of a sample; if most of it is distinct, scaled up to the whole column."""
    count = len(column)
    sample = column if count <= _SAMPLE else column[:: count // _SAMPLE]
    low = int(sample.min())
    extent = int(sample.max()) - low + 1
    if extent <= 64 * len(sample) + 4096:
        bits = np.zeros(extent // 64 + 1, np.uint64)
        seen = keyset_kernels.count_distinct(np.ascontiguousarray(sample), len(sample), low, bits)
    else:
        ordered = np.sort(sample)
        seen = int(np.count_nonzero(ordered[1:] != ordered[:-1])) + 1
    if len(sample) == count or seen < len(sample) // 4:
        return float(seen)
    return float(min(count, seen * (count / len(sample)) ** 0.75))
