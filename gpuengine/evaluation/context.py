"""What every part of one evaluation shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.placement import Placement
from gpuengine.evaluation.progress import Progress, RuleStatistics
from gpuengine.evaluation.workers import Workers
from gpuengine.language.program import Rule
from gpuengine.schemes.table import Table


@dataclass
class Context:
    """`stop[0]` set to 1 from any thread ends the evaluation with `Interrupted`."""

    database: Database
    workers: Workers
    budget: Budget
    progress: Progress
    limits: Mapping[str, int]
    placement: Placement = field(default_factory=Placement)
    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))

    def check_budget(self, growing: Table, rule: str) -> None:
        """Raise `MemoryBudgetError` if the tables are over the budget."""
        self.budget.check(self.database.all_tables(), growing, rule)
        self.count_facts()

    def count_facts(self) -> None:
        self.progress.facts = self.database.total_facts()

    def note(self, rule: Rule, seconds: float, candidates: int, derived: int) -> None:
        """Add to the statistics of a rule."""
        entry = self.progress.rules.setdefault(rule.text, RuleStatistics(rule.text))
        entry.seconds += seconds
        entry.candidates += candidates
        entry.derived += derived
        entry.evaluations += 1
