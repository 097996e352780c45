"""Numbers for the keys of rows, and what each key keeps: its best value, or the first row that has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.jit import kernel
from gpuengine.kernels.cpu.locator import ABSENT, RowLocator
from gpuengine.kernels.cpu.rows import Rows

_HAS_VALUE = 1


@kernel("i8(u4*, i8*, u4*, i8, i8*, u4*, u1*, u4*, i8)")
def improve(numbers, values, ids, count, best, best_ids, state, touched, already):
    """Give each key the least of its values, and the id of that; keys that got one are added to `touched`.

    `already` keys are there; returns how many are then. A key's state is 1 if it has a value, and 2 more
    if it is among those.
    """
    for i in range(count):
        key = np.int64(numbers[i])
        flags = state[key]
        if flags & 1 and values[i] >= best[key]:
            continue
        best[key] = values[i]
        best_ids[key] = ids[i]
        if not flags & 2:
            touched[already] = numbers[i]
            already += 1
        state[key] = np.uint8(3)
    return already


@kernel("i8(u4*, i8, i8, u1*, u1*)")
def choose(numbers, keys, count, taken, chosen):
    """Take rows one after the other, unless one of their keys is taken; a row has `keys` of them.

    `numbers` has all numbers of the first key, then those of the second, and so on.
    """
    total = 0
    for row in range(count):
        free = True
        for k in range(keys):
            if taken[np.int64(numbers[k * count + row])]:
                free = False
                break
        if free:
            for k in range(keys):
                taken[np.int64(numbers[k * count + row])] = np.uint8(1)
            chosen[row] = np.uint8(1)
            total += 1
    return total


class KeyNumbers:
    """Gives each distinct key, a row of ids, a number: 0, 1, ... in order of first sight."""

    def __init__(self, arity: int) -> None:
        self.rows = Rows(arity, 0)
        self._locator = RowLocator(self.rows)

    def __len__(self) -> int:
        return self.rows.count

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + self._locator.nbytes

    def number(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The numbers of keys, new ones for those that are not known: uint32[count]."""
        batch = _batch(columns, count)
        numbers = self._locator.locate(batch, 0, count)
        unknown = np.flatnonzero(numbers == ABSENT)
        if len(unknown):
            new = [column[unknown] for column in columns]
            distinct, number = CPU.distinct_rows(new, len(unknown))
            before = self.rows.count
            self.rows.append(distinct, number)
            self._locator.append(before, self.rows.count)
            numbers[unknown] = self._locator.locate(_batch(new, len(unknown)), 0, len(unknown))
        return numbers


class BestValues:
    """For each key the best value so far; which keys got a better one is told once, by `improved`."""

    def __init__(self, arity: int) -> None:
        self.keys = KeyNumbers(arity)
        self.ids = np.zeros(0, np.uint32)
        self._best = np.zeros(0, np.int64)
        self._state = np.zeros(0, np.uint8)
        self._touched = np.zeros(0, np.uint32)
        self._count = 0

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self._best.nbytes + 5 * len(self._state)

    def offer(self, keys: Sequence[np.ndarray], values: np.ndarray, ids: np.ndarray) -> None:
        """More rows: the ids of their keys, values of which less is better, and the ids of these."""
        count = len(ids)
        numbers = self.keys.number(keys, count)
        self._grow()
        values = np.ascontiguousarray(values, np.int64)
        self._count = improve(
            numbers,
            values,
            np.ascontiguousarray(ids, np.uint32),
            count,
            self._best,
            self.ids,
            self._state,
            self._touched,
            self._count,
        )

    def improved(self) -> np.ndarray:
        """The numbers of the keys that got a better value since this was last asked."""
        found = self._touched[: self._count].astype(np.int64)
        self._state[found] = _HAS_VALUE
        self._count = 0
        return found

    def _grow(self) -> None:
        needed = len(self.keys)
        if needed > len(self.ids):
            more = max(needed, len(self.ids) + (len(self.ids) >> 1)) - len(self.ids)
            self.ids = np.concatenate([self.ids, np.zeros(more, np.uint32)])
            self._best = np.concatenate([self._best, np.zeros(more, np.int64)])
            self._state = np.concatenate([self._state, np.zeros(more, np.uint8)])
            self._touched = np.concatenate([self._touched, np.zeros(more, np.uint32)])


def _batch(columns: Sequence[np.ndarray], count: int) -> Rows:
    batch = Rows(len(columns), count)
    batch.append(columns, count)
    return batch
