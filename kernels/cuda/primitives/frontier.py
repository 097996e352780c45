"""Nodes whose edges are followed next, and the tiles of edges in which kernels follow them.

A kernel that follows edges takes ``scan, frontier, size, offsets, targets, edges, queue, counters`` and what
else it needs. Item i has the edges [8 i, 8 i + 8) of all that leave the frontier, in the order of `scan`,
the scanned degrees: one node with a million edges and a million with one are the same work. It remembers
in eight bits which of the edges lead to a node that comes next, and appends those at once
(`append_marked`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuengine.kernels.cuda.atomics import atomic_add
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.search import span_after
from gpuengine.kernels.cuda.spec import DeviceKernel, device_function, device_kernel

TILE = 8
"""Edges that one item follows."""

FOLLOW = "u8*, u4*, i8, u8*, u4*, i8, u4*, u8*"
"""The types of the parameters that every kernel which follows edges has."""


class Frontier:
    """A set of nodes of a CSR graph, and how many edges leave it; each step replaces it by the next one.

    No step may append a node twice: there is room for every node once.
    """

    def __init__(self, device: Device, offsets: Array, targets: Array, nodes: int) -> None:
        self._device, self._offsets, self._targets = device, offsets, targets
        self._queue, self._other = device.empty(nodes, np.uint32), device.empty(nodes, np.uint32)
        self._counters, self._zeros = device.full(2, 0, np.uint64), device.full(2, 0, np.uint64)
        self._scan: Array = None
        self.nodes = self._queue[:0]
        self.edges = 0

    def start(self, nodes: Array) -> None:
        """Begin with these nodes. Waits, to learn how many edges they have."""
        self.nodes = nodes
        self._scan = self._scanned_degrees()
        self.edges = int(self._device.read(self._scan[-1:])[0])

    def follow(self, kernel: DeviceKernel, *args: Any) -> None:
        """Follow all edges of the nodes; those that the kernel appends are the nodes from then on.

        Waits, to learn how many they are and how many edges they have.
        """
        device = self._device
        device.copy(self._counters, self._zeros)
        device.launch(
            kernel,
            -(-self.edges // TILE),
            self._scan,
            self.nodes,
            len(self.nodes),
            self._offsets,
            self._targets,
            self.edges,
            self._other,
            self._counters,
            *args,
        )
        size, self.edges = map(int, device.read(self._counters))
        self.nodes = self._other[:size]
        self._queue, self._other = self._other, self._queue
        if self.edges:
            self._scan = self._scanned_degrees()

    def _scanned_degrees(self) -> Array:
        degrees = self._device.empty(len(self.nodes), np.uint32)
        self._device.launch(graph_degree, len(self.nodes), self.nodes, self._offsets, degrees)
        return self._device.offsets(degrees)


@device_function
def edge_at(scan, frontier, offsets, span, place):
    """The edge of the graph that is at a place of the frontier's edges; `span` is its node's."""
    return np.int64(offsets[np.int64(frontier[span])]) + place - np.int64(scan[span])


@device_function
def append_marked(marks, place, span, scan, frontier, offsets, targets, queue, counters):
    """Append the targets of the edges from `place` on whose bits are set in `marks`, lowest first.

    The places in the queue are taken all at once; nobody else writes them, and nobody reads before the end.
    """
    found = np.int64(0)
    left = marks
    while left != 0:
        found += left & 1
        left >>= 1
    if found > 0:
        slot = np.int64(atomic_add(counters, np.int64(0), np.uint64(found)))
        edges = np.int64(0)
        left = marks
        while left != 0:
            if left & 1:
                span = span_after(scan, span, place)
                node = np.int64(targets[edge_at(scan, frontier, offsets, span, place)])
                queue[slot] = np.uint32(node)
                slot += 1
                edges += np.int64(offsets[node + 1]) - np.int64(offsets[node])
            place += 1
            left >>= 1
        if edges > 0:
            atomic_add(counters, np.int64(1), np.uint64(edges))


@device_kernel("u4*, u8*, u4*", streamed=8, random=1)
def graph_degree(i, frontier, offsets, degrees):
    """How many edges leave the i-th node of the frontier."""
    node = np.int64(frontier[i])
    degrees[i] = np.uint32(offsets[node + 1] - offsets[node])
