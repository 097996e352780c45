"""Make a session know the data source ``gpuengine`` and the SQL function ``datalog``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuengine.spark_bridge.sessions import check_session, ship_package
from gpuengine.spark_bridge.versions import has, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSH_FILTERS = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Give a session the format ``gpuengine`` and the table function ``datalog``; again does no harm."""
    require("the data source gpuengine")
    check_session(spark)
    ship_package(spark)
    from pyspark.sql.functions import udtf

    from gpuengine.spark_bridge.data_source import KnowledgeBaseSource
    from gpuengine.spark_bridge.table_function import DatalogFunction

    if has("pushed filters"):
        spark.conf.set(_PUSH_FILTERS, "true")
    spark.dataSource.register(KnowledgeBaseSource)
    spark.udtf.register("datalog", udtf(DatalogFunction))  # type: ignore[arg-type]
