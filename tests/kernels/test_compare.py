"""Every comparator in every representation, on every backend, between all pairs of some nasty values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    Collect,
    Comparator,
    Compare,
    Driver,
    Pipeline,
    Representation,
    ValueTable,
    write,
)
from tests.kernels.backends import Backend, drain, make_rows, on_every_backend

FIRST = 1 << 24
OPERATORS: dict[Comparator, Callable[[Any, Any], bool]] = {
    Comparator.EQUAL: operator.eq,
    Comparator.NOT_EQUAL: operator.ne,
    Comparator.LESS: operator.lt,
    Comparator.LESS_EQUAL: operator.le,
}
TABLES = {
    Representation.BY_ID: np.zeros(0, np.int64),
    Representation.BY_NUMBER: np.array([-(2**63), -1, FIRST, 2**31, 2**32, 2**63 - 1], np.int64),
    Representation.BY_UNSIGNED: np.array([FIRST, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1], np.uint64),
    Representation.BY_FLOAT: np.array([0.0, -0.0, -1.5, 1e300, np.inf, -np.inf, np.nan]),
}


def values_by_id(representation: Representation) -> dict[int, Any]:
    """What some ids stand for."""
    table = TABLES[representation]
    if representation is Representation.BY_ID:
        return {id: id for id in (0, 1, FIRST - 1, FIRST, FIRST + 1, 2**31, 2**32 - 2)}
    if representation is Representation.BY_FLOAT:
        return {id: float(value) for id, value in enumerate(table)}
    small = {id: id for id in (0, 1, FIRST - 1)}
    return small | {FIRST + n: int(value) for n, value in enumerate(table)}


def passing(backend: Backend, compare: Compare, ids: list[int]) -> list[tuple[int, ...]]:
    driver = make_rows(backend, [(left, right) for left in ids for right in ids], 2)
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (compare,), Collect((0, 1)), 2)
    out = backend.output(2, 1000)
    return sorted(drain(backend.program(pipeline), [(0, driver.count)], out, 2, lambda _: None))


@pytest.mark.parametrize("comparator", list(Comparator))
@pytest.mark.parametrize("representation", list(Representation))
@on_every_backend
def test_all_pairs(backend: Backend, representation: Representation, comparator: Comparator) -> None:
    values = values_by_id(representation)
    table = None if representation is Representation.BY_ID else ValueTable(TABLES[representation])
    holds = OPERATORS[comparator]
    wanted = [(a, b) for a in values for b in values if holds(values[a], values[b])]
    assert passing(backend, Compare(comparator, representation, 0, 1, table), list(values)) == sorted(wanted)


@on_every_backend
def test_a_table_that_grows_in_place_and_moves(backend: Backend) -> None:
    """The same program reads what the table holds when it runs."""
    buffer = np.array([5, 7, 0, 0], np.int64)
    table = ValueTable(buffer[:2])
    compare = Compare(Comparator.LESS, Representation.BY_NUMBER, 0, 1, table)
    assert passing(backend, compare, [FIRST, FIRST + 1]) == [(FIRST, FIRST + 1)]
    buffer[2] = -3
    table.point_to(buffer[:3])
    assert passing(backend, compare, [FIRST, FIRST + 2]) == [(FIRST + 2, FIRST)]
    moved = np.array([5, 7, -3, -4, 10**12], np.int64)
    table.point_to(moved)
    assert passing(backend, compare, [FIRST + 2, FIRST + 3, FIRST + 4]) == [
        (FIRST + 2, FIRST + 4),
        (FIRST + 3, FIRST + 2),
        (FIRST + 3, FIRST + 4),
    ]
