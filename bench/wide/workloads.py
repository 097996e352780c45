"""Shapes of programs that compute: rules, the same as SQL, and facts of a given size.

Every answer is the number of rows and a sum over them, so that both can be compared without listing anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.random_numbers import below

OURS, DUCKDB = "gpuengine", "duckdb"
LOAD, COMPUTE = "load", "compute"
_SEED = 2200
_GROUPS = 100_000
_WEIGHTS = 1000

Facts = Mapping[str, Mapping[str, np.ndarray]]
"""Columns by relation and name."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`program` derives ``answer``, of which `value` is the column that is summed up; `query` computes the
    same rows in SQL. Both contain ``SIZE`` where the size belongs. `facts` makes facts of a size.
    """

    name: str
    program: str
    query: str
    value: str
    size: int
    quick: int
    facts: Callable[[int], Facts] = lambda size: {}


def _chain(size: int) -> Facts:
    x = np.arange(size)
    return {"edge": {"x": x, "y": x + 1, "w": x % 7 + 1}}


def _graph(size: int) -> Facts:
    pairs = np.unique(below(_SEED, 4 * size, size) * size + below(_SEED + 1, 4 * size, size))
    return {"edge": {"x": pairs // size, "y": pairs % size}}


def _pairs(size: int) -> Facts:
    values = (below(_SEED + seed, size, _WEIGHTS) for seed in (2, 3))
    return {"a": dict(zip("ixy", (np.arange(size), *values), strict=True))}


def _groups(size: int) -> Facts:
    return {"a": {"i": np.arange(size), "g": below(_SEED + 4, size, min(_GROUPS, size // 4))}}


def _floats(size: int) -> Facts:
    # Sums of these are exact, in whichever order they are added.
    return {"a": {**_groups(size)["a"], "v": below(_SEED + 5, size, 1 << 20) / 1024}}


def _names(size: int) -> Facts:
    groups = below(_SEED + 4, size, max(1, size // 4))
    return {"a": {"s": np.char.add("group ", groups.astype(str)), "t": np.arange(size).astype(str)}}


def _starts(size: int) -> Facts:
    return {"start": {"x": np.arange(1, size + 1)}}


_EDGE = ".decl edge(x: number, y: number, w: number)\n"
_A = ".decl a(i: number, g: number)\n"
_WEIGHTED = "SELECT 0::BIGINT x, 0::BIGINT d UNION SELECT e.y, d + e.w FROM answer a JOIN edge e ON a.x = e.x"

WORKLOADS = (
    Workload(
        "counter",
        ".decl answer(x: number)\nanswer(0).\nanswer(x + 1) :- answer(x), x < SIZE.\n",
        "SELECT 0::BIGINT x UNION SELECT x + 1 FROM answer WHERE x < SIZE",
        "x", 100_000, 100,
    ),
    Workload(
        "counter-float",
        ".decl answer(x: float)\nanswer(0.5).\nanswer(x + 0.5) :- answer(x), x < SIZE.0.\n",
        "SELECT 0.5::DOUBLE x UNION SELECT x + 0.5 FROM answer WHERE x < SIZE",
        "x", 50_000, 100,
    ),
    Workload(
        "chain",
        _EDGE + ".decl answer(x: number, d: number)\nanswer(0, 0).\n"
        "answer(y, d + w) :- answer(x, d), edge(x, y, w).\n",
        _WEIGHTED, "d", 100_000, 100, _chain,
    ),
    Workload(
        "chain-min",
        _EDGE + ".decl answer(x: number, d: number)\nanswer(0, min 0).\n"
        "answer(y, min d + w) :- answer(x, d), edge(x, y, w).\n",
        _WEIGHTED, "d", 100_000, 100, _chain,
    ),
    Workload(
        "hops",
        ".decl edge(x: number, y: number)\n.decl answer(x: number, y: number, d: number)\n"
        "answer(x, y, 1) :- edge(x, y).\nanswer(x, z, d + 1) :- answer(x, y, d), edge(y, z), d < 6.\n",
        "SELECT x, y, 1::BIGINT d FROM edge UNION "
        "SELECT a.x, e.y, d + 1 FROM answer a JOIN edge e ON a.y = e.x WHERE d < 6",
        "d", 2_000, 50, _graph,
    ),
    Workload(
        "collatz",
        ".decl start(x: number)\n.decl answer(x: number)\nanswer(x) :- start(x).\n"
        "answer(x / 2) :- answer(x), x % 2 = 0.\nanswer(3 * x + 1) :- answer(x), x % 2 = 1, x > 1.\n",
        "SELECT x FROM start UNION "
        "SELECT CASE WHEN x % 2 = 0 THEN x // 2 ELSE 3 * x + 1 END FROM answer WHERE x > 1",
        "x", 300_000, 100, _starts,
    ),
    Workload(
        "arithmetic",
        ".decl a(i: number, x: number, y: number)\n.decl answer(i: number, z: number)\n"
        "answer(i, x * 2 + y) :- a(i, x, y), x + y < 1500.\n",
        "SELECT DISTINCT i, x * 2 + y z FROM a WHERE x + y < 1500",
        "z", 6_000_000, 100, _pairs,
    ),
    Workload(
        "arithmetic-few",
        ".decl a(i: number, x: number, y: number)\n.decl answer(z: number)\n"
        "answer(x * 2 + y) :- a(_, x, y), x + y < 1500.\n",
        "SELECT DISTINCT x * 2 + y z FROM a WHERE x + y < 1500",
        "z", 6_000_000, 100, _pairs,
    ),
    Workload(
        "count-by-group",
        _A + ".decl answer(g: number, n: number)\nanswer(g, n) :- a(_, g), n = count : { a(_, g) }.\n",
        "SELECT g, count(*) n FROM a GROUP BY g",
        "n", 6_000_000, 100, _groups,
    ),
    Workload(
        "sum-by-group",
        _A + ".decl answer(g: number, n: number)\nanswer(g, n) :- a(_, g), n = sum i : { a(i, g) }.\n",
        "SELECT g, sum(i) n FROM a GROUP BY g",
        "n", 6_000_000, 100, _groups,
    ),
    Workload(
        "float-sums",
        ".decl a(i: number, g: number, v: float)\n.decl answer(g: number, n: float)\n"
        "answer(g, n) :- a(_, g, _), n = sum v : { a(_, g, v) }.\n",
        "SELECT g, sum(v) n FROM a GROUP BY g",
        "n", 2_000_000, 100, _floats,
    ),
    Workload(
        "count-by-name",
        ".decl a(s: symbol, t: symbol)\n.decl answer(s: symbol, n: number)\n"
        "answer(s, n) :- a(s, _), n = count : { a(s, _) }.\n",
        "SELECT s, count(*) n FROM a GROUP BY s",
        "n", 2_000_000, 100, _names,
    ),
    Workload(
        "strings",
        _A + ".decl answer(s: symbol, n: number)\n"
        'answer(cat("group ", to_string(g % 1000)), strlen(to_string(g))) :- a(_, g).\n',
        "SELECT DISTINCT 'group ' || (g % 1000)::VARCHAR s, length(g::VARCHAR) n FROM a",
        "n", 2_000_000, 100, _groups,
    ),
)  # fmt: skip
