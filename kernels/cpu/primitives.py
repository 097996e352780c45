"""The primitives on the host: compiled kernels on NumPy arrays, NumPy itself where it is as good.

Each call runs on the calling thread, without the GIL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuengine.kernels.cpu import position_reads, position_sets
from gpuengine.kernels.cpu import primitives_graphs as graphs
from gpuengine.kernels.cpu import primitives_joins as joins
from gpuengine.kernels.cpu import primitives_positions as position_primitives
from gpuengine.kernels.cpu import primitives_runs as run_primitives
from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import NONE, Primitives, Run


class CpuPrimitives(Primitives):
    """See `primitives.Primitives`; runs, `components` and `reached_sets` are the host's alone."""

    def upload(self, host: np.ndarray) -> np.ndarray:
        return np.array(host)

    def download(self, array: np.ndarray) -> np.ndarray:
        return np.array(array)

    def take(self, column: np.ndarray, places: np.ndarray) -> np.ndarray:
        return column[places]

    def filled(self, id: int, count: int) -> np.ndarray:
        return np.full(count, id, np.uint32)

    def look_up(self, ids: np.ndarray, low: int, values: np.ndarray) -> np.ndarray:
        looked_up = np.empty(len(ids), np.uint32)
        position_reads.look_up(ids, len(ids), low, low + len(values), values, looked_up)
        return looked_up

    def search(self, ids: np.ndarray, known: np.ndarray, values: np.ndarray) -> np.ndarray:
        if not len(known):
            return np.full(len(ids), NONE, np.uint32)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        nearest = values[at]
        nearest[known[at] != ids] = NONE
        return nearest

    def semi_join(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
        return joins.matching(left, right, kept=1)

    def anti_join(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
        return joins.matching(left, right, kept=0)

    def sorted_runs(
        self, keys: np.ndarray, values: np.ndarray, n_owners: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The runs (offsets, values) of pairs of ids: the values of each key, strictly ascending.

        Pairs come in any order and may repeat; keys are below `n_owners`. O(owners + sort of the pairs).
        """
        return run_primitives.sorted_runs(keys, values, n_owners)

    def intersect_runs(self, runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
        """The values that are in all runs of a binding: (places, values), both uint32.

        For bindings j = 0, 1, ... the values that all of `runs` have for j, ascending, with j beside each.
        There is at least one of them, and all have as many owners. The caller bounds the size of the result,
        at most the sum of the shortest runs. Each binding costs O(shortest * log(longest / shortest)) a run.
        """
        return run_primitives.intersect_runs(runs)

    def components(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        """For each node the least node that undirected edges ``sources[e] - targets[e]`` connect it with.

        uint32; nearly O(n + m).
        """
        labels = np.empty(nodes, np.uint32)
        graphs.connect(sources, targets, len(sources), nodes, labels)
        return labels

    def reached_sets(
        self,
        child_offsets: np.ndarray,
        children: np.ndarray,
        own_offsets: np.ndarray,
        own: np.ndarray,
        cyclic: np.ndarray,
        positions: int,
    ) -> PositionSets:
        """What each component of an acyclic graph reaches, as positions, in a pool of its own.

        The edges of component c lead to ``children[child_offsets[c]:child_offsets[c + 1]]``, which are lower
        numbers. It owns the positions ``own[own_offsets[c]:own_offsets[c + 1]]``: one, or if it is cyclic
        (uint8) one or more; they are below `positions`, and nobody else's. Its set is the union of what
        each child owns and of the child's set, and of what it owns itself if it is cyclic.
        """
        return position_primitives.reached_sets(child_offsets, children, own_offsets, own, cyclic, positions)

    def sets_contain(
        self, sets: PositionSets, owners: np.ndarray, positions: np.ndarray, *, negated: bool = False
    ) -> np.ndarray:
        mask = position_sets.contains(sets, owners, positions)
        return ~mask if negated else mask

    def sets_list(
        self, sets: PositionSets, owners: np.ndarray, values: np.ndarray, room: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return position_sets.expand(sets, owners, values, room)
