"""What has to work with every version of Spark and every kind of session: a script, run by tests in processes
of their own. Prints ``done`` at the end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpuengine
from gpuengine.errors import DataError, GpuEngineError, SparkError
from gpuengine.spark_bridge import Limits, datalog, encode, feed, ingest, materialise, register
from gpuengine.spark_bridge import open as open_saved
from gpuengine.spark_bridge.connect import is_connect
from gpuengine.spark_bridge.versions import has

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REACH = """
.decl edge(x: symbol, y: symbol)
.decl path(x: symbol, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
.input edge
.output path
"""
TYPES = """
.decl given(n: number, u: unsigned, f: float, s: symbol)
.decl kept(s: symbol, u: unsigned, f: float, n: number)
kept(s, u, f, n + 1) :- given(n, u, f, s), n < 5.
.decl many(c: number)
many(c) :- c = count : { given(_, _, _, _) }.
"""
FAMILY = """
.decl parent(child: number, parent: number)
.decl sg(x: number, y: number)
sg(x, y) :- parent(x, p), parent(y, p).
sg(x, y) :- parent(x, p), sg(p, q), parent(y, q).
"""
EDGES = [("ä", "b"), ("b", "c"), ("c", "d")]
PATHS = {("ä", "b"), ("b", "c"), ("c", "d"), ("ä", "c"), ("b", "d"), ("ä", "d")}


def rows_of(frame: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.collect()}


def refused(kind: type[Exception], run: Callable[[], Any]) -> str:
    try:
        run()
    except kind as error:
        return str(error)
    raise AssertionError(f"{run} was not refused")


def sent_for(spark: SparkSession, folder: Path, kb: str, condition: str) -> int:
    """How many rows the source sends to Spark if that asks for those that fulfil a condition."""
    from gpuengine.spark_bridge.data_source import KnowledgeBaseSource

    counted = str(folder / "sent")

    class Counting(KnowledgeBaseSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def reader(self, schema: Any) -> Any:
            reader: Any = super().reader(schema)
            read = reader.read

            def counting(partition: Any) -> Any:
                batches = list(read(partition))
                with open(counted, "w") as file:  # noqa: PTH123
                    file.write(str(sum(batch.num_rows for batch in batches)))
                return iter(batches)

            reader.read = counting
            return reader

    spark.dataSource.register(Counting)
    spark.read.format("counting").option("kb", kb).load("path").where(condition).collect()
    return int(Path(counted).read_text())


def everywhere(spark: SparkSession, folder: Path) -> None:
    """Needs nothing but DataFrames."""
    edge = spark.createDataFrame(EDGES, "x string, y string")
    kb = ingest(spark, REACH, {"edge": edge})
    assert set(kb["path"]) == PATHS and rows_of(kb["path"].to_spark(spark)) == PATHS
    for where in ("driver", "executor"):
        assert rows_of(materialise(spark, REACH, {"edge": edge}, where=where)["path"]) == PATHS
    for method in ("condensed", "decomposed", "rounds"):
        limits = Limits(driver=0, methods=(method,))
        with materialise(spark, REACH, {"edge": edge}, where="cluster", limits=limits) as out:
            assert [stratum.method for stratum in out.report.strata] == [method]
            assert rows_of(out["path"]) == PATHS
    with materialise(spark, REACH, encode(spark, REACH, {"edge": edge})) as out:
        assert rows_of(out["path"]) == PATHS
    parent = spark.range(1, 31).selectExpr("id child", "(id - 1) div 2 parent")
    with materialise(spark, FAMILY, {"parent": parent}, where="cluster") as out:
        assert out.counts["sg"] == len(set(ingest(spark, FAMILY, {"parent": parent})["sg"]))
    given = spark.createDataFrame(
        [(1, 2, 0.5, b"\xc3\xbc"), (7, 3, 1.5, b"x")], "n int, u int, f float, s binary"
    )
    for where in ("driver", "cluster"):
        with materialise(spark, TYPES, {"given": given}, where=where) as out:
            assert rows_of(out["kept"]) == {("ü", 2, 0.5, 2)} and rows_of(out["many"]) == {(2,)}
    bad = given.selectExpr("n", "u", "f", "unhex('ff') s")
    said = refused(DataError, lambda: materialise(spark, TYPES, {"given": bad}))
    assert "column s has 2 values not in UTF-8, in 2 rows" in said
    gaps = edge.selectExpr("x", "nullif(y, 'b') y")
    assert "column y has 1 null in 3 rows" in refused(
        DataError, lambda: materialise(spark, REACH, {"edge": gaps})
    )
    assert rows_of(edge.transform(datalog, REACH)) == PATHS
    out = materialise(spark, REACH, {"edge": edge})
    assert out.create_views("out_") == ["out_edge", "out_path"]
    assert spark.sql("SELECT count(*) FROM out_path").first()[0] == 6


def as_a_source(spark: SparkSession, folder: Path) -> None:
    """The data source, the function of SQL, and a stream through the source."""
    register(spark)
    edge = spark.createDataFrame(EDGES, "x string, y string")
    edge.createOrReplaceTempView("edges")
    called = spark.sql("SELECT * FROM datalog(TABLE(edges), program => :program)", args={"program": REACH})
    assert rows_of(called) == PATHS
    kb = str(folder / "kb")
    gpuengine.Engine(REACH).save(kb)
    edge.write.format("gpuengine").option("kb", kb).mode("append").save("edge")
    source = spark.read.format("gpuengine").option("kb", kb)
    assert rows_of(source.load("path")) == PATHS
    of_b = source.load("path").where("x = 'b'")
    assert rows_of(of_b.select("y")) == {("c",), ("d",)}
    assert rows_of(source.load("path").where("x = 'b' AND y > 'c' OR x IS NULL")) == {("b", "d")}
    if has("pushed filters"):
        assert sent_for(spark, folder, kb, "x = 'b' AND y != x") == 2
    spark.createDataFrame([("d", "e")], "x string, y string").write.json(str(folder / "incoming"))
    stream = spark.readStream.schema("x string, y string").json(str(folder / "incoming"))
    query = (
        stream.writeStream.format("gpuengine")
        .option("kb", kb)
        .option("relation", "edge")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert source.load("path").count() == 10


def by_the_jvm(spark: SparkSession, folder: Path) -> None:
    """Files, saved materialisations, checkpoints, `foreachBatch`."""
    edge = spark.createDataFrame(EDGES, "x string, y string")
    (folder / "edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in EDGES))
    assert rows_of(materialise(spark, REACH, {"edge": str(folder / "edge.facts")})["path"]) == PATHS
    (folder / "given.facts").write_text("1\t18446744073709551615\t1e3\tx\n")
    (row,) = rows_of(materialise(spark, TYPES, {"given": str(folder / "given.facts")})["given"])
    assert row == (1, 2**64 - 1, 1000.0, "x")
    (folder / "given.facts").write_text("9223372036854775808\t1\t1\tx\n")
    said = refused(DataError, lambda: materialise(spark, TYPES, {"given": str(folder / "given.facts")}))
    assert "1 of 1 lines is" in said or "CAST_INVALID_INPUT" in said, said
    limits = Limits(driver=0, methods=("rounds",))
    with materialise(
        spark, REACH, {"edge": edge}, where="cluster", limits=limits, checkpoint=str(folder / "rounds")
    ) as out:
        assert rows_of(out["path"]) == PATHS
    materialise(spark, REACH, {"edge": edge}).save(str(folder / "saved"))
    saved = open_saved(spark, str(folder / "saved"))
    more = spark.createDataFrame([("d", "e")], "x string, y string")
    assert saved.insert({"edge": more}) == {"edge": 1, "path": 4}
    assert saved.delete({"edge": edge.where("x = 'ä'")}) == {"edge": -1, "path": -4}
    assert rows_of(saved["path"]) == (PATHS | {("b", "e"), ("c", "e"), ("d", "e")}) - {
        (x, y) for x, y in PATHS if x == "ä"
    }
    kb = gpuengine.Engine(REACH)
    kb.save(folder / "fed")
    more.write.json(str(folder / "batches"))
    stream = spark.readStream.schema("x string, y string").json(str(folder / "batches"))
    with gpuengine.open(folder / "fed") as engine:
        query = stream.writeStream.foreachBatch(feed(engine, "edge")).trigger(availableNow=True)
        assert query.option("checkpointLocation", str(folder / "fed-from")).start().awaitTermination(120)
        assert set(engine["path"]) == {("d", "e")}


def without_the_jvm(spark: SparkSession, folder: Path) -> None:
    """What Spark Connect can't do says so by name."""
    edge = spark.createDataFrame(EDGES, "x string, y string")
    edge.write.parquet(str(folder / "edge.parquet"))
    assert rows_of(materialise(spark, REACH, {"edge": str(folder / "edge.parquet")})["path"]) == PATHS
    for run in (
        lambda: materialise(spark, REACH, {"edge": str(folder / "edge.facts")}),
        lambda: materialise(spark, REACH, {"edge": edge}, where="cluster", checkpoint=str(folder / "c")),
        lambda: materialise(spark, REACH, {"edge": edge}).save(str(folder / "saved")),
        lambda: open_saved(spark, str(folder / "saved")),
    ):
        said = refused(SparkError, run)
        assert "needs the driver's JVM, which a session of Spark Connect has not" in said, said


def main() -> None:
    from pyspark.sql import SparkSession

    folder, remote = Path(sys.argv[1]), sys.argv[2:]
    builder = SparkSession.builder
    if remote:
        builder = builder.remote(remote[0])
    else:
        builder = builder.master("local[2]").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    assert is_connect(spark) == bool(remote)
    print(f"Spark {spark.version}")
    steps = [everywhere]
    if has("the data source gpuengine"):
        steps.append(as_a_source)
    else:
        said = refused(GpuEngineError, lambda: register(spark))
        assert said.startswith(
            f"the data source gpuengine needs PySpark 4.0 or newer, and this is {spark.version}"
        )
    steps.append(without_the_jvm if remote else by_the_jvm)
    for step in steps:
        started = time.monotonic()
        step(spark, folder)
        print(f"{step.__name__}: {time.monotonic() - started:.1f} s", flush=True)
    spark.stop()
    print("done")


if __name__ == "__main__":
    main()
