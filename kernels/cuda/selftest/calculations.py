"""Checks of arithmetic on the values of ids, held against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from gpuengine.kernels.contract import CalculationStep, Compute, Operator, Words
from gpuengine.kernels.cuda.selftest import Check, Kit, expect

IDENTITY = 1 << 24
_SHIFT = 63


class WordList:
    """The words of one space, in order of first sight."""

    def __init__(self, identity: int) -> None:
        self.identity = identity
        self.header = np.zeros(0, np.int64)
        self.lock = Lock()
        self.words = np.zeros(0, np.uint64)

    def make_room(self) -> None:
        """There is always room."""

    def intern(self, words: np.ndarray) -> np.ndarray:
        large = words >= np.uint64(self.identity)
        fresh = np.setdiff1d(words[large], self.words)
        self.words = np.concatenate([self.words, fresh])
        order = np.argsort(self.words)
        numbers = order[np.searchsorted(self.words, words[large], sorter=order)]
        ids = words.astype(np.uint32)
        ids[large] = numbers + self.identity
        return ids

    def values(self, ids: np.ndarray) -> np.ndarray:
        """The words of ids."""
        words = ids.astype(np.uint64)
        large = ids >= self.identity
        words[large] = self.words[ids[large] - self.identity]
        return words


Operation = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _truncated(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left - np.fmod(left, right)) // right


def _shift(operation: Any) -> Operation:
    return lambda left, right: operation(left, right & left.dtype.type(_SHIFT))


_INTEGERS: dict[Operator, Operation] = {
    Operator.ADD: np.add,
    Operator.SUBTRACT: np.subtract,
    Operator.MULTIPLY: np.multiply,
    Operator.DIVIDE: _truncated,
    Operator.REMAINDER: np.fmod,
    Operator.BIT_AND: np.bitwise_and,
    Operator.BIT_OR: np.bitwise_or,
    Operator.BIT_XOR: np.bitwise_xor,
    Operator.SHIFT_LEFT: _shift(np.left_shift),
    Operator.SHIFT_RIGHT: _shift(np.right_shift),
    Operator.AND: np.logical_and,
    Operator.OR: np.logical_or,
    Operator.XOR: np.logical_xor,
    Operator.MINIMUM: np.minimum,
    Operator.MAXIMUM: np.maximum,
    Operator.IS_EQUAL: np.equal,
    Operator.IS_NOT_EQUAL: np.not_equal,
    Operator.IS_LESS: np.less,
    Operator.IS_LESS_EQUAL: np.less_equal,
}
_UNSIGNED: dict[Operator, Operation] = {
    Operator.DIVIDE_UNSIGNED: np.floor_divide,
    Operator.REMAINDER_UNSIGNED: np.remainder,
    Operator.SHIFT_RIGHT_UNSIGNED: _shift(np.right_shift),
    Operator.MINIMUM_UNSIGNED: np.minimum,
    Operator.MAXIMUM_UNSIGNED: np.maximum,
    Operator.IS_LESS_UNSIGNED: np.less,
    Operator.IS_LESS_EQUAL_UNSIGNED: np.less_equal,
}
_FLOATS: dict[Operator, Operation] = {
    Operator.ADD_FLOAT: np.add,
    Operator.SUBTRACT_FLOAT: np.subtract,
    Operator.MULTIPLY_FLOAT: np.multiply,
    Operator.DIVIDE_FLOAT: np.divide,
    Operator.MINIMUM_FLOAT: np.minimum,
    Operator.MAXIMUM_FLOAT: np.maximum,
    Operator.IS_EQUAL_FLOAT: np.equal,
    Operator.IS_NOT_EQUAL_FLOAT: np.not_equal,
    Operator.IS_LESS_FLOAT: np.less,
    Operator.IS_LESS_EQUAL_FLOAT: np.less_equal,
}
_OF_ONE: dict[Operator, Callable[[np.ndarray], np.ndarray]] = {
    Operator.NEGATE: np.negative,
    Operator.COMPLEMENT: np.invert,
    Operator.NOT: np.logical_not,
}


def _operands(kit: Kit, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Small and large numbers, with the extreme ones among them; no right one is 0."""
    if dtype is np.float64:
        left = np.round(kit.random.normal(0, 1000, kit.size), 1)
        right = np.where(kit.ids(kit.size, 3) == 0, left, 0.5 + np.abs(left[::-1]))
        left[: min(kit.size, 3)] = np.array([0.0, -0.0, np.inf])[: kit.size]
        return left, right
    left, right = (kit.keys(kit.size).view(dtype) for _ in range(2))
    left[kit.ids(kit.size, 2) == 0] %= dtype(1000)
    right[kit.ids(kit.size, 2) == 0] %= dtype(1000)
    right = right[::-1].copy()
    right[right == 0] = 7
    return left, right


def _computed(kit: Kit, steps: list[CalculationStep], columns: list[np.ndarray], table: Words) -> np.ndarray:
    calculator = kit.backend.calculator
    assert calculator is not None
    sent = {register: kit.device.upload(column) for register, column in enumerate(columns)}
    found = calculator.ids(Compute(tuple(steps), len(columns), table), sent, len(columns[0]))
    return kit.fetch(found)


def _loads(table: Words, count: int) -> list[CalculationStep]:
    return [CalculationStep(Operator.LOAD, register, table) for register in range(count)]


def _check(kit: Kit, operator: Operator, dtype: Any, expected: Operation, table: WordList) -> None:
    left, right = _operands(kit, dtype)
    columns = [table.intern(side.view(np.uint64)) for side in (left, right)]
    steps = [*_loads(table, 2), CalculationStep(operator)]
    with np.errstate(all="ignore"):
        wanted = expected(left, right)
    if operator >= Operator.IS_EQUAL_FLOAT or wanted.dtype == np.bool_:
        table, wanted = WordList(IDENTITY), wanted.astype(np.uint64)
    ids = _computed(kit, steps, columns, table)
    expect(table.values(ids), wanted.view(np.uint64), operator.name.lower().replace("_", " "))


def integers(kit: Kit) -> None:
    """Every operator on words, of which most have ids of their own."""
    for operator, expected in _INTEGERS.items():
        _check(kit, operator, np.int64, expected, WordList(IDENTITY))
    for operator, expected in _UNSIGNED.items():
        _check(kit, operator, np.uint64, expected, WordList(IDENTITY))
    for operator, of_one in _OF_ONE.items():
        _check_one(kit, operator, of_one, WordList(IDENTITY))


def _check_one(
    kit: Kit, operator: Operator, expected: Callable[[np.ndarray], np.ndarray], table: WordList
) -> None:
    values, _ = _operands(kit, np.int64)
    ids = _computed(
        kit, [*_loads(table, 1), CalculationStep(operator)], [table.intern(values.view(np.uint64))], table
    )
    wanted = expected(values).astype(np.int64).view(np.uint64)
    expect(table.values(ids), wanted, operator.name.lower())


def floats(kit: Kit) -> None:
    for operator, expected in _FLOATS.items():
        _check(kit, operator, np.float64, expected, WordList(0))
    table = WordList(0)
    numbers = WordList(IDENTITY)
    for dtype, convert in ((np.int64, Operator.FLOAT_OF_NUMBER), (np.uint64, Operator.FLOAT_OF_UNSIGNED)):
        values, _ = _operands(kit, dtype)
        steps = [*_loads(numbers, 1), CalculationStep(convert), CalculationStep(Operator.NEGATE_FLOAT)]
        ids = _computed(kit, steps, [numbers.intern(values.view(np.uint64))], table)
        expect(table.values(ids), (-values.astype(np.float64)).view(np.uint64), convert.name.lower())


def comparisons(kit: Kit) -> None:
    """Masks; and a division by zero, which gives none."""
    calculator, table = kit.backend.calculator, WordList(IDENTITY)
    assert calculator is not None
    for size in kit.sizes:
        ids = kit.ids(size, 100)
        steps = (
            *_loads(table, 1),
            CalculationStep(Operator.CONSTANT, 50),
            CalculationStep(Operator.IS_LESS),
        )
        if size:
            sent = {0: kit.device.upload(ids)}
            expect(kit.fetch(calculator.mask(Compute(steps), sent, size)), ids < 50, "less than a constant")
    steps = (*_loads(table, 2), CalculationStep(Operator.DIVIDE))
    zeros = {register: kit.device.full(40, 0, np.uint32) for register in range(2)}
    expect(calculator.mask(Compute(steps), zeros, 40) is None, True, "division by zero")
    expect(calculator.ids(Compute(steps, 2, table), zeros, 40) is None, True, "division by zero")


CHECKS = tuple(Check(f"calculation: {check.__name__}", check) for check in (integers, floats, comparisons))
