"""Growable columns of ids in a device's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import numpy as np

from gpuengine.kernels.contract import DeviceMemoryError
from gpuengine.kernels.cuda.devices.device import Array, Device

LEAST_CAPACITY = 16
MANY_ROWS = 1 << 16
"""Rows that grow get room for as many, unless that takes a noticeable part of the memory: pipelines that
stop again and again for more room waste launches."""
_SHARE_OF_MEMORY = 256
MOST_ROWS = (1 << 32) - 2
"""Row numbers have 32 bits; more facts than this are for more than one device."""
_DOUBLING_LIMIT = 1 << 22


class Rows:
    """Rows of ids by column, append-only, in one array: column j begins at ``j * capacity``.

    Life of a row: appended (beyond the delta) → in the delta after `advance` → old after the next.
    Sizes and the delta are known to the host; ids stay on the device until `column` asks for them.
    Rows that nobody has `pinned` may be spilled to host memory when the device runs out; `data`
    brings them back.
    """

    def __init__(self, device: Device, arity: int, capacity: int = 0) -> None:
        self.device = device
        self.arity = arity
        self.delta = (0, 0)
        self.capacity = max(capacity, LEAST_CAPACITY)
        self.pinned = 0
        self.last_used = 0
        self._count = 0
        self._limit = self.capacity
        self._data: Array | None = device.empty(arity * self.capacity, np.uint32)
        self._spilled: Any = None
        self._on_host: dict[int, np.ndarray] = {}
        self._frozen: WeakSet[FrozenRows] = WeakSet()
        device.spillable.add(self)

    @property
    def data(self) -> Array:
        """All columns; valid until the rows grow."""
        self.device.touch(self)
        if self._data is None:
            self._data = self.device.restore(self._spilled)
            self._spilled = None
        return self._data

    @property
    def count(self) -> int:
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        if count != self._count:
            self._on_host.clear()
        self._count = count

    @property
    def room(self) -> int:
        """How many rows may be appended before `reserve` or `limit` moves."""
        return self._limit - self._count

    @property
    def nbytes(self) -> int:
        return 4 * self.arity * self.capacity

    def limit(self, count: int) -> None:
        """Have pipelines stop as FULL at `count` rows, even if there is room for more."""
        self._limit = min(count, self.capacity)

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` rows in all; columns move."""
        if capacity > self.capacity:
            self._resize(capacity)

    def grow(self, extra: int) -> None:
        """Make room for `extra` more rows, and for half of what there is room for now; at least for many."""
        _, memory = self.device.memory()
        many = min(MANY_ROWS, memory // (_SHARE_OF_MEMORY * 4 * max(self.arity, 1)))
        needed = self._count + max(extra, self.capacity // 2, many)
        if needed > self.capacity:
            step = self.capacity if self.capacity < _DOUBLING_LIMIT else self.capacity >> 1
            self._resize(max(needed, self.capacity + step))

    def trim(self) -> None:
        """Give back what is not used, if it is much."""
        if self.capacity > LEAST_CAPACITY and self._count < self.capacity * 3 // 4:
            self._resize(max(self._count, LEAST_CAPACITY))

    def device_column(self, j: int) -> Array:
        """Column `j` of all rows, on the device; valid until the rows grow."""
        return self.data[j * self.capacity : j * self.capacity + self._count]

    def device_columns(self) -> list[Array]:
        return [self.device_column(j) for j in range(self.arity)]

    def column(self, j: int) -> np.ndarray:
        """Column `j` of all rows, copied to the host once until the rows change."""
        if j not in self._on_host:
            if self._data is None:
                # Bringing spilled rows back would take device memory that there may not be.
                self.device.wait()
                start = j * self.capacity
                self._on_host[j] = np.array(self._spilled[start : start + self._count])
            else:
                self._on_host[j] = self.device.download(self.device_column(j))
        return self._on_host[j]

    def columns(self) -> list[np.ndarray]:
        return [self.column(j) for j in range(self.arity)]

    def between(self, start: int, end: int) -> list[np.ndarray]:
        """Every column of rows [start, end), copied to the host."""
        if start >= end:
            return [np.empty(0, np.uint32) for _ in range(self.arity)]
        return [self.device.download(column[start:end]) for column in self.device_columns()]

    def taken(self, places: np.ndarray) -> list[Array]:
        """Every column of the rows at `places`, copied on the device."""
        numbers = self.device.upload(np.asarray(places, np.uint32))
        return [self.device.gather(column, numbers) for column in self.device_columns()]

    def unshare(self) -> None:
        """Go on in a copy, if rows were frozen: they keep the memory that there is."""
        frozen = [rows for rows in self._frozen if rows.count]
        if not frozen:
            return
        with self.pin() as data:
            copy = self.device.empty(len(data), np.uint32)
            self.device.copy(copy, data)
        kept = Rows(self.device, self.arity, 0)
        kept._data, kept.capacity, kept._limit, kept._count = data, self.capacity, self.capacity, self._count
        kept._on_host = dict(self._on_host)
        for rows in frozen:
            rows.follow(kept)
        self._data = copy
        self._frozen = WeakSet()

    def frozen(self, count: int) -> Rows:
        """The first `count` rows in the same memory: they stay what they are while rows are only appended."""
        return FrozenRows(self, count)

    def append(self, columns: Sequence[Any], count: int) -> None:
        """Append `count` rows, of host or device columns, beyond the delta."""
        if self._count + count > self.capacity:
            self._resize(max(self._count + count, 2 * self.capacity))
        with self.pin() as data:
            for j, column in enumerate(columns):
                start = j * self.capacity + self._count
                if count:
                    self.device.copy_into(data[start : start + count], column)
        self.count = self._count + count

    def advance(self) -> int:
        """What was appended becomes the delta; returns its size."""
        self.delta = (self.delta[1], self._count)
        return self._count - self.delta[0]

    def settle(self) -> None:
        """Everything becomes old: the delta is empty."""
        self.delta = (self._count, self._count)

    @contextmanager
    def pin(self) -> Iterator[Array]:
        """The data, kept on the device meanwhile: due for whoever writes to it."""
        data = self.data
        self.pinned += 1
        try:
            yield data
        finally:
            self.pinned -= 1

    def spill(self) -> int:
        """Leave the device's memory until next used; returns the bytes freed."""
        if self._data is None or self.pinned:
            return 0
        self._spilled = self.device.spill(self._data)
        self._data = None
        return self.nbytes

    def _resize(self, capacity: int) -> None:
        if capacity > MOST_ROWS:
            raise DeviceMemoryError(4 * self.arity * capacity, 4 * self.arity * MOST_ROWS)
        with self.pin() as old:
            data = self.device.empty(self.arity * capacity, np.uint32)
            for j in range(self.arity):
                if self._count:
                    target = data[j * capacity : j * capacity + self._count]
                    self.device.copy(target, old[j * self.capacity : j * self.capacity + self._count])
        self._data, self.capacity = data, capacity
        self._limit = capacity


class FrozenRows(Rows):
    """The first rows of others, which are where those are: on the device, or spilled."""

    def __init__(self, source: Rows, count: int) -> None:
        self.device = source.device
        self.arity = source.arity
        self.delta = (count, count)
        self._count = count
        self._on_host = {}
        self.follow(source)

    def follow(self, source: Rows) -> None:
        """Be the first rows of others, which hold the same."""
        self._source = source
        source._frozen.add(self)

    @property
    def data(self) -> Array:
        return self._source.data

    @property
    def capacity(self) -> int:  # type: ignore[override]
        return self._source.capacity

    @property
    def nbytes(self) -> int:
        """Nothing of their own."""
        return 0

    def frozen(self, count: int) -> Rows:
        return FrozenRows(self._source, count)

    def limit(self, count: int) -> None:
        """They have no room for more anyway."""

    def column(self, j: int) -> np.ndarray:
        return self._source.column(j)[: self._count]

    def unshare(self) -> None:
        """Nobody changes them."""

    @contextmanager
    def pin(self) -> Iterator[Array]:
        with self._source.pin() as data:
            yield data
