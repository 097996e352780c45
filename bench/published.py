"""What peers needed for the packed workloads on another machine of the same kind.

Whole processes, warm files, two cores, best setting of each peer found; seconds.  On that machine
``np.sort`` of 10 M random ``uint64`` took `UNIT_SECONDS`, which is how the figures are carried over to
this one (`scaled`).  A missing entry was not measured; `MORE_THAN` marks a lower bound.
"""

from __future__ import annotations

UNIT_SECONDS = 0.094

# Columns in the order shown; the first is what the targets are stated against.
COLUMNS: dict[str, str] = {
    "souffle-compiled-2": "Soufflé compiled, 2 threads",
    "souffle-compiled-1": "Soufflé compiled, 1 thread",
    "souffle-interpreted-2": "Soufflé interpreted, 2 threads",
    "souffle-brie-1": "Soufflé brie, 1 thread",
    "datafrog": "datafrog, 1 thread",
    "duckdb-cte": "DuckDB recursive CTE, 2 threads",
    "duckdb-loop": "DuckDB semi-naive loop, 2 threads",
    "graphblas": "GraphBLAS, 2 threads",
    "igraph": "igraph BFS",
}

SECONDS: dict[str, dict[str, float]] = {
    "closure-dag-linear": {
        "souffle-compiled-1": 24.7, "souffle-compiled-2": 13.2, "souffle-interpreted-2": 15.1,
        "souffle-brie-1": 7.9, "datafrog": 7.1, "duckdb-cte": 8.0, "duckdb-loop": 14.4,
        "graphblas": 2.6, "igraph": 2.5,
    },
    "closure-random-linear": {
        "souffle-compiled-1": 1.41, "souffle-compiled-2": 0.79, "souffle-interpreted-2": 0.91,
        "souffle-brie-1": 0.26, "datafrog": 0.49, "duckdb-cte": 0.62, "duckdb-loop": 0.76,
        "graphblas": 0.43, "igraph": 0.26,
    },
    "closure-random-nonlinear": {
        "souffle-compiled-1": 26.6, "souffle-compiled-2": 15.8, "souffle-interpreted-2": 27.3,
        "duckdb-loop": 19.4, "graphblas": 0.62,
    },
    "closure-chain": {
        "souffle-compiled-1": 1.48, "souffle-compiled-2": 1.57, "souffle-interpreted-2": 1.51,
        "souffle-brie-1": 0.79, "datafrog": 0.83, "duckdb-cte": 0.33, "duckdb-loop": 19.1,
        "graphblas": 3.8, "igraph": 0.31,
    },
    "same-generation": {
        "souffle-compiled-1": 4.11, "souffle-compiled-2": 2.49, "souffle-interpreted-2": 2.84,
        "souffle-brie-1": 2.97, "datafrog": 1.27, "duckdb-cte": 1.40, "duckdb-loop": 1.87,
        "graphblas": 0.89,
    },
    "triangles": {
        "souffle-compiled-1": 2.91, "souffle-compiled-2": 1.64, "souffle-interpreted-2": 2.34,
        "datafrog": 0.61, "duckdb-cte": 1.90, "duckdb-loop": 2.32,
    },
    "cyclic-recursive": {
        "souffle-compiled-1": 2.06, "souffle-compiled-2": 1.16, "souffle-interpreted-2": 1.73,
        "datafrog": 0.08, "duckdb-loop": 0.38,
    },
    "points-to-fields": {
        "souffle-compiled-1": 5.04, "souffle-compiled-2": 3.52, "souffle-interpreted-2": 3.96,
        "datafrog": 1.23, "duckdb-loop": 4.96,
    },
    "andersen": {
        "souffle-compiled-1": 4.54, "souffle-compiled-2": 2.58, "souffle-interpreted-2": 3.52,
        "datafrog": 2.73, "duckdb-loop": 4.05,
    },
    "cspa": {
        "souffle-compiled-1": 8.70, "souffle-compiled-2": 4.42, "souffle-interpreted-2": 6.40,
        "datafrog": 2.74, "duckdb-loop": 3.75,
    },
    "closure-dag-nonlinear": {"souffle-compiled-1": 300.0, "souffle-compiled-2": 300.0},
}  # fmt: skip

# Cells that only say that the peer needs longer than this.
MORE_THAN: frozenset[tuple[str, str]] = frozenset(
    {("closure-dag-nonlinear", "souffle-compiled-1"), ("closure-dag-nonlinear", "souffle-compiled-2")}
)

# Peak resident memory, bytes.
PEAK_MEMORY: dict[str, dict[str, int]] = {
    "closure-dag-linear": {
        "souffle-compiled-2": 372_000_000, "souffle-brie-1": 45_000_000,
        "datafrog": 638_000_000, "duckdb-cte": 1_357_000_000,
    },
    "same-generation": {
        "souffle-compiled-2": 127_000_000, "souffle-brie-1": 132_000_000,
        "datafrog": 217_000_000, "duckdb-cte": 448_000_000,
    },
    "points-to-fields": {"souffle-compiled-2": 143_000_000, "datafrog": 210_000_000},
}  # fmt: skip

NINE: tuple[str, ...] = (
    "closure-dag-linear",
    "closure-random-linear",
    "closure-chain",
    "same-generation",
    "triangles",
    "cyclic-recursive",
    "points-to-fields",
    "andersen",
    "cspa",
)


def scaled(workload: str, column: str, factor: float) -> float | None:
    """The published seconds carried over to this machine: published x `factor`."""
    seconds = SECONDS.get(workload, {}).get(column)
    return None if seconds is None else seconds * factor
