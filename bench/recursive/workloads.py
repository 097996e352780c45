"""What is computed, of which graphs, and how many times SciPy's seconds it may take."""

from __future__ import annotations

from dataclasses import dataclass

OURS, SCIPY = "gpuengine", "scipy"
LOAD, COMPUTE = "load", "compute"

_EDGES = ".decl edge(x: number, y: number, w: number)\n.decl start(x: number, v: number)\n"
PROGRAMS = {
    "shortest": _EDGES
    + """\
.decl found(x: number, v: number)
found(x, min v) :- start(x, v).
found(y, min v + w) :- found(x, v), edge(x, y, w).
""",
    "widest": _EDGES
    + """\
.decl found(x: number, v: number)
found(x, max v) :- start(x, v).
found(y, max min(v, w)) :- found(x, v), edge(x, y, w).
""",
    "components": _EDGES
    + """\
.decl found(x: number, v: number)
found(x, min x) :- edge(x, _, _).
found(y, min y) :- edge(_, y, _).
found(y, min v) :- found(x, v), edge(x, y, _).
found(x, min v) :- found(y, v), edge(x, y, _).
""",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """`task` names a program and what SciPy does instead; `target` is a bound on ours over SciPy's."""

    name: str
    task: str
    nodes: int
    quick: int
    degree: float
    peer: str
    both_ways: bool = False
    target: float | None = None


def _of_size(millions: str, nodes: int, quick: int) -> tuple[Workload, ...]:
    tree = "maximum spanning tree"
    return (
        Workload(f"shortest-{millions}M", "shortest", nodes, quick, 10, "dijkstra", target=3),
        Workload(f"widest-{millions}M", "widest", nodes, quick, 10, tree, both_ways=True),
        Workload(f"components-{millions}M", "components", nodes, quick, 10, "connected_components", target=5),
        Workload(f"sparse-{millions}M", "components", nodes, quick, 1, "connected_components", target=5),
    )


WORKLOADS = (*_of_size("0.1", 100_000, 300), *_of_size("1", 1_000_000, 900))
