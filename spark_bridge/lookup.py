"""Columns of a frame replaced by what a table of pairs says, however often a value occurs.

A table that fits is sent to every task, and no row moves.  With a larger one, the rows must meet it by a
shuffle, in which all rows with one value go to one task.  So frequent values are found in a sample, and their
pairs are sent to every task; the rows that they settle are spread over all tasks.  A column with few distinct
values is settled by that alone, and moves no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    found = frame.join(small, F.col(name) == F.col(_KEY), "left")
    return found.select(*_replaced(frame, name, F.col(_VALUE), pairs))


def _met(frame: DataFrame, name: str, pairs: Pairs, hot: Pairs) -> DataFrame:
    """Look one column up by a shuffle, but for the values that are its own or `hot`."""
    from pyspark.sql import functions as F

    key_type = frame.schema[name].dataType
    small = F.broadcast(hot.named(_HOT_KEY, _HOT_VALUE))
    found = frame.join(small, F.col(name) == F.col(_HOT_KEY), "left")
    done = pairs.is_own(F.col(name)) | F.col(_HOT_VALUE).isNotNull()
    # A row that is settled goes anywhere: by a hash of it all, so that a task run again sends it there again.
    # If that is some key by chance, what it finds there is passed over.
    anywhere = F.hash(*frame.columns).cast(key_type)
    spread = found.withColumn(_MEETING, F.when(done, anywhere).otherwise(F.col(name)))
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
    sample = (hashes.sample(fraction, seed=1) if fraction < 1 else hashes).toArrow()
    hot: set[int] = set()
    complete: set[str] = set()
    for name in names:
        counted = pc.value_counts(sample[name].drop_null().combine_chunks())
        values, counts = counted.field("values"), counted.field("counts")
        if len(values) <= _FEW_VALUES:
            every = hashes.select(name).where(F.col(name).isNotNull()).distinct().limit(_FEW_VALUES + 1)
            distinct = every.toArrow()[name].to_pylist()
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
    found = pairs.frame.where(wanted).toArrow()
    return replace(pairs, frame=spark.createDataFrame(found, pairs.frame.schema), bytes=0)
