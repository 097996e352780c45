"""What the data source and streams are told by options: which facts to read, and where to write some."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError, StoreError
from gpuengine.io import find_facts
from gpuengine.language.program import Attribute, Kind, Relation, Variable
from gpuengine.language.questions import parse_question
from gpuengine.opening import open as open_base
from gpuengine.relation import RelationView
from gpuengine.spark_bridge.declarations import (
    arrow_columns,
    batches_of,
    columns_for,
    facts_for,
    filled_relations,
    relation_to_read,
)

_OPTIONS = ("kb", "program", "facts", "relation", "query", "nulls", "state", "stream")
_HOW_TO_READ = 'spark.read.format("gpuengine").option("kb", "/path/of/kb").load("relation")'
_HOW_TO_WRITE = 'df.write.format("gpuengine").option("kb", "/path/of/kb").mode("append").save("relation")'


@dataclass(frozen=True)
class Asked:
    """What to read: a relation or a query, of a knowledge base or of a program with the facts of a folder."""

    kb: str | None
    program: str | None
    facts: str | None
    relation: str | None
    query: str | None
    equal: tuple[tuple[str, Any], ...] = ()
    """Columns of the relation, and what they are to be equal to."""

    @classmethod
    def read(cls, options: Mapping[str, str]) -> Asked:
        _check_names(options)
        asked = cls(
            options.get("kb"),
            options.get("program"),
            options.get("facts"),
            options.get("relation") or options.get("path"),
            options.get("query"),
        )
        if (asked.kb is None) == (asked.program is None):
            raise GpuEngineError(f"give one of the options kb and program\n  hint: {_HOW_TO_READ}")
        if asked.facts is not None and asked.program is None:
            raise GpuEngineError("the option facts is for a program: a knowledge base has its facts")
        if asked.relation is not None and asked.query is not None:
            raise GpuEngineError("give a relation or the option query, not both")
        return asked

    def attributes(self) -> Sequence[Attribute]:
        """The columns of what is asked for."""
        with self._base(with_facts=False) as engine:
            if self.query is None:
                return relation_to_read(engine.program, self.relation).attributes
            head = parse_question(self.query, engine.program)[0].head
            return [Attribute(arg.name, arg.type) for arg in head.args if isinstance(arg, Variable)]

    def view(self) -> RelationView:
        """The facts or answers."""
        with self._base(with_facts=True) as engine:
            if self.query is not None:
                return engine.materialise().query(self.query) if self.kb is None else engine.query(self.query)
            relation = relation_to_read(engine.program, self.relation)
            if self.kb is None:
                engine.materialise(wanted=relation.name)
            return self._selected(engine, relation) if self.equal else engine[relation.name]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same in batches, with the columns of `attributes`."""
        names = arrow_columns(self.attributes()).names
        for batch in batches_of(self.view()):
            yield batch.rename_columns(names)

    def where(self, equal: Mapping[str, Any]) -> Asked:
        """With as many of these conditions as a query can state; other rows may come, too."""
        if self.query is not None or not equal:
            return self
        attributes = {attribute.name: attribute for attribute in self.attributes()}
        stated = [
            (name, value)
            for name, value in equal.items()
            if name in attributes and _can_be_asked(attributes[name], value)
        ]
        return replace(self, equal=tuple(stated))

    def _selected(self, engine: Engine, relation: Relation) -> RelationView:
        at = {attribute.name: f"c{i}" for i, attribute in enumerate(relation.attributes)}
        columns = ", ".join(at.values())
        conditions = "".join(f", {at[name]} = ${at[name]}" for name, _ in self.equal)
        values: dict[str, Any] = {at[name]: int(v) if isinstance(v, Decimal) else v for name, v in self.equal}
        return engine.query(f"{columns} : {relation.name}({columns}){conditions}", **values)

    def _base(self, *, with_facts: bool) -> Engine:
        if self.kb is not None:
            return open_engine(self.kb, read_only=True)
        assert self.program is not None
        engine = Engine(self.program)
        if with_facts and self.facts is not None:
            for name, params in filled_relations(engine.program).items():
                engine.load(name, find_facts(name, params, Path(self.facts)), params=params)
        return engine


@dataclass(frozen=True)
class Target:
    """A relation of a knowledge base that rows are written to; `columns` of them are its attributes."""

    kb: str
    relation: Relation
    columns: tuple[int, ...]
    drop_nulls: bool

    @classmethod
    def read(cls, options: Mapping[str, str], schema: StructType) -> Target:
        """Where rows of a schema are to go; raises before any row is looked at if they can't."""
        _check_names(options)
        kb, name = options.get("kb"), options.get("relation") or options.get("path")
        if kb is None or name is None:
            raise GpuEngineError(f"give the option kb and the name of a relation\n  hint: {_HOW_TO_WRITE}")
        nulls = options.get("nulls", "fail")
        if nulls not in ("fail", "drop"):
            raise GpuEngineError(f"nulls={nulls!r} is not known\n  hint: nulls='fail' or nulls='drop'")
        with open_engine(kb, read_only=True) as engine:
            relation = engine.declared(name)
        return cls(kb, relation, tuple(columns_for(relation, schema)), nulls == "drop")

    def packed(self, batches: Iterable[pa.RecordBatch]) -> Packed:
        """The rows of a task as facts."""
        rows = list(batches)
        if not rows:
            return Packed(b"")
        table = facts_for(
            self.relation, pa.Table.from_batches(rows), self.columns, drop_nulls=self.drop_nulls
        )
        if not self.relation.attributes:
            return Packed(b"", holds=table.num_rows > 0)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return Packed(sink.getvalue().to_pybytes())

    def facts(self, messages: Sequence[WriterCommitMessage | None]) -> list[Any]:
        """What tasks packed, as `Update.insert` takes it."""
        packed = [message for message in messages if isinstance(message, Packed)]
        if not self.relation.attributes:
            return [[()]] if any(message.holds for message in packed) else []
        return [pa.ipc.open_stream(message.table).read_all() for message in packed if message.table]


@dataclass
class Packed(WriterCommitMessage):
    """The facts of a task, on their way to the driver: an Arrow stream, or empty; `holds` if no columns."""

    table: bytes
    holds: bool = False


def open_engine(path: str, *, read_only: bool = False) -> Engine:
    """A knowledge base of Datalog; `StoreError` if it is something else that is kept in a directory."""
    from gpuengine.spark_bridge.saved import MANIFEST

    if (Path(path) / MANIFEST).exists():
        raise StoreError(
            f"{path} is a materialisation that Spark saved, not a knowledge base\n"
            "  hint: gpuengine.spark_bridge.open(spark, path) gives its relations as DataFrames"
        )
    base = open_base(path, read_only=read_only)
    if not isinstance(base, Engine):
        base.close()
        raise StoreError(
            f"{path} is a knowledge base of RDF or DatalogMTL; this data source has those of Datalog\n"
            "  hint: open it with gpuengine.open"
        )
    return base


def _can_be_asked(attribute: Attribute, value: Any) -> bool:
    """Is a value of Spark the same in a query? That of a float is not always equal where Spark says so."""
    if attribute.type.logical:
        return False
    if attribute.type.kind is Kind.SYMBOL:
        return isinstance(value, str) and value.isprintable()
    if not isinstance(value, int | Decimal) or isinstance(value, bool) or value != int(value):
        return False
    if attribute.type.kind is Kind.UNSIGNED:
        return 0 <= value < 2**64
    return attribute.type.kind is Kind.NUMBER and -(2**63) < value < 2**63


def _check_names(options: Mapping[str, str]) -> None:
    """Raise for an option that is spelt nearly as one that there is; Spark adds some of its own."""
    for name in options:
        near = difflib.get_close_matches(name.lower(), _OPTIONS, 1, 0.7)
        if near and name.lower() not in _OPTIONS:
            raise GpuEngineError(f"there is no option {name!r}; did you mean {near[0]!r}?")
