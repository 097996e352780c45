"""`KeySet` on a device: which rows a relation holds, in the smallest of three representations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cuda.columns import add_to_keys, pack_pairs
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.pieces import finish
from gpuengine.kernels.cuda.removal_kernels import erase_bits, erase_keys, erase_rows
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.cuda.set_kernels import (
    BITMAP,
    EMPTY,
    HASHED,
    WIDE,
    claim_rows,
    insert_bits,
    insert_keys,
    insert_row_numbers,
    keep_bits,
    keep_keys,
    keep_rows,
    rehash,
    settle_claims,
)

Bounds = Sequence[tuple[int, int]]
UNLIMITED = 1 << 62
SMALL_BITMAP_BYTES = 1 << 20
_FULL_EXTENT = 1 << 32
_PACKED_LIMIT = 1 << 63


class KeySet:
    """The set of the rows of one `Rows`.

    `reserve` must have made room before rows are inserted, and inserted ids must lie within the bounds
    (`widen` moves them). Both may rebuild the set from the rows, which must hold all that was inserted.
    A hash table is at most two thirds full, so that a search ends after a few slots: 12 to 24 bytes a row. A
    WIDE set, of rows that do not pack into 64 bits, keeps a copy of its rows (`members`) besides. What
    `erase` takes out of a table leaves its slot unused until the table is made anew.
    """

    def __init__(self, device: Device, arity: int, bounds: Bounds, capacity: int = 0) -> None:
        self.device = device
        self.arity = arity
        self._bounds = list(bounds)
        self.kind = BITMAP
        self._room = 0
        self._gone = 0
        self.strides: tuple[int, ...] = ()
        self.bounds: Bounds = ()
        self.members = Rows(device, 0)
        self.table: Array = None
        self._allocate(max(capacity, 16))

    @property
    def capacity(self) -> int:
        """How many rows may be in the set before `reserve` is due."""
        return self._room - self._gone

    @property
    def nbytes(self) -> int:
        return int(self.table.nbytes) + (self.members.nbytes if self.kind == WIDE else 0)

    @property
    def most(self) -> int:
        """How many different rows there can be; only said of a BITMAP, whose keys are few."""
        return 32 * len(self.table) if self.kind == BITMAP else UNLIMITED

    @property
    def mask(self) -> int:
        """The number of slots less one."""
        return len(self.table) - 1

    @property
    def least_key(self) -> int:
        """What the bounds' least ids add up to in a key."""
        return sum(low * stride for (low, _), stride in zip(self.bounds, self.strides, strict=True))

    def reserve(self, capacity: int, rows: Rows) -> None:
        """Make room for `capacity` rows in all, and for as many as `rows` has room for."""
        if capacity > self.capacity:
            self._rebuild(max(capacity, rows.capacity), rows)

    def widen(self, bounds: Bounds, rows: Rows) -> None:
        """Admit ids within `bounds` as well."""
        merged = [
            (min(low, new_low), max(high, new_high))
            for (low, high), (new_low, new_high) in zip(self._bounds, bounds, strict=True)
        ]
        if merged != self._bounds:
            self._bounds = merged
            if self.kind == BITMAP or (self.kind == HASHED and self.arity > 2):
                self._rebuild(max(rows.capacity, 16), rows)

    def insert(self, rows: Rows, start: int, end: int) -> Array:
        """Insert rows [start, end) of `rows`; a flag for each that was new (of equal rows, one)."""
        columns = [column[start:end] for column in rows.device_columns()]
        keep = self.device.full(end - start, 1, np.uint8)
        return self.insert_columns(columns, end - start, keep)

    def contains(self, rows: Rows, start: int, end: int) -> Array:
        """A flag for each of the rows [start, end) of `rows`: is it in the set?"""
        columns = [column[start:end] for column in rows.device_columns()]
        keep = self.device.full(end - start, 1, np.uint8)
        self.filter(columns, end - start, keep, negated=False)
        return keep

    def erase(self, rows: Rows, start: int, end: int) -> None:
        """Take rows [start, end) of `rows` out: distinct ones that are in the set."""
        columns, count = [column[start:end] for column in rows.device_columns()], end - start
        device = self.device
        if self.kind == WIDE:
            members, batch = self.members, self._batch(columns, count)
            device.launch(
                erase_rows,
                count,
                self.table,
                self.mask,
                members.data,
                members.capacity,
                batch,
                count,
                self.arity,
            )
        elif self.kind == BITMAP:
            device.launch(erase_bits, count, self.table, self.pack(columns, count))
        else:
            device.launch(erase_keys, count, self.table, self.mask, self.pack(columns, count))
        self._gone += count if self.kind != BITMAP else 0

    def insert_columns(self, columns: Sequence[Array], count: int, keep: Array) -> Array:
        """Insert the rows whose `keep` is not 0; a flag for each row that was new."""
        device = self.device
        new = device.empty(count, np.uint8)
        if self.kind == WIDE:
            self._insert_wide(columns, count, keep, new)
        elif self.kind == BITMAP:
            device.launch(insert_bits, count, self.table, self.pack(columns, count), keep, new)
        else:
            device.launch(insert_keys, count, self.table, self.mask, self.pack(columns, count), keep, new)
        return new

    def filter(self, columns: Sequence[Array], count: int, keep: Array, *, negated: bool) -> None:
        """Clear the `keep` of the rows that are not in the set (or that are, if `negated`)."""
        device, not_wanted = self.device, int(negated)
        if self.kind == WIDE:
            batch = self._batch(columns, count)
            members = self.members
            device.launch(
                keep_rows,
                count,
                self.table,
                self.mask,
                members.data,
                members.capacity,
                batch,
                count,
                self.arity,
                not_wanted,
                keep,
            )
        elif self.kind == BITMAP:
            device.launch(keep_bits, count, self.table, self.pack(columns, count), not_wanted, keep)
        else:
            keys = self.pack(columns, count)
            device.launch(keep_keys, count, self.table, self.mask, keys, not_wanted, keep)

    def pack(self, columns: Sequence[Array], count: int) -> Array:
        """The keys of rows; those of rows outside the bounds belong to no set."""
        device = self.device
        if self.kind == HASHED and self.arity == 2:
            keys = device.empty(count, np.uint64)
            device.launch(pack_pairs, count, columns[0], columns[1], keys)
            return keys
        keys = device.full(count, 0, np.uint64)
        for column, (low, high), stride in zip(columns, self.bounds, self.strides, strict=True):
            device.launch(add_to_keys, count, column, low, high, stride, keys)
        return keys

    def _insert_wide(self, columns: Sequence[Array], count: int, keep: Array, new: Array) -> None:
        device, members = self.device, self.members
        batch = self._batch(columns, count)
        places = device.empty(count, np.uint64)
        device.launch(
            claim_rows,
            count,
            self.table,
            self.mask,
            members.data,
            members.capacity,
            batch,
            count,
            self.arity,
            keep,
            places,
            new,
        )

        def settle(start: int, end: int) -> None:
            winners = device.select(new[start:end])
            gathered = [device.gather(column[start:end], winners) for column in columns]
            device.launch(settle_claims, len(winners), winners, places[start:end], members.count, self.table)
            members.append(gathered, len(winners))

        finish(count, settle)

    def _batch(self, columns: Sequence[Array], count: int) -> Array:
        """Columns side by side in one array."""
        batch = self.device.empty(self.arity * count, np.uint32)
        for j, column in enumerate(columns):
            self.device.copy(batch[j * count : (j + 1) * count], column)
        return batch

    def _rebuild(self, capacity: int, rows: Rows) -> None:
        """Make the set anew for `capacity` rows and fill it with what it held."""
        kind, old, packing = self.kind, self.table, (self.strides, self.least_key)
        has_lost = self._gone > 0
        self._allocate(capacity)
        if has_lost and self.kind == WIDE:
            self.members.count = 0
        if kind == WIDE and self.kind == WIDE and not has_lost:
            members = self.members
            self.device.launch(
                insert_row_numbers,
                members.count,
                self.table,
                self.mask,
                members.data,
                members.capacity,
                self.arity,
                0,
            )
        elif kind == HASHED and self.kind == HASHED and packing == (self.strides, self.least_key):
            self.device.launch(rehash, len(old), old, self.table, self.mask)
        elif rows.count:
            self.insert(rows, 0, rows.count)

    def _allocate(self, capacity: int) -> None:
        """Choose a representation and make it empty; a WIDE set keeps its members.

        If there is no memory for it, the set is as it was.
        """
        extents = [max(high - low, 1) for low, high in self._bounds]
        keys = 1
        for extent in extents:
            keys *= extent
        slots = power_of_two(capacity * 3 // 2 + 1)
        if keys <= 8 * max(SMALL_BITMAP_BYTES, 8 * slots):
            self.table = self.device.full(keys // 32 + 1, 0, np.uint32)
            self._use(BITMAP, self._bounds, extents, UNLIMITED)
            return
        is_wide = self.arity > 2 and keys >= _PACKED_LIMIT
        if is_wide:
            self._make_room_for_members(slots * 2 // 3)
        self.table = self.device.full(slots, EMPTY, np.uint64)
        if self.arity <= 2:
            whole = [(0, _FULL_EXTENT)] * self.arity
            self._use(HASHED, whole, [_FULL_EXTENT] * self.arity, slots * 2 // 3)
        else:
            self._use(WIDE if is_wide else HASHED, self._bounds, extents, slots * 2 // 3)

    def _make_room_for_members(self, capacity: int) -> None:
        if self.kind != WIDE:
            self.members = Rows(self.device, self.arity, capacity)
        else:
            self.members.reserve(capacity)

    def _use(self, kind: int, bounds: Bounds, extents: Sequence[int], capacity: int) -> None:
        self.kind, self.bounds, self._room, self._gone = kind, list(bounds), capacity, 0
        stride, strides = 1, []
        for extent in reversed(extents):
            strides.append(stride)
            stride *= extent
        self.strides = tuple(reversed(strides))


def power_of_two(least: int) -> int:
    """The least power of two from `least` on; at least 2."""
    return 1 << max(least - 1, 1).bit_length()
