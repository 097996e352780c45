"""The process that measures one benchmark in one mode; see `bench.harness.process`."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench.harness.process import Measured, Spec, measure_cells, repeated
from bench.schemes import closure_cells, facts
from bench.schemes.catalogue import ADDITION_STEPS, LUBM, MODULES, SCHEMES, SEMI_NAIVE
from gpuengine import Engine

WARM_ROWS = 200
SMALL_RUNS = 21
WHOLE_RUNS = 7
_FORCED: dict[str, tuple[dict[str, str] | None, ...]] = {
    SEMI_NAIVE: (),
    MODULES: (),
    # A tiny run chooses tables by itself; these make it load the kernels of the schemes.
    SCHEMES: ({"*": "closure"}, {"*": "union"}),
}


def make_engine(spec: Spec, schemes: dict[str, str] | None = None) -> Engine:
    """An engine in the cell's mode, or with other schemes."""
    mode, threads = spec["mode"], spec["threads"]
    if mode != SCHEMES:
        return Engine(
            Path(spec["program"]),
            schemes={"*": "table"},
            modules=mode != SEMI_NAIVE,
            threads=threads,
            backend="cpu",
        )
    return Engine(Path(spec["program"]), schemes=schemes, threads=threads, backend="cpu")


def read_facts(spec: Spec) -> facts.Tables:
    """The facts of the benchmark, generated or from the file that was prepared."""
    if spec["facts"] != LUBM:
        return facts.GENERATORS[spec["facts"]](spec["size"])
    with np.load(spec["file"]) as stored:
        return {name: tuple(stored[name]) for name in stored.files}


def load(engine: Engine, tables: facts.Tables, rows: int | None = None) -> Engine:
    for name, columns in tables.items():
        engine.load(name, np.stack([column[:rows] for column in columns], axis=1))
    return engine


def outputs(engine: Engine) -> list[str]:
    """The relations that the program prints the size of."""
    return [d.relation for d in engine.source.directives if d.kind == "printsize"]


def evaluate(engine: Engine) -> tuple[float, dict[str, int]]:
    """Seconds to materialise and count, and the sizes."""
    start = time.perf_counter()
    engine.materialise()
    sizes = {name: len(engine[name]) for name in outputs(engine)}
    return time.perf_counter() - start, sizes


def warm_up(spec: Spec, tables: facts.Tables) -> None:
    """Load the kernels: tiny runs of the same program."""
    if not spec["warm"]:
        return
    for schemes in (None, *_FORCED[spec["mode"]]):
        evaluate(load(make_engine(spec, schemes), tables, WARM_ROWS))


def materialise(spec: Spec) -> Iterator[Measured]:
    """Materialise and count; what is short is run again."""
    tables = read_facts(spec)
    warm_up(spec, tables)

    def steps() -> Iterator[Measured]:
        engine = load(make_engine(spec), tables)
        seconds, sizes = evaluate(engine)
        yield {"step": "initial", "seconds": seconds, "sizes": sizes, **_described(engine, tables)}
        del engine
        gc.collect()

    yield from repeated(spec, steps)


def _described(engine: Engine, tables: facts.Tables) -> Measured:
    storage = engine.storage
    chosen = {name: one.scheme for name, one in storage.items() if one.scheme not in ("table", "alias")}
    return {
        "nbytes": sum(one.nbytes for one in storage.values()),
        "facts_in": sum(len(columns[0]) for columns in tables.values()),
        "facts_out": sum(one.facts for one in storage.values()),
        "relations": {name: one.facts for name, one in storage.items()},
        "rules": sum(1 for rule in engine.source.rules if rule.body),
        "schemes": chosen,
    }


def queries(spec: Spec) -> Iterator[Measured]:
    """Materialise once, then each query several times, after a run that builds indexes.

    The median of small ones; the best of whole relations, whose times depend on where memory comes from.
    """
    tables = read_facts(spec)
    engine = load(make_engine(spec), tables)
    evaluate(engine)
    first, second = (int(column[0]) for column in tables[spec["key"]])
    for text in spec["queries"]:
        filled = text.format(first=first, second=second)

        def answer(filled: str = filled) -> int:
            view = engine.query(filled) if "(" in filled else engine[filled]
            return int(view.to_arrow().num_rows)

        rows = answer()
        times = []
        is_small = "(" in filled
        for _ in range(SMALL_RUNS if is_small else WHOLE_RUNS):
            start = time.perf_counter()
            answer()
            times.append(time.perf_counter() - start)
        seconds = statistics.median(times) if is_small else min(times)
        yield {"step": text, "seconds": seconds, "sizes": {text: rows}}


def recompute(spec: Spec) -> Iterator[Measured]:
    """Table 5.10 without updates: after each batch everything anew."""
    name = spec["relation"]
    columns = facts.GENERATORS[spec["facts"]](spec["size"])[name]
    warm_up(spec, {name: columns})
    for step, added in zip(ADDITION_STEPS, [None, *facts.additions(spec["size"])], strict=True):
        if added is not None:
            columns = tuple(np.concatenate(pair) for pair in zip(columns, added, strict=True))
        engine = load(make_engine(spec), {name: columns})
        seconds, sizes = evaluate(engine)
        nbytes = sum(one.nbytes for one in engine.storage.values())
        yield {"step": step, "seconds": seconds, "sizes": sizes, "nbytes": nbytes}
        del engine
        gc.collect()


KINDS: dict[str, Callable[[Spec], Iterator[Measured]]] = {
    "materialise": materialise,
    "queries": queries,
    "recompute": recompute,
    "additions": closure_cells.additions,
    "update": closure_cells.update,
    "rebuild": closure_cells.rebuild,
    "graph": closure_cells.graph,
}


if __name__ == "__main__":
    sys.exit(measure_cells(sys.argv[1:], lambda spec: KINDS[spec["kind"]](spec)))
