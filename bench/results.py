"""What a benchmark run found, as plain data that goes to JSON and to the reports."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from bench import published
from bench.contenders import OURS

# Load average for each core from which on timings say little.
_BUSY = 0.5


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished process: whole wall seconds, CPU seconds, peak bytes, and what it reported."""

    wall: float
    cpu: float
    peak_rss: int
    seconds: dict[str, float]
    rounds: int | None = None
    compiled_kernels: int = 0


@dataclass(slots=True)
class Outcome:
    """One engine on one workload.

    `status`: ``ok``, ``timeout``, ``memory``, ``failed`` or ``n/a``; for all but ``ok``, `reason` tells more.
    `cold` is the first process on an empty kernel cache (ours only), `warm` the ones after.
    """

    status: str = "ok"
    reason: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    cold: Sample | None = None
    warm: list[Sample] = field(default_factory=list)
    version: str = ""

    @property
    def lukewarm(self) -> bool:
        """Whether a run that should have found its kernels compiled had to compile some."""
        return any(s.compiled_kernels for s in self.warm)

    @property
    def best(self) -> float | None:
        return min((s.wall for s in self.warm), default=None) if self.status == "ok" else None

    @property
    def median(self) -> float | None:
        if self.status != "ok" or not self.warm:
            return None
        return statistics.median(s.wall for s in self.warm)

    @property
    def evaluate(self) -> float | None:
        """Best evaluation time the engine itself reported, without start-up and loading."""
        if self.status != "ok":
            return None
        return min((s.seconds["evaluate"] for s in self.warm if "evaluate" in s.seconds), default=None)

    @property
    def cpu(self) -> float | None:
        """Least processor time of all threads: on a busy machine truer than the wall clock."""
        return min((s.cpu for s in self.warm), default=None) if self.status == "ok" else None

    @property
    def peak_rss(self) -> int | None:
        return max((s.peak_rss for s in self.warm), default=None) if self.status == "ok" else None


@dataclass(slots=True)
class WorkloadResult:
    """All engines on one workload, and every disagreement between their sizes."""

    name: str
    groups: list[str]
    expected: dict[str, int]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def ours(self) -> Outcome | None:
        return self.outcomes.get(OURS)

    @property
    def output_rows(self) -> int:
        """Facts in the printed relations, as far as anyone answered."""
        answered = [o.sizes for o in self.outcomes.values() if o.sizes]
        sizes = self.expected or (answered[0] if answered else {})
        return sum(sizes.values())

    def ratio(self, peer: str) -> float | None:
        """How many times longer the peer takes than we do (best against best, whole processes)."""
        ours, other = self.ours, self.outcomes.get(peer)
        if ours is None or other is None or not ours.best or not other.best:
            return None
        return other.best / ours.best


@dataclass(slots=True)
class Report:
    """One benchmark run on one machine."""

    machine: dict[str, Any]
    settings: dict[str, Any]
    unit_seconds: float
    missing: dict[str, str]
    workloads: list[WorkloadResult] = field(default_factory=list)
    stopped: str = ""

    @property
    def failed(self) -> bool:
        """Whether sizes disagree anywhere or our own engine did not finish."""
        return any(w.problems or (w.ours is not None and w.ours.status != "ok") for w in self.workloads)

    @property
    def busy(self) -> str:
        """A warning if other processes were at work, which lengthens our times, the peers' and the unit."""
        load, cores = self.machine["load_average"], self.machine["cores"]
        if load < _BUSY * cores:
            return ""
        return f"The machine was busy (load {load:.1f} on {cores} cores): do not quote these times."

    @property
    def unit_factor(self) -> float:
        """How much slower than the published machine this one sorts."""
        return self.unit_seconds / published.UNIT_SECONDS

    @property
    def duckdb_factor(self) -> float | None:
        """How much slower than on the published machine DuckDB is here: geometric mean over what ran."""
        ratios = []
        for workload in self.workloads:
            known = published.SECONDS.get(workload.name, {})
            for column in ("duckdb-cte", "duckdb-loop"):
                outcome = workload.outcomes.get(column)
                if column in known and outcome is not None and outcome.best:
                    ratios.append(outcome.best / known[column])
        return geometric_mean(ratios)

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["unit_factor"], data["duckdb_factor"] = self.unit_factor, self.duckdb_factor
        for workload, entry in zip(self.workloads, data["workloads"], strict=True):
            for name, outcome in workload.outcomes.items():
                entry["outcomes"][name] |= {
                    "best": outcome.best,
                    "median": outcome.median,
                    "evaluate": outcome.evaluate,
                    "cpu": outcome.cpu,
                    "peak_rss": outcome.peak_rss,
                    "times_ours": workload.ratio(name),
                }
        return data


def geometric_mean(values: Iterable[float]) -> float | None:
    """None for no values."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs)) if logs else None
