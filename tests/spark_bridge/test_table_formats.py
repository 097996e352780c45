"""Tables of Delta and Iceberg as inputs and outputs, and saved materialisations that follow them: one session
with the jars of both.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark_bridge.packages import fetch_table_jars
from tests.spark_bridge.scripts import QUIET, run_script

SCRIPT = f"""
import sys
from pyspark.sql import SparkSession
from gpuengine.errors import DataError, GpuEngineError
from gpuengine.spark_bridge import follow, materialise
from gpuengine.spark_bridge import open as open_saved
from tests.spark_bridge.test_materialise import CLOSURE, engine_of, facts_of, rows_of

folder, jars = sys.argv[1:]
settings = {{
    "spark.jars": jars,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.catalog.ice.warehouse": folder + "/warehouse",
}}
builder = SparkSession.builder.master("local[2]")
for key, value in ({QUIET!r} | settings).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()

def edges(*rows):
    return spark.createDataFrame(list(rows), "a bigint, b bigint, note string")

def paths(*rows):
    return facts_of(engine_of(CLOSURE, {{"edge": [row[:2] for row in rows]}}), "path")

def refused(run):
    try:
        run()
    except GpuEngineError as error:
        return str(error)
    raise AssertionError("was not refused")

A, B, C, D, E = (1, 2, "a"), (2, 3, "b"), (3, 4, "c"), (3, 4, "d"), (4, 5, "e")
at = folder + "/delta"
edges(A, B, C).write.format("delta").option("delta.enableChangeDataFeed", "true").save(at)
out = materialise(spark, CLOSURE, {{"edge": at}})
assert rows_of(out["path"]) == paths(A, B, C)
out["path"].write.format("delta").save(folder + "/out")
assert rows_of(spark.read.format("delta").load(folder + "/out")) == paths(A, B, C)

materialise(spark, CLOSURE, {{"edge": edges()}}).save(folder + "/saved")
saved = open_saved(spark, folder + "/saved")
assert follow(saved, "edge", at) == {{"edge": 3, "path": 6}}
assert follow(saved, "edge", at) == {{}}
# The files have what is deleted. Another row of the same fact keeps it; what comes and goes leaves nothing.
spark.sql(f"DELETE FROM delta.`{{at}}` WHERE a = 2")
assert rows_of(materialise(spark, CLOSURE, {{"edge": at}})["path"]) == paths(A, C)
edges(D, E).write.format("delta").mode("append").save(at)
spark.sql(f"DELETE FROM delta.`{{at}}` WHERE note = 'c' OR a = 4")
spark.sql(f"UPDATE delta.`{{at}}` SET b = 9 WHERE a = 1")
follow(saved, "edge", at)
assert rows_of(saved["path"]) == paths((1, 9), D)
assert rows_of(open_saved(spark, folder + "/saved")["path"]) == paths((1, 9), D)
assert follow(saved, "edge", at) == {{}}
edges((9, None, "x")).write.format("delta").mode("append").save(at)
assert "column b has 1 null" in refused(lambda: follow(saved, "edge", at))
assert rows_of(saved["path"]) == paths((1, 9), D)
assert follow(saved, "edge", at, nulls="drop") == {{}}
edges(A).write.format("delta").save(folder + "/no-feed")
materialise(spark, CLOSURE, {{"edge": edges()}}).save(folder + "/other")
other = open_saved(spark, folder + "/other")
follow(other, "edge", folder + "/no-feed")
edges(B).write.format("delta").mode("append").save(folder + "/no-feed")
said = refused(lambda: follow(other, "edge", folder + "/no-feed"))
assert "has no change data feed from version 1 to 1" in said, said
assert rows_of(other["path"]) == paths(A)
print("delta")

edges(A, B).writeTo("ice.db.edges").create()
assert rows_of(materialise(spark, CLOSURE, {{"edge": "ice.db.edges"}})["path"]) == paths(A, B)
by_path = folder + "/warehouse/db/edges"
assert rows_of(materialise(spark, CLOSURE, {{"edge": by_path}})["path"]) == paths(A, B)
materialise(spark, CLOSURE, {{"edge": edges()}}).save(folder + "/iced")
for table in ("ice.db.edges", by_path):
    materialise(spark, CLOSURE, {{"edge": edges()}}).save(folder + "/iced", replace=True)
    iced = open_saved(spark, folder + "/iced")
    before = spark.table("ice.db.edges").collect()
    assert follow(iced, "edge", table)["edge"] == len(before)
    edges((len(before) + 2, len(before) + 3, "")).writeTo("ice.db.edges").append()
    assert follow(iced, "edge", table)["edge"] == 1
    assert follow(iced, "edge", table) == {{}}
    assert rows_of(iced["path"]) == paths(*spark.table("ice.db.edges").collect())
spark.sql("DELETE FROM ice.db.edges WHERE a = 1")
assert "which Iceberg has no incremental reading for" in refused(lambda: follow(iced, "edge", by_path))
now = spark.table("ice.db.edges").collect()
assert rows_of(materialise(spark, CLOSURE, {{"edge": by_path}})["path"]) == paths(*now)
assert "is no table of Delta or Iceberg" in refused(lambda: follow(iced, "edge", folder + "/saved"))
assert "there is no table nowhere" in refused(lambda: follow(iced, "edge", "nowhere"))
print("done")
spark.stop()
"""


@pytest.mark.slow
def test_tables_are_read_written_and_followed(tmp_path: Path) -> None:
    jars = ",".join(str(jar) for each in fetch_table_jars().values() for jar in each)
    assert run_script(SCRIPT, tmp_path, str(tmp_path), jars, timeout=700).endswith("delta\ndone\n")
