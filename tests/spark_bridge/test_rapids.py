"""What the RAPIDS Accelerator says of the plans that the bridge issues: all of them must run on the GPU.

It only explains: that needs no GPU. New shapes go into `SHAPES`, as text, since they run in another process.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.spark_bridge.rapids_jar import fetch_rapids_jar, not_on_gpu
from tests.spark_bridge.scripts import run_script, start_script

SHAPES = """
def identity(batches):
    yield from batches

def shapes(spark, edge, terms, folder):
    back = edge.select(F.col("c0").alias("d0"), F.col("c1").alias("d1"))
    joined = edge.c1 == back.d0
    numbered = Window.partitionBy(F.pmod(F.hash("t"), F.lit(64))).orderBy("t")
    swapped = edge.select(F.col("c1").alias("c0"), F.col("c0").alias("c1"))
    yield "scan", edge
    yield "broadcast join", edge.join(F.broadcast(back), joined)
    yield "sort-merge join", edge.hint("merge").join(back, joined)
    yield "shuffled hash join", edge.join(back.hint("shuffle_hash"), joined)
    yield "join by no column", edge.crossJoin(back)
    yield "join by comparison", edge.join(back, edge.c1 < back.d0)
    yield "anti join", edge.join(swapped, ["c0", "c1"], "left_anti")
    yield "shuffled anti join", edge.join(swapped.hint("shuffle_hash"), ["c0", "c1"], "left_anti")
    yield "semi join", edge.join(back, joined, "left_semi")
    yield "anti join by strings", terms.join(terms.select("t").hint("shuffle_hash"), "t", "left_anti")
    yield "distinct", edge.distinct()
    yield "union", edge.union(swapped).distinct()
    yield "aggregates", edge.groupBy("c0").agg(F.count("*"), F.min("c1"), F.max("c1"), F.sum("c1"))
    yield "aggregates of all", edge.agg(F.count("*"), F.min("c1"), F.max("c1"), F.sum("c1"))
    yield "row numbers", terms.select("t", F.row_number().over(numbered).alias("n"))
    yield "repartition by columns", edge.repartition(4, "c0")
    yield "mapInArrow", edge.mapInArrow(identity, edge.schema)
    yield "mapInArrow of partitions", edge.repartition(4, "c0").mapInArrow(identity, edge.schema)
    yield "arithmetic", edge.select((F.col("c0") + F.col("c1")).alias("c0"), (F.col("c1") % 7).alias("c1"))
"""

CPU_ONLY = """
def cpu_only(spark, edge):
    yield "RDDScanExec", edge.distinct().localCheckpoint().filter("c0 > 3")
    yield "LocalTableScanExec", spark.createDataFrame(pa.table({"c0": [1]}))
    yield "FlatMapGroupsInArrowExec", edge.groupBy("c0").applyInArrow(lambda table: table, edge.schema)
"""

START = """
import json, sys
import pyarrow as pa
from pyspark.sql import SparkSession, Window, functions as F
jar, folder = sys.argv[1:3]
def start(**conf):
    builder = SparkSession.builder.master("local[1]").config("spark.driver.extraClassPath", jar)
    quiet = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    quiet["spark.sql.shuffle.partitions"] = "2"
    for key, value in {**quiet, **{name.replace("_", "."): value for name, value in conf.items()}}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.range(100).selectExpr("id c0", "id * 2 c1").write.parquet(folder + "/edge")
    spark.range(100).selectExpr("cast(id as string) t").write.parquet(folder + "/terms")
    return spark, spark.read.parquet(folder + "/edge"), spark.read.parquet(folder + "/terms")
"""

EXPLAIN = """
spark, edge, terms = start()
def explain(frame):
    return spark._jvm.com.nvidia.spark.rapids.ExplainPlan.explainPotentialGpuPlan(frame._jdf, "ALL")
found = {"ours": {}, "cpu": {}}
for name, frame in shapes(spark, edge, terms, folder):
    found["ours"][name] = explain(frame)
for name, frame in cpu_only(spark, edge):
    found["cpu"][name] = explain(frame)
print(json.dumps(found))
spark.stop()
"""

# The plugin writes its explanations to the log: one for each query, when it is run.
RUN = """
spark, edge, terms = start(
    spark_plugins="com.nvidia.spark.SQLPlugin", spark_rapids_sql_mode="explainOnly",
    spark_sql_adaptive_enabled="false",
    spark_sql_cache_serializer="com.nvidia.spark.ParquetCachedBatchSerializer",
)
kept = edge.filter("c0 > 3").cache()
assert kept.distinct().count() == 96
print("MARK", file=sys.stderr, flush=True)
edge.join(F.broadcast(terms.select(F.col("t").cast("bigint").alias("c0"))), "c0", "left_anti").union(
    kept.distinct()
).write.parquet(folder + "/written")
print("END", file=sys.stderr, flush=True)
print(spark.read.parquet(folder + "/written").count())
spark.stop()
"""

EXPLAINED = """
*Exec <ProjectExec> will run on GPU
  *Expression <Alias> c0#10L AS x#7L will run on GPU
    ^ <FormatString> format_string(%d, c0#4L) will run on GPU via CPU bridge because there is no other way
      ^Expression <Hex> hex(c0#4L) will run on GPU via CPU bridge because it avoids excess transfers
  #Exec <SortExec> could run on GPU but is going to be removed because replacing sortMergeJoin
    !Exec <InMemoryTableScanExec> cannot run on GPU because ParquetCachedBatchSerializer is not being used
      @Expression <AttributeReference> c0#4L could run on GPU
  @Exec <FilterExec> could run on GPU
"""


def test_the_lines_that_tell_of_the_cpu() -> None:
    found = [line.partition(">")[0] for line in not_on_gpu(EXPLAINED)]
    assert found == [
        "^ <FormatString",
        "^Expression <Hex",
        "!Exec <InMemoryTableScanExec",
        "@Exec <FilterExec",
    ]
    assert not_on_gpu("*Exec <MapInArrowExec> will partially run on GPU\n\n") == []
    with pytest.raises(ValueError, match="not a line of an explanation"):
        not_on_gpu("could not be planned")


@pytest.mark.slow
def test_every_plan_of_ours_would_run_on_the_gpu(tmp_path: Path) -> None:
    jar = fetch_rapids_jar()
    out = run_script(START + SHAPES + CPU_ONLY + EXPLAIN, tmp_path, str(jar), str(tmp_path), timeout=300)
    found = json.loads(out.splitlines()[-1])
    assert {name: not_on_gpu(text) for name, text in found["ours"].items() if not_on_gpu(text)} == {}
    # The explanations are of what was asked, and it shows if something can't.
    for name, text in found["cpu"].items():
        assert [line for line in not_on_gpu(text) if f"<{name}>" in line], text
    for name, part in {
        "broadcast join": "BroadcastHashJoinExec",
        "sort-merge join": "SortMergeJoinExec",
        "shuffled anti join": "ShuffledHashJoinExec",
        "aggregates": "HashAggregateExec",
        "row numbers": "WindowExec",
        "repartition by columns": "ShuffleExchangeExec",
        "mapInArrow": "MapInArrowExec",
        "scan": "FileSourceScanExec",
    }.items():
        assert f"*Exec <{part}>" in found["ours"][name]


@pytest.mark.slow
def test_the_plugin_itself_plans_cached_frames_and_writes_for_the_gpu(tmp_path: Path) -> None:
    jar = fetch_rapids_jar()
    done = start_script(START + RUN, tmp_path, str(jar), str(tmp_path), timeout=300)
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.split() == ["96"]
    log = done.stderr.partition("MARK")[2].partition("END")[0]
    lines = [line for line in log.splitlines() if line.strip()[:1] in tuple("*#!@^")]
    assert not_on_gpu("\n".join(lines)) == []
    for part in ("InMemoryTableScanExec", "BroadcastHashJoinExec", "HashAggregateExec"):
        assert f"*Exec <{part}> will run on GPU" in log
    assert "<InsertIntoHadoopFsRelationCommand> will run on GPU" in log
