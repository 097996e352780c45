"""Cells, which processes of their own measure step by step, and what became of each."""

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

from bench.harness.numbers import MoreThan, Number
from bench.measure import run_process
from bench.prepare import ROOT

UPDATE, ANEW, DUCKDB, LATENCY, DURABLE = "update", "anew", "duckdb", "latency", "durable"
START_SECONDS = 30.0
"""What a process may take, beside the time-out, to start, to make its facts and to load kernels."""
_TURNS = 2
_SHORT_SECONDS = 20.0
"""A process that took less is started again: the first one may have compiled kernels."""

Measured = dict[str, Any]
Specs = Mapping["Cell", dict[str, Any]]
Say = Callable[[str], None]


@dataclass(slots=True)
class Settings:
    """`quick`: small sizes, and all cells asked for at once in one process."""

    quick: bool = False
    timeout: float = 300.0
    memory: int = 1 << 62
    threads: int = 2


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

    def best(self, step: str) -> Measured:
        """The fastest run of a step; empty if there is none."""
        return min(self.steps.get(step, []), key=lambda measured: measured["seconds"], default={})

    def sizes(self, step: str) -> dict[str, int] | None:
        """The sizes that all runs of a step gave; None if it was not reached, or if they disagree."""
        given = [measured.get("sizes", {}) for measured in self.steps.get(step, [])]
        return given[0] if given and all(sizes == given[0] for sizes in given) else None

    def seconds(self, step: str) -> list[float]:
        return [measured["seconds"] for measured in self.steps.get(step, [])]

    def elapsed(self, step: str, of: Callable[[list[float]], float], timeout: float) -> Number:
        """What `of` makes of the seconds of a step; if the time ran out in it, what was left of that."""
        times = self.seconds(step)
        if times:
            return of(times)
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


def fill(
    outcomes: dict[Cell, Outcome],
    module: str,
    specs: Specs,
    settings: Settings,
    say: Say,
    turns: int = _TURNS,
) -> None:
    """Have processes of `module` measure all cells; short ones take turns, and quick ones share a process."""
    if settings.quick:
        say("quick")
        outcomes |= run_cells(module, specs, settings)
        return
    for turn in range(turns):
        for cell, spec in specs.items():
            if turn and not outcomes[cell].is_short:
                continue
            say(f"{cell.workload} {cell.label}")
            outcome = run_cells(module, {cell: spec}, settings)[cell]
            outcomes[cell] = outcomes[cell].with_again(outcome) if turn else outcome


def run_cells(module: str, specs: Specs, settings: Settings) -> dict[Cell, Outcome]:
    """One process of `module` measures the cells; each spec has in ``order`` the steps that it is to do."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "cells.json"
        file.write_text(json.dumps(list(specs.values())), encoding="utf-8")
        run = run_process(
            [sys.executable, "-m", module, str(file)],
            timeout=settings.timeout + START_SECONDS,
            memory=settings.memory,
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
