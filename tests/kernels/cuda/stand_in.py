"""What stands in for `cupy_calls` where there is no GPU: its functions over NumPy, and kernels on the host.

Arrays are of a class that offers only what the backend may use of CuPy's and never turns into a NumPy
array by itself. A launch gets the very words that a `RawKernel` would get, and checks each. Memory is
counted against the pool's limit. Work is done when the stream is waited for, so that pinned memory that was
let go or changed too early shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from weakref import finalize, ref

import numpy as np

from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.kernels.cuda.devices.assemble import symbol
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice, host_kernel
from gpuengine.kernels.cuda.devices.host_array import HostArray
from gpuengine.kernels.cuda.spec import DeviceKernel

_WORDS = {"i8": np.int64, "u8": np.uint64, "f8": np.float64}


class RuntimeFailure(RuntimeError):
    """Stands for CuPy's CUDARuntimeError."""


class DeviceArray:
    """A vector in the device's memory: it can be sliced and asked for its size, type and place, no more."""

    def __init__(self, content: np.ndarray, index: int, allocation: Any = None) -> None:
        self._content = content
        self._allocation = allocation
        self.index = index
        self.dtype, self.nbytes, self.itemsize = content.dtype, content.nbytes, content.itemsize
        self.size, self.shape, self.ndim = content.size, content.shape, content.ndim

    def __len__(self) -> int:
        return len(self._content)

    def __getitem__(self, part: slice) -> DeviceArray:
        if not isinstance(part, slice):
            raise TypeError("an element of a device array is read by `Device.read`")
        return DeviceArray(self._content[part], self.index, self._allocation)

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("a device array does not turn into a host array by itself")


class Allocation:
    """Memory that an array and its slices share; it goes back to the pool with the last of them."""

    def __init__(self, pool: Pool, nbytes: int) -> None:
        pool.take(nbytes)
        finalize(self, pool.give_back, nbytes)


class Stream:
    """Work that was asked for and is not yet done; an error in it shows when it is waited for."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.pending: list[Callable[[], Any]] = []


@dataclass
class Pool:
    """Memory of the device, counted by array; `unused` is held for no array."""

    limit: int
    in_use: int = 0
    unused: int = 0

    def used(self) -> int:
        return self.in_use

    def held(self) -> int:
        return self.in_use + self.unused

    def free_unused(self) -> None:
        self.unused = 0

    def take(self, nbytes: int) -> None:
        if self.held() + nbytes > self.limit:
            raise MemoryError(f"out of memory allocating {nbytes} bytes")
        self.in_use += nbytes

    def give_back(self, nbytes: int) -> None:
        self.in_use -= nbytes


@dataclass(frozen=True)
class Properties:
    name: str = "Stand-in"
    capability: tuple[int, int] = (8, 0)
    multiprocessors: int = 2
    threads_per_multiprocessor: int = 2048


@dataclass
class Launch:
    kernel: str
    blocks: int
    threads: int
    words: list[Any]


@dataclass
class StandIn:
    """The functions of `cupy_calls`, and what a test sets up or looks at."""

    properties: list[Properties] = field(default_factory=lambda: [Properties()])
    driver: int = 13000
    runtime: int = 13020
    free: int = 1 << 30
    pinned_limit: int = 1 << 40
    failing_kernels: set[str] = field(default_factory=set)
    launches: list[Launch] = field(default_factory=list)
    pool: Pool = field(default_factory=lambda: Pool(1 << 40))
    waits: int = 0

    ERRORS = (RuntimeFailure,)
    OUT_OF_MEMORY = MemoryError

    def __post_init__(self) -> None:
        self._current = threading.local()
        self._pinned: list[ref[np.ndarray]] = []

    # --- devices and streams ---

    def driver_version(self) -> int:
        return self.driver

    def runtime_version(self) -> int:
        return self.runtime

    def device_count(self) -> int:
        if not self.properties:
            raise RuntimeFailure("cudaErrorNoDevice: no CUDA-capable device is detected")
        return len(self.properties)

    def device_properties(self, index: int) -> Properties:
        return self.properties[index]

    def new_stream(self, index: int) -> Stream:
        return Stream(index)

    def use(self, index: int, stream: Stream) -> None:
        assert stream.index == index
        self._current.stream = stream

    def synchronise(self, stream: Stream) -> None:
        self.waits += 1
        while stream.pending:
            stream.pending.pop(0)()

    def synchronise_device(self, index: int) -> None:
        assert index == self._stream().index
        self.synchronise(self._stream())

    def _stream(self) -> Stream:
        """The calling thread's; CuPy would use its default stream, unordered with ours, without a word."""
        stream: Stream | None = getattr(self._current, "stream", None)
        if stream is None:
            raise AssertionError("this thread was not bound to the device")
        return stream

    # --- memory ---

    def free_memory(self) -> int:
        self._stream()
        return self.free

    def open_pool(self, index: int, limit: int) -> Pool:
        self.pool = Pool(limit)
        return self.pool

    def empty(self, count: int, dtype: np.dtype) -> DeviceArray:
        stream = self._stream()
        nbytes = count * dtype.itemsize
        allocation = Allocation(self.pool, nbytes)
        return DeviceArray(np.full(nbytes, 0xA5, np.uint8).view(dtype), stream.index, allocation)

    def pinned(self, count: int, dtype: np.dtype) -> np.ndarray:
        if count * dtype.itemsize > self.pinned_limit:
            raise RuntimeFailure("cudaErrorMemoryAllocation: out of memory")
        array = np.empty(count, dtype)
        self._pinned.append(ref(array))
        return array

    def _pinned_bytes(self) -> int:
        """Pinned memory that somebody keeps."""
        return sum(array.nbytes for array in (known() for known in self._pinned) if array is not None)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, DeviceArray)

    def device_of(self, array: DeviceArray) -> int:
        return array.index

    def is_contiguous(self, array: DeviceArray) -> bool:
        return array._content.flags.c_contiguous

    def adopt(self, source: Any) -> DeviceArray:
        return DeviceArray(_EMULATED.wrap(source).content, getattr(source, "index", self._stream().index))

    def dense(self, array: DeviceArray) -> tuple[DeviceArray, tuple[int, ...]]:
        words, strides = _EMULATED.dense(HostArray(array._content))
        return DeviceArray(words.content, array.index, array._allocation), strides

    def matrix(self, vector: DeviceArray, columns: int) -> DeviceArray:
        by_column = _EMULATED.matrix(HostArray(vector._content), columns)
        return DeviceArray(by_column.content, vector.index, vector._allocation)

    def address(self, array: DeviceArray) -> int:
        return _EMULATED.address(HostArray(array._content))

    # --- transfers ---

    def send(self, array: DeviceArray, host: np.ndarray) -> None:
        assert (array.dtype, array.shape) == (host.dtype, host.shape)
        content = array._content
        self._transfer(host, lambda memory: np.copyto(content, memory))

    def receive(self, array: DeviceArray, host: np.ndarray) -> None:
        assert (array.dtype, array.shape) == (host.dtype, host.shape)
        content = array._content
        self._transfer(host, lambda memory: np.copyto(memory, content))

    def _transfer(self, host: np.ndarray, move: Callable[[np.ndarray], None]) -> None:
        """Ordinary memory is copied now, after what came before; pinned memory in the stream's time."""
        stream = self._stream()
        if not any(known() is host for known in self._pinned):
            self.waits -= 1
            self.synchronise(stream)
            move(host)
            return
        memory = ref(host)

        def later() -> None:
            still_there = memory()
            assert still_there is not None, "pinned memory was let go while the device used it"
            move(still_there)

        stream.pending.append(later)

    # --- operations ---

    def _do(self, work: Callable[[], Any]) -> None:
        self._stream().pending.append(work)

    def fill(self, array: DeviceArray, value: Any) -> None:
        assert type(value) is array.dtype.type
        self._do(partial(array._content.fill, value))

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        assert (target.dtype, target.shape) == (source.dtype, source.shape)
        self._do(partial(np.copyto, target._content, source._content))

    def sort(self, keys: DeviceArray) -> DeviceArray:
        """Without room for its workspace it says nothing and sorts nothing, as some versions of CuPy do."""
        result = self.empty(len(keys), keys.dtype)
        with suppress(MemoryError):
            self.empty(len(keys), keys.dtype)
            content, sorted_keys = keys._content, result._content
            self._do(lambda: np.copyto(sorted_keys, np.sort(content)))
        return result

    def prefix_sums(self, counts: DeviceArray, out: DeviceArray) -> None:
        assert out.dtype == np.uint64
        self._do(partial(np.cumsum, counts._content, dtype=np.uint64, out=out._content))

    def positions(self, flags: DeviceArray) -> DeviceArray:
        self.synchronise(self._stream())
        found = np.flatnonzero(flags._content)
        result = self.empty(len(found), np.dtype(np.uint32))
        result._content[:] = found
        return result

    def extremes(self, column: DeviceArray) -> DeviceArray:
        both = self.empty(2, column.dtype)
        self._do(partial(np.amin, column._content, out=both._content[0:1].reshape(())))
        self._do(partial(np.amax, column._content, out=both._content[1:2].reshape(())))
        return both

    # --- kernels ---

    def load_kernel(self, path: str, symbol: str) -> DeviceKernel:
        code = Path(path).read_bytes()
        assert code.startswith(b"\x7fELF")
        assert symbol.encode() in code
        return _KERNELS[symbol]

    def launch(self, kernel: DeviceKernel, blocks: int, threads: int, args: Sequence[Any]) -> None:
        items, *words = args
        self.launches.append(Launch(kernel.name, blocks, threads, list(args)))
        assert type(items) is np.int64
        assert 0 < blocks <= 2**31 - 1
        assert 0 < threads <= 1024
        check_words(kernel, words)
        plain = [word._content if isinstance(word, DeviceArray) else word.item() for word in words]

        def run() -> None:
            if kernel.name in self.failing_kernels:
                raise RuntimeFailure("cudaErrorIllegalAddress: an illegal memory access was encountered")
            host_kernel(kernel)(0, int(items), *plain)

        self._do(run)


_EMULATED = EmulatedDevice(1)
_KERNELS = {symbol(kernel): kernel for kernel in KERNELS.values()}


def check_words(kernel: DeviceKernel, words: Sequence[Any]) -> None:
    """A launch passes one 64-bit word for each parameter, of its type; `RawKernel` itself checks nothing.

    Truth values are bytes, and words of 64 bits the bits of floats where a kernel takes such. An array may
    go to a pointer of another type where it goes to one of its own type as well: such kernels choose between
    the two.
    """
    assert len(words) == len(kernel.signature)
    of_own_type = {
        id(word)
        for word, code in zip(words, kernel.signature, strict=True)
        if isinstance(word, DeviceArray)
        and (
            code == f"{word.dtype.kind}{word.itemsize}*".replace("b", "u")
            or (code[1:], word.itemsize) == ("8*", 8)
        )
    }
    for word, code, name in zip(words, kernel.signature, kernel.parameters, strict=True):
        if code.endswith("*"):
            assert isinstance(word, DeviceArray), f"{name} takes an array"
            assert word._content.flags.c_contiguous, f"{name} takes elements next to each other"
            assert id(word) in of_own_type or not len(word), f"{name} takes {code}, not {word.dtype}"
        else:
            assert type(word) is _WORDS[code], f"{name} takes {code}, not {type(word).__name__}"


def ids(*values: int) -> np.ndarray:
    """A column of ids on the host."""
    return np.array(values, np.uint32)
