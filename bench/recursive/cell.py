"""The process that measures cells of least and greatest values in recursion."""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.harness.process import Measured, NotApplicable, Spec, measure_cells, repeated
from bench.recursive.graphs import WEIGHTS, Graph, random_graph
from bench.recursive.workloads import COMPUTE, LOAD, OURS, PROGRAMS

_FIRST = 0
_START = {"shortest": [(_FIRST, 0)], "widest": [(_FIRST, WEIGHTS + 1)], "components": []}
_WARM_NODES = 5_000


def measure(spec: Spec) -> Iterator[Measured]:
    """The steps of a cell; only what is measured is imported."""
    run = _ours if spec["kind"] == OURS else _scipy
    if spec["warm"]:
        # What is imported and compiled on the way is not what is measured.
        list(run(spec, random_graph(_WARM_NODES, spec["degree"], both_ways=spec["both_ways"])))
    graph = random_graph(spec["nodes"], spec["degree"], both_ways=spec["both_ways"])
    return repeated(spec, lambda: run(spec, graph))


def _ours(spec: Spec, graph: Graph) -> Iterator[Measured]:
    from gpuengine import Engine

    def load() -> Engine:
        engine = Engine(PROGRAMS[spec["task"]], threads=spec["threads"], backend="cpu")
        engine.load("edge", np.stack([graph.sources, graph.targets, graph.weights], axis=1))
        engine.load("start", _START[spec["task"]])
        return engine

    engine, loaded = _timed(load)
    yield {"step": LOAD, **loaded}
    _, computed = _timed(engine.materialise)
    distances = engine["found"].to_numpy()
    yield {"step": COMPUTE, **computed, "sizes": _answer(distances[:, 0], distances[:, 1])}


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
    (nodes, values), computed = _timed(lambda: _TASKS[spec["task"]](matrix))
    yield {"step": COMPUTE, **computed, "sizes": _answer(nodes, values)}


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


_TASKS: dict[str, Callable[[Any], tuple[np.ndarray, np.ndarray]]] = {
    "shortest": _shortest,
    "widest": _widest,
    "components": _components,
}


def _answer(nodes: np.ndarray, values: np.ndarray) -> dict[str, int]:
    """How many facts there are, and a number that tells which."""
    order = np.argsort(nodes, kind="stable")
    rows = np.stack([nodes[order], values[order]], axis=1).astype("<i8")
    return {"facts": len(rows), "check": zlib.crc32(rows.tobytes())}


def _timed(work: Callable[[], Any]) -> tuple[Any, Measured]:
    processor, start = time.process_time(), time.perf_counter()
    done = work()
    seconds = time.perf_counter() - start
    return done, {"seconds": seconds, "cpu": time.process_time() - processor}


if __name__ == "__main__":
    sys.exit(measure_cells(sys.argv[1:], measure))
