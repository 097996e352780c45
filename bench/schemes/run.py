"""Cells and the processes that measure them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.catalogue import PROGRAMS
from bench.measure import run_process
from bench.prepare import ROOT, VERSION, Places, once
from bench.schemes.catalogue import LUBM, Benchmark, Graph

START_SECONDS = 30.0
"""What a process may take, beside the time-out, to start, to make its facts and to load kernels."""
_REPEAT = 5
_ENOUGH_SECONDS = 4.0
"""Steps are run again in their process while they have taken less than this."""
_TURNS = 3
_SHORT_SECONDS = 10.0
"""A process that took less is started again."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement: a kind (see `bench.schemes.cell`), a benchmark or graph, a mode."""

    kind: str
    name: str
    mode: str = ""


@dataclass(slots=True)
class Result:
    """What a cell gave. `status` is ``ok``, ``timeout``, ``memory`` or ``failed``.

    Steps that were done before it was ended are there also then. `peak_rss` is None for a shared process.
    """

    status: str
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    peak_rss: int | None = None
    reason: str = ""
    wall: float = 0.0

    @property
    def is_short(self) -> bool:
        return self.status == "ok" and self.wall < _SHORT_SECONDS

    def add(self, step: str, measured: dict[str, Any]) -> None:
        """Another run of a step: the fastest one counts, and all must give the same sizes."""
        known = self.steps.get(step)
        if known is not None and known.get("sizes") != measured.get("sizes"):
            self.status, self.reason = "failed", f"{step}: two runs give different sizes"
        if known is None or measured["seconds"] < known["seconds"]:
            self.steps[step] = measured

    def with_again(self, other: Result) -> Result:
        """This one and another process of the same cell; one that did not end well is what counts."""
        if other.status != "ok":
            return other
        for step, measured in other.steps.items():
            self.add(step, measured)
        peaks = [peak for peak in (self.peak_rss, other.peak_rss) if peak is not None]
        self.peak_rss = max(peaks, default=None)
        return self

    def seconds(self, step: str) -> float | None:
        return self.steps[step]["seconds"] if step in self.steps else None

    def sizes(self, step: str) -> dict[str, int] | None:
        """The sizes that a step gave; None if it was not reached."""
        return self.steps[step].get("sizes", {}) if step in self.steps else None


@dataclass(slots=True)
class Settings:
    """`quick`: small sizes, and all cells asked for at once in one process."""

    quick: bool = False
    timeout: float = 300.0
    memory: int = 1 << 62
    threads: int = 2


class Runner:
    """Runs cells, each once: tables that share cells get the same results."""

    def __init__(self, settings: Settings, places: Places, say: Say = lambda text: None) -> None:
        self.settings, self.places, self.say = settings, places, say
        self.results: dict[Cell, Result] = {}

    def run(self, specs: Mapping[Cell, dict[str, Any]]) -> None:
        """Fill `results` for all of `specs` that are not there yet."""
        new = {cell: spec for cell, spec in specs.items() if cell not in self.results}
        if new and self.settings.quick:
            self.say("quick")
            self.results |= self._process(list(new), list(new.values()))
            return
        for name in dict.fromkeys(cell.name for cell in new):
            self._take_turns({cell: spec for cell, spec in new.items() if cell.name == name})

    def _take_turns(self, row: Mapping[Cell, dict[str, Any]]) -> None:
        """Run the cells of a row; short ones take turns, so that a slow minute hits all of them."""
        for turn in range(_TURNS):
            for cell, spec in row.items():
                if turn and not self.results[cell].is_short:
                    continue
                self.say(f"{cell.kind} {cell.name} {cell.mode}")
                found = self._process([cell], [spec])[cell]
                self.results[cell] = self.results[cell].with_again(found) if turn else found

    def common(self) -> dict[str, Any]:
        """What all specs have."""
        quick = self.settings.quick
        repeat = 1 if quick else _REPEAT
        return {
            "threads": self.settings.threads, "repeat": repeat, "enough": _ENOUGH_SECONDS, "warm": not quick,
        }  # fmt: skip

    def size(self, benchmark: Benchmark) -> int:
        return benchmark.quick if self.settings.quick else benchmark.size

    def benchmark_spec(self, kind: str, benchmark: Benchmark, mode: str, **more: Any) -> dict[str, Any]:
        """The cell of a benchmark as the process takes it."""
        size = self.size(benchmark)
        source = {"program": str(PROGRAMS / "schemes" / benchmark.program)}
        if benchmark.facts == LUBM:
            folder = prepare_lubm(self.places, size)
            source = {"program": str(folder / "lubm.dl"), "file": str(folder / "facts.npz")}
        spec = {"kind": kind, "mode": mode, "facts": benchmark.facts, "size": size}
        return spec | source | more | self.common()

    def graph_spec(self, graph: Graph) -> dict[str, Any]:
        return {"kind": "graph", "file": str(self.places.graphs / graph.file)} | self.common()

    def _process(self, cells: Sequence[Cell], specs: Sequence[dict[str, Any]]) -> dict[Cell, Result]:
        run = run_process(
            [sys.executable, "-m", "bench.schemes.cell", json.dumps(specs)],
            timeout=self.settings.timeout + START_SECONDS,
            memory=self.settings.memory,
            env=os.environ,
            cwd=ROOT,
        )
        results = collect(len(cells), run.stdout.splitlines())
        for result in results:
            result.peak_rss = run.peak_rss if len(cells) == 1 else None
            result.wall = run.wall
            if run.status in ("timeout", "memory"):
                result.status = run.status
            elif result.status == "ok" and not result.steps:
                reason = run.stderr.strip().splitlines()[-1:] or [f"exit code {run.exit_code}"]
                result.status, result.reason = "failed", reason[0]
        return dict(zip(cells, results, strict=True))


def collect(cells: int, lines: Iterable[str]) -> list[Result]:
    """Results from what a process printed."""
    results = [Result("ok") for _ in range(cells)]
    for line in lines:
        try:
            printed = json.loads(line)
        except ValueError:  # the last line of a process that was ended
            continue
        result = results[printed.pop("cell")]
        if "error" in printed:
            result.status, result.reason = "failed", printed["error"]
            continue
        result.add(printed.pop("step"), printed)
    return results


def prepare_lubm(places: Places, universities: int) -> Path:
    """The folder with program and facts, made once."""
    folder = places.data / "lubm" / f"{universities}-v{VERSION}"

    def fill(into: Path) -> None:
        command = [sys.executable, "-m", "bench.schemes.lubm", str(places.lubm), str(universities), str(into)]
        subprocess.run(command, cwd=ROOT, check=True)

    once(folder, [places.lubm / "axioms.tsv", places.lubm / "lubm_gen.py"], fill)
    return folder
