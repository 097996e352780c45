"""Kernels over graphs: components, levels, strongly connected components; each O(n + m) on one thread."""

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


@device
def close_component(x, height, number, stack, labels):
    """Give the nodes from the top of the stack down to `x` their least node as label; the height left."""
    least = x
    bottom = height
    y = np.int64(-1)
    while y != x:
        bottom -= 1
        y = np.int64(stack[bottom])
        if y < least:
            least = y
    for k in range(bottom, height):
        y = np.int64(stack[k])
        labels[y] = np.uint32(least)
        number[y] = np.uint32(NONE)
    return bottom


@kernel("i8(u8*, u4*, i8, u4*, u4*, u8*, u4*, u4*, u4*)")
def label_strong(offsets, targets, nodes, number, low, edge, stack, path, labels):
    """Tarjan's algorithm without recursion.

    `number` comes filled with 0 (not seen) and counts nodes as they are met; a node whose component is
    closed has NONE, so that edges to it lower nothing. `low` is the least number known to be reached, `edge`
    comes as a copy of the offsets and is the next edge to follow. `stack` are the open nodes, `path`
    those whose edges are being followed.
    """
    met = 0
    height = 0
    for root in range(nodes):
        depth = 0
        entered = np.int64(root) if number[root] == np.uint32(0) else np.int64(-1)
        while entered >= 0 or depth > 0:
            if entered >= 0:
                met += 1
                number[entered] = np.uint32(met)
                low[entered] = np.uint32(met)
                path[depth] = np.uint32(entered)
                depth += 1
                stack[height] = np.uint32(entered)
                height += 1
                entered = np.int64(-1)
            x = np.int64(path[depth - 1])
            e = np.int64(edge[x])
            if e < np.int64(offsets[x + 1]):
                edge[x] = np.uint64(e + 1)
                y = np.int64(targets[e])
                if number[y] == np.uint32(0):
                    entered = y
                elif number[y] < low[x]:
                    low[x] = number[y]
            else:
                depth -= 1
                if low[x] == number[x]:
                    height = close_component(x, height, number, stack, labels)
                elif low[x] < low[path[depth - 1]]:
                    low[path[depth - 1]] = low[x]
    return 0
