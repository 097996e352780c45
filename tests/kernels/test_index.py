"""RowIndex: whatever its keys and its history, a probe finds the rows of its domain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import Collect, Domain, Driver, IndexProbe, Pipeline, Probe, check, write
from gpuengine.kernels.cpu.layout import INDEX_HASHED
from tests.kernels.backends import (
    BACKENDS,
    CPU,
    CUDA,
    ID_END,
    SIMULATED,
    Backend,
    Row,
    columns_of,
    distinct_keys,
    drain,
    make_rows,
    on,
    on_every_backend,
)

SPREAD = 2_654_435_761  # odd, so ids times this (mod 2**32) are distinct and far apart


def ids(numbers: np.ndarray, *, dense: bool) -> list[int]:
    """Dense ids are addressed directly, spread ones hashed."""
    return numbers.tolist() if dense else [number * SPREAD % ID_END for number in numbers.tolist()]


def rows_of(keys: list[list[int]], arity: int, columns: tuple[int, ...]) -> list[Row]:
    """Rows with the given keys in `columns`, numbered in the other columns."""
    rows = []
    for number, key in enumerate(zip(*keys, strict=True)):
        values = iter(key)
        rows.append(tuple(next(values) if j in columns else number for j in range(arity)))
    return rows


def found(backend: Backend, index: Any, arity: int, keys: Sequence[Row], domain: Domain) -> list[Row]:
    """The rows, keys and then the other columns, that a probe finds for each of `keys`: in the order of the
    keys, and within a key in order of insertion, if the backend promises any; sorted if not."""
    width = len(keys[0])
    registers = tuple(range(width))
    payload = tuple(write(width + j) for j in range(arity - width))
    driver = make_rows(backend, keys, width)
    probe = Probe((IndexProbe(index, domain, registers, payload),))
    pipeline = Pipeline(
        Driver(driver, tuple(map(write, registers))), (probe,), Collect(tuple(range(arity))), arity
    )
    out = backend.output(arity, 1 << 16)
    rows = drain(backend.program(pipeline), [(0, len(keys))], out, arity, lambda _: None)
    return rows if backend.in_order else sorted(rows)


def expected(backend: Backend, rows: list[Row], columns: tuple[int, ...], keys: Sequence[Row]) -> list[Row]:
    """What `found` should be."""
    by_key: dict[Row, list[Row]] = {}
    for row in rows:
        payload = tuple(value for j, value in enumerate(row) if j not in columns)
        by_key.setdefault(tuple(row[j] for j in columns), []).append(payload)
    wanted = [(*key, *payload) for key in keys for payload in by_key.get(key, ())]
    return wanted if backend.in_order else sorted(wanted)


SHAPES = [(1, (0,)), (2, (0,)), (2, (1,)), (2, (0, 1)), (3, (1,)), (3, (0, 2)), (4, (1, 3)), (5, (2,))]
SKEWS = ["even", "all equal", "one heavy", "distinct"]
EACH_SHAPE = [
    pytest.param(backend, *shape, skew, id=f"{backend.name}-{shape}-{skew}")
    for backend in BACKENDS
    for shape, skew in product(SHAPES, SKEWS)
    # A slow backend sees each shape once and each skew twice.
    if not backend.is_slow or SHAPES.index(shape) % len(SKEWS) == SKEWS.index(skew)
]


@pytest.mark.parametrize("dense", [True, False], ids=["direct", "hashed"])
@pytest.mark.parametrize(("backend", "arity", "columns", "skew"), EACH_SHAPE)
def test_rounds_of_any_size(
    backend: Backend, arity: int, columns: tuple[int, ...], dense: bool, skew: str
) -> None:
    """Empty, small and large deltas, keys old and new: OLD is what lies before the delta."""
    rng = np.random.default_rng([arity, *columns])
    sizes = [5, 0, 1, 20, 9] if backend.is_slow else [30, 0, 1, 70, 0, 2, 200, 40]
    total = sum(sizes)
    draws = {
        "even": rng.integers(0, 12, (len(columns), total)),
        "all equal": np.full((len(columns), total), 3),
        "one heavy": np.where(rng.random((len(columns), total)) < 0.9, 3, rng.integers(0, 40, (1, total))),
        "distinct": np.arange(len(columns) * total).reshape(len(columns), total) % 250,
    }[skew]
    keys = [ids(column, dense=dense) for column in draws]
    rows = rows_of(keys, arity, columns)
    bounds = [(min(column), max(column) + 1) for column in zip(*rows, strict=True)]
    stored = backend.rows(arity)
    index = None
    asked = [*sorted(set(zip(*keys, strict=True))), (ID_END - 1,) * len(columns), (0,) * len(columns)]
    start = 0
    for size in sizes:
        stored.append(columns_of(rows[start : start + size], arity), size)
        stored.advance()
        if index is None:
            index = backend.index(stored, columns, bounds)
            index.build(exact=False)
        else:
            assert index.ensure()
        assert index.ensure(), "a second time changes nothing"
        old, everything = rows[:start], rows[: start + size]
        assert found(backend, index, arity, asked, Domain.OLD) == expected(backend, old, columns, asked)
        assert found(backend, index, arity, asked, Domain.ALL) == expected(
            backend, everything, columns, asked
        )
        start += size
    stored.settle()
    assert index is not None and index.ensure()
    assert found(backend, index, arity, asked, Domain.OLD) == expected(backend, rows, columns, asked)


@pytest.mark.parametrize("dense", [True, False], ids=["direct", "hashed"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 16, 1000])
@on_every_backend
def test_an_exact_index_holds_all_rows_up_to_the_deltas_end(
    backend: Backend, dense: bool, count: int
) -> None:
    rng = np.random.default_rng(count)
    count = min(count, 100) if backend.is_slow else count
    rows = rows_of([ids(rng.integers(0, 20, count), dense=dense)], 3, (1,))
    stored = make_rows(backend, rows, 3)
    stored.advance()
    index = backend.index(stored, (1,), [(0, count + 1), (0, 21 if dense else ID_END), (0, count + 1)])
    index.build(exact=True)
    asked = sorted({(row[1],) for row in rows}) or [(0,)]
    assert found(backend, index, 3, asked, Domain.ALL) == expected(backend, rows, (1,), asked)
    assert index.ensure()
    stored.settle()
    assert index.ensure()
    assert found(backend, index, 3, asked, Domain.OLD) == expected(backend, rows, (1,), asked)


def test_an_exact_index_must_be_built_anew_when_rows_come() -> None:
    stored = make_rows(CPU, [(1, 2)], 2)
    stored.advance()
    index = CPU.index(stored, (0,), [(0, 4), (0, 4)])
    index.build(exact=True)
    stored.append(columns_of([(1, 3)], 2), 1)
    assert index.ensure(), "what is beyond the delta does not count"
    stored.advance()
    assert not index.ensure()


def test_an_index_that_missed_a_round_must_be_built_anew() -> None:
    stored = make_rows(CPU, [(1, 2)], 2)
    stored.advance()
    index = CPU.index(stored, (0,), [(0, 9), (0, 9)])
    index.build(exact=False)
    for value in (3, 4):
        stored.append(columns_of([(1, value)], 2), 1)
        stored.advance()
    assert not index.ensure()
    again = CPU.index(stored, (0,), [(0, 9), (0, 9)])
    again.build(exact=False)
    assert found(CPU, again, 2, [(1,)], Domain.OLD) == [(1, 2), (1, 3)]
    assert found(CPU, again, 2, [(1,)], Domain.ALL) == [(1, 2), (1, 3), (1, 4)]


@on(CPU, *CUDA)
def test_an_index_holds_only_what_it_was_built_with_until_it_is_brought_up_to_date(backend: Backend) -> None:
    """What is beyond the delta is in no domain, also when it has been appended since."""
    stored = make_rows(backend, [(1, 2), (1, 3)], 2)
    stored.advance()
    index = backend.index(stored, (0,), [(0, 9), (0, 9)])
    index.build(exact=False)
    stored.append(columns_of([(1, 4)], 2), 1)
    assert index.indexed == 2 and index.ensure() and index.indexed == 2
    assert found(backend, index, 2, [(1,)], Domain.ALL) == [(1, 2), (1, 3)]
    assert found(backend, index, 2, [(1,)], Domain.OLD) == []
    stored.advance()
    assert index.ensure() and index.indexed == 3
    assert found(backend, index, 2, [(1,)], Domain.OLD) == [(1, 2), (1, 3)]
    assert found(backend, index, 2, [(1,)], Domain.ALL) == [(1, 2), (1, 3), (1, 4)]


@on(CPU, *CUDA)
@pytest.mark.parametrize("exact", [True, False])
def test_more_keys_than_the_first_table_has_slots(backend: Backend, exact: bool) -> None:
    """Built at once and appended to: the table of slots grows several times, and the payload with it."""
    count = 300 if backend is SIMULATED else 6000
    rows = rows_of([ids(np.arange(count), dense=False), list(range(count))], 3, (0, 2))
    stored = backend.rows(3)
    bounds = [(0, ID_END)] * 3
    first = count if exact else 10
    stored.append(columns_of(rows[:first], 3), first)
    stored.advance()
    index = backend.index(stored, (0, 2), bounds)
    index.build(exact=exact)
    for start in range(first, count, count // 4 - 5):
        part = rows[start : start + count // 4 - 5]
        stored.append(columns_of(part, 3), len(part))
        stored.advance()
        assert index.ensure()
    assert index.indexed == count
    if backend is CPU:
        assert distinct_keys(index) == count and index.header[INDEX_HASHED] == 1
    asked = [(row[0], row[2]) for row in rows]
    assert found(backend, index, 3, asked, Domain.ALL) == expected(backend, rows, (0, 2), asked)


def test_the_bounds_choose_how_keys_are_addressed() -> None:
    rows = make_rows(CPU, [(5, 5)], 2)
    narrow, wide = [(5, 6), (5, 6)], [(0, ID_END), (0, ID_END)]
    assert CPU.index(rows, (0,), narrow).header[INDEX_HASHED] == 0
    assert CPU.index(rows, (0, 1), narrow).header[INDEX_HASHED] == 0
    assert CPU.index(rows, (0,), wide).header[INDEX_HASHED] == 1
    assert CPU.index(rows, (0, 1), wide).header[INDEX_HASHED] == 1


@on_every_backend
def test_a_payload_can_check_what_it_has_just_written(backend: Backend) -> None:
    stored = make_rows(backend, [(1, 4, 4), (1, 4, 5), (2, 6, 6), (1, 7, 7)], 3)
    stored.advance()
    index = backend.index(stored, (0,), [(0, 8)] * 3)
    index.build(exact=True)
    driver = make_rows(backend, [(1,), (2,), (3,)], 1)
    probe = Probe((IndexProbe(index, Domain.ALL, (0,), (write(1), check(1))),))
    pipeline = Pipeline(Driver(driver, (write(0),)), (probe,), Collect((0, 1)), 2)
    out = backend.output(2, 1)
    rows = drain(backend.program(pipeline), [(0, 3)], out, 2, lambda _: None)
    assert sorted(rows) == [(1, 4), (1, 7), (2, 6)]
