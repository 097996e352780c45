"""``SELECT * FROM datalog(TABLE(edges), program => '…')``: the rows of a table under a program, in SQL.

One task gets all rows and evaluates with one engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import Row, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError
from gpuengine.language.editing import ProgramText
from gpuengine.loading import as_source
from gpuengine.spark_bridge.declarations import (
    batches_of,
    columns_for,
    facts_for,
    relation_to_fill,
    relation_to_read,
    struct_of,
)

_USAGE = "datalog(TABLE(edges), program => '…', input => 'edge', output => 'path')"


@dataclass
class _Asked(AnalyzeResult):
    """What a call asks for, as its task gets it: `columns` of `table` are the attributes of `filled`."""

    program: str = ""
    filled: str = ""
    read: str = ""
    table: StructType = field(default_factory=StructType)
    columns: tuple[int, ...] = ()


class DatalogFunction:
    """Reads a table into the relation `input` of a program, and gives the facts of `output`."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._rows: list[Row] = []

    @staticmethod
    def analyze(
        table: AnalyzeArgument,
        program: AnalyzeArgument,
        input: AnalyzeArgument | None = None,
        output: AnalyzeArgument | None = None,
    ) -> _Asked:
        """Check a call before anything runs: the program, the table's columns and types."""
        columns = table.dataType
        if not table.isTable or not isinstance(columns, StructType):
            raise GpuEngineError(f"the first argument of datalog must be a table\n  hint: {_USAGE}")
        text = _text("program", program)
        source = ProgramText.read(as_source(text))
        filled = relation_to_fill(source.program, None if input is None else _text("input", input))
        read = relation_to_read(source.program, None if output is None else _text("output", output))
        return _Asked(
            struct_of(read.attributes),
            withSinglePartition=True,
            program=text,
            filled=filled.name,
            read=read.name,
            table=columns,
            columns=tuple(columns_for(filled, columns)),
        )

    def eval(self, row: Row, *options: str, **named: str) -> None:
        """A row of the table; what else was given is known already."""
        self._rows.append(row)

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """All rows are there: evaluate, and give the facts."""
        asked = self._asked
        engine = Engine(asked.program)
        relation = engine.declared(asked.filled)
        if self._rows:
            rows = _table(self._rows, asked.table)
            engine.load(relation.name, facts_for(relation, rows, asked.columns, drop_nulls=False))
        engine.materialise(wanted=asked.read)
        for batch in batches_of(engine[asked.read]):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _text(name: str, argument: AnalyzeArgument) -> str:
    if not argument.isConstantExpression or not isinstance(argument.value, str):
        raise GpuEngineError(
            f"{name} of datalog must be a text that is known before rows are\n  hint: {_USAGE}"
        )
    return argument.value


def _table(rows: list[Row], schema: StructType) -> pa.Table:
    values = zip(*rows, strict=True)
    arrays = [
        pa.array(column, to_arrow_type(field.dataType)) for column, field in zip(values, schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
