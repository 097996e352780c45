"""Seeded facts of the cyclic workloads, each with one size parameter; the same bytes on every machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import generate
from bench.cyclic.workloads import LABELLED, LUBM
from bench.random_numbers import below, unit, words
from bench.schemes import facts as published

Tables = dict[str, pa.Table]

FAN_OUT = 60
"""`k` of example 1: coworkers and coauthors of each person."""
MAX_DEPTH = 5
TYPES = ("Plus", "Minus", "Times")
_LARGEST_VALUE = 3
"""Products of the 32 leaves of the deepest tree then fit 64 bits."""

# Edges a node of each label: a few labels have most edges, as in YAGO.
LABELS: dict[str, float] = {
    "edge17": 2.0, "edge2": 1.5, "edge5": 1.5, "edge46": 1.5, "edge21": 1.2, "edge0": 1.2, "edge25": 1.0,
    "edge11": 1.0, "edge8": 1.0, "edge22": 1.0, "edge48": 0.8, "edge31": 0.8, "edge36": 0.8, "edge58": 0.8,
    "edge39": 0.6, "edge35": 0.6, "edge57": 0.6, "edge55": 0.6, "edge29": 0.5, "edge47": 0.5, "edge50": 0.5,
    "edge54": 0.5,
}  # fmt: skip
_SKEW = 2.0
"""A node of rank ``nodes * u ** _SKEW``: the degree of rank r falls as ``r ** (1 / _SKEW - 1)``."""


def as_tables(tables: published.Tables) -> Tables:
    """Columns of numbers as Arrow."""
    return {
        name: pa.table({f"column_{i}": column for i, column in enumerate(columns)})
        for name, columns in tables.items()
    }


def example_1(people: int) -> Tables:
    """`people` with `FAN_OUT` coworkers and coauthors each, who have one thing each in common.

    ``people * FAN_OUT + FAN_OUT`` facts follow: one more person knows two of these people.
    """
    person = np.repeat(np.arange(people, dtype=np.int64), FAN_OUT)
    met = np.arange(people * FAN_OUT, dtype=np.int64)
    coworker = people + 1 + met
    coauthor = coworker + people * FAN_OUT
    thing = people + 1 + 2 * people * FAN_OUT + met % FAN_OUT
    last = people
    return as_tables(
        {
            "cw": (np.append(person, last), np.append(coworker, 2)),
            "ca": (np.append(person, last), np.append(coauthor, 3)),
            "pc": (np.concatenate([coworker, coauthor]), np.concatenate([thing, thing])),
        }
    )


def expressions(count: int) -> Tables:
    """Complete binary trees of depth 1 to `MAX_DEPTH`, each with `count` sets of values for its leaves.

    An evaluation is the record of a node and an instance, which is an expression with a set of values.
    """
    expression = np.arange(count, dtype=np.int64)
    depth = 1 + expression % MAX_DEPTH
    sizes = 2 ** (depth + 1) - 1
    first = np.cumsum(sizes) - sizes
    tree = np.repeat(expression, sizes)
    # Numbered as in a heap: the children of place p are at 2p + 1 and 2p + 2.
    place = np.arange(len(tree), dtype=np.int64) - first[tree]
    node = np.arange(len(tree), dtype=np.int64)
    is_leaf = place >= 2 ** depth[tree] - 1
    inner, start = node[~is_leaf], first[tree[~is_leaf]]
    kind = np.array([*TYPES, "Leaf"])[np.where(is_leaf, len(TYPES), below(400, len(node), len(TYPES)))]
    leaf = np.repeat(node[is_leaf], count)
    instance = (tree[is_leaf, None] * count + expression).ravel()
    evaluation = _records(leaf, instance)
    return {
        "hasType": pa.table({"node": node, "type": kind}),
        "hasLhs": pa.table({"node": inner, "child": start + 2 * place[inner] + 1}),
        "hasRhs": pa.table({"node": inner, "child": start + 2 * place[inner] + 2}),
        "root": pa.table({"expression": expression, "node": first}),
        "eval": pa.table({"node": leaf, "e": evaluation}),
        "instance": pa.table({"e": evaluation, "i": instance}),
        "value": pa.table({"e": evaluation, "v": 1 + below(401, len(leaf), _LARGEST_VALUE)}),
    }


def _records(*columns: np.ndarray) -> pa.Array:
    """Columns of numbers as the text of records."""
    texts = [pc.cast(pa.array(column), pa.string()) for column in columns]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*texts, ", "), "]", "")


def labelled(nodes: int, labels: Iterable[str] = LABELS) -> Tables:
    """A graph with labels whose degrees follow a power law; what is a hub in one label is one in all."""
    names = np.argsort(words(410, nodes), kind="stable").astype(np.int64)
    tables: published.Tables = {}
    for i, (label, share) in enumerate(LABELS.items()):
        if label in labels:
            drawn = int(nodes * share)
            ends = [(nodes * unit(411 + 2 * i + end, drawn) ** _SKEW).astype(np.int64) for end in (0, 1)]
            tables[label] = published.distinct((names[ends[0]], names[ends[1]]))
    return as_tables(tables)


def power_law(nodes: int) -> Tables:
    """Ten edges a node."""
    return as_tables(generate.power_law(nodes))


def lubm(file: str, rows: int | None) -> Tables:
    """What was prepared; of each relation the first `rows`."""
    with np.load(file) as stored:
        return as_tables({name: tuple(c[:rows] for c in stored[name]) for name in stored.files})


GENERATORS: dict[str, Callable[[int], Tables]] = {
    "example-1": example_1,
    "expressions": expressions,
    "power-law": power_law,
}


def make(spec: Mapping[str, Any]) -> Tables:
    """The facts of a workload, generated or from the file that was prepared."""
    if spec["generator"] == LUBM:
        return lubm(spec["file"], spec["rows"])
    if spec["generator"] == LABELLED:
        return labelled(spec["size"], spec["labels"])
    return GENERATORS[spec["generator"]](spec["size"])
