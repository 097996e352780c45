"""Random graphs with weights: the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.random_numbers import below

WEIGHTS = 1000
"""Weights are from 1 to this."""
_SEED = 700


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between the nodes from 0 on; no two from and to the same nodes, and no loops."""

    nodes: int
    sources: np.ndarray
    targets: np.ndarray
    weights: np.ndarray

    @property
    def edges(self) -> int:
        return len(self.sources)


def random_graph(nodes: int, degree: float, *, both_ways: bool) -> Graph:
    """About `degree` edges from each node; `both_ways`: each edge is there in both directions."""
    drawn = int(nodes * degree) // (2 if both_ways else 1)
    one, other = below(_SEED, drawn, nodes), below(_SEED + 1, drawn, nodes)
    if both_ways:
        one, other = np.minimum(one, other), np.maximum(one, other)
    pairs = np.unique(one * nodes + other)
    one, other = pairs // nodes, pairs % nodes
    one, other = one[one != other], other[one != other]
    weights = 1 + below(_SEED + 2, len(one), WEIGHTS)
    if both_ways:
        one, other = np.concatenate([one, other]), np.concatenate([other, one])
        weights = np.concatenate([weights, weights])
    # In no order that would help.
    order = np.argsort(below(_SEED + 3, len(one), 1 << 31), kind="stable")
    return Graph(nodes, one[order], other[order], weights[order])
