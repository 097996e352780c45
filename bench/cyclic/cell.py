"""The process that measures one workload with one evaluator; see `bench.harness.process`."""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cyclic import facts
from bench.cyclic.run import KINDS
from bench.harness.process import Measured, Spec, measure_cells
from bench.measure import RSS_UNIT, resident
from bench.updates import ours
from bench.updates.facts import Picked, Pool
from gpuengine import Engine

_WARM_ROWS = 300
_WARM_CHANGE = 20


def make_engine(spec: Spec, kind: str) -> Engine:
    """An engine whose rules are all evaluated in one way, or as it chooses."""
    return Engine(spec["program"], evaluators={"*": kind}, threads=spec["threads"], backend="cpu")


def load(engine: Engine, tables: facts.Tables) -> Engine:
    for name, table in tables.items():
        engine.load(name, table.columns)  # as they stand
    return engine


def pool_of(tables: facts.Tables) -> Pool:
    """Which rows come and go: only their numbers."""
    return Pool({name: (np.arange(table.num_rows),) for name, table in tables.items()})


def taken(tables: facts.Tables, picked: Picked) -> dict[str, pa.Table]:
    return {name: tables[name].take(rows) for name, rows in picked.items()}


def peak() -> int:
    """The most bytes that this process has had resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT


def changes(engine: Engine, small: Mapping[str, Any], large: Mapping[str, Any]) -> Iterator[Measured]:
    """A few facts go and come again, then many go."""
    for step in ours.there_and_back(engine, small, ("-1,000", "+1,000"), full=False):
        yield {**step, "peak": peak()}
    count = sum(map(len, large.values()))
    step = ours.changed(engine, "-25 %", lambda update: ours.delete(large, update), count, full=False)
    yield {**step, "peak": peak()}


def warm_up(spec: Spec, tables: facts.Tables) -> None:
    """Load the kernels: tiny runs of the same program, with all evaluators that the cell may choose."""
    few = {name: table.slice(0, _WARM_ROWS) for name, table in tables.items()}
    pool = pool_of(few)
    for kind in KINDS.values() if spec["evaluator"] == "auto" else (spec["evaluator"],):
        engine = load(make_engine(spec, kind), few).materialise()
        small, large = (taken(few, pool.take(0, n)) for n in (pool.small(_WARM_CHANGE), pool.total // 4))
        for _ in changes(engine, small, large):
            pass


def measure(spec: Spec) -> Iterator[Measured]:
    """Materialise, then change what is there."""
    tables = facts.make(spec)
    if spec["warm"]:
        warm_up(spec, tables)
    pool = pool_of(tables)
    small, large = (taken(tables, pool.take(0, n)) for n in (pool.small(1000), pool.total // 4))
    engine = load(make_engine(spec, spec["evaluator"]), tables)
    loaded = pool.total
    del tables
    gc.collect()
    before = resident(os.getpid())
    start = time.perf_counter()
    engine.materialise()
    seconds = time.perf_counter() - start
    step = {"step": "initial", "seconds": seconds, "changed": loaded, "loaded": before, "peak": peak()}
    yield {**step, **ours.contents(engine, full=False)}
    yield from changes(engine, small, large)


if __name__ == "__main__":
    sys.exit(measure_cells(sys.argv[1:], measure))
