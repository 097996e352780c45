"""The kernels of the exchange, emulated and in the simulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpuengine.kernels.contract import ValueTable
from gpuengine.kernels.cuda.devices.device import Device
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.exchange import OnDevice, decode
from tests.exchange.stand_ins import CudaArray
from tests.kernels.cuda.simulator import SimulatedDevice

LIMIT = 1 << 24

on_every_device = pytest.mark.parametrize(
    "make",
    [lambda: EmulatedDevice(threads=2), lambda: SimulatedDevice(seed=7)],
    ids=["emulated", "simulator"],
)


def ids_of(device: Device, array: np.ndarray) -> list[list[int] | None]:
    on_device = OnDevice(device)
    found = on_device.own_ids(on_device.columns(on_device.wrap(CudaArray(array))), LIMIT)
    return [None if ids is None else device.download(ids).tolist() for ids in found]


@on_every_device
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("rows", [0, 1, 2, 31, 32, 33, 100])
def test_own_ids(make: Callable[[], Device], dtype: str, order: str, rows: int) -> None:
    values = np.random.default_rng(rows).integers(0, LIMIT, (rows, 3)).astype(dtype)
    assert ids_of(make(), np.array(values, order=order)) == values.T.tolist()


@on_every_device
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("row", [0, 39, 79])
def test_one_that_is_no_id(make: Callable[[], Device], dtype: str, row: int) -> None:
    values = np.full((80, 4), LIMIT - 1, dtype)
    values[row, 1] = LIMIT
    values[row, 3] = np.iinfo(dtype).max if dtype[0] == "u" else -1
    expected = [LIMIT - 1] * 80
    for array in (values, np.asfortranarray(values)):
        assert ids_of(make(), array) == [expected, None, expected, None]


def test_no_id_among_many_at_once() -> None:
    values = np.arange(100_000)
    device = EmulatedDevice(threads=4)
    assert ids_of(device, values) == [values.tolist()]
    assert ids_of(device, values - 1) == [None]
    assert ids_of(device, values + LIMIT) == [None]


@on_every_device
def test_one_wait_for_all_columns(make: Callable[[], Device]) -> None:
    device = make()
    on_device = OnDevice(device)
    columns = on_device.columns(on_device.wrap(CudaArray(np.arange(30).reshape(6, 5))))
    before = device.statistics.syncs
    on_device.own_ids(columns, LIMIT)
    assert device.statistics.syncs == before + 1
    assert on_device.own_ids([], LIMIT) == []


@on_every_device
@pytest.mark.parametrize("dtype", ["b1", "i1", "u2", "f2", "f4", "i8", "f8"])
def test_what_is_fetched(make: Callable[[], Device], dtype: str) -> None:
    values = np.arange(12).reshape(6, 2).astype(dtype)
    on_device = OnDevice(make())
    for array in (values, np.asfortranarray(values), values[::-2], values[:1], values[:, :1], values[:0]):
        columns = on_device.columns(on_device.wrap(CudaArray(array)))
        fetched = [on_device.fetch(column) for column in columns]
        assert [column.dtype for column in fetched] == [dtype] * array.shape[1]
        assert [column.tolist() for column in fetched] == array.T.tolist()


@on_every_device
def test_gaps_are_copied_and_nothing_else(make: Callable[[], Device]) -> None:
    device = make()
    values = np.arange(12).reshape(6, 2)
    for array, is_shared in ((values, True), (values.T, True), (values[::2], False), (values[:, 0], False)):
        words, strides = device.dense(device.wrap(CudaArray(array)))
        assert np.shares_memory(np.from_dlpack(words), values) == is_shared
        assert strides == tuple(s // 8 for s in (array if is_shared else array.copy()).strides)


@on_every_device
def test_decoding(make: Callable[[], Device]) -> None:
    device = make()
    ids = np.uint32([0, LIMIT - 1, LIMIT, LIMIT + 1])
    tables = {
        "i8": np.int64([-1, 2**62]),
        "u8": np.uint64([2**64 - 1, 2**63]),
        "f8": np.array([0.5, -0.0]),
    }
    for dtype, values in tables.items():
        given = np.uint32([1, 0]) if dtype == "f8" else ids
        expected = values[[1, 0]] if dtype == "f8" else [0, LIMIT - 1, *values]
        out = device.empty(len(given), dtype)
        decode(device, [(device.upload(given), ValueTable(values))], [out])
        assert device.download(out).tolist() == list(expected)


def test_a_table_of_values_goes_to_the_device_once() -> None:
    device = EmulatedDevice(threads=1)
    ids, values = device.upload(np.uint32([0, 1])), ValueTable(np.arange(1_000.0))
    before = device.statistics.uploaded
    decode(device, [(ids, values)] * 3, [device.empty(2, np.float64) for _ in range(3)])
    assert device.statistics.uploaded == before + 8_000
