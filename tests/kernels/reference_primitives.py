"""The primitives in plain Python: slow, obvious, and what the other backends are held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

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

    def merge(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _keys(sorted(a.tolist() + b.tolist()))

    def union(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _keys(sorted(set(a.tolist()) | set(b.tolist())))

    def difference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _keys(sorted(set(a.tolist()) - set(b.tolist())))

    def intersection(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _keys(sorted(set(a.tolist()) & set(b.tolist())))

    def bitmap_of(self, ids: np.ndarray, size: int) -> np.ndarray:
        words = [0] * ((size + 31) // 32)
        for x in ids.tolist():
            words[x // 32] |= 1 << x % 32
        return _ids(words)

    def bitmap_union(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _ids([x | y for x, y in zip(a.tolist(), b.tolist(), strict=True)])

    def bitmap_difference(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _ids([x & ~y for x, y in zip(a.tolist(), b.tolist(), strict=True)])

    def bitmap_intersection(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _ids([x & y for x, y in zip(a.tolist(), b.tolist(), strict=True)])

    def bitmap_count(self, words: np.ndarray) -> int:
        return len(_members(words))

    def bitmap_members(self, words: np.ndarray) -> np.ndarray:
        return _ids(_members(words))

    def bitmap_contains(self, words: np.ndarray, ids: np.ndarray) -> np.ndarray:
        members = set(_members(words))
        return np.array([x in members for x in ids.tolist()], np.bool_)

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

    def interval_contains(
        self,
        offsets: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        owners: np.ndarray,
        values: np.ndarray,
    ) -> np.ndarray:
        asked = zip(owners.tolist(), values.tolist(), strict=True)
        return np.array(
            [any(x in span for span in _spans(offsets, starts, ends, o)) for o, x in asked], np.bool_
        )

    def interval_counts(self, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        return _ids([sum(map(len, _spans(offsets, starts, ends, o))) for o in range(len(offsets) - 1)])

    def interval_normalise(
        self, owners: np.ndarray, starts: np.ndarray, ends: np.ndarray, n_owners: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        offsets, spans = [0], list[tuple[int, int]]()
        given = list(zip(owners.tolist(), starts.tolist(), ends.tolist(), strict=True))
        for owner in range(n_owners):
            first = len(spans)
            for start, end in sorted((start, end) for o, start, end in given if o == owner and start < end):
                if len(spans) > first and start <= spans[-1][1]:
                    spans[-1] = (spans[-1][0], max(spans[-1][1], end))
                else:
                    spans.append((start, end))
            offsets.append(len(spans))
        return _keys(offsets), _ids([start for start, _ in spans]), _ids([end for _, end in spans])

    def interval_expand(
        self, offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray, owners: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        pairs = [
            (j, x)
            for j, owner in enumerate(owners.tolist())
            for span in _spans(offsets, starts, ends, owner)
            for x in span
        ]
        return _ids([j for j, _ in pairs]), _ids([x for _, x in pairs])

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

    def breadth_first(
        self, offsets: np.ndarray, targets: np.ndarray, seeds: np.ndarray, nodes: int
    ) -> np.ndarray:
        levels = _reached(_successors(offsets, targets), seeds.tolist())
        return _ids([levels.get(x, NONE) for x in range(nodes)])

    def levels_of_dag(self, offsets: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        successors = _successors(offsets, targets)
        left = dict.fromkeys(range(nodes), 0)
        for found in successors.values():
            for y in found:
                left[y] += 1
        levels = [NONE] * nodes
        level, peel = 0, [x for x in left if left[x] == 0]
        while peel:
            following = []
            for x in peel:
                levels[x] = level
                for y in successors[x]:
                    left[y] -= 1
                    if left[y] == 0:
                        following.append(y)
            level, peel = level + 1, following
        return _ids(levels)

    def strongly_connected(self, offsets: np.ndarray, targets: np.ndarray, nodes: int) -> np.ndarray:
        forward, backward = _successors(offsets, targets), defaultdict(list)
        for x in range(nodes):
            for y in forward[x]:
                backward[y].append(x)
        labels = [NONE] * nodes
        for x in range(nodes):
            if labels[x] == NONE:
                for y in _reached(forward, [x]).keys() & _reached(backward, [x]).keys():
                    labels[y] = x
        return _ids(labels)

    def condense(self, offsets: np.ndarray, targets: np.ndarray, nodes: int) -> tuple[np.ndarray, int]:
        labels = self.strongly_connected(offsets, targets, nodes).tolist()
        successors = _successors(offsets, targets)
        # Whoever leads to another component reaches all that it does, and more.
        roots = sorted(set(labels), key=lambda x: len(_reached(successors, [x])))
        number = {root: c for c, root in enumerate(roots)}
        return _ids([number[label] for label in labels]), len(roots)

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

    def sets_contain(self, sets: PositionSets, owners: np.ndarray, positions: np.ndarray) -> np.ndarray:
        held = {owner: positions_of(sets, owner) for owner in set(owners.tolist()) - {NONE}}
        asked = zip(owners.tolist(), positions.tolist(), strict=True)
        return np.array([owner != NONE and p in held[owner] for owner, p in asked], np.bool_)

    def sets_list(
        self, sets: PositionSets, owners: np.ndarray, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        pairs = [
            (j, value)
            for j, owner in enumerate(owners.tolist())
            if owner != NONE
            for p in sorted(positions_of(sets, owner))
            if (value := int(values[p])) != NONE
        ]
        return _ids([j for j, _ in pairs]), _ids([value for _, value in pairs])

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


def _members(words: np.ndarray) -> list[int]:
    return [32 * w + bit for w, word in enumerate(words.tolist()) for bit in range(32) if word >> bit & 1]


def _spans(offsets: np.ndarray, starts: np.ndarray, ends: np.ndarray, owner: int) -> list[range]:
    return [range(int(starts[k]), int(ends[k])) for k in range(int(offsets[owner]), int(offsets[owner + 1]))]


def _successors(offsets: np.ndarray, targets: np.ndarray) -> dict[int, list[int]]:
    return {x: targets[int(offsets[x]) : int(offsets[x + 1])].tolist() for x in range(len(offsets) - 1)}


def _reached(successors: dict[int, list[int]], seeds: Iterable[int]) -> dict[int, int]:
    """The nodes that can be reached, with how many steps it takes."""
    levels = dict.fromkeys(seeds, 0)
    queue = list(levels)
    for x in queue:
        for y in successors[x]:
            if y not in levels:
                levels[y] = levels[x] + 1
                queue.append(y)
    return levels
