"""Frames into an engine on the driver: checked by Spark, moved as Arrow, de-duplicated by the engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from gpuengine.engine import Engine
from gpuengine.io.schema import arrow_type, nullary
from gpuengine.language.program import Relation
from gpuengine.spark_bridge.checking import Checked, check_inputs
from gpuengine.spark_bridge.launching import check_frame, check_session
from gpuengine.spark_bridge.reading import read_dataset
from gpuengine.spark_bridge.shipping import ship_package
from gpuengine.spark_bridge.transfer import arrow_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_AT_ONCE = 1 << 26
"""So many rows are inserted at a time: one large sort takes half as long as looking up each of its rows."""


def ingest(
    spark: SparkSession,
    program: str | os.PathLike[str],
    inputs: Mapping[str, DataFrame | str],
    *,
    nulls: Literal["fail", "drop"] = "fail",
    materialise: bool = True,
    wanted: Iterable[str] | None = None,
    **engine_options: Any,
) -> Engine:
    """An engine on the driver with the facts of frames, or of datasets given by path, and what follows.

    Raises `DataError` for what does not fit the declarations, before anything is loaded. The driver holds the
    engine's tables and a few batches beside. `engine_options` are those of `Engine`; without `materialise`
    nothing is derived yet.
    """
    check_session(spark)
    ship_package(spark)
    engine = Engine(program, **engine_options)
    frames: dict[str, DataFrame] = {}
    for name, given in inputs.items():
        relation = engine.declared(name)
        frames[name] = read_dataset(spark, given, relation) if isinstance(given, str) else given
        check_frame(spark, name, frames[name])
    load_checked(engine, check_inputs(engine.relations, frames, nulls=nulls))
    return engine.materialise(wanted=wanted) if materialise else engine


def load_checked(engine: Engine, inputs: Mapping[str, Checked]) -> None:
    """Load what has been checked into an engine that has not materialised yet."""
    for name, checked in inputs.items():
        _load(engine, engine.declared(name), checked)


def _load(engine: Engine, relation: Relation, checked: Checked) -> None:
    table = engine.loaded[relation.name]
    waiting: list[list[np.ndarray]] = []
    rows = 0

    def insert() -> None:
        columns = [np.concatenate(pieces) for pieces in zip(*waiting, strict=True)]
        table.insert(columns, rows)

    for batch in _batches(relation, checked):
        columns, count = engine.encode_facts(relation, batch)
        if not relation.arity:
            table.insert(columns, count)
            continue
        waiting.append(columns)
        rows += count
        if rows >= _ROWS_AT_ONCE:
            insert()
            waiting, rows = [], 0
    if rows:
        insert()


def _batches(relation: Relation, checked: Checked) -> Iterator[pa.Table]:
    """The rows by the names and types that the engine expects."""
    if not relation.arity:
        yield nullary(checked.rows > 0)
        return
    types = [arrow_type(attribute.type) for attribute in relation.attributes]
    names = [attribute.name for attribute in relation.attributes]
    for batch in arrow_batches(checked.frame, rows=checked.rows):
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        columns = [_as_type(column, type) for column, type in zip(table.columns, types, strict=True)]
        yield pa.Table.from_arrays(columns, names=names)


def _as_type(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    """Bits as the unsigned values they are, without a copy; all else is what it should be."""
    if column.type == pa.int64() and type == pa.uint64():
        return pa.chunked_array([chunk.view(type) for chunk in column.chunks], type)
    return column
