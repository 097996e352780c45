"""Cells and the processes that measure them."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import run_process
from bench.prepare import ROOT, Places
from bench.schemes.published import MoreThan, Number
from bench.schemes.run import START_SECONDS, Settings, prepare_lubm
from bench.updates.workloads import DURABLE_STEPS, LUBM, RDFS, Workload

UPDATE, ANEW, DUCKDB, LATENCY, DURABLE = "update", "anew", "duckdb", "latency", "durable"
_TURNS = 2
_SHORT_SECONDS = 20.0
"""A process that took less is started again: the first one may have compiled kernels."""
_QUICK_ROWS = 150
"""Facts of each relation of LUBM in quick runs."""

Measured = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One process: a workload, what it does, and in which mode."""

    workload: str
    kind: str
    mode: str = ""

    @property
    def label(self) -> str:
        return f"{self.mode} {self.kind}" if self.mode else self.kind

    @property
    def is_ours(self) -> bool:
        return self.kind != DUCKDB


@dataclass(slots=True)
class Outcome:
    """What a cell gave. `status` is ``ok``, ``timeout``, ``memory``, ``failed`` or ``skipped``.

    `steps` has all runs of a step, and those that were done before it was ended. `order` names a step as
    often as it is to be run. `peak_rss` is None for a shared process.
    """

    status: str
    order: tuple[str, ...] = ()
    steps: dict[str, list[Measured]] = field(default_factory=dict)
    peak_rss: int | None = None
    reason: str = ""
    wall: float = 0.0

    @property
    def is_short(self) -> bool:
        return self.status == "ok" and self.wall < _SHORT_SECONDS

    @property
    def next_step(self) -> str | None:
        """The first step that was not run as often as it should have been."""
        counts = Counter(self.order)
        return next((step for step in self.order if len(self.steps.get(step, ())) < counts[step]), None)

    def last(self, step: str) -> Measured:
        """The last run of a step; empty if there is none."""
        return self.steps[step][-1] if self.steps.get(step) else {}

    def seconds(self, step: str) -> list[float]:
        return [measured["seconds"] for measured in self.steps.get(step, [])]

    def elapsed(self, step: str, of: Callable[[list[float]], float], timeout: float) -> Number:
        """What `of` makes of the seconds of a step; if the time ran out in it, what was left of that."""
        found = self.seconds(step)
        if found:
            return of(found)
        if self.status != "timeout" or step != self.next_step:
            return None
        left = timeout - sum(sum(self.seconds(done)) for done in self.steps)
        return MoreThan(left) if left > 0 else None

    def with_again(self, other: Outcome) -> Outcome:
        """This one and another process of the same cell: of each step the faster; one that failed counts."""
        if other.status != "ok":
            return other
        steps = {
            step: min(runs, other.steps[step], key=lambda one: statistics.fmean(m["seconds"] for m in one))
            for step, runs in self.steps.items()
        }
        peaks = [peak for peak in (self.peak_rss, other.peak_rss) if peak is not None]
        return Outcome("ok", self.order, steps, max(peaks, default=None), wall=other.wall)


class Runner:
    """Runs the cells of workloads."""

    def __init__(
        self, settings: Settings, places: Places, say: Say = lambda text: None, *, counting: bool = False
    ) -> None:
        self.settings, self.places, self.say = settings, places, say
        self.counting = counting
        self.outcomes: dict[Cell, Outcome] = {}

    def missing(self, workload: Workload) -> str | None:
        """Why a workload cannot be run here, or None."""
        if workload.facts in (LUBM, RDFS) and not self.places.lubm.exists():
            return f"no {self.places.lubm}"
        return None

    def run(self, workloads: Sequence[Workload]) -> None:
        """Fill `outcomes`; quick ones share a process."""
        specs = {cell: spec for w in workloads for cell, spec in self.specs(w).items()}
        if self.settings.quick:
            self.say("quick")
            self.outcomes |= self._process(specs)
            return
        for turn in range(_TURNS):
            for cell, spec in specs.items():
                if turn and not self.outcomes[cell].is_short:
                    continue
                self.say(f"{cell.workload} {cell.label}")
                found = self._process({cell: spec})[cell]
                self.outcomes[cell] = self.outcomes[cell].with_again(found) if turn else found

    def specs(self, workload: Workload) -> dict[Cell, dict[str, Any]]:
        """The cells of a workload as the process takes them."""
        found: dict[Cell, dict[str, Any]] = {}
        for mode, schemes in workload.modes.items():
            for kind in (LATENCY, DURABLE, ANEW) if workload.is_latency else (UPDATE, ANEW):
                found[Cell(workload.name, kind, mode)] = self._spec(workload, kind, schemes)
        found[Cell(workload.name, DUCKDB)] = self._spec(workload, DUCKDB, None)
        return found

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
            spec |= {"axioms": str(self.places.lubm / "axioms.tsv"), "rows": _QUICK_ROWS if quick else None}
        return spec

    def _process(self, specs: Mapping[Cell, dict[str, Any]]) -> dict[Cell, Outcome]:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "cells.json"
            file.write_text(json.dumps(list(specs.values())), encoding="utf-8")
            run = run_process(
                [sys.executable, "-m", "bench.updates.cell", str(file)],
                timeout=self.settings.timeout + START_SECONDS,
                memory=self.settings.memory,
                env=os.environ,
                cwd=ROOT,
            )
        outcomes = collect([tuple(spec["order"]) for spec in specs.values()], run.stdout.splitlines())
        for outcome in outcomes:
            outcome.peak_rss = run.peak_rss if len(specs) == 1 else None
            outcome.wall = run.wall
            if outcome.status != "ok" or outcome.next_step is None:
                continue
            if run.status in ("timeout", "memory"):
                outcome.status = run.status
            else:
                reason = run.stderr.strip().splitlines()[-1:] or [f"exit code {run.exit_code}"]
                outcome.status, outcome.reason = "failed", reason[0]
        return dict(zip(specs, outcomes, strict=True))


def collect(orders: Sequence[tuple[str, ...]], lines: Iterable[str]) -> list[Outcome]:
    """Outcomes from what a process printed."""
    outcomes = [Outcome("ok", order) for order in orders]
    for line in lines:
        try:
            printed = json.loads(line)
        except ValueError:  # the last line of a process that was ended
            continue
        outcome = outcomes[printed.pop("cell")]
        for status, key in (("failed", "error"), ("skipped", "skipped")):
            if key in printed:
                outcome.status, outcome.reason = status, printed[key]
        if "step" in printed:
            outcome.steps.setdefault(printed.pop("step"), []).append(printed)
    return outcomes
