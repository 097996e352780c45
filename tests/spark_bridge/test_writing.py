"""Frames to datasets: all of them or none, and read back as they were."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuengine import Engine
from gpuengine.errors import DataError, GpuEngineError
from gpuengine.spark_bridge.datasets import Target, find_targets, read_dataset, write_results
from gpuengine.spark_bridge.filesystem import FileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DECLARED = ".decl r(n: number, u: unsigned, f: float, s: symbol)\n"
ROWS = [(1, 2, 0.5, "x"), (-1, 2**64 - 1, -1e300, "é y"), (0, 0, float("inf"), "")]


def sample(spark: SparkSession) -> DataFrame:
    rows = [(n, Decimal(u), f, s) for n, u, f, s in ROWS]
    return spark.createDataFrame(rows, "n bigint, u decimal(20,0), f double, s string").repartition(2)


def targets_of(program: str, output_dir: Path) -> list[Target]:
    return find_targets(Engine(program).program.directives, str(output_dir))


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (".output r", "r.parquet"),
        (".output r(IO=parquet)", "r.parquet"),
        ('.output r(filename="sub/x.orc")', "sub/x.orc"),
        ('.output r(filename="x.facts")', "x.facts"),
        (".output r(IO=tsv)", "r.tsv"),
        (".output r(IO=csv)", "r.csv"),
        (".output r(IO=csv, headers=true, compress=true)", "r.csv"),
        ('.output r(delimiter="|")', "r.csv"),
    ],
)
def test_what_is_written_is_read_back(spark: SparkSession, tmp_path: Path, output: str, name: str) -> None:
    (target,) = targets_of(DECLARED + output, tmp_path)
    assert target.path == f"{tmp_path}/{name}"
    told: list[str] = []
    write_results(spark, {"r": sample(spark)}, [target], on_written=told.append)
    assert told == ["r"]
    assert (tmp_path / name / "_SUCCESS").exists()
    frame = read_dataset(spark, target.path, Engine(DECLARED).declared("r"), params=target.params)
    assert Counter((r[0], int(r[1]), *r[2:]) for r in frame.collect()) == Counter(ROWS)
    if not name.endswith(".orc"):
        engine = Engine(DECLARED)
        engine.load("r", tmp_path / name, params=target.params)
        assert Counter(engine["r"].to_pylist()) == Counter(ROWS)


def test_relations_without_columns_are_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    program = '.decl yes() .decl no()\n.output yes, no\n.output yes(filename="yes.facts")'
    holds = spark.createDataFrame([(True,)], "holds boolean")
    write_results(spark, {"yes": holds, "no": holds.limit(0)}, targets_of(program, tmp_path))
    engine = Engine(".decl yes() .decl no() .decl text()")
    engine.load("yes", tmp_path / "yes.parquet")
    engine.load("no", tmp_path / "no.parquet")
    engine.load("text", tmp_path / "yes.facts")
    assert [len(engine[name]) for name in ("yes", "no", "text")] == [1, 0, 1]


def test_earlier_outputs_stay_if_one_relation_fails(spark: SparkSession, tmp_path: Path) -> None:
    program = ".decl a(x: number) .decl b(x: number)\n.output a, b"
    targets = targets_of(program, tmp_path)
    good = spark.range(3).toDF("x")
    write_results(spark, {"a": good, "b": good}, targets)
    bad = spark.range(0, 40, 1, 4).selectExpr("IF(id < 39, id, assert_true(false)) AS x")
    with pytest.raises(GpuEngineError):
        write_results(spark, {"a": spark.range(9).toDF("x"), "b": bad}, targets)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]
    assert spark.read.parquet(f"{tmp_path}/a.parquet").count() == 3
    write_results(spark, {"a": spark.range(9).toDF("x"), "b": good}, targets)
    assert spark.read.parquet(f"{tmp_path}/a.parquet").count() == 9
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_an_interruption_between_relations_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    def interrupt(relation: str) -> None:
        raise KeyboardInterrupt

    target = Target("a", f"{tmp_path}/a.parquet", "parquet", {})
    with pytest.raises(KeyboardInterrupt):
        write_results(spark, {"a": spark.range(3).toDF("x")}, [target], on_written=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_between_two_moves_says_what_was_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = targets_of(".decl a(x: number) .decl b(x: number)\n.output a, b", tmp_path)
    real, told = FileSystem.replace, []

    def replace(files: FileSystem, old: str, new: str) -> None:
        if new.endswith("b.parquet"):
            raise DataError("can't move it")
        real(files, old, new)

    monkeypatch.setattr(FileSystem, "replace", replace)
    frame = spark.range(3).toDF("x")
    with pytest.raises(DataError) as caught:
        write_results(
            spark, {"a": frame, "b": frame}, targets, on_replaced=lambda done, left: told.append((done, left))
        )
    a, b = (target.path for target in targets)
    assert caught.value.__notes__ == [f"note: replaced: {a}; not replaced: {b}"]
    assert told == [([a], [b])]
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_a_folder_of_something_else_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").mkdir()
    (tmp_path / "a.parquet" / "thesis.txt").touch()
    target = Target("a", f"{tmp_path}/a.parquet", "parquet", {})
    with pytest.raises(DataError, match="not one that Spark has written"):
        write_results(spark, {"a": spark.range(3).toDF("x")}, [target])
    assert (tmp_path / "a.parquet" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (".decl a(x: number)\n.output a(IO=arrow)", "can't be written by Spark"),
        ('.decl a(x: number)\n.output a(filename="../a.csv")', "leaves the output directory"),
        ('.decl a(x: number)\n.output a(filename="/etc/a.csv")', "leaves the output directory"),
        ('.decl a(x: number) .decl b(x: number)\n.output a, b(filename="x")', "would both be written"),
        (".decl a(x: number)\n.output a(headers=true)", "no headers"),
    ],
)
def test_targets_that_can_not_be_are_refused(tmp_path: Path, program: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        targets_of(program, tmp_path)


def test_what_is_printed_is_no_target(tmp_path: Path) -> None:
    assert targets_of(".decl a(x: number)\n.output a(IO=stdout)\n.printsize a", tmp_path) == []
