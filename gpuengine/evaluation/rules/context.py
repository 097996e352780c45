"""What every part of one evaluation shares."""

from __future__ import annotations

import math
import time
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import MemoryBudgetError
from gpuengine.evaluation.options import Options
from gpuengine.evaluation.placement.budget import Budget
from gpuengine.evaluation.placement.placement import Placement
from gpuengine.evaluation.placement.workers import Workers
from gpuengine.evaluation.progress import Progress, RuleStatistics
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import Backend
from gpuengine.language.program import Rule
from gpuengine.limits import check as check_memory
from gpuengine.limits import current as current_limits
from gpuengine.planning.node_rules import is_node
from gpuengine.planning.plan import Plan
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import as_table

if TYPE_CHECKING:
    from gpuengine.evaluation.rules.reduction import Reduction

_COUNTING_SHARE = 50
"""Counting facts, for who watches, takes at most one part in so many of the time."""


@dataclass
class Context:
    """`stop[0]` set to 1 from any thread ends the evaluation with `Interrupted`.

    `last_reduction` is the last one made of a body's atoms, and of what: other heads may ask for it again.
    Nodes of hypertrees outside `nodes_in_use` are freed when memory is short, if `may_free_nodes`.
    Derivation counters that maintenance keeps take `counter_bytes`, by name.
    Past the `deadline`, on the clock of `time.perf_counter`, maintenance gives up.
    """

    plan: Plan
    database: Database
    options: Options = field(default_factory=Options)
    progress: Progress = field(default_factory=Progress)
    placement: Placement = field(default_factory=Placement)
    stop: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    deadline: float = math.inf
    counter_bytes: dict[str, int] = field(default_factory=dict)
    last_reduction: tuple[object, Reduction] | None = None
    may_free_nodes: bool = False
    nodes_in_use: frozenset[str] = frozenset()
    _next_count: float = 0.0

    def __post_init__(self) -> None:
        self.workers = Workers(self.options.threads)
        self.workers.times = self.progress.timeline.threads
        self.budget = Budget(self.options.memory)
        self._count_host_work()

    def with_plan(self, plan: Plan) -> Context:
        """The same with another plan."""
        other = copy(self)
        other.plan = plan
        return other

    def begin(self, progress: Progress, deadline: float = math.inf) -> None:
        """Go on with another piece of work."""
        self.progress = progress
        self.workers.times = progress.timeline.threads
        self._count_host_work()
        self.deadline = deadline
        self.name_rules()

    def _count_host_work(self) -> None:
        self.database.host_work = self.progress.host_work
        self.database.host_work.is_counted |= self.placement.is_active

    def name_rules(self) -> None:
        """Have the limits of the operation tell by which rule they were passed."""
        limits, progress = current_limits(), self.progress
        if limits is not None:
            limits.doing = lambda: f"deriving by: {progress.rule}" if progress.rule else ""

    def backend_of(self, relation: str) -> Backend:
        """Where facts are derived into a relation."""
        scheme = self.database.tables[relation]
        return as_table(scheme).backend if scheme.is_listed else self.placement.current

    def check_budget(self, growing: Scheme, rule: str) -> None:
        """Raise `MemoryBudgetError` if the relations are over the budget, without nodes that can be freed."""
        try:
            self._check_budget(growing, rule)
        except MemoryBudgetError:
            if not self._free_nodes():
                raise
            self._check_budget(growing, rule)
        self.count_facts(exact=False)

    def _check_budget(self, growing: Scheme, rule: str) -> None:
        self.budget.check(self.database.tables.values(), growing, rule, self.counter_bytes)
        check_memory(f"{growing.name}, with {len(growing):,} facts,")

    def _free_nodes(self) -> bool:
        """Free the nodes of hypertrees that nothing reads now; whoever needs them later makes them again."""
        idle = [name for name in self.database.tables if is_node(name) and name not in self.nodes_in_use]
        self.last_reduction = None
        for name in idle if self.may_free_nodes else ():
            del self.database.tables[name]
        return bool(idle) and self.may_free_nodes

    def count_facts(self, *, exact: bool = True) -> None:
        """Have the progress say how many facts there are; if not `exact`, how many there were lately.

        With very many relations, counting takes longer than a round: it is to take a small share of the time.
        """
        started = time.perf_counter()
        if exact or started >= self._next_count:
            self.progress.facts = self.database.total_facts(exact=exact)
            now = time.perf_counter()
            self._next_count = now + _COUNTING_SHARE * (now - started)

    def note(
        self, rule: Rule, seconds: float, candidates: int, derived: int, *, uncounted: int = 0, lost: int = 0
    ) -> None:
        """Add to the statistics of a rule; of `uncounted` candidates it is unknown whether they were new."""
        entry = self.progress.rules.setdefault(rule.text, RuleStatistics(rule.text))
        entry.seconds += seconds
        entry.candidates += candidates
        entry.derived += derived
        entry.evaluations += 1
        entry.uncounted += uncounted
        entry.lost += lost
        where = self.placement.current.name
        entry.places[where] = entry.places.get(where, 0.0) + seconds
