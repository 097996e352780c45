"""The backends that the contract tests run on. A new backend is one more line in `BACKENDS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuengine.kernels import contract
from gpuengine.kernels.contract import Pipeline, Status
from gpuengine.kernels.cpu.backend import CpuBackend
from gpuengine.kernels.cpu.layout import INDEX_HASHED, INDEX_SLOT_COUNT, SLOT_LENGTH, SLOT_WORDS
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.device import HostArrays
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from tests.kernels.cuda.simulator import SimulatedDevice
from tests.kernels.reference import ReferenceBackend

Row = tuple[int, ...]
Bounds = Sequence[tuple[int, int]]

#: One past the greatest id that a column can hold.
ID_END = (1 << 32) - 1


@dataclass(frozen=True)
class Backend:
    """A backend of the contract, and what the tests may ask of it.

    `in_order`: of equal rows the first is the new one, and rows come out in the order of the driver; a
    device promises neither. `is_slow`: a test of it must be small.
    """

    name: str
    kernels: contract.Backend
    in_order: bool = True
    is_slow: bool = False

    @property
    def device(self) -> HostArrays:
        """The device of a CUDA backend."""
        assert isinstance(self.kernels, CudaBackend) and isinstance(self.kernels.device, HostArrays)
        return self.kernels.device

    def rows(self, arity: int, capacity: int = 0) -> Any:
        return self.kernels.rows(arity, capacity)

    def keyset(self, arity: int, bounds: Bounds, capacity: int = 0) -> Any:
        return self.kernels.keyset(arity, bounds, capacity)

    def index(self, rows: Any, keys: Sequence[int], bounds: Bounds) -> Any:
        return self.kernels.index(rows, keys, bounds)

    def program(self, pipeline: Pipeline, stop: np.ndarray | None = None) -> Any:
        return self.kernels.program(pipeline, np.zeros(1, np.int64) if stop is None else stop)

    def output(self, arity: int, room: int) -> Any:
        """Rows that are full after `room` rows."""
        rows = self.kernels.rows(arity, room)
        rows.limit(room)
        return rows


def emulated(threads: int = 2, budget: int | None = None) -> Backend:
    """CUDA kernels compiled for the host and run by its threads."""
    return Backend("cuda-emulated", CudaBackend(EmulatedDevice(threads, budget)), in_order=False)


def simulated(threads: int = 8, block: int = 4, seed: int = 0, budget: int | None = None) -> Backend:
    """CUDA kernels in numba's simulator."""
    device = SimulatedDevice(threads, block, seed, budget)
    return Backend("cuda-simulator", CudaBackend(device), in_order=False, is_slow=True)


REFERENCE = Backend("reference", ReferenceBackend())
CPU = Backend("cpu", CpuBackend())
EMULATED = emulated()
SIMULATED = simulated()
CUDA = (EMULATED, SIMULATED)
BACKENDS = (REFERENCE, CPU, *CUDA)


def distinct_keys(index: Any) -> int:
    """How many keys of an index on the host have rows."""
    if index.header[INDEX_HASHED]:
        return int(index.header[INDEX_SLOT_COUNT])
    return int(np.count_nonzero(index._slots[SLOT_LENGTH::SLOT_WORDS]))


def on(*backends: Backend) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("backend", backends, ids=lambda backend: backend.name)


on_every_backend = on(*BACKENDS)


def given_on(
    *strategies: Any,
    backends: Sequence[Backend] = BACKENDS,
    most: int = 0,
    explicit: Sequence[tuple[Any, ...]] = (),
) -> Callable[[Callable[..., None]], Any]:
    """Like `given` on each of the backends; a slow one gets a twelfth of the examples.

    `most` replaces the number of examples of the profile; `explicit` are arguments of further examples,
    which all backends get.
    """

    def decorate(test: Callable[..., None]) -> Any:
        def on_one_backend(backend: Backend) -> None:
            def check(drawn: tuple[Any, ...]) -> None:
                test(backend, *drawn)

            run = given(st.tuples(*strategies))(check)
            for arguments in explicit:
                run = example(arguments)(run)
            examples = most or settings().max_examples
            settings(max_examples=max(examples // 12, 4) if backend.is_slow else examples)(run)()

        on_one_backend.__name__ = test.__name__
        on_one_backend.__doc__ = test.__doc__
        return on(*backends)(on_one_backend)

    return decorate


def columns_of(rows: Sequence[Row], arity: int) -> list[np.ndarray]:
    matrix = np.array(rows, np.uint32).reshape(len(rows), arity)
    return [np.ascontiguousarray(matrix[:, j]) for j in range(arity)]


def make_rows(backend: Backend, rows: Sequence[Row], arity: int) -> Any:
    """Rows that hold `rows`, all of them beyond the delta."""
    made = backend.rows(arity)
    made.append(columns_of(rows, arity), len(rows))
    return made


def read_rows(rows: Any, arity: int) -> list[Row]:
    if not arity:
        return [()] * rows.count
    return [tuple(map(int, row)) for row in zip(*(rows.column(j) for j in range(arity)), strict=True)]


def flags(mask: Any) -> list[bool]:
    """A mask of the backend as Python values."""
    return [bool(flag) for flag in mask.tolist()]


def assert_new(backend: Backend, mask: Any, batch: Sequence[Row], known: set[Row]) -> None:
    """`mask` marks each row of a batch that was not known, and of equal rows one: the first, if in order."""
    new = flags(mask)
    if backend.in_order:
        assert new == [row not in known and row not in batch[:i] for i, row in enumerate(batch)]
    else:
        marked = [row for row, is_new in zip(batch, new, strict=True) if is_new]
        assert sorted(marked) == sorted(set(batch) - known)


def bounds_of(rows: Sequence[Row], arity: int) -> list[tuple[int, int]]:
    """The least id and one past the greatest, by column; (0, 0) where there is none."""
    if not rows:
        return [(0, 0)] * arity
    return [(min(row[j] for row in rows), max(row[j] for row in rows) + 1) for j in range(arity)]


def filled_set(backend: Backend, rows: Any, arity: int, bounds: Bounds) -> Any:
    """A set that holds all of `rows`."""
    keyset = backend.keyset(arity, bounds, rows.count)
    keyset.insert(rows, 0, rows.count)
    return keyset


def drain(
    program: Any, spans: Sequence[tuple[int, int]], out: Any, arity: int, before: Callable[[list[Row]], None]
) -> list[Row]:
    """Run a program over spans of its driver, emptying `out` whenever it is full.

    `before` is called before each run and resume with the rows that have come out so far.
    """
    found: list[Row] = []
    for start, end in spans:
        before(found)
        status = program.run(out, start, end)
        while True:
            found += read_rows(out, arity)
            out.count = 0
            if status is not Status.FULL:
                break
            before(found)
            status = program.resume(out)
        assert status is Status.DONE
    return found
