"""What every part of one evaluation shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.placement import Placement
from gpuengine.evaluation.progress import Progress, RuleStatistics
from gpuengine.evaluation.workers import Workers
from gpuengine.language.program import Rule
from gpuengine.planning.schemes import SchemePlan
from gpuengine.schemes.contract import Scheme


@dataclass
class Context:
    """`stop[0]` set to 1 from any thread ends the evaluation with `Interrupted`.

    With `counting`, maintenance keeps derivation counters, which take `counter_bytes`, by name.
    Past the `deadline`, on the clock of `time.perf_counter`, maintenance gives up.
    `schemes` say what each relation may be stored as (one that is not there is a table); `modules` whether
    transitivity on tables is evaluated in its own way; `read_relations` are those that some rule reads.
    """

    database: Database
    workers: Workers
    budget: Budget
    progress: Progress
    limits: Mapping[str, int]
    placement: Placement = field(default_factory=Placement)
    schemes: Mapping[str, SchemePlan] = field(default_factory=dict)
    modules: bool = True
    read_relations: frozenset[str] = frozenset()
    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    deadline: float = math.inf
    counting: bool = False
    counter_bytes: dict[str, int] = field(default_factory=dict)

    def begin(self, progress: Progress, deadline: float = math.inf) -> None:
        """Go on with another piece of work."""
        self.progress = progress
        self.deadline = deadline

    def check_budget(self, growing: Scheme, rule: str) -> None:
        """Raise `MemoryBudgetError` if the relations are over the budget."""
        self.budget.check(self.database.tables.values(), growing, rule, self.counter_bytes)
        self.count_facts(exact=False)

    def count_facts(self, *, exact: bool = True) -> None:
        self.progress.facts = self.database.total_facts(exact=exact)

    def note(self, rule: Rule, seconds: float, candidates: int, derived: int) -> None:
        """Add to the statistics of a rule."""
        entry = self.progress.rules.setdefault(rule.text, RuleStatistics(rule.text))
        entry.seconds += seconds
        entry.candidates += candidates
        entry.derived += derived
        entry.evaluations += 1
