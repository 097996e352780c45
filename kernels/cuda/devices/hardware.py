"""A real GPU, through CuPy. Every call of CuPy is in `cupy_calls`; what is decided is decided here."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from importlib.util import find_spec
from itertools import groupby
from types import ModuleType
from typing import Any

import numpy as np

from gpuengine.kernels.contract import DeviceError, DeviceMemoryError, DeviceUnavailable, PackageMissing
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES, symbol
from gpuengine.kernels.cuda.devices.device import Array, Device, Prepared
from gpuengine.kernels.cuda.devices.module_cache import module_file
from gpuengine.kernels.cuda.spec import DeviceKernel

BLOCK = 256
BLOCKS_PER_MULTIPROCESSOR = 8
SHARE_OF_FREE_MEMORY = 0.8
STAGED_BYTES = 1 << 25
"""Transfers up to this size go through pinned memory, so that the device fetches them by itself."""
HELD_BYTES = 1 << 28
"""Pinned memory that transfers under way may keep before the device is waited for."""
REMEMBERED_KERNELS = 16

_SCALARS: dict[str, Callable[[Any], Any]] = {"i8": np.int64, "u8": np.uint64, "f8": np.float64}


class GpuDevice(Device):
    """One GPU with its own stream. `calls` is `cupy_calls`, or what stands in for it.

    CuPy's current device and stream belong to a thread: a thread calls `bind_thread` before anything else.
    The one that makes the device is bound already.

    Pinned memory that the device reads or writes by itself stays in `_held` until the device has been
    waited for. An error shows at such a wait, and then names the kernels begun since the last one.
    """

    def __init__(self, index: int, memory: int | None, calls: Any) -> None:
        super().__init__()
        self.index = index
        self._calls = calls
        properties = calls.device_properties(index)
        self.name = properties.name
        self.capability: tuple[int, int] = properties.capability
        self.concurrency = properties.multiprocessors * properties.threads_per_multiprocessor
        self._most_blocks = properties.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        self._stream = calls.new_stream(index)
        self.bind_thread()
        self.budget = int(calls.free_memory() * SHARE_OF_FREE_MEMORY) if memory is None else memory
        self._pool = calls.open_pool(index, self.budget)
        self._functions: dict[DeviceKernel, Any] = {}
        self._begun: deque[str] = deque(maxlen=REMEMBERED_KERNELS)
        self._held: list[np.ndarray] = []
        self._held_bytes = 0

    def bind_thread(self) -> None:
        self._calls.use(self.index, self._stream)

    def owns(self, array: Any) -> bool:
        calls = self._calls
        return calls.is_array(array) and calls.is_contiguous(array) and calls.device_of(array) == self.index

    def wrap(self, source: Any) -> Array:
        array = self._heard(self._calls.adopt, source)
        found = self._calls.device_of(array)
        if found != self.index:
            raise ValueError(f"it is on GPU {found}, and the facts are on GPU {self.index}")
        return array

    def dense(self, array: Array) -> tuple[Array, tuple[int, ...]]:
        made: tuple[Array, tuple[int, ...]] = self._making_room(
            self._attempt, array.nbytes, self._calls.dense, array
        )
        return made

    def matrix(self, vector: Array, columns: int) -> Array:
        return self._calls.matrix(vector, columns)

    def address(self, array: Array) -> int:
        return int(self._calls.address(array))

    def memory(self) -> tuple[int, int]:
        return self._pool.used(), self.budget

    def synchronise(self) -> None:
        """Wait until everything asked so far is done. Raises `DeviceError` if any of it failed."""
        # Another thread may begin a transfer meanwhile: what it holds goes into the new list.
        done, self._held, self._held_bytes = self._held, [], 0
        self._heard(self._calls.synchronise, self._stream)
        done.clear()
        self._begun.clear()

    def _wait(self) -> None:
        self.synchronise()

    def _wait_for_others(self) -> None:
        self._heard(self._calls.synchronise_device, self.index)

    def _empty(self, count: int, dtype: Any) -> Array:
        array = self._attempt(count * dtype.itemsize, self._calls.empty, count, dtype)
        self.statistics.peak_bytes = max(self.statistics.peak_bytes, self._pool.held())
        return array

    def _fill(self, array: Array, value: int) -> None:
        self._heard(self._calls.fill, array, array.dtype.type(value))

    def _copy(self, target: Array, source: Array) -> None:
        self._heard(self._calls.copy, target, source)

    def _sort(self, keys: Array) -> Array:
        # Room for the result and the workspace: not all versions of CuPy notice when a sort gets none.
        self.empty(2 * keys.nbytes, np.uint8)
        return self._attempt(2 * keys.nbytes, self._calls.sort, keys)

    def _offsets(self, counts: Array) -> Array:
        result = self.empty(len(counts) + 1, np.uint64)
        self._fill(result[:1], 0)
        if len(counts):
            self._attempt(8 * len(counts), self._calls.prefix_sums, counts, result[1:])
        return result

    def _select(self, flags: Array) -> Array:
        if not len(flags):
            return self.empty(0, np.uint32)
        return self._attempt(8 * len(flags), self._calls.positions, flags)

    def _least_and_greatest(self, column: Array) -> tuple[int, int]:
        least, greatest = self._download(self._attempt(64, self._calls.extremes, column))
        return int(least), int(greatest)

    def _spill(self, array: Array) -> Any:
        host = self._pinned(array)
        self._heard(self._calls.receive, array, host)
        self._hold(host)
        return host

    def _restore(self, spilled: Any) -> Array:
        array = self.empty(len(spilled), spilled.dtype)
        self._heard(self._calls.send, array, spilled)
        self._hold(spilled)
        return array

    def _download(self, array: Array) -> np.ndarray:
        staged = array.nbytes <= STAGED_BYTES
        host = self._pinned(array) if staged else np.empty(len(array), array.dtype)
        self._heard(self._calls.receive, array, host)
        self.synchronise()
        return np.array(host) if staged else host

    def _upload(self, host: np.ndarray) -> Array:
        array = self.empty(len(host), host.dtype)
        if host.nbytes > STAGED_BYTES:
            self._heard(self._calls.send, array, host)
            self.statistics.syncs += 1
            self.synchronise()
            return array
        staged = self._pinned(host)
        staged[:] = host
        self._heard(self._calls.send, array, staged)
        self._hold(staged)
        return array

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        self._prepare(kernel, items, args)()

    def _prepare(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> Prepared:
        function = self._functions.get(kernel)
        if function is None:
            path = module_file(kernel, self.capability)
            function = self._heard(self._calls.load_kernel, str(path), symbol(kernel))
            self._functions[kernel] = function
        words = [np.int64(items)]
        for code, argument in zip(kernel.signature, args, strict=True):
            is_array = self._calls.is_array(argument)
            if is_array != code.endswith("*"):
                raise TypeError(f"kernel {kernel.name} takes {code}, not {type(argument).__name__}")
            words.append(argument if is_array else _SCALARS[code](argument))
        blocks = min(-(-items // BLOCK), self._most_blocks)

        def launch() -> None:
            self._begun.append(kernel.name)
            self._heard(self._calls.launch, function, blocks, BLOCK, words)

        return launch

    def _heard(self, call: Callable[..., Any], *args: Any) -> Any:
        """A call that may report an error of the device, its own or one of what was begun before."""
        try:
            return call(*args)
        except self._calls.ERRORS as error:
            kernels = ", ".join(
                f"{name} ×{times}" if times > 1 else name
                for name, times in ((name, len(list(same))) for name, same in groupby(self._begun))
            )
            self._begun.clear()
            raise DeviceError(f"GPU {self.index} ({self.name}) failed: {error}", kernels) from error

    def _attempt(self, nbytes: int, call: Callable[..., Any], *args: Any) -> Any:
        """A call that takes memory. If there is none, what is unused goes back to the device, once."""
        try:
            return self._heard(call, *args)
        except self._calls.OUT_OF_MEMORY:
            self._heard(self._pool.free_unused)
        try:
            return self._heard(call, *args)
        except self._calls.OUT_OF_MEMORY as error:
            raise DeviceMemoryError(nbytes, max(0, self.budget - self._pool.used())) from error

    def _pinned(self, like: Any) -> np.ndarray:
        """A host array of the same length and type, pinned if the system has such memory left."""
        if not len(like):
            return np.empty(0, like.dtype)
        try:
            return self._calls.pinned(len(like), like.dtype)
        except (*self._calls.ERRORS, self._calls.OUT_OF_MEMORY):
            return np.empty(len(like), like.dtype)

    def _hold(self, host: np.ndarray) -> None:
        """Keep host memory that a transfer under way uses."""
        self._held.append(host)
        self._held_bytes += host.nbytes
        if self._held_bytes > HELD_BYTES:
            self.statistics.syncs += 1
            self.synchronise()


def open_gpu(index: int = 0, memory: int | None = None) -> GpuDevice:
    """The GPU with this number, with at most `memory` bytes in use (None: most of what is free now).

    Raises `DeviceUnavailable` with what is missing and what to do about it.
    """
    calls: Any = _cupy_calls()
    _check_driver(calls)
    _check_device(calls, index)
    try:
        return GpuDevice(index, memory, calls)
    except (*calls.ERRORS, calls.OUT_OF_MEMORY) as error:
        raise DeviceUnavailable(f"GPU {index} can't be used: {error}") from error


def _cupy_calls() -> ModuleType:
    for package, wheel in (("cupy", "cupy-cuda13x"), ("numba_cuda", "numba-cuda[cu13]")):
        if find_spec(package) is None:
            raise PackageMissing(
                f"{wheel} is not installed: pip install 'gpuengine[gpu]', or 'gpuengine[gpu12]' for a driver "
                "of CUDA 12"
            )
    try:
        from gpuengine.kernels.cuda.devices import cupy_calls
    except ImportError as error:
        raise DeviceUnavailable(
            f"CuPy is installed but does not load ({error}): pip install --force-reinstall 'gpuengine[gpu]'"
        ) from error
    return cupy_calls


def _check_driver(calls: Any) -> None:
    driver, needed = calls.driver_version(), calls.runtime_version()
    if driver == 0:
        raise DeviceUnavailable(
            "no NVIDIA driver was found: install one, and check that nvidia-smi lists the GPU"
        )
    if driver // 1000 < needed // 1000:
        advice = " or pip install 'gpuengine[gpu12]' instead of 'gpuengine[gpu]'" if driver >= 12000 else ""
        raise DeviceUnavailable(
            f"the NVIDIA driver supports CUDA {_version(driver)}, but the installed CuPy needs CUDA "
            f"{needed // 1000}: update the driver{advice}"
        )


def _check_device(calls: Any, index: int) -> None:
    try:
        found = calls.device_count()
    except calls.ERRORS as error:
        raise DeviceUnavailable(f"no GPU can be used: {error}{_visible_devices()}") from error
    if found == 0:
        raise DeviceUnavailable(f"there is no NVIDIA GPU{_visible_devices()}")
    if not 0 <= index < found:
        numbers = "only GPU 0" if found == 1 else f"GPUs 0 to {found - 1}"
        raise DeviceUnavailable(f"there is no GPU {index}: this machine has {numbers}{_visible_devices()}")
    properties = calls.device_properties(index)
    if properties.capability < ARCHITECTURES[0]:
        has, needs = (".".join(map(str, one)) for one in (properties.capability, ARCHITECTURES[0]))
        raise DeviceUnavailable(
            f"GPU {index} ({properties.name}) has compute capability {has}; kernels need {needs} or later"
        )


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _visible_devices() -> str:
    """What hides devices from this process, if anything does."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"
