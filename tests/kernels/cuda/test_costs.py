"""What a pipeline asks of a device: waits of the host and launches, as upper bounds. A needless one fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    IGNORE,
    Collect,
    Contains,
    Domain,
    Driver,
    Exists,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Status,
    write,
)
from tests.kernels.backends import ID_END, Backend, emulated


@dataclass(frozen=True)
class Cost:
    syncs: int
    launches: int
    uploaded: int
    downloaded: int


class Meter:
    """Counts what happens on a device from now on."""

    def __init__(self, backend: Backend) -> None:
        self._now = backend.device.statistics
        self._before = self._snapshot()

    def _snapshot(self) -> Cost:
        now = self._now
        return Cost(now.syncs, now.launches, now.uploaded, now.downloaded)

    def read(self) -> Cost:
        then, now = self._before, self._snapshot()
        return Cost(
            now.syncs - then.syncs,
            now.launches - then.launches,
            now.uploaded - then.uploaded,
            now.downloaded - then.downloaded,
        )


@pytest.fixture
def backend() -> Backend:
    return emulated()


def relation(backend: Backend, count: int, spread: int = 1) -> Any:
    """(i, i // 2) in both halves of the ids."""
    rows = backend.rows(2, count)
    numbers = np.arange(count, dtype=np.uint32)
    rows.append([numbers * np.uint32(spread), numbers // np.uint32(2) * np.uint32(spread)], count)
    rows.settle()
    return rows


def index_of(backend: Backend, rows: Any, end: int) -> Any:
    index = backend.index(rows, (1,), [(0, end)] * 2)
    index.build(exact=False)
    return index


def cost_of(backend: Backend, driver: Any, operations: tuple[Operation, ...], sink: Insert | Collect) -> Cost:
    out = backend.rows(len(sink.registers), 1 << 14)
    program = backend.program(Pipeline(Driver(driver, (write(0), write(1))), operations, sink, 4))
    meter = Meter(backend)
    assert program.run(out, 0, driver.count) is Status.DONE
    assert out.count > 0
    return meter.read()


@pytest.mark.parametrize("end", [1000, ID_END], ids=["bitmap", "hashed"])
def test_two_atoms_wait_once(backend: Backend, end: int) -> None:
    """For the number of candidates together with that of new rows; nothing but those numbers moves.

    The launches are: look up, scan, set the counter, and the kernel that does all the rest.
    """
    rows = relation(backend, 1000)
    probe = Probe((IndexProbe(index_of(backend, rows, 1000), Domain.ALL, (0,), (write(2),)),))
    keyset = backend.keyset(2, [(0, end)] * 2, 1 << 14)
    cost = cost_of(backend, rows, (probe,), Insert(keyset, (2, 1)))
    assert cost.syncs <= 1 and cost.launches <= 4
    assert cost.uploaded == 0 and cost.downloaded <= 16


def test_nothing_to_join_waits_once(backend: Backend) -> None:
    """That there are no candidates is learnt from the kernel that would expand them."""
    rows, empty = relation(backend, 1000), relation(backend, 0)
    probe = Probe((IndexProbe(index_of(backend, empty, 1000), Domain.ALL, (0,), (write(2),)),))
    keyset = backend.keyset(2, [(0, 1000)] * 2, 1 << 14)
    out = backend.rows(2, 1 << 14)
    pipeline = Pipeline(Driver(rows, (write(0), write(1))), (probe,), Insert(keyset, (2, 1)), 4)
    program = backend.program(pipeline)
    meter = Meter(backend)
    assert program.run(out, 0, rows.count) is Status.DONE and out.count == 0
    assert meter.read().syncs <= 1 and meter.read().launches <= 4


def test_a_copy_waits_for_nothing_but_the_new_rows(backend: Backend) -> None:
    rows = relation(backend, 1000)
    keyset = backend.keyset(2, [(0, ID_END)] * 2, 1 << 14)
    cost = cost_of(backend, rows, (), Insert(keyset, (1, 0)))
    assert cost.syncs <= 1 and cost.launches <= 9
    assert cost.uploaded == cost.downloaded == 0


def test_filters_wait_for_nothing(backend: Backend) -> None:
    """A negated atom and an existence test mark; only the expansions and the sink wait."""
    rows = relation(backend, 1000)
    index = index_of(backend, rows, 1000)
    held = backend.keyset(2, [(0, 1000)] * 2, 2000)
    held.insert(rows, 0, rows.count)
    operations = (
        Contains(held, (1, 0), negated=True),
        Exists(IndexProbe(index, Domain.ALL, (1,), (IGNORE,))),
    )
    cost = cost_of(backend, rows, operations, Insert(backend.keyset(2, [(0, ID_END)] * 2, 1 << 14), (1, 0)))
    assert cost.syncs <= 1 and cost.uploaded == cost.downloaded == 0


def test_three_atoms_wait_once_for_each_join_and_once_for_the_new_rows(backend: Backend) -> None:
    rows = relation(backend, 1000)
    index = index_of(backend, rows, 1000)
    operations = (
        Probe((IndexProbe(index, Domain.ALL, (0,), (write(2),)),)),
        Probe((IndexProbe(index, Domain.ALL, (2,), (write(3),)),)),
    )
    cost = cost_of(backend, rows, operations, Insert(backend.keyset(2, [(0, ID_END)] * 2, 1 << 14), (3, 1)))
    assert cost.syncs <= 3 and cost.launches <= 12
    assert cost.uploaded == 0 and cost.downloaded <= 24


def test_an_index_is_brought_up_to_date_without_waiting(backend: Backend) -> None:
    rows = relation(backend, 1000)
    index = index_of(backend, rows, 1000)
    for _ in range(5):
        rows.append(relation(backend, 100).device_columns(), 100)
        rows.advance()
        meter = Meter(backend)
        assert index.ensure()
        cost = meter.read()
        assert cost.syncs == 0 and cost.uploaded == cost.downloaded == 0 and cost.launches <= 12
    meter = Meter(backend)
    assert index.ensure()
    assert meter.read() == Cost(0, 0, 0, 0), "there is nothing to do"


def test_growing_and_filling_a_set_moves_nothing(backend: Backend) -> None:
    rows = relation(backend, 1000, spread=4_000_000)
    for arity in (1, 2):
        keyset = backend.keyset(arity, [(0, ID_END)] * arity, 16)
        meter = Meter(backend)
        keyset.reserve(1000, rows)
        assert meter.read().syncs == 0 and meter.read().uploaded == meter.read().downloaded == 0


def test_columns_are_copied_to_the_host_once(backend: Backend) -> None:
    rows = relation(backend, 1000)
    meter = Meter(backend)
    for _ in range(3):
        rows.columns()
    assert meter.read() == Cost(2, 0, 0, 8000)
    other = backend.rows(2)
    meter = Meter(backend)
    other.append(rows.device_columns(), 1000)
    assert meter.read().syncs == 0 and meter.read().uploaded == 0
