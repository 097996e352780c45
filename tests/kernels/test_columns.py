"""Operations on columns that a backend offers beside rows, sets and programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.kernels.backends import (
    CPU,
    EMULATED,
    ID_END,
    Backend,
    Row,
    bounds_of,
    columns_of,
    given_on,
    make_rows,
    on,
    on_every_backend,
    read_rows,
)

IDS = st.sampled_from([0, 1, 2, 3, 2**24, 2**31, ID_END - 1])
ROWS = st.integers(1, 5).flatmap(lambda arity: st.lists(st.tuples(*[IDS] * arity), min_size=1, max_size=70))


def on_backend(backend: Backend, rows: list[Row]) -> list[Any]:
    return [backend.kernels.column(column) for column in columns_of(rows, len(rows[0]))]


def as_rows(backend: Backend, columns: list[Any], count: int) -> list[Row]:
    """Columns of the backend as Python values."""
    rows = backend.rows(len(columns))
    rows.append(columns, count)
    return read_rows(rows, len(columns))


@given_on(ROWS)
def test_columns_come_back_as_they_went(backend: Backend, rows: list[Row]) -> None:
    columns = on_backend(backend, rows)
    assert as_rows(backend, columns, len(rows)) == rows
    again = [backend.kernels.column(column) for column in columns]
    assert as_rows(backend, again, len(rows)) == rows


@given_on(ROWS)
def test_bounds(backend: Backend, rows: list[Row]) -> None:
    found = backend.kernels.bounds(on_backend(backend, rows), len(rows))
    assert found == bounds_of(rows, len(rows[0]))
    assert all(type(id) is int for pair in found for id in pair)


@given_on(ROWS)
def test_distinct_rows(backend: Backend, rows: list[Row]) -> None:
    columns, count = backend.kernels.distinct_rows(on_backend(backend, rows), len(rows))
    assert sorted(as_rows(backend, columns, count)) == sorted(set(rows))


@on_every_backend
def test_distinct_rows_without_columns(backend: Backend) -> None:
    assert backend.kernels.distinct_rows([], 5) == ([], 1)


@given_on(ROWS, st.data())
def test_select_by_the_mask_of_a_set(backend: Backend, rows: list[Row], data: st.DataObject) -> None:
    arity = len(rows[0])
    kept = data.draw(st.lists(st.sampled_from(rows), max_size=10))
    keyset = backend.keyset(arity, [(0, ID_END)] * arity, len(kept) + 1)
    keyset.insert(make_rows(backend, kept, arity), 0, len(kept))
    mask = keyset.contains(make_rows(backend, rows, arity), 0, len(rows))
    columns, count = backend.kernels.select(on_backend(backend, rows), mask)
    wanted = [row for row in rows if row in kept]
    assert count == len(wanted) and as_rows(backend, columns, count) == wanted
    assert backend.kernels.select([], mask) == ([], len(wanted))


@pytest.mark.parametrize("count", [1, 2, 33, 300])
@on_every_backend
def test_distinct_ids_of_a_column_are_counted_if_they_are_few(backend: Backend, count: int) -> None:
    rows = make_rows(backend, [(i % 7, i * 9_999_991 % ID_END, 5) for i in range(count)], 3)
    found = [backend.kernels.estimate_distinct(rows, column) for column in range(3)]
    assert found == [min(count, 7), count, 1]


LONG = {
    "one": lambda count: np.zeros(count),
    "few": lambda count: np.random.default_rng(1).integers(0, 1000, count),
    "many": lambda count: np.random.default_rng(2).integers(0, count // 5, count),
    "nearly all": lambda count: np.random.default_rng(3).integers(0, 2**32 - 1, count),
    "sorted, sixteen of each": lambda count: np.arange(count) // 16,
    "sorted, a thousand of each": lambda count: np.arange(count) // 1000,
}


@pytest.mark.parametrize("shape", LONG)
@on(CPU, EMULATED)
def test_distinct_ids_of_a_long_column_are_estimated(backend: Backend, shape: str) -> None:
    """From a sample of the whole column: within a factor of six."""
    count = 8_000_000 if shape.startswith("sorted") else 1_500_000
    ids = LONG[shape](count).astype(np.uint32)
    rows = backend.rows(1, count)
    rows.append([ids], count)
    real = len(np.unique(ids))
    assert real / 6 <= backend.kernels.estimate_distinct(rows, 0) <= 6 * real
