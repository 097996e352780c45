"""Spark Connect: what its sessions have in place of the driver's JVM, and what they can't do without it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from gpuengine.errors import SparkError
from gpuengine.limits import show_size

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

ENCLOSED_BYTES = 1 << 26
"""So much goes along with a function over Spark Connect, whose messages have a limit of 128 MB."""

_parallelism: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()


def is_connect(of: object) -> bool:
    """Is a session or a DataFrame one of Spark Connect?"""
    return type(of).__module__.startswith("pyspark.sql.connect.")


def require_jvm(spark: object, what: str) -> None:
    """Raise `SparkError` if a session has no JVM at hand, and `what` needs one."""
    if is_connect(spark):
        raise SparkError(
            f"{what} needs the driver's JVM, which a session of Spark Connect has not\n"
            "  hint: do it where the driver runs, as by spark-submit, with a session of its own"
        )


def setting(spark: SparkSession, name: str) -> str | None:
    """What a setting of the application is; None if it has none."""
    if is_connect(spark):
        return spark.conf.get(name, None)
    return spark.sparkContext.getConf().get(name)


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once, about."""
    if not is_connect(spark):
        return max(1, spark.sparkContext.defaultParallelism)
    known = _parallelism.get(spark)
    if known is None:
        from pyspark.sql import functions as F

        # A range has as many partitions; more than there are rows nobody has.
        partitions = spark.range(1 << 14).select(F.spark_partition_id()).distinct().count()
        known = _parallelism[spark] = partitions
    return known


@dataclass(eq=False)
class Enclosed:
    """A value that goes along with the function that reads it, where there are no broadcasts."""

    value: Any


def share(spark: SparkSession, value: Any) -> Broadcast[Any] | Enclosed:
    """Have tasks read a value as `value` of what this gives."""
    if not is_connect(spark):
        return spark.sparkContext.broadcast(value)
    size = len(value) if isinstance(value, bytes) else len(pickle.dumps(value))
    if size > ENCLOSED_BYTES:
        raise SparkError(
            f"{show_size(size)} would have to go to every task, and a session of Spark Connect sends no more "
            f"than {show_size(ENCLOSED_BYTES)}\n  hint: use a session in the driver's own process, or "
            "limits=Limits(methods=('rounds',))"
        )
    return Enclosed(value)
