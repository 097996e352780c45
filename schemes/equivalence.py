"""The equivalence scheme: a symmetric and transitive relation as classes of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.cpu.digraph_kernels import order_by_key
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.position_sets import PositionSets, SegmentPool
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes.contract import Columns, Domain, cover
from gpuengine.schemes.nodes import Nodes
from gpuengine.schemes.pairs import FORWARD, Gone, Kept, PairScheme, Reached, Reading

_COMPONENTS = CpuPrimitives().components


@dataclass(frozen=True, slots=True)
class _Classes:
    """Two partitions of the nodes of which `fine` refines `coarse`, with nodes numbered class by class.

    What a node has in the one and not in the other are the rest of its coarse class: two intervals.
    """

    positions: np.ndarray
    node_at: np.ndarray
    coarse: Reached
    fine: Reached
    difference: Reached


class Equivalence(PairScheme):
    """Facts R(x, y) closed under R(y, x) :- R(x, y) and R(x, z) :- R(x, y), R(y, z).

    Whatever stands in a fact is in a class, with itself at least. A class is an interval of positions, so
    that n ids take room for n, not for their pairs. The facts that joined classes are kept as edges: what is
    left of them when some are deleted is closed again. NEW is a view: for each node its class without the
    class it was in before. Any change costs a few passes over the nodes.
    """

    kind = "equivalence"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._classes: _Classes | None = None
        self._reset()

    def _reset(self) -> None:
        none = np.empty(0, np.uint32)
        self._nodes = Nodes()
        self._edges = none, none
        self._labels = self._labels_before = none
        self._classes = None
        self._deleting = False

    @property
    def host_nbytes(self) -> int:
        total = self._nodes.nbytes + sum(edge.nbytes for edge in self._edges) + self._labels.nbytes
        if self._labels_before is not self._labels:
            total += self._labels_before.nbytes
        classes = self._classes
        if classes is not None:
            views = (classes.coarse, classes.fine, classes.difference)
            total += sum(view.owners.nbytes + view.sets.nbytes + view.sets.pool.nbytes for view in views)
            total += 2 * classes.positions.nbytes
        return total + sum(a.nbytes + b.nbytes for a, b in self._scheduled)

    @property
    def edges(self) -> list[np.ndarray]:
        """The facts that are kept as edges, as columns of ids."""
        return [self._nodes.ids[nodes] for nodes in self._edges]

    def widen(self, bounds: Sequence[tuple[int, int]]) -> None:
        """What is in one column is in the other too."""
        super().widen(bounds)
        both = cover(*self.bounds)
        self.bounds = [both, both]

    def count(self, domain: Domain) -> int:
        now, before = _count_pairs(self._labels), _count_pairs(self._labels_before)
        if domain is Domain.NEW:
            return abs(now - before)
        return min(now, before) if domain is Domain.OLD else max(now, before)

    def distinct(self, column: int) -> float:
        return float(max(int(np.count_nonzero(self._labels != NONE)), 1))

    def advance(self) -> int:
        self._changes += 1
        sources, targets = self._take_scheduled()
        nodes = len(self._nodes)
        labels = np.full(nodes, NONE, np.uint32)
        labels[: len(self._labels)] = self._labels
        self._labels_before, self._classes, self._deleting = self._labels, None, False
        if len(sources):
            ends = np.concatenate([sources, targets])
            alone = ends[labels[ends] == NONE]
            labels[alone] = alone
            joined = _COMPONENTS(labels[sources], labels[targets], nodes)
            labelled = labels != NONE
            labels[labelled] = joined[labels[labelled]]
            self._edges = (
                np.concatenate([self._edges[0], sources]),
                np.concatenate([self._edges[1], targets]),
            )
            self._labels = labels
        return self.count(Domain.NEW)

    def renew(self) -> int:
        self.settle()
        self._labels_before, self._classes = np.empty(0, np.uint32), None
        return self.count(Domain.NEW)

    def settle(self) -> None:
        if self._scheduled:
            self.advance()
        self._labels_before, self._classes = self._labels, None

    def delete(self, columns: Columns, count: int) -> int:
        self.settle()
        sources, targets = (self._nodes.find(column) for column in columns)
        gone = np.isin(_packed(*self._edges), _packed(sources, targets))
        self._deleting = True
        if gone.any():
            touched = np.isin(self._labels, np.unique(self._labels[self._edges[0][gone]]))
            self._edges = self._edges[0][~gone], self._edges[1][~gone]
            touched_edges = touched[self._edges[0]]
            sources, targets = self._edges[0][touched_edges], self._edges[1][touched_edges]
            labels = self._labels.copy()
            labels[touched] = NONE
            ends = np.concatenate([sources, targets])
            labels[ends] = _COMPONENTS(sources, targets, len(labels))[ends]
            self._labels = labels
        return self.count(Domain.NEW)

    def remove(self) -> None:
        self._changes += 1
        self._deleting = False
        self.settle()

    def news(self) -> Gone:
        new = self._reading(FORWARD, Domain.NEW)
        return Gone(new, new.positions, new.ids_at)

    @property
    def mutual_pairs(self) -> int:
        return self.count(Domain.ALL)

    def are_mutual(self, columns: Columns) -> np.ndarray:
        return np.ones(len(columns[0]), np.bool_)

    def kept(self) -> Kept:
        labels = self._labels_before if self._deleting else self._labels
        classes, nodes = self._classes, self._nodes

        def read() -> Reading:
            known = classes if classes is not None else _classes(labels, labels)
            return Reading(known.coarse, known.positions, nodes.ids[known.node_at])

        return Kept(
            read,
            read,
            lambda: _count_pairs(labels),
            lambda sources, targets: np.ones(len(sources), np.bool_),
        )

    def _reading(self, column: int, domain: Domain) -> Reading:
        classes = self._classes
        if classes is None:
            now, before = self._labels, np.full(len(self._labels), NONE, np.uint32)
            before[: len(self._labels_before)] = self._labels_before
            classes = _classes(before, now) if self._deleting else _classes(now, before)
            self._classes = classes
        if domain is Domain.NEW:
            reached = classes.difference
        else:
            reached = classes.fine if domain is Domain.OLD else classes.coarse
        return Reading(reached, classes.positions, self._nodes.ids[classes.node_at])


def _classes(coarse: np.ndarray, fine: np.ndarray) -> _Classes:
    """Number nodes by coarse label, and within it by fine; label NONE is in no class."""
    nodes = len(coarse)
    order = _sorted_by(fine, np.arange(nodes, dtype=np.uint32), nodes)
    order = _sorted_by(coarse, order, nodes)
    positions = np.empty(nodes, np.uint32)
    positions[order] = np.arange(nodes, dtype=np.uint32)
    by_coarse, by_fine = coarse[order], fine[order]
    class_starts = _starts(by_coarse[1:] != by_coarse[:-1], nodes)
    group_starts = _starts((by_coarse[1:] != by_coarse[:-1]) | (by_fine[1:] != by_fine[:-1]), nodes)
    class_ends, group_ends = (np.append(starts[1:], nodes) for starts in (class_starts, group_starts))
    class_of = np.searchsorted(class_starts, group_starts, "right") - 1
    group_lengths = group_ends - group_starts
    owners = np.empty(nodes, np.uint32)
    owners[order] = np.repeat(np.arange(len(group_starts), dtype=np.uint32), group_lengths)
    in_class, in_group = coarse != NONE, fine != NONE
    low, high = class_starts[class_of], class_ends[class_of]
    # Without a fine class a group has its whole coarse class more.
    grouped = by_fine[group_starts] != NONE if nodes else np.empty(0, np.bool_)
    cut_low, cut_high = np.where(grouped, group_starts, high), np.where(grouped, group_ends, high)
    return _Classes(
        positions,
        order,
        Reached(np.where(in_class, owners, np.uint32(NONE)), _interval_sets([(low, high)])),
        Reached(np.where(in_group, owners, np.uint32(NONE)), _interval_sets([(group_starts, group_ends)])),
        Reached(
            np.where(in_class, owners, np.uint32(NONE)), _interval_sets([(low, cut_low), (cut_high, high)])
        ),
    )


def _sorted_by(labels: np.ndarray, order: np.ndarray, nodes: int) -> np.ndarray:
    """A stable sort of `order` by label, those with NONE last."""
    keys = np.minimum(labels[order], np.uint32(nodes))
    counts = np.bincount(keys, minlength=nodes + 1)
    ranked = np.empty(nodes, np.uint32)
    order_by_key(keys, nodes, (np.cumsum(counts) - counts).astype(np.uint64), ranked)
    return order[ranked]


def _starts(differs: np.ndarray, nodes: int) -> np.ndarray:
    """Where runs begin."""
    return np.flatnonzero(np.concatenate([[True], differs])) if nodes else np.empty(0, np.int64)


def _interval_sets(parts: list[tuple[np.ndarray, np.ndarray]]) -> PositionSets:
    """For each owner the union of an interval from each part, which are ascending and may be empty."""
    owners = len(parts[0][0])
    starts, ends = (np.stack([part[side] for part in parts], axis=1).ravel() for side in (0, 1))
    kept = starts < ends
    counts = kept.reshape(owners, len(parts)).sum(axis=1)
    pool = SegmentPool(
        starts[kept].astype(np.uint32),
        ends[kept].astype(np.uint32),
        np.empty(0, np.uint32),
        np.empty(0, np.uint64),
        int(counts.sum()),
    )
    sizes = (ends - starts).reshape(owners, len(parts)).sum(axis=1)
    return PositionSets(
        pool,
        (np.cumsum(counts) - counts).astype(np.uint64),
        counts.astype(np.uint32),
        np.zeros(owners, np.uint64),
        np.zeros(owners, np.uint32),
        sizes.astype(np.uint64),
    )


def _count_pairs(labels: np.ndarray) -> int:
    sizes = np.bincount(labels[labels != NONE]).astype(np.uint64)
    return int((sizes**2).sum())


def _packed(sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return (sources.astype(np.uint64) << np.uint64(32)) | targets
