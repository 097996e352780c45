"""Closures and equivalences condensed on one machine and listed in tasks: the same pairs as the engine's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.kernels.position_sets import PoolFull, PositionSets
from gpuengine.spark_bridge import closures
from gpuengine.spark_bridge.closures import (
    Classes,
    Condensation,
    Pairs,
    classes_of,
    closure_pairs,
    condense,
    equivalence_classes,
    equivalence_pairs,
    expand_closure,
    expand_equivalence,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLOSURE = """
.decl e(x: number, y: number)
.decl r(x: number, y: number)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), r(y, z).
"""
EQUIVALENCE = ".decl e(x: number, y: number)\n.decl r(x: number, y: number) eqrel\nr(x, y) :- e(x, y).\n"

Edges = list[tuple[int, int]]
Rows = set[tuple[int, int]]
FAR = 2**62


def chain(first: int, last: int) -> Edges:
    return [(x, x + 1) for x in range(first, last)]


def random_edges(nodes: int, edges: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, nodes, (edges, 2))


GRAPHS: dict[str, Edges] = {
    "empty": [],
    "one edge": [(1, 2)],
    "self loops": [(1, 1), (2, 2), (2, 3)],
    "chain": chain(0, 70),
    "cycle": [*chain(0, 40), (40, 0)],
    "cycles along a chain": [*chain(0, 60), (9, 3), (30, 20), (45, 45), (59, 50)],
    "apart": [*chain(0, 9), *chain(100, 109), (200, 200), (109, 100), (-FAR, FAR)],
    "far apart": [(-(2**63), 2**63 - 1), (2**63 - 1, 0), (0, -(2**63)), (0, FAR), (FAR, 5)],
    "edges twice": [(1, 2), (1, 2), (2, 3), (2, 3), (3, 1), (3, 4), (2, 4), (1, 4)],
    "sparse": [(int(x), int(y)) for x, y in random_edges(90, 100, 1)],
    "giant component": [(int(x), int(y)) for x, y in random_edges(80, 300, 2)],
    "dag": [(int(min(e)), int(max(e))) for e in random_edges(80, 300, 3) if e[0] != e[1]],
}


def facts(program: str, edges: Edges) -> Rows:
    engine = ge.Engine(program)
    engine.load("e", edges)
    return set(engine.materialise()["r"].to_pylist())


def columns(edges: Edges) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(edges, np.int64).reshape(len(edges), 2)
    return both[:, 0].copy(), both[:, 1].copy()


def frame(spark: SparkSession, edges: Edges, parts: int = 3) -> DataFrame:
    return spark.createDataFrame(edges, "a bigint, b bigint").repartition(parts)


def rows_of(parts: Iterable[Pairs]) -> Rows:
    listed = [
        pair for part in parts for batch in part for pair in zip(*map(np.ndarray.tolist, batch), strict=True)
    ]
    assert len(listed) == len(set(listed)), "a pair comes twice"
    return set(listed)


def collected(result: DataFrame) -> Rows:
    table = result.toArrow()
    assert table.column_names == ["c0", "c1"]
    listed = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert len(listed) == len(set(listed)), "a pair comes twice"
    return set(listed)


def stages(spark: SparkSession) -> set[int]:
    store = spark.sparkContext._jsc.sc().statusStore()
    listed = store.stageList(None, False, False, getattr(store, "stageList$default$4")(), None)
    return {listed.apply(at).stageId() for at in range(listed.size())}


@pytest.mark.parametrize("name", ["empty", "cycles along a chain", "far apart"])
def test_closures_on_spark(spark: SparkSession, name: str) -> None:
    edges = GRAPHS[name]
    assert collected(expand_closure(spark, condense(*columns(edges)), 3)) == facts(CLOSURE, edges)


@pytest.mark.parametrize("name", ["empty", "apart", "sparse"])
def test_equivalences_on_spark(spark: SparkSession, name: str) -> None:
    edges = GRAPHS[name]
    classes = equivalence_classes(spark, frame(spark, edges))
    assert classes is not None
    assert collected(expand_equivalence(spark, classes, 3)) == facts(EQUIVALENCE, edges)


@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
def test_graphs_of_all_shapes(edges: Edges) -> None:
    graph, classes = condense(*columns(edges)), classes_of(*columns(edges))
    assert rows_of(closure_pairs(graph, part, 3) for part in range(3)) == facts(CLOSURE, edges)
    assert rows_of(equivalence_pairs(classes, part, 3) for part in range(3)) == facts(EQUIVALENCE, edges)


EDGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=24)


@given(EDGES, st.integers(1, 4), st.booleans())
@settings(max_examples=200, deadline=None)
def test_closures(edges: Edges, parts: int, sparse: bool) -> None:
    edges = [((x - 6) * 2**59, (y - 6) * 2**59) for x, y in edges] if sparse else edges
    graph = condense(*columns(edges))
    assert rows_of(closure_pairs(graph, part, parts) for part in range(parts)) == facts(CLOSURE, edges)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cyclic", [False, True])
def test_closures_where_there_is_little_room(
    monkeypatch: pytest.MonkeyPatch, seed: int, cyclic: bool
) -> None:
    """The sets of all sources do not fit: they are made for some sources at a time."""
    asked: list[int] = []
    full: list[int] = []
    reached_from = closures._reached_from

    def noted(graph: Condensation, components: np.ndarray, limit: int) -> PositionSets:
        asked.append(len(components))
        try:
            return reached_from(graph, components, limit)
        except PoolFull:
            full.append(len(components))
            raise

    monkeypatch.setattr(closures, "_reached_from", noted)
    edges = [(int(min(e)), int(max(e))) for e in random_edges(600, 1100, seed) if e[0] != e[1]]
    edges += [(x + 1, x) for x in range(0, 600, 40)] if cyclic else []
    graph = condense(*columns(edges))
    assert rows_of(closure_pairs(graph, part, 2, set_bytes=1) for part in range(2)) == facts(CLOSURE, edges)
    assert full and len(asked) > 2 * len(full), "each that did not fit was asked for again in halves"


@given(EDGES, st.integers(1, 4))
@settings(max_examples=200, deadline=None)
def test_equivalences(edges: Edges, parts: int) -> None:
    classes = classes_of(*columns(edges))
    wanted = facts(EQUIVALENCE, edges)
    assert rows_of(equivalence_pairs(classes, p, parts) for p in range(parts)) == wanted
    sizes = [sum(len(x) for x, _ in equivalence_pairs(classes, p, parts)) for p in range(parts)]
    assert max(sizes) - min(sizes) <= 1


@given(EDGES)
def test_what_a_condensation_is(edges: Edges) -> None:
    graph = condense(*columns(edges))
    reached = facts(CLOSURE, edges)
    of = dict(zip(graph.values.tolist(), graph.component_of_value.tolist(), strict=True))
    assert sorted(of) == sorted({x for edge in edges for x in edge})
    assert all((of[x] == of[y]) == (x == y or {(x, y), (y, x)} <= reached) for x in of for y in of)
    assert {x for x in of if graph.cyclic[of[x]]} == {x for x, y in reached if x == y}
    lists = np.split(graph.parents, graph.parent_offsets[1:-1].astype(np.int64)) if of else []
    assert {(p, k) for k, parents in enumerate(lists) for p in parents.tolist()} == {
        (of[x], of[y]) for x, y in edges if of[x] != of[y]
    }
    assert all(sorted(set(parents.tolist()), reverse=True) == parents.tolist() for parents in lists)
    assert all(parents.tolist() < [k] for k, parents in enumerate(lists))


def test_sources_are_dealt_out_evenly() -> None:
    """One component of most nodes, a chain that leads to it and one that it leads to."""
    edges = [*chain(0, 300), *chain(300, 1300), (1300, 300), *chain(1300, 1600)]
    graph = condense(*columns(edges))
    sizes = [sum(len(x) for x, _ in closure_pairs(graph, part, 8)) for part in range(8)]
    assert max(sizes) < 1.02 * min(sizes)


def test_batches_are_bounded() -> None:
    graph = condense(*columns([*chain(0, 1500), (1500, 0)]))
    classes = classes_of(*columns(chain(0, 1500)))
    for pairs in (closure_pairs(graph, 0, 1), equivalence_pairs(classes, 0, 1)):
        sizes = [len(x) for x, _ in pairs]
        assert sum(sizes) == 1501**2 and max(sizes) <= closures.BATCH_ROWS and len(sizes) == 9


def test_nothing_is_shuffled(spark: SparkSession) -> None:
    before = stages(spark)
    edges = [*chain(0, 400), (200, 100)]
    closure = expand_closure(spark, condense(*columns(edges)), 4)
    equal = expand_equivalence(spark, classes_of(*columns(edges)), 4)
    assert len(closure.toArrow()) == len(facts(CLOSURE, edges)) and len(equal.toArrow()) == 401**2
    ran = stages(spark) - before
    store = spark.sparkContext._jsc.sc().statusStore()
    assert len(ran) == 2 and not any(store.lastStageAttempt(stage).shuffleWriteBytes() for stage in ran)


def test_merging_in_several_steps(spark: SparkSession) -> None:
    """As on a cluster of many cores; each partition's pairs connect what another's leave apart."""
    edges = [(x, (x * 7 + 3) % 500) for x in range(0, 500, 3)] + [(-5, -5), (900, 900)]
    before = stages(spark)
    classes = equivalence_classes(spark, frame(spark, edges, 6), tasks=200)
    assert classes is not None and same(classes, classes_of(*columns(edges)))
    store = spark.sparkContext._jsc.sc().statusStore()
    ran = [store.lastStageAttempt(stage) for stage in stages(spark) - before]
    assert {6, 25, 3, 1} <= {stage.numTasks() for stage in ran}
    assert any(stage.shuffleWriteBytes() for stage in ran), "shuffled bytes are seen where there are some"


def same(one: Classes, other: Classes) -> bool:
    return np.array_equal(one.values, other.values) and np.array_equal(one.offsets, other.offsets)


def test_too_many_nodes(spark: SparkSession) -> None:
    edges = chain(0, 49)
    assert equivalence_classes(spark, frame(spark, edges), limit=49) is None
    assert equivalence_classes(spark, frame(spark, edges), limit=50) is not None


def test_pairs_are_reduced_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces much smaller than a batch: what is held in between is merged with what follows."""
    import pyarrow as pa

    monkeypatch.setattr(closures, "_LEAST_PENDING", 4)
    sources, targets = columns(GRAPHS["sparse"])
    batches = [
        pa.RecordBatch.from_arrays([pa.array(c[at : at + 7]) for c in (sources, targets)], ["a", "b"])
        for at in range(0, len(sources), 7)
    ]
    reduced = list(closures._reduce_pairs(batches))
    assert sum(batch.num_rows for batch in reduced) == len({*sources.tolist(), *targets.tolist()})
    merged = [np.concatenate([batch.column(j).to_numpy() for batch in reduced]) for j in range(2)]
    assert same(classes_of(*merged), classes_of(sources, targets))
