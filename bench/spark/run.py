"""Which cells the workloads have, and their processes: one for each cell, since a process has one session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.harness.cells import Cell, Outcome, Say, Settings, run_cells
from bench.prepare import ROOT, VERSION, Places, once
from bench.spark.workloads import ENCODE, INGEST, INSERT, OVERHEAD, Workload

_MODULE = "bench.spark.cell"
CALLS = ("first call", "second call", "third call")
_STEPS = {
    INGEST: ("toArrow", "ingest", "ingest and evaluate"),
    ENCODE: ("Engine.load", "encode", "toArrow", "ingest"),
    OVERHEAD: CALLS,
    INSERT: ("save", "insert", "anew"),
}
RUN = ("start", "run")


def steps_of(workload: Workload) -> tuple[str, ...]:
    """What the cells of a workload print, beside how long their session took to start."""
    return _STEPS.get(workload.kind, RUN)


@dataclass(frozen=True, slots=True)
class Choice:
    """`scale` is a factor of all sizes; `masters` take the place of those that a workload has."""

    scale: float = 1.0
    masters: tuple[str, ...] = ()


class Runner:
    """Runs the cells of workloads."""

    def __init__(
        self, settings: Settings, places: Places, choice: Choice, say: Say = lambda text: None
    ) -> None:
        self.settings, self.places, self.choice, self.say = settings, places, choice, say
        self.outcomes: dict[Cell, Outcome] = {}

    def run(self, workloads: Sequence[Workload]) -> None:
        """Fill `outcomes`; quick ones share a process for each master."""
        specs = {cell: spec for workload in workloads for cell, spec in self.specs(workload).items()}
        if not self.settings.quick:
            for cell, spec in specs.items():
                self.say(f"{cell.workload} {cell.kind} on {cell.mode}")
                self.outcomes |= run_cells(_MODULE, {cell: spec}, self.settings)
            return
        for master in dict.fromkeys(cell.mode for cell in specs):
            self.say(f"quick on {master}")
            shared = {cell: spec for cell, spec in specs.items() if cell.mode == master}
            together = replace(self.settings, timeout=self.settings.timeout * len(shared))
            self.outcomes |= run_cells(_MODULE, shared, together)

    def of(self, workload: Workload) -> dict[Cell, Outcome]:
        return {cell: outcome for cell, outcome in self.outcomes.items() if cell.workload == workload.name}

    def size(self, workload: Workload) -> int:
        return workload.quick if self.settings.quick else workload.scaled(self.choice.scale)

    def masters(self, workload: Workload) -> tuple[str, ...]:
        return self.choice.masters or workload.masters

    def specs(self, workload: Workload) -> dict[Cell, dict[str, Any]]:
        """The cells of a workload as the process takes them."""
        masters = self.masters(workload)
        chosen = [(contender, master) for master in masters for contender in workload.contenders]
        chosen += [(contender, masters[0]) for contender in workload.once]
        facts, few = (self._facts(workload.facts, size) for size in (self.size(workload), workload.quick))
        return {
            Cell(workload.name, contender, master): {
                "kind": workload.kind, "contender": contender, "master": master, "program": workload.program,
                "relation": workload.relation, "facts": str(facts), "quick_facts": str(few),
                "is_quick": self.settings.quick, "order": ["session", *steps_of(workload)],
            }
            for contender, master in chosen
        }  # fmt: skip

    def _facts(self, name: str, size: int) -> Path:
        folder = self.places.data / "spark" / f"{name}-{size}-v{VERSION}"

        def fill(into: Path) -> None:
            self.say(f"making {name} of size {size:,}")
            command = [sys.executable, "-m", "bench.spark.facts", name, str(size), str(into)]
            subprocess.run(command, cwd=ROOT, check=True)

        once(folder, [], fill)
        return folder
