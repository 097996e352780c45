"""Frames that are computed once and read often: kept by the executors, or in files.

What executors keep is gone with them. A frame whose lineage is kept is computed again then; one whose lineage
is cut, as those of rounds are, can't be, and the run begins anew: see `LOST_BLOCK`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from gpuengine.spark_bridge.carriers import Carriers, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from gpuengine.language.program import Relation

BROADCAST_ROWS = 200_000
"""Frames of at most this many rows are sent to every task instead of shuffling what they are joined with."""

_CACHE_CAN_COALESCE = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"

LOST_BLOCK = "Checkpoint block"
"""How Spark's message begins when a frame with no lineage was on an executor that is gone."""


@dataclass(frozen=True)
class Held:
    """A frame of carriers with distinct rows; `rows` is None if nobody has counted.

    `paths` are its files, if it is kept in files.
    """

    frame: DataFrame
    rows: int | None
    paths: tuple[str, ...] = ()

    @property
    def is_small(self) -> bool:
        return self.rows is not None and self.rows <= BROADCAST_ROWS


@dataclass(frozen=True)
class RoundState:
    """What a recursion has after a round: all facts so far in disjoint pieces, the last delta among them."""

    number: int
    pieces: Mapping[str, Sequence[Held]]
    delta: Mapping[str, Held]


class Keeper:
    """Has executors keep frames, in memory or on their disks. Remembers no progress."""

    keeps_all = False
    """Are results kept that nobody reads twice?"""

    def __init__(self) -> None:
        self._persisted: list[DataFrame] = []

    def keep(self, name: str, frame: DataFrame) -> Held:
        """Compute and count; lineage is kept. `name` says what it is, and is unique within a run."""
        from pyspark import StorageLevel

        with _coalescing(frame.sparkSession):
            kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
            self._persisted.append(kept)
            return Held(kept, kept.count())

    def cut(self, name: str, frame: DataFrame) -> Held:
        """Compute and count, without lineage, so that plans of later rounds do not grow."""
        kept = frame.localCheckpoint(eager=False)
        return Held(kept, kept.count())

    def earlier_results(self, stratum: int) -> dict[str, Held] | None:
        """The results of a stratum that an earlier, interrupted run completed."""
        return None

    def earlier_round(self, stratum: int) -> RoundState | None:
        """Where an interrupted run left the recursion of a stratum."""
        return None

    def round_done(self, stratum: int, state: RoundState) -> None:
        """A round is complete."""

    def stratum_done(self, stratum: int, results: Mapping[str, Held]) -> None:
        """A stratum is complete."""

    def release(self) -> None:
        """Let go of what was kept with its lineage."""
        for frame in self._persisted:
            frame.unpersist()
        self._persisted.clear()


@contextmanager
def _coalescing(spark: SparkSession) -> Iterator[None]:
    """Let adaptive execution choose the partitions of what is kept: by default all of a shuffle's stay."""
    before = spark.conf.get(_CACHE_CAN_COALESCE, None)
    spark.conf.set(_CACHE_CAN_COALESCE, "true")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_CACHE_CAN_COALESCE)
        else:
            spark.conf.set(_CACHE_CAN_COALESCE, before)


def union(pieces: Sequence[Held]) -> Held:
    """Disjoint pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    counts = [piece.rows for piece in pieces]
    known = [rows for rows in counts if rows is not None]
    paths = tuple(path for piece in pieces for path in piece.paths)
    return Held(
        reduce(lambda a, b: a.unionAll(b), (piece.frame for piece in pieces)),
        sum(known) if len(known) == len(counts) else None,
        paths if all(piece.paths for piece in pieces) else (),
    )


def nothing(spark: SparkSession, relation: Relation, carriers: Carriers) -> Held:
    """A relation without facts."""
    schema = carriers.schema(relation) or f"{column(0)} bigint"
    return Held(spark.createDataFrame([], schema), 0)
