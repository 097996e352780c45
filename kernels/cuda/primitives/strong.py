"""Strongly connected components on a device: trimming, then colouring.

A node that no cycle leads to, or that leads to none, is a component of its own: peeling from both sides finds
them. Among the rest, each round gives every node the colour of the first node, in a random order, that
reaches it; a node that keeps its own colour is the root of a component, made of what reaches it among its
colour. Nodes of different colours are in different components, so the next round follows edges within a
colour only: each set is cut at a random place, and the number of rounds grows with the logarithm of the
components that lie behind one another.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_min, compare_and_swap
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.frontier import FOLLOW, TILE, Frontier, append_marked, edge_at
from gpuengine.kernels.cuda.primitives.graphs import levels_of_dag
from gpuengine.kernels.cuda.search import first_not_less, span_after, span_of
from gpuengine.kernels.cuda.spec import device_function, device_kernel
from gpuengine.kernels.primitives import NONE


def strongly_connected(device: Device, offsets: Array, targets: Array, nodes: int) -> Array:
    """The least node of each node's component."""
    back_offsets, back_targets = _reversed(device, offsets, targets, nodes)
    ahead = levels_of_dag(device, offsets, targets, nodes)
    behind = levels_of_dag(device, back_offsets, back_targets, nodes)
    roots, flags = device.empty(nodes, np.uint32), device.empty(nodes, np.uint8)
    device.launch(strong_trim, nodes, ahead, behind, roots, flags)
    left = device.select(flags)
    if len(left):
        forward = Frontier(device, offsets, targets, nodes)
        backward = Frontier(device, back_offsets, back_targets, nodes)
        _assign(device, left, roots, forward, backward)
    least = device.full(nodes, NONE, np.uint32)
    device.launch(strong_least, nodes, roots, least)
    return device.gather(least, roots)


def _reversed(device: Device, offsets: Array, targets: Array, nodes: int) -> tuple[Array, Array]:
    """The graph with its edges the other way."""
    edges = len(targets)
    keys = device.empty(edges, np.uint64)
    device.launch(strong_turn, -(-edges // TILE), offsets, nodes, edges, targets, keys)
    return grouped(device, device.sort(keys), nodes)


def grouped(device: Device, keys: Array, groups: int) -> tuple[Array, Array]:
    """Ascending keys in CSR form: where those of each upper half begin, and the lower halves."""
    offsets, values = device.empty(groups + 1, np.uint64), device.empty(len(keys), np.uint32)
    device.launch(strong_back_offsets, groups + 1, keys, len(keys), offsets)
    device.launch(strong_back_targets, len(keys), keys, values)
    return offsets, values


def _assign(device: Device, left: Array, roots: Array, forward: Frontier, backward: Frontier) -> None:
    """Find the roots of the nodes that are left, round by round."""
    nodes = len(roots)
    colours, cuts = device.full(nodes, 0, np.uint32), device.empty(nodes, np.uint32)
    stamps, step = device.full(nodes, 0, np.uint32), 0
    while len(left):
        device.launch(strong_colour, len(left), left, colours, cuts)
        forward.start(left)
        while forward.edges:
            step += 1
            forward.follow(strong_spread, roots, cuts, colours, stamps, step)
        flags = device.empty(len(left), np.uint8)
        device.launch(strong_root, len(left), left, colours, roots, flags)
        backward.start(device.gather(left, device.select(flags)))
        while backward.edges:
            backward.follow(strong_collect, roots, colours)
        device.launch(strong_left, len(left), left, roots, flags)
        left = device.gather(left, device.select(flags))


@device_function
def rank_of(node):
    """A node's place in a random order, as its colour: different for different nodes (murmur's finaliser)."""
    rank = np.uint64(node)
    rank = ((rank ^ (rank >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & np.uint64(0xFFFFFFFF)
    rank = ((rank ^ (rank >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & np.uint64(0xFFFFFFFF)
    return np.uint32(rank ^ (rank >> np.uint64(16)))


@device_function
def claims(stamps, node, step):
    """Set a node's stamp to this step's, which is the only one being set: True for one item only."""
    stamp = stamps[node]
    return stamp != step and compare_and_swap(stamps, node, stamp, step) == stamp


@device_kernel("u8*, i8, i8, u4*, u8*", streamed=12 * TILE, random=2)
def strong_turn(i, offsets, nodes, edges, targets, keys):
    """A tile of edges as keys of target and source."""
    place = i * TILE
    end = min(place + TILE, edges)
    node = span_of(offsets, nodes, place)
    while place < end:
        node = span_after(offsets, node, place)
        keys[place] = np.uint64(targets[place]) << np.uint64(32) | np.uint64(node)
        place += 1


@device_kernel("u8*, i8, u8*", streamed=8, random=1)
def strong_back_offsets(i, keys, edges, offsets):
    """Where the sources of node i begin; one item more than there are nodes."""
    offsets[i] = np.uint64(first_not_less(keys, np.int64(0), edges, np.uint64(i) << np.uint64(32)))


@device_kernel("u8*, u4*", streamed=12)
def strong_back_targets(i, keys, targets):
    targets[i] = np.uint32(keys[i] & np.uint64(0xFFFFFFFF))


@device_kernel("u4*, u4*, u4*, u1*", streamed=13)
def strong_trim(i, ahead, behind, roots, flags):
    """A node that has a level from one of the sides is its own root; the others are flagged."""
    if ahead[i] == np.uint32(NONE) and behind[i] == np.uint32(NONE):
        roots[i] = np.uint32(NONE)
        flags[i] = np.uint8(1)
    else:
        roots[i] = np.uint32(i)
        flags[i] = np.uint8(0)


@device_kernel("u4*, u4*, u4*", streamed=4, random=2)
def strong_colour(i, left, colours, cuts):
    """A node's colour of the last round says which set it is in; it begins with its own colour again."""
    node = np.int64(left[i])
    cuts[node] = colours[node]
    colours[node] = rank_of(node)


@device_kernel(f"{FOLLOW}, u4*, u4*, u4*, u4*, i8", streamed=4 * TILE, random=2 * TILE + 4)
def strong_spread(
    i, scan, frontier, size, offsets, targets, edges, queue, counters, roots, cuts, colours, stamps, step
):
    """Hand a node's colour on to those of its set that have a later one; they come next.

    Colours only fall: an old one that is read, here or at the source, is at worst too high, and whoever
    lowers the source has it come again.
    """
    place = i * TILE
    end = min(place + TILE, edges)
    first = span_of(scan, size, place)
    span = first
    marks = np.int64(0)
    bit = np.int64(1)
    while place < end:
        span = span_after(scan, span, place)
        source = np.int64(frontier[span])
        node = np.int64(targets[edge_at(scan, frontier, offsets, span, place)])
        colour = colours[source]
        if (
            roots[node] == np.uint32(NONE)
            and cuts[node] == cuts[source]
            and colour < colours[node]
            and colour < atomic_min(colours, node, colour)
            and claims(stamps, node, np.uint32(step))
        ):
            marks |= bit
        bit += bit
        place += 1
    append_marked(marks, i * TILE, first, scan, frontier, offsets, targets, queue, counters)


@device_kernel("u4*, u4*, u4*, u1*", streamed=21)
def strong_root(i, left, colours, roots, flags):
    """A node that kept its colour is a root; it is flagged."""
    node = np.int64(left[i])
    flags[i] = np.uint8(0)
    if colours[node] == rank_of(node):
        roots[node] = np.uint32(node)
        flags[i] = np.uint8(1)


@device_kernel(f"{FOLLOW}, u4*, u4*", streamed=4 * TILE, random=2 * TILE + 4)
def strong_collect(i, scan, frontier, size, offsets, targets, edges, queue, counters, roots, colours):
    """Follow edges backwards within a colour: what reaches the root is given it, and appended by who does."""
    place = i * TILE
    end = min(place + TILE, edges)
    first = span_of(scan, size, place)
    span = first
    marks = np.int64(0)
    bit = np.int64(1)
    while place < end:
        span = span_after(scan, span, place)
        source = np.int64(frontier[span])
        node = np.int64(targets[edge_at(scan, frontier, offsets, span, place)])
        unset = np.uint32(NONE)
        if (
            roots[node] == unset
            and colours[node] == colours[source]
            and compare_and_swap(roots, node, unset, roots[source]) == unset
        ):
            marks |= bit
        bit += bit
        place += 1
    append_marked(marks, i * TILE, first, scan, frontier, offsets, targets, queue, counters)


@device_kernel("u4*, u4*, u1*", streamed=13)
def strong_left(i, left, roots, flags):
    """Flag the nodes that have no root yet."""
    flags[i] = np.uint8(1 if roots[np.int64(left[i])] == np.uint32(NONE) else 0)


@device_kernel("u4*, u4*", streamed=4, random=1)
def strong_least(i, roots, least):
    """The least node that has a root."""
    atomic_min(least, np.int64(roots[i]), np.uint32(i))
