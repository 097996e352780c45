"""Numbers for the keys of rows, and what each key keeps: its best value, or the first row that has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.best import HAS_VALUE, IS_FAR, IS_NEAR, NO_VALUE
from gpuengine.kernels.cpu.jit import kernel
from gpuengine.kernels.cpu.layout import (
    MERGE_BEST,
    MERGE_BEST_IDS,
    MERGE_COUNTS,
    MERGE_FAR,
    MERGE_KEYS,
    MERGE_MARKS,
    MERGE_NEAR,
    MERGE_PLACES,
    MERGE_PLACES_SIZE,
    MERGE_RELEASED,
    MERGE_ROOM,
    MERGE_STATE,
)
from gpuengine.kernels.cpu.locator import ABSENT, RowLocator
from gpuengine.kernels.cpu.rows import Rows

_MOST = np.iinfo(np.int64).max
_LEAST = np.iinfo(np.int64).min
_RELEASED = 1 << 13
"""So many keys are told of at least, if there are as many: fewer do not pay for a round."""
_RELEASED_SHARE = 16
"""Or one of so many."""
_DIRECT_IDS = 1 << 20
_DIRECT_SHARE = 8
"""Numbers are looked up directly by ids below the first, or below so many times the number of rows."""


@kernel("i8(u4*, i8*, u4*, i8, i8*, u4*, u1*, u4*, u4*, i8*, i8)")
def improve(numbers, values, ids, count, best, best_ids, state, near, far, counts, threshold):
    """Give each key the least of its values, and the id of that.

    A key that got a value of at most `threshold` is added to `near`, others to `far`, unless they are there;
    `counts` are their sizes. A key's state is 1 if it has a value, 2 more if it is to be found in `near`, and
    4 more in `far`: one that was far and is near stays there, without that.
    """
    for i in range(count):
        key = np.int64(numbers[i])
        flags = state[key]
        if flags & 1 and values[i] >= best[key]:
            continue
        best[key] = values[i]
        best_ids[key] = ids[i]
        if values[i] <= threshold:
            if not flags & 2:
                near[counts[0]] = numbers[i]
                counts[0] += 1
            state[key] = np.uint8(3)
        else:
            if not flags & 4:
                far[counts[1]] = numbers[i]
                counts[1] += 1
            state[key] = np.uint8(5)
    return count


@kernel("i8(u4*, u4*, i8, i8, u4*, u4*)")
def number_ids(places, ids, count, known, numbers, new):
    """The numbers of ids, by `places` which has a number more for each that is known, and 0 for others.

    Those get the next numbers, from `known` on, and are written to `new`; returns how many are known then.
    """
    before = known
    for i in range(count):
        place = places[ids[i]]
        if place == np.uint32(0):
            new[known - before] = ids[i]
            known += 1
            place = np.uint32(known)
            places[ids[i]] = place
        numbers[i] = place - np.uint32(1)
    return known


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
    """Gives each distinct key, a row of ids, a number: 0, 1, ... for those that came first.

    Keys of one id are looked up directly while the ids are dense, and as rows of content from then on.
    """

    def __init__(self, arity: int) -> None:
        self.rows = Rows(arity, 0)
        self._locator = RowLocator(self.rows)
        self._places = np.zeros(0, np.uint32)
        self._is_direct = arity == 1

    def __len__(self) -> int:
        return self.rows.count

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes) + self._locator.nbytes + self._places.nbytes

    def number(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The numbers of keys, new ones for those that are not known: uint32[count]."""
        if self._is_direct and count and self._can_look_up(int(np.max(columns[0])), count):
            return self._number_directly(np.ascontiguousarray(columns[0], np.uint32), count)
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

    def describe(self, header: np.ndarray, room: int) -> None:
        """Tell the compiled loop where keys are, and how many it may number: there is `room` for so many."""
        header[MERGE_KEYS] = self.rows.address
        header[MERGE_PLACES] = address_of(self._places)
        header[MERGE_PLACES_SIZE] = len(self._places) if self._is_direct else 0
        # One more is written behind the last, to be looked up.
        room = min(room, self.rows.capacity - 1)
        header[MERGE_ROOM] = room if self._is_direct else min(room, self._locator.describe(header))

    def note_numbered(self) -> None:
        """The compiled loop has numbered keys."""
        if not self._is_direct:
            self._locator.count = self.rows.count

    def _can_look_up(self, largest: int, count: int) -> bool:
        if largest >= max(_DIRECT_IDS, _DIRECT_SHARE * (len(self) + count)):
            self._is_direct = False
            self._places = np.zeros(0, np.uint32)
            self._locator.append(0, self.rows.count)
            return False
        if largest >= len(self._places):
            size = max(largest + 1, len(self._places) + (len(self._places) >> 1))
            places = np.zeros(size, np.uint32)
            places[: len(self._places)] = self._places
            self._places = places
        return True

    def _number_directly(self, ids: np.ndarray, count: int) -> np.ndarray:
        numbers, new = np.empty(count, np.uint32), np.empty(count, np.uint32)
        before = self.rows.count
        known = number_ids(self._places, ids, count, before, numbers, new)
        if known > before:
            self.rows.append([new[: known - before]], known - before)
        return numbers


class BestValues:
    """For each key the best value so far; which keys got a better one is told once, by `improved`.

    If it is `holding`, those with the best values are told first, and others later, unless they have got
    better by then. That is for recursions in which a better value never comes of a worse one, as with
    distances: most values are told once then, and what is derived from values that would not last is not
    derived at all. A value that is better than the best one told before shows that the recursion is not of
    this kind; from then on all are told at once. So each time at least one key is told of its last value, or
    everything is told, and there are never many times as many rounds as there would be without.
    """

    def __init__(self, arity: int, *, holding: bool = False) -> None:
        self.keys = KeyNumbers(arity)
        self.ids = np.zeros(0, np.uint32)
        self._best = np.zeros(0, np.int64)
        self._state = np.zeros(0, np.uint8)
        self._near = np.zeros(0, np.uint32)
        self._far = np.zeros(0, np.uint32)
        self._counts = np.zeros(2, np.int64)
        self._marks = np.array([holding, _LEAST if holding else _MOST, _LEAST], np.int64)

    @property
    def is_holding(self) -> bool:
        """Are those with the best values told first?"""
        return bool(self._marks[0])

    @property
    def _threshold(self) -> int:
        return int(self._marks[1])

    def describe(self, header: np.ndarray) -> None:
        """Tell the compiled loop where everything is (`merging`)."""
        for place, array in (
            (MERGE_BEST, self._best),
            (MERGE_BEST_IDS, self.ids),
            (MERGE_STATE, self._state),
            (MERGE_NEAR, self._near),
            (MERGE_FAR, self._far),
            (MERGE_COUNTS, self._counts),
            (MERGE_MARKS, self._marks),
        ):
            header[place] = address_of(array)
        header[MERGE_RELEASED] = _RELEASED
        self.keys.describe(header, len(self.ids))

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.ids.nbytes + self._best.nbytes + 9 * len(self._state)

    @property
    def near(self) -> int:
        """How many keys are to be told next."""
        return int(self._counts[0])

    @property
    def is_told(self) -> bool:
        """Is there no key with a better value than was told?"""
        return not self._counts.any()

    def offer(self, keys: Sequence[np.ndarray], values: np.ndarray, ids: np.ndarray) -> None:
        """More rows: the ids of their keys, values of which less is better, and the ids of these."""
        count = len(ids)
        numbers = self.keys.number(keys, count)
        self._grow()
        improve(
            numbers,
            np.ascontiguousarray(values, np.int64),
            np.ascontiguousarray(ids, np.uint32),
            count,
            self._best,
            self.ids,
            self._state,
            self._near,
            self._far,
            self._counts,
            self._threshold,
        )

    def improved(self) -> np.ndarray:
        """The numbers of keys that got a better value since they were last told; none if all were."""
        if self.is_holding:
            if not self._counts[0]:
                self._release()
            if self._counts[0]:
                lowest = int(self._best[self._near[: self._counts[0]]].min())
                if lowest < self._marks[2]:
                    self.hold_nothing()
                self._marks[2] = lowest
        near = self._near[: self._counts[0]]
        told, left = near, near[:0]
        if self.is_holding:
            values = self._best[near]
            is_told = values <= _threshold_of(values)
            told, left = near[is_told], near[~is_told]
        told = told.astype(np.int64)
        self._state[told] = HAS_VALUE
        self._near[: len(left)] = left
        self._counts[0] = len(left)
        return told

    def hold_nothing(self) -> None:
        """From now on all are told at once."""
        self._marks[:2] = False, _MOST
        self._release()

    def _release(self) -> None:
        """Have the best of those that are far be near; all of them, if nothing is held back."""
        far = self._far[: self._counts[1]]
        far = far[(self._state[far] & (IS_NEAR | IS_FAR)) == IS_FAR]
        values = self._best[far]
        if self.is_holding and len(far):
            self._marks[1] = _threshold_of(values)
        is_near = values <= self._threshold
        chosen, left = far[is_near], far[~is_near]
        start = self._counts[0]
        self._near[start : start + len(chosen)] = chosen
        self._far[: len(left)] = left
        self._state[chosen] = HAS_VALUE | IS_NEAR
        self._counts[:] = start + len(chosen), len(left)

    def _grow(self) -> None:
        needed = len(self.keys)
        if needed > len(self.ids):
            more = max(needed, len(self.ids) + (len(self.ids) >> 1)) - len(self.ids)
            self.ids = np.concatenate([self.ids, np.full(more, NO_VALUE, np.uint32)])
            self._best = np.concatenate([self._best, np.full(more, _MOST, np.int64)])
            self._state = np.concatenate([self._state, np.zeros(more, np.uint8)])
            self._near = np.concatenate([self._near, np.zeros(more, np.uint32)])
            self._far = np.concatenate([self._far, np.zeros(more, np.uint32)])


def _threshold_of(values: np.ndarray) -> int:
    """What the values to tell next are not above."""
    told = max(_RELEASED, len(values) // _RELEASED_SHARE)
    return int(np.partition(values, told)[told] if len(values) > told else values.max(initial=_LEAST))


def _batch(columns: Sequence[np.ndarray], count: int) -> Rows:
    batch = Rows(len(columns), count)
    batch.append(columns, count)
    return batch
