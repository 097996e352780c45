"""Decomposable strata: each task runs the whole fixpoint on its part of the key values.

The facts that the recursion starts from are partitioned by the key, along with the lower relations that every
rule reads by the key too; the other lower relations are sent to every task. Nothing is shuffled after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from gpuengine.language.program import Relation
from gpuengine.spark_bridge.carriers import LONG, STRING, Carriers, column
from gpuengine.spark_bridge.keeping import Held
from gpuengine.spark_bridge.task_engine import CarriedProgram
from gpuengine.spark_bridge.transfer import broadcast_table, read_broadcast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

TAG, KEY = "tag", "key"


@dataclass(frozen=True)
class Layout:
    """Facts of several relations in one frame: which one (`TAG`), the key, and places for their columns.

    The places are ``l0``, ``l1``, ... of bigint and ``s0``, ``s1``, ... of string; a relation uses those of
    the carriers it has, in the order of its columns. One relation alone is a frame as ever.
    """

    names: tuple[str, ...]
    carriers: tuple[tuple[str, ...], ...]
    key: str | None = None

    @classmethod
    def of(
        cls, relations: Mapping[str, Relation], names: Sequence[str], carriers: Carriers, key: str | None
    ) -> Layout:
        kinds = [tuple(carriers.carrier(a.type) for a in relations[name].attributes) for name in names]
        # A relation without columns holds or not, which its frame says in one column.
        return cls(tuple(names), tuple(kind or (LONG,) for kind in kinds), key)

    @property
    def is_single(self) -> bool:
        return len(self.names) == 1

    def places(self, number: int) -> list[str]:
        """Where the columns of a relation are."""
        if self.is_single:
            return [column(j) for j in range(len(self.carriers[0]))]
        used = {LONG: 0, STRING: 0}
        places = []
        for carrier in self.carriers[number]:
            places.append(f"{'l' if carrier == LONG else 's'}{used[carrier]}")
            used[carrier] += 1
        return places

    @property
    def columns(self) -> list[tuple[str, str]]:
        """All columns of the frame with their types."""
        if self.is_single:
            return [(column(j), carrier) for j, carrier in enumerate(self.carriers[0])]
        keys = [(KEY, self.key)] if self.key is not None else []
        widths = {c: max(kinds.count(c) for kinds in self.carriers) for c in (LONG, STRING)}
        longs = [(f"l{j}", LONG) for j in range(widths[LONG])]
        return [(TAG, LONG), *keys, *longs, *((f"s{j}", STRING) for j in range(widths[STRING]))]

    @property
    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.columns)

    def packed(self, frames: Mapping[str, DataFrame], keys: Mapping[str, int]) -> DataFrame:
        """The frames of all relations as one; `keys` are their key columns."""
        from pyspark.sql import functions as F

        if self.is_single:
            return frames[self.names[0]]
        parts = []
        for number, name in enumerate(self.names):
            at: dict[str, Column] = {TAG: F.lit(number).cast(LONG)}
            if name in keys:
                at[KEY] = F.col(column(keys[name]))
            at.update({place: F.col(column(j)) for j, place in enumerate(self.places(number))})
            parts.append(
                frames[name].select(*(at.get(p, F.lit(None)).cast(kind).alias(p) for p, kind in self.columns))
            )
        return reduce(lambda a, b: a.unionAll(b), parts)

    def unpacked(self, frame: DataFrame, number: int) -> DataFrame:
        """The frame of one relation out of that of all."""
        from pyspark.sql import functions as F

        if self.is_single:
            return frame
        chosen = frame.where(F.col(TAG) == number)
        return chosen.select(*(F.col(place).alias(column(j)) for j, place in enumerate(self.places(number))))

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """In a task: the rows of each relation in a batch."""
        import pyarrow.compute as pc

        if self.is_single:
            yield self.names[0], batch
            return
        tags = batch.column(TAG)
        for number in pc.unique(tags).to_pylist():
            rows = batch.filter(pc.equal(tags, number))
            yield self.names[number], rows.select(self.places(number))

    def joined(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """In a task: rows of one relation as rows of all."""
        import pyarrow as pa

        if self.is_single:
            return batch
        at = dict(zip(self.places(number), batch.columns, strict=True))
        types = {LONG: pa.int64(), STRING: pa.string()}
        rows = batch.num_rows
        arrays = []
        for name, kind in self.columns:
            if name == TAG:
                arrays.append(pa.repeat(pa.scalar(number, pa.int64()), rows))
            else:
                arrays.append(at[name] if name in at else pa.nulls(rows, types[kind]))
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.columns])


@dataclass(frozen=True)
class PartFixpoint:
    """What each task does: its part of the facts, and all of those that were sent, to the fixpoint.

    One that `is_alone` has all facts and all memory, and something to do even if no facts were given.
    """

    carried: CarriedProgram
    given: Layout
    results: Layout
    sent: Mapping[str, Any]
    is_alone: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from gpuengine.spark_bridge.worker import prepare_worker, task_backend, task_memory, task_threads

        prepare_worker()
        tables: dict[str, list[Any]] = {name: [] for name in self.given.names}
        for batch in batches:
            if batch.num_rows:
                for name, rows in self.given.split(batch):
                    tables[name].append(rows)
        if not self.is_alone and not any(tables.values()):
            return
        for name, shared in self.sent.items():
            tables[name] = [read_broadcast(shared)]
        backend, device = task_backend()
        found = self.carried.run(
            tables,
            self.results.names,
            threads=task_threads(),
            memory=None if self.is_alone else task_memory(),
            backend=backend,
            device=device,
        )
        for number, name in enumerate(self.results.names):
            for rows in found.batches(name):
                yield self.results.joined(number, rows)


def run_in_parts(
    spark: SparkSession,
    carried: CarriedProgram,
    facts: Mapping[str, Held],
    keys: Mapping[str, int],
    sent: Mapping[str, Held],
    results: Sequence[str],
    partitions: int,
) -> tuple[DataFrame, Layout]:
    """All facts of `results`, in one frame as the layout says; nothing is computed yet.

    `facts` are partitioned by their column in `keys`, `sent` go to every task whole.
    """
    relations = carried.prepared.program.relations
    names = list(facts)
    first = carried.carriers.carrier(relations[names[0]].attributes[keys[names[0]]].type)
    given = Layout.of(relations, names, carried.carriers, first)
    packed = given.packed({name: held.frame for name, held in facts.items()}, keys)
    key = column(keys[names[0]]) if given.is_single else KEY
    wanted = Layout.of(relations, results, carried.carriers, None)
    shared = {name: broadcast_table(spark, held.frame) for name, held in sent.items()}
    task = PartFixpoint(carried, given, wanted, shared)
    return packed.repartition(partitions, key).mapInArrow(task, wanted.schema), wanted


def run_on_one(
    spark: SparkSession, carried: CarriedProgram, facts: Mapping[str, Held], results: Sequence[str]
) -> tuple[DataFrame, Layout]:
    """All facts of `results` by one engine in one task, in one frame as the layout says."""
    relations = carried.prepared.program.relations
    given = Layout.of(relations, list(facts), carried.carriers, None)
    wanted = Layout.of(relations, results, carried.carriers, None)
    packed = given.packed({name: held.frame for name, held in facts.items()}, {})
    task = PartFixpoint(carried, given, wanted, {}, is_alone=True)
    return packed.repartition(1).mapInArrow(task, wanted.schema), wanted
