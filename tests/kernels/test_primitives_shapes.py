"""Primitives on inputs of chosen shapes: sizes around tiles, warps and blocks, extremes, skew, races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.cuda.primitives.sorted_sets import SEARCH_RATIO, merge_runs
from gpuengine.kernels.primitives import NONE, Primitives
from tests.kernels.primitive_cases import (
    CPU,
    EMULATED,
    FAST,
    ID_END,
    REFERENCE,
    Args,
    assert_same,
    csr,
    ids,
    keys,
    run,
    simulated,
)

BACKENDS = (REFERENCE, CPU, EMULATED, simulated(seed=7))
SIZES = (0, 1, 2, 7, 8, 9, 31, 32, 33, 255, 256, 257)

on_every_backend = pytest.mark.parametrize(
    "primitives", BACKENDS, ids=["reference", "cpu", "emulated", "simulated"]
)


def agree(operation: str, *args: Any) -> None:
    """All backends but the simulator give what the reference gives."""
    expected = run(REFERENCE, operation, args)
    for primitives in FAST:
        assert_same(run(primitives, operation, args), expected)


# Sorted runs.


@pytest.mark.parametrize("a_size", SIZES)
@pytest.mark.parametrize("b_size", [0, 1, 8, 33, 256])
def test_runs_of_sizes_around_tiles(a_size: int, b_size: int) -> None:
    """Both every other number, all behind one another, and one within the other."""
    for a, b in (
        (range(0, 2 * a_size, 2), range(1, 2 * b_size, 2)),
        (range(a_size), range(b_size)),
        (range(a_size), range(a_size, a_size + b_size)),
        (range(b_size, a_size + b_size), range(b_size)),
        (range(0, 3 * a_size, 3), range(2**64 - b_size, 2**64)),
    ):
        for operation in ("merge", "union", "difference", "intersection"):
            agree(operation, keys(a), keys(b))


@pytest.mark.parametrize("key", [0, 2**53 + 1, 2**64 - 1])
@on_every_backend
def test_merging_equal_keys_keeps_them_all(primitives: Primitives, key: int) -> None:
    (merged,) = run(primitives, "merge", (keys([key] * 33), keys([key] * 17)))
    assert merged.tolist() == [key] * 50


@pytest.mark.parametrize("few", [0, 1, 3])
@pytest.mark.parametrize("around", [-1, 0, 1])
def test_few_keys_against_many(few: int, around: int) -> None:
    """On both sides of the size from which the many are searched instead of read."""
    many = keys(range(0, 2 * (few * SEARCH_RATIO + around + 1), 2))
    for some in (many[:few], many[len(many) - few :], many[:few] + np.uint64(1), keys(range(few))):
        agree("difference", some, many)
        agree("difference", many, some)
        agree("intersection", some, many)
        agree("intersection", many, some)


def test_merge_runs_makes_one_launch_and_does_not_wait() -> None:
    device = EmulatedDevice(threads=1)
    a, b = device.upload(keys([1, 3])), device.upload(keys([2]))
    assert merge_runs(device, a, b).tolist() == [1, 2, 3]
    assert (device.statistics.launches, device.statistics.syncs) == (1, 0)


# Bitmaps.


@pytest.mark.parametrize("size", SIZES)
def test_bitmaps_of_sizes_around_words(size: int) -> None:
    for members in (range(size), range(0, size, 3), range(size - 1, -1, -31), [size - 1] * min(size, 9), []):
        agree("bitmap_of", ids(members), size)
        words = REFERENCE.bitmap_of(ids(members), size)
        agree("bitmap_count", words)
        agree("bitmap_members", words)
        agree("bitmap_contains", words, ids(range(size + 40)))
        agree("bitmap_contains", words, ids([2**31, ID_END - 1]))


@pytest.mark.parametrize("operation", ["bitmap_union", "bitmap_difference", "bitmap_intersection"])
@on_every_backend
def test_bitmaps_of_different_lengths_are_refused(primitives: Primitives, operation: str) -> None:
    words = [primitives.upload(np.zeros(count, np.uint32)) for count in (1, 2)]
    with pytest.raises(ValueError):
        getattr(primitives, operation)(*words)


def test_a_bitmap_that_many_threads_set_at_once() -> None:
    members = np.random.default_rng(1).integers(0, 3000, 200_000).astype(np.uint32)
    (words,) = run(EMULATED, "bitmap_of", (members, 3000))
    assert run(EMULATED, "bitmap_members", (words,))[0].tolist() == np.unique(members).tolist()
    assert run(EMULATED, "bitmap_count", (words,)) == [len(np.unique(members))]


# Interval sets.


@on_every_backend
def test_one_interval_that_covers_everything(primitives: Primitives) -> None:
    spans = ids([3, 0, 1, ID_END - 1]), ids([ID_END - 1, ID_END, 2, ID_END])
    offsets, starts, ends = run(primitives, "interval_normalise", (ids([1, 1, 1, 1]), *spans, 3))
    assert (offsets.tolist(), starts.tolist(), ends.tolist()) == ([0, 0, 1, 1], [0], [ID_END])
    assert run(primitives, "interval_counts", (offsets, starts, ends))[0].tolist() == [0, ID_END, 0]
    owners, values = ids([0, 1, 1, 1, 2]), ids([0, 0, 2**31, ID_END - 1, 5])
    (found,) = run(primitives, "interval_contains", (offsets, starts, ends, owners, values))
    assert found.tolist() == [False, True, True, True, False]


@on_every_backend
def test_intervals_coalesce_if_they_overlap_or_touch_and_only_within_an_owner(primitives: Primitives) -> None:
    given = [
        (1, 10, 20), (1, 20, 21), (1, 15, 16), (1, 22, 23),  # touch, lie within, leave a gap of one
        (0, 0, 10), (2, 21, 30),  # touch those of another owner
        (2, 5, 5), (0, 9, 3),  # are empty
        (4, 7, 9), (4, 1, 2), (4, 7, 9),
    ]  # fmt: skip
    columns = [ids(column) for column in zip(*given, strict=True)]
    offsets, starts, ends = run(primitives, "interval_normalise", (*columns, 5))
    assert offsets.tolist() == [0, 1, 3, 4, 4, 6]
    assert starts.tolist() == [0, 10, 22, 21, 1, 7]
    assert ends.tolist() == [10, 21, 23, 30, 2, 9]


@pytest.mark.parametrize("size", SIZES)
def test_as_many_intervals_of_one_value(size: int) -> None:
    """All of one owner, one for each owner, and all empty."""
    numbers = np.arange(size, dtype=np.uint32)
    ends = numbers * np.uint32(2) + np.uint32(1)
    for owners, n_owners in ((np.zeros_like(numbers), 1), (numbers, size)):
        agree("interval_normalise", owners, ends - np.uint32(1), ends, n_owners)
        agree("interval_normalise", owners, ends, ends, n_owners)
        spans = REFERENCE.interval_normalise(owners, ends - np.uint32(1), ends, n_owners)
        agree("interval_counts", *spans)
        agree("interval_expand", *spans, owners)
        agree("interval_contains", *spans, owners, numbers)


@pytest.mark.parametrize("length", SIZES[1:])
def test_expanding_intervals_of_lengths_around_tiles(length: int) -> None:
    """A long interval between short ones, owners without any between them, owners asked for again."""
    starts, ends = ids([5, 10, 0, 1000]), ids([6, 10 + length, 3, 1001])
    offsets = np.array([0, 0, 2, 2, 2, 4, 4], np.uint64)
    for owners in ([1], [0], [0, 2, 3, 5], [1, 1, 0, 4, 4, 3, 1], [5, 4, 3, 2, 1, 0]):
        agree("interval_expand", offsets, starts, ends, ids(owners))


def test_no_owners() -> None:
    none = ids([])
    agree("interval_normalise", none, none, none, 0)
    agree("interval_counts", keys([0]), none, none)
    agree("interval_expand", keys([0]), none, none, none)
    agree("interval_contains", keys([0]), none, none, none, none)


# Graphs.

Edges = list[tuple[int, int]]


def chain(nodes: int) -> Edges:
    return [(x, x + 1) for x in range(nodes - 1)]


def pairs_in_a_row(count: int) -> Edges:
    """Components of two nodes, each leading to the next."""
    return [edge for x in range(0, 2 * count, 2) for edge in ((x, x + 1), (x + 1, x), (x + 1, x + 2))]


GRAPHS: dict[str, tuple[Edges, int]] = {
    "no nodes": ([], 0),
    "one node": ([], 1),
    "a loop": ([(0, 0)], 1),
    "nodes without edges": ([], 33),
    "a chain": (chain(257), 257),
    "a chain backwards": ([(y, x) for x, y in chain(257)], 257),
    "a cycle": ([*chain(100), (99, 0)], 100),
    "a cycle backwards with a tail": ([(y, x) for x, y in chain(64)] + [(0, 50), (5, 64), (64, 65)], 70),
    "all edges of one node": ([(7, x) for x in range(300)], 300),
    "all edges to one node": ([(x, 7) for x in range(300)], 300),
    "a star both ways": ([(0, x) for x in range(1, 90)] + [(x, 0) for x in range(1, 90)], 90),
    "every edge three times": ([*chain(33)] * 3, 33),
    "a complete graph": ([(x, y) for x in range(17) for y in range(17)], 17),
    "components in a row": (pairs_in_a_row(60), 121),
    "components in a row, backwards": ([(120 - x, 120 - y) for x, y in pairs_in_a_row(60)], 121),
    "a cycle between chains": ([*chain(40), (25, 15)], 40),
    "two cycles with a bridge": ([*chain(20), (8, 0), (19, 9)], 20),
    "a ladder": ([(x, x + 2) for x in range(60)] + [(x, x + 1) for x in range(0, 60, 2)], 62),
    "several parts": ([(x, x + 5) for x in range(60)] + [(64, 60), (3, 3), (70, 71), (71, 70)], 80),
}


def graph_calls(edges: Edges, nodes: int) -> dict[str, Args]:
    sources, targets = ids(x for x, _ in edges), ids(y for _, y in edges)
    offsets, ordered = csr(edges, nodes)
    seeds = ids([0, nodes // 2, 0] if nodes else [])
    return {
        "components": (sources, targets, nodes),
        "breadth_first": (offsets, ordered, seeds, nodes),
        "levels_of_dag": (offsets, ordered, nodes),
        "strongly_connected": (offsets, ordered, nodes),
    }


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_all_shapes(name: str) -> None:
    for operation, args in graph_calls(*GRAPHS[name]).items():
        agree(operation, *args)


@on_every_backend
def test_a_graph_by_hand(primitives: Primitives) -> None:
    """0 → 1 ⇄ 2 → 3, 4 → 3, and 5 with a loop."""
    edges, nodes = [(0, 1), (1, 2), (2, 1), (2, 3), (4, 3), (5, 5)], 6
    calls = graph_calls(edges, nodes)
    assert run(primitives, "components", calls["components"])[0].tolist() == [0, 0, 0, 0, 0, 5]
    assert run(primitives, "strongly_connected", calls["strongly_connected"])[0].tolist() == [
        0,
        1,
        1,
        3,
        4,
        5,
    ]
    assert run(primitives, "levels_of_dag", calls["levels_of_dag"])[0].tolist() == [
        0,
        NONE,
        NONE,
        NONE,
        0,
        NONE,
    ]
    offsets, targets = csr(edges, nodes)
    (levels,) = run(primitives, "breadth_first", (offsets, targets, ids([1, 4]), nodes))
    assert levels.tolist() == [NONE, 0, 1, 1, 0, NONE]


def test_reaching_from_no_seed_and_from_all() -> None:
    offsets, targets = csr(chain(33), 33)
    agree("breadth_first", offsets, targets, ids([]), 33)
    agree("breadth_first", offsets, targets, ids(range(33)), 33)
    agree("breadth_first", offsets, targets, ids([32, 5, 32, 5]), 33)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_items_changes_nothing(seed: int) -> None:
    """The simulator shuffles which thread does what; edges here meet in the same nodes all the time."""
    rng = np.random.default_rng(100)
    random = [(int(x), int(y)) for x, y in rng.integers(0, 24, (60, 2))]
    for edges, nodes in (
        (random, 24),
        (pairs_in_a_row(6), 13),
        ([(x, (x * 7 + 1) % 31) for x in range(31)], 31),
    ):
        for operation, args in graph_calls(edges, nodes).items():
            assert_same(run(simulated(seed), operation, args), run(REFERENCE, operation, args))


def large_graph(kind: str) -> tuple[Edges, int]:
    rng = np.random.default_rng(3)
    if kind == "skewed":
        edges = (rng.pareto(0.6, (100_000, 2)) * 3).astype(np.int64) % 60_000
    elif kind == "sparse":
        edges = rng.integers(0, 90_000, (100_000, 2))
    else:
        edges = np.sort(rng.integers(0, 20_000, (100_000, 2)), axis=1)
    return [(int(x), int(y)) for x, y in edges], int(edges.max()) + 1


@pytest.mark.parametrize("kind", ["skewed", "sparse", "acyclic"])
def test_two_threads_at_once_on_large_graphs(kind: str) -> None:
    for operation, args in graph_calls(*large_graph(kind)).items():
        (found,), (expected,) = run(EMULATED, operation, args), run(CPU, operation, args)
        assert np.array_equal(found, expected), operation


def test_two_threads_at_once_on_large_runs_and_intervals() -> None:
    rng = np.random.default_rng(4)
    a, b = (np.unique(rng.integers(0, 400_000, 150_000).astype(np.uint64)) for _ in range(2))
    for operation in ("merge", "union", "difference", "intersection"):
        assert_same(run(EMULATED, operation, (a, b)), run(CPU, operation, (a, b)))
    owners, starts = rng.integers(0, 500, 60_000), rng.integers(0, 30_000, 60_000)
    args = tuple(x.astype(np.uint32) for x in (owners, starts, starts + rng.integers(0, 9, 60_000)))
    spans = run(CPU, "interval_normalise", (*args, 500))
    assert_same(run(EMULATED, "interval_normalise", (*args, 500)), spans)
    everybody = np.arange(500, dtype=np.uint32)
    assert_same(
        run(EMULATED, "interval_expand", (*spans, everybody)),
        run(CPU, "interval_expand", (*spans, everybody)),
    )


def test_only_sizes_come_back_from_each_level() -> None:
    device = EmulatedDevice(threads=1)
    primitives = CudaPrimitives(device)
    offsets, targets, seeds = (primitives.upload(one) for one in (*csr(chain(50), 50), ids([0])))
    primitives.breadth_first(offsets, targets, seeds, 50)
    assert device.statistics.syncs <= 50 + 2
    assert device.statistics.downloaded <= 16 * 52


def test_components_do_not_wait() -> None:
    device = EmulatedDevice(threads=1)
    primitives = CudaPrimitives(device)
    primitives.components(primitives.upload(ids([0])), primitives.upload(ids([1])), 2)
    assert device.statistics.syncs == 0


def colourings(edges: Edges, nodes: int) -> tuple[list[int], float]:
    """The labels of strongly connected components, and how often a node was coloured on average."""
    device = EmulatedDevice(threads=1)
    primitives = CudaPrimitives(device)
    offsets, targets = (primitives.upload(one) for one in csr(edges, nodes))
    labels = primitives.download(primitives.strongly_connected(offsets, targets, nodes)).tolist()
    return labels, device.statistics.items["strong_colour"] / nodes


def test_nodes_off_cycles_are_never_coloured() -> None:
    """Neither those that lead to a cycle nor those behind it."""
    labels, rounds = colourings(*GRAPHS["a cycle between chains"])
    assert labels == [15 if 15 <= x <= 25 else x for x in range(40)]
    assert rounds * 40 == 11


def test_components_in_a_row_take_few_rounds() -> None:
    """With a fixed order of nodes a round would find one component: 256 colours a node."""
    labels, rounds = colourings(pairs_in_a_row(512), 1025)
    assert labels == [x - x % 2 for x in range(1025)]
    assert rounds < 10


def test_components_that_lead_to_all_later_ones_take_few_rounds() -> None:
    """If rounds did not stay within the colours of the last one, these would take 15 a node."""
    pairs = [edge for x in range(0, 600, 2) for edge in ((x, x + 1), (x + 1, x))]
    labels, rounds = colourings(pairs + [(x, y) for x in range(0, 600, 2) for y in range(x + 2, 600, 2)], 600)
    assert labels == [x - x % 2 for x in range(600)]
    assert rounds < 10
