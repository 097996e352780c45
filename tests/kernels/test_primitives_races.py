"""Kernels whose items meet in the same words, with every order of accesses that a seed draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.cuda.primitives.frontier import Frontier
from gpuengine.kernels.cuda.primitives.graphs import graph_flatten, graph_peel, graph_reach, graph_seed
from gpuengine.kernels.cuda.primitives.strong import strong_collect, strong_spread
from gpuengine.kernels.primitives import NONE
from tests.kernels.interleaved import InterleavedDevice
from tests.kernels.primitive_cases import REFERENCE, assert_same, csr, ids, run

every_seed = pytest.mark.parametrize("seed", range(10))

#: Every one of the first six nodes leads to every one of the last six.
WIDTH = 6
OFFSETS, TARGETS = csr([(x, WIDTH + y) for x in range(WIDTH) for y in range(WIDTH)], 2 * WIDTH)


@every_seed
def test_a_root_that_many_hang_at_once(seed: int) -> None:
    args = ids([15] * 15), ids(range(15)), 16
    assert_same(run(CudaPrimitives(InterleavedDevice(seed)), "components", args), [ids([0] * 16)])


@every_seed
def test_deep_trees_are_flattened_while_others_read_them(seed: int) -> None:
    device = InterleavedDevice(seed)
    parents = device.upload(ids(max(x - 1, 0) for x in range(24)))
    device.launch(graph_flatten, 24, parents)
    assert device.download(parents).tolist() == [0] * 24


@every_seed
def test_bits_of_one_word(seed: int) -> None:
    args = ids([*range(32), *range(32)]), 32
    assert_same(run(CudaPrimitives(InterleavedDevice(seed)), "bitmap_of", args), [ids([2**32 - 1])])


@every_seed
def test_a_seed_that_comes_many_times_is_appended_once(seed: int) -> None:
    device = InterleavedDevice(seed)
    levels, queue, counter = (
        device.full(2, NONE, np.uint32),
        device.empty(8, np.uint32),
        device.full(1, 0, "u8"),
    )
    device.launch(graph_seed, 8, device.upload(ids([1] * 8)), levels, queue, counter)
    assert (levels.tolist(), counter.tolist(), queue[:1].tolist()) == ([NONE, 0], [1], [1])


def reach(device: InterleavedDevice, frontier: Frontier) -> np.ndarray:
    levels = device.full(2 * WIDTH, NONE, np.uint32)
    frontier.follow(graph_reach, levels, 3)
    return device.download(levels) == 3


def peel(device: InterleavedDevice, frontier: Frontier) -> np.ndarray:
    incoming, levels = device.full(2 * WIDTH, WIDTH, np.uint32), device.full(2 * WIDTH, NONE, np.uint32)
    frontier.follow(graph_peel, incoming, levels, 3)
    return device.download(levels) == 3


def spread(device: InterleavedDevice, frontier: Frontier) -> np.ndarray:
    roots, cuts = device.full(2 * WIDTH, NONE, np.uint32), device.full(2 * WIDTH, 9, np.uint32)
    colours, stamps = device.upload(ids(range(2, 2 * WIDTH + 2))), device.full(2 * WIDTH, 6, np.uint32)
    frontier.follow(strong_spread, roots, cuts, colours, stamps, 7)
    return (device.download(colours) == 2) & (device.download(stamps) == 7)


def collect(device: InterleavedDevice, frontier: Frontier) -> np.ndarray:
    roots, colours = device.full(2 * WIDTH, NONE, np.uint32), device.full(2 * WIDTH, 5, np.uint32)
    device.copy(roots[:WIDTH], device.full(WIDTH, 0, np.uint32))
    frontier.follow(strong_collect, roots, colours)
    return (device.download(roots) == 0) & (np.arange(2 * WIDTH) >= WIDTH)


@every_seed
@pytest.mark.parametrize("step", [reach, peel, spread, collect])
def test_a_node_that_many_reach_at_once_is_appended_once(step: Callable[..., Any], seed: int) -> None:
    device = InterleavedDevice(seed)
    frontier = Frontier(device, device.upload(OFFSETS), device.upload(TARGETS), 2 * WIDTH)
    frontier.start(device.upload(ids(range(WIDTH))))
    reached = step(device, frontier)
    last = list(range(WIDTH, 2 * WIDTH))
    assert np.flatnonzero(reached).tolist() == last
    assert sorted(frontier.nodes.tolist()) == last
    assert frontier.edges == 0


@every_seed
def test_dense_graphs_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = [(int(x), int(y)) for x, y in rng.integers(0, 10, (22, 2))]
    offsets, targets = csr(edges, 10)
    primitives = CudaPrimitives(InterleavedDevice(seed))
    for operation, args in {
        "components": (ids(x for x, _ in edges), ids(y for _, y in edges), 10),
        "breadth_first": (offsets, targets, ids([0, 3, 0]), 10),
        "levels_of_dag": (offsets, targets, 10),
        "strongly_connected": (offsets, targets, 10),
    }.items():
        assert_same(run(primitives, operation, args), run(REFERENCE, operation, args))
