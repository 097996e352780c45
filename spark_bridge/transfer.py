"""Frames to Arrow on the driver and back: no pandas, no rows, and bounded memory for what is large."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from gpuengine.exchange.spark_frames import create_frame

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

COLLECTED_BYTES = 1 << 28
"""Up to this size a frame is fetched in one piece: that is twice as fast, and the JVM may hold all of it."""

MESSAGE_BYTES = 1 << 22
"""What one row of messages carries, about."""

_TEXT_BYTES = 32
_WIDTH = {"bigint": 8, "double": 8, "int": 4, "boolean": 1, "string": _TEXT_BYTES}


_read: WeakKeyDictionary[Broadcast[bytes], pa.Table] = WeakKeyDictionary()


def arrow_batches(frame: DataFrame, *, rows: int | None = None) -> Iterator[pa.Table | pa.RecordBatch]:
    """All rows of a frame on the driver, in pieces; at least one, so that the types are known.

    A frame that is small, by its number of rows if given, else by what Spark expects, comes in one piece.
    Of any other the driver holds the messages of two partitions at most, and ``spark.driver.maxResultSize``
    is no limit.
    """
    if fetched_bytes(frame, rows) <= _most_collected(frame.sparkSession):
        yield frame.toArrow()
        return
    empty = True
    for row in _packed(frame).toLocalIterator(prefetchPartitions=True):
        for batch in pa.ipc.open_stream(row[0]):
            empty = False
            yield batch
    if empty:
        yield frame.limit(0).toArrow()


def fetched_bytes(frame: DataFrame, rows: int | None = None) -> int:
    """About how many bytes a frame takes as Arrow."""
    if rows is not None:
        return rows * sum(_WIDTH.get(kind, 16) for _, kind in frame.dtypes)
    # What Spark knows of files is their size on disk, where columns are compressed.
    return 4 * int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def _most_collected(spark: SparkSession) -> int:
    jvm: Any = spark._jvm
    setting = spark.conf.get("spark.driver.maxResultSize", "1g")
    limit = int(jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(setting))
    return min(COLLECTED_BYTES, limit // 2) if limit else COLLECTED_BYTES


def _packed(frame: DataFrame) -> DataFrame:
    """A frame of messages: each row has many rows as an Arrow stream, so that few rows carry all of them."""
    return frame.mapInArrow(_packer(MESSAGE_BYTES), "message binary")


def _packer(message_bytes: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # A closure travels to the executors by value: they need no gpuengine to fetch what it did not compute.
    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        waiting: list[pa.RecordBatch] = []

        def message() -> pa.RecordBatch:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, waiting[0].schema) as writer:
                for batch in waiting:
                    writer.write_batch(batch)
            offsets = pa.array([0, sink.tell()], pa.int32()).buffers()[1]
            column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, sink.getvalue()])
            return pa.RecordBatch.from_arrays([column], ["message"])

        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
            if sum(b.nbytes for b in waiting) >= message_bytes:
                yield message()
                waiting.clear()
        if waiting:
            yield message()

    return pack


def frame_of(spark: SparkSession, table: pa.Table, *, partitions: int | None = None) -> DataFrame:
    """A frame of a table, in at most so many partitions, or as many as its size asks for.

    uint64 becomes decimal(20,0). The driver's JVM holds what the table holds.
    """
    frame: DataFrame = create_frame(table, spark, partitions=partitions)
    return frame


def broadcast_table(spark: SparkSession, frame: DataFrame, *, rows: int | None = None) -> Broadcast[bytes]:
    """All rows of a frame at every executor, as an Arrow stream; read it there with `read_broadcast`."""
    sink = pa.BufferOutputStream()
    writer = None
    for batch in arrow_batches(frame, rows=rows):
        if writer is None:
            writer = pa.ipc.new_stream(sink, batch.schema)
        writer.write(batch)
    assert writer is not None
    writer.close()
    return spark.sparkContext.broadcast(sink.getvalue().to_pybytes())


def read_broadcast(broadcast: Broadcast[bytes]) -> pa.Table:
    """The table of a broadcast, in the memory that the broadcast itself has; made once in each process."""
    table = _read.get(broadcast)
    if table is None:
        table = _read[broadcast] = pa.ipc.open_stream(pa.py_buffer(broadcast.value)).read_all()
    return table
