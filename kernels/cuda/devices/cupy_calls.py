"""Every call of CuPy (and of RMM, where it is installed): the only module that imports them.

Functions here are thin and decide nothing, so that a test can hold each call against the installed
libraries without a GPU: every value whose methods are called has an annotated type. All of them work
on the calling thread's current device and stream (`use`) and return at once, except where a docstring
says "waits".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import cupy
import cupyx
import numpy as np

OUT_OF_MEMORY: type[MemoryError] = MemoryError
"""What allocation raises: CuPy's `OutOfMemoryError` is one, as is what RMM and Thrust raise."""

ERRORS = (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)
"""What a call raises when the device has failed, now or in anything asked of it before."""


@dataclass(frozen=True)
class DeviceProperties:
    """What the driver says of a device."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    threads_per_multiprocessor: int


# --- devices and streams ---


def driver_version() -> int:
    """The CUDA version that the driver supports, as 1000 × major + 10 × minor; 0 without a driver."""
    version: int = cupy.cuda.runtime.driverGetVersion()
    return version


def runtime_version() -> int:
    """The CUDA version that CuPy was built for, in the same form."""
    version: int = cupy.cuda.runtime.runtimeGetVersion()
    return version


def device_count() -> int:
    """How many devices there are; raises one of `ERRORS` if there are none."""
    found: int = cupy.cuda.runtime.getDeviceCount()
    return found


def device_properties(index: int) -> DeviceProperties:
    """What the driver says of a device."""
    found: dict[str, Any] = cupy.cuda.runtime.getDeviceProperties(index)
    return DeviceProperties(
        found["name"].decode(),
        (found["major"], found["minor"]),
        found["multiProcessorCount"],
        found["maxThreadsPerMultiProcessor"],
    )


def new_stream(index: int) -> cupy.cuda.Stream:
    """A stream of a device that does not wait for the default stream."""
    device: cupy.cuda.Device = cupy.cuda.Device(index)
    device.use()
    return cupy.cuda.Stream(non_blocking=True)


def use(index: int, stream: cupy.cuda.Stream) -> None:
    """Make a device and a stream of it current in the calling thread."""
    device: cupy.cuda.Device = cupy.cuda.Device(index)
    device.use()
    stream.use()


def synchronise(stream: cupy.cuda.Stream) -> None:
    """Waits until everything on the stream is done; raises what went wrong with any of it."""
    stream.synchronize()


def synchronise_device(index: int) -> None:
    """Waits until everything on a device is done, whoever began it."""
    device: cupy.cuda.Device = cupy.cuda.Device(index)
    device.synchronize()


# --- memory ---


def free_memory() -> int:
    """Bytes of the current device that nobody uses."""
    free, _ = cupy.cuda.runtime.memGetInfo()
    return int(free)


class CupyPool:
    """CuPy's own pool, bounded for the current device."""

    def __init__(self, limit: int) -> None:
        pool: cupy.cuda.MemoryPool = cupy.get_default_memory_pool()
        cupy.cuda.set_allocator(pool.malloc)
        pool.set_limit(size=limit)

    def used(self) -> int:
        """Bytes in arrays."""
        pool: cupy.cuda.MemoryPool = cupy.get_default_memory_pool()
        return int(pool.used_bytes())

    def held(self) -> int:
        """Bytes taken from the device, in arrays or kept for the next ones."""
        pool: cupy.cuda.MemoryPool = cupy.get_default_memory_pool()
        return int(pool.total_bytes())

    def free_unused(self) -> None:
        """Give what is in no array back to the device. Waits."""
        pool: cupy.cuda.MemoryPool = cupy.get_default_memory_pool()
        pool.free_all_blocks()


class RmmPool:
    """A pool of RMM's for the current device, shared with everything in the process that uses RMM.

    If somebody has set up one already, it is that one. Else a new one grows up to the limit; like all of
    RMM's it gives nothing back.
    """

    _first_bytes = 1 << 28
    _multiple = 256
    _unlimited = 1 << 63
    _pools: dict[int, tuple[Any, int]] = {}  # noqa: RUF012 - one for each device of the process

    def __init__(self, index: int, limit: int) -> None:
        import rmm.mr
        from rmm.allocators.cupy import rmm_cupy_allocator

        limit -= limit % self._multiple
        if index not in self._pools:
            found = rmm.mr.get_per_device_resource(index)
            is_pool = not isinstance(found, rmm.mr.CudaMemoryResource)
            self._pools[index] = (found, self._unlimited) if is_pool else (None, 0)
        pool, maximum = self._pools[index]
        if limit > maximum:
            device = rmm.mr.CudaMemoryResource()
            first = min(limit, self._first_bytes)
            pool = rmm.mr.PoolMemoryResource(device, initial_pool_size=first, maximum_pool_size=limit)
            self._pools[index] = pool, limit
        self.bounded: rmm.mr.LimitingResourceAdaptor = rmm.mr.LimitingResourceAdaptor(pool, limit)
        rmm.mr.set_per_device_resource(index, self.bounded)
        cupy.cuda.set_allocator(rmm_cupy_allocator)

    def used(self) -> int:
        """Bytes in arrays."""
        return int(self.bounded.get_allocated_bytes())

    held = used

    def free_unused(self) -> None:
        """RMM's pools keep what they have."""


def open_pool(index: int, limit: int) -> CupyPool | RmmPool:
    """The process's pool for the current device, which has this number, with at most `limit` bytes in use."""
    return RmmPool(index, limit) if find_spec("rmm") else CupyPool(limit)


def empty(count: int, dtype: np.dtype) -> cupy.ndarray:
    """An array with any content."""
    return cupy.empty(count, dtype=dtype)


def pinned(count: int, dtype: np.dtype) -> np.ndarray:
    """A host array that the device reads and writes by itself, from CuPy's pool of such memory."""
    array: np.ndarray = cupyx.empty_pinned(count, dtype=dtype)
    return array


def is_array(value: Any) -> bool:
    """Is this a device array?"""
    return isinstance(value, cupy.ndarray)


def device_of(array: cupy.ndarray) -> int:
    """The device that an array is on."""
    device: cupy.cuda.Device = array.device
    return int(device.id)


def is_contiguous(array: cupy.ndarray) -> bool:
    """Is this a vector whose elements are next to each other?"""
    flags: cupy._core.flags.Flags = array.flags
    return array.ndim == 1 and bool(flags.c_contiguous)


def adopt(source: Any) -> cupy.ndarray:
    """A device array that shares memory with another library's, by `__cuda_array_interface__` or DLPack.

    Work on it comes after what its owner's stream holds now.
    """
    if hasattr(source, "__cuda_array_interface__"):
        return cupy.asarray(source)
    return cupy.from_dlpack(source)


def dense(array: cupy.ndarray) -> tuple[cupy.ndarray, tuple[int, ...]]:
    """The elements in order of memory as a vector of unsigned words, and the strides in elements.

    It shares the array's memory if that has no gaps.
    """
    flags: cupy._core.flags.Flags = array.flags
    if not (flags.c_contiguous or flags.f_contiguous):
        array = cupy.ascontiguousarray(array)
        flags = array.flags
    rows_first: cupy.ndarray = array if flags.c_contiguous else array.transpose()
    flat: cupy.ndarray = rows_first.ravel()
    return flat.view(np.dtype(f"u{array.itemsize}")), tuple(step // array.itemsize for step in array.strides)


def matrix(vector: cupy.ndarray, columns: int) -> cupy.ndarray:
    """Columns that follow one another in a vector, as an array (rows, columns) that shares its memory."""
    by_column: cupy.ndarray = vector.reshape(columns, vector.size // columns)
    return by_column.transpose()


def address(array: cupy.ndarray) -> int:
    """Where an array's first element is."""
    memory: cupy.cuda.MemoryPointer = array.data
    return int(memory.ptr)


# --- transfers ---


def send(array: cupy.ndarray, host: np.ndarray) -> None:
    """Copy a host array to the device. From pinned memory the copy is only begun: keep that memory."""
    array.set(host)


def receive(array: cupy.ndarray, host: np.ndarray) -> None:
    """Copy to a host array. Into pinned memory the copy is only begun: keep it, and wait before reading."""
    array.get(out=host, blocking=False)


# --- operations ---


def fill(array: cupy.ndarray, value: Any) -> None:
    """Set every element."""
    array.fill(value)


def copy(target: cupy.ndarray, source: cupy.ndarray) -> None:
    """Copy elements between arrays of one length and type."""
    cupy.copyto(target, source)


def sort(keys: cupy.ndarray) -> cupy.ndarray:
    """The keys in ascending order, by Thrust's radix sort; takes as much again for its workspace."""
    return cupy.sort(keys)


def prefix_sums(counts: cupy.ndarray, out: cupy.ndarray) -> None:
    """The sum of each count and all before it, as uint64."""
    cupy.cumsum(counts, dtype=np.uint64, out=out)


def positions(flags: cupy.ndarray) -> cupy.ndarray:
    """The positions of what is not 0, ascending, as uint32. Waits, to learn how many."""
    found: cupy.ndarray = cupy.flatnonzero(flags)
    return found.astype(np.uint32)


def extremes(column: cupy.ndarray) -> cupy.ndarray:
    """The least and the greatest element."""
    both: cupy.ndarray = cupy.empty(2, dtype=column.dtype)
    cupy.amin(column, out=both[0])
    cupy.amax(column, out=both[1])
    return both


# --- kernels ---


def load_kernel(path: str, symbol: str) -> cupy.RawKernel:
    """A kernel from a file of machine code (cubin) or PTX; the driver reads it at the first launch."""
    module: cupy.RawModule = cupy.RawModule(path=path)
    return module.get_function(symbol)


def launch(kernel: cupy.RawKernel, blocks: int, threads: int, args: Sequence[Any]) -> None:
    """Begin a kernel. Arrays are passed as their addresses, NumPy scalars as what they are."""
    kernel((blocks,), (threads,), tuple(args))
