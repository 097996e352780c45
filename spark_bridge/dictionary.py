"""Columns of a frame replaced by what a table of pairs says, however often a value occurs.

A table that fits is sent to every task, and no row moves.  With a larger one, the rows must meet it by a
shuffle, in which all rows with one value go to one task.  So frequent values are found in a sample, and their
pairs are sent to every task; the rows that they settle are spread over all tasks.  A column with few distinct
values is settled by that alone, and moves no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from gpuengine.errors import DataError
from gpuengine.exchange.spark_frames import arrow_frame
from gpuengine.spark_bridge.filesystem import FileSystem
from gpuengine.spark_bridge.versions import to_arrow
from gpuengine.terms.dictionary import IDENTITY

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

BROADCAST_BYTES = 64 << 20
"""Pairs of at most this size are sent to every task, where they take about three times as much."""

_SAMPLE_ROWS = 100_000
_HOT_SHARE = 1 / 1000  # of the rows: a value with less can't keep one task busy for long
_FEW_VALUES = 1000  # distinct values of a column that are worth to count them all
_KEY, _VALUE, _HOT_KEY, _HOT_VALUE, _MEETING = "_key", "_value", "_hot_key", "_hot_value", "_meeting"


@dataclass(frozen=True)
class Pairs:
    """`frame` has the columns `key` and `value`, each key once; `bytes` estimates their size.

    With `own_below`, integers from 0 up to it are their own values, and `frame` has none of them.
    """

    frame: DataFrame
    key: str
    value: str
    bytes: int
    own_below: int = 0

    def is_own(self, key: Column) -> Column:
        from pyspark.sql import functions as F

        return key.between(0, self.own_below - 1) if self.own_below else F.lit(False)

    def named(self, key: str, value: str) -> DataFrame:
        from pyspark.sql import functions as F

        return self.frame.select(F.col(self.key).alias(key), F.col(self.value).alias(value))


def replace_columns(
    frame: DataFrame,
    names: Sequence[str],
    pairs: Pairs,
    *,
    rows: int | None = None,
    broadcast_bytes: int | None = None,
) -> DataFrame:
    """`frame` with the values of the columns `names` looked up; null where there is no pair.

    The names of all columns are distinct and plain. The result is lazy, but a table too large to broadcast
    takes a few small jobs first; these are cheaper if `rows` tells how many there are.
    """
    if pairs.bytes <= (BROADCAST_BYTES if broadcast_bytes is None else broadcast_bytes):
        for name in names:
            frame = _settled(frame, name, pairs)
        return frame
    hot, complete = _frequent(frame, names, pairs, rows)
    for name in names:
        frame = _settled(frame, name, hot) if name in complete else _met(frame, name, pairs, hot)
    return frame


def _settled(frame: DataFrame, name: str, pairs: Pairs) -> DataFrame:
    """Look one column up by broadcast."""
    from pyspark.sql import functions as F

    small = F.broadcast(pairs.named(_KEY, _VALUE))
    joined = frame.join(small, F.col(name) == F.col(_KEY), "left")
    return joined.select(*_replaced(frame, name, F.col(_VALUE), pairs))


def _met(frame: DataFrame, name: str, pairs: Pairs, hot: Pairs) -> DataFrame:
    """Look one column up by a shuffle, but for the values that are its own or `hot`."""
    from pyspark.sql import functions as F

    key_type = frame.schema[name].dataType
    small = F.broadcast(hot.named(_HOT_KEY, _HOT_VALUE))
    joined = frame.join(small, F.col(name) == F.col(_HOT_KEY), "left")
    done = pairs.is_own(F.col(name)) | F.col(_HOT_VALUE).isNotNull()
    # A row that is settled goes anywhere: by a hash of it all, so that a task run again sends it there again.
    # If that is some key by chance, what it finds there is passed over.
    anywhere = F.hash(*frame.columns).cast(key_type)
    spread = joined.withColumn(_MEETING, F.when(done, anywhere).otherwise(F.col(name)))
    met = spread.join(pairs.named(_KEY, _VALUE), F.col(_MEETING) == F.col(_KEY), "left")
    return met.select(*_replaced(frame, name, F.coalesce(_HOT_VALUE, _VALUE), pairs))


def _replaced(frame: DataFrame, name: str, value: Column, pairs: Pairs) -> list[Column]:
    from pyspark.sql import functions as F

    if pairs.own_below:
        value = F.when(pairs.is_own(F.col(name)), F.col(name)).otherwise(value)
    return [value.alias(name) if other == name else F.col(other) for other in frame.columns]


def _frequent(
    frame: DataFrame, names: Sequence[str], pairs: Pairs, rows: int | None
) -> tuple[Pairs, frozenset[str]]:
    """The pairs of frequent values, held by the driver; and the columns of which it has every value."""
    import pyarrow.compute as pc
    from pyspark.sql import functions as F

    def hashed(name: str) -> Column:
        return F.when(~pairs.is_own(F.col(name)), F.xxhash64(name)).alias(name)

    # By hashes: a sample of long texts could be large. Two values with one hash do no harm.
    hashes = frame.select(*(hashed(name) for name in names))
    rows = frame.count() if rows is None else rows
    fraction = min(1.0, _SAMPLE_ROWS / max(rows, 1))
    sample = to_arrow(hashes.sample(fraction, seed=1) if fraction < 1 else hashes)
    hot: set[int] = set()
    complete: set[str] = set()
    for name in names:
        counted = pc.value_counts(sample[name].drop_null().combine_chunks())
        values, counts = counted.field("values"), counted.field("counts")
        if len(values) <= _FEW_VALUES:
            every = hashes.select(name).where(F.col(name).isNotNull()).distinct().limit(_FEW_VALUES + 1)
            distinct = to_arrow(every)[name].to_pylist()
            if len(distinct) <= _FEW_VALUES:
                hot.update(distinct)
                complete.add(name)
                continue
        often = pc.greater_equal(counts, max(2, int(_HOT_SHARE * sample.num_rows)))
        hot.update(values.filter(often).to_pylist())
    return _fetched(pairs, hot), frozenset(complete)


def _fetched(pairs: Pairs, hashes: set[int]) -> Pairs:
    """The pairs with these hashes of keys, as a frame that the driver holds."""
    from pyspark.sql import functions as F

    spark = pairs.frame.sparkSession
    wanted: Any = F.xxhash64(pairs.key).isin(sorted(hashes)) if hashes else F.lit(False)
    table = to_arrow(pairs.frame.where(wanted))
    return replace(pairs, frame=arrow_frame(table, spark), bytes=0)


TermKind = Literal["symbol", "number"]

_BUCKETS = 1024  # part of what an id is: never to be changed
_BYTES_PER_TERM = 16  # beside its text: the id, and where the text is
_LOCAL_ROWS = 10_000  # terms of frames with at most this many rows are held by the driver
_CACHE_CAN_COALESCE = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
_TERM_TYPES = {"symbol": "string", "number": "bigint"}


class TermDictionary:
    """Terms of one kind and their ids.

    Immutable: `extended` gives another one, in which every term known before keeps its id. The executors
    keep what is large of it, in memory or on disk, until `release`; what is lost is computed again, from the
    frames it was made of, so these must not change. An extension shares the parts of what it extends, and
    `release` frees those too.
    """

    def __init__(
        self,
        spark: SparkSession,
        kind: TermKind,
        parts: Sequence[_Part],
        broadcast_bytes: int | None = None,
        *,
        has_grown: bool = False,
    ) -> None:
        self.kind = kind
        self.has_grown = has_grown
        """Has it terms that what it was made of (another one, or what was saved) has not?"""
        self._spark = spark
        self._parts = tuple(parts)
        self._broadcast_bytes = BROADCAST_BYTES if broadcast_bytes is None else broadcast_bytes

    @classmethod
    def empty(
        cls, spark: SparkSession, kind: TermKind, *, broadcast_bytes: int | None = None
    ) -> TermDictionary:
        """No terms. Dictionaries of at most `broadcast_bytes` are sent to every task that looks terms up."""
        return cls(spark, kind, (), broadcast_bytes)

    @classmethod
    def load(cls, spark: SparkSession, path: str, *, broadcast_bytes: int | None = None) -> TermDictionary:
        """What `save` wrote."""
        if not FileSystem(spark).is_directory(path):
            raise DataError(f"{path}: no dictionary is there\n  hint: TermDictionary.save writes one")
        stored = spark.read.parquet(path)
        types = {field.name: field.dataType.simpleString() for field in stored.schema.fields}
        kinds = [kind for kind, type in _TERM_TYPES.items() if types == {"term": type, "id": "bigint"}]
        if not kinds:
            raise DataError(
                f"{path}: holds {stored.schema.simpleString()}, which is no dictionary of terms and ids"
            )
        kind: TermKind = "symbol" if kinds[0] == "symbol" else "number"
        kept = _keep(stored.select("term", "id"))
        count, bytes = _measure(kept)
        return cls(
            spark, kind, [_Part(kept, kept, count, bytes)] if count else [], broadcast_bytes=broadcast_bytes
        )

    def __len__(self) -> int:
        """How many terms have an id that is not their own."""
        return sum(part.count for part in self._parts)

    @property
    def bound(self) -> int:
        """Every id is below this."""
        return self._own_below + len(self)

    @property
    def frame(self) -> DataFrame:
        """The columns ``term`` and ``id``."""
        if not self._parts:
            return self._spark.createDataFrame([], f"term {_TERM_TYPES[self.kind]}, id bigint")
        return reduce(lambda left, right: left.union(right), (part.frame for part in self._parts))

    def extended(self, columns: Sequence[DataFrame], *, rows: int | None = None) -> TermDictionary:
        """With the terms of frames of one column each. Terms that are new get ids after all others.

        `rows` bounds the rows of all frames together, if that is known: few terms are numbered by the driver.
        """
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        if not columns:
            return self
        terms = self._unknown(columns)
        bucket = F.pmod(F.hash("term"), F.lit(_BUCKETS)).alias("bucket")
        terms = terms.select("term", bucket)
        if rows is not None and rows <= _LOCAL_ROWS:
            part = self._local_part(to_arrow(terms))
        else:
            position = F.row_number().over(Window.partitionBy("bucket").orderBy("term")).alias("position")
            part = self._kept_part(_keep(terms.select("term", "bucket", position)))
        return self._with((*self._parts, part)) if part.count else self

    def _unknown(self, columns: Sequence[DataFrame]) -> DataFrame:
        """The distinct terms of frames that have no id yet, in the column ``term``."""
        from pyspark.sql import functions as F

        terms = reduce(lambda left, right: left.union(right), (self._as_terms(frame) for frame in columns))
        terms = terms.where(F.col("term").isNotNull())
        if self._own_below:
            terms = terms.where(~F.col("term").between(0, self._own_below - 1))
        terms = terms.distinct()
        if not self._parts:
            return terms
        numbered = self.frame.select("term")
        if self._bytes <= self._broadcast_bytes:
            numbered = F.broadcast(numbered)
        return terms.join(numbered, "term", "left_anti")

    def _local_part(self, terms: pa.Table) -> _Part:
        """Number terms with their buckets as `_kept_part` does, in the driver."""
        import pyarrow as pa

        ordered = terms.sort_by([("bucket", "ascending"), ("term", "ascending")])["term"]
        ids = pa.array(range(self.bound, self.bound + len(ordered)), pa.int64())
        frame = arrow_frame(pa.table({"term": ordered, "id": ids}), self._spark)
        return _Part(frame, None, len(ordered), ordered.nbytes + _BYTES_PER_TERM * len(ordered))

    def _kept_part(self, numbered: DataFrame) -> _Part:
        """Terms with their positions (from 1) in their buckets; ids follow the present ones."""
        import pyarrow as pa
        from pyspark.sql import functions as F

        size = F.sum(F.octet_length(F.col("term").cast("string"))).alias("size")
        counted = to_arrow(numbered.groupBy("bucket").agg(F.count(F.lit(1)).alias("count"), size))
        counted = counted.sort_by("bucket")
        counts, bytes = counted["count"].to_pylist(), sum(counted["size"].to_pylist())
        before = [self.bound - 1 + passed for passed in accumulate(counts, initial=0)]
        offsets = pa.table({"bucket": counted["bucket"], "before": pa.array(before[:-1], pa.int64())})
        small = F.broadcast(arrow_frame(offsets, self._spark))
        id = (F.col("before") + F.col("position")).alias("id")
        frame = numbered.join(small, "bucket").select("term", id)
        return _Part(frame, numbered, sum(counts), bytes + _BYTES_PER_TERM * sum(counts))

    def encode(self, frame: DataFrame, names: Sequence[str], *, rows: int | None = None) -> DataFrame:
        """`frame` with the columns `names` as ids; a term that is not known is null.

        Lazy, but for some small jobs if the dictionary is large: `rows`, how many `frame` has, saves one.
        """
        return replace_columns(
            frame, names, self._pairs("term", "id"), rows=rows, broadcast_bytes=self._broadcast_bytes
        )

    def decode(self, frame: DataFrame, names: Sequence[str], *, rows: int | None = None) -> DataFrame:
        """The reverse of `encode`."""
        return replace_columns(
            frame, names, self._pairs("id", "term"), rows=rows, broadcast_bytes=self._broadcast_bytes
        )

    def find(self, terms: Sequence[str | int]) -> dict[int | float | str, int]:
        """The ids of those of `terms` that are known."""
        from pyspark.sql import functions as F

        own: dict[int | float | str, int] = {
            term: term for term in terms if isinstance(term, int) and 0 <= term < self._own_below
        }
        others = [term for term in dict.fromkeys(terms) if term not in own]
        if not others or not self._parts:
            return own
        wanted = self.local_terms(others)
        table = to_arrow(self.frame.join(F.broadcast(wanted), "term").select("term", "id"))
        return {**own, **dict(zip(table["term"].to_pylist(), table["id"].to_pylist(), strict=True))}

    def local_terms(self, terms: Sequence[str | int]) -> DataFrame:
        """Terms of this kind as a frame of one column, as `extended` takes them."""
        import pyarrow as pa

        type = pa.string() if self.kind == "symbol" else pa.int64()
        return arrow_frame(pa.table({"term": pa.array(terms, type)}), self._spark)

    def save(self, path: str) -> None:
        """Write as Parquet, over what is there."""
        self.frame.write.mode("overwrite").parquet(path)

    def release(self) -> None:
        """Have the executors forget it. It must not be used any more, nor any that it extends."""
        for part in self._parts:
            if part.kept is not None:
                part.kept.unpersist()

    @property
    def _own_below(self) -> int:
        return IDENTITY if self.kind == "number" else 0

    @property
    def _bytes(self) -> int:
        return sum(part.bytes for part in self._parts)

    def _with(self, parts: Sequence[_Part]) -> TermDictionary:
        return TermDictionary(self._spark, self.kind, parts, self._broadcast_bytes, has_grown=True)

    def _pairs(self, key: str, value: str) -> Pairs:
        return Pairs(self.frame, key, value, self._bytes, self._own_below)

    def _as_terms(self, frame: DataFrame) -> DataFrame:
        """One column called ``term``, and text by its bytes whatever its collation."""
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        wanted = T.StringType() if self.kind == "symbol" else T.LongType()
        renamed = frame.toDF("term")
        if renamed.schema["term"].dataType == wanted:
            return renamed
        return renamed.select(F.col("term").cast(wanted).alias("term"))


@dataclass(frozen=True)
class _Part:
    """Terms that were added together: `frame` has the columns ``term`` and ``id``, and reads `kept`."""

    frame: DataFrame
    kept: DataFrame | None
    count: int
    bytes: int


def _keep(frame: DataFrame) -> DataFrame:
    """Have executors keep it; in as many partitions as its size asks for, not as the session has for any."""
    from pyspark import StorageLevel

    conf = frame.sparkSession.conf
    before = conf.get(_CACHE_CAN_COALESCE, None)
    conf.set(_CACHE_CAN_COALESCE, "true")
    try:
        return frame.persist(StorageLevel.MEMORY_AND_DISK)
    finally:
        if before is None:
            conf.unset(_CACHE_CAN_COALESCE)
        else:
            conf.set(_CACHE_CAN_COALESCE, before)


def _measure(frame: DataFrame) -> tuple[int, int]:
    """(terms, bytes in memory) of a frame with the column ``term``."""
    from pyspark.sql import functions as F

    size = F.coalesce(F.sum(F.octet_length(F.col("term").cast("string"))), F.lit(0))
    row: Any = frame.agg(F.count(F.lit(1)), size).first()
    return row[0], row[1] + _BYTES_PER_TERM * row[0]
