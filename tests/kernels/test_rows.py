"""Rows: append, the delta's life, growth."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.kernels.backends import (
    CPU,
    CUDA,
    Backend,
    Row,
    columns_of,
    given_on,
    on,
    on_every_backend,
    read_rows,
)

BATCHES = st.integers(0, 4).flatmap(
    lambda arity: st.tuples(
        st.just(arity),
        st.lists(st.lists(st.tuples(*[st.sampled_from([0, 1, 1 << 24, 2**32 - 2])] * arity), max_size=40)),
    )
)


@given_on(BATCHES)
def test_what_is_appended_is_kept_in_order_while_the_rows_grow(
    backend: Backend, case: tuple[int, list[list[Row]]]
) -> None:
    arity, batches = case
    rows = backend.rows(arity)
    expected: list[Row] = []
    for batch in batches:
        rows.append(columns_of(batch, arity), len(batch))
        expected += batch
        assert rows.count == len(expected) and read_rows(rows, arity) == expected


@on_every_backend
def test_the_delta_is_what_was_appended_since_the_last_advance(backend: Backend) -> None:
    rows = backend.rows(1)
    sizes = [3, 0, 20, 1, 0, 0]
    start = 0
    for size in sizes:
        rows.append(columns_of([(7,)] * size, 1), size)
        assert rows.delta == (rows.delta[0], start), "appending moves no delta"
        assert rows.advance() == size
        assert rows.delta == (start, start + size)
        start += size
    rows.append(columns_of([(8,)], 1), 1)
    rows.settle()
    assert rows.delta == (25, 25)


@given_on(BATCHES)
def test_frozen_rows_stay_while_others_are_appended(
    backend: Backend, case: tuple[int, list[list[Row]]]
) -> None:
    arity, batches = case
    rows = backend.rows(arity)
    expected: list[Row] = []
    frozen = [(rows.frozen(0), expected)]
    for batch in batches:
        rows.append(columns_of(batch, arity), len(batch))
        expected = [*expected, *batch]
        half = len(expected) // 2
        frozen += [(rows.frozen(len(expected)), expected), (rows.frozen(half), expected[:half])]
    for some, content in frozen:
        assert some.count == len(content) and some.delta == (len(content), len(content))
        assert read_rows(some, arity) == content


@on(CPU, *CUDA)
def test_rows_keep_their_content_when_reserved_limited_and_trimmed(backend: Backend) -> None:
    rows = backend.rows(2, 16)
    rows.append(columns_of([(i, 100 - i) for i in range(16)], 2), 16)
    assert rows.capacity == 16, "filled exactly to capacity without growing"
    rows.reserve(1000)
    assert rows.capacity >= 1000 and rows.nbytes == 8 * rows.capacity
    rows.limit(17)
    rows.append(columns_of([(i, 100 - i) for i in range(16, 50)], 2), 34)
    rows.trim()
    assert 50 <= rows.capacity < 80 and rows.nbytes == 8 * rows.capacity
    assert read_rows(rows, 2) == [(i, 100 - i) for i in range(50)]
    for i in range(50, 100):
        rows.append(columns_of([(i, 100 - i)], 2), 1)
    assert read_rows(rows, 2) == [(i, 100 - i) for i in range(100)]


@on_every_backend
def test_growing_makes_room_for_what_is_asked(backend: Backend) -> None:
    rows = backend.rows(2)
    for extra in (0, 1, 15, 16, 17, 100, 33):
        rows.grow(extra)
        assert rows.capacity >= rows.count + extra
        rows.append(columns_of([(7, 8)] * extra, 2), extra)
    assert read_rows(rows, 2) == [(7, 8)] * 182


@on_every_backend
def test_columns_of_the_backend_are_appended_like_those_of_the_host(backend: Backend) -> None:
    rows, other = backend.rows(2), backend.rows(2)
    rows.append(columns_of([(1, 2**32 - 2), (3, 4)], 2), 2)
    other.append(rows.device_columns(), 2)
    other.append([backend.kernels.column(column) for column in columns_of([(5, 6)], 2)], 1)
    assert read_rows(other, 2) == [(1, 2**32 - 2), (3, 4), (5, 6)]
    assert [column.tolist() for column in other.columns()] == [[1, 3, 5], [2**32 - 2, 4, 6]]


@on_every_backend
def test_host_columns_follow_every_change_of_the_rows(backend: Backend) -> None:
    """Also when the number of rows is again what it was."""
    rows = backend.rows(1)
    for value in (5, 6):
        rows.append(columns_of([(value,)] * 3, 1), 3)
        assert rows.column(0).tolist() == [value] * 3
        rows.count = 0
    rows.append(columns_of([(1,), (2,)], 1), 2)
    rows.count = 1
    rows.append(columns_of([(9,)], 1), 1)
    assert rows.column(0).tolist() == [1, 9]
