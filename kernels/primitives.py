"""Array primitives that storage schemes and joins stand on: sorted sets, bitmaps, intervals, graphs, runs.

`cpu.primitives.CpuPrimitives` is the fast form on the host, `cuda.primitives.CudaPrimitives` the one on a
device. What holds for all operations:

- Arrays are one-dimensional and contiguous, and belong to the backend: NumPy's, or the device's (`upload` and
  `download` convert), as do those that position sets consist of. Ids are uint32 below 2**32 - 1, keys uint64,
  offsets uint64, masks bool.
- No input is changed, and every result is a new array that shares memory with no input.
- Inputs are trusted: an order, a range or a length that the contract asks for and does not get gives a wrong
  result or worse. Only bitmaps of different lengths are told apart, with a ValueError.
- Results are determined by the inputs alone, whatever the number of threads.

A *bitmap* of `size` ids has ``(size + 31) // 32`` words of uint32; id `x` is bit ``x % 32`` of word
``x // 32``, and bits from `size` on are 0.

An *interval set* has half-open intervals ``[starts[k], ends[k])`` in CSR form: owner `o` has those with
``offsets[o] <= k < offsets[o + 1]``, which are not empty, ascending, disjoint, and not adjacent.

A *graph* over nodes 0 .. `nodes` - 1 in CSR form: the edges of node `x` lead to
``targets[offsets[x]:offsets[x + 1]]``, in any order, with duplicates and loops. Where costs are given, n and
m are its nodes and edges.

*Position sets* are described in `position_sets`. What is in them determines them, up to where they lie in the
pool: intervals are as long as can be, a block is words exactly if more than `BLOCK_RUNS` runs meet it, and
only such blocks cut an interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuengine.kernels.position_sets import PositionSets

Array = Any
"""A one-dimensional contiguous array of the backend."""

NONE = 0xFFFFFFFF
"""The level of a node that has none; no owner, no position, no value."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One of the runs that each binding intersects: those of an owner in a CSR, by binding.

    Owner o has ``values[offsets[o]:offsets[o + 1]]``, strictly ascending. Binding j takes the run of
    ``owners[j]``; NONE has an empty one.
    """

    offsets: Array
    values: Array
    owners: Array


class Primitives(Protocol):
    """The operations; see the module for what holds for all of them."""

    def upload(self, host: np.ndarray) -> Array:
        """A copy of a host array as an array of the backend."""

    def download(self, array: Array) -> np.ndarray:
        """A copy of an array of the backend as a host array."""

    # Sorted runs of keys.

    def merge(self, a: Array, b: Array) -> Array:
        """All keys of two ascending arrays, ascending; duplicates are kept. O(a + b)."""

    def union(self, a: Array, b: Array) -> Array:
        """The keys in `a` or `b`, each once; all three strictly ascending. O(a + b)."""

    def difference(self, a: Array, b: Array) -> Array:
        """The keys in `a` that are not in `b`; all three strictly ascending.

        O(a + b), or O(a log b) where `a` is much the smaller.
        """

    def intersection(self, a: Array, b: Array) -> Array:
        """The keys in both; all three strictly ascending.

        O(a + b), or O(s log l) of a small and a large array.
        """

    # Bitmaps.

    def bitmap_of(self, ids: Array, size: int) -> Array:
        """The bitmap of ids below `size`, in any order, with duplicates. O(ids + words)."""

    def bitmap_union(self, a: Array, b: Array) -> Array:
        """The ids in either of two bitmaps of the same length. O(words)."""

    def bitmap_difference(self, a: Array, b: Array) -> Array:
        """The ids in `a` and not in `b`, of the same length. O(words)."""

    def bitmap_intersection(self, a: Array, b: Array) -> Array:
        """The ids in both of two bitmaps of the same length. O(words)."""

    def bitmap_count(self, words: Array) -> int:
        """How many ids are in the bitmap. O(words)."""

    def bitmap_members(self, words: Array) -> Array:
        """The ids in the bitmap, ascending, uint32. O(words + members)."""

    def bitmap_contains(self, words: Array, ids: Array) -> Array:
        """For each id whether it is in the bitmap; ids past its end are not. O(ids)."""

    # Joins.

    def semi_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        """The places (uint32, ascending) of the rows of `left` that equal some row of `right`.

        Both are columns of ids, equally many and at least one; rows may repeat. O(left + right) on average.
        On a device one synchronisation for each column, and one or two more.
        """

    def anti_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        """The places (uint32, ascending) of the rows of `left` that equal no row of `right`.

        The rest is as with `semi_join`.
        """

    def sorted_runs(self, keys: Array, values: Array, n_owners: int) -> tuple[Array, Array]:
        """The runs (offsets, values) of pairs of ids: the values of each key, strictly ascending.

        Pairs come in any order and may repeat; keys are below `n_owners`. O(owners + sort of the pairs), by
        digits on the host; on a device O(log(pairs)) an owner, and one synchronisation.
        """

    def intersect_runs(self, runs: Sequence[Run]) -> tuple[Array, Array]:
        """The values that are in all runs of a binding: (places, values), both uint32.

        For bindings j = 0, 1, ... the values that all of `runs` have for j, ascending, with j beside each.
        There is at least one of them, and all have as many owners. The caller bounds the size of the result,
        at most the sum of the shortest runs. Each binding costs O(shortest * log(longest / shortest)) a run.
        On a device it is O(shortest * log(longest)), with one synchronisation, and one for each `chunk_items`
        of that sum.
        """

    # Interval sets.

    def interval_contains(
        self, offsets: Array, starts: Array, ends: Array, owners: Array, values: Array
    ) -> Array:
        """For each j whether ``values[j]`` is in an interval of ``owners[j]``. O(log(its intervals)) each."""

    def interval_counts(self, offsets: Array, starts: Array, ends: Array) -> Array:
        """For each owner the number of values in its intervals, uint32. O(owners + intervals)."""

    def interval_normalise(
        self, owners: Array, starts: Array, ends: Array, n_owners: int
    ) -> tuple[Array, Array, Array]:
        """The interval set (offsets, starts, ends) of the values in any of the intervals given.

        They may come in any order, overlap, touch, repeat or be empty (``ends[k] <= starts[k]``);
        owners are below `n_owners`. O(sort of the intervals, and owners).
        """

    def interval_expand(
        self, offsets: Array, starts: Array, ends: Array, owners: Array
    ) -> tuple[Array, Array]:
        """The values of each of `owners`: (positions, values), both uint32.

        For j = 0, 1, ... the values of ``owners[j]`` ascending, with j beside each; owners may repeat.
        The caller bounds the size of the result (see `interval_counts`). O(owners + their intervals +
        values).
        """

    # Graphs.

    def components(self, sources: Array, targets: Array, nodes: int) -> Array:
        """For each node the least node that undirected edges ``sources[e] - targets[e]`` connect it with.

        uint32; nearly O(n + m).
        """

    def breadth_first(self, offsets: Array, targets: Array, seeds: Array, nodes: int) -> Array:
        """For each node the least number of edges that lead to it from a seed, NONE if no path does.

        uint32; seeds may repeat. O(n + m) work; on a device one synchronisation for each level.
        """

    def levels_of_dag(self, offsets: Array, targets: Array, nodes: int) -> Array:
        """For each node the greatest number of edges that lead to it; NONE if a cycle does.

        That is, NONE for the nodes of cycles and for all that can be reached from one. uint32. O(n + m) work;
        on a device one synchronisation for each level.
        """

    def strongly_connected(self, offsets: Array, targets: Array, nodes: int) -> Array:
        """For each node the least node that it reaches and is reached from (itself, if no other).

        uint32. O(n + m) on the host. On a device nodes off cycles cost O(n + m) in all, the others that much
        a round, in an expected number of rounds logarithmic in the components along a path, each of which
        has a synchronisation for each step of its longest shortest path.
        """

    def condense(self, offsets: Array, targets: Array, nodes: int) -> tuple[Array, int]:
        """For each node the number (uint32) of its strongly connected component, and how many there are.

        Components are numbered 0, 1, ... such that every edge leads to the same number or a lower one; which
        of the numberings with that property it is, each backend has its own way to choose. O(n + m) on the
        host; on a device what `strongly_connected` and `levels_of_dag` cost.
        """

    # Position sets.

    def reached_sets(
        self,
        child_offsets: Array,
        children: Array,
        own_offsets: Array,
        own: Array,
        cyclic: Array,
        positions: int,
    ) -> PositionSets:
        """What each component of an acyclic graph reaches, as positions, in a pool of its own.

        The edges of component c lead to ``children[child_offsets[c]:child_offsets[c + 1]]``, which are lower
        numbers. It owns the positions ``own[own_offsets[c]:own_offsets[c + 1]]``: one, or if it is cyclic
        (uint8) one or more; they are below `positions`, and nobody else's. Its set is the union of what
        each child owns and of the child's set, and of what it owns itself if it is cyclic.

        O(intervals and blocks of the children, over all edges, and sorting them on a device, which has a few
        synchronisations for each step of the longest path).
        """

    def sets_contain(self, sets: PositionSets, owners: Array, positions: Array) -> Array:
        """For each j whether ``positions[j]`` is in the set of ``owners[j]``; NONE, as either, is nowhere.

        O(log(its intervals and blocks)) each.
        """

    def sets_list(self, sets: PositionSets, owners: Array, values: Array) -> tuple[Array, Array]:
        """The values at the positions of each owner's set: (places in `owners`, values), both uint32.

        For j = 0, 1, ... the ``values[p]`` for the positions p of ``owners[j]``'s set, in any order, with j
        beside each; owners may repeat. Values of NONE and owners of NONE are passed over. The caller bounds
        the size of the result (see `PositionSets.sizes`). O(owners + their intervals, blocks, positions).
        """

    def sets_difference(self, a: PositionSets, kept: Array, b: PositionSets, taken: Array) -> PositionSets:
        """New sets in a pool of their own: set k is a's set ``kept[k]`` without b's set ``taken[k]``.

        Owners may repeat. O(intervals and blocks of the sets named, and sorting them on a device); on the
        host also O(pools), if they have different ones.
        """
