"""What every part of one evaluation shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpuengine.errors import MemoryBudgetError
from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.placement import Placement
from gpuengine.evaluation.progress import Progress, RuleStatistics
from gpuengine.evaluation.reduction import Reduction
from gpuengine.evaluation.workers import Workers
from gpuengine.language.program import Rule
from gpuengine.planning.node_rules import is_node
from gpuengine.planning.schemes import SchemePlan
from gpuengine.schemes.contract import Scheme


@dataclass
class Context:
    """`stop[0]` set to 1 from any thread ends the evaluation with `Interrupted`.

    `last_reduction` is the last one made of a body's atoms, and of what: other heads may ask for it again.
    Nodes of hypertrees outside `nodes_in_use` are freed when memory is short, if `may_free_nodes`.
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
    last_reduction: tuple[object, Reduction] | None = None
    may_free_nodes: bool = False
    nodes_in_use: frozenset[str] = frozenset()

    def begin(self, progress: Progress, deadline: float = math.inf) -> None:
        """Go on with another piece of work."""
        self.progress = progress
        self.deadline = deadline

    def check_budget(self, growing: Scheme, rule: str) -> None:
        """Raise `MemoryBudgetError` if the relations are over the budget, without nodes that can be freed."""
        try:
            self.budget.check(self.database.tables.values(), growing, rule, self.counter_bytes)
        except MemoryBudgetError:
            if not self._free_nodes():
                raise
            self.budget.check(self.database.tables.values(), growing, rule, self.counter_bytes)
        self.count_facts(exact=False)

    def _free_nodes(self) -> bool:
        """Free the nodes of hypertrees that nothing reads now; whoever needs them later makes them again."""
        idle = [name for name in self.database.tables if is_node(name) and name not in self.nodes_in_use]
        self.last_reduction = None
        for name in idle if self.may_free_nodes else ():
            del self.database.tables[name]
        return bool(idle) and self.may_free_nodes

    def count_facts(self, *, exact: bool = True) -> None:
        self.progress.facts = self.database.total_facts(exact=exact)

    def note(self, rule: Rule, seconds: float, candidates: int, derived: int) -> None:
        """Add to the statistics of a rule."""
        entry = self.progress.rules.setdefault(rule.text, RuleStatistics(rule.text))
        entry.seconds += seconds
        entry.candidates += candidates
        entry.derived += derived
        entry.evaluations += 1
