"""The ways in that users of Spark expect: the data source, the SQL function, the helper and views."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)
from pyspark.sql.udtf import AnalyzeArgument

import gpuengine
from gpuengine.engine import Engine
from gpuengine.errors import DataError, GpuEngineError, StoreError
from gpuengine.spark_bridge import datalog, materialise, register
from gpuengine.spark_bridge import open as open_saved
from gpuengine.spark_bridge.data_source import KnowledgeBaseSource
from gpuengine.spark_bridge.declarations import batches_of
from gpuengine.spark_bridge.knowledge_bases import Asked, Target, open_engine
from gpuengine.spark_bridge.streams import Changes
from gpuengine.spark_bridge.table_function import DatalogFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

REACH = """
.decl edge(x: symbol, y: symbol)
.decl path(x: symbol, y: symbol)
.decl blocked()
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), !blocked().
.input edge
.output path
"""
TYPES = """
.decl given(n: number, u: unsigned, f: float, s: symbol)
.decl kept(s: symbol, u: unsigned, f: float, n: number)
kept(s, u, f, n) :- given(n, u, f, s), n < 5.
"""
KINDS = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "decimal(20,0)": DecimalType(20, 0),
    "decimal(3,1)": DecimalType(3, 1),
}
EDGES = [("a", "b"), ("b", "c"), ("c", "d")]
PATHS = {("a", "b"), ("b", "c"), ("c", "d"), ("a", "c"), ("b", "d"), ("a", "d")}


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    register(spark)
    register(spark)
    return spark


@pytest.fixture
def kb(tmp_path: Path) -> str:
    engine = Engine(REACH)
    engine.load("edge", EDGES[:2])
    engine.save(tmp_path / "kb")
    return str(tmp_path / "kb")


def edges(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows or EDGES), "x string, y string")


def rows_of(frame: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.collect()}


def refused(run: Callable[[], Any]) -> str:
    """What Spark says of a call that fails in one of its Python processes."""
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        run()
    return str(caught.value)


def test_the_source_reads_a_relation_a_query_and_what_a_program_derives(
    spark: SparkSession, kb: str, tmp_path: Path
) -> None:
    whole = spark.read.format("gpuengine").option("kb", kb).load("path")
    assert whole.schema.simpleString() == "struct<x:string,y:string>"
    assert rows_of(whole) == {("a", "b"), ("b", "c"), ("a", "c")}
    asked = spark.read.format("gpuengine").option("kb", kb).option("query", 'path("a", z)').load()
    assert asked.columns == ["z"] and rows_of(asked) == {("b",), ("c",)}
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\nc\td\n")
    derived = spark.read.format("gpuengine").option("program", REACH).option("facts", str(tmp_path)).load()
    assert rows_of(derived) == PATHS
    said = refused(lambda: spark.read.format("gpuengine").option("kb", kb).load("paht"))
    assert "gpuengine.errors.GpuEngineError: no relation 'paht' in the program; did you mean 'path'?" in said


def test_writing_is_one_transaction_that_adds_or_replaces(spark: SparkSession, kb: str) -> None:
    def write(frame: DataFrame, mode: str, **options: str) -> None:
        frame.write.format("gpuengine").option("kb", kb).options(**options).mode(mode).save("edge")

    def paths() -> set[tuple[Any, ...]]:
        with gpuengine.open(kb, read_only=True) as engine:
            return set(engine["path"])

    with_nulls = edges(spark, ("c", "d"), ("a", "b"), ("e", None)).repartition(2)
    assert "edge: column y has 1 null in" in refused(lambda: write(with_nulls, "append"))
    with gpuengine.open(kb):
        held = refused(lambda: write(with_nulls, "append", nulls="drop"))
    assert "is being written by process" in held
    assert paths() == {("a", "b"), ("b", "c"), ("a", "c")}
    write(with_nulls, "append", nulls="drop")
    assert paths() == PATHS
    write(edges(spark, ("q", "r")), "overwrite")
    assert paths() == {("q", "r")}


def test_what_rows_are_written_and_read_as(tmp_path: Path) -> None:
    engine = Engine(TYPES + ".decl on() .decl off()")
    engine.save(tmp_path / "kb")
    options = {"kb": str(tmp_path / "kb")}
    given = "u decimal(20,0), s binary, n boolean, f decimal(3,1)"
    rows = pa.table(
        {
            "u": pa.array([2**64 - 1], pa.decimal128(20, 0)),
            "s": pa.array(["ü".encode()]),
            "n": pa.array([True]),
            "f": pa.array([Decimal("2.5")], pa.decimal128(3, 1)),
        }
    )
    _written({**options, "path": "given"}, given, rows)
    (batch,) = batches_of(Asked.read({**options, "path": "kept"}).view())
    assert batch.to_pylist() == [{"s": "ü", "u": Decimal(2**64 - 1), "f": 2.5, "n": 1}]
    _written({**options, "relation": "on"}, "id bigint", pa.table({"id": [7, 8]}))
    _written({**options, "relation": "off"}, "id bigint", pa.table({"id": pa.array([], pa.int64())}))
    shown = {name: list(batches_of(Asked.read({**options, "path": name}).view())) for name in ("on", "off")}
    assert [batch.to_pydict() for batch in shown["on"]] == [{"holds": [True]}] and not shown["off"]
    negative = pa.table({"n": [1], "u": pa.array([-1], pa.int64()), "f": [0.5], "s": ["a"]})
    with pytest.raises(DataError, match="given: column u has a value that unsigned has not"):
        _written({**options, "path": "given"}, "n bigint, u bigint, f double, s string", negative)


@pytest.mark.parametrize(
    ("equal", "asked", "rows"),
    [
        ({"n": -1}, {"n"}, [-1]),
        ({"n": 7}, {"n"}, []),
        ({"s": 'a"b'}, {"s"}, [1]),
        ({"s": "ü $c0", "n": -1}, {"s", "n"}, [-1]),
        ({"u": Decimal(2**64 - 1)}, {"u"}, [5]),
        ({"u": 2, "n": 5}, {"u", "n"}, []),
        # What a query can't state, or what may mean something else in one, is left to Spark.
        ({"n": 2**63, "u": -1, "f": 0.5, "d": 3, "s": "a\nb", "other": 1}, set(), [-1, 1, 5]),
        ({"n": True, "u": Decimal("0.5"), "s": 1}, set(), [-1, 1, 5]),
    ],
)
def test_conditions_that_the_engine_looks_up(
    tmp_path: Path, equal: dict[str, Any], asked: set[str], rows: list[int]
) -> None:
    engine = Engine(".decl given(n: number, u: unsigned, f: float, s: symbol, d: date)")
    engine.load("given", [(1, 2, 0.5, 'a"b', 3), (-1, 2, 0.5, "ü $c0", 3), (5, 2**64 - 1, 1.5, "c", 4)])
    engine.save(tmp_path / "kb")
    source = Asked.read({"kb": str(tmp_path / "kb"), "path": "given"}).where(equal)
    assert {name for name, _ in source.equal} == asked
    found = [row for batch in source.batches() for row in batch.to_pylist()]
    assert sorted(row["n"] for row in found) == rows
    assert all(list(row) == ["n", "u", "f", "s", "d"] for row in found)


def test_dates_and_the_like_are_read_as_such(tmp_path: Path) -> None:
    columns = "d: date, t: time, ts: timestamp, i: instant, b: boolean, m: decimal_2"
    engine = Engine(f".decl ev({columns})")
    engine.load("ev", [(1, 2, 3, 4, 1, 5)])
    engine.save(tmp_path / "kb")
    options = {"kb": str(tmp_path / "kb"), "path": "ev"}
    types = "struct<d:date,t:string,ts:timestamp_ntz,i:timestamp,b:boolean,m:decimal(19,2)>"
    assert KnowledgeBaseSource(options).schema().simpleString() == types
    expected = {
        "d": date(1970, 1, 2),
        "t": "00:00:00.000002",
        "ts": datetime(1970, 1, 1, microsecond=3),
        "i": datetime(1970, 1, 1, microsecond=4, tzinfo=UTC),
        "b": True,
        "m": Decimal("5.00"),
    }
    (batch,) = Asked.read(options).batches()
    assert batch.to_pylist() == [expected]
    changes = Changes.of({**options, "state": str(tmp_path / "state")})
    (piece,) = changes.partitions(changes.initialOffset(), changes.latestOffset())
    (batch,) = changes.read(piece)
    assert batch.to_pylist() == [{**expected, "weight": 1}]


def _written(options: dict[str, str], schema: str, rows: pa.Table) -> None:
    """As Spark does it: packed by a task, stated by the driver."""
    writer = KnowledgeBaseSource(options).writer(struct(schema), overwrite=False)
    writer.commit([writer.write(iter(rows.to_batches())), None])


def struct(schema: str) -> StructType:
    """A schema such as ``x string, y int``; Spark itself would ask a JVM."""
    made = StructType()
    for field in schema.split(", "):
        name, kind = field.split()
        made.add(name, KINDS[kind])
    return made


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give one of the options kb and program\n  hint: spark.read"),
        ({"kb": "a", "program": "b"}, "give one of the options kb and program"),
        ({"kb": "a", "facts": "b"}, "the option facts is for a program"),
        ({"kb": "a", "qurey": "path(x, y)"}, "there is no option 'qurey'; did you mean 'query'?"),
        ({"kb": "a", "path": "p", "query": "p(x)"}, "give a relation or the option query, not both"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], said: str) -> None:
    with pytest.raises(GpuEngineError, match=re.escape(said)):
        Asked.read(options)


def test_places_that_are_wrong(kb: str, tmp_path: Path) -> None:
    pairs = struct("x string, y string")
    with pytest.raises(GpuEngineError, match="give the option kb and the name of a relation"):
        Target.read({"kb": kb}, pairs)
    with pytest.raises(GpuEngineError, match="nulls='skip' is not known"):
        Target.read({"kb": kb, "path": "edge", "nulls": "skip"}, pairs)
    with pytest.raises(DataError, match="y is declared symbol, which takes string"):
        Target.read({"kb": kb, "path": "edge"}, struct("x string, y int"))
    with pytest.raises(StoreError, match="not a knowledge base: there is no such directory"):
        open_engine(str(tmp_path / "nowhere"))
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved.json").write_text("{}")
    with pytest.raises(
        StoreError, match=r"Spark saved, not a knowledge base\n  hint: gpuengine.spark_bridge.open"
    ):
        open_engine(str(tmp_path / "saved"))
    temporal = gpuengine.TemporalEngine("p(a)@[0,1] .")
    temporal.materialise()
    temporal.save(tmp_path / "mtl")
    with pytest.raises(StoreError, match="is a knowledge base of RDF or DatalogMTL"):
        open_engine(str(tmp_path / "mtl"))


def test_the_function_in_sql(spark: SparkSession) -> None:
    edges(spark).createOrReplaceTempView("edges")

    def ask(sql: str, program: str = REACH) -> DataFrame:
        return spark.sql(sql, args={"program": program})

    grouped = ask("SELECT x, count(*) FROM datalog(TABLE(edges), program => :program) GROUP BY x")
    assert rows_of(grouped) == {("a", 3), ("b", 2), ("c", 1)}
    typed = ask(
        "SELECT * FROM datalog(TABLE(SELECT cast(id AS decimal(20,0)) + 18446744073709551610 u, id n, "
        "id / 2 f, string(id) s FROM range(9) WHERE id < 6), program => :program)",
        TYPES,
    )
    assert rows_of(typed) == {(str(i), Decimal(2**64 - 6 + i), i / 2, i) for i in range(5)}
    said = refused(lambda: ask("SELECT * FROM datalog(TABLE(SELECT null x, 'a' y), :program)").collect())
    assert "gpuengine.errors.DataError: edge: column x has 1 null in 1 row" in said


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        ("int", {}, "the first argument of datalog must be a table\n  hint: datalog(TABLE(edges)"),
        ("x string, y string", {"program": 1}, "program of datalog must be a text that is known"),
        (
            "x string, y string",
            {"output": "paths"},
            "no relation 'paths' in the program; did you mean 'path'?",
        ),
        ("x int, y string", {}, "x is declared symbol, which takes string"),
        ("x string", {}, "edge: only some columns have the names of attributes"),
        (
            "x string, y string",
            {"program": REACH.replace(".input edge", "")},
            "there are 2 relations without rules: edge, blocked\n  hint: name one of them: input => 'edge'",
        ),
    ],
)
def test_calls_of_the_function_that_are_wrong(table: str, options: dict[str, Any], said: str) -> None:
    is_table = " " in table
    given = AnalyzeArgument(struct(table) if is_table else IntegerType(), None, is_table, False)
    values = {"program": REACH, **options}
    rest = {name: AnalyzeArgument(StringType(), value, False, True) for name, value in values.items()}
    with pytest.raises(GpuEngineError, match=re.escape(said)):
        DatalogFunction.analyze(given, **rest)


def test_the_helper_and_views(spark: SparkSession) -> None:
    assert rows_of(edges(spark).transform(datalog, REACH)) == PATHS
    blocked = datalog({"edge": edges(spark), "blocked": spark.range(1)}, REACH, "path")
    assert rows_of(blocked) == set(EDGES)
    ends = (
        ".decl edge(x: symbol, y: symbol) .decl a(x: symbol) .decl b(x: symbol) "
        "a(x) :- edge(x, _). b(x) :- edge(_, x)."
    )
    with pytest.raises(
        GpuEngineError, match="there are 2 relations that rules end in: a, b\n  hint: name one"
    ):
        datalog(edges(spark), ends)
    assert rows_of(datalog(edges(spark), ends, "a")) == {("a",), ("b",), ("c",)}
    with pytest.raises(GpuEngineError, match="must be a DataFrame of Spark, not list"):
        datalog([("a", "b")], REACH)  # type: ignore[arg-type]
    with pytest.raises(GpuEngineError, match="a mapping names the relations itself"):
        datalog({"edge": edges(spark)}, REACH, input="edge")


def test_relations_as_views(spark: SparkSession, tmp_path: Path) -> None:
    with materialise(spark, REACH, {"edge": edges(spark)}) as out:
        assert out.create_views("seen_") == ["seen_edge", "seen_path", "seen_blocked"]
        assert spark.sql("SELECT count(*) FROM seen_path JOIN seen_edge USING (x, y)").first() == (3,)
        out.save(str(tmp_path / "saved"))
    assert open_saved(spark, str(tmp_path / "saved")).create_views("saved_")[1] == "saved_path"
    assert rows_of(spark.table("saved_path")) == PATHS
