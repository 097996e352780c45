"""Closures and equivalences: pairs condensed to a graph or classes, which one machine can hold, and expanded.

Tasks list the pairs, and share nothing but what was condensed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpuengine.kernels.cpu.digraph_kernels import order_by_key
from gpuengine.kernels.cpu.position_sets import Unions, expand, unite
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.position_sets import PoolFull, PositionSets, empty_pool, empty_sets
from gpuengine.language.program import Rule
from gpuengine.planning.plan import Stratum
from gpuengine.planning.prepared import Prepared
from gpuengine.planning.shapes import Candidate, Shape, Source
from gpuengine.schemes import condensation
from gpuengine.schemes.digraph import adjacency
from gpuengine.spark_bridge.carriers import LONG, Carriers, column
from gpuengine.spark_bridge.connect import parallelism, share
from gpuengine.spark_bridge.frames import Held, arrow_batches
from gpuengine.spark_bridge.versions import to_arrow

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
    width = (tasks or parallelism(spark)) // _FAN_IN
    while width > 1:
        # By value, so that what several parts say of it comes together.
        forest = forest.repartition(width, "c1").mapInArrow(_reduce_pairs, PAIRS)
        width //= _FAN_IN
    merged = to_arrow(forest.repartition(1).mapInArrow(_reduce_pairs, PAIRS).limit(limit + 1))
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
    components = condensation.condense(out, np.arange(len(nodes), dtype=np.uint32), marked)
    component = np.empty(len(nodes), np.uint32)
    component[components.members] = components.number_of_member
    cyclic = np.zeros(components.count, np.uint8)
    by_number = np.arange(components.count, dtype=np.uint32)
    lists, children = condensation.children_of(out, components, component, by_number, marked, 0, cyclic)
    parents = np.repeat(by_number, np.diff(lists).astype(np.int64))
    # Children come in descending order: the same one again stands beside itself.
    first = np.ones(len(children), np.bool_)
    first[1:] = (children[1:] != children[:-1]) | (parents[1:] != parents[:-1])
    # There components lead to lower ones, here to higher ones. Edges stay in order: the highest parent first.
    last = np.uint32(max(components.count - 1, 0))
    incoming = adjacency(last - children[first], last - parents[first], components.count)
    return Condensation(
        nodes[components.members[::-1]],
        _offsets(components.sizes[::-1]),
        cyclic[::-1].copy(),
        incoming.offsets,
        incoming.targets,
    )


def _reduce_pairs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: for each value in the pairs the least value that they make it equal to, and the value."""
    from gpuengine.spark_bridge.tasks import prepare_worker

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


SET_BYTES = 256 << 20
"""So many bytes of sets at most a task holds at a time, unless those of a single source take more."""

Pairs = Iterator[tuple[np.ndarray, np.ndarray]]
Listing = Callable[[Any, int, int], Pairs]


def expand_closure(spark: SparkSession, condensation: Condensation, partitions: int) -> DataFrame:
    """All pairs (c0, c1) such that a path of one edge or more leads from c0 to c1, each once."""
    return _expanded(spark, condensation, partitions, closure_pairs)


def expand_equivalence(spark: SparkSession, classes: Classes, partitions: int) -> DataFrame:
    """All pairs (c0, c1) of values of the same class, those of a value with itself included, each once."""
    return _expanded(spark, classes, partitions, equivalence_pairs)


def _expanded(
    spark: SparkSession, condensed: Condensation | Classes, partitions: int, listing: Listing
) -> DataFrame:
    shared = share(spark, condensed)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from gpuengine.spark_bridge.tasks import prepare_worker

        prepare_worker()
        for batch in batches:
            for part in batch.column(0).to_pylist():
                for pair in listing(shared.value, part, partitions):
                    yield pa.RecordBatch.from_arrays([pa.array(column) for column in pair], ["c0", "c1"])

    return spark.range(partitions, numPartitions=partitions).mapInArrow(run, PAIRS)


def closure_pairs(graph: Condensation, part: int, parts: int, set_bytes: int = SET_BYTES) -> Pairs:
    """The pairs whose sources belong to one part of `parts`, in batches.

    Sources are dealt out in turn: neighbours in the order of components reach about the same. For each
    component the set of the part's sources that reach it is made, from the sets of those that lead to it;
    where there is no room for the sets of all sources, half of them come first.
    """
    component_of = graph.component_of_value
    waiting = [np.arange(part, len(graph.values), parts)]
    while waiting:
        sources = waiting.pop()
        if not len(sources):
            continue
        limit = set_bytes if len(sources) > 1 else 1 << 62
        try:
            sets = _reached_from(graph, component_of[sources], limit)
        except PoolFull:
            half = len(sources) // 2
            waiting += [sources[half:], sources[:half]]
            continue
        values = graph.values[sources]
        first = int(graph.offsets[component_of[sources[0]]])
        places = np.arange(len(sources) + 1, dtype=np.uint32)
        for targets, origins in expand(sets, component_of[first:], places, BATCH_ROWS):
            yield values[origins], graph.values[first:][targets]


def _reached_from(graph: Condensation, components: np.ndarray, limit: int) -> PositionSets:
    """For each component the places of the sources that reach it; `components` are those of the sources.

    They are ascending. Raises `PoolFull` if the sets take more than `limit` bytes.
    """
    count, nowhere = graph.count, len(components)
    here = np.bincount(components, minlength=count)
    cyclic = graph.cyclic != 0
    own_offsets = np.zeros(count + 1, np.uint64)
    np.cumsum(np.where(cyclic, here, 0), out=own_offsets[1:])
    unions = Unions(
        work=np.arange(count, dtype=np.uint32),
        base_offsets=np.zeros(count + 1, np.uint64),
        bases=np.empty(0, np.uint32),
        child_offsets=graph.parent_offsets,
        children=graph.parents,
        own_offsets=own_offsets,
        own=np.flatnonzero(cyclic[components]).astype(np.uint32),
        # One that has no source here passes on what reaches it and no place of its own, as cyclic ones do.
        places=np.where(here > 0, np.cumsum(here) - here, nowhere).astype(np.uint32),
        cyclic=(cyclic | (here == 0)).astype(np.uint8),
        spans=[(int(components[0]), count, False)],
    )
    sets = empty_sets(empty_pool(2 * count, count // 64, limit), count)
    unite(unions, sets, sets, nowhere + 1)
    return sets


def equivalence_pairs(classes: Classes, part: int, parts: int) -> Pairs:
    """One part of `parts` of the pairs within classes, in batches; all parts have the same size."""
    sizes = np.diff(classes.offsets)
    starts = np.repeat(classes.offsets[:-1], sizes)
    first_pair = np.zeros(len(classes.values) + 1, np.int64)
    np.cumsum(np.repeat(sizes, sizes), out=first_pair[1:])
    total = int(first_pair[-1])
    begin, end = total * part // parts, total * (part + 1) // parts
    for low in range(begin, end, BATCH_ROWS):
        high = min(low + BATCH_ROWS, end)
        first, last = np.searchsorted(first_pair, [low, high - 1], "right") - 1
        bounds = np.clip(first_pair[first : last + 2], low, high)
        sources = np.repeat(np.arange(first, last + 1), np.diff(bounds))
        partners = np.arange(low, high) - first_pair[sources] + starts[sources]
        yield classes.values[sources], classes.values[partners]


PARTS_PER_CORE = 2
"""Parts are nearly even, but cores may not be."""


@dataclass(frozen=True)
class Condensable:
    """A relation that is a closure or an equivalence of pairs: its own, or those of `source`."""

    candidate: Candidate

    @property
    def source(self) -> Source | None:
        return self.candidate.sources[0] if self.candidate.linear else None

    @property
    def handled(self) -> tuple[Rule, ...]:
        """The rules that nobody has to evaluate."""
        return self.candidate.handled

    @property
    def why(self) -> str:
        return self.candidate.why

    def permuted(self, frames: Mapping[str, Held]) -> Held:
        """The pairs of the source as the relation has them."""
        assert self.source is not None
        held = frames[self.source.relation]
        if self.source.permutation == (0, 1):
            return held
        return Held(
            held.frame.select(held.frame[column(1)].alias("c0"), held.frame[column(0)].alias("c1")), held.rows
        )


def condensable(prepared: Prepared, stratum: Stratum, carriers: Carriers) -> Condensable | None:
    """The shape of a stratum of one relation all of whose recursion its shape implies."""
    if len(stratum.relations) != 1:
        return None
    (name,) = stratum.relations
    if any(carriers.carrier(a.type) != LONG for a in prepared.program.relations[name].attributes):
        return None
    plan = prepared.schemes[name]
    for shape in (Shape.EQUIVALENCE, Shape.CLOSURE):
        candidate = plan.candidate(shape)
        if candidate is not None and all(v.rule in candidate.handled for v in stratum.recursive):
            return Condensable(candidate)
    return None


def run_condensed(spark: SparkSession, shape: Condensable, pairs: Held, limit: int) -> DataFrame | None:
    """All pairs of a closure or an equivalence, listed when they are read; None if it is too large."""
    partitions = PARTS_PER_CORE * parallelism(spark)
    if shape.candidate.shape is Shape.EQUIVALENCE:
        classes = equivalence_classes(spark, pairs.frame, limit)
        return None if classes is None else expand_equivalence(spark, classes, partitions)
    if pairs.rows is None or pairs.rows > limit:
        return None
    batches = list(arrow_batches(pairs.frame, rows=pairs.rows))
    ends = [
        np.concatenate([np.asarray(batch.column(j).to_numpy()) for batch in batches]).astype(
            np.int64, copy=False
        )
        for j in range(2)
    ]
    return expand_closure(spark, condense(*ends), partitions)
