"""Graphs on a device: components by hooking, levels by following frontiers."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_add, compare_and_swap
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.frontier import FOLLOW, TILE, Frontier, append_marked, edge_at
from gpuengine.kernels.cuda.search import span_after, span_of
from gpuengine.kernels.cuda.spec import device_function, device_kernel
from gpuengine.kernels.primitives import NONE


def components(device: Device, sources: Array, targets: Array, nodes: int) -> Array:
    """The least node of each node's component. Three launches, no synchronisation."""
    parents = device.empty(nodes, np.uint32)
    device.launch(graph_alone, nodes, parents)
    device.launch(graph_hook, len(sources), sources, targets, parents)
    device.launch(graph_flatten, nodes, parents)
    return parents


def breadth_first(device: Device, offsets: Array, targets: Array, seeds: Array, nodes: int) -> Array:
    """The distance of each node from the seeds, or NONE."""
    levels = device.full(nodes, NONE, np.uint32)
    first, counter = device.empty(min(len(seeds), nodes), np.uint32), device.full(1, 0, np.uint64)
    device.launch(graph_seed, len(seeds), seeds, levels, first, counter)
    frontier = Frontier(device, offsets, targets, nodes)
    frontier.start(first[: int(device.read(counter)[0])])
    level = 0
    while frontier.edges:
        level += 1
        frontier.follow(graph_reach, levels, level)
    return levels


def levels_of_dag(device: Device, offsets: Array, targets: Array, nodes: int) -> Array:
    """The length of the longest path to each node, or NONE where cycles lead to it."""
    incoming, levels = device.full(nodes, 0, np.uint32), device.full(nodes, NONE, np.uint32)
    device.launch(graph_count_incoming, len(targets), targets, incoming)
    flags = device.empty(nodes, np.uint8)
    device.launch(graph_begin_levels, nodes, incoming, levels, flags)
    frontier = Frontier(device, offsets, targets, nodes)
    frontier.start(device.select(flags))
    level = 0
    while frontier.edges:
        level += 1
        frontier.follow(graph_peel, incoming, levels, level)
    return levels


@device_function
def root_of(parents, x):
    """The root of a node's tree, as far as this item sees; shortens the path to it.

    Parents are lesser nodes, or the node itself if it is a root, and once it has a parent it never is a root
    again. What is written here is always an ancestor, to a node that is no root: whatever others write
    there, and however old a value is that this item reads, the paths go on to lead to the same roots.
    """
    parent = np.int64(parents[x])
    while parent != x:
        above = np.int64(parents[parent])
        if above != parent:
            parents[x] = np.uint32(above)
        x = parent
        parent = above
    return x


@device_kernel("u4*", streamed=4)
def graph_alone(i, parents):
    """Every node is a root."""
    parents[i] = np.uint32(i)


@device_kernel("u4*, u4*, u4*", streamed=8, random=2)
def graph_hook(i, sources, targets, parents):
    """Hang the greater of the roots of an edge's ends below the lesser.

    Only a root can be hung, by whoever swaps first; the others learn its parent, a lesser node, and go on
    from there, so that every turn has lesser nodes than the one before and nobody waits.
    """
    x = root_of(parents, np.int64(sources[i]))
    y = root_of(parents, np.int64(targets[i]))
    while x != y:
        if x < y:
            lesser = x
            x = y
            y = lesser
        held = np.int64(compare_and_swap(parents, x, np.uint32(x), np.uint32(y)))
        if held == x:
            x = y
        else:
            x = root_of(parents, held)


@device_kernel("u4*", streamed=16)
def graph_flatten(i, parents):
    """Point a node at its root, the least node of its component.

    Paths are not shortened on the way: nobody but item i writes to node i, or an ancestor that another item
    saw on the way could replace the root. What others read there is an ancestor, before and after.
    """
    x = i
    parent = np.int64(parents[x])
    while parent != x:
        x = parent
        parent = np.int64(parents[x])
    parents[i] = np.uint32(x)


@device_kernel("u4*, u4*, u4*, u8*", streamed=4, random=3)
def graph_seed(i, seeds, levels, queue, counter):
    """A seed has level 0; whoever sets it appends it."""
    node = np.int64(seeds[i])
    if compare_and_swap(levels, node, np.uint32(NONE), np.uint32(0)) == np.uint32(NONE):
        slot = np.int64(atomic_add(counter, np.int64(0), np.uint64(1)))
        queue[slot] = np.uint32(node)


@device_kernel(f"{FOLLOW}, u4*, i8", streamed=4 * TILE, random=TILE + 4)
def graph_reach(i, scan, frontier, size, offsets, targets, edges, queue, counters, levels, level):
    """Nodes that have no level get this one; whoever sets it appends them.

    Levels are set once: one that is seen set needs no atomic operation.
    """
    place = i * TILE
    end = min(place + TILE, edges)
    first = span_of(scan, size, place)
    span = first
    marks = np.int64(0)
    bit = np.int64(1)
    while place < end:
        span = span_after(scan, span, place)
        node = np.int64(targets[edge_at(scan, frontier, offsets, span, place)])
        unset = np.uint32(NONE)
        if levels[node] == unset and compare_and_swap(levels, node, unset, np.uint32(level)) == unset:
            marks |= bit
        bit += bit
        place += 1
    append_marked(marks, i * TILE, first, scan, frontier, offsets, targets, queue, counters)


@device_kernel("u4*, u4*", streamed=4, random=1)
def graph_count_incoming(i, targets, incoming):
    atomic_add(incoming, np.int64(targets[i]), np.uint32(1))


@device_kernel("u4*, u4*, u1*", streamed=9)
def graph_begin_levels(i, incoming, levels, flags):
    """Nodes that no edge leads to have level 0 and are flagged."""
    flags[i] = np.uint8(0)
    if incoming[i] == np.uint32(0):
        levels[i] = np.uint32(0)
        flags[i] = np.uint8(1)


@device_kernel(f"{FOLLOW}, u4*, u4*, i8", streamed=4 * TILE, random=TILE + 4)
def graph_peel(i, scan, frontier, size, offsets, targets, edges, queue, counters, incoming, levels, level):
    """Take an edge away from its target; whoever takes the last one gives the level and appends the node."""
    place = i * TILE
    end = min(place + TILE, edges)
    first = span_of(scan, size, place)
    span = first
    marks = np.int64(0)
    bit = np.int64(1)
    while place < end:
        span = span_after(scan, span, place)
        node = np.int64(targets[edge_at(scan, frontier, offsets, span, place)])
        if atomic_add(incoming, node, np.uint32(0xFFFFFFFF)) == np.uint32(1):
            levels[node] = np.uint32(level)
            marks |= bit
        bit += bit
        place += 1
    append_marked(marks, i * TILE, first, scan, frontier, offsets, targets, queue, counters)
