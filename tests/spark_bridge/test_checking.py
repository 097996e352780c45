"""Inputs against declarations: which columns, which types, which values."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from gpuengine.errors import DataError
from gpuengine.language import parse_program
from gpuengine.spark_bridge.checking import check_inputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RELATIONS = parse_program(
    """
    .decl edge(a: number, b: number)
    .decl size(u: unsigned)
    .decl weight(f: float)
    .decl name(s: symbol)
    .decl ready()
    .decl born(d: date)
    """
).relations


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def refusal(name: str, frame: object, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        check_inputs(RELATIONS, {name: frame}, **options)  # type: ignore[dict-item,arg-type]
    return str(caught.value)


def test_columns_are_found_by_name_and_else_by_position(spark: SparkSession) -> None:
    named = spark.createDataFrame([(9, 2, 1)], "note int, b int, a smallint")
    placed = spark.createDataFrame([(1, 2)], "`x.y` int, `x.y` bigint")
    checked = check_inputs(RELATIONS, {"edge": named})["edge"]
    assert checked.frame.schema.simpleString() == "struct<c0:bigint,c1:bigint>"
    assert rows_of(checked.frame) == [(1, 2)]
    assert rows_of(check_inputs(RELATIONS, {"edge": placed})["edge"].frame) == [(1, 2)]
    wrong = spark.createDataFrame([(1, 2, 3)], "x int, y int, z int")
    assert refusal("edge", wrong) == "edge: 3 columns (x, y, z), expected 2 (a, b)"


def test_names_that_are_not_declared(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1, 2)], "a int, b int")
    assert refusal("egde", frame) == "no relation 'egde' in the program; did you mean 'edge'?"
    assert refusal("q", frame) == "no relation 'q' in the program"
    assert refusal("edge", [(1, 2)]).startswith("edge: expected a Spark DataFrame, got builtins.list")
    assert "nulls='keep' is not known" in refusal("edge", frame, nulls="keep")


@pytest.mark.parametrize(
    ("relation", "type", "said"),
    [
        ("size", "double", "column u holds double, but u is declared unsigned, which takes an integer type"),
        ("size", "string", 'hint: cast it first: df.withColumn("u", df["u"].cast("decimal(20,0)"))'),
        ("size", "decimal(10,2)", "column u holds decimal(10,2)"),
        ("weight", "string", "column f (given as u) holds string, but f is declared float"),
        ("name", "int", 'takes string\n  hint: cast it first: df.withColumn("u", df["u"].cast("string"))'),
        ("name", "array<string>", "column s (given as u) holds array<string>"),
        ("size", "date", "column u holds date"),
        ("born", "date", "born: d is declared date, which Spark does not read here yet"),
    ],
)
def test_types_that_do_not_fit(spark: SparkSession, relation: str, type: str, said: str) -> None:
    assert said in refusal(relation, spark.createDataFrame([], f"u {type}"))


@pytest.mark.parametrize(
    ("relation", "query", "expected"),
    [
        ("size", "SELECT true", 1),
        ("size", "SELECT CAST(5 AS tinyint)", 5),
        ("size", f"SELECT CAST({2**63 - 1} AS bigint)", 2**63 - 1),
        ("size", f"SELECT CAST({2**64 - 1} AS decimal(20,0))", -1),
        ("size", f"SELECT CAST({2**63} AS decimal(38,0))", -(2**63)),
        ("weight", "SELECT CAST(1.5 AS float)", 1.5),
        ("weight", "SELECT CAST(0.1 AS decimal(3,1))", 0.1),
        ("weight", f"SELECT CAST({2**53} AS bigint)", float(2**53)),
        ("name", "SELECT CAST('x' AS varchar(3))", "x"),
        ("name", "SELECT 'Ä' COLLATE UTF8_LCASE", "Ä"),
        ("name", "SELECT CAST('ü' AS binary)", "ü"),
    ],
)
def test_types_that_fit(spark: SparkSession, relation: str, query: str, expected: object) -> None:
    checked = check_inputs(RELATIONS, {relation: spark.sql(query).toDF("v")})[relation]
    assert rows_of(checked.frame) == [(expected,)]
    plain = {"size": "bigint", "weight": "double", "name": "string"}[relation]
    assert checked.frame.schema.simpleString() == f"struct<c0:{plain}>"


def test_decimals_at_the_edges_of_number(spark: SparkSession) -> None:
    edges = [(Decimal(-(2**63)), Decimal(2**63 - 1))]
    frame = spark.createDataFrame(edges, "a decimal(38,0), b decimal(19,0)")
    assert rows_of(check_inputs(RELATIONS, {"edge": frame})["edge"].frame) == [(-(2**63), 2**63 - 1)]
    outside = spark.createDataFrame([(Decimal(2**63), Decimal(0))], "a decimal(38,0), b decimal(19,0)")
    for digest in (False, True):
        said = refusal("edge", outside, digest=digest)
        assert (
            said
            == f"edge: column a has 1 value outside {-(2**63)}..{2**63 - 1}, the range of number, in 1 row"
        )


def test_values_that_do_not_fit_are_counted(spark: SparkSession) -> None:
    negative = spark.createDataFrame([(-1,), (-2,), (3,)], "u int")
    assert (
        "size: column u has 2 values outside 0..18446744073709551615, the range of unsigned, in 3 rows"
        in (refusal("size", negative))
    )
    large = spark.createDataFrame([(Decimal(2**64),), (Decimal(-1),)], "u decimal(38,0)")
    assert "column u has 2 values outside" in refusal("size", large, digest=True)
    assert "beyond 2**53" in refusal("weight", spark.createDataFrame([(2**53 + 1,)], "f bigint"))
    assert "1 value not in UTF-8, in 1 row" in refusal("name", spark.sql("SELECT unhex('ff') AS s"))


def test_nulls_are_named_counted_or_dropped(spark: SparkSession) -> None:
    frame = spark.range(1000).selectExpr("id AS a", "if(id < 3, NULL, id) AS b")
    assert refusal("edge", frame) == (
        "edge: column b has 3 nulls in 1,000 rows\n  hint: nulls='drop' (--nulls drop) leaves these rows out"
    )
    dropped = check_inputs(RELATIONS, {"edge": frame}, nulls="drop")["edge"]
    assert dropped.rows == dropped.frame.count() == 997
    both = spark.createDataFrame([(None, None), (1, None)], "a int, b void")
    assert "column a has 1 null in 2 rows\nedge: column b has 2 nulls in 2 rows" in refusal("edge", both)
    assert check_inputs(RELATIONS, {"edge": both}, nulls="drop")["edge"].rows == 0


def test_a_bad_value_in_a_row_that_is_dropped_is_dropped_with_it(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(Decimal(2**63), None), (Decimal(1), 2)], "a decimal(38,0), b int")
    assert rows_of(check_inputs(RELATIONS, {"edge": frame}, nulls="drop")["edge"].frame) == [(1, 2)]


def test_the_digest_depends_on_rows_and_not_on_their_order(spark: SparkSession) -> None:
    def digest(frame: DataFrame) -> int | None:
        return check_inputs(RELATIONS, {"edge": frame}, digest=True, nulls="drop")["edge"].digest

    frame = spark.range(500).selectExpr("id AS a", "id * 7 AS b")
    first = digest(frame)
    assert first is not None and first == digest(frame.orderBy("b", ascending=False).repartition(5))
    assert first != digest(frame.where("a <> 77")) and first != digest(frame.selectExpr("b AS a", "a AS b"))
    assert first == digest(frame.union(spark.sql("SELECT 1, NULL")))
    assert digest(frame.limit(0)) == 0
    assert check_inputs(RELATIONS, {"edge": frame})["edge"].digest is None


def test_a_relation_of_no_columns_holds_if_there_is_a_row(spark: SparkSession) -> None:
    some = check_inputs(RELATIONS, {"ready": spark.range(5)})["ready"]
    assert some.rows == 1 and rows_of(some.frame) == [(0,)]
    none = check_inputs(RELATIONS, {"ready": spark.range(0)})["ready"]
    assert none.rows == 0 and rows_of(none.frame) == []


def test_one_job_for_each_input(spark: SparkSession) -> None:
    frame = spark.range(10).selectExpr("id AS a", "id AS b")
    context = spark.sparkContext
    context.setJobGroup("checking", "one job")
    try:
        check_inputs(RELATIONS, {"edge": frame, "size": frame.select("a")}, digest=True)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    # With adaptive execution a job has one more for its shuffle.
    assert 2 <= len(context.statusTracker().getJobIdsForGroup("checking")) <= 4
