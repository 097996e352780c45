"""What closures and equivalences come down to: a condensed graph, and classes, which one machine can hold.

The pairs of a closure or an equivalence may be as many as the square of its nodes. What they are made of is
no more than the nodes and edges: the strongly connected components of a graph with the edges between them, or
the classes. Those are found here; `expansion` lists the pairs, in as many tasks as one likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gpuengine.kernels.cpu.digraph_kernels import order_by_key
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.schemes import condensation
from gpuengine.schemes.digraph import adjacency

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAIRS = "c0 bigint, c1 bigint"
BATCH_ROWS = 1 << 18
"""So many rows at most are in a batch that a task yields."""
MOST_NODES = 20_000_000
_FAN_IN = 8
"""So many forests are merged into one at each step."""
_LEAST_PENDING = 1 << 20
"""So many pairs at least are reduced at a time."""
_SPREAD = 16
"""Values are numbered by address if their range is at most so many times their number, else by sorting."""


@dataclass(frozen=True, slots=True)
class Classes:
    """Class k has the values ``values[offsets[k]:offsets[k + 1]]``; each value is in one class."""

    values: np.ndarray
    offsets: np.ndarray

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def pair_count(self) -> int:
        """How many pairs there are within classes, those of a value with itself included."""
        sizes, times = np.unique(np.diff(self.offsets), return_counts=True)
        return sum(int(size) ** 2 * int(often) for size, often in zip(sizes, times, strict=True))


@dataclass(frozen=True, slots=True)
class Condensation:
    """The strongly connected components of a graph, those that lead to others first.

    Component k has the values ``values[offsets[k]:offsets[k + 1]]``; it reaches itself if it is `cyclic`.
    Edges lead to it from ``parents[parent_offsets[k]:parent_offsets[k + 1]]``, each once, the highest first;
    they are lower than k.
    """

    values: np.ndarray
    offsets: np.ndarray
    cyclic: np.ndarray
    parent_offsets: np.ndarray
    parents: np.ndarray

    @property
    def count(self) -> int:
        return len(self.cyclic)

    @property
    def component_of_value(self) -> np.ndarray:
        """The component of each of `values`."""
        return np.repeat(np.arange(self.count, dtype=np.uint32), np.diff(self.offsets))


def equivalence_classes(
    spark: SparkSession, pairs: DataFrame, limit: int = MOST_NODES, tasks: int | None = None
) -> Classes | None:
    """The classes of the least equivalence with the given pairs (two columns of bigint); None above `limit`.

    Each partition leaves of its pairs one for each value, with the least that it is equal to; those are
    merged in a few steps, as if from so many `tasks` (as many as there are cores). What comes to the driver
    is a row for each value, of which it takes `limit`.
    """
    forest = pairs.toDF("c0", "c1").mapInArrow(_reduce_pairs, PAIRS)
    width = (tasks or spark.sparkContext.defaultParallelism) // _FAN_IN
    while width > 1:
        # By value, so that what several parts say of it comes together.
        forest = forest.repartition(width, "c1").mapInArrow(_reduce_pairs, PAIRS)
        width //= _FAN_IN
    merged = forest.repartition(1).mapInArrow(_reduce_pairs, PAIRS).limit(limit + 1).toArrow()
    if merged.num_rows > limit:
        return None
    return classes_of(*(merged.column(j).to_numpy() for j in range(2)))


def classes_of(sources: np.ndarray, targets: np.ndarray) -> Classes:
    """The classes of the least equivalence with the given pairs of int64; each class is ascending."""
    values, labels = _labelled(sources, targets)
    counts = np.bincount(labels, minlength=len(values))
    order = np.empty(len(values), np.uint32)
    order_by_key(labels, len(values), (np.cumsum(counts) - counts).astype(np.uint64), order)
    return Classes(values[order], _offsets(counts[counts > 0]))


def condense(sources: np.ndarray, targets: np.ndarray) -> Condensation:
    """The condensation of the graph with the given edges, of int64. O(nodes + edges), and sorting them."""
    nodes, (tails, heads) = _numbered(sources, targets)
    out = adjacency(tails, heads, len(nodes))
    marked = np.ones(len(nodes), np.uint8)
    found = condensation.condense(out, np.arange(len(nodes), dtype=np.uint32), marked)
    component = np.empty(len(nodes), np.uint32)
    component[found.members] = found.number_of_member
    cyclic = np.zeros(found.count, np.uint8)
    by_number = np.arange(found.count, dtype=np.uint32)
    lists, children = condensation.children_of(out, found, component, by_number, marked, 0, cyclic)
    parents = np.repeat(by_number, np.diff(lists).astype(np.int64))
    # Children come in descending order: the same one again stands beside itself.
    first = np.ones(len(children), np.bool_)
    first[1:] = (children[1:] != children[:-1]) | (parents[1:] != parents[:-1])
    # There components lead to lower ones, here to higher ones. Edges stay in order: the highest parent first.
    last = np.uint32(max(found.count - 1, 0))
    incoming = adjacency(last - children[first], last - parents[first], found.count)
    return Condensation(
        nodes[found.members[::-1]],
        _offsets(found.sizes[::-1]),
        cyclic[::-1].copy(),
        incoming.offsets,
        incoming.targets,
    )


def _reduce_pairs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: for each value in the pairs the least value that they make it equal to, and the value."""
    from gpuengine.spark_bridge.worker import prepare_worker

    prepare_worker()
    held = np.empty(0, np.int64), np.empty(0, np.int64)
    pending: list[tuple[np.ndarray, ...]] = []
    rows = 0
    for batch in batches:
        pending.append(tuple(batch.column(j).to_numpy() for j in range(2)))
        rows += batch.num_rows
        if rows >= max(_LEAST_PENDING, len(held[0])):
            held, pending, rows = _reduced([held, *pending]), [], 0
    held = _reduced([held, *pending])
    for start in range(0, len(held[0]), BATCH_ROWS):
        part = [pa.array(column[start : start + BATCH_ROWS]) for column in held]
        yield pa.RecordBatch.from_arrays(part, names=["c0", "c1"])


def _reduced(parts: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, np.ndarray]:
    values, labels = _labelled(*(np.concatenate([part[j] for part in parts]) for j in range(2)))
    return values[labels], values


def _labelled(sources: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values of the pairs, ascending, and for each the place of the least one that is equal to it."""
    values, (tails, heads) = _numbered(sources, targets)
    return values, CpuPrimitives().components(tails, heads, len(values))


def _numbered(*columns: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The values of the columns, ascending, each once; and the columns with places (uint32) of values."""
    total = sum(map(len, columns))
    if not total:
        return np.empty(0, np.int64), [np.empty(0, np.uint32) for _ in columns]
    low, high = _range(columns)
    if high - low < _SPREAD * total:
        there = np.zeros(high - low + 1, np.bool_)
        for column in columns:
            there[column - low] = True
        values = np.flatnonzero(there) + low
        place = np.cumsum(there, dtype=np.uint32) - np.uint32(1)
        return values, [place[column - low] for column in columns]
    values = np.unique(np.concatenate(columns))
    return values, [np.searchsorted(values, column).astype(np.uint32) for column in columns]


def _range(columns: tuple[np.ndarray, ...]) -> tuple[int, int]:
    held = [column for column in columns if len(column)]
    return min(int(column.min()) for column in held), max(int(column.max()) for column in held)


def _offsets(counts: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets
