"""Cells that use a `Closure` alone: updates against building anew, building against scipy's components."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness.process import Measured, Spec, repeated
from bench.random_numbers import words
from bench.schemes import facts
from bench.schemes.catalogue import ADDITION_STEPS, UPDATE_STEPS
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.contract import Domain

Ids = list[np.ndarray]

SMALL = 100
LARGE_SHARE = 20
"""The large deletion is one fact of so many."""
GRAPH_RUNS = 5


def _ids(columns: facts.Columns) -> Ids:
    return [column.astype(np.uint32) for column in columns]


def _build(columns: Ids, threads: int) -> Closure:
    closure = Closure("closure", threads=threads)
    _add(closure, columns)
    return closure


def _grow(closure: Closure, columns: Ids) -> None:
    closure.insert(columns, len(columns[0]))
    closure.advance()


def _add(closure: Closure, columns: Ids) -> None:
    _grow(closure, columns)
    closure.settle()


def _take(closure: Closure, columns: Ids, left: Ids) -> None:
    """Delete facts; those of the facts `left` that went with them come back.

    A closure does not keep an edge that follows from others when it comes, so that it may go with these.
    """
    closure.delete(columns, len(columns[0]))
    lost = closure.contains(left, len(left[0]), Domain.NEW)
    closure.remove()
    if lost.any():
        _add(closure, [column[lost] for column in left])


def _timed(name: str, relation: str, closure: Closure, change: Callable[[], None]) -> Measured:
    """The step that `change` is, with counting."""
    start = time.perf_counter()
    change()
    pairs = closure.count(Domain.ALL)
    seconds = time.perf_counter() - start
    return {"step": name, "seconds": seconds, "sizes": {relation: pairs}, "nbytes": closure.host_nbytes}


def _warm_up(spec: Spec) -> None:
    """Load the kernels by one small closure that grows and shrinks."""
    if not spec["warm"]:
        return
    columns = _ids(facts.categories(600))
    closure = _build(columns, spec["threads"])
    _take(closure, [column[:50] for column in columns], [column[50:] for column in columns])
    _add(closure, [column[:50] for column in columns])


def _repeated(spec: Spec, steps: Callable[[], Iterator[Measured]]) -> Iterator[Measured]:
    """All steps, again while they are short, once the kernels are loaded."""
    _warm_up(spec)
    yield from repeated(spec, steps)


def additions(spec: Spec) -> Iterator[Measured]:
    """Table 5.10: build, then three times a thousand edges."""
    relation, threads = spec["relation"], spec["threads"]
    columns = _ids(facts.GENERATORS[spec["facts"]](spec["size"])[relation])
    batches = [_ids(batch) for batch in facts.additions(spec["size"])]

    def steps() -> Iterator[Measured]:
        closure = Closure(relation, threads=threads)
        for name, batch in zip(ADDITION_STEPS, [columns, *batches], strict=True):
            yield _timed(name, relation, closure, partial(_add, closure, batch))

    return _repeated(spec, steps)


def _chosen(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which facts the small and the large deletion take, the same ones everywhere."""
    order = np.argsort(words(210, count), kind="stable")
    small, large = min(SMALL, count // LARGE_SHARE), count // LARGE_SHARE
    return order[:small], order[small : small + large]


def update(spec: Spec) -> Iterator[Measured]:
    """Table 5.12: build; delete a hundred edges; put them back; delete one of twenty."""
    relation, threads = spec["relation"], spec["threads"]
    columns = _ids(facts.GENERATORS[spec["facts"]](spec["size"])[relation])
    chosen = _chosen(len(columns[0]))
    small, large = ([column[rows] for column in columns] for rows in chosen)
    without_small, without_large = ([np.delete(column, rows) for column in columns] for rows in chosen)

    def steps() -> Iterator[Measured]:
        closure = Closure(relation, threads=threads)
        changes = (
            partial(_add, closure, columns),
            partial(_take, closure, small, without_small),
            partial(_add, closure, small),
            partial(_take, closure, large, without_large),
        )
        for name, change in zip(UPDATE_STEPS, changes, strict=True):
            yield _timed(name, relation, closure, change)

    return _repeated(spec, steps)


def rebuild(spec: Spec) -> Iterator[Measured]:
    """The same states as `update` has, each built from nothing."""
    relation, threads = spec["relation"], spec["threads"]
    columns = _ids(facts.GENERATORS[spec["facts"]](spec["size"])[relation])
    small, large = _chosen(len(columns[0]))

    def steps() -> Iterator[Measured]:
        for name, gone in zip(UPDATE_STEPS, (None, small, None, large), strict=True):
            left = columns if gone is None else [np.delete(column, gone) for column in columns]
            closure = Closure(relation, threads=threads)
            yield _timed(name, relation, closure, partial(_add, closure, left))

    return _repeated(spec, steps)


def graph(spec: Spec) -> Iterator[Measured]:
    """A real graph: its closure, and scipy's strong components of a matrix made before, in turns."""
    with gzip.open(Path(spec["file"])) as lines:
        edges = np.loadtxt(lines, dtype=np.int64, delimiter="\t")
    names, numbered = np.unique(edges, return_inverse=True)
    columns = _ids(facts.distinct(tuple(numbered.reshape(edges.shape).T)))
    components = _strong_components(columns, len(names))
    _warm_up(spec)
    for _ in range(GRAPH_RUNS):
        closure = Closure("path", threads=spec["threads"])
        step = _timed("closure", "path", closure, partial(_grow, closure, columns))
        yield step | {"facts_in": len(columns[0])}
        if components is not None:
            start = time.perf_counter()
            components()
            yield {"step": "scipy", "seconds": time.perf_counter() - start}


def _strong_components(columns: Ids, nodes: int) -> Callable[[], Any] | None:
    """What finds the strong components with scipy, if it is there."""
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components
    except ImportError:
        return None
    ones = np.ones(len(columns[0]), np.int8)
    matrix = csr_array((ones, (columns[0], columns[1])), shape=(nodes, nodes))
    return partial(connected_components, matrix, directed=True, connection="strong")
