"""Frames that are computed once and read often: kept by the executors, or in files; to Arrow and back.

What a run keeps in files is its progress: one that was cut short goes on from the last completed round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from gpuengine.errors import SparkError
from gpuengine.exchange.spark_frames import create_frame
from gpuengine.language.program import Program
from gpuengine.spark_bridge.carriers import Carriers, column
from gpuengine.spark_bridge.connect import Enclosed, is_connect, share
from gpuengine.spark_bridge.filesystem import FileSystem, join
from gpuengine.spark_bridge.versions import to_arrow

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

    from gpuengine.language.program import Relation

COLLECTED_BYTES = 1 << 28
"""Up to this size a frame is fetched in one piece: that is twice as fast, and the JVM may hold all of it."""

MESSAGE_BYTES = 1 << 22
"""What one row of messages carries, about."""

_TEXT_BYTES = 32
_WIDTH = {"bigint": 8, "double": 8, "int": 4, "boolean": 1, "string": _TEXT_BYTES}


_read: WeakKeyDictionary[Broadcast[bytes] | Enclosed, pa.Table] = WeakKeyDictionary()


def arrow_batches(frame: DataFrame, *, rows: int | None = None) -> Iterator[pa.Table | pa.RecordBatch]:
    """All rows of a frame on the driver, in pieces; at least one, so that the types are known.

    A frame that is small, by its number of rows if given, else by what Spark expects, comes in one piece.
    Of any other the driver holds the messages of two partitions at most, and ``spark.driver.maxResultSize``
    is no limit.
    """
    if fetched_bytes(frame, rows) <= _most_collected(frame.sparkSession):
        yield to_arrow(frame)
        return
    empty = True
    for row in _packed(frame).toLocalIterator(prefetchPartitions=True):
        for batch in pa.ipc.open_stream(row[0]):
            empty = False
            yield batch
    if empty:
        yield to_arrow(frame.limit(0))


def fetched_bytes(frame: DataFrame, rows: int | None = None) -> int:
    """About how many bytes a frame takes as Arrow."""
    if rows is not None:
        return rows * sum(_WIDTH.get(kind, 16) for _, kind in frame.dtypes)
    if is_connect(frame):
        # Only the server knows what it expects.
        return COLLECTED_BYTES + 1
    # What Spark knows of files is their size on disk, where columns are compressed.
    return 4 * int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def _most_collected(spark: SparkSession) -> int:
    if is_connect(spark):
        return COLLECTED_BYTES
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


def broadcast_table(
    spark: SparkSession, frame: DataFrame, *, rows: int | None = None
) -> Broadcast[bytes] | Enclosed:
    """All rows of a frame at every executor, as an Arrow stream; read it there with `read_broadcast`."""
    sink = pa.BufferOutputStream()
    writer = None
    for batch in arrow_batches(frame, rows=rows):
        if writer is None:
            writer = pa.ipc.new_stream(sink, batch.schema)
        writer.write(batch)
    assert writer is not None
    writer.close()
    return share(spark, sink.getvalue().to_pybytes())


def read_broadcast(broadcast: Broadcast[bytes] | Enclosed) -> pa.Table:
    """The table of a broadcast, in the memory that the broadcast itself has; made once in each process."""
    table = _read.get(broadcast)
    if table is None:
        table = _read[broadcast] = pa.ipc.open_stream(pa.py_buffer(broadcast.value)).read_all()
    return table


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
    counted = [rows for rows in counts if rows is not None]
    paths = tuple(path for piece in pieces for path in piece.paths)
    return Held(
        reduce(lambda a, b: a.unionAll(b), (piece.frame for piece in pieces)),
        sum(counted) if len(counted) == len(counts) else None,
        paths if all(piece.paths for piece in pieces) else (),
    )


def nothing(spark: SparkSession, relation: Relation, carriers: Carriers) -> Held:
    """A relation without facts."""
    schema = carriers.schema(relation) or f"{column(0)} bigint"
    return Held(spark.createDataFrame([], schema), 0)


PROGRESS = "progress.json"
VERSION = 1


class CheckpointKeeper(Keeper):
    """Keeps every frame in a directory, and with it how far a run has come."""

    keeps_all = True

    def __init__(
        self, spark: SparkSession, path: str, program: Program, carriers: Carriers, fingerprint: str
    ) -> None:
        super().__init__()
        self._spark = spark
        self._path = path
        self._files = FileSystem(spark)
        self._program = program
        self._carriers = carriers
        self._progress: dict[str, Any] = {"version": VERSION, "fingerprint": fingerprint, "strata": {}}
        self._open(fingerprint)

    def _open(self, fingerprint: str) -> None:
        at = join(self._path, PROGRESS)
        if not self._files.exists(at):
            if self._files.exists(self._path) and self._files.list(self._path):
                raise SparkError(
                    f"{self._path} is no checkpoint, and not empty\n  hint: give a directory of its own"
                )
            self._write()
            return
        try:
            progress = json.loads(self._files.read_text(at))
            version, mark = progress["version"], progress["fingerprint"]
        except (ValueError, KeyError, TypeError) as error:
            raise SparkError(f"{at} is damaged: {error}\n  hint: delete {self._path}") from error
        if (version, mark) != (VERSION, fingerprint):
            raise SparkError(
                f"{self._path} is a checkpoint of another program, of other facts or of other relations\n"
                "  hint: delete it, or give another directory"
            )
        self._progress = progress

    def keep(self, name: str, frame: DataFrame) -> Held:
        path = join(self._path, "frames", name)
        frame.write.mode("overwrite").parquet(path)
        kept = self._read([path], frame)
        return Held(kept, kept.count(), (path,))

    def cut(self, name: str, frame: DataFrame) -> Held:
        return self.keep(name, frame)

    def earlier_results(self, stratum: int) -> dict[str, Held] | None:
        saved = self._progress["strata"].get(str(stratum))
        if saved is None:
            return None
        return {name: self._restored(name, one) for name, one in saved.items()}

    def earlier_round(self, stratum: int) -> RoundState | None:
        saved = self._progress.get("round")
        if saved is None or saved["stratum"] != stratum:
            return None
        pieces = {name: [self._restored(name, one) for one in each] for name, each in saved["pieces"].items()}
        delta = {name: pieces[name][-1] for name in saved["delta"]}
        return RoundState(saved["number"], pieces, delta)

    def round_done(self, stratum: int, state: RoundState) -> None:
        self._progress["round"] = {
            "stratum": stratum,
            "number": state.number,
            "pieces": {name: [_saved(one) for one in each] for name, each in state.pieces.items()},
            "delta": list(state.delta),
        }
        self._write()

    def stratum_done(self, stratum: int, results: Mapping[str, Held]) -> None:
        kept = {
            name: held if held.paths else self.keep(f"stratum-{stratum}/{name}/result", held.frame)
            for name, held in results.items()
        }
        self._progress["strata"][str(stratum)] = {name: _saved(held) for name, held in kept.items()}
        self._progress.pop("round", None)
        self._write()

    def _write(self) -> None:
        self._files.make_directories(self._path)
        self._files.write_text(join(self._path, PROGRESS), json.dumps(self._progress))

    def _restored(self, name: str, saved: Mapping[str, Any]) -> Held:
        schema = self._carriers.schema(self._program.relations[name]) or f"{column(0)} bigint"
        frame = self._spark.read.schema(schema).parquet(*saved["paths"])
        return Held(frame, saved["rows"], tuple(saved["paths"]))

    def _read(self, paths: list[str], like: DataFrame) -> DataFrame:
        return self._spark.read.schema(like.schema).parquet(*paths)


def _saved(held: Held) -> dict[str, Any]:
    return {"paths": list(held.paths), "rows": held.rows}


def fingerprint(program: Program, wanted: Iterable[str], facts: Mapping[str, tuple[int, int | None]]) -> str:
    """What tells runs apart: a carried program, what is wanted of it, and rows and digest of each input."""
    parts = [_spelled((rule.head, rule.body)) for rule in program.rules]
    parts += [
        _spelled((relation.name, relation.attributes, tuple(sorted(relation.qualifiers))))
        for relation in program.relations.values()
    ]
    parts += [repr(sorted(wanted)), repr(sorted(facts.items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _spelled(node: object) -> str:
    """A text of part of a program; where in a file it stands is no part of it."""
    if isinstance(node, tuple):
        return f"({', '.join(map(_spelled, node))})"
    if is_dataclass(node):
        parts = tuple(getattr(node, field.name) for field in fields(node) if field.compare)
        return type(node).__name__ + _spelled(parts)
    return repr(node)
