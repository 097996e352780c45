"""Evaluate a plan: its strata in order, each to its fixpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpuengine.evaluation.budget import Budget
from gpuengine.evaluation.context import Context
from gpuengine.evaluation.database import Database
from gpuengine.evaluation.node_room import free_large_nodes
from gpuengine.evaluation.placement import Placement
from gpuengine.evaluation.progress import Progress
from gpuengine.evaluation.stratum import StratumEvaluation
from gpuengine.evaluation.workers import Workers
from gpuengine.planning.plan import Plan, Stratum
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
            may_free_nodes=True,
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
            for number, stratum in enumerate(self.plan.strata):
                StratumEvaluation(stratum, self._context).run()
                self._free_nodes(self.plan.strata[number + 1 :])
        finally:
            self._context.workers.close()
        self._context.last_reduction = None
        self._context.count_facts()

    def _free_nodes(self, later: Sequence[Stratum]) -> None:
        """Free large nodes of hypertrees that no later stratum is known to read."""
        database = self._context.database
        rules = [variant.rule for stratum in later for variant in (*stratum.once, *stratum.recursive)]
        free_large_nodes(database, self._context.budget, database.evaluators.nodes_read_by(rules))
