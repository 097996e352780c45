"""Components of a graph; nearly O(n + m) on one thread."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.jit import device, kernel


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
