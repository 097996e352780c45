"""Frames to Arrow and back: the same rows whichever way they take, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from gpuengine import Engine
from gpuengine.exchange import spark_frames
from gpuengine.spark_bridge import frames
from gpuengine.spark_bridge.frames import arrow_batches, broadcast_table, frame_of, read_broadcast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAX_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def always_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "COLLECTED_BYTES", -1)


def mixed(spark: SparkSession, rows: int = 5000) -> DataFrame:
    numbers = spark.range(0, rows, 1, 3)
    return numbers.selectExpr(
        "id AS c0", "concat('näme ', id % 7) AS c1", "CAST(id AS double) / 3 AS c2", "id % 2 = 0 AS c3"
    )


def rows_of(tables: Iterator[pa.Table | pa.RecordBatch]) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for table in tables for row in table.to_pylist())


def test_packed_and_collected_rows_are_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = mixed(spark)
    collected = list(arrow_batches(frame))
    assert len(collected) == 1
    monkeypatch.setattr(frames, "COLLECTED_BYTES", -1)
    monkeypatch.setattr(frames, "MESSAGE_BYTES", 10_000)
    packed = list(arrow_batches(frame))
    assert len(packed) >= 3
    assert packed[0].schema.types == collected[0].schema.types
    assert rows_of(iter(packed)) == rows_of(iter(collected))


@pytest.mark.usefixtures("always_packed")
def test_a_frame_without_rows_still_has_its_types(spark: SparkSession) -> None:
    batches = list(arrow_batches(mixed(spark).where("c0 < 0")))
    assert [batch.num_rows for batch in batches] == [0]
    assert batches[0].schema.types == [pa.int64(), pa.string(), pa.float64(), pa.bool_()]


def test_the_way_is_chosen_by_size(spark: SparkSession) -> None:
    small, large = spark.range(10), spark.range(1 << 40)
    assert frames.fetched_bytes(small) < frames.COLLECTED_BYTES < frames.fetched_bytes(large)
    assert frames.fetched_bytes(small, rows=1 << 40) == 1 << 43


@pytest.mark.slow
def test_large_frames_pass_a_small_limit_of_results() -> None:
    """With 1 MB for results toArrow of 16 MB fails, and batches come all the same."""
    script = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.host", "127.0.0.1").config("spark.driver.maxResultSize", "1m").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
from gpuengine.spark_bridge.frames import arrow_batches
frame = spark.range(0, 2_000_000, 1, 40)
try:
    frame.toArrow()
    print("collected")
except Exception as error:
    print("maxResultSize" in str(error))
print(sum(sum(batch.column(0).to_pylist()) for batch in arrow_batches(frame)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["True", str(sum(range(2_000_000)))], done.stderr


@pytest.mark.parametrize("partitions", [1, 4, None])
def test_a_table_becomes_a_frame_of_few_partitions(spark: SparkSession, partitions: int | None) -> None:
    before = spark.conf.get(_MAX_RECORDS)
    table = pa.table({"n": pa.array(range(40_000), pa.int64()), "s": [f"é{i % 9}" for i in range(40_000)]})
    frame = frame_of(spark, table, partitions=partitions)
    assert 1 <= frame.rdd.getNumPartitions() <= (partitions or 2)
    assert frame.dtypes == [("n", "bigint"), ("s", "string")]
    assert rows_of(iter([frame.toArrow()])) == rows_of(iter([table]))
    assert spark.conf.get(_MAX_RECORDS) == before


def test_unsigned_values_become_decimals_and_none_is_lost(spark: SparkSession) -> None:
    values = [0, 1, 2**63, 2**64 - 1]
    frame = frame_of(spark, pa.table({"u": pa.array(values, pa.uint64())}))
    assert frame.dtypes == [("u", "decimal(20,0)")]
    assert sorted(int(row[0]) for row in frame.collect()) == values


def test_a_table_without_rows_becomes_a_frame_without(spark: SparkSession) -> None:
    frame = frame_of(spark, pa.table({"n": pa.array([], pa.int64())}))
    assert frame.dtypes == [("n", "bigint")] and frame.count() == 0


def test_a_broadcast_table_is_read_by_tasks(spark: SparkSession) -> None:
    sent = broadcast_table(spark, mixed(spark, 1000))
    assert read_broadcast(sent) is read_broadcast(sent)
    assert rows_of(iter([read_broadcast(sent)])) == rows_of(arrow_batches(mixed(spark, 1000)))

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"rows": [read_broadcast(sent).num_rows]})

    frame = spark.range(0, 2, 1, 2).mapInArrow(count, "rows bigint")
    assert [row[0] for row in frame.collect()] == [1000, 1000]


PROGRAM = """
.type Pair = [a: number, b: symbol]
.decl all(n: number, u: unsigned, f: float, s: symbol, p: Pair)
all(-1, 1, 0.5, "é", [1, "x"]). all(2, 18446744073709551615, -0.5, "", nil).
.decl none(n: number, u: unsigned)
none(x, y) :- all(x, y, _, _, _), x > 2.
.decl yes() .decl no()
yes() :- all(2, _, _, _, _).
no() :- none(_, _).
"""


def test_relations_become_frames_with_sparks_types(spark: SparkSession) -> None:
    kb = Engine(PROGRAM).materialise()
    frame = kb["all"].to_spark(spark)
    assert [kind for _, kind in frame.dtypes] == ["bigint", "decimal(20,0)", "double", "string", "string"]
    assert frame.columns == kb["all"].columns
    found = Counter((r[0], int(r[1]), *r[2:]) for r in frame.collect())
    assert found == Counter(kb["all"].to_pylist()) and len(found) == 2
    assert kb["none"].to_spark(spark).dtypes == [("n", "bigint"), ("u", "decimal(20,0)")]
    assert kb["none"].to_spark(spark).count() == 0
    assert [tuple(row) for row in kb["yes"].to_spark(spark).collect()] == [(True,)]
    assert kb["no"].to_spark(spark).dtypes == [("holds", "boolean")]
    assert kb["no"].to_spark(spark).count() == 0


def test_dates_and_the_like_become_what_spark_has(spark: SparkSession) -> None:
    kb = Engine(".decl r(d: date, t: time, ts: timestamp, i: instant, ok: boolean, m: decimal_2)")
    moment = datetime(2024, 2, 29, 1, 2)
    kb.load("r", [(moment.date(), moment.time(), moment, moment.replace(tzinfo=UTC), True, Decimal("1.50"))])
    frame = kb.materialise()["r"].to_spark(spark)
    assert [kind for _, kind in frame.dtypes] == [
        *("date", "string", "timestamp", "timestamp", "boolean", "decimal(19,2)")
    ]
    of_session = "date_format(ts, 'yyyy-MM-dd HH:mm')"  # of the session's time zone
    found = frame.selectExpr("d", "t", of_session, "unix_micros(i)", "ok", "m").collect()
    instant = int(moment.replace(tzinfo=UTC).timestamp() * 1_000_000)
    assert list(map(tuple, found)) == [
        (moment.date(), "01:02:00.000000", "2024-02-29 01:02", instant, True, Decimal("1.50"))
    ]


def test_large_relations_are_handed_over_in_pieces(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_frames, "PIECE_BYTES", 1 << 12)
    kb = Engine(".decl e(a: number, b: number)")
    kb.load("e", [(i, i * i) for i in range(3000)])
    view = kb["e"]
    monkeypatch.setattr(view, "batches", lambda: type(view).batches(view, rows=512))
    frame = view.to_spark(spark)
    assert frame.rdd.getNumPartitions() > 3
    assert Counter(map(tuple, frame.collect())) == Counter(view.to_pylist())


def test_importing_the_package_does_not_import_spark() -> None:
    script = "import sys, gpuengine.exchange.spark_frames, gpuengine.engine; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
