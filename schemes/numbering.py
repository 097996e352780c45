"""The positions of nodes: post-order of a tree cover, with gaps for nodes to come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuengine.kernels.cpu import digraph_kernels as kernels
from gpuengine.kernels.cpu.position_reads import count_live
from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes.condensation import Condensed, Lists

_SPARSE = 4
"""With at most so many edges a node there are gaps in the numbering."""


@dataclass(frozen=True)
class Numbering:
    """The position of each node, the node at each position, and a free position that a node may have.

    The *spare* position of a node lies in its own set and in those of all that reach it, and in no others: a
    new node that an edge leads to from there can take it, and all sets that must have it have it already.
    """

    positions: np.ndarray
    node_at: np.ndarray
    spare: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.positions.nbytes + self.node_at.nbytes + self.spare.nbytes

    @cached_property
    def has_gaps(self) -> bool:
        return len(self.node_at) > len(self.positions)

    @cached_property
    def _live(self) -> tuple[np.ndarray, np.ndarray]:
        """A bitmap of the positions with a node, and for each of its words how many are in those before."""
        there = np.zeros((len(self.node_at) + 64) // 64 * 64, np.uint8)
        there[: len(self.node_at)] = self.node_at != NONE
        words = np.packbits(there, bitorder="little").view(np.uint64)
        counts = np.bitwise_count(words)
        return words, (np.cumsum(counts, dtype=np.uint32) - counts).astype(np.uint32)

    def count(self, sets: PositionSets, owners: np.ndarray, *, anew: bool = False) -> None:
        """Have the sizes of some sets, which count positions, count nodes; `anew`: whatever they count."""
        if anew or self.has_gaps:
            pool = sets.pool
            count_live(
                owners, len(owners), *sets.arrays[:4], pool.starts, pool.ends, pool.blocks, pool.words,
                *self._live, sets.sizes,
            )  # fmt: skip

    def with_nodes(self, fillers: np.ndarray, filled: np.ndarray, nodes: int) -> Numbering:
        """With new nodes: `fillers` take the spare positions of `filled`, others follow at the end."""
        before = len(self.positions)
        positions = np.full(nodes, NONE, np.uint32)
        positions[:before] = self.positions
        positions[fillers] = self.spare[filled]
        rest = np.flatnonzero(positions == NONE)
        end = len(self.node_at)
        positions[rest] = np.arange(end, end + len(rest), dtype=np.uint32)
        node_at = np.concatenate([self.node_at, rest.astype(np.uint32)])
        node_at[positions[fillers]] = fillers
        spare = np.full(nodes, NONE, np.uint32)
        spare[:before] = self.spare
        spare[filled] = NONE
        return Numbering(positions, node_at, spare)


def number_nodes(condensed: Condensed, children: Lists, nodes: int) -> Numbering:
    """Number the nodes of a whole condensation, whose components lead to lower ones.

    A component's nodes follow those of its tree; one that leads to others has a spare position between,
    unless there are many edges: sets are then bitmaps, which gaps make longer.
    """
    count = condensed.count
    gaps = len(children[1]) <= _SPARSE * nodes
    level = np.zeros(count, np.uint32)
    parent, first, last, sibling = (np.full(count, NONE, np.uint32) for _ in range(4))
    kernels.choose_parents(count, *children, level, parent, first, last, sibling)
    inner = int(np.count_nonzero(np.diff(children[0]))) if gaps else 0
    positions = np.empty(nodes, np.uint32)
    node_at = np.full(nodes + inner, NONE, np.uint32)
    spare = np.full(nodes, NONE, np.uint32)
    kernels.number_positions(
        count, parent, first, sibling, children[0], condensed.members, condensed.ends, int(gaps), positions,
        node_at, spare,
    )  # fmt: skip
    return Numbering(positions, node_at, spare)


def no_numbering() -> Numbering:
    """Of no nodes."""
    none = np.empty(0, np.uint32)
    return Numbering(none, none, none)
