"""Seeded generators of facts, each with one size parameter.

Run as a process (``python -m bench.generate NAME SIZE FOLDER``) so that the harness stays small.
Each generator returns the columns of its relations; `write` puts them into the folder as ``NAME.facts``
(tab-separated) or ``NAME.parquet``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench import ontology
from bench.random_numbers import below, unit, words

Columns = tuple[np.ndarray, ...]
Tables = dict[str, Columns]


def _distinct(*columns: np.ndarray) -> Columns:
    """Distinct rows, in a scattered order as real files have it."""
    rows = np.unique(np.stack(columns, axis=1), axis=0)
    order = np.argsort(words(99, len(rows)), kind="stable")
    return tuple(np.ascontiguousarray(rows[order, i]) for i in range(rows.shape[1]))


def _fellow(seed: int, of: np.ndarray, block: int) -> np.ndarray:
    """For each number another one of its block: code mostly refers to its own function.

    Blocks bound what can flow where, so that results grow linearly with the program.
    """
    return of // block * block + below(seed, len(of), block)


def dag(nodes: int) -> Tables:
    """Random acyclic graph with ten edges a node, node names shuffled."""
    a, b = below(1, 10 * nodes, nodes), below(2, 10 * nodes, nodes)
    names = np.argsort(words(3, nodes), kind="stable").astype(np.int64)
    keep = a != b
    low, high = np.minimum(a, b)[keep], np.maximum(a, b)[keep]
    return {"edge": _distinct(names[low], names[high])}


def chain(nodes: int) -> Tables:
    """One path through all nodes, in scattered order."""
    names = np.argsort(words(4, nodes), kind="stable").astype(np.int64)
    return {"edge": _distinct(names[:-1], names[1:])}


def random_graph(nodes: int) -> Tables:
    """Uniform random directed graph with ten edges a node: its closure is nearly complete."""
    return {"edge": _distinct(below(5, 10 * nodes, nodes), below(6, 10 * nodes, nodes))}


def tree(nodes: int) -> Tables:
    """Random recursive tree, edges from parent to child."""
    child = np.arange(1, nodes, dtype=np.int64)
    parent = (unit(7, nodes - 1) * child).astype(np.int64)
    return {"edge": _distinct(parent, child)}


def power_law(nodes: int) -> Tables:
    """Directed graph with ten edges a node whose degrees follow a power law."""
    a = (nodes * unit(8, 10 * nodes) ** 2.5).astype(np.int64)
    b = (nodes * unit(9, 10 * nodes) ** 2.5).astype(np.int64)
    names = np.argsort(words(10, nodes), kind="stable").astype(np.int64)
    keep = a != b
    return {"edge": _distinct(names[a[keep]], names[b[keep]])}


def andersen(variables: int) -> Tables:
    """Inclusion-based points-to facts over functions of sixty variables."""

    def statements(seed: int, count: int) -> Columns:
        left = below(seed, count, variables)
        return _distinct(left, _fellow(seed + 1, left, 60))

    return {
        "addressOf": statements(11, variables // 2),
        "assign": statements(13, variables * 5 // 6),
        "load": statements(15, variables // 10),
        "store": statements(17, variables // 15),
    }


def cspa(variables: int) -> Tables:
    """Facts for context-sensitive pointer analysis over functions of sixty variables."""
    left, pointer = below(19, variables * 9 // 10, variables), below(21, variables // 4, variables)
    return {
        "assign": _distinct(left, _fellow(20, left, 60)),
        "dereference": _distinct(pointer, _fellow(22, pointer, 60)),
    }


def points_to(variables: int) -> Tables:
    """Field-sensitive points-to facts over functions of eighty variables with ten fields."""
    made = below(23, variables // 2, variables)
    left = below(25, variables, variables)

    def accesses(seed: int) -> Columns:
        base = below(seed, variables // 4, variables)
        field = base // 80 * 10 + below(seed + 1, len(base), 10)
        return _distinct(base, field, _fellow(seed + 2, base, 80))

    return {
        "new": _distinct(made, _fellow(24, made, 80)),
        "assign": _distinct(left, _fellow(26, left, 80)),
        "store": accesses(27),
        "load": accesses(30),
    }


def readings(rows: int) -> Tables:
    """Two columns of integers up to a million; one row in a thousand satisfies ``x < 1000``."""
    return {"reading": (below(33, rows, 1_000_000), below(34, rows, 1_000_000))}


def source_chain(nodes: int) -> Tables:
    """One path through all nodes and its first node as the source."""
    tables = {"edge": (np.arange(nodes - 1, dtype=np.int64), np.arange(1, nodes, dtype=np.int64))}
    return tables | {"source": (np.zeros(1, dtype=np.int64),)}


GENERATORS: dict[str, Callable[[int], Tables]] = {
    "dag": dag,
    "chain": chain,
    "random": random_graph,
    "tree": tree,
    "power-law": power_law,
    "andersen": andersen,
    "cspa": cspa,
    "points-to": points_to,
    "ontology": ontology.facts,
    "readings": readings,
    "readings-parquet": readings,
    "source-chain": source_chain,
}


def write(tables: Tables, folder: Path, *, parquet: bool) -> None:
    """Write each relation as one file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in tables.items():
        table = pa.table({f"column_{i}": column for i, column in enumerate(columns)})
        if parquet:
            pa.parquet.write_table(table, folder / f"{name}.parquet")
        else:
            options = pa.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
            pa.csv.write_csv(table, folder / f"{name}.facts", options)


def main(arguments: list[str]) -> int:
    """``NAME SIZE FOLDER``"""
    name, size, folder = arguments[0], int(arguments[1]), Path(arguments[2])
    write(GENERATORS[name](size), folder, parquet=name.endswith("-parquet"))
    if name == "ontology":
        (folder / "ontology.dl").write_text(ontology.program(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
