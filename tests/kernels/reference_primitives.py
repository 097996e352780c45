"""The primitives in plain Python: slow, obvious, and what the other backends are held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import NONE, Primitives, Run
from tests.kernels.reference_position_sets import pack, positions_of


class ReferencePrimitives(Primitives):
    """See `primitives.Primitives`."""

    def upload(self, host: np.ndarray) -> np.ndarray:
        return host.copy()

    def download(self, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def take(self, column: np.ndarray, places: np.ndarray) -> np.ndarray:
        return _ids(int(column[place]) for place in places.tolist())

    def filled(self, id: int, count: int) -> np.ndarray:
        return _ids([id] * count)

    def look_up(self, ids: np.ndarray, low: int, values: np.ndarray) -> np.ndarray:
        return self.search(ids, _ids(range(low, low + len(values))), values)

    def search(self, ids: np.ndarray, known: np.ndarray, values: np.ndarray) -> np.ndarray:
        beside = dict(zip(known.tolist(), values.tolist(), strict=True))
        return _ids(beside.get(id, NONE) for id in ids.tolist())

    def semi_join(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
        held = set(_rows(right))
        return _ids(i for i, row in enumerate(_rows(left)) if row in held)

    def anti_join(self, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> np.ndarray:
        held = set(_rows(right))
        return _ids(i for i, row in enumerate(_rows(left)) if row not in held)

    def sorted_runs(
        self, keys: np.ndarray, values: np.ndarray, n_owners: int
    ) -> tuple[np.ndarray, np.ndarray]:
        pairs = sorted(set(_rows([keys, values])))
        offsets = [sum(key < owner for key, _ in pairs) for owner in range(n_owners + 1)]
        return _keys(offsets), _ids(value for _, value in pairs)

    def intersect_runs(self, runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
        pairs = [
            (j, x)
            for j in range(len(runs[0].owners))
            for x in sorted(set.intersection(*(_run(each, j) for each in runs)))
        ]
        return _ids(j for j, _ in pairs), _ids(x for _, x in pairs)

    def components(self, sources: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        beside = defaultdict(list)
        for x, y in zip(sources.tolist(), targets.tolist(), strict=True):
            beside[x].append(y)
            beside[y].append(x)
        labels = [NONE] * nodes
        for x in range(nodes):
            if labels[x] == NONE:
                for y in _reached(beside, [x]):
                    labels[y] = x
        return _ids(labels)

    def reached_sets(
        self,
        child_offsets: np.ndarray,
        children: np.ndarray,
        own_offsets: np.ndarray,
        own: np.ndarray,
        cyclic: np.ndarray,
        positions: int,
    ) -> PositionSets:
        owned, reached = _successors(own_offsets, own), list[set[int]]()
        for c, below in _successors(child_offsets, children).items():
            found = set(owned[c]) if cyclic[c] else set()
            reached.append(found.union(*(reached[d].union(owned[d]) for d in below)))
        return pack(reached)

    def sets_contain(
        self, sets: PositionSets, owners: np.ndarray, positions: np.ndarray, *, negated: bool = False
    ) -> np.ndarray:
        held = {owner: positions_of(sets, owner) for owner in set(owners.tolist()) - {NONE}}
        asked = zip(owners.tolist(), positions.tolist(), strict=True)
        return np.array([(owner != NONE and p in held[owner]) != negated for owner, p in asked], np.bool_)

    def sets_list(
        self, sets: PositionSets, owners: np.ndarray, values: np.ndarray, room: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        pairs = [
            (j, value)
            for j, owner in enumerate(owners.tolist())
            if owner != NONE
            for p in sorted(positions_of(sets, owner))
            if (value := int(values[p])) != NONE
        ]
        for start in range(0, len(pairs), room):
            part = pairs[start : start + room]
            yield _ids(j for j, _ in part), _ids(value for _, value in part)

    def sets_difference(
        self, a: PositionSets, kept: np.ndarray, b: PositionSets, taken: np.ndarray
    ) -> PositionSets:
        pairs = zip(kept.tolist(), taken.tolist(), strict=True)
        return pack([positions_of(a, k) - positions_of(b, t) for k, t in pairs])


def _keys(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), np.uint64)


def _ids(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), np.uint32)


def _rows(columns: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _run(run: Run, binding: int) -> set[int]:
    owner = int(run.owners[binding])
    if owner == NONE:
        return set()
    return set(run.values[int(run.offsets[owner]) : int(run.offsets[owner + 1])].tolist())


def _successors(offsets: np.ndarray, targets: np.ndarray) -> dict[int, list[int]]:
    return {x: targets[int(offsets[x]) : int(offsets[x + 1])].tolist() for x in range(len(offsets) - 1)}


def _reached(successors: dict[int, list[int]], seeds: Iterable[int]) -> set[int]:
    """The nodes that can be reached."""
    found = set(seeds)
    queue = list(found)
    for x in queue:
        fresh = set(successors[x]) - found
        found |= fresh
        queue += fresh
    return found
