"""Every method of the bridge gives what an engine gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from gpuengine.engine import Engine
from gpuengine.spark_bridge import Limits, materialise
from gpuengine.spark_bridge.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONLY = {
    "driver": Limits(),
    "condensed": Limits(methods=("condensed", "rounds")),
    "decomposed": Limits(methods=("decomposed", "rounds")),
    "exchanged": Limits(methods=("exchanged", "rounds")),
    "rounds": Limits(methods=("rounds",)),
}

CLOSURE = """
.decl edge(a: number, b: number)
.decl path(a: number, b: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
EDGES = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (7, 7), (8, 9)]


def frames_of(
    spark: SparkSession, engine: Engine, facts: Mapping[str, Sequence[Any]]
) -> dict[str, DataFrame]:
    """Facts as frames, by way of an engine's own idea of their types."""
    import pyarrow as pa

    from gpuengine.io.schema import arrow_schema

    frames = {}
    for name, rows in facts.items():
        attributes = engine.relations[name].attributes
        if not attributes:
            frames[name] = spark.range(len(rows))
            continue
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in attributes]
        table = pa.table(
            [pa.array(c, t.type) for c, t in zip(columns, arrow_schema(attributes), strict=True)],
            schema=arrow_schema(attributes),
        )
        frames[name] = frame_of(spark, table)
    return frames


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


def engine_of(program: str, facts: Mapping[str, Sequence[Any]]) -> Engine:
    """What has to come out."""
    engine = Engine(program)
    for name, rows in facts.items():
        if rows:
            engine.load(name, rows)
    engine.materialise()
    return engine


def facts_of(engine: Engine, name: str) -> list[str]:
    """The facts of a relation as `rows_of` has them."""
    is_nullary = not engine.relations[name].attributes
    return sorted(repr((True,) if is_nullary else tuple(fact)) for fact in engine[name])


def rows_of(frame: DataFrame) -> list[str]:
    """Rows as text, which tells -0.0 from 0.0 and finds NaN equal to itself, in order."""
    return sorted(repr(tuple(map(_plain, row))) for row in frame.collect())


def assert_same(spark: SparkSession, program: str, facts: Mapping[str, Sequence[Any]], **options: Any) -> Any:
    """Materialise on Spark and by an engine, and compare every relation; returns the report."""
    engine = engine_of(program, facts)
    with materialise(spark, program, frames_of(spark, engine, facts), **options) as found:
        for name in engine.relations:
            expected = facts_of(engine, name)
            assert rows_of(found[name]) == expected, name
            assert found.counts[name] == len(expected)
        return found.report


@pytest.mark.parametrize("method", ["condensed", "decomposed", "exchanged", "rounds"])
def test_closure_by_each_method(spark: SparkSession, method: str) -> None:
    report = assert_same(spark, CLOSURE, {"edge": EDGES}, where="cluster", limits=ONLY[method])
    assert [stratum.method for stratum in report.strata] == [method]


@pytest.mark.parametrize("where", ["driver", "executor", "cluster", "auto"])
def test_closure_at_each_place(spark: SparkSession, where: str) -> None:
    report = assert_same(spark, CLOSURE, {"edge": EDGES}, where=where)
    assert report.where == ("driver" if where == "auto" else where)
