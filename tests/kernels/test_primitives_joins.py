"""Joins and runs on inputs of chosen shapes: around blocks, limits of representations, collisions, skew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.cpu.keyset import mix
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cpu.primitives_joins import BLOCK
from gpuengine.kernels.cpu.primitives_runs import DIGIT_BITS, GALLOP_RATIO
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.primitives import NONE, Primitives, Run
from tests.kernels.interleaved import InterleavedDevice
from tests.kernels.join_cases import columns
from tests.kernels.primitive_cases import (
    CPU,
    EMULATED,
    ID_END,
    REFERENCE,
    assert_same,
    ids,
    keys,
    run,
    simulated,
    those_with,
)

BACKENDS = (REFERENCE, CPU, EMULATED, simulated(seed=7))
SIZES = (1, 7, 8, 9, 31, 33, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK)
JOINS = ("semi_join", "anti_join")

on_every_backend = pytest.mark.parametrize(
    "primitives", BACKENDS, ids=["reference", "cpu", "emulated", "simulated"]
)

on_the_host = pytest.mark.parametrize("primitives", [REFERENCE, CPU], ids=["reference", "cpu"])

Columns = list[np.ndarray]


def agree(operation: str, *args: Any) -> None:
    """All backends but the simulator give what the reference gives."""
    expected = run(REFERENCE, operation, args)
    for primitives in those_with(operation):
        assert_same(run(primitives, operation, args), expected)


def agree_on_joins(left: Columns, right: Columns) -> None:
    for operation in JOINS:
        agree(operation, left, right)


# Semi-joins and anti-joins.


@on_every_backend
def test_joins_by_hand(primitives: Primitives) -> None:
    left = columns([(1, 2), (2, 1), (1, 2), (1, 1), (5, 2)], 2)
    right = columns([(1, 2), (1, 1), (1, 2), (9, 9)], 2)
    assert run(primitives, "semi_join", (left, right))[0].tolist() == [0, 2, 3]
    assert run(primitives, "anti_join", (left, right))[0].tolist() == [1, 4]


@pytest.mark.parametrize("arity", [1, 2, 3, 4])
@on_every_backend
def test_sides_without_rows(primitives: Primitives, arity: int) -> None:
    none, some = columns([], arity), columns([(3,) * arity, (ID_END - 1,) * arity], arity)
    for operation, left, right, expected in (
        ("semi_join", none, none, []),
        ("semi_join", none, some, []),
        ("semi_join", some, none, []),
        ("anti_join", none, none, []),
        ("anti_join", none, some, []),
        ("anti_join", some, none, [0, 1]),
    ):
        (found,) = run(primitives, operation, (left, right))
        assert found.dtype == np.uint32
        assert found.tolist() == expected


#: Ids from a number below 16 so that sets are bitmaps, packed keys, or rows (from three columns on).
SPREAD: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "close": lambda x: x,
    "close and high": lambda x: ID_END - 1 - x,
    "far": lambda x: x * 104_729,
    "everywhere": lambda x: x * ((ID_END - 1) // 15),
}


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize("arity", [1, 2, 3, 4])
def test_rows_of_sizes_around_blocks(arity: int, spread: str) -> None:
    rng = np.random.default_rng(arity)

    def rows(size: int) -> Columns:
        return [SPREAD[spread](rng.integers(0, 16, size)).astype(np.uint32) for _ in range(arity)]

    for size in SIZES:
        agree_on_joins(rows(size), rows(33))
        agree_on_joins(rows(33), rows(size))
    agree_on_joins(rows(2 * BLOCK), rows(2 * BLOCK + 5))


@pytest.mark.parametrize("arity", [1, 2, 3, 4])
@pytest.mark.parametrize("x", [0, 2**31, ID_END - 1])
def test_rows_that_are_all_equal(x: int, arity: int) -> None:
    for size in (1, BLOCK + 1):
        same, other = columns([(x,) * arity] * size, arity), columns([(x ^ 1,) * arity] * 40, arity)
        agree_on_joins(same, same)
        agree_on_joins(same, other)
        agree_on_joins(other, same)
        mixed = [np.concatenate(pair) for pair in zip(same, other, strict=True)]
        agree_on_joins(mixed, other)
        agree_on_joins(other, mixed)


@pytest.mark.parametrize("arity", [1, 2, 3, 4])
def test_rows_that_differ_in_one_column(arity: int) -> None:
    """Also where the difference takes a row out of the extents, or would carry into the next column."""
    for base in (5, ID_END - 3):
        rows = [[base] * arity]
        for j in range(arity):
            for x in (0, base - 2, base - 1, base + 1, base + 2, ID_END - 1):
                rows.append([*[base] * j, x, *[base] * (arity - j - 1)])
        everything = columns(rows, arity)
        for k in range(len(rows)):
            agree_on_joins(everything, [column[k : k + 1] for column in everything])
            agree_on_joins(everything, [column[: k + 1] for column in everything])


@pytest.mark.parametrize(
    "extents",
    [
        (ID_END, ID_END),
        (ID_END, ID_END, 1),
        (1, ID_END, 1, ID_END),
        (2**32 - 1, 2**16 + 1, 2**16 - 1),
        (2**32 - 1, 2**16 + 1, 2**16),
        (2**16, 2**16, 2**16, 2**16),
        (2**16, 2**16, 2**16, 2**16 - 1),
        (2**21, 2**21, 2**21),
    ],
)
def test_extents_around_what_packs(extents: Sequence[int]) -> None:
    """The corners of the extents, whose keys are the least and greatest."""
    base = [min(7, ID_END - extent) for extent in extents]
    corners = np.stack(np.meshgrid(*([0, extent - 1] for extent in extents)), -1).reshape(-1, len(extents))
    rows = np.unique(corners + base, axis=0).tolist()
    arity = len(extents)
    near = [[min(max(x + step, 0), ID_END - 1) for x in row] for row in rows for step in (-1, 1)]
    agree_on_joins(columns(rows + near, arity), columns(rows, arity))
    agree_on_joins(columns(rows, arity), columns(near, arity))
    agree_on_joins(columns(rows + near, arity), columns([rows[0], rows[-1]], arity))


def hash_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """What the CPU's kernels make of the first two ids of a row."""
    with np.errstate(over="ignore"):
        hashed: np.ndarray = mix(first.astype(np.uint64) << np.uint64(32) | second)
    return hashed


def colliding() -> tuple[Columns, Columns]:
    """Rows of three ids, and as many different ones with the very same hashes.

    The hash of a row is a mix of its third id with the hash of the others. Where two of those have the same
    upper half, third ids that differ as the lower halves do make the rows' hashes equal.
    """
    rng = np.random.default_rng(8)
    a, b = (rng.integers(0, ID_END, 400_000).astype(np.uint32) for _ in range(2))
    hashes = hash_of(a, b)
    order = np.argsort(hashes)
    upper = hashes[order] >> np.uint64(32)
    at = np.flatnonzero(upper[1:] == upper[:-1])
    one, other = order[at], order[at + 1]
    c = rng.integers(0, 2**31, len(at)).astype(np.uint32)
    moved = c ^ (hashes[one] ^ hashes[other]).astype(np.uint32)
    assert len(at) > 5 and NONE not in moved
    return [a[one], b[one], c], [a[other], b[other], moved]


def test_different_rows_with_equal_hashes() -> None:
    """No false positives: rows are compared. With each row's twin, and without."""
    left, right = colliding()
    assert np.array_equal(hash_of(*left[:2]) ^ left[2], hash_of(*right[:2]) ^ right[2])
    assert run(CPU, "semi_join", (left, right))[0].tolist() == []
    agree_on_joins(left, right)
    both = [np.concatenate(pair) for pair in zip(left, right, strict=True)]
    agree_on_joins(both, right)
    agree_on_joins(both, left)
    agree_on_joins(left, both)


def test_few_rows_against_many() -> None:
    """The right rows that matter are found first: many, few, none."""
    rng = np.random.default_rng(2)
    for arity, end in ((1, 60), (1, ID_END), (2, 9), (2, ID_END), (3, ID_END)):
        right = [rng.integers(0, end, 500).astype(np.uint32) for _ in range(arity)]
        for left in (
            [column[:3] for column in right],
            [np.repeat(column[7:8], 20) for column in right],
            [rng.integers(0, end, 9).astype(np.uint32) for _ in range(arity)],
            columns([(0,) * arity], arity),
        ):
            agree_on_joins(left, right)
            agree_on_joins(left, [np.repeat(column[:1], 500) for column in right])


def packed(side: Columns) -> np.ndarray:
    return side[0].astype(np.uint64) << np.uint64(32) | side[-1]


@pytest.mark.parametrize("end", [300, 60_000, ID_END])
@pytest.mark.parametrize("arity", [1, 2])
def test_many_rows(arity: int, end: int) -> None:
    """Also two threads at once that insert the same rows on a device."""
    rng = np.random.default_rng(end)
    right = [rng.integers(0, end, 100_000).astype(np.uint32) for _ in range(arity)]
    rows, fresh = rng.integers(0, 100_000, 100_000), rng.random(100_000) < 0.5
    left = [np.where(fresh, rng.integers(0, end, 100_000), x[rows]).astype(np.uint32) for x in right]
    there = np.isin(packed(left), packed(right))
    for primitives in those_with("semi_join"):
        for operation, wanted in (("semi_join", there), ("anti_join", ~there)):
            (found,) = run(primitives, operation, (left, right))
            assert np.array_equal(found, np.flatnonzero(wanted))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("arity", [1, 2, 3])
def test_equal_rows_that_are_inserted_at_once(arity: int, seed: int) -> None:
    right = columns([(x * 700_000_001,) * arity for x in (1, 2, 1, 1, 2, 1, 2, 2)], arity)
    left = columns([(x * 700_000_001,) * arity for x in (2, 3, 1, 0)], arity)
    device = InterleavedDevice(seed)
    assert run(CudaPrimitives(device), "semi_join", (left, right))[0].tolist() == [0, 2]


def test_what_joins_wait_for_on_a_device() -> None:
    for arity, end, syncs in ((1, 9, 2), (2, ID_END, 3), (3, ID_END, 5)):
        device = EmulatedDevice(threads=1)
        side = [device.upload(ids([0, 1, end - 1])) for _ in range(arity)]
        CudaPrimitives(device).semi_join(side, side)
        assert device.statistics.syncs == syncs


# Runs.


@on_the_host
def test_runs_by_hand(primitives: Primitives) -> None:
    some = ids([2, 0, 2, 2, 0]), ids([7, ID_END - 1, 5, 7, 0])
    offsets, values = run(primitives, "sorted_runs", (*some, 4))
    assert (offsets.tolist(), values.tolist()) == ([0, 2, 2, 4, 4], [0, ID_END - 1, 5, 7])
    assert (offsets.dtype, values.dtype) == (np.uint64, np.uint32)


@on_the_host
def test_intersections_by_hand(primitives: Primitives) -> None:
    offsets, values = keys([0, 3, 3, 5]), ids([1, 4, 9, 4, 9])
    runs = [
        Run(offsets, values, ids([0, 0, 2, NONE, 1, 0])),
        Run(offsets, values, ids([0, 2, 0, 0, 0, NONE])),
        Run(keys([0, 1, 3]), ids([9, 1, 4]), ids([1, 1, 0, 0, 0, 0])),
    ]
    places, found = run(primitives, "intersect_runs", (runs,))
    assert (places.tolist(), found.tolist()) == ([0, 0, 1, 2], [1, 4, 4, 9])
    places, found = run(primitives, "intersect_runs", (runs[:1],))
    assert places.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 5, 5, 5]
    assert found.tolist() == [1, 4, 9, 1, 4, 9, 4, 9, 1, 4, 9]


@on_the_host
def test_no_pairs_no_owners_no_bindings(primitives: Primitives) -> None:
    none = ids([])
    for n_owners in (0, 1, 3):
        offsets, values = run(primitives, "sorted_runs", (none, none, n_owners))
        assert (offsets.tolist(), values.tolist()) == ([0] * (n_owners + 1), [])
        for bindings in (0, 2):
            each = Run(offsets, values, ids([NONE] * bindings))
            for found in run(primitives, "intersect_runs", ([each, each],)):
                assert found.tolist() == []


@pytest.mark.parametrize("end", [1, 2, 1 << DIGIT_BITS, (1 << DIGIT_BITS) + 1, 1 << 24, ID_END])
@pytest.mark.parametrize("n_owners", [1, 2, 1 << DIGIT_BITS, (1 << DIGIT_BITS) + 1])
def test_runs_of_keys_and_values_around_digits(n_owners: int, end: int) -> None:
    rng = np.random.default_rng(n_owners)
    for size in (1, 9, 400):
        owners, values = rng.integers(0, n_owners, size), rng.integers(0, end, size)
        owners[: size // 3], values[: size // 2] = n_owners - 1, end - 1
        args = owners.astype(np.uint32), values.astype(np.uint32), n_owners
        found = run(CPU, "sorted_runs", args)
        distinct = np.unique(np.stack([owners, values]), axis=1)
        assert found[0].tolist() == np.searchsorted(distinct[0], np.arange(n_owners + 1)).tolist()
        assert found[1].tolist() == distinct[1].tolist()


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8, 9, 33, 257])
@pytest.mark.parametrize("ratio", [1, GALLOP_RATIO - 1, GALLOP_RATIO, GALLOP_RATIO + 1, 20])
def test_runs_of_lengths_around_what_is_searched(length: int, ratio: int) -> None:
    """The same, every other, none, the first and last in common; more results than there are bindings."""
    long = range(0, 2 * length * ratio, 2)
    for short in (
        long[:length],
        long[len(long) - length :],
        range(1, 2 * length, 2),
        range(length),
        range(ID_END - length, ID_END),
        sorted({*long[:1], *long[-1:], *range(1, length, 2)}),
    ):
        both = keys([0, len(long), len(long) + len(short)]), ids([*long, *short])
        for owners in ([0, 1], [1, 0], [1, 0, 1], [0, 1, 1, 0], [0, 0]):
            agree("intersect_runs", [Run(*both, ids([owner, 0, owner])) for owner in owners])


def triangles(primitives: CpuPrimitives, x: np.ndarray, y: np.ndarray, nodes: int) -> tuple[np.ndarray, ...]:
    """For each edge (x, y) the nodes that y leads to and that lead to x."""
    sources, targets = primitives.upload(x), primitives.upload(y)
    forward = primitives.sorted_runs(sources, targets, nodes)
    backward = primitives.sorted_runs(targets, sources, nodes)
    found = primitives.intersect_runs([Run(*forward, targets), Run(*backward, sources)])
    return tuple(map(primitives.download, found))


def test_triangles_of_a_skewed_graph() -> None:
    rng = np.random.default_rng(5)
    edges = np.unique((rng.pareto(0.6, (20_000, 2)) * 3).astype(np.int64) % 3000, axis=0)
    edges = rng.permutation(edges).astype(np.uint32)
    x, y = (np.ascontiguousarray(edges[:, j]) for j in range(2))
    places, z = triangles(CPU, x, y, 3000)
    matrix = np.zeros((3000, 3000), np.float32)
    matrix[x, y] = 1
    assert len(z) == int(np.sum((matrix @ matrix).T * matrix, dtype=np.float64))
    assert np.all(matrix[y[places], z] == 1) and np.all(matrix[z, x[places]] == 1)
    order = places.astype(np.int64) * 3000 + z
    assert np.all(order[1:] > order[:-1])
