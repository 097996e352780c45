"""Delta and Iceberg: tables that are folders, of which Parquet files alone don't tell what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuengine.errors import DataError
from gpuengine.spark_bridge.filesystem import FileSystem, join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA, ICEBERG = "delta", "iceberg"
TABLE_FORMATS = (DELTA, ICEBERG)

_PACKAGES = {
    DELTA: "io.delta:delta-spark_2.13, with spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13 (or as your Spark is)",
}


def table_format(files: FileSystem, folder: str) -> str | None:
    """Which of `TABLE_FORMATS` a folder is; None if it is a plain dataset."""
    names = files.list(folder)
    if "_delta_log" in names:
        return DELTA
    if ".hoodie" in names:
        raise DataError(
            f"{folder} is a table of Hudi, which is not read by path\n"
            '  hint: give spark.read.format("hudi").load(...)'
        )
    if "metadata" in names and any(
        name.endswith(".metadata.json") for name in files.list(join(folder, "metadata"))
    ):
        return ICEBERG
    return None


def read_table(spark: SparkSession, path: str, format: str) -> DataFrame:
    """The rows of a table as of now; `DataError` if the session has no package for it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return spark.read.format(format).load(path)
    except (PySparkException, Py4JError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error) and "ClassNotFoundException" not in str(error):
            raise
        raise DataError(
            f"{path} is a table of {format.capitalize()}, and this session has not the package for that\n"
            f"  hint: start it with spark.jars.packages={_PACKAGES[format]}"
        ) from error
