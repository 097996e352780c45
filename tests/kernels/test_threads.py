"""Several threads run copies of one program into one set: each new row comes out of exactly one of them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    Contains,
    Domain,
    Driver,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Scan,
    Status,
    write,
)
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.layout import BITMAP, HASHED, WIDE
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import KeySet
from tests.kernels.backends import ID_END

NODES = 120
THREADS = 4
ROOM = 97


def edges(seed: int, count: int, spread: int) -> Rows:
    rng = np.random.default_rng(seed)
    rows = Rows(2)
    rows.append([(rng.integers(0, NODES, count) * spread).astype(np.uint32) for _ in range(2)], count)
    rows.settle()
    return rows


def collect(program: Program, out: Rows, span: tuple[int, int]) -> list[np.ndarray]:
    """All that one thread finds, in parts of ROOM rows."""
    parts = []
    status = program.run(out, *span)
    while True:
        parts.append(np.stack([column.copy() for column in out.columns()], axis=1))
        out.count = 0
        if status is not Status.FULL:
            return parts
        status = program.resume(out)


@pytest.mark.parametrize(
    ("kind", "sink", "spread"),
    [
        (BITMAP, (0, 2), 1),
        (HASHED, (0, 2), 30_000_001),
        (HASHED, (2, 1), 30_000_001),
        (BITMAP, (0, 1, 2), 1),
        (WIDE, (0, 1, 2), 30_000_001),
    ],
)
@pytest.mark.parametrize("shape", ["probe", "probe and check", "scan"])
def test_each_new_row_comes_out_once(kind: int, sink: tuple[int, ...], spread: int, shape: str) -> None:
    end = NODES if spread == 1 else ID_END
    driver, other = edges(1, 3000, spread), edges(2, 600, spread)
    bounds = [(0, end)] * 2
    index = RowIndex(other, (0,), bounds)
    index.build(exact=True)
    held = KeySet(2, bounds, other.count)
    held.insert(other, 0, other.count)
    probe = Probe((IndexProbe(index, Domain.ALL, (1,), (write(2),)),))
    operations: tuple[Operation, ...] = {
        "probe": (probe,),
        "probe and check": (probe, Contains(held, (0, 2), negated=True)),
        "scan": (Scan(other, Domain.OLD, (-2 - 1, write(2))),),
    }[shape]
    keyset = KeySet(len(sink), [(0, end)] * len(sink), NODES ** len(sink) if kind == WIDE else NODES**2)
    assert keyset.kind == kind
    program = Program(Pipeline(Driver(driver, (write(0), write(1))), operations, Insert(keyset, sink), 3))
    # The spans overlap, so that every row is derived by several threads.
    spans = [(k * 100, 3000 - k * 50) for k in range(THREADS)]
    outs = [Rows(len(sink), ROOM) for _ in spans]
    for out in outs:
        out.limit(ROOM)
    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(collect, [program.copy() for _ in spans], outs, spans))
    found = np.concatenate([part for own in parts for part in own])
    pairs = set(zip(*(column.tolist() for column in other.columns()), strict=True))
    after: dict[int, list[int]] = {}
    for y, z in pairs:
        after.setdefault(y, []).append(z)
    wanted = {
        tuple((x, y, z)[register] for register in sink)
        for x, y in zip(*(column.tolist() for column in driver.columns()), strict=True)
        for z in after.get(y, ())
        if shape != "probe and check" or (x, z) not in pairs
    }
    assert len(found) == len(wanted), "no row twice, none missing"
    assert set(map(tuple, found.tolist())) == wanted


@pytest.mark.parametrize(
    ("arity", "count", "end", "kind", "times"),
    [(1, 1 << 20, 1 << 20, BITMAP, 12), (2, 1 << 18, ID_END, HASHED, 5), (3, 1 << 17, ID_END, WIDE, 5)],
)
def test_threads_that_insert_the_same_rows_at_once(
    arity: int, count: int, end: int, kind: int, times: int
) -> None:
    """All walk over the same rows at the same time: who is behind catches up, and then they race."""
    rows = Rows(arity)
    rows.append([np.arange(count, dtype=np.uint32) for _ in range(arity)], count)
    for _ in range(times):
        keyset = KeySet(arity, [(0, end)] * arity, count)
        assert keyset.kind == kind
        together = threading.Barrier(2)

        def insert(
            worker: int, keyset: KeySet = keyset, together: threading.Barrier = together
        ) -> np.ndarray:
            together.wait()
            return keyset.insert(rows, 0, count)

        with ThreadPoolExecutor(2) as pool:
            one, other = pool.map(insert, range(2))
        assert (one != other).all(), "each row is new to exactly one of them"
        assert keyset.contains(rows, 0, count).all()
