"""Objects that look as if their data were on a GPU; it is in host memory, where the emulated device looks."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuengine as ge
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.cuda import devices
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.devices.host_array import HostArray

#: Every stratum runs on the accelerator, and its tables stay there.
ALWAYS = Thresholds(auto_facts=0, small_delta=0)


def accelerator(budget: int | None = None) -> CudaBackend:
    return CudaBackend(EmulatedDevice(threads=1, budget=budget))


def engine(program: str, backend: Any = None) -> ge.Engine:
    """An engine whose rules run on the emulated device."""
    return ge.Engine(program, backend=backend or accelerator(), thresholds=ALWAYS)


def device_of(kb: ge.Engine) -> EmulatedDevice:
    """The emulated device of an engine."""
    backend = kb.options.accelerator.backend
    assert isinstance(backend, CudaBackend) and isinstance(backend.device, EmulatedDevice)
    return backend.device


class CudaArray:
    """An array with nothing but `__cuda_array_interface__`."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        host = self.array.__array_interface__
        return {
            "shape": host["shape"],
            "typestr": host["typestr"],
            "data": (host["data"][0] if self.array.size else 0, False),
            "strides": host["strides"],
            "version": 3,
        }


class DlpackArray:
    """An array with nothing but DLPack, which says that it is on a device of type `kind`."""

    def __init__(self, array: np.ndarray, kind: int = 2) -> None:
        self.array = array
        self.kind = kind

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**{**options, "dl_device": None})


def _content(data: Any) -> np.ndarray:
    """What cuDF would copy, on the device: the elements of an array there, or of a list."""
    return data.content if isinstance(data, HostArray) else np.asarray(data)


class Series:
    """As much of `cudf.Series` as is used."""

    def __init__(self, data: Any) -> None:
        self.arrow = data if isinstance(data, pa.Array | pa.ChunkedArray) else None
        self.array = np.zeros(0) if self.arrow is not None else _content(data)

    @classmethod
    def from_arrow(cls, array: pa.Array) -> Series:
        assert isinstance(array, pa.Array | pa.ChunkedArray)
        return cls(array)

    @property
    def dtype(self) -> np.dtype:
        if self.arrow is None:
            return self.array.dtype
        is_number = pa.types.is_integer(self.arrow.type)
        return np.dtype(self.arrow.type.to_pandas_dtype()) if is_number else np.dtype(object)

    def __len__(self) -> int:
        return len(self.array if self.arrow is None else self.arrow)

    def count(self) -> int:
        return len(self) - (0 if self.arrow is None else self.arrow.null_count)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.kind not in "iuf":
            raise NotImplementedError("strings have no __cuda_array_interface__")
        if self.count() < len(self):
            raise NotImplementedError("nulls make a mask")
        return CudaArray(self.array).__cuda_array_interface__

    def to_arrow(self) -> pa.Array:
        return pa.array(self.array) if self.arrow is None else self.arrow


class DataFrame:
    """As much of `cudf.DataFrame` as is used."""

    def __init__(self, data: dict[Any, Any] | None = None, index: Any = None) -> None:
        self.index = index
        self.data = {
            name: values if isinstance(values, Series) else Series(values)
            for name, values in (data or {}).items()
        }

    @property
    def columns(self) -> list[Any]:
        return list(self.data)

    def __getitem__(self, name: Any) -> Series:
        return self.data[name]


for _class in (Series, DataFrame):
    _class.__module__ = f"cudf.core.{_class.__name__.lower()}"


def install_cudf(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("cudf")
    module.Series, module.DataFrame = Series, DataFrame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cudf", module)


class NoDevice(Exception):
    """What the stand-in for CuPy raises."""


def cupy_stand_in(failure: Exception | None = None, driver: int = 13000) -> SimpleNamespace:
    """As much of `cupy_calls` as is used without a device of ours; `waits` are the numbers of the devices.

    With a `failure` there is no device, or none that has room. A `driver` of 0 is none.
    """
    device = EmulatedDevice(threads=1)
    waits: list[int] = []

    def empty(count: int, dtype: np.dtype) -> Any:
        if failure is not None:
            raise failure
        return device.empty(count, dtype)

    def adopt(source: Any) -> Any:
        if failure is not None:
            raise failure
        return device.wrap(source)

    def send(array: Any, host: np.ndarray) -> None:
        array.content[:] = host

    def receive(array: Any, host: np.ndarray) -> None:
        host[:] = array.content

    return SimpleNamespace(
        ERRORS=(NoDevice,),
        OUT_OF_MEMORY=MemoryError,
        adopt=adopt,
        dense=lambda array: device.dense(array),
        device_of=lambda array: 3,
        driver_version=lambda: driver,
        empty=empty,
        receive=receive,
        send=send,
        synchronise_device=lambda index: waits.append(index),
        waits=waits,
    )


def install_cupy(monkeypatch: pytest.MonkeyPatch, stand_in: SimpleNamespace) -> None:
    monkeypatch.setitem(sys.modules, "gpuengine.kernels.cuda.devices.cupy_calls", stand_in)  # type: ignore[arg-type]
    monkeypatch.setattr(devices, "cupy_calls", stand_in, raising=False)
