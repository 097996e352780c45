"""The process that measures: takes cells as JSON in its argument, prints a line of JSON for each step done.

A step printed again is another run of it: the least time counts. What is done before a time-out is so
kept, and long steps are run once.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.schemes import closure_cells, facts
from bench.schemes.catalogue import ADDITION_STEPS, LUBM, MODULES, SCHEMES, SEMI_NAIVE
from gpuengine import Engine

Step = dict[str, Any]
Spec = dict[str, Any]

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


def materialise(spec: Spec) -> Iterator[Step]:
    """Materialise and count; what is short is run again."""
    tables = read_facts(spec)
    warm_up(spec, tables)
    spent, runs = 0.0, 0
    while runs == 0 or (runs < spec["repeat"] and spent < spec["enough"]):
        engine = load(make_engine(spec), tables)
        seconds, sizes = evaluate(engine)
        spent, runs = spent + seconds, runs + 1
        yield {"step": "initial", "seconds": seconds, "sizes": sizes, **_described(engine, tables)}
        del engine
        gc.collect()


def _described(engine: Engine, tables: facts.Tables) -> Step:
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


def queries(spec: Spec) -> Iterator[Step]:
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


def recompute(spec: Spec) -> Iterator[Step]:
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


KINDS: dict[str, Callable[[Spec], Iterator[Step]]] = {
    "materialise": materialise,
    "queries": queries,
    "recompute": recompute,
    "additions": closure_cells.additions,
    "update": closure_cells.update,
    "rebuild": closure_cells.rebuild,
    "graph": closure_cells.graph,
}


def main(arguments: list[str]) -> int:
    """Measure the cells given; a cell that fails says so and the next one is run."""
    failed = False
    for number, spec in enumerate(json.loads(arguments[0])):
        try:
            for step in KINDS[spec["kind"]](spec):
                print(json.dumps({"cell": number, **step}), flush=True)
        except Exception as error:
            failed = True
            print(json.dumps({"cell": number, "error": f"{type(error).__name__}: {error}"}), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
