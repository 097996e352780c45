"""The process that measures cells of aggregates in recursion."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.harness.process import Measured, NotApplicable, Spec, measure_cells, repeated
from bench.recursive.graphs import WEIGHTS, Graph, random_graph
from bench.recursive.workloads import (
    ANEW,
    CAPPED,
    CHANGED,
    COMPUTE,
    CONTROLS,
    DELETE,
    FIRST,
    INSERT,
    LOAD,
    OURS,
    PROGRAMS,
    SCIPY,
)

_FIRST = 0
_START = {
    "shortest": [(_FIRST, 0)],
    "flowlog-sssp": [(_FIRST, 0)],
    "intervals": [(_FIRST, 0)],
    "widest": [(_FIRST, WEIGHTS + 1)],
}
_WARM_NODES = 5_000


def measure(spec: Spec) -> Iterator[Measured]:
    """The steps of a cell; only what is measured is imported."""
    run = {OURS: _ours, SCIPY: _scipy, CHANGED: _changed}[spec["kind"]]
    if spec["warm"]:
        # What is imported and compiled on the way is not what is measured.
        list(run(spec, random_graph(_WARM_NODES, spec["degree"], both_ways=spec["both_ways"])))
    graph = random_graph(spec["nodes"], spec["degree"], both_ways=spec["both_ways"])
    return repeated(spec, lambda: run(spec, graph))


def _ours(spec: Spec, graph: Graph) -> Iterator[Measured]:
    engine, loaded = _timed(lambda: _loaded(spec, _edges(graph)))
    yield {"step": LOAD, **loaded}
    _, computed = _timed(engine.materialise)
    yield {"step": COMPUTE, **computed, "sizes": _found(engine)}


def _changed(spec: Spec, graph: Graph) -> Iterator[Measured]:
    """Updates with the last edges; the first update also makes and counts what later ones go on from."""
    edges, changes = _edges(graph), spec["changes"]
    engine = _loaded(spec, edges[: -changes - 1])
    engine.materialise()

    def update(step: str, rows: np.ndarray) -> Measured:
        def run() -> None:
            with engine.update() as change:
                (change.delete if step == DELETE else change.insert)("edge", rows)

        _, updated = _timed(run)
        return {"step": step, **updated, "sizes": _found(engine)}

    yield update(FIRST, edges[-changes - 1 : -changes])
    yield update(INSERT, edges[-changes:])
    yield update(DELETE, edges[-changes:])
    other = _loaded(spec, edges)
    _, computed = _timed(other.materialise)
    yield {"step": ANEW, **computed, "sizes": _found(other)}


def _edges(graph: Graph) -> np.ndarray:
    return np.stack([graph.sources, graph.targets, graph.weights], axis=1)


def _loaded(spec: Spec, edges: np.ndarray) -> Any:
    from gpuengine import Engine

    engine = Engine(PROGRAMS[spec["task"]], threads=spec["threads"], backend="cpu")
    engine.load("edge", edges)
    engine.load("start", _START.get(spec["task"], []))
    return engine


def _found(engine: Any) -> dict[str, int]:
    return _answer(*engine["found"].to_numpy().T)


def _scipy(spec: Spec, graph: Graph) -> Iterator[Measured]:
    try:
        from scipy.sparse import csr_array
    except ImportError as error:
        raise NotApplicable("not installed: pip install scipy") from error

    def load() -> Any:
        places = (graph.sources, graph.targets)
        return csr_array((graph.weights.astype(np.float64), places), shape=(graph.nodes, graph.nodes))

    matrix, loaded = _timed(load)
    yield {"step": LOAD, **loaded}
    columns, computed = _timed(lambda: _TASKS[spec["task"]](matrix))
    yield {"step": COMPUTE, **computed, "sizes": _answer(*columns)}


def _shortest(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    from scipy.sparse.csgraph import dijkstra

    distances = dijkstra(matrix, indices=_FIRST)
    reached = np.flatnonzero(np.isfinite(distances))
    return reached, distances[reached].astype(np.int64)


def _widest(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """The widest path between two nodes is the one in a maximum spanning tree."""
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

    negated = matrix.copy()
    negated.data = -negated.data
    tree = minimum_spanning_tree(negated)
    reached, parents = breadth_first_order(tree, _FIRST, directed=False)
    width = np.full(matrix.shape[0], WEIGHTS + 1, np.int64)
    step = np.arange(matrix.shape[0])
    below = reached[1:]
    step[below] = parents[below]
    links = tree.tocoo()
    one, other = links.coords
    is_up = step[one] == other
    width[np.where(is_up, one, other)] = -links.data.astype(np.int64)
    # The least width on the way up, of twice as long a way each time.
    while not np.array_equal(step, above := step[step]):
        width = np.minimum(width, width[step])
        step = above
    width = np.minimum(width, width[step])
    return reached, width[reached]


def _components(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    from scipy.sparse.csgraph import connected_components

    number, component = connected_components(matrix, directed=False)
    least = np.full(number, len(component), np.int64)
    np.minimum.at(least, component, np.arange(len(component)))
    # A node without an edge is in no fact.
    nodes = np.flatnonzero(np.bincount(component, minlength=number)[component] > 1)
    return nodes, least[component[nodes]]


def _pairs(matrix: Any) -> tuple[np.ndarray, ...]:
    """A path has an edge at least: of the ways back to a node the shortest goes out by one of its edges."""
    from scipy.sparse.csgraph import dijkstra

    distances = dijkstra(matrix)
    back = np.full(matrix.shape[0], np.inf)
    one, other = matrix.tocoo().coords
    np.minimum.at(back, one, matrix.tocoo().data + distances[other, one])
    np.fill_diagonal(distances, back)
    sources, targets = np.nonzero(np.isfinite(distances))
    return sources, targets, distances[sources, targets].astype(np.int64)


def _control(matrix: Any) -> tuple[np.ndarray, ...]:
    from scipy.sparse import csr_array

    shares = matrix.astype(np.int64)
    controls = csr_array(shares.shape, dtype=np.int64)
    while True:
        others = controls.copy()
        others.setdiag(0)
        others.eliminate_zeros()
        now = ((shares + others @ shares) > CONTROLS).astype(np.int64)
        if (now != controls).nnz == 0:
            return tuple(now.tocoo().coords)
        controls = now


def _intervals(matrix: Any) -> tuple[np.ndarray, ...]:
    """The least value of a node is its distance, the largest one what rounds over all edges come to."""
    reached, low = _shortest(matrix)
    edges = matrix.tocoo()
    one, other = edges.coords
    weights = edges.data.astype(np.int64)
    high = np.full(matrix.shape[0], -1, np.int64)
    high[_FIRST] = 0
    while True:
        before = high.copy()
        there = before[one] >= 0
        larger = np.minimum(before[one[there]] + weights[there], CAPPED)
        np.maximum.at(high, other[there], larger)
        if np.array_equal(before, high):
            return reached, low, high[reached]


_TASKS: dict[str, Callable[[Any], tuple[np.ndarray, ...]]] = {
    "shortest": _shortest,
    "widest": _widest,
    "components": _components,
    "pairs": _pairs,
    "flowlog-sssp": _shortest,
    "flowlog-cc": _components,
    "control": _control,
    "intervals": _intervals,
}


def _answer(*columns: np.ndarray) -> dict[str, int]:
    """How many facts there are, and a number that tells which."""
    order = np.lexsort(columns[::-1])
    rows = np.stack([column[order] for column in columns], axis=1).astype("<i8")
    return {"facts": len(rows), "check": zlib.crc32(rows.tobytes())}


def _timed(work: Callable[[], Any]) -> tuple[Any, Measured]:
    processor, start = time.process_time(), time.perf_counter()
    done = work()
    seconds = time.perf_counter() - start
    return done, {"seconds": seconds, "cpu": time.process_time() - processor}


if __name__ == "__main__":
    sys.exit(measure_cells(sys.argv[1:], measure))
