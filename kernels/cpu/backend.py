"""The CPU as a `Backend`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.contract import Array, Backend, Bounds, Calculator, Pipeline
from gpuengine.kernels.cpu import columns as operations
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.locator import RowLocator
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import KeySet
from gpuengine.kernels.primitives import Primitives


class CpuBackend:
    """The host's processors. It has no state: `CPU` is the only one that is needed."""

    name = "cpu"
    device_name = "cpu"
    on_host = True
    primitives: Primitives | None = CpuPrimitives()
    calculator: Calculator | None = None

    def rows(self, arity: int, capacity: int = 0) -> Rows:
        return Rows(arity, capacity)

    def keyset(self, arity: int, bounds: Bounds, capacity: int = 0) -> KeySet:
        return KeySet(arity, bounds, capacity)

    def index(self, rows: Rows, keys: Sequence[int], bounds: Bounds) -> RowIndex:
        return RowIndex(rows, keys, bounds)

    def locator(self, rows: Rows) -> RowLocator:
        return RowLocator(rows)

    def program(self, pipeline: Pipeline, stop: np.ndarray) -> Program:
        return Program(pipeline, stop)

    def rounds_ahead(self, pipelines: Sequence[tuple[Pipeline, Rows]]) -> None:
        """The host has its own loop, in `rounds`."""

    def column(self, ids: Array) -> np.ndarray:
        """A NumPy array is taken as it is."""
        return np.ascontiguousarray(ids, np.uint32)

    def bounds(self, columns: Sequence[Array], count: int) -> list[tuple[int, int]]:
        return operations.bounds(columns)

    def distinct_rows(self, columns: Sequence[Array], count: int) -> tuple[list[Array], int]:
        """In lexicographic order."""
        return operations.distinct_rows(columns, count)

    def select(self, columns: Sequence[Array], mask: Array) -> tuple[list[Array], int]:
        return operations.select(columns, mask)

    def estimate_distinct(self, rows: Rows, column: int) -> float:
        """Exact up to 65,536 rows, from a sample beyond."""
        return operations.estimate_distinct(rows.column(column))

    def bind_thread(self) -> None:
        """Nothing to do: every thread can use the host's memory."""

    def statistics(self) -> None:
        """The host counts nothing."""


CPU: Backend = CpuBackend()
