"""RDF on Spark: triples in a DataFrame, and what follows from them by rules or a profile.

Small data is materialised by one `RdfEngine` on the driver. Otherwise the axioms among the triples come to
the driver and are compiled there, the triples become one frame for each class and property that rules name,
and the cluster evaluates the program over them as any other (`materialise`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.errors import DataError, SparkError
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.equality import keeps_equality
from gpuengine.rdf.layout import QUADS, TRIPLES, Layout
from gpuengine.rdf.ontology import AUXILIARY, SAME, STRUCTURE, VOCABULARIES
from gpuengine.rdf.quads import NO_GRAPH
from gpuengine.rdf.terms import TYPE
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.filesystem import FileSystem, name_of
from gpuengine.spark_bridge.frames import arrow_batches
from gpuengine.spark_bridge.materialisation import materialise
from gpuengine.spark_bridge.placement import PLACES, choose_place
from gpuengine.spark_bridge.sessions import check_session, ship_package

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from gpuengine.rdf.engine import Profile
    from gpuengine.spark_bridge.materialisation import Materialisation

_TERMS = ("s", "p", "o")
_ROWS_OF_BATCH = 50_000


class MaterialisedTriples:
    """What follows from triples: `triples` (columns s, p, o) and `quads` (s, p, o, g) are DataFrames.

    `where` it was computed, on the driver or by the cluster, and `why` there. Leave its `with` block, or call
    `release`, to let go of what executors keep.
    """

    def __init__(
        self, triples: DataFrame, quads: DataFrame, where: str, why: str, of: Materialisation | None
    ) -> None:
        self.triples = triples
        self.quads = quads
        self.where = where
        self.why = why
        self._of = of

    def whole(self) -> DataFrame:
        """All triples with columns s, p, o, g, where g is null in the default graph; each once."""
        from pyspark.sql import functions as f

        default = self.triples.withColumn("g", f.lit(None).cast("string"))
        return default.unionByName(self.quads.toDF("s", "p", "o", "g")).distinct()

    @staticmethod
    def lines(whole: DataFrame, *, graphs: bool) -> DataFrame:
        """The lines of N-Quads, or, without those of named graphs, of N-Triples: a column `value`."""
        from pyspark.sql import functions as f

        if not graphs:
            whole = whole.where(f.col("g").isNull())
        return whole.select(f.concat_ws(" ", "s", "p", "o", "g", f.lit(".")).alias("value"))

    def release(self) -> None:
        """Let go of what executors keep; the DataFrames must not be read any more."""
        if self._of is not None:
            self._of.release()

    def __enter__(self) -> MaterialisedTriples:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def read_triples(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Files of triples as a frame of s, p, o, g for `materialise_triples`; g is null in the default graph.

    Paths are files, folders or globs of any file system that Spark has; formats are told by the endings, as
    `RdfEngine.load` does. Each file is read by one task, as a whole. Blank nodes of different files are
    different ones. What is wrong with a file is raised as `DataError` when the frame is first read.
    """
    check_session(spark)
    ship_package(spark)
    files = FileSystem(spark)
    for path in paths:
        if not files.matches(path):
            raise DataError(f"there is no file {path}\n  hint: executors must see it under the same name")
    with spark_failures(f"reading {', '.join(paths)}"):
        content = spark.read.format("binaryFile").load(list(paths)).select("path", "content")
        names = sorted(row.path for row in content.select("path").distinct().collect())
        scopes = {name: number for number, name in enumerate(names)}

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for path, data in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                    yield from _statements(path, data.as_buffer(), scopes[path])

        return content.mapInArrow(read, "s string, p string, o string, g string")


def _statements(path: str, data: pa.Buffer, scope: int) -> Iterator[pa.RecordBatch]:
    """The triples of a file, as texts."""
    import pyarrow as pa

    kb = RdfEngine()
    kb.files = scope
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / name_of(path)
        local.write_bytes(data)
        try:
            quads = kb.read(local, None, None, "fail")
        except DataError as error:
            raise DataError(str(error).replace(str(local), path)) from None
    s, p, o, g = quads.columns
    for start in range(0, quads.rows, _ROWS_OF_BATCH):
        rows = slice(start, start + _ROWS_OF_BATCH)
        texts = [pa.array(kb.terms.texts(column[rows]), pa.string()) for column in (s, p, o)]
        named = g[rows] != NO_GRAPH
        graphs = np.full(len(named), None, object)
        graphs[named] = kb.terms.texts(g[rows][named])
        yield pa.RecordBatch.from_arrays([*texts, pa.array(graphs, pa.string())], names=["s", "p", "o", "g"])


def materialise_triples(
    spark: SparkSession,
    triples: DataFrame,
    *,
    rules: Any = None,
    profile: Profile | None = None,
    where: str = "auto",
    **engine_options: Any,
) -> MaterialisedTriples:
    """All triples that follow from those of a DataFrame, by rules in RDFox's syntax, a profile, or both.

    The frame has columns s, p, o, and may have g, the named graph or null; terms are texts in the form of
    N-Triples. `where` is ``driver``, ``cluster`` or ``auto``: the driver if the triples fit. On the cluster
    facts are stored for every one of the terms that are ``owl:sameAs`` each other. `engine_options` are those
    of `RdfEngine`.
    """
    check_session(spark)
    names = [name.lower() for name in triples.columns]
    if names not in (["s", "p", "o"], ["s", "p", "o", "g"]):
        raise DataError(
            f"a frame of triples has columns s, p, o, and may have g, not {', '.join(triples.columns)}\n"
            "  hint: name them by select(col(…).alias('s'), …)"
        )
    if where not in PLACES or where == "executor":
        raise SparkError(f"no place {where!r} to evaluate RDF at\n  hint: it is one of auto, driver, cluster")
    frame = triples.toDF(*names)
    ship_package(spark)
    with spark_failures("materialising triples"):
        kb = RdfEngine(rules, profile=profile, copies=True, **engine_options)
        place = choose_place(
            spark, RdfEngine().engine.program, {TRIPLES: frame.count()}, where, engine_options.get("memory")
        )
        if place.where == "driver":
            return _on_driver(spark, frame, RdfEngine(rules, profile=profile, **engine_options), place.why)
        return _on_cluster(spark, frame, kb, place.why)


def _on_driver(spark: SparkSession, frame: DataFrame, kb: RdfEngine, why: str) -> MaterialisedTriples:
    for batch in arrow_batches(frame):
        kb.load(batch)
    kb.materialise()
    return MaterialisedTriples(kb.triples().to_spark(spark), kb.quads().to_spark(spark), "driver", why, None)


def _on_cluster(spark: SparkSession, frame: DataFrame, kb: RdfEngine, why: str) -> MaterialisedTriples:
    from pyspark.sql import functions as f

    if not keeps_equality(kb.rules.values()):
        raise SparkError(
            "a cluster can't evaluate these rules: expressions, negation, aggregates and named graphs in "
            "rules over triples need one engine\n  hint: where='driver'"
        )
    if "g" not in frame.columns:
        frame = frame.withColumn("g", f.lit(None).cast("string"))
    default = frame.where(f.col("g").isNull()).select(*_TERMS)
    if kb.profile is not None:
        for batch in arrow_batches(default.where(_may_be_axiom()).distinct()):
            kb.load(batch)
        for batch in arrow_batches(default.where(f.col("p") == SAME).limit(1)):
            kb.load(batch)  # so that there are rules for equality; all of them stay in the frame
        for batch in arrow_batches(default.where(f.col("o").startswith('"')).select("o").distinct()):
            kb.terms.add(batch.column(0).to_pylist())  # what they denote is found out on the driver
    program = kb.program()
    stated = spark.createDataFrame(kb.stated(), "s string, p string, o string")
    inputs = _inputs(default.unionByName(stated), kb.layout)
    inputs[QUADS] = frame.where(f.col("g").isNotNull())
    facts = materialise(spark, program, inputs, where="cluster")
    parts = [facts[TRIPLES]]
    for predicate, klass, relation in kb.layout.slots:
        if not (klass or predicate).startswith(AUXILIARY):
            target = f.col("y") if klass is None else f.lit(klass)
            parts.append(
                facts[relation].select(f.col("x").alias("s"), f.lit(predicate).alias("p"), target.alias("o"))
            )
    whole = reduce(lambda one, other: one.unionByName(other), parts)
    is_hidden = f.col("s").startswith('"') | ~f.col("p").startswith("<")
    is_hidden |= f.col("p").startswith(AUXILIARY) | f.col("o").startswith(AUXILIARY)
    return MaterialisedTriples(whole.where(~is_hidden), facts[QUADS], "cluster", why, facts)


def _may_be_axiom() -> Column:
    """Whether a triple may say something of classes and properties."""
    from pyspark.sql import functions as f

    of_class = reduce(
        lambda one, other: one | other, (f.col("o").startswith(each) for each in (*VOCABULARIES, "_:"))
    )
    return f.col("p").isin(*sorted(STRUCTURE)) | ((f.col("p") == TYPE) & of_class)


def _inputs(triples: DataFrame, layout: Layout) -> dict[str, DataFrame]:
    """The triples for each relation of a layout."""
    from pyspark.sql import functions as f

    is_class = (f.col("p") == TYPE) & f.col("o").isin(*layout.classes)
    inputs = {TRIPLES: triples.where(~(f.col("p").isin(*layout.properties) | is_class))}
    for predicate, klass, relation in layout.slots:
        here = triples.where(f.col("p") == predicate)
        if klass is None:
            inputs[relation] = here.select(f.col("s").alias("x"), f.col("o").alias("y"))
        else:
            inputs[relation] = here.where(f.col("o") == klass).select(f.col("s").alias("x"))
    return inputs
