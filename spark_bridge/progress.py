"""What a materialisation does on Spark: named jobs in its UI, their cost, reports of rounds and strata."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from gpuengine.limits import show_size
from gpuengine.spark_bridge.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Listener = Callable[[str], None]
"""Is given a line of text for each round."""

_GROUP, _DESCRIPTION = "spark.jobGroup.id", "spark.job.description"
_PROPERTIES = (_GROUP, _DESCRIPTION, "spark.job.interruptOnCancel")


@dataclass(slots=True)
class RoundReport:
    """A round of a fixpoint: new facts by relation, and where it ran (``cluster``, ``driver``)."""

    number: int
    delta: dict[str, int]
    seconds: float
    shuffle_bytes: int
    where: str


@dataclass(slots=True)
class StratumReport:
    """A stratum: by which method it was evaluated, and why by that one."""

    number: int
    relations: tuple[str, ...]
    method: str
    why: str
    rounds: list[RoundReport] = field(default_factory=list)
    seconds: float = 0.0
    shuffle_bytes: int = 0


@dataclass(slots=True)
class SparkReport:
    """A materialisation: where it ran, and why there."""

    where: str
    why: str
    strata: list[StratumReport] = field(default_factory=list)
    seconds: float = 0.0
    shuffle_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json`."""
        report = asdict(self)
        for stratum in report["strata"]:
            stratum["relations"] = list(stratum["relations"])
        return report


class JobWatch:
    """The jobs of one materialisation: one job group, so that they can be cancelled together.

    Jobs belong to it that this thread starts inside of `named`. Over Spark Connect counts are 0, as only the
    server can tell. Counts are kept here, since Spark forgets
    all but the last thousand jobs and stages.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.group = f"gpuengine-{uuid.uuid4()}"
        self._spark: Any = spark
        self._context: Any = None if is_connect(spark) else spark.sparkContext
        self._jobs: set[int] = set()
        self._settled: set[int] = set()
        self._shuffled: dict[int, int] = {}

    @contextmanager
    def named(self, description: str) -> Iterator[None]:
        """Have the Spark UI show the jobs started inside by this name."""
        if self._context is None:
            with self._tagged(description):
                yield
            return
        context = self._context
        before = {name: context.getLocalProperty(name) for name in _PROPERTIES}
        context.setJobGroup(self.group, description)
        try:
            yield
        finally:
            # A session that is stopped meanwhile has nothing to put back.
            if context._jsc is not None:
                for name, value in before.items():
                    context.setLocalProperty(name, value)

    @contextmanager
    def _tagged(self, description: str) -> Iterator[None]:
        """Over Spark Connect jobs have tags in place of groups and descriptions."""
        tags = {self.group, description.replace(",", ";")} - self._spark.getTags()
        for tag in tags:
            self._spark.addTag(tag)
        try:
            yield
        finally:
            for tag in tags:
                self._spark.removeTag(tag)

    def cancel(self) -> None:
        """Stop the jobs that run."""
        if self._context is None:
            self._spark.interruptTag(self.group)
        else:
            self._context.cancelJobGroup(self.group)

    def jobs(self) -> int:
        """How many jobs were started so far."""
        self._look()
        return len(self._jobs)

    def shuffle_bytes(self) -> int:
        """How many bytes their stages wrote for others to fetch so far."""
        self._look()
        return sum(self._shuffled.values())

    def _look(self) -> None:
        """Read what Spark knows of the group's jobs, but not of those that were done at the last look."""
        if self._context is None:
            return
        scala_context = self._context._jsc.sc()
        # Spark learns of a finished task from a queue of events, and may be behind.
        scala_context.listenerBus().waitUntilEmpty()
        tracker, store = self._context.statusTracker(), scala_context.statusStore()
        self._jobs.update(tracker.getJobIdsForGroup(self.group))
        for job in self._jobs - self._settled:
            info = tracker.getJobInfo(job)
            if info is None:
                self._settled.add(job)
                continue
            for stage in info.stageIds:
                if tracker.getStageInfo(stage) is not None:
                    self._shuffled[stage] = store.lastStageAttempt(stage).shuffleWriteBytes()
            if info.status != "RUNNING":
                self._settled.add(job)


def describe_round(number: int, of: int, relations: Sequence[str], report: RoundReport) -> str:
    """A line such as ``stratum 2/3 path  round 5  delta 12,034  shuffled 3.1 MB  cluster``."""
    delta = sum(report.delta.values())
    return (
        f"stratum {number}/{of} {', '.join(relations)}  round {report.number}  delta {delta:,}  "
        f"shuffled {show_size(report.shuffle_bytes)}  {report.where}"
    )
