"""The stop flag ends a run early, and a run that was not stopped does not see it."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    Collect,
    Comparator,
    Compare,
    Domain,
    Driver,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Representation,
    Scan,
    Status,
    write,
)
from tests.kernels.backends import CPU, Backend, emulated, make_rows, on, on_every_backend

COUNT = 1 << 17
#: A run on a device ends between two chunks.
EMULATED = emulated()
EMULATED.device.chunk_items = 1 << 16


def shapes(backend: Backend) -> dict[str, Pipeline]:
    """Each has 2**34 bindings and keeps none of them."""
    rows = backend.rows(2)
    rows.append([np.zeros(COUNT, np.uint32), np.arange(COUNT, dtype=np.uint32)], COUNT)
    rows.settle()
    index = backend.index(rows, (0,), [(0, 1), (0, COUNT)])
    index.build(exact=True)
    everything = backend.keyset(2, [(0, 1), (0, COUNT)], COUNT)
    everything.insert(rows, 0, COUNT)
    probe = Probe((IndexProbe(index, Domain.ALL, (0,), (write(2),)),))
    never = Compare(Comparator.NOT_EQUAL, Representation.BY_ID, 0, 0)
    scan = Scan(rows, Domain.ALL, (write(2), write(3)))
    driver = Driver(rows, (write(0), write(1)))
    operations: dict[str, tuple[Operation, ...]] = {"scan": (scan, never), "probe": (probe, never)}
    found = {name: Pipeline(driver, steps, Collect((1,)), 4) for name, steps in operations.items()}
    found["one driver row"] = Pipeline(
        driver, (scan, Scan(rows, Domain.ALL, (-1, write(4))), never), Collect((1,)), 5
    )
    found["composition"] = Pipeline(driver, (probe,), Insert(everything, (0, 2)), 4)
    return found


@pytest.mark.parametrize("shape", ["scan", "probe", "composition", "one driver row"])
@on(CPU, EMULATED)
def test_a_flag_set_by_another_thread_stops_the_run(backend: Backend, shape: str) -> None:
    stop = np.zeros(1, np.int64)
    program = backend.program(shapes(backend)[shape], stop)
    out = backend.rows(len(program.pipeline.sink.registers))
    timer = threading.Timer(0.1, lambda: stop.__setitem__(0, 1))
    timer.start()
    started = time.process_time()
    assert program.run(out, 0, 1 if shape == "one driver row" else COUNT) is Status.STOPPED
    assert time.process_time() - started < 10
    assert out.count == 0


@on_every_backend
def test_a_flag_that_is_set_already_lets_nothing_through(backend: Backend) -> None:
    numbers = make_rows(backend, [(0, i) for i in range(20)], 2)
    out = backend.rows(1)
    pipeline = Pipeline(Driver(numbers, (write(0), write(1))), (), Collect((1,)), 2)
    assert backend.program(pipeline, np.ones(1, np.int64)).run(out, 0, 10) is Status.STOPPED
    assert out.count == 0
    assert backend.program(pipeline).run(out, 0, 10) is Status.DONE
    assert out.count == 10


@on(CPU, EMULATED)
def test_a_run_that_waits_for_room_can_be_stopped(backend: Backend) -> None:
    numbers = make_rows(backend, [(0, i) for i in range(100)], 2)
    stop = np.zeros(1, np.int64)
    program = backend.program(Pipeline(Driver(numbers, (write(0), write(1))), (), Collect((1,)), 2), stop)
    out = backend.output(1, 16)
    assert program.run(out, 0, 100) is Status.FULL
    stop[0] = 1
    out.count = 0
    assert program.resume(out) is Status.STOPPED
