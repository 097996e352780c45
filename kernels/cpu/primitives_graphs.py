"""Kernels over graphs: components and levels; each O(n + m) on one thread."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.primitives import NONE


@device
def find_root(parents, x):
    """The root of a node's tree; halves the path to it."""
    while parents[x] != x:
        parents[x] = parents[parents[x]]
        x = np.int64(parents[x])
    return x


@kernel("i8(u4*, u4*, i8, i8, u4*)")
def connect(sources, targets, edges, nodes, labels):
    """Union-find whose roots are the least nodes; `labels` are the parents, and at the end the roots."""
    for x in range(nodes):
        labels[x] = np.uint32(x)
    for e in range(edges):
        x = find_root(labels, np.int64(sources[e]))
        y = find_root(labels, np.int64(targets[e]))
        if x < y:
            labels[y] = np.uint32(x)
        else:
            labels[x] = np.uint32(y)
    for x in range(nodes):
        # Parents are lesser: the parent's label is its root already.
        labels[x] = labels[labels[x]]
    return 0


@kernel("i8(u8*, u4*, u4*, i8, u4*, u4*)")
def reach(offsets, targets, seeds, seed_count, levels, queue):
    """Levels from the seeds; `levels` comes filled with NONE. Returns how many nodes were reached."""
    end = 0
    for s in range(seed_count):
        x = np.int64(seeds[s])
        if levels[x] == np.uint32(NONE):
            levels[x] = np.uint32(0)
            queue[end] = np.uint32(x)
            end += 1
    head = 0
    while head < end:
        x = np.int64(queue[head])
        head += 1
        following = np.uint32(levels[x] + np.uint32(1))
        for e in range(np.int64(offsets[x]), np.int64(offsets[x + 1])):
            y = np.int64(targets[e])
            if levels[y] == np.uint32(NONE):
                levels[y] = following
                queue[end] = np.uint32(y)
                end += 1
    return end


@kernel("i8(u8*, u4*, i8, u4*, u4*, u4*)")
def peel(offsets, targets, nodes, levels, incoming, queue):
    """Topological levels; `levels` comes filled with NONE, `incoming` with 0. Returns how many have one.

    The queue holds nodes by ascending level: the last edge into a node comes from its highest predecessor.
    """
    for e in range(np.int64(offsets[nodes])):
        incoming[targets[e]] += np.uint32(1)
    end = 0
    for x in range(nodes):
        if incoming[x] == np.uint32(0):
            levels[x] = np.uint32(0)
            queue[end] = np.uint32(x)
            end += 1
    head = 0
    while head < end:
        x = np.int64(queue[head])
        head += 1
        for e in range(np.int64(offsets[x]), np.int64(offsets[x + 1])):
            y = np.int64(targets[e])
            incoming[y] -= np.uint32(1)
            if incoming[y] == np.uint32(0):
                levels[y] = np.uint32(levels[x] + np.uint32(1))
                queue[end] = np.uint32(y)
                end += 1
    return end
