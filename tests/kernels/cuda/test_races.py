"""Items in any order, and many at once, give the same sets: shuffled in the simulator, raced by threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import Domain, Driver, IndexProbe, Insert, Pipeline, Probe, Status, write
from gpuengine.kernels.cuda.devices import emulated as emulation
from gpuengine.kernels.cuda.set_kernels import BITMAP, HASHED, WIDE
from tests.kernels.backends import (
    ID_END,
    REFERENCE,
    Backend,
    assert_new,
    emulated,
    flags,
    make_rows,
    simulated,
)
from tests.kernels.pipelines import any_case, composition_case, last_probe_case
from tests.kernels.test_pipelines import outcome

#: Threads in all, and in a block: one, fewer and more than items, blocks that are not full.
SHAPES = [(1, 1), (2, 2), (6, 3), (8, 4), (16, 5), (33, 32)]
KINDS = pytest.mark.parametrize(
    ("arity", "end", "kind"), [(2, 40, BITMAP), (2, ID_END, HASHED), (3, 2**20, HASHED), (3, ID_END, WIDE)]
)


@pytest.fixture
def _eager_threads() -> Iterator[None]:
    """Python changes threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_eager_threads")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_random_pipelines_in_any_order(seed: int, shape: tuple[int, int]) -> None:
    backend = simulated(*shape, seed=seed)
    number = 1000 * seed + SHAPES.index(shape)
    case = (any_case, last_probe_case, composition_case)[number % 3](number)
    assert outcome(backend, case, 10_000, 0) == outcome(REFERENCE, case, 1, 0)


@pytest.mark.usefixtures("_eager_threads")
@pytest.mark.parametrize("shape", [(8, 4), (16, 16), (33, 32)], ids=str)
@pytest.mark.parametrize("seed", range(3))
@KINDS
def test_equal_rows_inserted_at_once_in_any_order(
    arity: int, end: int, kind: int, seed: int, shape: tuple[int, int]
) -> None:
    backend = simulated(*shape, seed=seed)
    rng = np.random.default_rng(seed)
    batch = [tuple(int(n) * (end // 40) for n in row) for row in rng.integers(0, 3, (90, arity))]
    keyset = backend.keyset(arity, [(0, end)] * arity, 1 << arity)
    assert keyset.kind == kind
    assert_new(backend, keyset.insert(make_rows(backend, batch, arity), 0, 90), batch, set())
    assert all(flags(keyset.contains(make_rows(backend, batch, arity), 0, 90)))


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Also what is small is divided among the threads."""
    monkeypatch.setattr(emulation, "_PIECE", 256)
    return emulated(threads=4)


@KINDS
def test_threads_insert_the_same_rows(threaded: Backend, arity: int, end: int, kind: int) -> None:
    """200,000 rows, each of which is there a hundred times."""
    count, distinct = 200_000, 1600 if end == 40 else 2000
    wanted = np.arange(distinct, dtype=np.int64)
    for repeat in range(20):
        rng = np.random.default_rng(repeat)
        numbers = rng.integers(0, distinct, count)
        numbers[:distinct] = rng.permutation(distinct)
        columns = [numbers % 40, numbers // 40, numbers % 7][:arity]
        rows = threaded.rows(arity, count)
        rows.append(
            [(column * (1 if end == 40 else end // 60)).astype(np.uint32) for column in columns], count
        )
        keyset = threaded.keyset(arity, [(0, end)] * arity, distinct)
        assert keyset.kind == kind
        new = np.flatnonzero(flags(keyset.insert(rows, 0, count)))
        assert np.array_equal(np.sort(numbers[new]), wanted), "each row once"
        assert not np.any(flags(keyset.insert(rows, 0, count))) and np.all(
            flags(keyset.contains(rows, 0, count))
        )


@pytest.mark.parametrize(
    ("arity", "end", "kind"), [(1, 1 << 20, BITMAP), (2, ID_END, HASHED), (3, ID_END, WIDE)]
)
def test_threads_walk_over_the_same_rows(arity: int, end: int, kind: int) -> None:
    """Every second piece is a copy of the one before, which another thread has begun: they race along it."""
    backend = emulated(threads=2)
    pieces, size = 8 * 2, 1 << 15
    numbers = np.arange(pieces * size // 2, dtype=np.uint32).reshape(-1, 1, size).repeat(2, 1).ravel()
    rows = backend.rows(arity, len(numbers))
    rows.append([numbers] * arity, len(numbers))
    for _ in range(10):
        keyset = backend.keyset(arity, [(0, end)] * arity, len(numbers) // 2)
        assert keyset.kind == kind
        new = np.flatnonzero(flags(keyset.insert(rows, 0, len(numbers))))
        assert len(new) == len(numbers) // 2 == len(np.unique(numbers[new])), "each row once"


def composition(backend: Backend, spread: int) -> tuple[Any, Any, np.ndarray]:
    """A driver and an index: 250,000 candidates of 3,600 pairs, as keys in ascending order."""
    rng = np.random.default_rng(spread)
    left, right = rng.integers(0, 60, (2, 2000)), rng.integers(0, 60, (2, 7500))
    made = []
    for columns in (left, right):
        rows = backend.rows(2, columns.shape[1])
        rows.append([(column * spread).astype(np.uint32) for column in columns], columns.shape[1])
        rows.settle()
        made.append(rows)
    index = backend.index(made[1], (0,), [(0, 60 * spread)] * 2)
    index.build(exact=True)
    reached = np.zeros((60, 60), bool)
    follows = np.zeros((60, 60), bool)
    follows[right[0], right[1]] = True
    for x, y in left.T:
        reached[x] |= follows[y]
    x, z = np.nonzero(reached)
    return made[0], index, (x * spread).astype(np.uint64) << np.uint64(32) | (z * spread).astype(np.uint64)


@pytest.mark.parametrize("sink", [(0, 2), (2, 0, 2), (0, 0, 2, 2)], ids=["pairs", "triples", "wide"])
@pytest.mark.parametrize("spread", [1, 70_000_001], ids=["dense", "spread"])
def test_threads_expand_and_insert_at_once(threaded: Backend, spread: int, sink: tuple[int, ...]) -> None:
    driver, index, wanted = composition(threaded, spread)
    probe = Probe((IndexProbe(index, Domain.ALL, (1,), (write(2),)),))
    places = [sink.index(0), sink.index(2)]
    for _ in range(20):
        keyset = threaded.keyset(len(sink), [(0, 60 * spread)] * len(sink), 5000)
        out = threaded.rows(len(sink), 1 << 20)
        pipeline = Pipeline(Driver(driver, (write(0), write(1))), (probe,), Insert(keyset, sink), 3)
        program = threaded.program(pipeline)
        assert program.run(out, 0, driver.count) is Status.DONE
        x, z = (out.column(place).astype(np.uint64) for place in places)
        assert np.array_equal(np.sort(x << np.uint64(32) | z), wanted)
        assert program.candidates > 200_000
