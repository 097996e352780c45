"""The pairs of closures and equivalences, listed in tasks that share nothing but what was condensed.

Each task has its own part of the sources (of a closure) or of the pairs (of an equivalence), an equal share
whatever the shape of the graph; it holds sets of bounded size and yields one batch at a time. Nothing is
shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpuengine.kernels.cpu.position_sets import Unions, expand, unite
from gpuengine.kernels.position_sets import PoolFull, PositionSets, empty_pool, empty_sets
from gpuengine.spark_bridge.condensation import BATCH_ROWS, PAIRS, Classes, Condensation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    shared = spark.sparkContext.broadcast(condensed)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from gpuengine.spark_bridge.worker import prepare_worker

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
        for targets, found in expand(sets, component_of[first:], places, BATCH_ROWS):
            yield values[found], graph.values[first:][targets]


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
