"""What is measured of our engine."""

from __future__ import annotations

import gc
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpuengine
from bench.harness.process import Measured, Spec
from bench.updates import facts
from bench.updates.common import DIGEST_ROWS, program, repeated
from bench.updates.facts import Picked, Pool, Tables
from bench.updates.workloads import LATENCIES, WITH_RULE
from gpuengine import Engine
from gpuengine.maintenance.transaction import Update

Rows = Mapping[str, Any]
"""What `Engine.load` takes, by relation."""

WARM_ROWS = 300


def make_engine(spec: Spec, *, rule: bool = False, schemes: Mapping[str, str] | None = None) -> Engine:
    """An engine in the cell's mode, or with other schemes."""
    text = "\n".join([program(spec), spec["declared"], spec["rule"] if rule else "", ""])
    return Engine(
        text,
        threads=spec["threads"],
        schemes=schemes or spec["schemes"],
        counting=spec["counting"],
        backend="cpu",
    )


def rows(columns: facts.Columns) -> np.ndarray:
    return np.stack(columns, axis=1)


def load(engine: Engine, tables: Tables) -> Engine:
    for name, columns in tables.items():
        engine.load(name, rows(columns))
    return engine


def contents(engine: Engine, *, full: bool = True) -> Measured:
    """The size of every relation, and what tells the contents of those that are not large."""
    start = time.perf_counter()
    sizes = {name: len(engine[name]) for name in engine.relations}
    measured: Measured = {"sizes": sizes, "count_seconds": time.perf_counter() - start}
    if full:
        small = [name for name, size in sizes.items() if size <= DIGEST_ROWS]
        measured["digests"] = {name: digest(engine, name) for name in small}
    return measured


def digest(engine: Engine, name: str) -> str:
    return facts.digest([column.to_numpy() for column in engine[name].to_arrow().columns])


def computed(name: str, spec: Spec, tables: Tables, *, rule: bool = False) -> tuple[Engine, Measured]:
    """A new engine on these facts, and the step that this is."""
    start = time.perf_counter()
    engine = load(make_engine(spec, rule=rule), tables)
    loaded = time.perf_counter()
    engine.materialise()
    done = time.perf_counter()
    parts = {"load": loaded - start, "materialise": done - loaded}
    stored = {n: s.scheme for n, s in engine.storage.items() if s.scheme not in ("table", "alias")}
    measured = {"step": name, "seconds": done - start, "parts": parts, "schemes": stored}
    return engine, {**measured, "changed": facts.count(tables), **contents(engine)}


def changed(
    engine: Engine, name: str, edit: Callable[[Update], Any], count: int, *, full: bool = True
) -> Measured:
    """One update, timed until its `with` block has ended."""
    start = time.perf_counter()
    with engine.update() as update:
        edit(update)
    seconds = time.perf_counter() - start
    is_maintained = engine._updater._maintainer is not None
    measured = {"step": name, "seconds": seconds, "changed": count, "maintained": is_maintained}
    return {**measured, **contents(engine, full=full)}


def arrays(pool: Pool, picked: Picked) -> Rows:
    """Facts as they are given to an update."""
    return {name: rows(columns) for name, columns in pool.facts(picked).items()}


def delete(given: Rows, update: Update) -> None:
    for name, data in given.items():
        update.delete(name, data)


def insert(given: Rows, update: Update) -> None:
    for name, data in given.items():
        update.insert(name, data)


def count(given: Rows) -> int:
    return sum(map(len, given.values()))


def there_and_back(
    engine: Engine, given: Rows, names: tuple[str, str], *, full: bool = True
) -> Iterator[Measured]:
    """Delete facts and insert them again."""
    for name, change in zip(names, (delete, insert), strict=True):
        yield changed(engine, name, partial(change, given), count(given), full=full)


def change_rules(engine: Engine, spec: Spec) -> Iterator[Measured]:
    rule = spec["rule"]
    yield changed(engine, "+ rule", lambda u: u.add_rules(rule), 1)
    yield changed(engine, "- rule", lambda u: u.remove_rules(rule), 1)


def warm_up(spec: Spec, tables: Tables) -> None:
    """Load the kernels: tiny runs of the same program, also with schemes that only many facts ask for."""
    if not spec["warm"]:
        return
    few = {name: tuple(column[:WARM_ROWS] for column in columns) for name, columns in tables.items()}
    pool = Pool(few, spec["fixed"])
    others: list[dict[str, str]] = [] if spec["schemes"] else [{"*": "closure"}, {"*": "union"}]
    for schemes in (None, *others):
        engine = load(make_engine(spec, schemes=schemes), few).materialise()
        contents(engine)
        for _ in there_and_back(engine, arrays(pool, pool.take(0, pool.small(20))), ("", "")):
            pass
        if spec["rule"]:
            for _ in change_rules(engine, spec):
                pass


def update(spec: Spec) -> Iterator[Measured]:
    """All steps of a workload, one after the other on one engine; then shares of the facts on others."""
    tables = facts.make(spec)
    warm_up(spec, tables)
    pool = Pool(tables, spec["fixed"])
    engine, step = computed("initial", spec, tables)
    yield step
    for there, back in (("first: -1", "+1"), ("first: -100", "first: +100"), ("-100", "+100")):
        given = arrays(pool, pool.missing(there.removeprefix("first: ")))
        yield from there_and_back(engine, given, (there, back))
    batches = [arrays(pool, picked) for picked in pool.batches()]
    for i, given in enumerate(batches, 1):
        yield from there_and_back(engine, given, ("-1,000", "+1,000"), full=i == len(batches))
    yield from change_rules(engine, spec)
    yield from there_and_back(engine, arrays(pool, pool.missing("-25 %")), ("-25 %", "+25 %"))
    del engine
    if spec["shares"]:
        yield from _shares(spec, pool)


def _shares(spec: Spec, pool: Pool) -> Iterator[Measured]:
    """A share of the facts at first, the rest as one update, which goes again."""
    for share, rest in (("99 %", "1 %"), ("50 %", "50 %")):
        gc.collect()
        missing = pool.missing(share)
        given = arrays(pool, missing)
        engine, step = computed(share, spec, pool.without(missing))
        yield step
        yield changed(engine, f"{share}: +{rest}", partial(insert, given), count(given))
        yield changed(engine, f"{share}: -{rest}", partial(delete, given), count(given))
        if share == "99 %":
            yield changed(engine, f"{share}: +{rest} again", partial(insert, given), count(given))


def anew(spec: Spec) -> Iterator[Measured]:
    """Each state computed from nothing; what is short is run again."""
    tables = facts.make(spec)
    warm_up(spec, tables)
    pool = Pool(tables, spec["fixed"])

    def run(state: str) -> Measured:
        engine, step = computed(state, spec, pool.without(pool.missing(state)), rule=state == WITH_RULE)
        del engine
        gc.collect()
        return step

    yield from repeated(spec, run)


def _latencies(engine: Engine, pool: Pool) -> Iterator[Measured]:
    """The first update, which deletes a few facts; then each inserts these and deletes others."""
    batches = [arrays(pool, pool.touched(i)) for i in range(LATENCIES + 1)]
    yield changed(engine, "first update", partial(delete, batches[0]), count(batches[0]), full=False)
    for before, now in itertools.pairwise(batches):

        def edit(update: Update, before: Rows = before, now: Rows = now) -> None:
            insert(before, update)
            delete(now, update)

        is_last = now is batches[-1]
        yield changed(engine, "10 facts", edit, count(before) + count(now), full=is_last)


def latency(spec: Spec) -> Iterator[Measured]:
    """Many small updates of a large knowledge base."""
    tables = facts.make(spec)
    warm_up(spec, tables)
    engine, step = computed("initial", spec, tables)
    yield step
    yield from _latencies(engine, Pool(tables, spec["fixed"]))


def durable(spec: Spec) -> Iterator[Measured]:
    """The same, kept in a folder: saved, opened, updated, and opened again."""
    tables = facts.make(spec)
    warm_up(spec, tables)
    pool = Pool(tables, spec["fixed"])
    with tempfile.TemporaryDirectory(dir=spec["scratch"]) as scratch:
        folder = Path(scratch) / "kb"
        engine, step = computed("initial", spec, tables)
        yield step
        start = time.perf_counter()
        engine.save(folder)
        yield {"step": "save", "seconds": time.perf_counter() - start, **contents(engine)}
        del engine
        with _opened(folder, spec) as (engine, seconds):
            # Not the whole contents: reading them would make the first update look faster than it is.
            yield {"step": "open", "seconds": seconds, **contents(engine, full=False)}
            yield from _latencies(engine, pool)
        del engine
        with _opened(folder, spec) as (engine, seconds):
            nbytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            yield {"step": "open again", "seconds": seconds, "disk_bytes": nbytes, **contents(engine)}


@contextmanager
def _opened(folder: Path, spec: Spec) -> Iterator[tuple[Engine, float]]:
    gc.collect()
    start = time.perf_counter()
    with gpuengine.open(folder, threads=spec["threads"], backend="cpu") as engine:
        yield engine, time.perf_counter() - start


KINDS: dict[str, Callable[[Spec], Iterator[Measured]]] = {
    "update": update,
    "anew": anew,
    "latency": latency,
    "durable": durable,
}
