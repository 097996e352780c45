"""Checks of groups and their aggregates, held against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuengine.kernels.contract import CalculationStep, Compute, Operator, Reducer, Representation
from gpuengine.kernels.cuda.selftest import Check, Kit, expect
from gpuengine.kernels.cuda.selftest.calculations import IDENTITY, WordList

_KINDS: dict[Representation, Any] = {
    Representation.BY_NUMBER: np.int64,
    Representation.BY_UNSIGNED: np.uint64,
    Representation.BY_FLOAT: np.float64,
}


def numbers(kit: Kit) -> None:
    """Equal rows have equal numbers, others do not, and each number has one of its rows."""
    calculator = kit.backend.calculator
    assert calculator is not None
    for arity in range(4):
        for size in kit.sizes[1:]:
            columns = [kit.ids(size, 5) * np.uint32(800_000_000) for _ in range(arity)]
            sent = [kit.device.upload(column) for column in columns]
            found, places = (kit.fetch(array) for array in calculator.number_rows(sent, size))
            matrix = np.array(columns, np.uint32).reshape(arity, size)
            distinct = len(np.unique(matrix, axis=1).T) if arity else 1
            expect(len(places), distinct, f"groups of {arity} columns")
            expect(found[places], np.arange(distinct), "the number of a group's row")
            expect(matrix[:, places[found]], matrix, "the row of each row's group")


def _values(kit: Kit, kind: Any, size: int) -> np.ndarray:
    if kind is np.float64:
        values = kit.random.normal(0, 1, size) * 2.0 ** np.linspace(-100, 100, size)
        values[kit.ids(size, 9) == 0] = np.nan
        return values
    return kit.keys(size).view(kind)


def _expected(reducer: Reducer, values: np.ndarray) -> Any:
    if reducer is Reducer.SUM:
        return math.fsum(values) if values.dtype == np.float64 else values.sum()
    if reducer is Reducer.MEAN:
        return math.fsum(values.astype(np.float64)) / len(values)
    return (np.fmin if reducer is Reducer.LEAST else np.fmax).reduce(values)


def reductions(kit: Kit) -> None:
    """Every aggregate of every kind of numbers, of rows that come in two pieces; some groups have none."""
    groups = max(kit.size // 8, 1)
    for representation, kind in _KINDS.items():
        values, group = _values(kit, kind, kit.size), kit.ids(kit.size, groups)
        if kind is np.float64:
            values[group == group[0]] = np.nan
        order = np.argsort(group, kind="stable")
        found, starts = np.unique(group[order], return_index=True)
        parts = dict(zip(found.tolist(), np.split(values[order], starts[1:]), strict=True))
        for reducer in (Reducer.SUM, Reducer.LEAST, Reducer.GREATEST, Reducer.MEAN):
            with np.errstate(all="ignore"):
                wanted = [_expected(reducer, parts[g]) if g in parts else 0 for g in range(groups)]
            _check(kit, reducer, representation, (values, group, groups), wanted)
    counts = np.bincount(group, minlength=groups)
    _check(kit, Reducer.COUNT, Representation.BY_NUMBER, (values, group, groups), counts)


def _check(
    kit: Kit,
    reducer: Reducer,
    representation: Representation,
    rows: tuple[np.ndarray, np.ndarray, int],
    wanted: Any,
) -> None:
    calculator = kit.backend.calculator
    assert calculator is not None
    values, group, groups = rows
    is_float = representation is Representation.BY_FLOAT
    table = WordList(0 if is_float else IDENTITY)
    column, compute = table.intern(values.view(np.uint64)), None
    if reducer is not Reducer.COUNT:
        compute = Compute((CalculationStep(Operator.LOAD, 0, table),))
    reduction = calculator.reduction(reducer, representation, groups)
    middle = len(group) // 3
    for part in (slice(0, middle), slice(middle, len(group))):
        sent = kit.device.upload(group[part]), kit.device.upload(column[part])
        reduction.add(sent[0], compute, {0: sent[1]}, len(group[part]))
    result = WordList(0) if is_float or reducer is Reducer.MEAN else WordList(IDENTITY)
    kind = np.float64 if result.identity == 0 else _KINDS[representation]
    made = result.values(kit.fetch(reduction.ids(result))).view(kind)
    what = f"{reducer.name.lower()} {representation.name.lower().replace('_', ' ')}"
    # NaN is what is passed over unless there is nothing else.
    wanted = np.array(wanted, kind)
    expect(np.isnan(made) if kind is np.float64 else 0, np.isnan(wanted) if kind is np.float64 else 0, what)
    expect(np.nan_to_num(made), np.nan_to_num(wanted), what)
    all_groups = kit.device.upload(np.arange(groups, dtype=np.uint32))
    held = reduction.holds(all_groups)
    if held is not None:
        expect(kit.fetch(held), np.isin(np.arange(groups), group), f"{what}: which groups have one")


CHECKS = tuple(Check(f"groups: {check.__name__}", check) for check in (numbers, reductions))
