"""Facts as Parquet, made once: ``python -m bench.spark.facts NAME SIZE FOLDER``.

Each relation is a directory of `FILES` files, as a cluster writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import generate
from bench.random_numbers import below, unit

FILES = 4
_SPARSE, _DENSE = 5, 100
_BLOCK = 16
_PREDICATES = 20


def _pairs(a: np.ndarray, b: np.ndarray) -> pa.Table:
    return pa.table({"a": a, "b": b})


def edges(rows: int) -> dict[str, pa.Table]:
    """Two columns of integers up to a million; a few rows repeat."""
    return {"edge": _pairs(below(41, rows, 1_000_000), below(42, rows, 1_000_000))}


def triples(rows: int) -> dict[str, pa.Table]:
    """Names of a quarter as many resources as rows, the first ones far more often, and few predicates."""

    def names(prefix: str, numbers: np.ndarray) -> pa.Array:
        return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")

    resources = rows // 4
    subjects = below(43, rows, resources)
    objects = (resources * unit(44, rows) ** 2).astype(np.int64)
    return {
        "triple": pa.table(
            {
                "s": names("http://example.org/resource/", subjects),
                "p": names("http://example.org/property/", below(45, rows, _PREDICATES)),
                "o": names("http://example.org/resource/", objects),
            }
        )
    }


def _random_graph(nodes: int, degree: int) -> dict[str, pa.Table]:
    count = degree * nodes
    return {"edge": _pairs(*generate._distinct(below(46, count, nodes), below(47, count, nodes)))}


def sparse(nodes: int) -> dict[str, pa.Table]:
    """Random digraph of five edges a node: almost every node reaches almost every other."""
    return _random_graph(nodes, _SPARSE)


def dense(nodes: int) -> dict[str, pa.Table]:
    """Random digraph of a hundred edges a node: each pair of its closure is derived a hundred times."""
    return _random_graph(nodes, _DENSE)


def chain(nodes: int) -> dict[str, pa.Table]:
    """One path through all nodes."""
    return {"edge": _pairs(*generate.chain(nodes)["edge"])}


def dag(nodes: int) -> dict[str, pa.Table]:
    """Random acyclic graph of ten edges a node."""
    return {"edge": _pairs(*generate.dag(nodes)["edge"])}


def tree(nodes: int) -> dict[str, pa.Table]:
    """Random recursive tree, edges from parent to child."""
    return {"edge": _pairs(*generate.tree(nodes)["edge"])}


def andersen(variables: int) -> dict[str, pa.Table]:
    """Statements of functions of sixty variables each."""
    return {name: _pairs(*columns) for name, columns in generate.andersen(variables).items()}


def blocks(nodes: int) -> dict[str, pa.Table]:
    """Random trees of sixteen nodes each, whose edges point either way."""
    child = np.arange(nodes, dtype=np.int64)
    place = child % _BLOCK
    parent = child - place + (unit(48, nodes) * place).astype(np.int64)
    flip = below(49, nodes, 2).astype(bool)
    keep = place > 0
    a, b = np.where(flip, child, parent)[keep], np.where(flip, parent, child)[keep]
    return {"edge": _pairs(*generate._distinct(a, b))}


def dag_and_more(nodes: int) -> dict[str, pa.Table]:
    """A random acyclic graph, and a thousand edges that are inserted later."""
    return _split(dag(nodes)["edge"])


def tree_and_more(nodes: int) -> dict[str, pa.Table]:
    """A random tree, and a thousand edges that are inserted later."""
    return _split(tree(nodes)["edge"])


def _split(table: pa.Table) -> dict[str, pa.Table]:
    new = min(1000, table.num_rows // 4)
    return {"edge": table.slice(new), "new": table.slice(0, new)}


GENERATORS: dict[str, Callable[[int], dict[str, pa.Table]]] = {
    "edges": edges,
    "triples": triples,
    "sparse": sparse,
    "dense": dense,
    "chain": chain,
    "dag": dag,
    "tree": tree,
    "andersen": andersen,
    "blocks": blocks,
    "dag-and-more": dag_and_more,
    "tree-and-more": tree_and_more,
}


def write(tables: dict[str, pa.Table], folder: Path) -> None:
    """Each relation as a directory of Parquet files."""
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        rows = -(-table.num_rows // FILES)
        for number in range(FILES):
            pq.write_table(table.slice(number * rows, rows), folder / name / f"part-{number}.parquet")


def main(arguments: list[str]) -> int:
    """``NAME SIZE FOLDER``"""
    write(GENERATORS[arguments[0]](int(arguments[1])), Path(arguments[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
