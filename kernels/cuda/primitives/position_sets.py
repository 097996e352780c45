"""Position sets on a device: making them along the edges of an acyclic graph.

A level of the graph is made at a time, what it leads to before it. A component takes from each child the
intervals and blocks of its set, and the positions that the child owns unless it is cyclic and has them in its
set; from itself it takes the positions that it owns, if it is cyclic. All that a level takes is written down
side by side; intervals are sorted and coalesced, words united, and what comes of it is packed (see
`position_packing`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives.condense import deepest_first
from gpuengine.kernels.cuda.primitives.graphs import graph_alone, levels_of_dag
from gpuengine.kernels.cuda.primitives.intervals import normalise
from gpuengine.kernels.cuda.primitives.position_packing import Spans, fill_from_spans, pack
from gpuengine.kernels.cuda.primitives.position_pool import GrowingPool
from gpuengine.kernels.cuda.primitives.reached_kernels import (
    TILE,
    reached_blocks,
    reached_degree,
    reached_intervals,
    reached_order,
    reached_sources,
    reached_words,
)
from gpuengine.kernels.cuda.primitives.sorted_sets import set_gather
from gpuengine.kernels.position_sets import BLOCK_WORDS, PositionSets


@dataclass(frozen=True, slots=True)
class _Sources:
    """Whom the components of a stretch take from, and how much: scanned counts of intervals and of blocks."""

    owners: Array
    components: Array
    intervals: Array
    blocks: Array

    def __len__(self) -> int:
        return len(self.owners)


@dataclass(frozen=True, slots=True)
class _Reaching:
    """The graph (see `Primitives.reached_sets`), and the sets as far as they are made.

    Components are made in the order of `order`; `scan` has where the sources of each begin.
    """

    device: Device
    child_offsets: Array
    children: Array
    own_offsets: Array
    own: Array
    cyclic: Array
    order: Array
    scan: Array
    made: GrowingPool

    def make(self, begin: int, end: int, sources_begin: int, sources_end: int) -> None:
        """Make the sets of ``order[begin:end]``, whose children's are made; it is known where sources begin.

        If that is more than the device expands at once, in two parts.
        """
        device = self.device
        sources = self._sources(begin, end, sources_end - sources_begin)
        totals = device.empty(2, np.uint64)
        device.copy(totals[:1], sources.intervals[-1:])
        device.copy(totals[1:], sources.blocks[-1:])
        intervals, blocks = map(int, device.read(totals))
        if end - begin > 1 and intervals + BLOCK_WORDS * blocks > device.chunk_items:
            middle = (begin + end) // 2
            cut = int(device.read(self.scan[middle : middle + 1])[0])
            self.make(begin, middle, sources_begin, cut)
            self.make(middle, end, cut, sources_end)
            return
        spans = self._spans(sources, intervals, end - begin)
        keys, places = self._blocks(sources, blocks)

        def fill(slots: Array, words: Array, spans: Spans) -> None:
            pool = self.made.sets.pool
            device.launch(reached_words, blocks, keys, places, pool.words, slots, len(slots), words)
            fill_from_spans(device, slots, words, spans)

        self.made.add(self.order[begin:end], pack(device, end - begin, spans, keys, fill))

    def _sources(self, begin: int, end: int, count: int) -> _Sources:
        device, sets = self.device, self.made.sets
        owners, components, intervals, blocks = (device.empty(count, np.uint32) for _ in range(4))
        device.launch(
            reached_sources,
            -(-count // TILE),
            self.scan[begin : end + 1],
            end - begin,
            count,
            self.order[begin:end],
            self.child_offsets,
            self.children,
            self.own_offsets,
            self.cyclic,
            sets.interval_counts,
            sets.block_counts,
            owners,
            components,
            intervals,
            blocks,
        )
        return _Sources(owners, components, device.offsets(intervals), device.offsets(blocks))

    def _spans(self, sources: _Sources, total: int, owners: int) -> Spans:
        """The intervals that are taken, coalesced."""
        device, sets = self.device, self.made.sets
        of_owner, starts, ends = (device.empty(total, np.uint32) for _ in range(3))
        device.launch(
            reached_intervals,
            -(-total // TILE),
            sources.intervals,
            len(sources),
            total,
            sources.owners,
            sources.components,
            sets.first_interval,
            sets.interval_counts,
            sets.pool.starts,
            sets.pool.ends,
            self.own_offsets,
            self.own,
            of_owner,
            starts,
            ends,
        )
        return normalise(device, of_owner, starts, ends, owners)

    def _blocks(self, sources: _Sources, total: int) -> tuple[Array, Array]:
        """The blocks that are taken: their slots, and their places in the pool."""
        device, sets = self.device, self.made.sets
        keys, places = device.empty(total, np.uint64), device.empty(total, np.uint64)
        device.launch(
            reached_blocks,
            -(-total // TILE),
            sources.blocks,
            len(sources),
            total,
            sources.owners,
            sources.components,
            sets.first_block,
            sets.pool.blocks,
            keys,
            places,
        )
        return keys, places


def reached_sets(
    device: Device, child_offsets: Array, children: Array, own_offsets: Array, own: Array, cyclic: Array
) -> PositionSets:
    """What each component reaches. Waits at least three times for each level, for sizes."""
    count = len(cyclic)
    made = GrowingPool(device, count)
    order, begins = _levels(device, child_offsets, children, count)
    degrees = device.empty(count, np.uint32)
    device.launch(reached_degree, count, order, child_offsets, degrees)
    scan = device.offsets(degrees)
    at = device.empty(len(begins), np.uint64)
    device.launch(set_gather, len(begins), scan, begins, at)
    bounds = [*map(int, device.read(begins)), count]
    sources = [*map(int, device.read(at)), int(device.read(scan[-1:])[0])]
    reaching = _Reaching(device, child_offsets, children, own_offsets, own, cyclic, order, scan, made)
    for k in range(len(begins)):
        reaching.make(bounds[k], bounds[k + 1], sources[k], sources[k + 1])
    return made.sets


def _levels(device: Device, offsets: Array, targets: Array, nodes: int) -> tuple[Array, Array]:
    """The nodes in an order in which edges lead back, and the places where another level begins."""
    everybody = device.empty(nodes, np.uint32)
    device.launch(graph_alone, nodes, everybody)
    ranked = deepest_first(device, everybody, levels_of_dag(device, offsets, targets, nodes))
    order, flags = device.empty(nodes, np.uint32), device.empty(nodes, np.uint8)
    device.launch(reached_order, nodes, ranked, order, flags)
    return order, device.select(flags)
