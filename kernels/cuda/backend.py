"""The CUDA backend: the kernel contract on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuengine.kernels.contract import Backend, Calculator, Pipeline
from gpuengine.kernels.cuda.ahead import RoundsAhead, plan_ahead
from gpuengine.kernels.cuda.calculation import Calculator as DeviceCalculator
from gpuengine.kernels.cuda.columns import mark_first_of_equal, pack_pairs, take_every, unpack_pairs
from gpuengine.kernels.cuda.devices.device import Array, Device, Statistics
from gpuengine.kernels.cuda.keyset import Bounds, KeySet
from gpuengine.kernels.cuda.locator import RowLocator
from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.cuda.program import Program
from gpuengine.kernels.cuda.rowindex import RowIndex
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.cuda.values import ValueMirror
from gpuengine.kernels.primitives import Primitives

_SAMPLE = 1 << 20


class CudaBackend:
    """Rows, sets, indexes and programs on a device; columns are the device's arrays."""

    name = "cuda"
    on_host = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.device_name = device.name
        self.primitives: Primitives | None = CudaPrimitives(device)
        self.calculator: Calculator | None = DeviceCalculator(device)
        self._values = ValueMirror(device)

    def bind_thread(self) -> None:
        """Make the device usable from the calling thread."""
        self.device.bind_thread()

    def statistics(self) -> Statistics:
        """What has been asked of the device so far."""
        return self.device.statistics

    def rows(self, arity: int, capacity: int = 0) -> Rows:
        return Rows(self.device, arity, capacity)

    def keyset(self, arity: int, bounds: Bounds, capacity: int = 0) -> KeySet:
        return KeySet(self.device, arity, bounds, capacity)

    def index(self, rows: Rows, keys: Sequence[int], bounds: Bounds) -> RowIndex:
        return RowIndex(self.device, rows, keys, bounds)

    def locator(self, rows: Rows) -> RowLocator:
        return RowLocator(self.device, rows)

    def program(self, pipeline: Pipeline, stop: np.ndarray | None = None) -> Program:
        return Program(self.device, pipeline, self._values, stop)

    def rounds_ahead(self, pipelines: Sequence[tuple[Pipeline, Rows]]) -> RoundsAhead | None:
        return plan_ahead(self.device, pipelines)

    def column(self, ids: Any) -> Array:
        """A column of ids in the device's memory; not copied if it is there already."""
        if self.device.owns(ids) and ids.dtype == np.uint32:
            return ids
        return self.device.upload(np.asarray(ids, np.uint32))

    def bounds(self, columns: Sequence[Array], count: int) -> list[tuple[int, int]]:
        """For each column the least id and one past the greatest; of at least one row."""
        found = [self.device.least_and_greatest(self.column(column)) for column in columns]
        return [(low, high + 1) for low, high in found]

    def distinct_rows(self, columns: Sequence[Array], count: int) -> tuple[list[Array], int]:
        """The distinct rows, in any order."""
        if not columns:
            return [], min(count, 1)
        device = self.device
        columns = [self.column(column) for column in columns]
        if len(columns) <= 2:
            return self._distinct_pairs(columns, count)
        bounds = self.bounds(columns, count)
        keyset = KeySet(device, len(columns), bounds, count)
        new = keyset.insert_columns(columns, count, device.full(count, 1, np.uint8))
        return self.select(columns, new)

    def select(self, columns: Sequence[Array], mask: Array) -> tuple[list[Array], int]:
        """The rows where `mask` holds."""
        positions = self.device.select(mask)
        return [self.device.gather(self.column(column), positions) for column in columns], len(positions)

    def estimate_distinct(self, rows: Rows, column: int) -> float:
        """About how many distinct ids a column has; exact up to a million rows, from a sample beyond."""
        device = self.device
        step = max(rows.count // _SAMPLE, 1)
        ids = device.empty(rows.count // step, np.uint32)
        device.launch(take_every, len(ids), rows.device_column(column), step, ids)
        keys = device.empty(len(ids), np.uint64)
        device.launch(pack_pairs, len(ids), ids, ids, keys)
        seen = self._count_distinct(device.sort(keys))
        if len(ids) == rows.count or seen < len(ids) // 4:
            return float(seen)
        return float(min(rows.count, seen * (rows.count / len(ids)) ** 0.75))

    def _distinct_pairs(self, columns: Sequence[Array], count: int) -> tuple[list[Array], int]:
        """Distinct rows of one or two columns, by sorting them as 64-bit keys."""
        device = self.device
        keys = device.empty(count, np.uint64)
        device.launch(pack_pairs, count, columns[0], columns[-1], keys)
        keys = device.sort(keys)
        high, low = device.empty(count, np.uint32), device.empty(count, np.uint32)
        device.launch(unpack_pairs, count, keys, high, low)
        flags = device.empty(count, np.uint8)
        device.launch(mark_first_of_equal, count, keys, flags)
        return self.select([high, low][: len(columns)], flags)

    def _count_distinct(self, keys: Array) -> int:
        flags = self.device.empty(len(keys), np.uint8)
        self.device.launch(mark_first_of_equal, len(keys), keys, flags)
        return len(self.device.select(flags))


def open_device(index: int = 0, memory: int | None = None) -> CudaBackend:
    """The backend on a real GPU; raises `DeviceUnavailable` if there is none that can be used."""
    from gpuengine.kernels.cuda.devices.hardware import open_gpu

    return CudaBackend(open_gpu(index, memory))


def device_of(backend: Backend | None) -> Device | None:
    """The device that a backend works on; None if that is the host."""
    return backend.device if isinstance(backend, CudaBackend) else None
