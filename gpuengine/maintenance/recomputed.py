"""A stratum in which facts are chosen, or subsume others: what it holds depends on the order of rounds.

It is not maintained but computed anew when something changes that it reads, from what the strata below hold
by then; what that comes to is told to those above as any other change.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gpuengine.evaluation.driver.stratum import StratumEvaluation
from gpuengine.evaluation.fixpoint import evaluate_stratum
from gpuengine.evaluation.rules.context import Context
from gpuengine.language.program import Rule
from gpuengine.loading import Facts
from gpuengine.maintenance.delta import Delta, Deltas
from gpuengine.maintenance.rules import StratumRules
from gpuengine.maintenance.stated import StatedFacts
from gpuengine.maintenance.stratum import StratumMaintenance
from gpuengine.maintenance.update_deltas import UpdateDeltas, View
from gpuengine.planning.plan import Stratum, body_relations
from gpuengine.schemes.table import Table
from gpuengine.schemes.table_reads import rows_missing


class RecomputedStratum(StratumMaintenance):
    """Keeps a stratum true by evaluating it; tables stay the same, and lose and gain what differs."""

    def __init__(
        self,
        stratum: Stratum,
        rules: StratumRules,
        context: Context,
        stated: StatedFacts,
        *,
        read_above: frozenset[str],
    ) -> None:
        super().__init__(rules, context, stated, read_above=read_above)
        self._stratum = stratum
        subsumptions = [
            rule
            for name in stratum.relations
            if name in context.plan.selections
            for rule in context.plan.selections[name].subsumptions
        ]
        read = (body_relations(rule.body) for rule in (*rules.rules, *subsumptions))
        self._reads = frozenset().union(*read) - rules.members
        self._applied: dict[str, tuple[Facts, Facts]] = {}

    def run(
        self, deltas: UpdateDeltas, stated: Deltas, removed: Sequence[Rule], added: Sequence[Rule]
    ) -> None:
        if not (stated or removed or added) and not any(deltas.get(name) for name in self._reads):
            return
        self.is_running = True
        self._applied.clear()
        deltas.show(self._reads, View.NOW)
        for name, table in self._evaluated().items():
            self._apply(name, table, deltas)
        self.is_running = False

    def count(self, added: Collection[Rule]) -> None:
        """Nothing is counted of what is not maintained."""

    def undo(self) -> None:
        for name, (minus, plus) in self._applied.items():
            table = self.tables.table(name)
            table.settle()
            table.delete(*plus)
            table.take_back()
            table.insert(*minus)
            table.take_in()
        self._applied.clear()
        self.is_running = False

    def _evaluated(self) -> dict[str, Table]:
        """What the relations hold if they are computed anew; those there are stay as they are."""
        database = self.context.database
        before = {name: database.tables[name] for name in self.rules.relations}
        growing = database.growing
        try:
            for name, scheme in before.items():
                table = database.tables[name] = Table(name, scheme.arity)
                for columns, count in self.stated.facts(name):
                    table.insert(columns, count)
                table.settle()
            evaluation = StratumEvaluation(self._stratum, self.context)
            with evaluation.failing_by_rule():
                evaluate_stratum(evaluation)
            return {name: self.tables.table(name) for name in before}
        finally:
            database.tables.update(before)
            database.growing = growing

    def _apply(self, name: str, new: Table, deltas: UpdateDeltas) -> None:
        """Have the table of a relation hold what another one does."""
        table = self.tables.table(name)
        minus, plus = _only_in(table, new), _only_in(new, table)
        self._applied[name] = minus, plus
        if minus[1]:
            table.delete(*minus)
            table.take_back()
        table.insert(*plus)
        table.take_in()
        deltas.add(table, Delta.listed(name, table.arity, minus, plus), at_end=True)


def _only_in(one: Table, other: Table) -> Facts:
    if not one.arity:
        return [], max(len(one) - len(other), 0)
    rows = rows_missing(one.columns(), other.columns())
    return [np.asarray(column) for column in rows], len(rows[0])
