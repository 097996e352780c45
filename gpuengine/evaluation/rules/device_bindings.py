"""Bindings in a device's memory."""

from __future__ import annotations

from dataclasses import dataclass

from gpuengine.kernels.contract import Array, Backend
from gpuengine.kernels.primitives import Primitives
from gpuengine.language.program import Variable


@dataclass
class DeviceBindings:
    """A table of bindings: for each variable a column of ids on a device, all of `rows` rows."""

    columns: dict[Variable, Array]
    rows: int

    def taken(self, places: Array, primitives: Primitives) -> DeviceBindings:
        """Rows by number, possibly repeated."""
        columns = {variable: primitives.take(column, places) for variable, column in self.columns.items()}
        return DeviceBindings(columns, len(places))

    def selected(self, mask: Array, backend: Backend) -> DeviceBindings:
        """The rows where the mask holds."""
        columns, rows = backend.select(list(self.columns.values()), mask)
        return DeviceBindings(dict(zip(self.columns, columns, strict=True)), rows)
