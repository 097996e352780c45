"""Rows: append, the delta's life, growth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.backends import BACKENDS, Backend, Row, columns_of, on_every_backend, read_rows

BATCHES = st.integers(0, 4).flatmap(
    lambda arity: st.tuples(
        st.just(arity),
        st.lists(st.lists(st.tuples(*[st.sampled_from([0, 1, 1 << 24, 2**32 - 2])] * arity), max_size=40)),
    )
)


@on_every_backend
@given(BATCHES)
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


def test_cpu_rows_keep_their_content_when_reserved_limited_and_trimmed() -> None:
    cpu = next(backend for backend in BACKENDS if backend.name == "cpu")
    rows = cpu.rows(2, 16)
    rows.append(columns_of([(i, 100 - i) for i in range(16)], 2), 16)
    assert rows.capacity == 16, "filled exactly to capacity without growing"
    rows.reserve(1000)
    rows.limit(17)
    rows.append(columns_of([(i, 100 - i) for i in range(16, 50)], 2), 34)
    rows.trim()
    assert rows.capacity == rows.count == 50 and rows.nbytes == 400
    assert read_rows(rows, 2) == [(i, 100 - i) for i in range(50)]
    rows.append(columns_of([(9, 9)], 2), 1)
    assert read_rows(rows, 2)[-1] == (9, 9) and rows.capacity == 100
