"""The process that measures programs that compute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.harness.process import Measured, NotApplicable, Spec, measure_cells, repeated
from bench.wide.workloads import COMPUTE, LOAD, OURS, WORKLOADS, Facts, Workload

_BY_NAME = {workload.name: workload for workload in WORKLOADS}


def measure(spec: Spec) -> Iterator[Measured]:
    """The steps of a cell; only what is measured is imported."""
    workload = _BY_NAME[spec["workload"]]
    run = _ours if spec["kind"] == OURS else _duckdb
    if spec["warm"]:
        # What is imported and compiled on the way is not what is measured.
        list(run(spec, workload, workload.quick, workload.facts(workload.quick)))
    facts = workload.facts(spec["size"])
    return repeated(spec, lambda: run(spec, workload, spec["size"], facts))


def _ours(spec: Spec, workload: Workload, size: int, facts: Facts) -> Iterator[Measured]:
    import pyarrow as pa

    from gpuengine import Engine

    def load() -> Engine:
        program = workload.program.replace("SIZE", str(size))
        engine = Engine(program, threads=spec["threads"], backend="cpu")
        for name, columns in facts.items():
            engine.load(name, pa.table(dict(columns)))
        return engine

    engine, loaded = _timed(load)
    yield {"step": LOAD, **loaded}
    _, computed = _timed(engine.materialise)
    values = engine["answer"].to_arrow()[workload.value]
    yield {"step": COMPUTE, **computed, "sizes": _answer(len(values), values.to_numpy().sum())}


def _duckdb(spec: Spec, workload: Workload, size: int, facts: Facts) -> Iterator[Measured]:
    try:
        import duckdb
    except ImportError as error:
        raise NotApplicable("not installed: pip install duckdb") from error
    import pyarrow as pa

    def load() -> Any:
        connection = duckdb.connect()
        connection.execute(f"SET threads = {spec['threads']}")
        for name, columns in facts.items():
            connection.register("given", pa.table(dict(columns)))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        return connection

    connection, loaded = _timed(load)
    yield {"step": LOAD, **loaded}
    query = f"WITH RECURSIVE answer AS ({workload.query.replace('SIZE', str(size))}) SELECT * FROM answer"
    _, computed = _timed(lambda: connection.execute(f"CREATE TABLE kept AS {query}"))
    ((rows, total),) = connection.execute(f"SELECT count(*), sum({workload.value}) FROM kept").fetchall()
    yield {"step": COMPUTE, **computed, "sizes": _answer(rows, total)}


def _answer(rows: int, total: Any) -> dict[str, int]:
    """How many rows there are, and twice their sum, which is whole."""
    return {"facts": rows, "check": int(2 * total)}


def _timed(work: Callable[[], Any]) -> tuple[Any, Measured]:
    processor, start = time.process_time(), time.perf_counter()
    done = work()
    seconds = time.perf_counter() - start
    return done, {"seconds": seconds, "cpu": time.process_time() - processor}


if __name__ == "__main__":
    sys.exit(measure_cells(sys.argv[1:], measure))
