"""Other libraries' device arrays as ids, and ids as arrays of what they stand for.

Integers below a limit are their own ids: such a column never leaves the device, and if it is a vector of
32-bit words already, it is not even copied. Everything else is fetched: the host knows what its ids are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuengine.kernels.contract import DeviceUnavailable, ValueTable
from gpuengine.kernels.cuda.atomics import atomic_or
from gpuengine.kernels.cuda.columns import decode_floats, decode_numbers, decode_unsigned
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.spec import device_kernel
from gpuengine.kernels.cuda.values import ValueMirror

_DECODERS = {"i": decode_numbers, "u": decode_unsigned, "f": decode_floats}


@device_kernel("u8*, i8, i8, i8, i8, u4*, u4*", streamed=20)
def ids_of_words(i, words, first, stride, limit, column, ids, outside):
    """Every `stride`-th 64-bit word from `first` on as an id; one that is no id sets the column's flag."""
    word = words[first + i * stride]
    if word < np.uint64(limit):
        ids[i] = np.uint32(word)
    elif outside[column] == np.uint32(0):
        atomic_or(outside, column, np.uint32(1))


@device_kernel("u4*, i8, i8, i8, i8, u4*, u4*", streamed=12)
def ids_of_half_words(i, words, first, stride, limit, column, ids, outside):
    """The same of 32-bit words."""
    word = words[first + i * stride]
    if np.uint64(word) < np.uint64(limit):
        ids[i] = word
    elif outside[column] == np.uint32(0):
        atomic_or(outside, column, np.uint32(1))


@device_kernel("u4*, i8, i8, u4*", streamed=4)
def check_ids(i, ids, limit, column, outside):
    """Set the column's flag if one of the words that are used in place is no id."""
    if np.uint64(ids[i]) >= np.uint64(limit) and outside[column] == np.uint32(0):
        atomic_or(outside, column, np.uint32(1))


@dataclass(frozen=True, slots=True)
class ForeignColumn:
    """A column in another library's memory: `count` elements of a type, `stride` words apart.

    Words are unsigned and as large as the elements.
    """

    words: Array
    first: int
    stride: int
    count: int
    dtype: np.dtype

    def __len__(self) -> int:
        return self.count

    @property
    def span(self) -> Array:
        """The words from the first element to the last."""
        return self.words[self.first : self.first + max(0, (self.count - 1) * self.stride + 1)]


class ForeignArrays(Protocol):
    """Access to the device arrays of other libraries."""

    def wrap(self, source: Any) -> Array:
        """The array behind an object that offers `__cuda_array_interface__` or DLPack; see `Device.wrap`."""

    def columns(self, array: Array) -> list[ForeignColumn]:
        """The columns of a wrapped array of two dimensions, or the one that an array of one dimension is."""

    def fetch(self, column: ForeignColumn) -> np.ndarray:
        """A copy of a column in host memory."""


class OnDevice:
    """The arrays of other libraries on a device of ours: those that are there when this is made.

    Nobody tells which stream computes an array, so everything that the device has begun is waited for.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        device.wait_for_others()

    def wrap(self, source: Any) -> Array:
        return self.device.wrap(source)

    def columns(self, array: Array) -> list[ForeignColumn]:
        return _columns(array, *self.device.dense(array))

    def fetch(self, column: ForeignColumn) -> np.ndarray:
        return _elements(column, self.device.download(column.span))

    def own_ids(self, columns: Sequence[ForeignColumn], limit: int) -> list[Array | None]:
        """For each column its elements as ids, or None if not all are at least 0 and below `limit`.

        Elements are integers of 32 or 64 bits, signed or not: a negative one is a large word. Waits once for
        all columns.
        """
        if not columns:
            return []
        outside = self.device.full(len(columns), 0, np.uint32)
        found = [self._ids(column, limit, number, outside) for number, column in enumerate(columns)]
        flags = self.device.read(outside)
        return [None if flag else ids for flag, ids in zip(flags, found, strict=True)]

    def _ids(self, column: ForeignColumn, limit: int, number: int, outside: Array) -> Array:
        if column.dtype.itemsize == 4 and column.stride == 1:
            self.device.launch(check_ids, column.count, column.span, limit, number, outside)
            return column.span
        ids = self.device.empty(column.count, np.uint32)
        kernel = ids_of_half_words if column.dtype.itemsize == 4 else ids_of_words
        place = (column.words, column.first, column.stride)
        self.device.launch(kernel, column.count, *place, limit, number, ids, outside)
        return ids


class ByCupy:
    """The arrays of other libraries, by CuPy alone. Raises `DeviceUnavailable` if that can't be used."""

    def __init__(self) -> None:
        try:
            from gpuengine.kernels.cuda.devices import cupy_calls
        except ImportError as error:
            raise DeviceUnavailable(f"CuPy can't be imported ({error})") from error
        self._calls: Any = cupy_calls
        if self._call(cupy_calls.driver_version) == 0:
            raise DeviceUnavailable("no NVIDIA driver was found")

    def wrap(self, source: Any) -> Array:
        array = self._call(self._calls.adopt, source)
        self._call(self._calls.synchronise_device, self._calls.device_of(array))
        return array

    def columns(self, array: Array) -> list[ForeignColumn]:
        return _columns(array, *self._call(self._calls.dense, array))

    def fetch(self, column: ForeignColumn) -> np.ndarray:
        host = np.empty(len(column.span), column.span.dtype)
        self._call(self._calls.receive, column.span, host)
        self._call(self._calls.synchronise_device, self._calls.device_of(column.span))
        return _elements(column, host)

    def send(self, host: np.ndarray) -> Array:
        """A copy of a host array on CuPy's current device; complete, so that any stream may read it."""
        array = self._call(self._calls.empty, len(host), host.dtype)
        self._call(self._calls.send, array, host)
        # On some systems this copy has only begun, and the caller may let go of `host`.
        self._call(self._calls.synchronise_device, self._calls.device_of(array))
        return array

    def _call(self, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except (*self._calls.ERRORS, self._calls.OUT_OF_MEMORY) as error:
            raise DeviceUnavailable(str(error)) from error


def decode(device: Device, columns: Sequence[tuple[Array, ValueTable]], outs: Sequence[Array]) -> None:
    """For columns of ids, with the tables of their values, what the ids stand for. Does not wait.

    `outs` has the arrays to fill, of the type of the table: it says how ids are read.
    """
    mirror = ValueMirror(device)
    for (ids, values), out in zip(columns, outs, strict=True):
        device.launch(_DECODERS[out.dtype.kind], len(ids), ids, mirror.array(values), out)


def _columns(array: Array, words: Array, strides: tuple[int, ...]) -> list[ForeignColumn]:
    """The columns of an array whose elements are these words, in order of memory."""
    count, dtype = array.shape[0], np.dtype(array.dtype)
    # Where there is one element, or none, how far the next is away may be anything.
    stride = strides[0] if count > 1 else 1
    firsts = [0] if array.ndim == 1 else [j * strides[1] for j in range(array.shape[1])]
    return [ForeignColumn(words, first, stride, count, dtype) for first in firsts]


def _elements(column: ForeignColumn, span: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(span[:: column.stride]).view(column.dtype)
