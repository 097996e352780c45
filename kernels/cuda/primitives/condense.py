"""The condensation of a graph on a device: components numbered by level, and nodes in the order of levels."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.graphs import levels_of_dag
from gpuengine.kernels.cuda.primitives.strong import grouped, strongly_connected
from gpuengine.kernels.cuda.search import span_after, span_of
from gpuengine.kernels.cuda.spec import device_kernel
from gpuengine.kernels.primitives import NONE

TILE = 8
"""Edges that one item translates."""


def condense(device: Device, offsets: Array, targets: Array, nodes: int) -> tuple[Array, int]:
    """The number of each node's component: those behind the most others come first, of equals the least node.

    Components go by their least nodes until they are numbered.
    """
    labels = strongly_connected(device, offsets, targets, nodes)
    keys = device.empty(len(targets), np.uint64)
    items = -(-len(targets) // TILE)
    device.launch(condense_edges, items, offsets, nodes, len(targets), targets, labels, keys)
    between, leading_to = grouped(device, device.sort(keys), nodes)
    edges = int(device.read(between[-1:])[0])
    levels = levels_of_dag(device, between, leading_to[:edges], nodes)
    flags = device.empty(nodes, np.uint8)
    device.launch(condense_roots, nodes, labels, flags)
    roots = device.select(flags)
    ranked = deepest_first(device, roots, levels)
    numbers = device.empty(nodes, np.uint32)
    device.launch(condense_number, len(roots), ranked, numbers)
    return device.gather(numbers, labels), len(roots)


def deepest_first(device: Device, nodes: Array, levels: Array) -> Array:
    """Keys that are ascending, with nodes in their lower halves: those of the greatest level first."""
    keys = device.empty(len(nodes), np.uint64)
    device.launch(condense_rank, len(nodes), nodes, levels, keys)
    return device.sort(keys)


@device_kernel("u8*, i8, i8, u4*, u4*, u8*", streamed=12 * TILE, random=TILE)
def condense_edges(i, offsets, nodes, edges, targets, labels, keys):
    """A tile of edges between components as keys; edges within one get the greatest key, which none has."""
    place = i * TILE
    end = min(place + TILE, edges)
    node = span_of(offsets, nodes, place)
    while place < end:
        node = span_after(offsets, node, place)
        source = labels[node]
        target = labels[np.int64(targets[place])]
        if source == target:
            keys[place] = np.uint64(0xFFFFFFFFFFFFFFFF)
        else:
            keys[place] = np.uint64(source) << np.uint64(32) | np.uint64(target)
        place += 1


@device_kernel("u4*, u1*", streamed=5)
def condense_roots(i, labels, flags):
    """Flag the least nodes of components."""
    flags[i] = np.uint8(1 if np.int64(labels[i]) == i else 0)


@device_kernel("u4*, u4*, u8*", streamed=20)
def condense_rank(i, nodes, levels, keys):
    """A node as a key: the greater its level, the lesser."""
    depth = np.uint64(NONE) - np.uint64(levels[np.int64(nodes[i])])
    keys[i] = depth << np.uint64(32) | np.uint64(nodes[i])


@device_kernel("u8*, u4*", streamed=20)
def condense_number(i, ranked, numbers):
    """The number of a component is its place in the order."""
    numbers[np.int64(ranked[i] & np.uint64(0xFFFFFFFF))] = np.uint32(i)
