"""The layer over CuPy, run against arrays and kernels that do what CuPy's do: each argument in its role."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.cuda.columns import gather
from gpuengine.kernels.cuda.devices import cupy_calls
from gpuengine.kernels.cuda.devices.emulated import host_kernel

MOST_THREADS = 1024


class GpuArray(np.ndarray):
    """NumPy's array with the transfers of CuPy's, whose content is the device's."""

    def __getitem__(self, key: Any) -> Any:
        """An element is an array without dimensions, in the same place."""
        return self[key : key + 1].reshape(()) if isinstance(key, int) else super().__getitem__(key)

    def set(self, host: np.ndarray) -> None:
        self[:] = host

    def get(self, out: np.ndarray, blocking: bool) -> None:
        out[:] = self


def on_gpu(values: Any, dtype: Any = np.uint32) -> GpuArray:
    return np.array(values, dtype).view(GpuArray)


class Kernel:
    """A kernel that runs thread by thread: a thread takes every item that is a grid away from its first."""

    def __init__(self) -> None:
        self.grids: list[tuple[int, int]] = []

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
        (blocks,), (threads,) = grid, block
        assert 0 < threads <= MOST_THREADS, "cudaErrorInvalidConfiguration"
        self.grids.append((blocks, threads))
        items, *words = args
        plain = [np.asarray(word) for word in words]
        for first in range(min(blocks * threads, int(items))):
            for item in range(first, int(items), blocks * threads):
                host_kernel(gather)(item, item + 1, *plain)


@pytest.fixture(autouse=True)
def _numpy_for_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = ("copyto", "sort", "cumsum", "flatnonzero", "amin", "amax")
    found = {name: getattr(np, name) for name in functions}
    found["empty"] = lambda count, dtype: on_gpu([0] * count, dtype)
    monkeypatch.setattr(cupy_calls, "cupy", SimpleNamespace(**found))


@pytest.mark.parametrize(("blocks", "threads"), [(3000, 64), (2000, 256), (1, 1024)])
def test_a_launch_has_so_many_blocks_of_so_many_threads(blocks: int, threads: int) -> None:
    kernel = Kernel()
    source, rows, out = on_gpu([10, 20, 30]), on_gpu([2, 0, 2, 1]), on_gpu([0] * 4)
    cupy_calls.launch(kernel, blocks, threads, [np.int64(4), source, rows, out])
    assert kernel.grids == [(blocks, threads)]
    assert out.tolist() == [30, 10, 30, 20]


def test_what_is_sent_arrives_and_what_is_received_comes_back() -> None:
    array, host = on_gpu([1, 2, 3]), np.array([7, 8, 9], np.uint32)
    cupy_calls.send(array, host)
    assert array.tolist() == host.tolist() == [7, 8, 9]
    array[:] = 5
    cupy_calls.receive(array, host)
    assert host.tolist() == array.tolist() == [5, 5, 5]


def test_a_copy_goes_from_the_source_to_the_target() -> None:
    target, source = on_gpu([1, 2]), on_gpu([3, 4])
    cupy_calls.copy(target, source)
    assert (target.tolist(), source.tolist()) == ([3, 4], [3, 4])
    cupy_calls.fill(target, np.uint32(9))
    assert target.tolist() == [9, 9]


def test_what_the_library_computes() -> None:
    keys = on_gpu([5, 2**64 - 1, 0, 2**63], np.uint64)
    assert cupy_calls.sort(keys).tolist() == [0, 5, 2**63, 2**64 - 1] and keys[0] == 5
    out = on_gpu([0] * 3, np.uint64)
    cupy_calls.prefix_sums(on_gpu([2**32 - 1, 1, 3]), out)
    assert out.tolist() == [2**32 - 1, 2**32, 2**32 + 3]
    places = cupy_calls.positions(on_gpu([0, 1, 0, 3], np.uint8))
    assert places.tolist() == [1, 3] and places.dtype == np.uint32
    least_and_greatest = cupy_calls.extremes(on_gpu([4, 2**32 - 1, 3]))
    assert least_and_greatest.tolist() == [3, 2**32 - 1]
