"""The bindings under way in a pipeline: one column for each register that is still needed, made when read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device


@dataclass(frozen=True)
class Gathered:
    """A column that is not there yet: the elements of `source` by row number.

    Several columns share one array of row numbers. A filter that needs two of five columns has only
    those made for all candidates, and the others for what passed.
    """

    source: Array
    rows: Array


class Batch:
    """`count` bindings. A register without a column holds its constant in all of them.

    `keep` marks those that have passed the filters so far; None means all.
    """

    def __init__(
        self, device: Device, count: int, columns: dict[int, Array | Gathered], constants: Mapping[int, int]
    ) -> None:
        self.device = device
        self.count = count
        self.columns = columns
        self.constants = constants
        self.keep: Array | None = None

    def column(self, register: int) -> Array:
        """The ids of a register; made on first use."""
        column = self.columns.get(register)
        if column is None:
            column = self.device.full(self.count, self.constants.get(register, 0), np.uint32)
        elif isinstance(column, Gathered):
            column = self.device.gather(column.source, column.rows)
        self.columns[register] = column
        return column

    def mask(self) -> Array:
        """The marks, to clear those that fail."""
        if self.keep is None:
            self.keep = self.device.full(self.count, 1, np.uint8)
        return self.keep

    def take(self, positions: Array, needed: Collection[int]) -> Batch:
        """The bindings at some positions, possibly repeated, with the registers needed."""
        moved: dict[int, Array] = {}
        columns: dict[int, Array | Gathered] = {}
        for register, column in self.columns.items():
            if register not in needed:
                continue
            if isinstance(column, Gathered):
                rows = moved.get(id(column.rows))
                if rows is None:
                    rows = moved[id(column.rows)] = self.device.gather(column.rows, positions)
                columns[register] = Gathered(column.source, rows)
            else:
                columns[register] = Gathered(column, positions)
        return Batch(self.device, len(positions), columns, self.constants)

    def compact(self, needed: Collection[int]) -> Batch:
        """Only the bindings that passed."""
        if self.keep is None:
            return self
        positions = self.device.select(self.keep)
        if len(positions) == self.count:
            self.keep = None
            return self
        return self.take(positions, needed)

    def span(self, start: int, end: int) -> Batch:
        """Some of the bindings, as views."""
        if (start, end) == (0, self.count):
            return self
        columns = {
            register: Gathered(column.source, column.rows[start:end])
            if isinstance(column, Gathered)
            else column[start:end]
            for register, column in self.columns.items()
        }
        part = Batch(self.device, end - start, columns, self.constants)
        part.keep = None if self.keep is None else self.keep[start:end]
        return part
