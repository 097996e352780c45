"""Which cells the table has: each workload with each evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.cyclic.workloads import Workload
from bench.harness.cells import UPDATE, Cell, Outcome, Say, Settings, fill
from bench.prepare import Places

WRITTEN, JOIN, HYPERTREE, COMBINED = "written", "join", "hypertree", "combined"
KINDS: dict[str, str] = {WRITTEN: "written", JOIN: "join", HYPERTREE: "hypertree", COMBINED: "auto"}
"""Columns of the table, and what the engine calls the evaluator: join plans in the order as written or in
the best one, decompositions for all rules, or for each rule what costs least."""
STEPS = ("initial", "-1,000", "+1,000", "-25 %")
REPEAT = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the table is made: columns, and processes of each cell that is short."""

    columns: tuple[str, ...] = tuple(KINDS)
    repeat: int = REPEAT


class Runner:
    """Runs the cells of workloads."""

    def __init__(
        self, settings: Settings, places: Places, say: Say = lambda text: None, choice: Choice | None = None
    ) -> None:
        self.settings, self.places, self.say = settings, places, say
        self.choice = choice or Choice()
        self.outcomes: dict[Cell, Outcome] = {}

    def run(self, workloads: Sequence[Workload]) -> None:
        """Fill `outcomes`; quick ones share a process."""
        specs = {cell: spec for w in workloads for cell, spec in self.specs(w).items()}
        turns = self.choice.repeat
        fill(self.outcomes, "bench.cyclic.cell", specs, self.settings, self.say, turns)

    def specs(self, workload: Workload) -> dict[Cell, dict[str, Any]]:
        """The cells of a workload as the process takes them."""
        quick = self.settings.quick
        common = workload.spec(self.places, quick=quick) | {
            "order": STEPS, "threads": self.settings.threads, "warm": not quick,
        }  # fmt: skip
        return {
            Cell(workload.name, UPDATE, column): common | {"evaluator": KINDS[column]}
            for column in self.choice.columns
        }

    def of(self, workload: Workload) -> dict[str, Outcome]:
        """What the columns of a workload gave."""
        cells = {column: Cell(workload.name, UPDATE, column) for column in self.choice.columns}
        return {column: self.outcomes[cell] for column, cell in cells.items() if cell in self.outcomes}
