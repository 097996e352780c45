"""A GPU's own logic, with a stand-in for CuPy: what it asks for, in which order, with which words."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import DeviceError
from gpuengine.kernels.cuda.columns import gather, pack_pairs
from gpuengine.kernels.cuda.devices import cupy_calls
from gpuengine.kernels.cuda.devices.device import Device
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.devices.hardware import GpuDevice
from gpuengine.kernels.cuda.set_kernels import insert_keys
from tests.kernels.cuda.stand_in import Properties, StandIn, check_words, ids

U4, U8 = np.uint32, np.uint64


# --- the stand-in is like what it stands in for ---


def public_functions(owner: Any) -> dict[str, list[str]]:
    """Names of functions, and of their parameters."""
    found = inspect.getmembers(owner, inspect.isroutine)
    return {
        name: [parameter for parameter in inspect.signature(function).parameters if parameter != "self"]
        for name, function in found
        if not name.startswith("_")
        and getattr(function, "__module__", "") == getattr(owner, "__module__", owner.__name__)
    }


def test_the_stand_in_has_the_functions_of_cupy_calls() -> None:
    real, fake = public_functions(cupy_calls), public_functions(StandIn)
    assert fake == real
    assert len(real) > 20
    assert isinstance(cupy_calls.ERRORS, tuple)
    pools = public_functions(cupy_calls.CupyPool)
    assert pools == public_functions(cupy_calls.RmmPool)
    assert set(pools) <= {name for name in vars(StandIn().pool.__class__) if not name.startswith("_")}
    assert {*inspect.signature(cupy_calls.DeviceProperties).parameters} == {
        *inspect.signature(Properties).parameters
    }


# --- launches ---


def test_a_launch_passes_the_count_and_one_word_for_each_parameter(gpu: GpuDevice, calls: StandIn) -> None:
    source, rows = gpu.upload(ids(10, 11, 12, 13)), gpu.upload(ids(3, 0))
    out = gpu.empty(2, U4)
    gpu.launch(gather, 2, source, rows, out)
    assert gpu.download(out).tolist() == [13, 10]
    (launch,) = calls.launches
    assert (launch.kernel, launch.blocks, launch.threads) == ("gather", 1, 256)
    assert [type(word) for word in launch.words[:1]] == [np.int64]
    assert launch.words == [2, source, rows, out]


def test_scalars_are_passed_as_words_of_the_declared_type(gpu: GpuDevice, calls: StandIn) -> None:
    """An unsigned scalar that a signed word could not hold."""
    keys = gpu.upload(np.array([5, 6, 5], U8))
    table = gpu.full(8, 2**64 - 1, U8)
    keep, new = gpu.full(3, 1, np.uint8), gpu.empty(3, np.uint8)
    gpu.launch(insert_keys, 3, table, 7, keys, keep, new)
    assert sorted(gpu.download(table).tolist())[:2] == [5, 6]
    assert sum(gpu.download(new).tolist()) == 2
    words = calls.launches[0].words
    scalars = [
        type(word) for word, code in zip(words[1:], insert_keys.signature, strict=True) if "*" not in code
    ]
    assert scalars == [
        {"u8": np.uint64, "i8": np.int64}[code] for code in insert_keys.signature if "*" not in code
    ]


def test_the_stand_in_refuses_wrong_words(gpu: GpuDevice) -> None:
    column, keys = gpu.empty(4, U4), gpu.empty(4, U8)
    check_words(gather, [column, column, column])
    for wrong in (
        [column, column],
        [column, column, 1],
        [column, keys, column],
        [column, column, column[::2]],
    ):
        with pytest.raises(AssertionError):
            check_words(gather, wrong)
    words = [keys, np.uint64(7), keys, gpu.empty(4, np.bool_), gpu.empty(4, np.uint8)]
    check_words(insert_keys, words)
    for wrong_scalar in (7, np.int64(7), np.uint32(7)):
        with pytest.raises(AssertionError):
            check_words(insert_keys, [keys, wrong_scalar, *words[2:]])


def test_slices_are_passed_where_they_start(gpu: GpuDevice) -> None:
    column = gpu.upload(ids(*range(10)))
    keys = gpu.empty(3, U8)
    gpu.launch(pack_pairs, 3, column[2:5], column[5:8], keys)
    assert gpu.download(keys).tolist() == [(2 << 32) | 5, (3 << 32) | 6, (4 << 32) | 7]


@pytest.mark.parametrize(
    ("items", "blocks"), [(1, 1), (256, 1), (257, 2), (4096, 16), (4097, 16), (1_000_000, 16)]
)
def test_the_grid_covers_the_items_up_to_what_the_device_holds(
    gpu: GpuDevice, calls: StandIn, items: int, blocks: int
) -> None:
    """Two multiprocessors with eight blocks each; every thread goes on to further items."""
    column = gpu.full(items, 0, U4)
    gpu.launch(gather, items, column, column, gpu.empty(items, U4))
    assert calls.launches[0].blocks == blocks


def test_nothing_is_launched_over_no_items(gpu: GpuDevice, calls: StandIn) -> None:
    gpu.launch(gather, 0, *[gpu.empty(0, U4)] * 3)
    assert not calls.launches
    assert gpu.statistics.launches == 0


def test_a_host_array_is_not_launched_with(gpu: GpuDevice) -> None:
    column = gpu.upload(ids(1))
    with pytest.raises(TypeError, match=r"kernel gather takes u4\*, not ndarray"):
        gpu.launch(gather, 1, column, ids(0), column)
    with pytest.raises(ValueError, match="argument"):
        gpu.launch(gather, 1, column, column)


# --- library operations, and what is counted ---


def use_everything(device: Device) -> list[Any]:
    """Every operation once or twice, with its results."""
    column = device.upload(ids(5, 1, 4, 1))
    keys = device.upload(np.array([7, 2**63, 3], U8))
    target = device.full(6, 9, U4)
    device.copy(target[1:5], column)
    out = device.gather(column, device.upload(ids(2, 2)))
    spilled = device.spill(column)
    results = [
        device.sort(keys),
        device.sort(device.empty(0, U8)),
        device.offsets(column),
        device.offsets(device.empty(0, U4)),
        device.select(device.upload(np.array([0, 3, 0, 1], np.uint8))),
        device.select(device.empty(0, np.uint8)),
        target,
        out,
        device.restore(spilled),
        device.full(0, 1, U4),
    ]
    read = [device.download(array).tolist() for array in results]
    return [*read, [array.dtype for array in results], device.least_and_greatest(column)]


def test_operations_give_and_count_what_they_do_in_emulation(gpu: GpuDevice) -> None:
    emulated = EmulatedDevice(1)
    assert use_everything(gpu) == use_everything(emulated)
    ours, theirs = gpu.statistics, emulated.statistics
    assert ours.items == theirs.items
    assert (ours.launches, ours.syncs) == (theirs.launches, theirs.syncs)
    assert (ours.uploaded, ours.downloaded) == (theirs.uploaded, theirs.downloaded)
    assert ours.peak_bytes > 0


def test_the_host_waits_as_often_as_is_counted(gpu: GpuDevice, calls: StandIn) -> None:
    use_everything(gpu)
    # A selection of nothing is counted and has nothing to wait for.
    assert calls.waits == gpu.statistics.syncs - 1


def test_nothing_waits_but_reading(gpu: GpuDevice, calls: StandIn) -> None:
    column = gpu.upload(ids(1, 2, 3))
    target = gpu.full(3, 0, U4)
    gpu.copy(target, column)
    gpu.sort(column)
    gpu.offsets(column)
    gpu.restore(gpu.spill(gpu.gather(column, target)))
    assert calls.waits == 0
    assert gpu.read(target).tolist() == [1, 2, 3]
    assert calls.waits == 1


def test_concurrency_is_the_threads_that_fit(gpu: GpuDevice) -> None:
    assert gpu.concurrency == 2 * 2048
    assert gpu.name == "Stand-in"


def test_only_arrays_of_this_device_in_a_kernels_form_are_its_own(calls: StandIn) -> None:
    calls.properties = [Properties(), Properties()]
    first, second = GpuDevice(0, None, calls), GpuDevice(1, None, calls)
    array = second.upload(ids(1, 2, 3, 4))
    assert second.owns(array)
    assert second.owns(array[1:3])
    assert not second.owns(array[::2])
    assert not first.owns(array)
    assert not second.owns(ids(1))


# --- errors ---


def test_an_error_names_the_kernels_since_the_device_was_last_heard_of(
    gpu: GpuDevice, calls: StandIn
) -> None:
    calls.failing_kernels = {"pack_pairs"}
    column, keys = gpu.full(4, 0, U4), gpu.empty(4, U8)
    gpu.launch(gather, 4, column, column, gpu.empty(4, U4))
    gpu.read(column)
    gpu.launch(pack_pairs, 4, column, column, keys)
    gpu.launch(gather, 4, column, column, column)
    gpu.launch(gather, 4, column, column, column)
    with pytest.raises(DeviceError, match=r"GPU 0 \(Stand-in\) failed: cudaErrorIllegalAddress") as caught:
        gpu.read(keys)
    assert caught.value.kernels == "pack_pairs, gather ×2"


def test_the_kernels_that_an_error_names_are_bounded(gpu: GpuDevice, calls: StandIn) -> None:
    calls.failing_kernels = {"gather"}
    column, keys = gpu.full(4, 0, U4), gpu.empty(4, U8)
    for _ in range(100):
        gpu.launch(pack_pairs, 4, column, column, keys)
    gpu.launch(gather, 4, column, column, column)
    with pytest.raises(DeviceError) as caught:
        gpu.select(column)
    assert caught.value.kernels == "pack_pairs ×15, gather"


# --- threads ---


def test_a_thread_is_bound_before_it_uses_the_device(gpu: GpuDevice) -> None:
    seen: list[Any] = []

    def work(bind: bool) -> None:
        if bind:
            gpu.bind_thread()
        try:
            seen.append(gpu.download(gpu.upload(ids(7))).tolist())
        except AssertionError as error:
            seen.append(str(error))

    for bind in (False, True):
        thread = threading.Thread(target=work, args=(bind,))
        thread.start()
        thread.join()
    assert seen == ["this thread was not bound to the device", [7]]
