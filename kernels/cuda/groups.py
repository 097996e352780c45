"""Groups on a device: equal rows get one number, and a `Reduction` aggregates what belongs to each number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.contract import Reducer, Representation
from gpuengine.kernels.cuda.calculation_kernels import (
    ALL_BITS,
    DIVIDE_FLOAT,
    combine_floats,
    floats_of_numbers,
    floats_of_unsigned,
)
from gpuengine.kernels.cuda.columns import mark_first_of_equal, pack_pairs
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.group_kernels import (
    GREATEST,
    OF_FLOATS,
    OF_NUMBERS,
    OF_UNSIGNED,
    add_exactly,
    add_words,
    at_least_one,
    carry_parts,
    count_rows,
    mark_counted,
    mark_parts,
    move_parts,
    note_places,
    number_keys,
    reduce_least,
    round_sums,
    take_keys,
    words_of_keys,
)
from gpuengine.kernels.exact_sums import PARTS, ROWS_OF_ROOM, Window

_ORDERS = {
    Representation.BY_UNSIGNED: OF_UNSIGNED,
    Representation.BY_NUMBER: OF_NUMBERS,
    Representation.BY_FLOAT: OF_FLOATS,
}


def number_rows(device: Device, columns: Sequence[Array], count: int) -> tuple[Array, Array]:
    """For each row the number of its group, and for each group one of its rows; at least one row.

    Two columns, or the numbers so far and a column, are one key. Waits once for each key.
    """
    if not columns:
        return device.full(count, 0, np.uint32), device.full(1, 0, np.uint32)
    numbers, groups = columns[0], 0
    for column in columns[1:] or columns:
        keys = device.empty(count, np.uint64)
        device.launch(pack_pairs, count, numbers, column, keys)
        ordered = device.sort(keys)
        flags = device.empty(count, np.uint8)
        device.launch(mark_first_of_equal, count, ordered, flags)
        firsts = device.select(flags)
        groups = len(firsts)
        distinct, numbers = device.empty(groups, np.uint64), device.empty(count, np.uint32)
        device.launch(take_keys, groups, ordered, firsts, distinct)
        device.launch(number_keys, count, keys, distinct, groups, numbers)
    places = device.empty(groups, np.uint32)
    device.launch(note_places, count, numbers, places)
    return numbers, places


class ExactSums:
    """The sum of the doubles of each of `groups` groups; see `kernels.exact_sums`."""

    def __init__(self, device: Device, groups: int, *, room: int = ROWS_OF_ROOM) -> None:
        self._device, self._groups, self._room = device, groups, room
        self._window = Window(0, 0)
        self._parts = device.empty(0, np.int64)
        self._flags = device.full(groups, 0, np.uint32)
        self._rows = 0

    def add(self, numbers: Array, words: Array, step: int) -> None:
        """More doubles, and the number of each one's group. Waits once, to know how wide they are spread."""
        device, rows = self._device, len(numbers)
        self._rows += rows
        if self._rows > self._room:
            self._carry()
            self._rows = rows
        marks = device.full(PARTS // 32, 0, np.uint32)
        device.launch(mark_parts, len(words), words, marks)
        touched = np.flatnonzero(np.unpackbits(device.read(marks).view(np.uint8), bitorder="little"))
        if len(touched):
            self._widen(self._window.holding(int(touched[0]), int(touched[-1])))
        low, width = self._window
        device.launch(add_exactly, rows, numbers, words, step, low, width, self._parts, self._flags)

    def _widen(self, window: Window) -> None:
        if window == self._window:
            return
        parts = self._device.full(self._groups * window.width, 0, np.int64)
        if self._window.width:
            shift, before = self._window.low - window.low, self._window.width
            args = self._parts, before, parts, window.width, shift
            self._device.launch(move_parts, len(self._parts), *args)
        self._window, self._parts = window, parts

    def _carry(self) -> None:
        if self._window.width:
            self._device.launch(carry_parts, self._groups, self._parts, self._window.width)

    def words(self) -> Array:
        """The bits of each group's sum; of 0, if it has no values."""
        self._carry()
        low, width = self._window
        words = self._device.empty(self._groups, np.uint64)
        self._device.launch(round_sums, self._groups, self._parts, low, width, self._flags, words)
        return words


class Reduction:
    """The aggregate of each of `groups` groups, of rows that come in pieces."""

    def __init__(self, device: Device, reducer: Reducer, representation: Representation, groups: int) -> None:
        self._device, self._reducer, self._representation = device, reducer, representation
        self._groups = groups
        self._counts = device.full(groups, 0, np.uint64)
        self._floats: ExactSums | None = None
        if reducer is Reducer.MEAN or (reducer is Reducer.SUM and representation is Representation.BY_FLOAT):
            self._floats = ExactSums(device, groups)
        self._order = 0
        if reducer in (Reducer.LEAST, Reducer.GREATEST):
            self._order = _ORDERS[representation] | (GREATEST if reducer is Reducer.GREATEST else 0)
        is_least = reducer in (Reducer.LEAST, Reducer.GREATEST)
        self._results = device.full(groups, ALL_BITS if is_least else 0, np.uint64)

    def add(self, numbers: Array, words: Array | None, step: int) -> None:
        """More rows: the number of each one's group, and its word: one for all, if `step` is 0."""
        device, rows = self._device, len(numbers)
        device.launch(count_rows, rows, numbers, self._counts)
        if words is None:
            return
        if self._floats is not None:
            self._floats.add(numbers, self._as_floats(words), step)
        elif self._reducer is Reducer.SUM:
            device.launch(add_words, rows, numbers, words, step, self._results)
        else:
            device.launch(reduce_least, rows, numbers, words, step, self._order, self._results)

    def _as_floats(self, words: Array) -> Array:
        if self._representation is Representation.BY_FLOAT:
            return words
        is_signed = self._representation is Representation.BY_NUMBER
        values = self._device.empty(len(words), np.uint64)
        conversion = floats_of_numbers if is_signed else floats_of_unsigned
        self._device.launch(conversion, len(words), words, values)
        return values

    def words(self) -> Array:
        """The aggregate's word by group; that of a group without rows says nothing."""
        device, groups = self._device, self._groups
        if self._reducer is Reducer.COUNT:
            return self._counts
        sums = self._results if self._floats is None else self._floats.words()
        if self._reducer is Reducer.SUM:
            return sums
        found = device.empty(groups, np.uint64)
        if self._reducer is Reducer.MEAN:
            divisors, floats = device.empty(groups, np.uint64), device.empty(groups, np.uint64)
            device.launch(at_least_one, groups, self._counts, divisors)
            device.launch(floats_of_unsigned, groups, divisors, floats)
            device.launch(combine_floats, groups, DIVIDE_FLOAT, sums, 1, floats, 1, found)
        else:
            device.launch(words_of_keys, groups, self._counts, self._order, self._results, found)
        return found

    def holds(self, numbers: Array) -> Array | None:
        """For rows, by the numbers of their groups, whether those have an aggregate; None if all have."""
        if self._reducer in (Reducer.COUNT, Reducer.SUM):
            return None
        flags = self._device.empty(len(numbers), np.uint8)
        self._device.launch(mark_counted, len(numbers), numbers, self._counts, flags)
        return flags
