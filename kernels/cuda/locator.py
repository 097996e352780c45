"""`RowLocator` on a device: from the content of a row to its number, and the removal of rows by number."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.keyset import power_of_two
from gpuengine.kernels.cuda.removal_kernels import forget_numbers, locate_rows, move_rows
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.cuda.set_kernels import EMPTY, insert_row_numbers
from gpuengine.kernels.filling import fill_holes

_LEAST_ROOM = 64


class RowLocator:
    """See `contract.RowLocator`. An open-addressing table of row numbers, at most two thirds full.

    What is taken out leaves its slot unused until the table is made anew, which it is when it is full.
    """

    def __init__(self, device: Device, rows: Rows) -> None:
        self.device = device
        self.rows = rows
        self.count = 0
        self._gone = 0
        self._table: Array = device.full(power_of_two(_LEAST_ROOM), EMPTY, np.uint64)

    @property
    def nbytes(self) -> int:
        return int(self._table.nbytes)

    @property
    def _mask(self) -> int:
        return len(self._table) - 1

    def append(self, start: int, end: int) -> None:
        """Add rows [start, end) of its rows; `start` is `count`."""
        assert start == self.count, "rows are added in order"
        if 3 * (end + self._gone) > 2 * len(self._table):
            table = self.device.full(power_of_two(3 * max(end, _LEAST_ROOM)), EMPTY, np.uint64)
            self._table, self._gone, start = table, 0, 0
        rows = self.rows
        self.device.launch(
            insert_row_numbers,
            end - start,
            self._table,
            self._mask,
            rows.data,
            rows.capacity,
            rows.arity,
            start,
        )
        self.count = end

    def locate(self, batch: Rows, start: int, end: int) -> np.ndarray:
        """The numbers of rows [start, end) of `batch`, NONE for those that are not here. Waits."""
        device, rows, count = self.device, self.rows, end - start
        if not count:
            return np.empty(0, np.uint32)
        numbers = device.empty(count, np.uint32)
        columns = batch.data if not start else _side_by_side(batch, start, end)
        device.launch(
            locate_rows,
            count,
            self._table,
            self._mask,
            rows.data,
            rows.capacity,
            columns,
            count if start else batch.capacity,
            rows.arity,
            numbers,
        )
        return device.download(numbers)

    def remove(self, places: np.ndarray) -> None:
        """Take the rows with these numbers out of here and out of its rows."""
        rows = self.rows
        assert self.count == rows.count, "every row is in the locator"
        movers, holes = fill_holes(rows.count, places)
        self._forget(np.asarray(places, np.uint32))
        with rows.pin() as data:
            self.device.launch(
                move_rows,
                len(movers),
                self._table,
                self._mask,
                data,
                rows.capacity,
                rows.arity,
                self.device.upload(movers.astype(np.uint32)),
                self.device.upload(holes.astype(np.uint32)),
            )
        self.count = rows.count = rows.count - len(places)
        rows.settle()

    def truncate(self, start: int) -> None:
        """Take the rows from number `start` on out of here; its rows still hold them, and keep them."""
        if start < self.count:
            self._forget(np.arange(start, self.count, dtype=np.uint32))
            self.count = start

    def _forget(self, numbers: np.ndarray) -> None:
        rows = self.rows
        self.device.launch(
            forget_numbers,
            len(numbers),
            self._table,
            self._mask,
            rows.data,
            rows.capacity,
            rows.arity,
            self.device.upload(numbers),
        )
        self._gone += len(numbers)


def _side_by_side(batch: Rows, start: int, end: int) -> Array:
    """Rows [start, end) of a batch, by column, in one array."""
    device, count = batch.device, end - start
    columns = device.empty(batch.arity * count, np.uint32)
    for j, column in enumerate(batch.device_columns()):
        device.copy(columns[j * count : (j + 1) * count], column[start:end])
    return columns
