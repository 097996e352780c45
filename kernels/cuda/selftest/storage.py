"""Checks of a device's arrays and library operations, of rows, of sets of every kind, and of the backend."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.contract import ValueTable
from gpuengine.kernels.cuda.exchange import ForeignColumn, OnDevice, decode
from gpuengine.kernels.cuda.keyset import KeySet
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.cuda.selftest import Check, Kit, Mismatch, expect
from gpuengine.kernels.cuda.set_kernels import BITMAP, HASHED, WIDE

_TYPES = (np.uint8, np.uint32, np.uint64)


def transfers(kit: Kit) -> None:
    for size in kit.sizes:
        for dtype in _TYPES:
            host = kit.keys(size).astype(dtype)
            expect(kit.fetch(kit.device.upload(host)), host, f"{size} of {dtype.__name__} sent and fetched")


def fills_and_copies(kit: Kit) -> None:
    for size in kit.sizes:
        for dtype in _TYPES:
            value = int(np.iinfo(dtype).max) - 3
            filled = kit.device.full(size, value, dtype)
            expect(kit.fetch(filled), np.full(size, value, dtype), f"{size} of {dtype.__name__} filled")
            host = kit.keys(size).astype(dtype)
            kit.device.copy(filled, kit.device.upload(host))
            expect(kit.fetch(filled), host, f"{size} of {dtype.__name__} copied")


def sorts(kit: Kit) -> None:
    for size in (*kit.sizes, 2304, 2305):
        keys = kit.keys(size)
        inputs = {"random": keys, "equal": keys // np.uint64(2**63), "descending": np.sort(keys)[::-1].copy()}
        for name, unsorted in inputs.items():
            given = kit.device.upload(unsorted)
            expect(kit.fetch(kit.device.sort(given)), np.sort(unsorted), f"{size} {name} keys sorted")
            expect(kit.fetch(given), unsorted, f"{size} {name} keys after sorting")


def scans(kit: Kit) -> None:
    for size in kit.sizes:
        counts = kit.ids(size, 2**32 - 1)
        expected = np.concatenate([np.zeros(1, np.uint64), np.cumsum(counts, dtype=np.uint64)])
        expect(kit.fetch(kit.device.offsets(kit.device.upload(counts))), expected, f"sums of {size} counts")


def selections(kit: Kit) -> None:
    for size in kit.sizes:
        for share in (0, 0.01, 0.5, 1):
            flags = (kit.random.random(size) < share).astype(np.uint8)
            found = kit.fetch(kit.device.select(kit.device.upload(flags)))
            expect(found, np.flatnonzero(flags), f"{share} of {size} flags")


def extremes(kit: Kit) -> None:
    for size in kit.sizes:
        if size:
            column = kit.ids(size, 2**32 - 1)
            found = kit.device.least_and_greatest(kit.device.upload(column))
            expect(found, [column.min(), column.max()], f"least and greatest of {size}")


def gathers(kit: Kit) -> None:
    column = kit.ids(kit.size, 2**32 - 1)
    for size in kit.sizes:
        places = kit.ids(size, len(column))
        found = kit.device.gather(kit.device.upload(column), kit.device.upload(places))
        expect(kit.fetch(found), column[places], f"{size} gathered")


def spills(kit: Kit) -> None:
    for size in kit.sizes:
        host = kit.keys(size)
        spilled = kit.device.spill(kit.device.upload(host))
        expect(kit.fetch(kit.device.restore(spilled)), host, f"{size} keys spilled and restored")


def rows(kit: Kit) -> None:
    made, expected = kit.backend.rows(3), np.zeros((3, 0), np.uint32)
    for number, size in enumerate(kit.sizes):
        columns = [kit.ids(size, 2**32 - 1) for _ in range(3)]
        on_device = [kit.device.upload(column) for column in columns]
        made.append(on_device if number % 2 else columns, size)
        made.advance()
        expected = np.concatenate([expected, np.array(columns)], axis=1)
        if number % 3 == 0:
            made.grow(size)
        if number % 3 == 1:
            made.spill()
        if number % 3 == 2:
            made.trim()
        expect(np.array(made.columns()), expected, f"rows after {number + 1} rounds")
        expect(made.delta, [expected.shape[1] - size, expected.shape[1]], "the delta")


# For each kind of set: arity, and the end of the ids.
_SETS: dict[str, tuple[int, int, int]] = {
    "bitmap of one column": (1, 1 << 16, BITMAP),
    "bitmap of pairs": (2, 1 << 9, BITMAP),
    "bitmap of triples": (3, 1 << 6, BITMAP),
    "hashed ids": (1, (1 << 32) - 1, HASHED),
    "hashed pairs": (2, (1 << 32) - 1, HASHED),
    "hashed triples": (3, 1 << 20, HASHED),
    "wide triples": (3, (1 << 32) - 1, WIDE),
    "wide rows of five": (5, (1 << 32) - 1, WIDE),
}


def _set_check(name: str, arity: int, end: int, kind: int) -> Check:
    def run(kit: Kit) -> None:
        bounds = [(0, end)] * arity
        keyset = kit.backend.keyset(arity, bounds, 16)
        held = kit.backend.rows(arity)
        known = np.zeros((0, arity), np.uint32)
        for size in kit.sizes:
            batch = _rows_with_duplicates(kit, size, arity, end)
            known = _insert(kit, keyset, held, batch, known)
        _expect_membership(kit, keyset, known, arity, end)
        if keyset.kind != kind:
            raise Mismatch(f"a set of kind {keyset.kind}, {kind} expected")

    return Check(f"set: {name}", run)


def _rows_with_duplicates(kit: Kit, size: int, arity: int, end: int) -> np.ndarray:
    """Random rows; a third repeat others, and a third of those are one and the same row."""
    batch = (
        np.stack([kit.ids(size, end) for _ in range(arity)], axis=1)
        if size
        else np.zeros((0, arity), np.uint32)
    )
    repeated = size // 3
    if repeated:
        batch[:repeated] = batch[kit.random.integers(0, size, repeated)]
        batch[: repeated // 3] = batch[-1]
    return kit.random.permutation(batch)


def _insert(kit: Kit, keyset: KeySet, held: Rows, batch: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Insert a batch and hold what was new against what should be; returns all rows that the set holds."""
    arity, size = batch.shape[1], len(batch)
    given = kit.backend.rows(arity)
    given.append(list(np.ascontiguousarray(batch.T)), size)
    keyset.reserve(len(known) + size, held)
    new = kit.fetch(keyset.insert(given, 0, size)).astype(bool)
    fresh = batch[new]
    held.append(list(np.ascontiguousarray(fresh.T)), len(fresh))
    everything = distinct(np.concatenate([known, batch]))
    expect(len(fresh), len(everything) - len(known), f"new among {size} rows")
    expect(distinct(np.concatenate([known, fresh])), everything, f"the set after {size} more rows")
    return everything


def _expect_membership(kit: Kit, keyset: KeySet, known: np.ndarray, arity: int, end: int) -> None:
    asked = np.concatenate([known[: kit.size], _rows_with_duplicates(kit, kit.size, arity, end)])
    given = kit.backend.rows(arity)
    given.append(list(np.ascontiguousarray(asked.T)), len(asked))
    found = kit.fetch(keyset.contains(given, 0, len(asked))).astype(bool)
    expect(found, _member(asked, known), "membership")


def _member(asked: np.ndarray, known: np.ndarray) -> np.ndarray:
    order, begins = _sorted(np.concatenate([known, asked]))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(begins)
    is_known = np.zeros(len(order) + 1, bool)
    is_known[numbers[: len(known)]] = True
    return is_known[numbers[len(known) :]]


def distinct(rows: np.ndarray) -> np.ndarray:
    """The rows, each once, in lexicographic order."""
    order, begins = _sorted(rows)
    return rows[order[begins]]


def _sorted(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of rows, and a mark for each in that order that differs from the one before."""
    order = np.lexsort(rows.T[::-1])
    begins = np.ones(len(rows), bool)
    begins[1:] = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    return order, begins


def widening(kit: Kit) -> None:
    """A set whose bounds move from a bitmap to hashed keys, and to wide rows."""
    for arity, ends in ((2, (64, 1 << 20, 1 << 31)), (3, (16, 1 << 18, 1 << 31))):
        keyset = kit.backend.keyset(arity, [(0, ends[0])] * arity, 16)
        held, known = kit.backend.rows(arity), np.zeros((0, arity), np.uint32)
        for end in ends:
            keyset.widen([(0, end)] * arity, held)
            batch = _rows_with_duplicates(kit, min(kit.size, 5000), arity, end)
            known = _insert(kit, keyset, held, batch, known)


def backend_operations(kit: Kit) -> None:
    """Distinct rows, bounds, selection and estimates."""
    backend = kit.backend
    for arity in (1, 2, 3):
        batch = _rows_with_duplicates(kit, kit.size, arity, 1 << 12)
        columns = [backend.column(column) for column in np.ascontiguousarray(batch.T)]
        some, count = backend.distinct_rows(columns, len(batch))
        found = np.stack([kit.fetch(column)[:count] for column in some], axis=1)
        expect(distinct(found), distinct(batch), f"distinct rows of {arity}")
        expect(len(found), len(distinct(batch)), f"the number of distinct rows of {arity}")
        expect(
            backend.bounds(columns, len(batch)),
            [(column.min(), int(column.max()) + 1) for column in batch.T],
            f"bounds of rows of {arity}",
        )
    made = backend.rows(1)
    column = kit.ids(kit.size, 100)
    made.append([column], kit.size)
    expect(backend.estimate_distinct(made, 0), len(np.unique(column)), "distinct ids")


def exchange(kit: Kit) -> None:
    """Other libraries' columns as ids, and what ids stand for."""
    limit = 1 << 24
    words = kit.random.integers(0, limit, 3 * kit.size).astype(np.uint64)
    halves = words.astype(np.uint32)
    bad = words.copy()
    bad[3 * (kit.size // 2)] = limit
    columns = [
        ForeignColumn(kit.device.upload(words), 1, 3, kit.size, np.dtype(np.int64)),
        ForeignColumn(kit.device.upload(halves), 2, 3, kit.size, np.dtype(np.int32)),
        ForeignColumn(kit.device.upload(halves), 0, 1, kit.size, np.dtype(np.uint32)),
        ForeignColumn(kit.device.upload(bad), 0, 3, kit.size, np.dtype(np.int64)),
    ]
    found = OnDevice(kit.device).own_ids(columns, limit)
    for ids, expected in zip(found[:3], (words[1::3], words[2::3], words[: kit.size]), strict=True):
        if ids is None:
            raise Mismatch("a column of ids was refused")
        expect(kit.fetch(ids), expected, "ids of words")
    if found[3] is not None:
        raise Mismatch("a word beyond the limit was taken for an id")
    _decoding(kit, limit)


def _decoding(kit: Kit, limit: int) -> None:
    ids = kit.ids(kit.size, limit + 1000, limit - 1000)
    tables: Sequence[np.ndarray] = (
        kit.keys(1000).astype(np.int64),
        kit.keys(1000),
        kit.random.random(1000),
    )
    for values in tables:
        by_place = values.dtype.kind == "f"
        asked = ids % np.uint32(1000) if by_place else ids
        out = kit.device.empty(kit.size, values.dtype)
        decode(kit.device, [(kit.device.upload(asked), ValueTable(values))], [out])
        if by_place:
            expected = values[asked]
        else:
            stored = values[np.maximum(ids.astype(np.int64) - limit, 0)]
            expected = np.where(ids < limit, ids.astype(values.dtype), stored)
        expect(kit.fetch(out), expected, f"values of ids, {values.dtype}")


CHECKS = (
    Check("device: transfers", transfers),
    Check("device: fill and copy", fills_and_copies),
    Check("device: sort", sorts),
    Check("device: scan", scans),
    Check("device: select", selections),
    Check("device: least and greatest", extremes),
    Check("device: gather", gathers),
    Check("device: spill and restore", spills),
    Check("rows: append, grow, trim, spill", rows),
    *(_set_check(name, *shape) for name, shape in _SETS.items()),
    Check("set: moving bounds", widening),
    Check("backend: distinct rows, bounds, estimates", backend_operations),
    Check("exchange: ids of foreign columns, values of ids", exchange),
)
