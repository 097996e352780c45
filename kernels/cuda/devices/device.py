"""What a device offers: arrays, a few library operations on them, and launches.

`hardware.GpuDevice` is a real GPU. `emulated.EmulatedDevice` keeps its arrays in host memory and runs the
same kernels there, as the simulator of the tests does; they share `HostArrays`.

Everything happens in order on one stream. `read` and `download` wait for it: they are the host
synchronisations that `Statistics` counts. All other calls return at once on a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cuda.columns import gather
from gpuengine.kernels.cuda.devices.host_array import CountedMemory, HostArray
from gpuengine.kernels.cuda.spec import DeviceKernel

Array = Any
"""A one-dimensional contiguous array on the device: CuPy's on a GPU, a `HostArray` elsewhere."""


@dataclass
class Statistics:
    """What was asked of a device so far."""

    launches: int = 0
    syncs: int = 0
    uploaded: int = 0
    downloaded: int = 0
    peak_bytes: int = 0
    items: Counter[str] = field(default_factory=Counter)
    """Items by kernel, and elements by library operation."""


Prepared = Callable[[], None]
"""A launch whose arguments are packed: call it as often as you like. Its arrays stay alive with it."""


class Spillable(Protocol):
    """Memory that may leave the device for a while; `last_used` is the device's."""

    last_used: int

    def spill(self) -> int:
        """Leave the device; returns the bytes freed, 0 if it can't now."""


class Device(ABC):
    """One device with one stream; `concurrency` is how many items can be under way at once.

    `chunk_items` bounds what a join expands at once; it halves itself when memory runs out.
    """

    name: str
    concurrency: int
    chunk_items: int = 1 << 24

    def __init__(self) -> None:
        self.statistics = Statistics()
        self.spillable: WeakSet[Spillable] = WeakSet()
        self._clock = count()

    def touch(self, owner: Spillable) -> None:
        """Note that somebody uses this memory now."""
        owner.last_used = next(self._clock)

    def empty(self, count: int, dtype: Any) -> Array:
        """An array with any content. Raises `DeviceMemoryError` when spilling what is cold does not help."""
        return self._making_room(self._empty, count, np.dtype(dtype))

    def _making_room(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Do what takes memory, spilling what is cold until there is enough of it."""
        while True:
            try:
                return operation(*args)
            except DeviceMemoryError:
                cold = sorted(self.spillable, key=lambda owner: owner.last_used)
                if not any(owner.spill() for owner in cold):
                    raise

    def ensure_room(self, nbytes: int) -> None:
        """Raise `DeviceMemoryError` if so much can't be had now."""
        self.empty(nbytes, np.uint8)

    def gather(self, column: Array, rows: Array) -> Array:
        """The elements of a column of ids by row number."""
        out = self.empty(len(rows), np.uint32)
        self.launch(gather, len(rows), column, rows, out)
        return out

    def copy_into(self, target: Array, source: Any) -> None:
        """Copy ids from a device array, or from a host array of any integer type."""
        if not self.owns(source):
            source = self.upload(np.asarray(source, np.uint32))
        self.copy(target, source)

    def bind_thread(self) -> None:  # noqa: B027 - host memory needs nothing
        """Make the device usable from the calling thread."""

    def launch(self, kernel: DeviceKernel, items: int, *args: Any) -> None:
        """Run a kernel's body for every item. Arguments are device arrays (or slices) and integers."""
        if items > 0:
            self.statistics.launches += 1
            self.statistics.items[kernel.name] += items
            self._launch(kernel, items, args)

    def prepare(self, kernel: DeviceKernel, items: int, *args: Any) -> Prepared:
        """A launch to be begun later, and many times; what work it finds `count_work` is told."""
        begin = self._prepare(kernel, items, args)

        def launch() -> None:
            self.statistics.launches += 1
            begin()

        return launch

    def count_work(self, kernel: DeviceKernel, items: int) -> None:
        """Count the items that prepared launches of a kernel have done before the last wait."""
        self.statistics.items[kernel.name] += items

    def read(self, array: Array) -> np.ndarray:
        """A small array's content, after everything before it is done."""
        self.statistics.syncs += 1
        self.statistics.downloaded += array.nbytes
        return self._download(array)

    download = read

    def upload(self, host: np.ndarray) -> Array:
        """A copy of a host array on the device."""
        self.statistics.uploaded += host.nbytes
        return self._upload(np.ascontiguousarray(host))

    def full(self, count: int, value: int, dtype: Any) -> Array:
        """An array of one value."""
        array = self.empty(count, dtype)
        if count:
            self.count_library("fill", count)
            self._fill(array, value)
        return array

    def copy(self, target: Array, source: Array) -> None:
        """Copy elements within the device; the arrays may not overlap."""
        if len(source):
            self.count_library("copy", len(source))
            self._copy(target, source)

    def sort(self, keys: Array) -> Array:
        """The keys in ascending order, as a new array."""
        if not len(keys):
            return self.empty(0, keys.dtype)
        self.count_library("sort", len(keys))
        return self._making_room(self._sort, keys)

    def offsets(self, counts: Array) -> Array:
        """Exclusive prefix sums of uint32 counts as uint64, with the total at the end."""
        self.count_library("scan", len(counts))
        return self._making_room(self._offsets, counts)

    def select(self, flags: Array) -> Array:
        """The positions (uint32) of the flags that are not 0, ascending. Waits, to learn how many."""
        self.count_library("select", len(flags))
        self.statistics.syncs += 1
        return self._making_room(self._select, flags)

    def least_and_greatest(self, column: Array) -> tuple[int, int]:
        """Of a column that is not empty. Waits."""
        self.count_library("reduce", 2 * len(column))
        self.statistics.syncs += 1
        return self._least_and_greatest(column)

    def wait(self) -> None:
        """Wait until everything asked so far is done: due before others use an array of the device."""
        self.statistics.syncs += 1
        self._wait()

    def wait_for_others(self) -> None:
        """Wait until everything begun on the device, by anybody, is done: due before `wrap`."""
        self.statistics.syncs += 1
        self._wait_for_others()

    @abstractmethod
    def wrap(self, source: Any) -> Array:
        """Another library's array on this device as it is: any shape, type and strides; shares its memory.

        `source` offers `__cuda_array_interface__` or DLPack. Raises `ValueError` or `BufferError` if it is
        elsewhere, or has a mask.
        """

    @abstractmethod
    def dense(self, array: Array) -> tuple[Array, tuple[int, ...]]:
        """The elements of a wrapped array in order of memory, and how far apart neighbours are by dimension.

        They come as a vector of unsigned words of their size, which shares memory if there are no gaps.
        """

    @abstractmethod
    def matrix(self, vector: Array, columns: int) -> Array:
        """Columns that follow one another in a vector as an array (rows, columns) that shares its memory."""

    @abstractmethod
    def address(self, array: Array) -> int:
        """Where the first element is."""

    def spill(self, array: Array) -> Any:
        """Copy an array to (pinned) host memory; `restore` brings it back. Dropping it frees its memory."""
        self.statistics.downloaded += array.nbytes
        return self._spill(array)

    def restore(self, spilled: Any) -> Array:
        """A spilled array, on the device again."""
        array = self._restore(spilled)
        self.statistics.uploaded += array.nbytes
        return array

    def count_library(self, operation: str, elements: int) -> None:
        """Count a call of a library operation."""
        self.statistics.launches += 1
        self.statistics.items[operation] += elements

    def _wait(self) -> None:  # noqa: B027 - host memory needs nothing
        """Wait until everything asked so far is done."""

    def _wait_for_others(self) -> None:  # noqa: B027 - host memory needs nothing
        """Wait until everything begun on the device is done."""

    @abstractmethod
    def owns(self, array: Any) -> bool:
        """Is this an array in the device's memory, in the form that kernels take?"""

    @abstractmethod
    def _empty(self, count: int, dtype: Any) -> Array:
        """An array with any content. Raises `DeviceMemoryError`."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Bytes in use by this process, and bytes that may be used in all."""

    @abstractmethod
    def _fill(self, array: Array, value: int) -> None: ...

    @abstractmethod
    def _copy(self, target: Array, source: Array) -> None: ...

    @abstractmethod
    def _sort(self, keys: Array) -> Array: ...

    @abstractmethod
    def _offsets(self, counts: Array) -> Array: ...

    @abstractmethod
    def _select(self, flags: Array) -> Array: ...

    @abstractmethod
    def _least_and_greatest(self, column: Array) -> tuple[int, int]: ...

    @abstractmethod
    def _spill(self, array: Array) -> Any: ...

    @abstractmethod
    def _restore(self, spilled: Any) -> Array: ...

    @abstractmethod
    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None: ...

    def _prepare(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> Prepared:
        """What begins a launch."""
        return lambda: self._launch(kernel, items, args)

    @abstractmethod
    def _download(self, array: Array) -> np.ndarray: ...

    @abstractmethod
    def _upload(self, host: np.ndarray) -> Array: ...


class HostArrays(Device):
    """A device whose memory is the host's: NumPy does what CuPy does on a GPU. `budget` bounds it, if given.

    What is in use is counted by array, from allocation until the array and its slices are collected.
    Kernels get the content of arrays: NumPy's.
    """

    def __init__(self, budget: int | None = None) -> None:
        super().__init__()
        self.budget = budget
        self._in_use = 0

    def launch(self, kernel: DeviceKernel, items: int, *args: Any) -> None:
        super().launch(kernel, items, *_all_plain(kernel, args))

    def prepare(self, kernel: DeviceKernel, items: int, *args: Any) -> Prepared:
        return super().prepare(kernel, items, *_all_plain(kernel, args))

    def owns(self, array: Any) -> bool:
        return isinstance(array, HostArray)

    def wrap(self, source: Any) -> Array:
        if not hasattr(source, "__cuda_array_interface__"):
            return HostArray(np.from_dlpack(source))
        described = _HostDescription(source)
        if 0 in described.shape:
            return HostArray(np.empty(described.shape, described.__array_interface__["typestr"]))
        return HostArray(np.asarray(described))

    def dense(self, array: Array) -> tuple[Array, tuple[int, ...]]:
        if not (array.content.flags.c_contiguous or array.content.flags.f_contiguous):
            array = self._account(np.ascontiguousarray(array.content))
        content = array.content
        flat = (content if content.flags.c_contiguous else content.T).reshape(-1)
        strides = tuple(stride // content.itemsize for stride in content.strides)
        return HostArray(flat.view(f"u{content.itemsize}")), strides

    def matrix(self, vector: Array, columns: int) -> Array:
        return HostArray(vector.content.reshape(columns, -1).T)

    def address(self, array: Array) -> int:
        return int(array.content.ctypes.data)

    def _empty(self, count: int, dtype: Any) -> Array:
        return self._account(np.empty(count, dtype))

    def memory(self) -> tuple[int, int]:
        return self._in_use, self.budget if self.budget is not None else 1 << 62

    def _fill(self, array: Array, value: int) -> None:
        array.content[:] = value

    def _copy(self, target: Array, source: Array) -> None:
        target.content[:] = source.content

    def _sort(self, keys: Array) -> Array:
        result = self._upload(keys.content)
        result.content.sort()
        return result

    def _offsets(self, counts: Array) -> Array:
        result = self.empty(len(counts) + 1, np.uint64)
        result.content[0] = 0
        np.cumsum(counts.content, dtype=np.uint64, out=result.content[1:])
        return result

    def _select(self, flags: Array) -> Array:
        return self._upload(np.flatnonzero(flags.content).astype(np.uint32))

    def _least_and_greatest(self, column: Array) -> tuple[int, int]:
        return int(column.content.min()), int(column.content.max())

    def _spill(self, array: Array) -> Any:
        return np.array(array.content)

    def _restore(self, spilled: Any) -> Array:
        return self._upload(spilled)

    def _download(self, array: Array) -> np.ndarray:
        return np.array(array.content)

    def _upload(self, host: np.ndarray) -> Array:
        result = self.empty(len(host), host.dtype)
        result.content[:] = host
        return result

    def _account(self, content: np.ndarray) -> Array:
        if self.budget is not None and self._in_use + content.nbytes > self.budget:
            raise DeviceMemoryError(content.nbytes, self.budget - self._in_use)
        self._in_use += content.nbytes
        self.statistics.peak_bytes = max(self.statistics.peak_bytes, self._in_use)
        counted = content.view(CountedMemory)
        counted.gone = self.release
        return HostArray(counted)

    def release(self, nbytes: int) -> None:
        """An array of this size is gone."""
        self._in_use -= nbytes


_WORDS = {"u8*": np.uint64, "i8*": np.int64, "f8*": np.float64}


def _all_plain(kernel: DeviceKernel, args: tuple[Any, ...]) -> list[Any]:
    return [_plain(code, argument) for code, argument in zip(kernel.signature, args, strict=True)]


def _plain(code: str, argument: Any) -> Any:
    """What a kernel gets for an argument of a type; refuses what would not do on a GPU.

    As there, a kernel's types say what words of 64 bits are: integers to one, floats to another.
    """
    if isinstance(argument, HostArray) != code.endswith("*"):
        raise TypeError(f"a kernel takes {code}, not {type(argument).__name__}")
    if not isinstance(argument, HostArray):
        return argument
    is_reinterpreted = code in _WORDS and argument.itemsize == 8
    return argument.content.view(_WORDS[code]) if is_reinterpreted else argument.content


class _HostDescription:
    """A `__cuda_array_interface__` whose addresses are the host's, as NumPy reads such descriptions."""

    def __init__(self, source: Any) -> None:
        described = source.__cuda_array_interface__
        if described.get("mask") is not None:
            raise ValueError("an array with a mask")
        self.shape: tuple[int, ...] = described["shape"]
        self.__array_interface__ = {
            key: described[key] for key in ("shape", "typestr", "data", "strides") if key in described
        }
        self.__array_interface__["version"] = 3
        self._source = source
