"""The table scheme: distinct facts, bounds, indexes and their epoch, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.kernels.contract import (
    Backend,
    Collect,
    DeviceMemoryError,
    Domain,
    Driver,
    IndexProbe,
    Pipeline,
    Probe,
    Status,
    write,
)
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.schemes.table import Table
from tests.evaluation.accelerator import Accelerator

Row = tuple[int, ...]
DEVICE = Accelerator()
BACKENDS: st.SearchStrategy[Backend] = st.sampled_from([CPU, DEVICE])
IDS = st.sampled_from([0, 1, 2, 3, 1000, 2**24, 2**31, 2**32 - 2])


@pytest.fixture(autouse=True)
def bound() -> None:
    DEVICE.bind_thread()


def columns_of(rows: Sequence[Row], arity: int) -> list[np.ndarray]:
    matrix = np.array(rows, np.uint32).reshape(len(rows), arity)
    return [np.ascontiguousarray(matrix[:, j]) for j in range(arity)]


def insert(table: Table, rows: Sequence[Row]) -> int:
    return table.insert(columns_of(rows, table.arity), len(rows))


def facts(table: Table) -> list[Row]:
    if not table.arity:
        return [()] * len(table)
    return list(zip(*(column.tolist() for column in table.rows.columns()), strict=True))


def table_of(rows: Sequence[Row], arity: int) -> Table:
    table = Table("p", arity, CPU)
    insert(table, rows)
    return table


@st.composite
def batches(draw: Any) -> tuple[int, list[list[Row]]]:
    arity = draw(st.integers(0, 4))
    ids = IDS if draw(st.booleans()) else st.integers(0, 3)
    return arity, draw(st.lists(st.lists(st.tuples(*[ids] * arity), max_size=25), max_size=5))


@given(batches(), st.booleans(), BACKENDS)
def test_insert_keeps_each_fact_once(
    case: tuple[int, list[list[Row]]], with_set: bool, backend: Backend
) -> None:
    arity, parts = case
    table = Table("p", arity, backend)
    known: set[Row] = set()
    for part in parts:
        if with_set:
            assert table.keyset is not None
        assert insert(table, part) == len(set(part) - known)
        known |= set(part)
        assert sorted(facts(table)) == sorted(known) and len(table) == len(known)
        for column, (low, high) in enumerate(table.bounds):
            values = [row[column] for row in known]
            assert all(low <= value < high for value in values)
    assert table.rows.delta == (0, 0), "what is inserted lies beyond the delta"


@given(batches())
def test_contains(case: tuple[int, list[list[Row]]]) -> None:
    arity, parts = case
    asked = [row for part in parts for row in part]
    held = set(asked[::2])
    table = table_of(sorted(held), arity)
    assert table.contains(columns_of(asked, arity), len(asked)).tolist() == [row in held for row in asked]


@given(batches())
def test_distinct_rows_are_sorted_and_each_once(case: tuple[int, list[list[Row]]]) -> None:
    arity, parts = case
    rows = [row for part in parts for row in part]
    if not rows:
        return
    columns, count = CPU.distinct_rows(columns_of(rows, arity), len(rows))
    expected = sorted(set(rows))
    assert count == len(expected) and len(columns) == arity
    assert [tuple(row) for row in zip(*(c.tolist() for c in columns), strict=True)] == (
        expected if arity else []
    )
    assert all(column.dtype == np.uint32 for column in columns)


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_distinct_rows_of_sorted_rows_are_those_rows(arity: int) -> None:
    rows = sorted({(i % 7, i % 5, i)[:arity] for i in range(40)})
    columns, count = CPU.distinct_rows(columns_of(rows, arity), len(rows))
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == rows and count == len(rows)


@pytest.mark.parametrize("bits", [0, 1, 21, 22, 32])
@pytest.mark.parametrize("arity", [3, 4])
def test_distinct_rows_of_ids_that_fit_one_word_and_that_do_not(arity: int, bits: int) -> None:
    drawn = np.random.default_rng(bits)
    kept = drawn.integers(0, 1 << bits, (50, arity), np.uint64)
    kept[0] = (1 << bits) - 1
    rows = [tuple(row) for row in drawn.permutation(np.concatenate([kept, kept])).tolist()]
    columns, count = CPU.distinct_rows(columns_of(rows, arity), len(rows))
    expected = sorted(set(rows))
    assert list(zip(*(c.tolist() for c in columns), strict=True)) == expected and count == len(expected)
    assert all(column.dtype == np.uint32 for column in columns)


def matches(table: Table, keys: tuple[int, ...], values: Row, domain: Domain, growing: bool) -> list[Row]:
    """The other columns of the facts whose `keys` have these values, read through the table's index."""
    index = table.index(keys, growing=growing)
    width = table.arity - len(keys)
    driver = Rows(len(keys))
    driver.append(columns_of([values], len(keys)), 1)
    payload = tuple(write(len(keys) + j) for j in range(width))
    registers = tuple(range(len(keys)))
    probe = Probe((IndexProbe(index, domain, registers, payload),))
    pipeline = Pipeline(Driver(driver, registers), (probe,), Collect(payload), table.arity)
    out = Rows(width, 1000)
    assert Program(pipeline).run(out, 0, 1) is Status.DONE
    return list(zip(*(column.tolist() for column in out.columns()), strict=True))


@pytest.mark.parametrize("wider", [[(9, 9)], [(2**32 - 2, 0)], [(0, 2**32 - 2), (0, 5)]])
def test_indexes_after_widening_hold_everything(wider: list[Row]) -> None:
    table = table_of([(1, 2), (1, 3), (2, 3)], 2)
    table.rows.advance()
    assert matches(table, (0,), (1,), Domain.ALL, growing=True) == [(2,), (3,)]
    insert(table, wider)
    table.rows.advance()
    for first, second in wider:
        found = matches(table, (0,), (first,), Domain.ALL, growing=True)
        assert sorted(found) == sorted((b,) for a, b in wider if a == first)
        assert (first,) in matches(table, (1,), (second,), Domain.ALL, growing=True)
    assert matches(table, (0,), (1,), Domain.OLD, growing=True) == [(2,), (3,)]
    assert matches(table, (0,), (wider[0][0],), Domain.OLD, growing=True) == []


def test_widening_forgets_indexes_and_says_so() -> None:
    table = table_of([(1, 2)], 2)
    table.rows.advance()
    index = table.index((0,), growing=True)
    epoch = table.epoch
    table.widen([(1, 2), (2, 3)])
    assert table.epoch == epoch and table.index((0,), growing=True) is index, "nothing to widen"
    table.widen([(0, 7), (2, 3)])
    assert table.epoch > epoch and table.indexes == ()
    assert table.bounds == [(0, 7), (2, 3)]
    assert table.index((0,), growing=True) is not index


def test_no_bounds_are_neither_widened_nor_widening() -> None:
    table = Table("p", 2, CPU)
    table.widen([(0, 0), (5, 9)])
    assert table.bounds == [(0, 0), (5, 9)]
    table.widen([(3, 4), (0, 0)])
    assert table.bounds == [(3, 4), (5, 9)]


@pytest.mark.parametrize("bounds", [(0, 4), (0, 2**32 - 1)])
def test_the_set_survives_widening_and_growth(bounds: tuple[int, int]) -> None:
    rows = [(i % 4, i // 4 % 4) for i in range(16)]
    table = table_of(rows[:9], 2)
    assert table.keyset.contains(table.rows, 0, 9).all()
    table.widen([bounds] * 2)
    table.reserve(10_000)
    asked = columns_of(rows, 2)
    assert table.contains(asked, 16).tolist() == [True] * 9 + [False] * 7
    assert insert(table, rows) == 7


def test_reserve_leaves_room_in_the_rows_and_the_set() -> None:
    table = table_of([(1, 2**32 - 2)], 2)
    assert table.keyset.capacity > 0
    table.reserve(50_000)
    assert table.rows.capacity >= 50_001 and table.keyset.capacity >= 50_001


def test_an_index_is_kept_while_deltas_come_and_made_anew_when_one_is_missed() -> None:
    table = table_of([(0, 2), (1, 1), (3, 0)], 2)
    table.rows.advance()
    index = table.index((0,), growing=True)
    insert(table, [(1, 0)])
    table.rows.advance()
    assert table.index((0,), growing=True) is index
    epoch = table.epoch
    for value in (0, 1):
        insert(table, [(0, value)])
        table.rows.advance()
    assert not index.ensure()
    table.drop_stale_indexes()
    assert table.epoch > epoch and table.indexes == ()
    assert matches(table, (0,), (0,), Domain.OLD, growing=True) == [(2,), (0,)]
    assert matches(table, (0,), (0,), Domain.ALL, growing=True) == [(2,), (0,), (1,)]


def test_current_indexes_are_not_stale() -> None:
    table = table_of([(1, 1)], 2)
    table.rows.advance()
    index = table.index((1,), growing=True)
    epoch = table.epoch
    table.drop_stale_indexes()
    assert table.epoch == epoch and table.indexes == (index,)


def test_settle_makes_everything_old() -> None:
    table = table_of([(1, 1)], 2)
    table.rows.advance()
    assert matches(table, (0,), (1,), Domain.OLD, growing=True) == []
    table.settle()
    assert matches(table, (0,), (1,), Domain.OLD, growing=True) == [(1,)]


@pytest.mark.parametrize("count", [0, 1, 100, 65_536])
@pytest.mark.parametrize("values", [1, 7, 10**9])
def test_distinct_is_exact_up_to_the_size_of_the_sample(count: int, values: int) -> None:
    rng = np.random.default_rng(count)
    table = Table("p", 1, CPU)
    column = rng.integers(0, values, count).astype(np.uint32)
    table.rows.append([column], count)
    assert table.distinct(0) == len(np.unique(column))


@pytest.mark.parametrize(
    ("values", "factor"),
    [(3, 1.0), (1000, 1.01), (40_000, 4.0), (300_000, 3.0), (10**9, 2.5)],
)
def test_distinct_is_near_beyond_the_sample(values: int, factor: float) -> None:
    rng = np.random.default_rng(values)
    count = 400_000
    table = Table("p", 1, CPU)
    column = rng.integers(0, values, count).astype(np.uint32)
    table.rows.append([column], count)
    exact = len(np.unique(column))
    estimate = table.distinct(0)
    assert exact / factor <= estimate <= min(exact * factor, count)


def test_distinct_follows_growth() -> None:
    table = Table("p", 1, CPU)
    assert table.distinct(0) == 0
    for end in (10, 21, 5000):
        column = np.arange(len(table), end, dtype=np.uint32)
        table.rows.append([column], len(column))
        assert table.distinct(0) == end, "more than twice the rows are counted again"


def test_nbytes_counts_rows_set_and_indexes() -> None:
    table = table_of([(i, i + 1) for i in range(1000)], 2)
    table.rows.advance()
    rows = table.nbytes
    assert rows >= 8 * 1000
    with_set = rows + table.keyset.nbytes
    assert table.nbytes == with_set
    assert table.nbytes == with_set and table.index((0,), growing=False).nbytes + with_set == table.nbytes
    table.forget_indexes()
    assert table.nbytes == with_set


@given(batches(), st.lists(BACKENDS, min_size=6, max_size=6))
def test_a_table_that_moves_is_the_same(case: tuple[int, list[list[Row]]], places: list[Backend]) -> None:
    arity, parts = case
    table, still = Table("p", arity, CPU), Table("p", arity, CPU)
    for part, place in zip(parts, places, strict=False):
        table.move_to(place)
        assert table.backend is place
        assert insert(table, part) == insert(still, part)
        assert sorted(facts(table)) == sorted(facts(still)) and table.bounds == still.bounds
        assert sorted(zip(*(c.tolist() for c in table.columns()), strict=True)) == sorted(
            facts(still) if arity else []
        )
        assert table.rows.advance() == still.rows.advance()
        assert table.rows.delta == still.rows.delta
        assert table.contains(still.columns(), len(still)).all()


def test_moving_keeps_the_delta_and_drops_set_and_indexes() -> None:
    table = table_of([(1, 2), (2, 3)], 2)
    table.settle()
    insert(table, [(7, 7)])
    table.rows.advance()
    assert table.keyset is not None and table.index((0,), growing=True)
    epoch = table.epoch
    table.move_to(DEVICE)
    assert table.rows.delta == (2, 3) and table.indexes == () and table.epoch > epoch
    table.rows.settle()
    table.move_to(CPU)
    assert table.rows.delta == (3, 3)
    assert insert(table, [(7, 7), (8, 8)]) == 1, "the set is made anew"
    assert matches(table, (0,), (2,), Domain.OLD, growing=True) == [(3,)]


def test_a_table_that_did_not_change_moves_back_without_a_copy() -> None:
    table = table_of([(1, 2), (2, 3)], 2)
    host_rows = table.rows
    assert table.bytes_to_move(CPU) == 0 and table.bytes_to_move(DEVICE) == 16
    table.move_to(DEVICE)
    device_rows = table.rows
    assert table.bytes_to_move(CPU) == 0 and table.host_nbytes == host_rows.nbytes
    assert table.device_nbytes == table.nbytes
    table.move_to(CPU)
    assert table.rows is host_rows
    table.move_to(DEVICE)
    assert table.rows is device_rows
    insert(table, [(3, 4)])
    assert table.bytes_to_move(CPU) == 24
    table.move_to(CPU)
    assert table.rows is not host_rows and sorted(facts(table)) == [(1, 2), (2, 3), (3, 4)]


def test_a_copy_is_read_instead_of_the_device() -> None:
    table = table_of([(1, 2)], 2)
    table.move_to(DEVICE)
    DEVICE.counts.downloaded = 0
    assert table.column(1).tolist() == [2] and DEVICE.counts.downloaded == 0
    insert(table, [(5, 6)])
    assert table.column(1).tolist() == [2, 6] and DEVICE.counts.downloaded == 8


def test_copies_are_dropped_on_demand() -> None:
    table = table_of([(1, 2)], 2)
    table.move_to(DEVICE)
    table.drop_stale_copy()
    assert table.host_nbytes, "it is current"
    insert(table, [(5, 6)])
    table.drop_stale_copy()
    assert not table.host_nbytes
    table.move_to(CPU)
    assert table.device_nbytes
    table.drop_copy()
    assert not table.device_nbytes and sorted(facts(table)) == [(1, 2), (5, 6)]


def test_rows_that_come_back_have_room() -> None:
    """A limit that the set of an earlier stay gave them does not hold any more."""
    table = table_of([(1, 2**32 - 2), (2, 1)], 2)
    table.reserve(5000)
    table.rows.limit(2)
    table.move_to(DEVICE)
    table.move_to(CPU)
    driver = table_of([(i, i) for i in range(100)], 2)
    pipeline = Pipeline(Driver(driver.rows, (0, 1)), (), Collect((0, 1)), 2)
    table.reserve(1)
    assert Program(pipeline).run(table.rows, 0, 100) is Status.DONE
    assert len(table) == 102


def test_a_move_that_fails_leaves_the_table_as_it_was() -> None:
    small = Accelerator(budget=1)
    small.bind_thread()
    table = table_of([(1, 2), (2, 3)], 2)
    with pytest.raises(DeviceMemoryError):
        table.move_to(small)
    assert table.backend is CPU and facts(table) == [(1, 2), (2, 3)]
    assert insert(table, [(3, 4)]) == 1
