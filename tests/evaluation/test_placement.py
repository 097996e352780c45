"""Where a stratum begins, when it moves, and what that costs: the decisions alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from gpuengine.evaluation.placement.accelerator import Accelerator
from gpuengine.evaluation.placement.placement import Placement
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import Backend, DeviceMemoryError, DeviceUnavailable
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.table import Table
from tests.evaluation.accelerator import Accelerator as Device

LIMITS = Thresholds(
    auto_facts=100,
    small_delta=10,
    large_delta=50,
    round_microseconds=30.0,
    transfer_bytes_per_microsecond=8.0,
    rebuild_rows_per_microsecond=2.0,
)


def table(name: str, facts: int, backend: Backend = CPU) -> Table:
    made = Table(name, 2, backend)
    made.insert([np.arange(facts, dtype=np.uint32)] * 2, facts)
    return made


@pytest.mark.parametrize(
    ("always", "sizes", "where"),
    [
        (False, [99], "cpu"),
        (False, [100], "fake"),
        (False, [40, 59], "cpu"),
        (False, [40, 60], "fake"),
        (False, [], "cpu"),
        (True, [1], "fake"),
        (True, [0], "fake"),
    ],
)
def test_where_a_stratum_begins(always: bool, sizes: Sequence[int], where: str) -> None:
    tables = [table(f"t{k}", size) for k, size in enumerate(sizes)]
    placement = Placement(Accelerator(Device(), LIMITS), always=always)
    assert placement.begin(tables).name == where == placement.current.name
    assert all(each.backend is placement.current for each in tables)
    assert placement.moves == 0


def test_without_an_accelerator_there_is_nothing_to_decide() -> None:
    placement = Placement()
    assert not placement.is_active
    large = table("t", 2_000_000)
    assert placement.begin([large]) is CPU and placement.before_round([large], 1_000_000) is CPU
    assert placement.largest_host_delta > 1 << 40


# Leaving with a table of 100 facts costs 100 * 8 / 8 to copy and 100 / 2 to rebuild: five rounds of 30.
@pytest.mark.parametrize(
    ("begins", "deltas", "where"),
    [
        ("cpu", [1, 49, 49], "hhh"),
        ("cpu", [49, 50, 49], "hdd"),
        ("fake", [11, 11, 11, 11, 11, 11, 11, 11], "dddddddd"),
        ("fake", [10, 10, 10, 10, 10, 10, 10], "dddddhh"),
        ("fake", [1, 1, 11, 1, 1, 1, 11, 1, 1], "dddddddhh"),
        ("fake", [1, 1, 1, 1, 1, 1, 50, 1, 1, 1, 1, 1, 1], "dddddhddddddh"),
        ("cpu", [60, 1, 1, 1, 1, 1, 1, 60, 60], "ddddddhdd"),
    ],
)
def test_when_a_stratum_moves(begins: str, deltas: Sequence[int], where: str) -> None:
    growing = table("t", 100 if begins == "fake" else 99)
    placement = Placement(Accelerator(Device(), LIMITS))
    assert placement.begin([growing]).name == begins
    found = ""
    for delta in deltas:
        growing.drop_copy()  # as if facts had come since: it does not help on the way back
        found += "h" if placement.before_round([growing], delta) is CPU else "d"
        assert growing.backend is placement.current
    assert found == where
    moved = sum(one != other for one, other in pairwise(found))
    assert placement.moves == moved + (found[0] == "d" and begins == "cpu")


def test_the_cost_of_leaving() -> None:
    device = Device()
    placement = Placement(Accelerator(device, LIMITS), always=True)
    read, written = table("read", 80), table("written", 40)
    placement.begin([read, written])
    assert placement.cost_of_leaving([read, written]) == pytest.approx((80 + 40) / 2), "the host has copies"
    written.insert([np.arange(40, 60, dtype=np.uint32)] * 2, 20)
    assert placement.cost_of_leaving([read, written]) == pytest.approx((80 + 60) / 2 + 60 * 8 / 8)
    assert placement.cost_of_leaving([table("elsewhere", 500)]) == 0


def test_what_is_there_is_not_copied() -> None:
    device = Device()
    placement = Placement(Accelerator(device, LIMITS), always=True)
    facts = table("t", 100)
    placement.begin([facts])
    uploaded = device.counts.uploaded
    assert uploaded == 800
    placement.begin([facts])
    facts.move_to(CPU)
    placement.begin([facts])
    assert device.counts.uploaded == uploaded and device.counts.downloaded == 0


def test_a_device_is_opened_once_and_only_if_it_is_wanted() -> None:
    opened: list[Device] = []

    def opener() -> Backend:
        opened.append(Device())
        return opened[-1]

    accelerator = Accelerator(None, LIMITS, opener)
    placement = Placement(accelerator)
    assert placement.is_active and placement.begin([table("t", 99)]) is CPU
    assert placement.before_round([table("t", 99)], 49) is CPU and not opened
    assert placement.before_round([table("t", 99)], 50) is opened[0]
    assert Placement(accelerator).begin([table("t", 100)]) is opened[0] and len(opened) == 1


def test_a_device_that_can_not_be_opened_is_asked_for_once() -> None:
    asked: list[int] = []

    def opener() -> Backend:
        asked.append(1)
        raise DeviceUnavailable("the driver is too old")

    accelerator = Accelerator(None, LIMITS, opener)
    placement = Placement(accelerator)
    for _ in range(3):
        assert placement.begin([table("t", 1000)]) is CPU
        assert placement.before_round([table("t", 1000)], 1000) is CPU
    assert asked == [1] and accelerator.unavailable == "the driver is too old"
    assert not placement.is_active


def test_too_little_memory_is_no_error_unless_the_accelerator_is_insisted_on() -> None:
    first, second = table("first", 60), table("second", 60)
    placement = Placement(Accelerator(Device(budget=100), LIMITS))
    assert placement.begin([first, second]) is CPU
    assert first.backend is second.backend is CPU and first.device_nbytes == 0
    assert placement.before_round([first, second], 1000) is CPU, "it is not tried again in this stratum"
    assert placement.largest_host_delta > 1 << 40
    assert placement.begin([table("third", 100)]).name == "fake", "but in the next"
    insisting = Placement(Accelerator(Device(budget=100), LIMITS), always=True)
    with pytest.raises(DeviceMemoryError):
        insisting.begin([first, second])


@pytest.mark.parametrize("always", [False, True])
def test_idle_tables_leave_first(always: bool) -> None:
    device = Device(budget=130)
    idle, left_behind, used = table("idle", 60), table("left behind", 40), table("used", 100)
    placement = Placement(Accelerator(device, LIMITS), always=always, idle=lambda: [idle, left_behind, used])
    device.bind_thread()
    idle.move_to(device)
    left_behind.move_to(device)
    left_behind.move_to(CPU)
    assert left_behind.device_nbytes
    assert placement.begin([used]) is device
    assert used.backend is device and idle.backend is left_behind.backend is CPU
    assert idle.device_nbytes == left_behind.device_nbytes == 0 and len(idle) == 60


def test_recovery_drops_what_may_be_wrong() -> None:
    """A set may hold facts that were never stored; programs that were made with it must go as well."""
    device = Device()
    facts, idle = table("t", 100), table("idle", 1)
    placement = Placement(Accelerator(device, LIMITS), always=True, idle=lambda: [facts, idle])
    placement.begin([facts, idle])
    keyset, epoch = facts.keyset, facts.epoch
    facts.rows.advance()
    assert facts.index((0,), growing=True) in facts.indexes
    assert placement.recover([facts]) and idle.backend is CPU
    assert facts.keyset is not keyset and facts.epoch > epoch and facts.indexes == ()
    assert not placement.recover([facts]), "there is nothing more to free"
