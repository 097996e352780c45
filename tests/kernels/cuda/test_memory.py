"""A device whose memory ends: chunks shrink, cold rows leave, and what comes out is right or is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.kernels.contract import (
    Collect,
    Comparator,
    Compare,
    DeviceMemoryError,
    Domain,
    Driver,
    Exists,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Representation,
    Scan,
    Status,
    check,
    write,
)
from gpuengine.kernels.cuda.devices.device import HostArrays
from gpuengine.kernels.cuda.pieces import LEAST_PIECE
from tests.kernels.backends import (
    ID_END,
    REFERENCE,
    Backend,
    Row,
    columns_of,
    drain,
    emulated,
    flags,
    make_rows,
    read_rows,
    simulated,
)
from tests.kernels.pipelines import Built, any_case
from tests.kernels.test_pipelines import outcome

MEGABYTE = 1 << 20


@contextmanager
def at_most(device: HostArrays, extra: int) -> Iterator[None]:
    """So many bytes more than are in use now, and no more."""
    device.budget = device.memory()[0] + extra
    try:
        yield
    finally:
        device.budget = None


def two_columns(backend: Backend, first: np.ndarray, second: np.ndarray) -> Any:
    rows = backend.rows(2, len(first))
    rows.append([first.astype(np.uint32), second.astype(np.uint32)], len(first))
    rows.settle()
    return rows


def test_what_is_in_use_is_counted_and_given_back() -> None:
    backend = emulated()
    device = backend.device
    assert device.memory()[0] == 0
    rows = backend.rows(2, 1000)
    assert device.memory()[0] == rows.nbytes == 8000
    view = rows.device_columns()
    del rows
    assert device.memory()[0] == 8000, "a view holds its array"
    del view
    assert device.memory()[0] == 0
    assert device.statistics.peak_bytes == 8000


def test_rows_that_are_not_used_leave_and_come_back() -> None:
    backend = emulated(budget=3 * MEGABYTE)
    count = MEGABYTE // 8
    contents = [np.arange(n, n + count, dtype=np.uint32) for n in range(6)]
    made = []
    for content in contents:
        rows = backend.rows(2, count)
        rows.append([content, content[::-1]], count)
        rows.advance()
        made.append(rows)
        assert backend.device.memory()[0] <= 3 * MEGABYTE
    for _ in range(2):
        for rows, content in zip(made, contents, strict=True):
            assert rows.count == count and rows.delta == (0, count)
            first, second = (backend.device.download(column) for column in rows.device_columns())
            assert np.array_equal(first, content) and np.array_equal(second, content[::-1])
    assert backend.device.statistics.downloaded > 0
    assert backend.device.memory()[0] <= 3 * MEGABYTE


def test_the_least_recently_used_rows_leave_first() -> None:
    backend = emulated()
    rows = [make_rows(backend, [(n,)] * 1000, 1) for n in range(3)]
    for used in (0, 2, 1):
        assert len(rows[used].device_columns()) == 1
    with at_most(backend.device, 0):
        extra = backend.device.empty(100, np.uint32)
        assert [row._data is None for row in rows] == [True, False, False]
        del extra
    assert [row.column(0).tolist() for row in rows] == [[n] * 1000 for n in range(3)]


def test_rows_that_are_written_to_stay() -> None:
    backend = emulated()
    rows = make_rows(backend, [(5,)] * 1000, 1)
    with rows.pin(), at_most(backend.device, 10), pytest.raises(DeviceMemoryError, match="bytes asked for"):
        backend.device.empty(1000, np.uint32)
    assert rows.spill() == rows.nbytes
    assert rows.spill() == 0, "they have left already"
    assert rows.column(0).tolist() == [5] * 1000


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["append", "advance", "reserve", "grow", "trim", "spill", "read", "settle"]),
        st.integers(0, 60),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(STEPS, st.sampled_from([600, 1000, 2000]))
def test_rows_under_pressure_are_what_was_appended(steps: list[tuple[int, str, int]], budget: int) -> None:
    """What there is no memory for changes nothing."""
    backend = emulated(threads=1, budget=budget)
    made = [backend.rows(arity) for arity in (1, 2, 2)]
    held: list[list[Row]] = [[], [], []]
    deltas = [(0, 0)] * 3
    for number, step, size in steps:
        rows, expected = made[number], held[number]
        try:
            if step == "append":
                batch = [tuple(len(expected) + i + j for j in range(rows.arity)) for i in range(size)]
                rows.append(columns_of(batch, rows.arity), size)
                expected += batch
            elif step == "advance":
                rows.advance()
                deltas[number] = (deltas[number][1], len(expected))
            elif step == "settle":
                rows.settle()
                deltas[number] = (len(expected), len(expected))
            elif step == "reserve":
                rows.reserve(size)
                assert rows.capacity >= size
            elif step == "grow":
                rows.grow(size)
                assert rows.capacity >= len(expected) + size
            elif step == "read":
                assert read_rows(rows, rows.arity) == expected
            else:
                getattr(rows, step)()
        except DeviceMemoryError:
            pass
        assert rows.count == len(expected) and rows.delta == deltas[number]
        assert backend.device.memory()[0] <= budget
    backend.device.budget = None
    assert [read_rows(rows, rows.arity) for rows in made] == held


def random_join(backend: Backend, count: int) -> tuple[Any, Any, set[Row]]:
    """A driver and an index whose join has about ten times `count` candidates, and the pairs it makes."""
    rng = np.random.default_rng(count)
    left = rng.integers(0, count // 10, (2, count))
    right = rng.integers(0, count // 10, (2, count))
    driver, other = two_columns(backend, *left), two_columns(backend, *right)
    index = backend.index(other, (0,), [(0, count // 10)] * 2)
    index.build(exact=True)
    after: dict[int, list[int]] = {}
    for y, z in right.T.tolist():
        after.setdefault(y, []).append(z)
    return driver, index, {(x, z) for x, y in left.T.tolist() for z in after.get(y, ()) if x < z}


@pytest.mark.parametrize("kilobytes", [300, 400, 600, 800, 900, 1000, 1200, 1400])
def test_chunks_shrink_until_a_join_fits(kilobytes: int) -> None:
    backend = emulated()
    device = backend.device
    driver, index, wanted = random_join(backend, 8000)
    probe = Probe((IndexProbe(index, Domain.ALL, (1,), (write(2),)),))
    less = Compare(Comparator.LESS, Representation.BY_ID, 0, 2)
    keyset = backend.keyset(2, [(0, ID_END)] * 2, 200_000)
    out = backend.rows(2, 200_000)
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (probe, less), Insert(keyset, (0, 2)), 3)
    with at_most(device, kilobytes << 10):
        assert backend.program(pipeline).run(out, 0, driver.count) is Status.DONE
    assert sorted(read_rows(out, 2)) == sorted(wanted)
    assert LEAST_PIECE <= device.chunk_items < 80_000


def test_a_join_for_which_there_is_no_memory_at_all_is_an_error() -> None:
    backend = emulated()
    driver, index, _ = random_join(backend, 8000)
    probe = Probe((IndexProbe(index, Domain.ALL, (1,), (write(2),)),))
    less = Compare(Comparator.LESS, Representation.BY_ID, 0, 2)
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (probe, less), Collect((0, 2)), 3)
    out = backend.rows(2, 16)
    with at_most(backend.device, 1000), pytest.raises(DeviceMemoryError) as caught:
        backend.program(pipeline).run(out, 0, driver.count)
    assert caught.value.requested > caught.value.free


def deep(backend: Backend) -> dict[str, tuple[tuple[Operation, ...], int]]:
    """What comes after an expansion, and how many rows of 20,000 it lets through."""
    numbers = np.arange(20_000)
    other = two_columns(backend, numbers, numbers % 2)
    index = backend.index(other, (0,), [(0, 20_000), (0, 2)])
    index.build(exact=True)
    held = backend.keyset(2, [(0, ID_END)] * 2, 20_000)
    held.insert(other, 0, 20_000)
    probe = IndexProbe(index, Domain.ALL, (2,), (write(3),))
    two = two_columns(backend, numbers[:2], numbers[:2])
    return {
        "a probe": ((Probe((probe,)),), 20_000),
        "a scan": ((Scan(two, Domain.ALL, (write(3), write(4))),), 40_000),
        "a filter": ((Exists(IndexProbe(index, Domain.ALL, (2,), (check(1),))),), 10_000),
    }


@pytest.mark.parametrize("shape", ["a probe", "a scan", "a filter"])
def test_memory_that_ends_behind_an_expansion_is_met_with_smaller_chunks(shape: str) -> None:
    """The first expansion fits, and leaves too little for what comes after it."""
    backend = emulated()
    operations, count = deep(backend)[shape]
    numbers = np.arange(20_000)
    scanned = two_columns(backend, numbers, numbers)
    driver = two_columns(backend, numbers[:1], numbers[:1])
    first = Scan(scanned, Domain.ALL, (write(2), write(5)))
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (first, *operations), Collect((0, 2)), 6)
    out = backend.rows(2, 8 * count)
    with at_most(backend.device, 20_000 * 4 * 4 + 40_000):
        assert backend.program(pipeline).run(out, 0, 1) is Status.DONE
    assert out.count == count


@pytest.mark.parametrize("each", [17, 18, 22, 26, 29])
def test_memory_that_ends_in_the_sink_is_met_with_smaller_pieces(each: int) -> None:
    """There are so many bytes for each candidate: enough to make it, not to insert all of them at once."""
    backend = emulated()
    numbers = np.arange(20_000)
    scanned = two_columns(backend, numbers, numbers[::-1])
    driver = two_columns(backend, numbers[:1], numbers[:1])
    keyset = backend.keyset(2, [(0, ID_END)] * 2, 40_000)
    scan = Scan(scanned, Domain.ALL, (write(2), write(3)))
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (scan,), Insert(keyset, (2, 3)), 4)
    out = backend.rows(2, 160_000)
    with at_most(backend.device, 20_000 * each), scanned.pin():
        assert backend.program(pipeline).run(out, 0, 1) is Status.DONE
    assert sorted(out.column(0).tolist()) == numbers.tolist()
    assert np.array_equal(out.column(1), 19_999 - out.column(0))


@pytest.mark.parametrize(
    ("arity", "high"), [(2, ID_END), (4, 40), (4, 2**15), (4, ID_END), (6, ID_END)], ids=str
)
@pytest.mark.parametrize("count", [1100, 1500, 3000])
def test_whatever_the_memory_all_rows_come_out_of_the_sink_or_there_is_an_error(
    arity: int, high: int, count: int
) -> None:
    """Rows that have entered the set and can't be appended must not be taken for old ones afterwards."""
    backend = emulated(threads=1)
    ids = np.arange(count)
    columns = [(ids % 40 if j else ids // 40 % 40).astype(np.uint32) for j in range(arity)]
    columns[-1] = (ids // 1600).astype(np.uint32)
    if arity == 2:
        columns = [ids.astype(np.uint32)] * 2
    scanned = backend.rows(arity, count)
    scanned.append(columns, count)
    scanned.settle()
    driver = two_columns(backend, ids[:1], ids[:1])
    registers = tuple(range(2, 2 + arity))
    out = backend.rows(arity, 16 * count)
    scan = Scan(scanned, Domain.ALL, tuple(map(write, registers)))
    ends = set()
    with scanned.pin(), driver.pin():
        for extra in range(0, 80 * count, 7 * count // 4):
            keyset = backend.keyset(arity, [(0, high)] * arity, 2 * count)
            pipeline = Pipeline(Driver(driver, (write(0), write(1))), (scan,), Insert(keyset, registers), 12)
            program = backend.program(pipeline)
            out.count = 0
            with at_most(backend.device, extra):
                try:
                    assert program.run(out, 0, 1) is Status.DONE
                except DeviceMemoryError:
                    ends.add("error")
                    continue
            assert out.count == count
            ends.add("all rows")
    assert ends == {"error", "all rows"}


@pytest.mark.parametrize("bounds", [[(0, ID_END)] * 2, [(0, 2**20)] * 3, [(0, ID_END)] * 3])
def test_a_set_that_can_not_grow_is_as_it_was(bounds: list[tuple[int, int]]) -> None:
    backend = emulated()
    arity = len(bounds)
    keyset = backend.keyset(arity, bounds, 16)
    held = [tuple(n + j for j in range(arity)) for n in range(keyset.capacity)]
    rows = make_rows(backend, held, arity)
    keyset.insert(rows, 0, rows.count)
    before = keyset.capacity
    with at_most(backend.device, 100), rows.pin(), pytest.raises(DeviceMemoryError):
        keyset.reserve(10_000, rows)
    assert keyset.capacity == before
    assert all(flags(keyset.contains(rows, 0, rows.count)))
    keyset.reserve(10_000, rows)
    assert keyset.capacity >= 10_000
    more = make_rows(backend, [tuple(5000 + n + j for j in range(arity)) for n in range(5000)], arity)
    assert all(flags(keyset.insert(more, 0, more.count))) and all(flags(keyset.contains(rows, 0, rows.count)))


@pytest.mark.parametrize("make", [emulated, simulated], ids=["emulated", "simulator"])
def test_random_pipelines_give_the_same_or_an_error_whatever_the_budget(make: Any) -> None:
    """Also: what came out before the error is part of the answer, and comes out once."""
    failures = successes = 0
    for seed in range(400 if make is emulated else 25):
        case = any_case(seed)
        backend = make()
        built = Built(case, backend)
        arity = len(case.sink)
        program = backend.program(built.pipeline)
        out = backend.output(arity, 10_000)
        built.take([], 10_000)
        wanted = outcome(REFERENCE, case, 1, 0)[0]
        extra = (seed * 7919) % 6000
        with at_most(backend.device, extra):
            try:
                found = drain(program, [(0, built.rows[case.driver].count)], out, arity, lambda _: None)
                successes += 1
                assert sorted(found) == wanted
            except DeviceMemoryError:
                failures += 1
                backend.device.budget = None
                found = read_rows(out, arity)
                assert set(found) <= set(wanted)
                if case.inserts:
                    assert len(set(found)) == len(found)
    assert failures > 0 and successes > failures // 4


def test_more_rows_than_have_numbers_are_an_error() -> None:
    rows = emulated().rows(1)
    with pytest.raises(DeviceMemoryError):
        rows.reserve(2**32)
