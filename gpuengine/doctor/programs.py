"""Whole programs on a device, held against the CPU: what each asks of it, and what the host does of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.doctor.checkup import ALWAYS_ON_DEVICE, random_dag
from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError
from gpuengine.evaluation.host_work import HostEntry
from gpuengine.kernels.contract import DeviceError, DeviceMemoryError

if TYPE_CHECKING:
    from gpuengine.kernels.cuda.backend import CudaBackend

_EDGES = ".decl edge(x: number, y: number)\n"
_CLOSURE = f"""{_EDGES}
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """A program over the edges of a random acyclic graph; with `update`, some of them then come and go."""

    name: str
    program: str
    options: Mapping[str, Any] = field(default_factory=dict)
    update: bool = False


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """How a program went: `passed` if the device and the CPU derive the same facts, `message` if not."""

    name: str
    passed: bool
    seconds: float
    launches: int
    syncs: int
    uploaded: int
    downloaded: int
    host_work: tuple[HostEntry, ...]
    message: str = ""


PROGRAMS = (
    ProgramCheck(
        "program: joins",
        f"""{_EDGES}
.decl cousins(x: number, y: number)
cousins(x, y) :- edge(p, x), edge(p, y), x != y.
cousins(x, y) :- edge(p, x), cousins(p, q), edge(q, y).
""",
    ),
    ProgramCheck("program: closure as a table", _CLOSURE, {"schemes": {"path": "table"}}),
    ProgramCheck(
        "program: closure as a scheme",
        f"""{_CLOSURE}
.decl beside(x: number, y: number)
.decl apart(x: number, y: number)
beside(x, y) :- edge(p, x), edge(p, y), path(x, y).
apart(x, y) :- edge(p, x), edge(p, y), !path(x, y).
""",
        {"schemes": {"path": "closure"}},
    ),
    ProgramCheck(
        "program: a union",
        f"""{_CLOSURE}
.decl near(x: number, y: number)
.decl beside(x: number, y: number)
near(x, y) :- path(x, y).
near(y, x) :- edge(x, y).
beside(x, y) :- edge(p, x), near(x, y), edge(p, y).
""",
        {"schemes": {"path": "closure", "near": "union"}},
    ),
    ProgramCheck(
        "program: reductions",
        f"""{_EDGES}
.decl square(x: number, u: number, y: number, v: number)
square(x, u, y, v) :- edge(x, u), edge(u, y), edge(x, v), edge(v, y).
""",
        {"evaluators": {"*": "hypertree"}},
    ),
    ProgramCheck(
        "program: arithmetic",
        f"""{_EDGES}
.decl length(x: number, y: number, n: number)
.decl far(x: number, n: number)
length(x, y, y - x) :- edge(x, y).
far(y, n + 20000000) :- edge(0, y), n = y * 3.
far(y, n + m) :- far(x, n), length(x, y, m), n + m < 20000400.
""",
    ),
    ProgramCheck(
        "program: aggregates",
        f"""{_EDGES}
.decl degree(x: number, n: number)
.decl last(x: number, y: number)
degree(x, n) :- edge(x, _), n = count : {{ edge(x, _) }}.
last(x, y) :- edge(x, _), y = max z : {{ edge(x, z) }}.
""",
    ),
    ProgramCheck("program: an update", _CLOSURE, {"schemes": {"path": "table"}}, update=True),
)
"""What a program can ask of a device, one of each."""


def run_programs(backend: CudaBackend, nodes: int = 400, degree: int = 4) -> Iterator[ProgramOutcome]:
    """Run every program, over so large a graph, on the CPU and wholly on the device."""
    backend.bind_thread()
    edges = random_dag(nodes, degree)
    for check in PROGRAMS:
        yield _run(check, backend, edges)


def _run(check: ProgramCheck, backend: CudaBackend, edges: np.ndarray) -> ProgramOutcome:
    before, after = replace(backend.statistics()), replace(backend.statistics())
    started, message = time.perf_counter(), ""
    host_work: tuple[HostEntry, ...] = ()
    try:
        there = Engine(check.program, backend=backend, thresholds=ALWAYS_ON_DEVICE, **check.options)
        _evaluate(there, check, edges)
        after = replace(backend.statistics())
        assert there.progress is not None
        host_work = there.progress.host_work.entries
        seconds = time.perf_counter() - started
        here = Engine(check.program, backend="cpu", **check.options)
        _evaluate(here, check, edges)
        for name in here.program.relations:
            if set(here[name]) != set(there[name]):
                message = f"{name}: {len(there[name]):,} facts, {len(here[name]):,} on the CPU"
    except (DeviceError, DeviceMemoryError, GpuEngineError) as error:
        seconds = time.perf_counter() - started
        message = f"{type(error).__name__}: {error}"
    return ProgramOutcome(
        check.name,
        not message,
        seconds,
        after.launches - before.launches,
        after.syncs - before.syncs,
        after.uploaded - before.uploaded,
        after.downloaded - before.downloaded,
        host_work,
        message,
    )


def _evaluate(engine: Engine, check: ProgramCheck, edges: np.ndarray) -> None:
    engine.load("edge", edges)
    engine.materialise()
    if check.update:
        with engine.update() as update:
            update.delete("edge", [tuple(edge) for edge in edges[:3].tolist()])
            update.insert("edge", [(0, len(edges)), (len(edges), len(edges) + 1)])
