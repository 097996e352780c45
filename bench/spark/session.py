"""The session of a cell, and what Spark did in it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONF = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "100000",
    "spark.ui.retainedStages": "100000",
    # As `session` has it for local[2]; contenders on every master get the same.
    "spark.sql.shuffle.partitions": "8",
}


def start(master: str) -> SparkSession:
    """A session that has run a job."""
    from gpuengine.spark_bridge import session

    spark = session(master=master, app_name="gpuengine bench", conf=_CONF)
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).selectExpr("sum(id)").collect()
    return spark


class Jobs:
    """The jobs of a session, and the stages of them that ran, since the last look."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = spark.sparkContext
        self._next = 0
        self.look()

    def look(self) -> dict[str, int]:
        """How many jobs there were, and how many bytes their stages wrote for others to fetch."""
        scala_context = self._context._jsc.sc()
        # Spark learns of finished tasks from a queue of events, and may be behind.
        scala_context.listenerBus().waitUntilEmpty()
        tracker, first = self._context.statusTracker(), self._next
        stages: set[int] = set()
        while (job := tracker.getJobInfo(self._next)) is not None:
            stages.update(stage for stage in job.stageIds if tracker.getStageInfo(stage) is not None)
            self._next += 1
        store = scala_context.statusStore()
        self.stages = [store.lastStageAttempt(stage) for stage in stages]
        written = sum(stage.shuffleWriteBytes() for stage in self.stages)
        return {"jobs": self._next - first, "shuffle_bytes": written}

    def longest_stage(self) -> dict[str, float]:
        """Of the longest one: how many tasks, the longest over their mean, rows shuffled for later stages.

        The rows that tell how many facts each task has counted are left out of these.
        """
        longest = max(self.stages, key=lambda stage: stage.executorRunTime())
        store = self._context._jsc.sc().statusStore()
        tasks = _elements(store.taskList(longest.stageId(), longest.attemptId(), 1000))
        spent = [task.duration().get() for task in tasks]
        return {
            "tasks": len(spent),
            "uneven": max(spent) * len(spent) / max(sum(spent), 1),
            "moved": max(0, longest.shuffleWriteRecords() - len(spent)),
        }


def processor_seconds() -> float | None:
    """What this process, those that it started and those that they did have computed; None if /proc has not.

    On local-cluster masters these are the driver, its JVM, the executors and their Python workers. On a
    machine with other work it says more than the time on the clock.
    """
    ticks: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            # Of those that have ended, whoever waited for them knows.
            ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    if os.getpid() not in ticks:
        return None
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += ticks[process][1]
        waiting += [other for other, (parent, _) in ticks.items() if parent == process]
    return total / os.sysconf("SC_CLK_TCK")


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(j) for j in range(sequence.size())]


def digest(frame: DataFrame) -> int:
    """The same for two frames of the same rows, whatever their order."""
    from pyspark.sql import functions as F

    row = frame.agg(F.bit_xor(F.xxhash64(*frame.columns))).first()
    return 0 if row is None or row[0] is None else int(row[0])
