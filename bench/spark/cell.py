"""The process that measures on Spark; see `bench.harness.process`.

All cells of a file have the same master: a process has one session.
"""

from __future__ import annotations

import gc
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness.process import Measured, Spec, measure_cells
from bench.spark import loops, session, workloads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_REPEAT = 3
_ENOUGH_SECONDS = 20.0
"""Steps are run again while they have taken less than this together."""


def _repeated(measure: Callable[[], Measured], *, quick: bool) -> Iterator[Measured]:
    spent = 0.0
    for _ in range(1 if quick else _REPEAT):
        measured = measure()
        yield measured
        spent += measured["seconds"]
        if spent > _ENOUGH_SECONDS:
            return


def _timed(action: Callable[[], Any]) -> tuple[Any, float]:
    gc.collect()
    started = time.perf_counter()
    result = action()
    return result, time.perf_counter() - started


# -- fixpoints ---------------------------------------------------------------------------------------------


def fixpoint(spark: SparkSession, spec: Spec) -> Iterator[Measured]:
    """A fixpoint on a few facts, whose contents are compared, and then on all of them, to be counted."""
    measured, seconds = _timed(lambda: _evaluate(spark, spec, spec["quick_facts"], digest=True))
    yield {"step": "start", **measured, "seconds": seconds}
    if not spec["is_quick"]:
        # A second time on few facts: the first one has loaded kernels, the JVM has compiled nothing yet.
        _evaluate(spark, spec, spec["quick_facts"], digest=False)
    for measured in _repeated(
        lambda: _evaluate(spark, spec, spec["facts"], digest=False), quick=spec["is_quick"]
    ):
        yield {"step": "run", **measured}


def _evaluate(spark: SparkSession, spec: Spec, folder: str, *, digest: bool) -> Measured:
    """One contender from Parquet to the number of facts."""
    tables = {path.name: spark.read.parquet(str(path)) for path in sorted(Path(folder).iterdir())}
    relation = spec["relation"]
    jobs = session.Jobs(spark)
    computed, started = session.processor_seconds(), time.perf_counter()
    if spec["contender"] in (*workloads.OURS, workloads.DRIVER):
        out = _materialise(spark, spec, tables)
        materialised = time.perf_counter() - started
        frame = out[relation]
        facts = frame.count()
        strata = out.report.strata
        about = {
            "materialise": materialised,
            "method": ", ".join(dict.fromkeys(s.method for s in strata)) or out.report.where,
            "rounds": sum(len(s.rounds) for s in strata),
            "round_bytes": sum(r.shuffle_bytes for s in strata for r in s.rounds),
        }
    else:
        frame, facts, rounds = _peer(spec, tables)
        about = {"method": spec["contender"], "rounds": rounds}
    seconds = time.perf_counter() - started
    if computed is not None:
        about["processor"] = (session.processor_seconds() or computed) - computed
    about |= jobs.look()
    if spec["contender"] == workloads.DECOMPOSED:
        about |= jobs.longest_stage()
    if digest:
        if spec["contender"] == workloads.LABELS:
            frame = loops.pairs_of_labels(frame)
        about["digest"] = session.digest(frame.toDF("a", "b"))
    spark.catalog.clearCache()
    return {"seconds": seconds, "sizes": {relation: facts}, **about}


def _materialise(spark: SparkSession, spec: Spec, tables: Mapping[str, DataFrame]) -> Any:
    from gpuengine.spark_bridge import Limits, materialise

    contender = spec["contender"]
    limits = Limits() if contender in (workloads.CHOSEN, workloads.DRIVER) else Limits(methods=(contender,))
    where = workloads.DRIVER if contender == workloads.DRIVER else "cluster"
    return materialise(spark, spec["program"], tables, where=where, wanted=[spec["relation"]], limits=limits)


def _peer(spec: Spec, tables: Mapping[str, DataFrame]) -> tuple[DataFrame, int, int]:
    if spec["relation"] == "pointsTo":
        reached, rounds = loops.andersen(tables)
        return reached, reached.count(), rounds
    edges = tables["edge"]
    if spec["contender"] == workloads.LABELS:
        labels, rounds = loops.propagated_labels(edges)
        # Its facts are labels; how many pairs these stand for is added up, not listed.
        row = labels.groupBy("label").count().selectExpr("sum(count * count)").first()
        assert row is not None
        return labels, int(row[0]), rounds
    loop = loops.same_generation if spec["relation"] == "sg" else loops.closure
    reached, rounds = loop(edges)
    return reached, reached.count(), rounds


# -- the pipeline ------------------------------------------------------------------------------------------


def ingest(spark: SparkSession, spec: Spec) -> Iterator[Measured]:
    """`toArrow`, and `ingest` of the same frame with and without evaluation, by turns."""
    from gpuengine.spark_bridge import ingest

    def arrow(edges: DataFrame) -> int:
        return int(edges.toArrow().num_rows)

    def load(edges: DataFrame) -> int:
        engine = ingest(spark, spec["program"], {"edge": edges}, materialise=False)
        return len(engine.loaded["edge"])

    def evaluate(edges: DataFrame) -> int:
        return len(ingest(spark, spec["program"], {"edge": edges})["edge"])

    actions = {"toArrow": arrow, "ingest": load, "ingest and evaluate": evaluate}
    yield from _by_turns(spark, spec, "edge", actions)


def encode(spark: SparkSession, spec: Spec) -> Iterator[Measured]:
    """The dictionary and all rows as ids, `toArrow`, `ingest`, and an engine that loads the same files."""
    from gpuengine import Engine
    from gpuengine.spark_bridge import encode, ingest

    def ids(triples: DataFrame) -> int:
        encoded = encode(spark, spec["program"], {"triple": triples})
        rows = encoded.frames["triple"].persist().count()
        spark.catalog.clearCache()
        return int(rows)

    def arrow(triples: DataFrame) -> int:
        return int(triples.toArrow().num_rows)

    def load(triples: DataFrame) -> int:
        engine = ingest(spark, spec["program"], {"triple": triples}, materialise=False)
        return len(engine.loaded["triple"])

    def load_files(triples: DataFrame) -> int:
        folder = Path(triples.inputFiles()[0].removeprefix("file:")).parent
        engine = Engine(spec["program"])
        engine.load("triple", folder)
        return len(engine.loaded["triple"])

    actions = {"Engine.load": load_files, "encode": ids, "toArrow": arrow, "ingest": load}
    yield from _by_turns(spark, spec, "triple", actions)


def _by_turns(
    spark: SparkSession, spec: Spec, relation: str, actions: Mapping[str, Callable[[DataFrame], int]]
) -> Iterator[Measured]:
    for action in actions.values():
        action(spark.read.parquet(f"{spec['quick_facts']}/{relation}"))
    frame = spark.read.parquet(f"{spec['facts']}/{relation}")
    jobs = session.Jobs(spark)
    for _ in range(1 if spec["is_quick"] else _REPEAT):
        for name, action in actions.items():
            jobs.look()
            facts, seconds = _timed(lambda action=action: action(frame))  # type: ignore[misc]
            # Rows of toArrow may repeat; engines and the dictionary keep distinct ones.
            sizes = {"rows" if name == "toArrow" else relation: facts}
            yield {"step": name, "seconds": seconds, "sizes": sizes, **jobs.look()}


# -- overhead and insertion --------------------------------------------------------------------------------


def overhead(spark: SparkSession, spec: Spec) -> Iterator[Measured]:
    """`materialise` of a few facts: the first call in a session, and later ones."""
    from gpuengine.spark_bridge import materialise

    edges = spark.createDataFrame([(j, j + 1) for j in range(4)], "a bigint, b bigint")
    jobs = session.Jobs(spark)
    for call in ("first call", "second call", "third call"):
        jobs.look()
        started = time.perf_counter()
        out = materialise(spark, spec["program"], {"edge": edges}, where=spec["contender"])
        materialised = time.perf_counter() - started
        facts = out[spec["relation"]].count()
        seconds = time.perf_counter() - started
        did = jobs.look()
        sizes = {spec["relation"]: facts}
        yield {"step": call, "seconds": seconds, "materialise": materialised, "sizes": sizes, **did}


def insert(spark: SparkSession, spec: Spec) -> Iterator[Measured]:
    """New facts into a saved materialisation, against computing and saving everything anew."""
    from gpuengine import spark_bridge

    relation, scratch = spec["relation"], Path(tempfile.mkdtemp(prefix="gpuengine-bench-"))
    numbers = iter(range(1000))
    jobs = session.Jobs(spark)

    def save(edges: DataFrame) -> str:
        path = str(scratch / str(next(numbers)))
        out = spark_bridge.materialise(
            spark, spec["program"], {"edge": edges}, where="cluster", wanted=[relation]
        )
        out.save(path)
        out.release()
        return path

    def steps(folder: str) -> Iterator[Measured]:
        edges, new = (spark.read.parquet(f"{folder}/{name}") for name in ("edge", "new"))
        path, seconds = _timed(lambda: save(edges))
        saved = spark_bridge.open(spark, path)
        yield {"step": "save", "seconds": seconds, "before": saved.counts}

        def extended() -> Any:
            saved.insert({"edge": new})
            return saved

        def anew() -> Any:
            return spark_bridge.open(spark, save(edges.union(new)))

        for name, action in (("insert", extended), ("anew", anew)):
            jobs.look()
            computed = session.processor_seconds()
            facts, seconds = _timed(action)
            did: Measured = jobs.look()
            if computed is not None:
                did["processor"] = (session.processor_seconds() or computed) - computed
            yield {"step": name, "seconds": seconds, "sizes": {relation: facts[relation].count()}, **did}

    try:
        if not spec["is_quick"]:
            list(steps(spec["quick_facts"]))
        for _ in range(1 if spec["is_quick"] else 2):
            yield from steps(spec["facts"])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


KINDS: dict[str, Callable[[SparkSession, Spec], Iterator[Measured]]] = {
    workloads.FIXPOINT: fixpoint,
    workloads.SCALING: fixpoint,
    workloads.INGEST: ingest,
    workloads.ENCODE: encode,
    workloads.OVERHEAD: overhead,
    workloads.INSERT: insert,
}


def main(arguments: list[str]) -> int:
    """Measure the cells given, all in one session, whose start is a step of each."""
    specs: list[Spec] = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    started = time.perf_counter()
    spark = session.start(specs[0]["master"])
    session_seconds = time.perf_counter() - started

    def measure(spec: Spec) -> Iterator[Measured]:
        yield {"step": "session", "seconds": session_seconds}
        try:
            yield from KINDS[spec["kind"]](spark, spec)
        finally:
            spark.catalog.clearCache()

    code = measure_cells(arguments, measure)
    spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
