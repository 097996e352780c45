"""Failures of real jobs, told as errors of the package."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from gpuengine import errors
from gpuengine.errors import GpuEngineError, Interrupted, SparkError
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.progress import JobWatch
from tests.spark_bridge.scripts import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
Action = Callable[["DataFrame"], object]


def failing(spark: SparkSession, task: Callable[[Batches], Batches], act: Action) -> GpuEngineError:
    """What comes of a job with this task."""
    frame = spark.range(0, 4, 1, 1).mapInArrow(task, "id bigint")
    with pytest.raises(GpuEngineError) as raised, spark_failures("stratum 1 (path)"):
        act(frame)
    assert raised.value.__cause__ is not None
    return raised.value


def task_that_raises(kind: str, message: str) -> Callable[[Batches], Batches]:
    def task(batches: Batches) -> Batches:
        from gpuengine import errors

        try:
            raise ValueError("what happened first")
        except ValueError as error:
            raise getattr(errors, kind)(message) from error
        yield from batches

    return task


ACTIONS: dict[str, Action] = {
    "collect": lambda frame: frame.collect(),
    "toArrow": lambda frame: frame.toArrow(),
    "toLocalIterator": lambda frame: list(frame.toLocalIterator()),
    "localCheckpoint": lambda frame: frame.localCheckpoint(),
    "write": lambda frame: frame.write.format("noop").mode("overwrite").save(),
}


KINDS = ("EvaluationError", "DataError", "MemoryBudgetError", "StoreError", "SparkError")


@pytest.mark.parametrize(("action", "kind"), list(zip(ACTIONS, KINDS, strict=True)))
def test_an_own_error_of_a_task_is_raised_as_it_was(spark: SparkSession, action: str, kind: str) -> None:
    message = "rule 3 of path: too large\n  at: somewhere\n  hint: use less: 1 GB"
    error = failing(spark, task_that_raises(kind, message), ACTIONS[action])
    assert type(error) is getattr(errors, kind)
    assert str(error) == message


def without(package: str) -> Callable[[Batches], Batches]:
    def task(batches: Batches) -> Batches:
        __import__(package)
        yield from batches

    return task


def divide(batches: Batches) -> Batches:
    yield next(batches).slice(1 // 0)


def run_out(batches: Batches) -> Batches:
    raise MemoryError
    yield from batches


def vanish(batches: Batches) -> Batches:
    import os

    os._exit(9)
    yield from batches


@pytest.mark.parametrize(
    ("task", "line"),
    [
        (without("no_such_package.part"), "the package no_such_package is not on an executor"),
        (divide, "a task failed: ZeroDivisionError: integer division or modulo by zero"),
        (run_out, "a Python worker ran out of memory, or was killed"),
        (vanish, "a Python worker ran out of memory, or was killed"),
    ],
)
def test_other_failures_of_a_task(spark: SparkSession, task: Callable[[Batches], Batches], line: str) -> None:
    error = failing(spark, task, ACTIONS["toArrow"])
    assert type(error) is SparkError
    assert str(error).splitlines()[0] == f"stratum 1 (path): {line}"


@pytest.mark.parametrize(
    ("act", "line"),
    [
        (lambda spark: spark.range(3).select("absent"), "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
        (
            lambda spark: spark.range(3).selectExpr("9223372036854775807 + id").collect(),
            "[ARITHMETIC_OVERFLOW]",
        ),
        (lambda spark: spark.read.parquet("/no/such/folder"), "[PATH_NOT_FOUND]"),
    ],
)
def test_failures_without_python_tell_the_cause_and_log_nothing(
    spark: SparkSession, act: Callable[[SparkSession], object], line: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SparkError) as raised, spark_failures("reading edge"):
        act(spark)
    assert str(raised.value).startswith(f"reading edge: {line}")
    assert "\n\tat " not in str(raised.value)
    assert '"exception"' not in capfd.readouterr().err


def test_own_errors_of_the_driver_and_bugs_pass_through() -> None:
    with pytest.raises(errors.DataError, match=r"^row 3$"), spark_failures("reading edge"):
        raise errors.DataError("row 3")
    with pytest.raises(KeyError), spark_failures("reading edge"):
        raise KeyError("a bug")


def sleep(batches: Batches) -> Batches:
    time.sleep(30)
    yield from batches


def test_cancelled_jobs(spark: SparkSession) -> None:
    watch = JobWatch(spark)

    def cancel() -> None:
        while not watch.jobs():
            time.sleep(0.05)
        watch.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(Interrupted), spark_failures("stratum 1"), watch.named("sleeps"):
        spark.range(1).mapInArrow(sleep, "id bigint").collect()
    canceller.join()


INTERRUPTED = """
import sys, threading, time
from gpuengine.errors import Interrupted
from gpuengine.spark_bridge.failures import spark_failures
from gpuengine.spark_bridge.progress import JobWatch
from gpuengine.spark_bridge.sessions import session
spark = session(master="local[1]", conf={"spark.ui.enabled": "false"})
watch = JobWatch(spark)
def sleep(batches):
    import time
    time.sleep(60)
    yield from batches
def announce():
    while not watch.jobs():
        time.sleep(0.2)
    print("ready", flush=True)
threading.Thread(target=announce).start()
try:
    with watch.named("sleeps"), spark_failures("stratum 1"):
        spark.range(1).mapInArrow(sleep, "id bigint").collect()
except Interrupted as error:
    tracker = spark.sparkContext.statusTracker()
    for _ in range(100):
        if not tracker.getActiveJobsIds():
            break
        time.sleep(0.1)
    print(error, tracker.getActiveJobsIds(), flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_cancels_the_jobs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, str(script)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "interrupted; nothing was changed []\n", err[-4000:]
