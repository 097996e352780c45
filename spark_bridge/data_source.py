"""``spark.read.format("gpuengine")``: knowledge bases as tables of Spark, and programs over fact files.

Spark makes these objects in Python processes of its own, on the driver to plan and on executors to read, and
sends them about: they hold options and schemas only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError
from gpuengine.relation import RelationView
from gpuengine.spark_bridge.declarations import struct_of
from gpuengine.spark_bridge.knowledge_bases import Asked, Target, open_engine
from gpuengine.spark_bridge.streams import Changes, Sink
from gpuengine.spark_bridge.versions import has

FORMAT = "gpuengine"


class KnowledgeBaseSource(DataSource):
    """The relations of a knowledge base, answers of a query, or what a program derives from fact files.

    With the option ``state`` it is the changes of a relation, as a stream.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        if "state" in self.options:
            return Changes.of(self.options).schema()
        return struct_of(Asked.read(self.options).attributes())

    def reader(self, schema: StructType) -> DataSourceReader:
        if "state" in self.options:
            raise GpuEngineError("the option state is for spark.readStream, which reads changes")
        asked = Asked.read(self.options)
        return _FilteringReader(asked) if has("pushed filters") else _Reader(asked)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _Writer(Target.read(self.options, schema), overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return Changes.of(self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return Sink.of(self.options, schema)


class _Reader(DataSourceReader):
    """One task reads all: the order of facts is no one's to cut into ranges."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self._asked.batches()


class _FilteringReader(_Reader):
    """Has the engine look up what columns must be equal to; Spark filters again.

    Spark refuses a reader that can filter unless its setting for that is on, which `register` sees to.
    """

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        from pyspark.sql import datasource

        kinds: Any = datasource  # PySpark 4.0 has none of these
        equality = (kinds.EqualTo, kinds.EqualNullSafe)
        equal = {
            one.attribute[0]: one.value
            for one in filters
            if isinstance(one, equality) and len(one.attribute) == 1
        }
        self._asked = self._asked.where(equal)
        return filters


class _Writer(DataSourceArrowWriter):
    """Tasks send their rows to the driver, which states them in one transaction."""

    def __init__(self, target: Target, overwrite: bool) -> None:
        self._target = target
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._target.packed(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        name = self._target.relation.name
        with open_engine(self._target.kb) as engine, engine.update() as update:
            if self._overwrite:
                update.delete(name, _stated(engine, name))
            for facts in self._target.facts(messages):
                update.insert(name, facts)


def _stated(engine: Engine, name: str) -> Any:
    """What is stated of a relation, without what rules derive."""
    relation = engine.declared(name)
    view = RelationView(name, relation.attributes, engine.loaded[name], engine.dictionary)
    return view.to_arrow() if relation.attributes else [()] * len(view)
