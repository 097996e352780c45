"""Named jobs and their cost, on a real session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpuengine.spark_bridge.progress import (
    JobWatch,
    RoundReport,
    SparkReport,
    StratumReport,
    describe_round,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTIES = ("spark.jobGroup.id", "spark.job.description")


def test_jobs_carry_their_name_and_what_was_set_before_is_restored(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("users", "the user's own")
    watch = JobWatch(spark)
    with watch.named("stratum 2 (path), round 5"):
        spark.range(4).count()
        assert context.getLocalProperty("spark.jobGroup.id") == watch.group
    assert [context.getLocalProperty(name) for name in PROPERTIES] == ["users", "the user's own"]
    jobs = list(context.statusTracker().getJobIdsForGroup(watch.group))
    assert watch.jobs() == len(jobs) > 0
    store = context._jsc.sc().statusStore()  # type: ignore[union-attr]
    assert {store.job(job).description().get() for job in jobs} == {"stratum 2 (path), round 5"}
    for name in PROPERTIES:
        context.setLocalProperty(name, None)  # type: ignore[arg-type]


def test_properties_are_restored_after_a_failure_and_were_unset_before(spark: SparkSession) -> None:
    with pytest.raises(ValueError), JobWatch(spark).named("fails"):
        raise ValueError
    assert [spark.sparkContext.getLocalProperty(name) for name in PROPERTIES] == [None, None]


def test_shuffle_bytes_count_own_shuffles_only_and_never_fall(spark: SparkSession) -> None:
    watch, other = JobWatch(spark), JobWatch(spark)
    frame = spark.range(0, 1000, 1, 2)
    with watch.named("no shuffle"):
        frame.filter("id > 5").collect()
    assert watch.shuffle_bytes() == 0
    with other.named("another's"):
        frame.repartition(3, "id").collect()
    with watch.named("one shuffle"):
        frame.repartition(3, "id").collect()
    first = watch.shuffle_bytes()
    # 1,000 numbers of 8 bytes, compressed but not to nothing.
    assert 1000 < first < 50_000
    assert first == pytest.approx(other.shuffle_bytes(), rel=0.2)
    with watch.named("a second one"):
        frame.repartition(3, "id").collect()
    assert watch.shuffle_bytes() == pytest.approx(2 * first, rel=0.2)
    assert watch.shuffle_bytes() == watch.shuffle_bytes()


def test_stages_that_are_skipped_are_counted_once(spark: SparkSession) -> None:
    watch = JobWatch(spark)
    shuffled = spark.range(0, 1000, 1, 2).repartition(3, "id").cache()
    with watch.named("made"):
        shuffled.count()
    made = watch.shuffle_bytes()
    with watch.named("read again"):
        shuffled.filter("id > 5").collect()
    assert watch.shuffle_bytes() == made
    shuffled.unpersist()


def test_a_line_for_each_round() -> None:
    report = RoundReport(5, {"path": 12_000, "cycle": 34}, 0.5, 3_250_000, "cluster")
    line = "stratum 2/3 path, cycle  round 5  delta 12,034  shuffled 3.1 MB  cluster"
    assert describe_round(2, 3, ("path", "cycle"), report) == line


def test_reports_are_plain_data() -> None:
    rounds = [RoundReport(1, {"path": 3}, 0.25, 12, "driver")]
    report = SparkReport("cluster", "too large", [StratumReport(1, ("path",), "rounds", "no key", rounds)])
    plain = report.to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["strata"][0]["rounds"][0] == {
        "number": 1,
        "delta": {"path": 3},
        "seconds": 0.25,
        "shuffle_bytes": 12,
        "where": "driver",
    }
