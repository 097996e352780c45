"""Structured Streaming as a data source: batches into a knowledge base, and its changes as a stream.

A source keeps states of its relation, one file each, in a folder: the changes of a batch are the difference
of two of them, and the same when Spark asks again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import ByteType, StructType

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError, SparkError, StoreError
from gpuengine.language.program import Kind, Relation
from gpuengine.maintenance.store import Store
from gpuengine.relation import RelationView
from gpuengine.spark_bridge.declarations import arrow_columns, batches_of, facts_for, struct_of
from gpuengine.spark_bridge.feeding import apply_batch
from gpuengine.spark_bridge.knowledge_bases import Target, open_engine
from gpuengine.spark_bridge.replays import STREAMS, was_applied

WEIGHT = "weight"
"""The column that is 1 for facts that came and -1 for facts that went."""

_PARTITION_ROWS = 1 << 18
_BASE_TYPE = {Kind.NUMBER: "number", Kind.UNSIGNED: "unsigned", Kind.FLOAT: "float"}
_HOW_TO_READ = (
    'spark.readStream.format("gpuengine").option("kb", …).option("state", "/a/folder").load("path")'
)


class Sink(DataSourceStreamWriter, DataSourceArrowWriter):
    """``writeStream.format("gpuengine")``: states the rows of each batch, as `feed` does.

    Opens the knowledge base for each of them. The second base has Spark hand over Arrow batches. Without the
    option ``stream``, that is the id of the query, which its checkpoint keeps.
    """

    def __init__(self, target: Target, stream: str | None, checkpoint: str) -> None:
        self._target = target
        self._stream = stream
        self._checkpoint = checkpoint

    @classmethod
    def of(cls, options: Mapping[str, str], schema: StructType) -> Sink:
        stream, checkpoint = options.get("stream"), options.get("checkpointLocation")
        if stream is None and checkpoint is None:
            raise SparkError(
                "a stream into a knowledge base needs a checkpoint, or a name\n"
                '  hint: .option("checkpointLocation", …), or .option("stream", "orders")'
            )
        return cls(Target.read(options, schema), stream, checkpoint or "")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._target.packed(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]
        stream = self._stream or _query_of(self._checkpoint)
        with open_engine(self._target.kb) as engine:
            if not was_applied(engine.current.notes.get(STREAMS, {}), stream, batchId):
                facts = self._target.facts(messages)
                apply_batch(engine, self._target.relation, facts, (), stream, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]
        """Nothing was changed."""


def _query_of(checkpoint: str) -> str:
    """The id of the query that a checkpoint on a local disk is of, so that one made anew there is another
    stream; elsewhere the place itself.
    """
    folder = Path(unquote(urlsplit(checkpoint).path) if checkpoint.startswith("file:") else checkpoint)
    try:
        return str(json.loads((folder / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return checkpoint


@dataclass
class _Piece(InputPartition):
    """Some rows of a change, as an Arrow stream."""

    table: bytes


class Changes(DataSourceStreamReader):
    """What changes in a relation of a knowledge base: its columns, and `WEIGHT`.

    The first batch is all that is there. An offset is the number of a state; 0 is that of no facts. States
    are files of `folder`, named by number and version; those that no batch needs any more are deleted.
    """

    def __init__(self, kb: str, relation: Relation, folder: str) -> None:
        self._kb = kb
        self._relation = relation
        self._folder = Path(folder)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Changes:
        kb, name, folder = (
            options.get("kb"),
            options.get("relation") or options.get("path"),
            options.get("state"),
        )
        if kb is None or name is None or folder is None:
            raise GpuEngineError(f"give the options kb and state, and a relation\n  hint: {_HOW_TO_READ}")
        with open_engine(kb, read_only=True) as engine:
            relation = engine.declared(name)
        if WEIGHT in (attribute.name for attribute in relation.attributes):
            raise GpuEngineError(
                f"{name} has a column {WEIGHT}, which its changes have besides\n"
                "  hint: declare the attribute by another name"
            )
        return cls(kb, relation, folder)

    def schema(self) -> StructType:
        return struct_of(self._relation.attributes).add(WEIGHT, ByteType())

    def initialOffset(self) -> dict[str, int]:
        return {"state": 0}

    def latestOffset(self) -> dict[str, int]:
        """The number of the newest state, which is kept from now on if it is new."""
        number, version = max(self._states().items(), default=(0, ""))
        with Store.open(self._kb, read_only=True) as store:
            newest = store.version()
            while newest != version:
                with open_engine(self._kb, read_only=True) as engine:
                    facts = engine[self._relation.name]
                # The state that was opened is between these two versions.
                version, newest = newest, store.version()
                if newest == version:
                    number += 1
                    self._keep(number, version, facts)
        return {"state": number}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        change = self._difference(start["state"], end["state"])
        pieces = [change.slice(at, _PARTITION_ROWS) for at in range(0, change.num_rows, _PARTITION_ROWS)]
        return [_Piece(_packed(piece)) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Piece)
        yield from pa.ipc.open_stream(partition.table)

    def commit(self, end: dict[str, int]) -> None:
        for number, version in self._states().items():
            if number < end["state"]:
                self._file(number, version).unlink(missing_ok=True)

    def _states(self) -> dict[int, str]:
        """The versions of the states that are kept, by number."""
        parts = (path.stem.partition("-") for path in self._folder.glob("*-*.arrow"))
        return {int(number): version for number, _, version in parts}

    def _file(self, number: int, version: str) -> Path:
        return self._folder / f"{number}-{version}.arrow"

    def _keep(self, number: int, version: str, facts: RelationView) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder / f"{number}.{os.getpid()}.tmp"
        beside.write_bytes(_packed(_table(facts)))
        beside.replace(self._file(number, version))

    def _facts(self, number: int) -> pa.Table | None:
        if number == 0:
            return None
        version = self._states().get(number)
        if version is None:
            raise StoreError(
                f"{self._folder} has no state {number} of {self._relation.name}: a stream needs the folder "
                "that it began with\n  hint: put it back, or begin anew with another checkpoint and folder"
            )
        return pa.ipc.open_stream(self._file(number, version).read_bytes()).read_all()

    def _difference(self, start: int, end: int) -> pa.Table:
        """The facts of one state that are not in the other, with their weights."""
        engine = Engine(_difference_program(self._relation))
        for name, number in (("was", start), ("now", end)):
            facts, declared = self._facts(number), engine.declared(name)
            if facts is not None and facts.num_rows:
                columns = range(declared.arity)
                engine.load(name, facts_for(declared, facts, columns, drop_nulls=False))
        engine.materialise()
        parts = []
        for name, weight in (("came", 1), ("went", -1)):
            rows = _table(engine[name])
            parts.append(rows.append_column(WEIGHT, pa.array([weight] * rows.num_rows, pa.int8())))
        names = arrow_columns(self._relation.attributes).names
        return pa.concat_tables(parts).rename_columns([*names, WEIGHT])


def _difference_program(relation: Relation) -> str:
    """Rules for facts of which one can't say more than how they are written: records are texts here."""
    given = [attribute.type for attribute in relation.attributes]
    types = [one.name if one.logical else _BASE_TYPE.get(one.kind, "symbol") for one in given]
    columns = ", ".join(f"c{i}: {name}" for i, name in enumerate(types))
    args = ", ".join(f"c{i}" for i in range(len(types)))
    declared = "".join(f".decl {name}({columns})\n" for name in ("was", "now", "came", "went"))
    return (
        f"{declared}came({args}) :- now({args}), !was({args}).\nwent({args}) :- was({args}), !now({args}).\n"
    )


def _table(view: RelationView) -> pa.Table:
    return pa.Table.from_batches(batches_of(view), arrow_columns(view.attributes))


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
