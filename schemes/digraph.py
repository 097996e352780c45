"""A directed graph that grows and shrinks, as arrays that compiled kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cpu import digraph_kernels as kernels
from gpuengine.kernels.primitives import NONE

_FOLD_SHARE = 4
"""Links are folded into the sorted edges when they are more than a share of those."""


@dataclass(slots=True)
class Adjacency:
    """The edges of each node in one direction: sorted, then those linked in since (see the kernels)."""

    offsets: np.ndarray
    targets: np.ndarray
    heads: np.ndarray
    links: np.ndarray
    link_sources: np.ndarray
    link_targets: np.ndarray
    linked: int = 0

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """As the kernels take them."""
        return self.offsets, self.targets, self.heads, self.links, self.link_targets

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.arrays, self.link_sources))

    def add_nodes(self, nodes: int) -> None:
        """Have `nodes` nodes in all; those added have no edges yet."""
        before = len(self.heads)
        if nodes > before:
            self.offsets = np.concatenate([self.offsets, np.full(nodes - before, self.offsets[-1])])
            self.heads = np.concatenate([self.heads, np.full(nodes - before, NONE, np.uint32)])

    def link(self, sources: np.ndarray, targets: np.ndarray) -> int:
        """Add edges between nodes that are there; returns the first new link."""
        first, end = self.linked, self.linked + len(sources)
        if end > len(self.links):
            room = max(end, 2 * len(self.links)) - self.linked
            for name in ("links", "link_sources", "link_targets"):
                array = getattr(self, name)[: self.linked]
                setattr(self, name, np.concatenate([array, np.empty(room, np.uint32)]))
        self.link_sources[first:end] = sources
        self.link_targets[first:end] = targets
        kernels.link_edges(self.link_sources, self.link_targets, first, end, self.heads, self.links)
        self.linked = end
        return first

    def unlink(self, first: int) -> None:
        """Take back the links from `first` on, the last that were added."""
        for link in range(self.linked - 1, first - 1, -1):
            self.heads[self.link_sources[link]] = self.links[link]
        self.linked = first

    def remove(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Take away the edges between each pair; a mask of those that had any. O(edges of the sources)."""
        had_edges = np.zeros(len(sources), np.bool_)
        kernels.remove_edges(*self.arrays, sources, targets, len(sources), had_edges)
        return had_edges

    def folded(self) -> Adjacency:
        """The same edges, sorted, if enough were linked in since; else itself."""
        if self.linked * _FOLD_SHARE <= len(self.targets) + 1024:
            return self
        sources, targets = self.edges()
        return adjacency(sources, targets, len(self.heads))

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Sources and targets of all edges, in no promised order."""
        sources = np.repeat(
            np.arange(len(self.heads), dtype=np.uint32), np.diff(self.offsets).astype(np.int64)
        )
        sources = np.concatenate([sources, self.link_sources[: self.linked]])
        targets = np.concatenate([self.targets, self.link_targets[: self.linked]])
        kept = targets != NONE
        return sources[kept], targets[kept]


def adjacency(sources: np.ndarray, targets: np.ndarray, nodes: int) -> Adjacency:
    """The edges sorted by source. O(nodes + edges)."""
    offsets = np.zeros(nodes + 1, np.uint64)
    kernels.count_edges(sources, targets, len(sources), offsets)
    np.cumsum(offsets, out=offsets)
    placed = np.empty(int(offsets[-1]), np.uint32)
    kernels.place_edges(sources, targets, len(sources), offsets[:-1].copy(), placed)
    none = np.empty(0, np.uint32)
    return Adjacency(offsets, placed, np.full(nodes, NONE, np.uint32), none, none, none)
