"""Facts as a Spark DataFrame, through a session that the caller has, which may be one of Spark Connect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from gpuengine.io.schema import outer_schema
from gpuengine.language.program import Attribute

HOLDS = "holds"
"""The only column, of booleans, of a relation that has none."""

PARTITION_BYTES = 1 << 25
PIECE_BYTES = 1 << 28
_MAX_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_IN_THE_PLAN = "spark.sql.execution.arrow.localRelationThreshold"
_SPARK_TYPES = {pa.uint64(): pa.decimal128(20, 0), pa.time64("us"): pa.string()}


def to_spark(batches: Iterable[pa.RecordBatch], attributes: Sequence[Attribute], spark: Any) -> Any:
    """A DataFrame of the facts, in partitions of about 32 MB; a union of pieces if there are many.

    Of a large relation Python holds one piece at a time. Spark's driver holds all of it.
    """
    schema = spark_schema(outer_schema(attributes))
    if not attributes:
        holds = sum(batch.num_rows for batch in batches)
        return create_frame(pa.table({HOLDS: pa.array([True] * min(holds, 1), pa.bool_())}), spark)
    frame = None
    for piece in _pieces(batches, schema):
        part = create_frame(piece, spark)
        frame = part if frame is None else frame.unionAll(part)
    return frame


def create_frame(table: pa.Table, spark: Any, *, partitions: int | None = None) -> Any:
    """A DataFrame of a table; in at most so many partitions, or as many as its size asks for."""
    at_most = partitions
    table = as_spark_types(table).combine_chunks()
    if not hasattr(spark, "sparkContext"):
        # The server of Spark Connect decides on partitions.
        return arrow_frame(table, spark)
    if partitions is None:
        # Every core has work if there is any worth a task; no partition is larger than it should be.
        cores = int(spark.sparkContext.defaultParallelism)
        partitions = max(min(cores, table.nbytes >> 16), -(-table.nbytes // PARTITION_BYTES), 1)
    with _batches_of(spark, max(-(-table.num_rows // partitions), 1)):
        frame = arrow_frame(table, spark)
    # A small table becomes part of the plan, and has a partition for each core.
    return frame if at_most is None else frame.coalesce(at_most)


def arrow_frame(table: pa.Table, spark: Any) -> Any:
    """A DataFrame of a table of types that Spark has, in partitions of as many rows as the session allows."""
    if not spark.version.startswith("3."):
        return spark.createDataFrame(table)
    # PySpark 3.5 takes frames of pandas only, which it sends as we do here.
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import from_arrow_schema

    batches = table.to_batches(int(spark.conf.get(_MAX_RECORDS)))
    sent = spark.sparkContext._serialize_to_jvm(
        batches or [pa.RecordBatch.from_pylist([], table.schema)],
        ArrowStreamSerializer(),
        spark._jvm.PythonSQLUtils.readArrowStreamFromFile,
        spark._jvm.ArrowIteratorServer,
    )
    schema = from_arrow_schema(table.schema).json()
    return DataFrame(spark._jvm.PythonSQLUtils.toDataFrame(sent, schema, spark._jsparkSession), spark)


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with types that Spark has: it knows no unsigned integers, and no times without a date."""
    return pa.schema([pa.field(f.name, _SPARK_TYPES.get(f.type, f.type)) for f in schema])


def as_spark_types(table: pa.Table) -> pa.Table:
    schema = spark_schema(table.schema)
    return table if schema == table.schema else table.cast(schema)


def _pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Tables of at least `PIECE_BYTES`, but for the last; one without rows if there are none."""
    waiting: list[pa.RecordBatch] = []
    is_first = True
    for batch in batches:
        waiting.append(batch.cast(schema))
        if sum(b.nbytes for b in waiting) >= PIECE_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting, is_first = [], False
    if waiting or is_first:
        yield pa.Table.from_batches(waiting, schema)


@contextmanager
def _batches_of(spark: Any, rows: int) -> Iterator[None]:
    """Have Spark make one partition of every `rows` rows, where it would of every 10,000.

    Tables of more than a megabyte stay Arrow until they are read: by default, those of less than 48 MB become
    rows in the plan itself, which takes ten times as long.
    """
    wanted = {_MAX_RECORDS: str(rows), _IN_THE_PLAN: "1m"}
    before = {name: spark.conf.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
