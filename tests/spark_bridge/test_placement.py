"""Where a program is evaluated, why there, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuengine.errors import DataError, GpuEngineError, MemoryBudgetError, SparkError
from gpuengine.spark_bridge import encode, materialise
from tests.spark_bridge.test_materialise import CLOSURE, EDGES, assert_same, engine_of, facts_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD = ".type P = [a: number, b: number]\n.decl q(n: number)\n.decl p(x: P)\np([n, 1]) :- q(n).\n"
ADT = ".type T = Leaf {} | Node { n: number }\n.decl q(n: number)\n.decl t(x: T)\nt($Node(n)) :- q(n).\n"
LIMITED = ".decl q(n: number)\n.decl r(n: number)\nr(n) :- q(n).\nr(n + 1) :- r(n).\n.limitsize r(n=5)\n"


def numbers(spark: SparkSession) -> dict[str, DataFrame | str]:
    return {"q": spark.createDataFrame([(1,), (2,)], "n bigint")}


def edges(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(EDGES, "a bigint, b bigint")


def test_auto_is_the_driver_if_the_facts_fit(spark: SparkSession) -> None:
    report = assert_same(spark, CLOSURE, {"edge": EDGES})
    assert report.where == "driver"
    assert re.fullmatch(r"7 facts may take 448 B, of .* that an engine on the driver has", report.why)


def test_facts_that_do_not_fit_go_to_the_cluster(spark: SparkSession) -> None:
    report = assert_same(spark, CLOSURE, {"edge": EDGES}, memory="300B")
    assert (report.where, report.why) == ("cluster", "7 facts may take 448 B, too much for one engine")


def test_an_engine_that_runs_out_of_memory_is_followed_by_the_cluster(spark: SparkSession) -> None:
    chain = [(n, n + 1) for n in range(300)]
    heard: list[str] = []
    report = assert_same(spark, CLOSURE, {"edge": chain}, memory="40KB", watch=heard.append)
    assert (report.where, report.why) == ("cluster", "it did not fit one engine on the driver")
    assert "evaluating on the cluster: it did not fit one engine on the driver" in heard
    with pytest.raises(MemoryBudgetError):
        materialise(spark, CLOSURE, {"edge": spark.createDataFrame(chain)}, memory="40KB", where="driver")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (RECORD, "p has values of type P, which only one engine can hold"),
        (ADT, "t has values of type T, which only one engine can hold"),
        (LIMITED, "r has a .limitsize, which only one engine can count to"),
    ],
    ids=["record", "adt", "limitsize"],
)
def test_what_only_one_engine_can_evaluate(spark: SparkSession, program: str, reason: str) -> None:
    facts = {"q": [(1,), (2,)]}
    with pytest.raises(SparkError, match=rf"{re.escape(reason)}\n  hint: where='driver'"):
        materialise(spark, program, numbers(spark), where="cluster")
    results = materialise(spark, program, numbers(spark), memory="100MB")
    assert (results.report.where, results.report.why) == ("driver", reason)
    name = list(results)[1]
    assert results.counts[name] == len(facts_of(engine_of(program, facts), name))
    if program is not LIMITED:
        with pytest.raises(SparkError, match=re.escape(reason)):
            materialise(spark, program, numbers(spark), where="executor")


def test_places_and_relations_that_are_not_there(spark: SparkSession) -> None:
    frame = edges(spark)
    with pytest.raises(SparkError, match="no place 'moon' to evaluate at\n  hint: it is one of auto, driver"):
        materialise(spark, CLOSURE, {"edge": frame}, where="moon")
    with pytest.raises(GpuEngineError, match=r"no relation 'pth' in the program; did you mean 'path'\?"):
        materialise(spark, CLOSURE, {"edge": frame}, wanted=["pth"])
    with pytest.raises(GpuEngineError, match=r"no relation 'edgs' in the program; did you mean 'edge'\?"):
        materialise(spark, CLOSURE, {"edgs": frame})
    with pytest.raises(SparkError, match="no inputs to send to an executor"):
        materialise(spark, CLOSURE, {}, where="executor")
    with pytest.raises(SparkError, match="encoded inputs are for the cluster, not for where='driver'"):
        materialise(spark, CLOSURE, encode(spark, CLOSURE, {"edge": frame}), where="driver")


def test_only_what_is_wanted_is_there(spark: SparkSession) -> None:
    for where in ("driver", "executor", "cluster"):
        results = materialise(spark, CLOSURE, {"edge": edges(spark)}, wanted=["edge"], where=where)
        assert list(results) == ["edge"]
        assert rows_of(results["edge"]) == sorted(map(repr, EDGES))
        with pytest.raises(KeyError, match="'path' was not materialised; there are edge"):
            results["path"]


@pytest.mark.parametrize("where", ["driver", "executor", "cluster"])
def test_frames_that_do_not_fit(spark: SparkSession, where: str) -> None:
    def run(rows: list[Any], schema: str, **options: Any) -> Any:
        frame = spark.createDataFrame(rows, schema)
        return materialise(spark, CLOSURE, {"edge": frame}, where=where, **options)

    with pytest.raises(DataError, match="edge: column a"):
        run([("x", 1)], "a string, b bigint")
    with pytest.raises(DataError, match="edge"):
        run([(1,)], "a bigint")
    with pytest.raises(DataError, match="edge: column b has 2 nulls in 3 rows\n  hint: nulls='drop'"):
        run([(1, None), (1, 2), (2, None)], "a bigint, b bigint")
    assert rows_of(run([(1, None), (1, 2)], "a bigint, b bigint", nulls="drop")["path"]) == ["(1, 2)"]
    with pytest.raises(SparkError, match="must be a DataFrame of Spark, not list"):
        materialise(spark, CLOSURE, {"edge": EDGES}, where=where)  # type: ignore[dict-item]


def test_one_directory_and_a_macro_that_is_a_number(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rules.dl").write_text(CLOSURE + "path(N, N).\n")
    results = materialise(
        spark, '#include "rules.dl"\n', {"edge": edges(spark)}, include_dirs=str(tmp_path), macros={"N": 77}
    )
    assert {tuple(row) for row in results["path"].collect()} >= {(77, 77)}
    with pytest.raises(GpuEngineError, match="macros go by name"):
        materialise(spark, CLOSURE, {"edge": edges(spark)}, macros="N")  # type: ignore[arg-type]
