"""`Calculator` on a device: a kernel for each step on columns of words, then one that finds their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpuengine.kernels.contract import (
    CalculationStep,
    Compute,
    DeviceMemoryError,
    Operator,
    Reducer,
    Representation,
    Words,
)
from gpuengine.kernels.cuda.calculation_kernels import (
    ALL_BITS,
    SIGN,
    combine_floats,
    combine_words,
    floats_of_numbers,
    floats_of_unsigned,
    load_words,
    mark_true,
    relate_floats,
)
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.groups import Reduction as WordReduction
from gpuengine.kernels.cuda.groups import number_rows
from gpuengine.kernels.cuda.spec import DeviceKernel
from gpuengine.kernels.cuda.words import WordMirror

_OF_ONE = {
    Operator.NEGATE: (0, Operator.SUBTRACT),
    Operator.COMPLEMENT: (ALL_BITS, Operator.BIT_XOR),
    Operator.NOT: (0, Operator.IS_EQUAL),
    Operator.NEGATE_FLOAT: (SIGN, Operator.BIT_XOR),
}
"""Operators of one operand as those of two, with the constant on the left."""
_CONVERSIONS: dict[Operator, DeviceKernel] = {
    Operator.FLOAT_OF_NUMBER: floats_of_numbers,
    Operator.FLOAT_OF_UNSIGNED: floats_of_unsigned,
}


@dataclass(frozen=True)
class _Operand:
    """Words by binding, or, with a step of 0, one for all."""

    words: Array
    step: int


class Calculator:
    """See `contract.Calculator`. Dictionaries are mirrored as long as they live."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._mirrors: WeakKeyDictionary[Words, WordMirror] = WeakKeyDictionary()
        self._constants: dict[int, Array] = {}

    def ids(self, compute: Compute, columns: Mapping[int, Array], count: int) -> Array | None:
        """Waits once, and three times more if values are new to the dictionary."""
        table, device = compute.words, self.device
        assert table is not None
        flags = device.full(2, 0, np.uint32)
        value = self._value(compute, columns, count, flags)
        if not value.step:
            one = self._ids(table, value.words, flags)
            return None if one is None else device.full(count, int(device.read(one)[0]), np.uint32)
        return self._ids(table, value.words, flags)

    def mask(self, compute: Compute, columns: Mapping[int, Array], count: int) -> Array | None:
        """Waits once if there is a division."""
        device = self.device
        flags = device.full(2, 0, np.uint32)
        value = self._value(compute, columns, count, flags)
        if any(_divides(step) for step in compute.steps) and device.read(flags)[0]:
            return None
        found = device.empty(count, np.uint8)
        device.launch(mark_true, count, value.words, value.step, found)
        return found

    def number_rows(self, columns: Sequence[Array], count: int) -> tuple[Array, Array]:
        return number_rows(self.device, columns, count)

    def reduction(self, reducer: Reducer, representation: Representation, groups: int) -> Reduction:
        return Reduction(self, reducer, representation, groups)

    def add_to(
        self, sums: WordReduction, numbers: Array, compute: Compute, columns: Mapping[int, Array], count: int
    ) -> bool:
        """Add what is computed for rows to a reduction, unless it can't be computed."""
        flags = self.device.full(2, 0, np.uint32)
        value = self._value(compute, columns, count, flags)
        if any(_divides(step) for step in compute.steps) and self.device.read(flags)[0]:
            return False
        sums.add(numbers, value.words, value.step)
        return True

    def find_ids(self, table: Words, words: Array) -> Array:
        """The ids of words, new ones added to the dictionary."""
        found = self._ids(table, words, self.device.full(2, 0, np.uint32))
        assert found is not None
        return found

    def _ids(self, table: Words, words: Array, flags: Array) -> Array | None:
        try:
            return self._mirror(table).ids(table, words, flags)
        except DeviceMemoryError:
            del self._mirrors[table]  # it may hold candidates of what was not finished
            raise

    def _mirror(self, table: Words) -> WordMirror:
        mirror = self._mirrors.get(table)
        if mirror is None:
            mirror = self._mirrors[table] = WordMirror(self.device)
        return mirror

    def _value(self, compute: Compute, columns: Mapping[int, Array], count: int, failed: Array) -> _Operand:
        stack: list[_Operand] = []
        for step in compute.steps:
            if step.operator is Operator.LOAD:
                assert step.words is not None
                stack.append(_Operand(self._load(step.words, columns[step.argument]), 1))
            elif step.operator is Operator.CONSTANT:
                stack.append(self._constant(step.argument))
            elif step.operator in _CONVERSIONS:
                stack.append(self._converted(step.operator, stack.pop()))
            elif step.operator in _OF_ONE:
                constant, operator = _OF_ONE[step.operator]
                stack.append(self._combined(operator, self._constant(constant), stack.pop(), count, failed))
            else:
                right, left = stack.pop(), stack.pop()
                stack.append(self._combined(step.operator, left, right, count, failed))
        (value,) = stack
        return value

    def _load(self, table: Words, ids: Array) -> Array:
        known = self._mirror(table).follow(table)
        words = self.device.empty(len(ids), np.uint64)
        self.device.launch(load_words, len(ids), ids, table.identity, known, words)
        return words

    def _constant(self, value: int) -> _Operand:
        word = value % (1 << 64)
        if word not in self._constants:
            self._constants[word] = self.device.full(1, word, np.uint64)
        return _Operand(self._constants[word], 0)

    def _converted(self, operator: Operator, operand: _Operand) -> _Operand:
        out = self.device.empty(len(operand.words), np.uint64)
        self.device.launch(_CONVERSIONS[operator], len(out), operand.words, out)
        return _Operand(out, operand.step)

    def _combined(
        self,
        operator: Operator,
        left: _Operand,
        right: _Operand,
        count: int,
        failed: Array,
    ) -> _Operand:
        step = left.step | right.step
        items = count if step else 1
        out = self.device.empty(items, np.uint64)
        args = int(operator), left.words, left.step, right.words, right.step, out
        if operator < Operator.ADD_FLOAT:
            self.device.launch(combine_words, items, *args, failed)
        else:
            kernel = relate_floats if operator >= Operator.IS_EQUAL_FLOAT else combine_floats
            self.device.launch(kernel, items, *args)
        return _Operand(out, step)


class Reduction:
    """See `contract.Reduction`."""

    def __init__(
        self, calculator: Calculator, reducer: Reducer, representation: Representation, groups: int
    ) -> None:
        self._calculator = calculator
        self._words = WordReduction(calculator.device, reducer, representation, groups)

    def add(self, numbers: Array, compute: Compute | None, columns: Mapping[int, Array], count: int) -> bool:
        if compute is None:
            self._words.add(numbers, None, 0)
            return True
        return self._calculator.add_to(self._words, numbers, compute, columns, count)

    def ids(self, words: Words) -> Array:
        return self._calculator.find_ids(words, self._words.words())

    def holds(self, numbers: Array) -> Array | None:
        return self._words.holds(numbers)


def _divides(step: CalculationStep) -> bool:
    return Operator.DIVIDE <= step.operator <= Operator.REMAINDER_UNSIGNED
