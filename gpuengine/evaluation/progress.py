"""What an evaluation is doing, for whoever watches: plain counters, written by one thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpuengine.evaluation.host_work import HostWork


@dataclass
class RuleStatistics:
    """What one rule cost: seconds, bindings that reached its head, facts that were new, evaluations."""

    text: str
    seconds: float = 0.0
    candidates: int = 0
    derived: int = 0
    evaluations: int = 0


@dataclass
class StratumStatistics:
    """Where one stratum ran: rounds by backend, in the order of their first use, and moves between rounds."""

    number: int
    relations: tuple[str, ...]
    rounds: dict[str, int] = field(default_factory=dict)
    moves: int = 0


@dataclass(frozen=True, slots=True)
class SchemeChoice:
    """How a relation is stored, and why."""

    scheme: str
    why: str


@dataclass
class Progress:
    """Readable at any time from another thread; the numbers are of the last completed step."""

    strata: int = 0
    stratum: int = 0
    relations: tuple[str, ...] = ()
    rounds: int = 0
    round_in_stratum: int = 0
    delta: int = 0
    facts: int = 0
    nbytes: int = 0
    rule: str = ""
    started: float = field(default_factory=time.perf_counter)
    rules: dict[str, RuleStatistics] = field(default_factory=dict)
    placed: list[StratumStatistics] = field(default_factory=list)
    schemes: dict[str, SchemeChoice] = field(default_factory=dict)
    host_work: HostWork = field(default_factory=HostWork)

    def restart(self) -> None:
        """Begin again with something else, for whoever watches."""
        host_work = self.host_work
        self.__dict__.update(vars(Progress()))
        self.host_work = host_work

    @property
    def where(self) -> str:
        """What is being done, for who ends it: the rule, and how far its stratum is; empty before that."""
        if not self.rule:
            return ""
        place = f"stratum {self.stratum} of {self.strata}, " if self.strata else ""
        return f"deriving by: {self.rule} ({place}round {self.round_in_stratum:,}, {self.facts:,} facts)"

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started
