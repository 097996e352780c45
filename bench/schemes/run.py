"""Which cells the tables have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.catalogue import PROGRAMS
from bench.harness.cells import Cell, Outcome, Say, Settings, fill
from bench.lubm import prepare_lubm
from bench.prepare import Places
from bench.schemes.catalogue import ADDITION_STEPS, INITIAL, LUBM, UPDATE_STEPS, Benchmark, Graph

_REPEAT = 5
_ENOUGH_SECONDS = 4.0
"""Steps are run again in their process while they have taken less than this."""
_TURNS = 3
_STEPS = {
    "materialise": (INITIAL,),
    "recompute": ADDITION_STEPS,
    "additions": ADDITION_STEPS,
    "update": UPDATE_STEPS,
    "rebuild": UPDATE_STEPS,
    "graph": ("closure",),
}


class Runner:
    """Runs cells, each once: tables that share cells get the same outcomes."""

    def __init__(self, settings: Settings, places: Places, say: Say = lambda text: None) -> None:
        self.settings, self.places, self.say = settings, places, say
        self.outcomes: dict[Cell, Outcome] = {}

    def run(self, specs: Mapping[Cell, dict[str, Any]]) -> None:
        """Fill `outcomes` for all of `specs` that are not there yet; the cells of a row take turns."""
        new = {cell: spec for cell, spec in specs.items() if cell not in self.outcomes}
        rows = [new] if self.settings.quick else [_row(new, name) for name in _names(new)]
        for row in rows:
            if row:
                fill(self.outcomes, "bench.schemes.cell", row, self.settings, self.say, _TURNS)

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
        order = _STEPS.get(kind) or tuple(query.text for query in benchmark.queries)
        return spec | source | more | self.common() | {"order": order}

    def graph_spec(self, graph: Graph) -> dict[str, Any]:
        file = str(self.places.graphs / graph.file)
        return {"kind": "graph", "file": file, "order": _STEPS["graph"]} | self.common()


def _names(specs: Mapping[Cell, dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(cell.workload for cell in specs))


def _row(specs: Mapping[Cell, dict[str, Any]], name: str) -> dict[Cell, dict[str, Any]]:
    return {cell: spec for cell, spec in specs.items() if cell.workload == name}
