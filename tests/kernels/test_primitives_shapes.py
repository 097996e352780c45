"""Primitives on inputs of chosen shapes: sizes around tiles, warps and blocks, extremes, skew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.primitives.sorted_sets import merge_runs
from tests.kernels.cuda.simulator import SimulatedDevice
from tests.kernels.primitive_cases import (
    CPU,
    EMULATED,
    REFERENCE,
    assert_same,
    ids,
    run,
    simulated,
    those_with,
)

BACKENDS = (REFERENCE, CPU, EMULATED, simulated(seed=7))
SIZES = (0, 1, 2, 7, 8, 9, 31, 32, 33, 255, 256, 257)

on_every_backend = pytest.mark.parametrize(
    "primitives", BACKENDS, ids=["reference", "cpu", "emulated", "simulated"]
)


def agree(operation: str, *args: Any) -> None:
    """All backends that have it, but the simulator, give what the reference gives."""
    expected = run(REFERENCE, operation, args)
    for primitives in those_with(operation):
        assert_same(run(primitives, operation, args), expected)


@pytest.mark.parametrize("device", [EmulatedDevice(2), SimulatedDevice(8, 4)], ids=["emulated", "simulated"])
@pytest.mark.parametrize("a_size", SIZES)
@pytest.mark.parametrize("b_size", [0, 1, 8, 33, 256])
def test_merging_runs_of_sizes_around_tiles(device: Any, a_size: int, b_size: int) -> None:
    """Both every other number, equal ones, all behind one another, and at the ends of what a key can be."""
    for a, b in (
        (range(0, 2 * a_size, 2), range(1, 2 * b_size, 2)),
        (range(a_size), range(b_size)),
        ([2**53 + 1] * a_size, [2**53 + 1] * b_size),
        (range(a_size), range(a_size, a_size + b_size)),
        (range(0, 3 * a_size, 3), range(2**64 - b_size, 2**64)),
        (range(2**63 - a_size, 2**63), range(2**63, 2**63 + b_size)),
    ):
        given = [np.array(list(keys), np.uint64) for keys in (a, b)]
        merged = device.download(merge_runs(device, *map(device.upload, given)))
        assert merged.tolist() == sorted([*a, *b])


def test_merging_makes_one_launch_and_does_not_wait() -> None:
    device = EmulatedDevice(threads=1)
    a, b = (device.upload(np.array(keys, np.uint64)) for keys in ([1, 3], [2]))
    assert merge_runs(device, a, b).tolist() == [1, 2, 3]
    assert (device.statistics.launches, device.statistics.syncs) == (1, 0)


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


@pytest.mark.parametrize("name", GRAPHS)
def test_components_of_all_shapes(name: str) -> None:
    edges, nodes = GRAPHS[name]
    agree("components", ids(x for x, _ in edges), ids(y for _, y in edges), nodes)


def test_components_by_hand() -> None:
    """0 → 1 ⇄ 2 → 3, 4 → 3, and 5 with a loop."""
    edges = [(0, 1), (1, 2), (2, 1), (2, 3), (4, 3), (5, 5)]
    (found,) = run(CPU, "components", (ids(x for x, _ in edges), ids(y for _, y in edges), 6))
    assert found.tolist() == [0, 0, 0, 0, 0, 5]
