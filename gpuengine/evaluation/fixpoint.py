"""Evaluate a plan: its strata in order, each to its fixpoint."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.context import Context
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.placement import Placement
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.stratum import StratumEvaluation
from gpuengine.evaluation.workers import Workers
from gpuengine.planning.plan import Plan
from gpuengine.planning.strata import body_relations


class Fixpoint:
    """Evaluates a plan into a database; `stop[0]` set to 1 from any thread ends it with `Interrupted`."""

    def __init__(
        self,
        plan: Plan,
        database: Database,
        *,
        threads: int = 1,
        budget: Budget | None = None,
        progress: Progress | None = None,
        limits: Mapping[str, int] | None = None,
        placement: Placement | None = None,
        modules: bool = True,
        stop: np.ndarray | None = None,
    ) -> None:
        self.plan = plan
        self.progress = progress or Progress()
        self._context = Context(
            database,
            Workers(threads),
            budget or Budget(),
            self.progress,
            limits or {},
            placement or Placement(),
            plan.schemes,
            modules,
            frozenset().union(*(body_relations(rule.body) for rule in plan.program.rules)),
            np.zeros(1, np.int64) if stop is None else stop,
        )

    @property
    def stop(self) -> np.ndarray:
        return self._context.stop

    def run(self) -> None:
        """Evaluate every stratum. Tables are complete and settled afterwards."""
        self.progress.strata = len(self.plan.strata)
        try:
            for table in self._context.database.all_tables():
                table.backend.bind_thread()
                table.settle()
            for stratum in self.plan.strata:
                StratumEvaluation(stratum, self._context).run()
        finally:
            self._context.workers.close()
        self._context.count_facts()
