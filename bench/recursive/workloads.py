"""What is computed, of which graphs, and how many times SciPy's seconds it may take."""

from __future__ import annotations

from dataclasses import dataclass

OURS, SCIPY, CHANGED = "gpuengine", "scipy", "changed"
LOAD, COMPUTE = "load", "compute"
FIRST, INSERT, DELETE, ANEW = "first", "insert", "delete", "anew"
"""The steps of a cell of updates: one edge comes, others come and go again; then all is computed anew."""

CONTROLS = 700
"""Who has more than this of a node, with those that it controls, controls it."""
CAPPED = 10_000
"""No interval goes beyond this."""
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
    "pairs": _EDGES
    + """\
.decl found(x: number, y: number, v: number)
found(x, y, min w) :- edge(x, y, w).
found(x, z, min v + w) :- found(x, y, v), edge(y, z, w).
""",
    "control": _EDGES
    + f"""\
.decl total(x: number, y: number, w: number)
.decl found(x: number, y: number)
total(x, y, sum w) :- edge(x, y, w).
total(x, y, sum w) :- found(x, z), edge(z, y, w), x != z.
found(x, y) :- total(x, y, w), w > {CONTROLS}.
""",
    # These two as FlowLog's suite has them, over the edges above.
    "flowlog-sssp": """\
.decl edge(src: int32, dest: int32, weight: int32)
.decl start(src: int32, v: int32)
.decl found(x: int32, y: int32)
found(x, min(0)) :- start(x, _).
found(y, min(d1 + d2)) :- found(x, d1), edge(x, y, d2).
""",
    "flowlog-cc": """\
.decl edge(a: int32, b: int32, weight: int32)
.decl start(src: int32, v: int32)
.decl found(node: int32, least: int32)
found(node, min(node)) :- edge(node, _, _).
found(node, min(least)) :- edge(other, node, _), found(other, least).
""",
    "intervals": _EDGES
    + f"""\
.type Low <: number
.type High <: number
.lattice Low<> {{ Lub -> min(_, _) }}
.lattice High<> {{ Lub -> max(_, _) }}
.decl found(x: number, low: Low<>, high: High<>)
found(x, v + 0, v + 0) :- start(x, v).
found(y, low + w, min(high + w, {CAPPED})) :- found(x, low, high), edge(x, y, w).
""",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """`task` names a program and what SciPy does instead; `target` is a bound on ours over SciPy's.

    With `changes`, updates with so many edges are measured beside computing anew.
    """

    name: str
    task: str
    nodes: int
    quick: int
    degree: float
    peer: str
    both_ways: bool = False
    target: float | None = None
    changes: int = 0


def _of_size(millions: str, nodes: int, quick: int) -> tuple[Workload, ...]:
    tree = "maximum spanning tree"
    return (
        Workload(f"shortest-{millions}M", "shortest", nodes, quick, 10, "dijkstra", target=3),
        Workload(f"widest-{millions}M", "widest", nodes, quick, 10, tree, both_ways=True),
        Workload(f"components-{millions}M", "components", nodes, quick, 10, "connected_components", target=5),
        Workload(f"sparse-{millions}M", "components", nodes, quick, 1, "connected_components", target=5),
        Workload(f"control-{millions}M", "control", nodes, quick, 2, "rounds of sparse products", changes=20),
        Workload(
            f"intervals-{millions}M",
            "intervals",
            nodes,
            quick,
            5,
            "dijkstra, and rounds of NumPy",
            changes=20,
        ),
    )


WORKLOADS = (
    *_of_size("0.1", 100_000, 300),
    Workload("pairs-1k", "pairs", 1_000, 60, 5, "dijkstra from every node"),
    Workload("flowlog-sssp", "flowlog-sssp", 100_000, 300, 10, "dijkstra", target=3),
    Workload("flowlog-cc", "flowlog-cc", 100_000, 300, 10, "connected_components", both_ways=True, target=5),
    *_of_size("1", 1_000_000, 900),
)
