"""What an evaluation is doing, for whoever watches: plain counters, written by one thread."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from gpuengine.evaluation.host_work import HostWork
from gpuengine.evaluation.timeline import Timeline
from gpuengine.planning.plan import BodyPlan, Variant


@dataclass
class RuleStatistics:
    """What one rule cost: seconds, bindings that reached its head, facts that were new, evaluations.

    `places` are the seconds by backend. Of `uncounted` candidates nobody knows whether they were new: a
    relation that selects took them, or other rules for the same relation ran in the same compiled call.
    `lost` are facts that an update found to lose a derivation by the rule; they are not among those derived.
    """

    text: str
    seconds: float = 0.0
    candidates: int = 0
    derived: int = 0
    evaluations: int = 0
    uncounted: int = 0
    lost: int = 0
    places: dict[str, float] = field(default_factory=dict)


@dataclass
class StratumStatistics:
    """Where one stratum ran: rounds by backend, in the order of their first use, and moves between rounds."""

    number: int
    relations: tuple[str, ...]
    rounds: dict[str, int] = field(default_factory=dict)
    moves: int = 0


@dataclass(slots=True)
class UsedPlan:
    """In what order a variant was joined the last time that was chosen, and how often it was.

    The size of a relation was `assumed` if it had only begun to grow. Without a `plan` it was evaluated as
    `how` says.
    """

    plan: BodyPlan | None = None
    how: str = ""
    assumed: bool = False
    times: int = 0

    def choose(self, plan: BodyPlan | None, how: str = "", *, assumed: bool = False) -> None:
        """It is joined in this order from now on, or evaluated otherwise."""
        self.plan, self.how, self.assumed = plan, how, assumed
        self.times += 1


@dataclass(frozen=True, slots=True)
class SchemeChoice:
    """How a relation is stored, and why."""

    scheme: str
    why: str


@dataclass
class Progress:
    """Readable at any time from another thread; the numbers are of the last completed step.

    `work` is what is done: an evaluation, or an update and how.
    """

    work: str = "evaluation"

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
    plans: dict[Variant, UsedPlan] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)

    def restart(self) -> None:
        """Begin again with something else, for whoever watches."""
        host_work, work = self.host_work, self.work
        self.__dict__.update(vars(Progress()))
        self.host_work, self.work = host_work, work

    def used_plan(self, variant: Variant) -> UsedPlan:
        """Where to note how a variant is evaluated."""
        return self.plans.setdefault(variant, UsedPlan())

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
