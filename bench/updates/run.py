"""Which cells the workloads have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.harness.cells import ANEW, DUCKDB, DURABLE, LATENCY, UPDATE, Cell, Outcome, Say, Settings, fill
from bench.lubm import prepare_lubm
from bench.prepare import Places
from bench.updates.workloads import DURABLE_STEPS, LUBM, RDFS, Workload

_QUICK_ROWS = 150
"""Facts of each relation of LUBM in quick runs."""


class Runner:
    """Runs the cells of workloads."""

    def __init__(
        self, settings: Settings, places: Places, say: Say = lambda text: None, *, counting: bool = False
    ) -> None:
        self.settings, self.places, self.say = settings, places, say
        self.counting = counting
        self.outcomes: dict[Cell, Outcome] = {}

    def run(self, workloads: Sequence[Workload]) -> None:
        """Fill `outcomes`; quick ones share a process."""
        specs = {cell: spec for w in workloads for cell, spec in self.specs(w).items()}
        fill(self.outcomes, "bench.updates.cell", specs, self.settings, self.say)

    def specs(self, workload: Workload) -> dict[Cell, dict[str, Any]]:
        """The cells of a workload as the process takes them."""
        specs: dict[Cell, dict[str, Any]] = {}
        for mode, schemes in workload.modes.items():
            for kind in (LATENCY, DURABLE, ANEW) if workload.is_latency else (UPDATE, ANEW):
                specs[Cell(workload.name, kind, mode)] = self._spec(workload, kind, schemes)
        specs[Cell(workload.name, DUCKDB)] = self._spec(workload, DUCKDB, None)
        return specs

    def _spec(self, workload: Workload, kind: str, schemes: dict[str, str] | None) -> dict[str, Any]:
        quick = self.settings.quick
        size = workload.quick if quick else workload.size
        steps = DURABLE_STEPS if kind == DURABLE else workload.steps
        order = [name for step in steps for name in [step.name] * step.runs]
        spec: dict[str, Any] = {
            "kind": kind, "facts": workload.facts, "size": size, "program": workload.program,
            "declared": workload.declared, "rule": workload.rule, "peer_program": workload.peer_program,
            "schemes": schemes, "fixed": workload.fixed, "states": workload.states,
            "order": workload.states if kind in (ANEW, DUCKDB) else order,
            "shares": bool(workload.dynamic), "threads": self.settings.threads, "warm": not quick,
            "counting": self.counting,
        }  # fmt: skip
        if kind == DURABLE:
            self.places.data.mkdir(parents=True, exist_ok=True)
            spec["scratch"] = str(self.places.data)
        if workload.facts in (LUBM, RDFS):
            folder = prepare_lubm(self.places, size)
            spec |= {"program_file": str(folder / "lubm.dl"), "file": str(folder / "facts.npz")}
            spec["rows"] = _QUICK_ROWS if quick else None
        return spec
