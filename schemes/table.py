"""The table scheme: a predicate's facts as rows of ids, with a set and indexes made when first needed."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from gpuengine.kernels.contract import Array, Backend, KeySet, RowIndex, Rows
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.cpu.rows import Batch
from gpuengine.kernels.cpu.rows import Rows as HostRows
from gpuengine.limits import charge
from gpuengine.schemes.contract import BATCH, Bounds, Columns, Domain, Scheme, cover
from gpuengine.schemes.table_reads import is_row_of, match_rows, probe, shared_ids
from gpuengine.schemes.table_removal import RowRemoval, drop_delta, move_to_delta, show_last
from gpuengine.schemes.table_undo import Undo

_ROOM_SHARE = 8
_LEAST_ROOM = 1 << 10
_TELLING = 1000
LARGEST_BOUND = (1 << 32) - 1

_SLOT_BYTES = 8
"""What the slot of a key takes in an index, about."""


class Table(Scheme):
    """The facts of one predicate, in the memory of one backend: the host, unless told.

    It implies no rules. Facts arrive in bulk (`insert`) or are derived by pipelines into `rows` through
    `keyset`; the rows' `advance` makes what arrived the delta, each index's `ensure` takes it in, and
    `settle` makes everything old. Invariants: rows are distinct; every id lies within `bounds`; the set, once
    made, holds exactly the rows; an index that `index` returned holds all rows up to the delta's end
    until `epoch` changes, which says that the set or indexes have been dropped.

    Facts that go are moved to the end of the rows, where they are the delta, and then cut off: what that
    costs depends on them, not on how many facts there are; on a device on these as well, as indexes there are
    written again. One that is `maintained` is prepared for many small changes: its indexes have room to grow,
    and so have its bounds.

    A snapshot is a table in the same memory, with a set and indexes of its own. Facts that come are behind
    its rows; before others are overwritten, the table goes on in a copy if somebody still has that memory.

    `move_to` brings the rows to another backend; the set and the indexes are made anew there. The rows
    that were left behind stay as a copy, for the way back, until facts are added.
    """

    kind = "table"
    is_listed = True

    def __init__(self, name: str, arity: int, backend: Backend = CPU, rows: Rows | None = None) -> None:
        self.name = name
        self.arity = arity
        self.backend = backend
        self.rows: Rows = backend.rows(arity) if rows is None else rows
        self.bounds: Bounds = [(0, 0)] * arity
        self.epoch = 0
        self._keyset: KeySet | None = None
        self._indexes: dict[tuple[int, ...], RowIndex] = {}
        self._distinct: dict[int, tuple[int, float]] = {}
        self._skew: dict[int, tuple[int, float]] = {}
        self._copy: tuple[Backend, Rows] | None = None
        self.maintained = False
        self.removal: RowRemoval | None = None
        self._removals = 0
        self._deleting = False
        self._making = threading.RLock()
        self._undo: Undo | None = None
        self._is_shared = False
        self._snapshots: weakref.WeakSet[Table] | None = None

    def __len__(self) -> int:
        return self.rows.count

    @property
    def nbytes(self) -> int:
        """What the table takes where it is; a copy elsewhere does not count."""
        total = self.rows.nbytes + sum(index.nbytes for index in self.indexes)
        removal, keyset = self.removal, self._keyset
        total += removal.nbytes if removal is not None else 0
        return total + (keyset.nbytes if keyset is not None else 0)

    @property
    def host_nbytes(self) -> int:
        """What the table and its copy take in host memory."""
        return self._nbytes_where(on_host=True)

    @property
    def device_nbytes(self) -> int:
        """What the table and its copy take in the memory of a device."""
        return self._nbytes_where(on_host=False)

    def _nbytes_where(self, *, on_host: bool) -> int:
        total = self.nbytes if self.backend.on_host == on_host else 0
        copy = self._copy
        if copy is not None and copy[0].on_host == on_host:
            total += copy[1].nbytes
        return total

    @property
    def indexes(self) -> tuple[RowIndex, ...]:
        return tuple(self._indexes.values())

    @property
    def keyset(self) -> KeySet:
        """The set of the rows; made on first use."""
        keyset = self._keyset
        if keyset is None:
            with self._making:  # several readers may be the first to ask
                keyset = self._keyset
                if keyset is None:
                    keyset = self.backend.keyset(self.arity, self.bounds, self.rows.count)
                    keyset.insert(self.rows, 0, self.rows.count)
                    self._keyset = keyset
        return keyset

    @property
    def host_rows(self) -> HostRows:
        """The rows of a table that is on the host."""
        assert isinstance(self.rows, HostRows), f"{self.name} is on a device"
        return self.rows

    @property
    def has_set(self) -> bool:
        return self._keyset is not None

    def note_removal(self) -> None:
        """Rows are not where they were, or gone: what was thought of them is out of date."""
        self._removals += 1
        self._copy = None

    def snapshot(self) -> Table:
        with self._making:
            undo = self._undo
            version = self.version if undo is None else undo.version
            if self._snapshots is None:
                self._snapshots = weakref.WeakSet()
            for earlier in self._snapshots:
                if earlier.version == version:
                    return earlier
            if undo is None:
                undo = Undo(self.backend, self.rows, self.bounds, version)
            if undo.is_untouched:
                backend, rows = undo.backend, undo.rows.frozen(undo.count)
                self._is_shared |= undo.rows is self.rows
            else:
                backend, rows = CPU, CPU.rows(self.arity, undo.count)
                rows.append(undo.columns(), undo.count)
                rows.settle()
            snapshot = Table(self.name, self.arity, backend, rows)
            snapshot.bounds, snapshot._removals = undo.bounds, version[1]
            snapshot._distinct, snapshot._skew = dict(self._distinct), dict(self._skew)
            copy = self._current_copy()
            if (
                copy is not None
                and copy[1].count == undo.count
                and undo.rows is self.rows
                and undo.is_untouched
            ):
                snapshot._copy = copy[0], copy[1].frozen(undo.count)
            self._snapshots.add(snapshot)
            return snapshot

    def begin_change(self) -> None:
        with self._making:
            if self._undo is None:
                version = self.rows.count, self._removals
                self._undo = Undo(self.backend, self.rows, self.bounds, version)

    def end_change(self) -> None:
        with self._making:
            self._undo = None

    def keep_readable(self, places: np.ndarray, left: int) -> None:
        """Rows at `places` and from `left` on are about to be overwritten: snapshots stay as they are."""
        if self._undo is None and not self._is_shared:
            return
        with self._making:
            undo = self._undo
            if undo is not None and undo.rows is self.rows:
                if self.backend.on_host:
                    undo.save(places, left)
                else:  # who reads meanwhile may not use the device: it is to stand still for them
                    undo.rows = self.rows.frozen(undo.count)
                    self._is_shared = True
            if self._is_shared:
                self._is_shared = False
                self.rows.unshare()

    def column(self, j: int) -> np.ndarray:
        """Column `j` of all facts there are now, in host memory."""
        copy = self._current_copy()
        return (copy[1] if copy is not None and copy[0].on_host else self.rows).column(j)

    def columns(self) -> list[np.ndarray]:
        """All facts there are now, in host memory."""
        return [self.column(j) for j in range(self.arity)]

    def between(self, start: int, end: int) -> list[np.ndarray]:
        """The facts in rows [start, end), copied to host memory."""
        copy = self._current_copy()
        return (copy[1] if copy is not None and copy[0].on_host else self.rows).between(start, end)

    def insert(self, columns: Sequence[Array], count: int) -> int:
        """Add facts beyond the delta, from columns in host memory or the backend's; how many were new."""
        if not count:
            return 0
        columns = [self.backend.column(column) for column in columns]
        bounds = self.backend.bounds(columns, count)
        self.widen(_with_room(self.bounds, bounds) if self.maintained else bounds)
        if self._keyset is None and self.rows.count == 0:
            columns, count = self.backend.distinct_rows(columns, count)
            self.rows.append(columns, count)
            return count
        batch = self.batch(columns, count)
        keyset = self.keyset
        self.reserve(count)
        new, fresh = self.backend.select(columns, keyset.insert(batch, 0, count))
        if fresh:
            self.rows.append(new, fresh)
        return fresh

    def append(self, columns: Columns, count: int) -> None:
        """Add facts, known to be distinct and not there, beyond the delta, in their order."""
        self.widen(self.backend.bounds(columns, count))
        if self._keyset is not None:
            self.insert(columns, count)
        else:
            self.reserve(count)
            self.rows.append(columns, count)

    def restore(self, columns: Columns, count: int) -> None:
        """Have facts, known to be distinct, in a table that has none. They are OLD."""
        assert not self.rows.count
        if count:
            self.widen(self.backend.bounds(columns, count))
            self.rows.append(columns, count)
            self.rows.settle()

    @property
    def version(self) -> tuple[int, int]:
        return self.rows.count, self._removals

    def count(self, domain: Domain) -> int:
        start, end = self.rows.delta
        return {Domain.ALL: self.rows.count, Domain.OLD: start, Domain.NEW: end - start}[domain]

    def contains(self, columns: Columns, count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        """Which of the given rows are facts; ALL includes what is only scheduled."""
        if domain is Domain.ALL:
            return self._on_host(self.keyset.contains(self.batch(columns, count), 0, count), count)
        if domain is Domain.OLD:
            mask = self.contains(columns, count)
            kept = [column[mask] for column in columns]
            since = self.between(self.rows.delta[0], self.rows.count)
            mask[mask] = ~is_row_of(kept, since)
            return mask
        mask = np.zeros(count, np.bool_)
        for batch in self.scan(domain, max(self.rows.count, 1)):
            mask |= is_row_of(columns, batch)
        return mask

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        if domain is Domain.NEW:
            for batch in self.scan(domain):
                yield from match_rows(batch, bound, room)
            return
        yield from probe(self, bound, count, domain is Domain.OLD, room)

    def scan(self, domain: Domain = Domain.ALL, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        start, end = self.rows.delta
        if domain is Domain.ALL:
            start, end = 0, self.rows.count
        elif domain is Domain.OLD:
            start, end = 0, start
        if not self.backend.on_host and end - start < self.rows.count:
            for first in range(start, end, room):
                yield self.between(first, min(first + room, end))
            return
        for first in range(start, end, room):
            yield [column[first : min(first + room, end)] for column in self.columns()]

    def advance(self) -> int:
        """What was appended becomes the delta, and part of every index that can take it."""
        self._deleting = False
        return self.rows.advance()

    def renew(self) -> int:
        if self._indexes and self.rows.delta != (0, self.rows.count):
            self.forget_indexes()
        self.rows.delta = (0, self.rows.count)
        return self.rows.count

    def delete(self, columns: Columns, count: int) -> int:
        """Make the rows that are there the delta; O(count), and their keys' rows in each index.

        On a device a pass over each index instead.
        """
        self.settle()
        self._copy = None
        self._deleting = True
        return move_to_delta(self, columns, count)

    def remove(self) -> None:
        """Cut the delta off; O(delta)."""
        start, end = self.rows.delta
        if start == end or not self._deleting:
            return
        drop_delta(self)

    def keep(self, mask: np.ndarray) -> None:
        """Keep the rows where the mask holds, on the host, in O(rows): better than `delete` if many go.

        They are OLD.
        """
        self.move_to(CPU)
        kept = [column[mask] for column in self.columns()]
        self.keep_readable(np.empty(0, np.uint32), 0)
        self.rows.count = 0
        self.rows.append(kept, int(np.count_nonzero(mask)))
        self.settle()
        self.note_removal()
        self.removal = None
        self.forget_set()
        self.forget_indexes()

    def refill(self, columns: Sequence[Array], count: int) -> None:
        """Have other facts, distinct ones within its bounds, in the backend's memory. They are OLD."""
        rows = self.backend.rows(self.arity, count)
        rows.append(columns, count)
        with self._making:
            self.rows, self._is_shared = rows, False  # snapshots have the rows that were
        self.settle()
        self.note_removal()
        self.removal = None
        self.forget_set()
        self.forget_indexes()

    def show_last(self, count: int) -> None:
        """Make the last rows the delta; since they came, one after the other, no others were deleted."""
        show_last(self, count)

    def take_back(self) -> None:
        """Cut the delta off, as if it had never come; O(delta)."""
        if self.rows.delta[0] < self.rows.delta[1]:
            drop_delta(self)

    def retreat(self, count: int | None = None) -> None:
        """Go on on the host when the device's memory has ended in the middle of something.

        Set, indexes and locator may not agree with the rows: they are made anew. Given a `count`, only so
        many rows are kept, and settled.
        """
        if self.backend.on_host:
            return
        self.removal = None
        self.forget_set()
        self.forget_indexes()
        if count is not None:
            self.rows.count = count
            self.settle()
            self.note_removal()
        self.move_to(CPU)
        self.drop_copy()

    def _on_host(self, mask: Array, count: int) -> np.ndarray:
        """A mask of the backend as one of the host."""
        if self.backend.on_host:
            return np.asarray(mask)
        places = self.backend.column(np.arange(count, dtype=np.uint32))
        kept, number = self.backend.select([places], mask)
        rows = self.backend.rows(1, number)
        rows.append(kept, number)
        result = np.zeros(count, np.bool_)
        result[rows.column(0)] = True
        return result

    def batch(self, columns: Sequence[Array], count: int) -> Rows:
        """Given rows for kernels of the table's backend to read."""
        if self.backend.on_host:
            return Batch(columns, count)
        batch = self.backend.rows(self.arity, count)
        batch.append(columns, count)
        return batch

    def widen(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Admit ids within `bounds`; the set and direct-addressed indexes may be made anew."""
        merged = [cover(old, new) for old, new in zip(self.bounds, bounds, strict=True)]
        if merged != self.bounds:
            self.bounds = merged
            self.forget_indexes()
            if self._keyset is not None:
                self._keyset.widen(merged, self.rows)

    def reserve(self, extra: int) -> None:
        """Make room for `extra` more derived rows in the rows, and in the set if there is one."""
        if self.backend.on_host:
            self._foresee(extra)
        self.rows.grow(extra)
        if self._keyset is not None:
            self._keyset.reserve(self.rows.count + extra, self.rows)
            self.rows.limit(self._keyset.capacity)

    def _foresee(self, extra: int) -> None:
        """Ask for what growing takes: half as much again, or more if `extra` is."""
        needed = self.rows.count + extra
        growth = 0
        if needed > self.rows.capacity:
            growth = 4 * self.arity * max(needed - self.rows.capacity, self.rows.capacity >> 1)
        if self._keyset is not None and needed > self._keyset.capacity:
            growth += self._keyset.nbytes >> 1
        if growth:
            charge(growth, f"{self.name}, with {self.rows.count:,} facts,")

    def index(self, keys: tuple[int, ...], *, growing: bool) -> RowIndex:
        """The index by `keys`, holding all rows up to the delta's end; `growing` if more will come."""
        with self._making:  # several readers may be the first to ask
            index = self._indexes.get(keys)
            if index is None or not index.ensure():
                if self.backend.on_host:
                    row = 4 * self.arity + _SLOT_BYTES
                    charge(row * self.rows.count, f"an index of {self.name}, with {self.rows.count:,} facts,")
                index = self.backend.index(self.rows, keys, self.bounds)
                index.build(exact=not (growing or self.maintained))
                self._indexes[keys] = index
            return index

    def drop_stale_indexes(self) -> None:
        """Forget indexes that could not be brought up to the delta's end."""
        for keys, index in list(self._indexes.items()):
            if index.indexed != self.rows.delta[1]:
                del self._indexes[keys]
                self.epoch += 1

    def refresh_indexes(self) -> None:
        """Bring the indexes up to the delta's end, with what lies before the delta OLD."""
        for keys, index in list(self._indexes.items()):
            if not index.ensure():
                del self._indexes[keys]
                self.epoch += 1

    def take_in(self) -> None:
        """Everything becomes old, and what was inserted part of every index."""
        self.advance()
        self.refresh_indexes()
        self.settle()
        self.refresh_indexes()

    def settle(self) -> None:
        """Everything becomes old."""
        self._deleting = False
        self.rows.settle()

    def keep_indexes(self, used: Collection[RowIndex]) -> None:
        """Free the indexes that no current plan probes; those in `used` stay as they are."""
        self._indexes = {keys: index for keys, index in self._indexes.items() if index in used}

    def forget_indexes(self) -> None:
        """Free the indexes; they come back when they are needed."""
        self._indexes.clear()
        self.epoch += 1

    def forget_set(self) -> None:
        """Free the set; it is made anew from the rows when it is needed, and programs must be too."""
        self._keyset = None
        self.epoch += 1

    def distinct(self, column: int) -> float:
        """About how many distinct ids a column has."""
        cached = self._distinct.get(column)
        count = self.rows.count
        if cached is not None and cached[0] <= count <= 2 * cached[0]:
            return cached[1]
        value = self.backend.estimate_distinct(self.rows, column) if count else 0.0
        self._distinct[column] = (count, value)
        return value

    def skew(self, column: int) -> float:
        """How many times as many facts a fact shares its id with as if all ids were as frequent; about.

        1 for a small table, which says little of what it will be.
        """
        cached = self._skew.get(column)
        count = self.rows.count
        if count < _TELLING:
            return 1.0
        if cached is None or not cached[0] <= count <= 2 * cached[0]:
            value = shared_ids(self.column(column)) / max(count / max(self.distinct(column), 1.0), 1.0)
            cached = self._skew[column] = count, max(value, 1.0)
        return cached[1]

    def move_to(self, backend: Backend) -> None:
        """Continue on another backend, with the same delta; nothing is copied that is there already.

        If it fails, the table is as it was.
        """
        if backend is self.backend:
            return
        rows = self._rows_on(backend)
        rows.delta = self.rows.delta
        rows.limit(rows.capacity)
        self._copy = (self.backend, self.rows)
        with self._making:
            if self._undo is not None and self._undo.rows is self.rows and self._undo.is_untouched:
                self._undo.backend, self._undo.rows = backend, rows
            self.backend, self.rows = backend, rows
        self.removal = None
        self.forget_set()
        self.forget_indexes()

    def bytes_to_move(self, backend: Backend) -> int:
        """What `move_to` would have to copy."""
        copy = self._current_copy()
        if backend is self.backend or (copy is not None and copy[0] is backend):
            return 0
        return 4 * self.arity * self.rows.count

    def drop_copy(self) -> None:
        """Free the copy that was left behind by `move_to`; snapshots that are in it follow."""
        self._copy = None
        with self._making:
            snapshots = list(self._snapshots or ())
        for snapshot in snapshots:
            snapshot.move_to(CPU)
            snapshot.drop_copy()

    def drop_stale_copy(self) -> None:
        """Free the copy if facts were added since it was left behind."""
        if self._current_copy() is None:
            self._copy = None

    def _current_copy(self) -> tuple[Backend, Rows] | None:
        """The copy, if it holds all facts: rows are never changed or removed, so counting tells."""
        copy = self._copy
        return copy if copy is not None and copy[1].count == self.rows.count else None

    def _rows_on(self, backend: Backend) -> Rows:
        copy = self._current_copy()
        if copy is not None and copy[0] is backend:
            return copy[1]
        rows = backend.rows(self.arity, self.rows.count)
        rows.append(self.columns(), self.rows.count)
        return rows


def _with_room(bounds: Bounds, new: Sequence[tuple[int, int]]) -> Bounds:
    """Bounds that hold new ids as well, with room for more: ids of new terms follow each other upwards."""
    result = []
    for old, (low, high) in zip(bounds, new, strict=True):
        if old != (0, 0) and high > old[1]:
            high = min(high + (high - old[0]) // _ROOM_SHARE + _LEAST_ROOM, LARGEST_BOUND)
        result.append((low, high))
    return result


def as_table(scheme: Scheme) -> Table:
    """The table that a scheme is known to be."""
    assert isinstance(scheme, Table), f"{scheme.name} is no table"
    return scheme


def tables_among(schemes: Iterable[Scheme]) -> list[Table]:
    """Those that are tables."""
    return [as_table(scheme) for scheme in schemes if scheme.is_listed]
