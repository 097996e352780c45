"""A dictionary of terms as ids that is computed by, and lives in, Spark.

| kind | ids |
|---|---|
| symbol | by bytes; dense from 0 |
| number | 0 <= v < `IDENTITY` is its own id and takes no room; others dense from `IDENTITY` on |

The same set of terms gets the same ids, whatever the partitions, the order of rows or the size of the
cluster, and also if a task is run again: terms are numbered in order within `_BUCKETS` buckets by hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from gpuengine.errors import DataError
from gpuengine.spark_bridge.filesystem import FileSystem
from gpuengine.spark_bridge.lookup import BROADCAST_BYTES, Pairs, replace_columns
from gpuengine.terms.dictionary import IDENTITY

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

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
    ) -> None:
        self.kind = kind
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
            part = self._local_part(terms.toArrow())
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
        known = self.frame.select("term")
        if self._bytes <= self._broadcast_bytes:
            known = F.broadcast(known)
        return terms.join(known, "term", "left_anti")

    def _local_part(self, terms: pa.Table) -> _Part:
        """Number terms with their buckets as `_kept_part` does, in the driver."""
        import pyarrow as pa

        ordered = terms.sort_by([("bucket", "ascending"), ("term", "ascending")])["term"]
        ids = pa.array(range(self.bound, self.bound + len(ordered)), pa.int64())
        frame = self._spark.createDataFrame(pa.table({"term": ordered, "id": ids}))
        return _Part(frame, None, len(ordered), ordered.nbytes + _BYTES_PER_TERM * len(ordered))

    def _kept_part(self, numbered: DataFrame) -> _Part:
        """Terms with their positions (from 1) in their buckets; ids follow the present ones."""
        import pyarrow as pa
        from pyspark.sql import functions as F

        size = F.sum(F.octet_length(F.col("term").cast("string"))).alias("size")
        counted = numbered.groupBy("bucket").agg(F.count(F.lit(1)).alias("count"), size).toArrow()
        counted = counted.sort_by("bucket")
        counts, bytes = counted["count"].to_pylist(), sum(counted["size"].to_pylist())
        before = [self.bound - 1 + passed for passed in accumulate(counts, initial=0)]
        offsets = pa.table({"bucket": counted["bucket"], "before": pa.array(before[:-1], pa.int64())})
        known = F.broadcast(self._spark.createDataFrame(offsets))
        id = (F.col("before") + F.col("position")).alias("id")
        frame = numbered.join(known, "bucket").select("term", id)
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
        found = self.frame.join(F.broadcast(wanted), "term").select("term", "id").toArrow()
        return {**own, **dict(zip(found["term"].to_pylist(), found["id"].to_pylist(), strict=True))}

    def local_terms(self, terms: Sequence[str | int]) -> DataFrame:
        """Terms of this kind as a frame of one column, as `extended` takes them."""
        import pyarrow as pa

        type = pa.string() if self.kind == "symbol" else pa.int64()
        return self._spark.createDataFrame(pa.table({"term": pa.array(terms, type)}))

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
        return TermDictionary(self._spark, self.kind, parts, self._broadcast_bytes)

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
    found: Any = frame.agg(F.count(F.lit(1)), size).first()
    return found[0], found[1] + _BYTES_PER_TERM * found[0]
