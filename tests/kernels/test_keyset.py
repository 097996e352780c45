"""KeySet: insert, contains, reserve and widen, in each of its representations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from gpuengine.kernels.cpu import sets
from gpuengine.kernels.cpu.layout import BITMAP, HASHED, WIDE
from gpuengine.kernels.cuda import set_kernels
from tests.kernels.backends import (
    CPU,
    CUDA,
    EMULATED,
    ID_END,
    Backend,
    Bounds,
    Row,
    assert_new,
    bounds_of,
    columns_of,
    flags,
    given_on,
    make_rows,
    on,
    on_every_backend,
)

#: The ids of an example, and the bounds that force a representation for some arities.
SMALL = ((0, 1, 2, 3), (0, 4))
SHIFTED = ((1000, 1001, 1007), (1000, 1008))
MIDDLE = ((0, 1, 77, 2**20 - 1), (0, 2**20))
EXTREME = ((0, 1, 2**24 - 1, 2**24, 2**24 + 1, 2**31, 2**32 - 2), (0, ID_END))


@pytest.mark.parametrize(
    ("arity", "pool", "kind"),
    [
        (0, SMALL, BITMAP),
        (1, SMALL, BITMAP),
        (4, SMALL, BITMAP),
        (3, SHIFTED, BITMAP),
        (1, MIDDLE, BITMAP),
        (1, EXTREME, HASHED),
        (2, MIDDLE, HASHED),
        (2, EXTREME, HASHED),
        (3, MIDDLE, HASHED),
        (3, EXTREME, WIDE),
        (4, MIDDLE, WIDE),
        (9, EXTREME, WIDE),
    ],
)
@on(CPU, EMULATED)
def test_the_bounds_choose_the_representation(
    backend: Backend, arity: int, pool: tuple[Any, tuple[int, int]], kind: int
) -> None:
    assert (BITMAP, HASHED, WIDE) == (set_kernels.BITMAP, set_kernels.HASHED, set_kernels.WIDE)
    assert backend.keyset(arity, [pool[1]] * arity).kind == kind


@dataclass
class Case:
    arity: int
    bounds: Bounds
    batches: list[list[Row]]
    strangers: list[Row]


@st.composite
def cases(draw: Any) -> Case:
    arity = draw(st.integers(0, 5))
    ids, bounds = draw(st.sampled_from([SMALL, SHIFTED, MIDDLE, EXTREME]))
    skewed = draw(st.booleans())
    one = st.just(ids[0]) | st.sampled_from(ids) if skewed else st.sampled_from(ids)
    row = st.tuples(*[one] * arity)
    batches = draw(st.lists(st.lists(row, max_size=60), min_size=1, max_size=4))
    # Rows to ask for, also outside of the bounds.
    anything = st.tuples(*[st.sampled_from([*ids, 0, 4, 999, 1008, 2**20, 2**32 - 2])] * arity)
    return Case(arity, [bounds] * arity, batches, draw(st.lists(anything, max_size=10)))


@given_on(
    cases(),
    explicit=[
        (Case(2, [(0, 4)] * 2, [[]], [(0, 0)]),),
        (Case(2, [(0, ID_END)] * 2, [[(2**32 - 2, 2**32 - 2)] * 3], [(0, 0), (2**32 - 2, 0)]),),
        (Case(3, [(0, ID_END)] * 3, [[(0, 0, 0)] * 3], [(0, 0, 1)]),),
    ],
)
def test_insert_tells_one_of_equal_rows_and_contains_knows_them(backend: Backend, case: Case) -> None:
    known: set[Row] = set()
    stored = backend.rows(case.arity)
    keyset = backend.keyset(case.arity, case.bounds)
    for batch in case.batches:
        rows = make_rows(backend, batch, case.arity)
        keyset.reserve(stored.count + len(batch), stored)
        new = keyset.insert(rows, 0, len(batch))
        assert_new(backend, new, batch, known)
        fresh = [row for row, is_new in zip(batch, flags(new), strict=True) if is_new]
        stored.append(columns_of(fresh, case.arity), len(fresh))
        known.update(batch)
    asked = make_rows(backend, [*case.strangers, *known], case.arity)
    found = keyset.contains(asked, 0, asked.count)
    assert flags(found) == [row in known for row in [*case.strangers, *known]]


@on_every_backend
def test_only_the_rows_asked_for_are_inserted_and_looked_up(backend: Backend) -> None:
    rows = make_rows(backend, [(i,) for i in range(10)], 1)
    keyset = backend.keyset(1, [(0, 10)])
    assert flags(keyset.insert(rows, 3, 6)) == [True] * 3
    assert flags(keyset.contains(rows, 2, 7)) == [False, True, True, True, False]
    assert flags(keyset.insert(rows, 4, 4)) == []
    assert flags(keyset.contains(rows, 0, 10)) == [3 <= i < 6 for i in range(10)]


@pytest.mark.parametrize("pool", [SMALL, MIDDLE, EXTREME])
@pytest.mark.parametrize("arity", [1, 2, 3, 4])
@on_every_backend
def test_reserve_one_by_one_keeps_everything(backend: Backend, arity: int, pool: tuple[Any, Any]) -> None:
    """Tiny capacities: each row is the last for which there is room."""
    ids, count = np.array(pool[0]), 40 if backend.is_slow else 300
    rng = np.random.default_rng(arity)
    rows = make_rows(
        backend, [tuple(row) for row in ids[rng.integers(0, len(ids), (count, arity))].tolist()], arity
    )
    stored = backend.rows(arity)
    keyset = backend.keyset(arity, [pool[1]] * arity, 1)
    new = []
    for i in range(count):
        keyset.reserve(stored.count + 1, stored)
        new += flags(keyset.insert(rows, i, i + 1))
        if new[-1]:
            stored.append([rows.column(j)[i : i + 1] for j in range(arity)], 1)
    distinct = {tuple(int(rows.column(j)[i]) for j in range(arity)) for i in range(count)}
    assert sum(new) == len(distinct) == stored.count
    assert all(flags(keyset.contains(rows, 0, count)))
    assert not any(flags(keyset.insert(rows, 0, count)))


@pytest.mark.parametrize("bounds", [[(0, ID_END)] * 2, [(0, ID_END)] * 3, [(0, 2**20)] * 3])
@on(CPU, *CUDA)
def test_a_table_filled_exactly_to_its_capacity(backend: Backend, bounds: Bounds) -> None:
    arity = len(bounds)
    keyset = backend.keyset(arity, bounds, 50 if backend.is_slow else 5000)
    assert keyset.kind != BITMAP
    stored = backend.rows(arity)
    for _ in range(2):
        numbers = range(stored.count, keyset.capacity)
        rows = [tuple((i * 7919 + j) % 2**20 for j in range(arity)) for i in numbers]
        assert all(flags(keyset.insert(make_rows(backend, rows, arity), 0, len(rows))))
        stored.append(columns_of(rows, arity), len(rows))
        assert all(flags(keyset.contains(stored, 0, stored.count)))
        keyset.reserve(stored.count + 1, stored)
        assert keyset.capacity > stored.count and all(flags(keyset.contains(stored, 0, stored.count)))
    assert not any(flags(keyset.insert(stored, 0, stored.count)))


WIDENINGS = [
    pytest.param([(5, 9)], [(0, 20)], id="bitmap to bitmap, both ends"),
    pytest.param([(5, 9)] * 2, [(0, 2**20)] * 2, id="bitmap to hashed"),
    pytest.param([(5, 9)] * 3, [(0, 2**20)] * 3, id="bitmap to packed"),
    pytest.param([(5, 9)] * 3, [(0, ID_END)] * 3, id="bitmap to wide"),
    pytest.param([(5, 2**20)] * 3, [(0, 2**20 + 5)] * 3, id="packed to packed"),
    pytest.param([(5, 2**20)] * 3, [(0, 2**20), *[(5, 2**20)] * 2], id="packed, only the first low end"),
    pytest.param([(5, 2**20)] * 3, [*[(5, 2**20)] * 2, (5, 2**21)], id="packed, only the last high end"),
    pytest.param([(5, 9)] * 3, [(0, 9), (5, 9), (5, 9)], id="bitmap, only the first low end"),
    pytest.param([(5, 2**20)] * 3, [(0, ID_END)] * 3, id="packed to wide"),
    pytest.param([(5, 2**20)] * 2, [(0, ID_END)] * 2, id="hashed to hashed"),
    pytest.param([(5, ID_END)] * 4, [(0, ID_END)] * 4, id="wide to wide"),
    pytest.param([(5, 9)] * 2, [(6, 8)] * 2, id="narrower bounds change nothing"),
]


@pytest.mark.parametrize(("before", "after"), WIDENINGS)
@on_every_backend
def test_widen_keeps_the_rows_and_admits_more(backend: Backend, before: Bounds, after: Bounds) -> None:
    arity = len(before)
    held = sorted(
        {
            tuple(min(low + (i * (j + 3)) % 4, high - 1) for j, (low, high) in enumerate(before))
            for i in range(9)
        }
    )
    rows = make_rows(backend, held, arity)
    keyset = backend.keyset(arity, before)
    assert all(flags(keyset.insert(rows, 0, rows.count)))
    keyset.widen(after, rows)
    merged = [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(before, after, strict=True)]
    corners = sorted({tuple(low for low, _ in merged), tuple(high - 1 for _, high in merged)} - set(held))
    more = make_rows(backend, corners, arity)
    assert all(flags(keyset.contains(rows, 0, rows.count)))
    assert not any(flags(keyset.contains(more, 0, more.count)))
    keyset.reserve(rows.count + more.count, rows)
    assert all(flags(keyset.insert(more, 0, more.count)))
    assert not any(flags(keyset.insert(rows, 0, rows.count)))


@given_on(st.data())
def test_any_sequence_of_growth_and_widening_is_a_set(backend: Backend, data: st.DataObject) -> None:
    """The ids and the size grow together, as when rules compute new values."""
    arity = data.draw(st.integers(1, 4))
    stored = backend.rows(arity)
    keyset = backend.keyset(arity, [(0, 0)] * arity)
    known: set[Row] = set()
    high = 2
    for _ in range(data.draw(st.integers(1, 5))):
        high = min(high * data.draw(st.sampled_from([1, 3, 1 << 9])), ID_END - 1)
        batch = data.draw(st.lists(st.tuples(*[st.integers(0, high) | st.just(high)] * arity), max_size=20))
        keyset.widen([(0, high + 1)] * arity, stored)
        keyset.reserve(stored.count + len(batch), stored)
        rows = make_rows(backend, batch, arity)
        new = keyset.insert(rows, 0, len(batch))
        assert_new(backend, new, batch, known)
        fresh = [row for row, is_new in zip(batch, flags(new), strict=True) if is_new]
        stored.append(columns_of(fresh, arity), len(fresh))
        known.update(batch)
    assert all(flags(keyset.contains(stored, 0, stored.count)))


def test_memory_follows_the_rows_not_the_bounds() -> None:
    rng = np.random.default_rng(1)
    rows = CPU.rows(2)
    columns = [rng.integers(0, 2**32 - 2, 20_000).astype(np.uint32) for _ in range(2)]
    rows.append(columns, 20_000)
    keyset = CPU.keyset(2, bounds_of([(0, 0), (2**32 - 2, 2**32 - 2)], 2), 20_000)
    keyset.insert(rows, 0, 20_000)
    assert keyset.nbytes <= 18 * 20_000 + 1024


def test_widening_a_bitmap_does_not_cost_what_its_bounds_allowed() -> None:
    rows = make_rows(CPU, [(1, 2), (3, 4)], 2)
    keyset = CPU.keyset(2, [(0, 5000)] * 2)
    assert keyset.kind == BITMAP
    keyset.insert(rows, 0, 2)
    for end in (50_000, 500_000, ID_END):
        keyset.widen([(0, end)] * 2, rows)
        assert keyset.nbytes < 1 << 23
        assert all(flags(keyset.contains(rows, 0, 2)))


def unmix(key: int) -> int:
    """The inverse of the hash of keys."""
    key ^= (key >> 31) ^ (key >> 62)
    key = key * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    key ^= (key >> 27) ^ (key >> 54)
    key = key * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return key ^ (key >> 30) ^ (key >> 60)


def pairs_with_hashes(hashes: np.ndarray) -> list[Row]:
    """Pairs of ids whose keys have these 64-bit hashes, as far as ids allow."""
    keys = [(unmix(int(hashed)) - 1) % 2**64 for hashed in hashes]
    return [(key >> 32, key % 2**32) for key in keys if key >> 32 < ID_END and key % 2**32 < ID_END]


CLUSTERS = {
    "spread": lambda rng, n: rng.integers(0, 2**64, n, dtype=np.uint64),
    "at the beginning": lambda rng, n: rng.integers(0, 2**50, n, dtype=np.uint64),
    "at the end, around to the beginning": lambda rng, n: (
        np.uint64(2**64 - 1) - rng.integers(0, 2**50, n, np.uint64)
    ),
    "in the middle": lambda rng, n: np.uint64(2**63) + rng.integers(0, 2**40, n, np.uint64),
    "in a few places": lambda rng, n: (
        rng.integers(0, 5, n, dtype=np.uint64) * np.uint64(2**61) + rng.integers(0, 2**45, n, np.uint64)
    ),
}


@pytest.mark.parametrize("head", [64, None], ids=["in place", "as it is"])
@pytest.mark.parametrize("step", [1, 37, 1500])
@pytest.mark.parametrize("where", CLUSTERS)
def test_hash_tables_that_grow_with_keys_in_clusters(
    monkeypatch: pytest.MonkeyPatch, where: str, step: int, head: int | None
) -> None:
    """However keys crowd together, growing loses none and invents none."""
    if head is not None:
        monkeypatch.setattr(sets, "_SPREAD_HEAD", head)
    rng = np.random.default_rng(step)
    pairs = list(dict.fromkeys(pairs_with_hashes(CLUSTERS[where](rng, 3000 if step > 1 else 600))))
    held, strangers = pairs[::2], make_rows(CPU, pairs[1::2], 2)
    stored = CPU.rows(2)
    keyset = CPU.keyset(2, [(0, ID_END)] * 2)
    for start in range(0, len(held), step):
        part = held[start : start + step]
        keyset.reserve(stored.count + len(part), stored)
        rows = make_rows(CPU, part, 2)
        assert all(flags(keyset.insert(rows, 0, len(part))))
        stored.append(columns_of(part, 2), len(part))
        if start % (10 * step) == 0:
            assert all(flags(keyset.contains(stored, 0, stored.count)))
    assert keyset.kind == HASHED
    assert all(flags(keyset.contains(stored, 0, stored.count)))
    assert not any(flags(keyset.contains(strangers, 0, strangers.count)))
    assert not any(flags(keyset.insert(stored, 0, stored.count)))


def test_a_large_table_that_grows_many_times() -> None:
    rng = np.random.default_rng(5)
    stored = CPU.rows(2)
    keyset = CPU.keyset(2, [(0, ID_END)] * 2)
    known = np.zeros(0, np.uint64)
    for size in (100, 5000, 20_000, 100_000, 250_000):
        columns = [rng.integers(0, 3000, size).astype(np.uint32) * np.uint32(1_400_001) for _ in range(2)]
        rows = CPU.rows(2)
        rows.append(columns, size)
        keyset.reserve(stored.count + size, stored)
        new = keyset.insert(rows, 0, size)
        packed = columns[0].astype(np.uint64) << np.uint64(32) | columns[1]
        fresh = np.setdiff1d(packed, known)
        assert np.array_equal(np.sort(packed[new]), fresh)
        stored.append([column[new] for column in columns], int(new.sum()))
        known = np.union1d(known, packed)
        assert all(flags(keyset.contains(stored, 0, stored.count))) and stored.count == len(known)
