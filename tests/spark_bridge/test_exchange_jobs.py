"""Exchanges on a real session: what Spark makes of a barrier stage, and what follows without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gpuengine.errors import FunctorError
from gpuengine.spark_bridge import Limits, exchange, materialise, strata
from gpuengine.spark_bridge.mesh import MeshError
from tests.spark_bridge.test_exchange import MUTUAL, PARENTS, SAME_GENERATION
from tests.spark_bridge.test_materialise import EDGES, ONLY, assert_same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

EXCHANGED = ONLY["exchanged"]


@pytest.mark.parametrize("sent", [20_000_000, 0])
def test_strata_that_read_each_other(spark: SparkSession, sent: int) -> None:
    program = (
        SAME_GENERATION
        + """
        .decl lone(x: number)
        .decl near(x: number, y: number)
        lone(x) :- parent(x, _), !sg(x, 2).
        near(x, y) :- sg(x, y), x < y, !lone(y).
        near(x, y) :- sg(x, z), near(z, w), sg(w, y).
        """
    )
    limits = Limits(driver=0, sent=sent, methods=("exchanged", "rounds"))
    report = assert_same(spark, program, {"parent": PARENTS[:30]}, where="cluster", limits=limits)
    assert [stratum.method for stratum in report.strata] == ["exchanged", "joins", "exchanged"]
    first = report.strata[0]
    assert [one.number for one in first.rounds] == list(range(1, len(first.rounds) + 1))
    assert first.rounds[-1].delta == {"sg": 0} and any(one.delta["sg"] for one in first.rounds)


def test_relations_that_depend_on_each_other(spark: SparkSession) -> None:
    facts = {"edge": [*EDGES, (1, 2), (-5, 1 << 40)], "blocked": [(9,)]}
    report = assert_same(spark, MUTUAL, facts, where="cluster", limits=EXCHANGED)
    methods = {stratum.relations: stratum.method for stratum in report.strata}
    assert methods["even", "odd"] == "exchanged"


def test_no_facts(spark: SparkSession) -> None:
    (stratum,) = assert_same(spark, SAME_GENERATION, {"parent": []}, where="cluster", limits=EXCHANGED).strata
    assert (stratum.method, stratum.rounds) == ("exchanged", [])


def test_what_follows_is_no_part_of_the_barrier_stage(spark: SparkSession) -> None:
    parent = spark.createDataFrame(PARENTS, "child bigint, parent bigint")
    with materialise(spark, SAME_GENERATION, {"parent": parent}, where="cluster", limits=EXCHANGED) as out:
        sg = out["sg"]
        assert sg.limit(3).count() == 3 and len(sg.take(2)) == 2
        assert sg.union(sg).coalesce(1).count() == 2 * out.counts["sg"]


def test_an_error_of_a_task_is_raised_here(spark: SparkSession) -> None:
    program = """
    .decl start(x: number)
    .decl reach(x: number, y: number)
    reach(x, 0) :- start(x).
    reach(x, y + 10 / (3 - x)) :- reach(x, y), y < 50.
    """
    start = spark.range(5).toDF("x")
    with pytest.raises(FunctorError) as caught:
        materialise(spark, program, {"start": start}, where="cluster", limits=EXCHANGED)
    assert any("10 / (3 - x)" in note for note in caught.value.__notes__)


def test_rounds_take_over_where_tasks_cannot_connect(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    real = strata.run_exchanged

    def refused(*arguments: Any) -> Any:
        tried.append(1)
        made = real(*arguments)
        monkeypatch.setattr(type(made), "rounds", _refuse)
        return made

    monkeypatch.setattr(strata, "run_exchanged", refused)
    monkeypatch.setattr(exchange, "_refused", {})
    heard: list[str] = []
    for _ in range(2):
        facts = {"parent": PARENTS[:14]}
        options: dict[str, Any] = {"where": "cluster", "limits": EXCHANGED, "watch": heard.append}
        (stratum,) = assert_same(spark, SAME_GENERATION, facts, **options).strata
        assert stratum.method == "rounds"
        assert stratum.why.endswith("; no exchange: a task can't listen")
    assert len(tried) == 1, "once for an application"
    assert any("evaluated in rounds, a task can't listen" in text for text in heard)


def _refuse(*arguments: Any) -> Sequence[Any]:
    raise MeshError("a task can't listen")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("spark.dynamicAllocation.enabled", "true", "no tasks are sure to run at the same time"),
        ("spark.network.crypto.enabled", "true", "asks for encryption"),
        ("spark.plugins", "com.nvidia.spark.SQLPlugin", "RAPIDS"),
    ],
)
def test_settings_that_rule_an_exchange_out(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, key: str, value: str, why: str
) -> None:
    assert exchange.tasks_at_once(spark) == (2, "")
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: {key: value})
    tasks, told = exchange.tasks_at_once(spark)
    assert tasks == 0 and why in told
