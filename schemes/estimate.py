"""How large a closure would be, from a sample: before anybody pays for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cpu.digraph_kernels import sample_reach
from gpuengine.schemes.digraph import adjacency
from gpuengine.schemes.nodes import Nodes

_SAMPLES = 64
_STEPS_PER_EDGE = 4
_LEAST_STEPS = 1 << 16


@dataclass(frozen=True, slots=True)
class ClosureEstimate:
    """Edges and nodes of a graph, and about how many pairs its closure has (at least, if not `complete`)."""

    edges: int
    nodes: int
    pairs: float
    complete: bool


def estimate_closure(sources: np.ndarray, targets: np.ndarray) -> ClosureEstimate:
    """From how many nodes a sample of nodes reaches; costs a few passes over the edges at most."""
    nodes = Nodes()
    nodes.add(np.concatenate([sources, targets]))
    count = len(nodes)
    if not count:
        return ClosureEstimate(0, 0, 0.0, True)
    graph = adjacency(nodes.find(sources), nodes.find(targets), count)
    seeds = np.random.default_rng(0).permutation(count)[:_SAMPLES].astype(np.uint32)
    reached = np.zeros(len(seeds), np.uint32)
    steps = max(_STEPS_PER_EDGE * len(sources), _LEAST_STEPS)
    done = sample_reach(
        graph.offsets, graph.targets, seeds, len(seeds), np.zeros(count, np.uint32), np.empty(count + 1,
        np.uint32), steps, reached,
    )  # fmt: skip
    sampled = min(done + 1, len(seeds))
    mean = float(reached[:sampled].sum(dtype=np.int64)) / sampled
    return ClosureEstimate(len(sources), count, mean * count, done == len(seeds))
