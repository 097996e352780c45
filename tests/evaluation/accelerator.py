"""A device for tests: the reference kernels behind the rules that a real device has.

Its arrays are opaque to the host, it is used only from threads that were bound to it, its programs give rows
in another order than the host's and stop for more room, its indexes must be brought up to date, and its
memory may end anywhere, also between the entry of a fact into a set and its storage.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.contract import Bounds, DeviceError, DeviceMemoryError, Domain, Pipeline, Status
from tests.kernels import reference

NEVER = 1 << 60
#: Every stratum starts on the accelerator and stays there.
EVERYWHERE = Thresholds(auto_facts=0, small_delta=0)
#: A stratum moves before each of its rounds.
ALTERNATING = Thresholds(
    auto_facts=0,
    small_delta=NEVER,
    large_delta=0,
    transfer_bytes_per_microsecond=float("inf"),
    rebuild_rows_per_microsecond=float("inf"),
)
#: A stratum starts on the host and moves to the accelerator before its first round.
AFTER_THE_START = Thresholds(auto_facts=NEVER, small_delta=0, large_delta=0)
#: Nothing ever runs there.
NOWHERE = Thresholds(auto_facts=NEVER, large_delta=NEVER)


@dataclass
class Counts:
    launches: int = 0
    syncs: int = 0
    uploaded: int = 0
    downloaded: int = 0
    peak_bytes: int = 0


class DeviceArray:
    """An array that the host can't look into."""

    def __init__(self, owner: Accelerator, content: np.ndarray) -> None:
        self.owner = owner
        self.content = content


class Accelerator(reference.ReferenceBackend):
    """See above. `budget` is how many rows it can store, `broken` has programs fail."""

    name = "fake"
    device_name = "Fake 9000"

    def __init__(self, budget: int = NEVER, broken: bool = False) -> None:
        self.budget = budget
        self.broken = broken
        self.counts = Counts()
        self._bound: set[int] = set()
        self._rows: weakref.WeakSet[DeviceRows] = weakref.WeakSet()

    def bind_thread(self) -> None:
        self._bound.add(threading.get_ident())

    def unbind(self) -> None:
        """Forget all threads, as if they were others."""
        self._bound.clear()

    def statistics(self) -> Counts:  # type: ignore[override]
        return self.counts

    def use(self, extra: int = 0) -> None:
        """Called by everything that happens on the device; `extra` rows are about to be stored."""
        assert threading.get_ident() in self._bound, "used from a thread that was not bound"
        stored = sum(rows.count for rows in self._rows)
        if extra and stored + extra > self.budget:
            raise DeviceMemoryError(8 * extra, 8 * max(0, self.budget - stored))
        self.counts.peak_bytes = max(self.counts.peak_bytes, 8 * (stored + extra))

    def rows(self, arity: int, capacity: int = 0) -> DeviceRows:
        rows = DeviceRows(self, arity, capacity)
        self._rows.add(rows)
        return rows

    def keyset(self, arity: int, bounds: Bounds, capacity: int = 0) -> DeviceKeySet:
        return DeviceKeySet(self, arity, bounds)

    def index(self, rows: reference.Rows, keys: Sequence[int], bounds: Bounds) -> DeviceIndex:
        assert isinstance(rows, DeviceRows)
        return DeviceIndex(rows, keys, bounds)

    def program(self, pipeline: Pipeline, stop: np.ndarray) -> DeviceProgram:
        return DeviceProgram(self, pipeline, stop)

    def column(self, ids: Any) -> DeviceArray:
        self.use()
        if isinstance(ids, DeviceArray):
            assert ids.owner is self
            return ids
        self.counts.uploaded += ids.nbytes
        return DeviceArray(self, np.array(ids, np.uint32))

    def bounds(self, columns: Sequence[DeviceArray], count: int) -> list[tuple[int, int]]:
        return super().bounds([column.content for column in columns], count)

    def distinct_rows(self, columns: Sequence[DeviceArray], count: int) -> tuple[list[DeviceArray], int]:
        kept, count = super().distinct_rows([column.content for column in columns], count)
        return [DeviceArray(self, column) for column in kept], count

    def select(self, columns: Sequence[DeviceArray], mask: DeviceArray) -> tuple[list[DeviceArray], int]:
        kept, count = super().select([column.content for column in columns], mask.content)
        return [DeviceArray(self, column) for column in kept], count


class DeviceRows(reference.Rows):
    def __init__(self, owner: Accelerator, arity: int, capacity: int) -> None:
        super().__init__(arity, capacity)
        self.owner = owner
        self.data = _Storage(self)
        self.stop_at = capacity
        owner.use()

    def reserve(self, capacity: int) -> None:
        super().reserve(capacity)
        self.stop_at = self.capacity

    def limit(self, count: int) -> None:
        self.stop_at = min(count, self.capacity)

    def append(self, columns: Sequence[Any], count: int) -> None:
        self.owner.use(count)
        self.reserve(self.count + count)
        super().append([self.owner.column(column).content for column in columns], count)

    def column(self, j: int) -> np.ndarray:
        self.owner.use()
        found = super().column(j)
        self.owner.counts.downloaded += found.nbytes
        self.owner.counts.syncs += 1
        return found

    def device_columns(self) -> list[Any]:
        return [DeviceArray(self.owner, super(DeviceRows, self).column(j)) for j in range(self.arity)]


class _Storage(list[reference.Row]):
    """The rows, within the budget of their device."""

    def __init__(self, rows: DeviceRows) -> None:
        super().__init__()
        self._rows = weakref.ref(rows)

    def append(self, row: reference.Row) -> None:
        rows = self._rows()
        assert rows is not None
        rows.owner.use(1)
        super().append(row)


class DeviceKeySet(reference.KeySet):
    def __init__(self, owner: Accelerator, arity: int, bounds: Bounds) -> None:
        super().__init__(arity, bounds)
        self.owner = owner

    def insert(self, rows: reference.Rows, start: int, end: int) -> Any:
        self.owner.use()
        return DeviceArray(self.owner, super().insert(rows, start, end))

    def contains(self, rows: reference.Rows, start: int, end: int) -> Any:
        self.owner.use()
        return DeviceArray(self.owner, super().contains(rows, start, end))


class DeviceIndex(reference.RowIndex):
    """Row numbers by key, up to where `build` and `ensure` have come."""

    def __init__(self, rows: DeviceRows, keys: Sequence[int], bounds: Bounds) -> None:
        super().__init__(rows, keys, bounds)
        self._numbers: dict[reference.Row, list[int]] = {}
        self._indexed = 0
        self._exact = False

    @property
    def indexed(self) -> int:
        return self._indexed

    def build(self, exact: bool) -> None:
        self._exact = exact
        self._add()

    def ensure(self) -> bool:
        if self._exact or self._indexed < self.rows.delta[0]:
            return self._indexed == self.rows.delta[1]
        self._add()
        return True

    def _add(self) -> None:
        start, self._indexed = self._indexed, self.rows.delta[1]
        for number in range(start, self._indexed):
            key = tuple(self.rows.data[number][k] for k in self.keys)
            self._numbers.setdefault(key, []).append(number)

    def matches(self, keys: reference.Row, domain: Domain) -> list[reference.Row]:
        assert self._indexed == self.rows.delta[1], "an index that was not brought up to date"
        end = self.rows.delta[0] if domain is Domain.OLD else self.rows.delta[1]
        found = [self.rows.data[number] for number in self._numbers.get(keys, ()) if number < end]
        return [tuple(value for j, value in enumerate(row) if j not in self.keys) for row in found]


class DeviceProgram(reference.Program):
    """Takes the rows of the driver from the last to the first, and stops for more room between two."""

    def __init__(self, owner: Accelerator, pipeline: Pipeline, stop: np.ndarray) -> None:
        super().__init__(pipeline, stop)
        self.owner = owner
        self._left: Iterator[reference.Row] = iter(())

    def run(self, out: reference.Rows, start: int, end: int) -> Status:
        self._left = reversed(self.pipeline.driver.rows.data[start:end])
        return self.resume(out)

    def resume(self, out: reference.Rows) -> Status:
        assert isinstance(out, DeviceRows) and out.owner is self.owner
        self.owner.use()
        self.owner.counts.launches += 1
        self.owner.counts.syncs += 1
        if self.owner.broken:
            raise DeviceError("an illegal memory access", "expand_probe, insert_keys")
        for row in self._left:
            if self.stop[0]:
                return Status.STOPPED
            self.drive(row, out)
            if out.count >= out.stop_at:
                return Status.FULL
        return Status.DONE
