"""The pool of threads: every fact once, errors raised, candidates counted, the driver split anyhow."""

from __future__ import annotations

import numpy as np
import pytest

from gpuengine.errors import Interrupted
from gpuengine.evaluation.placement import workers
from gpuengine.evaluation.placement.workers import Workers
from gpuengine.kernels.contract import Domain, Driver, IndexProbe, Insert, Pipeline, Probe, write
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.schemes.table import Table
from tests.evaluation.forced import forced


def relation(name: str, seed: int, count: int, nodes: int) -> Table:
    rng = np.random.default_rng(seed)
    table = Table(name, 2, CPU)
    table.insert([rng.integers(0, nodes, count).astype(np.uint32) for _ in range(2)], count)
    table.settle()
    return table


def composition(left: Table, right: Table, head: Table, stop: np.ndarray | None = None) -> Program:
    """``head(x, z) :- left(x, y), right(y, z)``."""
    head.widen([left.bounds[0], right.bounds[1]])
    probe = IndexProbe(right.index((0,), growing=False), Domain.ALL, (1,), (write(2),))
    pipeline = Pipeline(Driver(left.rows, (0, 1)), (Probe((probe,)),), Insert(head.keyset, (0, 2)), 3)
    return Program(pipeline) if stop is None else Program(pipeline, stop)


def pairs(table: Table) -> list[tuple[int, int]]:
    return list(zip(*(column.tolist() for column in table.rows.columns()), strict=True))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("buffer_rows", [16, 1000, 1 << 17])
@pytest.mark.parametrize("nodes", [50, 100_000])
def test_every_fact_once(threads: int, buffer_rows: int, nodes: int) -> None:
    left, right = relation("left", 1, 3000, nodes), relation("right", 2, 3000, nodes)
    head = Table("head", 2, CPU)
    head.insert([np.array([1, 2], np.uint32)] * 2, 2)
    after: dict[int, list[int]] = {}
    for y, z in pairs(right):
        after.setdefault(y, []).append(z)
    candidates = [(x, z) for x, y in pairs(left) for z in after.get(y, ())]
    waves: list[int] = []
    pool = Workers(threads)
    with forced(buffer_rows=buffer_rows):
        program = composition(left, right, head)
        seen = pool.insert(program, head, 0, len(left), lambda: waves.append(len(head)))
    pool.close()
    assert seen == len(candidates)
    assert sorted(pairs(head)) == sorted({*candidates, (1, 1), (2, 2)})
    assert waves[0] == 2 and waves == sorted(waves)
    if buffer_rows == 16 and nodes == 50:
        assert len(waves) > 3, "the room ends several times"
    assert head.contains(head.rows.columns(), len(head)).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_nothing_to_drive(threads: int) -> None:
    left, right, head = relation("left", 1, 30, 9), relation("right", 2, 30, 9), Table("head", 2, CPU)
    pool = Workers(threads)
    assert pool.insert(composition(left, right, head), head, 5, 5, lambda: None) == 0
    pool.close()
    assert len(head) == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_a_set_flag_stops_all_of_them(threads: int) -> None:
    left, right, head = relation("left", 1, 3000, 50), relation("right", 2, 3000, 50), Table("head", 2, CPU)
    pool = Workers(threads)
    with pytest.raises(Interrupted):
        pool.insert(composition(left, right, head, np.ones(1, np.int64)), head, 0, len(left), lambda: None)
    pool.close()
    assert len(head) == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_each_calls_for_every_item_and_raises_errors(threads: int) -> None:
    pool = Workers(threads)
    seen: list[int] = []
    pool.each(seen.append, range(20))
    assert sorted(seen) == list(range(20))
    with pytest.raises(ZeroDivisionError):
        pool.each(lambda n: 1 // n, [1, 2, 0, 4])
    pool.close()


@pytest.mark.parametrize(
    "gaps",
    [
        [],
        [(40, 50)],
        [(10, 20)],
        [(10, 12), (12, 13), (30, 45)],
        [(10, 20), (20, 48), (48, 50)],
        [(12, 49)],
        [(10, 25), (48, 49)],
    ],
)
def test_what_threads_left_free_is_filled(gaps: list[tuple[int, int]]) -> None:
    rows = Rows(2, 50)
    values = np.arange(50, dtype=np.uint32)
    rows.append([values, values + np.uint32(100)], 50)
    rows.count = 10
    rows.close_gaps(50, gaps)
    written = [i for i in range(10, 50) if not any(low <= i < high for low, high in gaps)]
    assert rows.column(0)[:10].tolist() == list(range(10))
    assert sorted(rows.column(0)[10:].tolist()) == written
    assert (rows.column(1) == rows.column(0) + 100).all()


def test_buffers_are_kept_for_the_next_rule() -> None:
    pool = Workers(2)
    assert pool.buffers_for(2) is pool.buffers_for(2)
    assert all(buffer.capacity >= workers.BUFFER_ROWS for buffer in pool.buffers_for(2))
    pool.close()
