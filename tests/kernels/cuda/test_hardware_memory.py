"""A GPU's memory and what goes in and out of it, with a stand-in for CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cuda.devices import hardware
from gpuengine.kernels.cuda.devices.hardware import GpuDevice
from gpuengine.kernels.cuda.exchange import OnDevice
from tests.kernels.cuda.stand_in import StandIn, ids

U4, U8 = np.uint32, np.uint64


# --- transfers ---


def test_large_transfers_do_not_go_through_pinned_memory(
    gpu: GpuDevice, calls: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "STAGED_BYTES", 16)
    calls.pinned_limit = 16
    host = np.arange(5, dtype=U4)
    array = gpu.upload(host)
    host[:] = 0
    assert gpu.download(array).tolist() == [0, 1, 2, 3, 4]
    assert gpu.statistics.syncs == 2


def test_an_uploaded_array_may_change_at_once(gpu: GpuDevice) -> None:
    host = ids(1, 2, 3)
    array = gpu.upload(host)
    host[:] = 0
    assert gpu.download(array).tolist() == [1, 2, 3]


def test_a_spilled_array_needs_no_device_memory_and_comes_back(gpu: GpuDevice, calls: StandIn) -> None:
    array = gpu.upload(ids(*range(100)))
    spilled = gpu.spill(array)
    del array
    assert gpu.memory()[0] == 0
    array = gpu.restore(spilled)
    del spilled
    assert gpu.memory()[0] == 400
    assert gpu.download(array).tolist() == list(range(100))


def test_pinned_memory_is_kept_only_while_the_device_uses_it(gpu: GpuDevice, calls: StandIn) -> None:
    array = gpu.upload(ids(1, 2, 3))
    assert calls._pinned_bytes() == 12
    read = gpu.download(array)
    assert calls._pinned_bytes() == 0
    spilled = gpu.spill(array)
    gpu.synchronise()
    restored = gpu.restore(spilled)
    del spilled
    assert calls._pinned_bytes() == 12
    assert gpu.download(restored).tolist() == read.tolist() == [1, 2, 3]
    assert calls._pinned_bytes() == 0


def test_a_spilled_array_may_be_forgotten_at_once(gpu: GpuDevice) -> None:
    gpu.spill(gpu.upload(ids(1, 2)))
    gpu.synchronise()


def test_pinned_memory_in_use_is_bounded_by_waiting(
    gpu: GpuDevice, calls: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "HELD_BYTES", 1000)
    kept = [gpu.upload(ids(*range(25))) for _ in range(25)]
    assert calls.waits == gpu.statistics.syncs == 2
    assert gpu.download(kept[3]).tolist() == list(range(25))


def test_without_pinned_memory_transfers_still_work(gpu: GpuDevice, calls: StandIn) -> None:
    calls.pinned_limit = 0
    array = gpu.restore(gpu.spill(gpu.upload(ids(4, 5))))
    assert gpu.download(array).tolist() == [4, 5]


# --- other libraries' arrays ---


class Foreign:
    """Another library's array on a device."""

    def __init__(self, content: np.ndarray, index: int = 0) -> None:
        self.index = index
        self.__cuda_array_interface__ = {**content.__array_interface__, "content": content}


def test_another_librarys_array_is_used_where_it_is(gpu: GpuDevice, calls: StandIn) -> None:
    theirs = ids(1, 2, 3)
    on_device = OnDevice(gpu)
    assert (calls.waits, gpu.statistics.syncs) == (1, 1)
    (column,) = on_device.columns(on_device.wrap(Foreign(theirs)))
    (found,) = on_device.own_ids([column], 100)
    theirs[0] = 9
    assert gpu.download(found).tolist() == [9, 2, 3]
    assert gpu.address(found) == theirs.ctypes.data
    assert on_device.fetch(column).tolist() == [9, 2, 3]


@pytest.mark.parametrize("order", ["C", "F"])
def test_another_librarys_matrix_becomes_columns(gpu: GpuDevice, order: Any) -> None:
    theirs = np.array([[1, 20], [3, 40], [5, 2**40]], np.int64, order=order)
    on_device = OnDevice(gpu)
    columns = on_device.columns(on_device.wrap(Foreign(theirs)))
    first, second = on_device.own_ids(columns, 100)
    assert gpu.download(first).tolist() == [1, 3, 5]
    assert second is None
    assert on_device.fetch(columns[1]).tolist() == [20, 40, 2**40]


def test_an_array_on_another_gpu_is_refused(gpu: GpuDevice) -> None:
    with pytest.raises(ValueError, match="it is on GPU 1, and the facts are on GPU 0"):
        gpu.wrap(Foreign(ids(1), index=1))


def test_columns_become_a_matrix_for_others(gpu: GpuDevice, calls: StandIn) -> None:
    whole = gpu.upload(ids(1, 2, 3, 4, 5, 6))
    shared = gpu.matrix(whole, 2)
    assert shared.shape == (3, 2)
    assert gpu.address(shared) == gpu.address(whole)
    gpu.wait()
    assert (calls.waits, gpu.statistics.syncs) == (1, 1)


# --- memory ---


def test_memory_is_in_use_as_long_as_a_slice_is(gpu: GpuDevice) -> None:
    part = gpu.full(100, 3, U4)[10:12]
    assert gpu.memory()[0] == 400
    assert gpu.download(part).tolist() == [3, 3]
    del part
    assert gpu.memory()[0] == 0
    assert gpu.statistics.peak_bytes == 400


def test_the_budget_is_most_of_what_is_free_or_what_is_asked_for(calls: StandIn) -> None:
    assert GpuDevice(0, None, calls).memory() == (0, int(0.8 * 2**30))
    assert GpuDevice(0, 1000, calls).memory() == (0, 1000)
    assert calls.pool.limit == 1000


def test_out_of_memory_gives_unused_memory_back_and_tries_again(calls: StandIn) -> None:
    gpu = GpuDevice(0, 1000, calls)
    calls.pool.unused = 900
    array = gpu.empty(200, U4)
    assert calls.pool.unused == 0
    with pytest.raises(DeviceMemoryError) as caught:
        gpu.empty(60, U4)
    assert (caught.value.requested, caught.value.free) == (240, 200)
    del array
    gpu.empty(250, U4)


def test_a_sort_without_room_for_its_workspace_is_out_of_memory(calls: StandIn) -> None:
    gpu = GpuDevice(0, 1000, calls)
    keys = gpu.full(50, 1, U8)
    with pytest.raises(DeviceMemoryError) as caught:
        gpu.sort(keys)
    assert caught.value.requested == 800
    gpu.sort(keys[:30])


class Cold:
    """Memory that can leave the device."""

    def __init__(self, gpu: GpuDevice, nbytes: int) -> None:
        self.gpu = gpu
        self.array = gpu.full(nbytes, 7, np.uint8)
        gpu.spillable.add(self)
        gpu.touch(self)

    def spill(self) -> int:
        if self.array is None:
            return 0
        self.spilled, self.array, freed = self.gpu.spill(self.array), None, self.array.nbytes
        return freed


@pytest.mark.parametrize("operation", ["sort", "offsets", "select"])
def test_cold_memory_leaves_the_device_when_an_operation_needs_room(calls: StandIn, operation: str) -> None:
    gpu = GpuDevice(0, 2000, calls)
    keys = gpu.full(50, 1, {"sort": U8, "offsets": U4, "select": np.uint8}[operation])
    cold = Cold(gpu, 2000 - keys.nbytes - 100)
    result = getattr(gpu, operation)(keys)
    assert cold.array is None
    assert len(gpu.download(result)) == {"sort": 50, "offsets": 51, "select": 50}[operation]
    del keys, result
    assert gpu.download(gpu.restore(cold.spilled)).tolist() == [7] * len(cold.spilled)
