"""The condensation of a graph: strongly connected components in order, and what they lead to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cpu import digraph_kernels as kernels
from gpuengine.schemes.digraph import Adjacency

WIDE_LEVEL = 4096
"""From so many independent components on, several threads share the work."""

Lists = tuple[np.ndarray, np.ndarray]
"""Offsets and values: list k is ``values[offsets[k]:offsets[k + 1]]``."""


@dataclass(frozen=True, slots=True)
class Condensed:
    """Components of some nodes, those that others lead to first: their members one after another."""

    members: np.ndarray
    ends: np.ndarray

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def starts(self) -> np.ndarray:
        return np.concatenate([np.zeros(1, np.uint32), self.ends[:-1]])

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.ends, prepend=np.uint32(0))

    @property
    def number_of_member(self) -> np.ndarray:
        return np.repeat(np.arange(self.count, dtype=np.uint32), self.sizes)


def condense(out: Adjacency, nodes: np.ndarray, marked: np.ndarray) -> Condensed:
    """The strongly connected components of the marked nodes, which `nodes` lists; marks become 2."""
    total, count = len(marked), len(nodes)
    number = np.zeros(total, np.uint32)
    low, cursor = np.empty(total, np.uint32), np.empty(total, np.uint64)
    stack, path, members, ends = (np.empty(count, np.uint32) for _ in range(4))
    components = kernels.find_components(
        *out.arrays, nodes, count, marked, number, low, cursor, stack, path, members, ends
    )
    return Condensed(members, ends[:components])


def children_of(
    out: Adjacency,
    condensed: Condensed,
    component: np.ndarray,
    rank: np.ndarray,
    marked: np.ndarray,
    new_from: int,
    cyclic: np.ndarray,
) -> Lists:
    """For each component those that it leads to, of marked nodes or by links from `new_from` on.

    Those of highest `rank` come first. Sets `cyclic` of components that lead to themselves.
    """
    members = condensed.members.astype(np.int64)
    degrees = out.offsets[members + 1] - out.offsets[members]
    children = np.empty(int(degrees.sum()) + out.linked, np.uint32)
    offsets = np.empty(condensed.count + 1, np.uint64)
    written = kernels.list_children(
        *out.arrays, condensed.members, condensed.ends, condensed.count, component, rank, marked,
        new_from, offsets, children, cyclic,
    )  # fmt: skip
    return offsets, children[:written]


def by_level(count: int, children: Lists) -> tuple[np.ndarray, list[tuple[int, int, bool]]]:
    """An order of the components by height, and its stretches: each wide level, and all between two of them.

    If few are in wide levels, the order they have. A stretch is (begin, end, can be shared).
    """
    heights = np.empty(count, np.uint32)
    levels = kernels.find_heights(count, *children, heights) + 1
    widths = np.bincount(heights, minlength=levels)
    wide = widths >= WIDE_LEVEL
    if 2 * widths[wide].sum() < count:
        return np.arange(count, dtype=np.uint32), [(0, count, False)]
    ends = np.cumsum(widths)
    order = np.empty(count, np.uint32)
    kernels.order_by_key(heights, count, (ends - widths).astype(np.uint64), order)
    spans: list[tuple[int, int, bool]] = []
    done = 0
    for level in np.flatnonzero(wide):
        begin, end = int(ends[level] - widths[level]), int(ends[level])
        spans += [(done, begin, False)] if begin > done else []
        spans.append((begin, end, True))
        done = end
    return order, [*spans, (done, count, False)] if done < count else spans


def gathered(order: np.ndarray, lists: Lists) -> Lists:
    """Lists in another order."""
    offsets, values = np.empty(len(lists[0]), np.uint64), np.empty(len(lists[1]), np.uint32)
    kernels.gather_lists(order, len(order), *lists, offsets, values)
    return offsets, values
