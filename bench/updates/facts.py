"""Seeded facts of the workloads, and which of them come and go: the same ones in every process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.lubm import read_axioms
from bench.random_numbers import below, unit, words
from bench.schemes import facts as published
from bench.updates.workloads import (
    BATCHES,
    DOMAIN,
    FULL,
    LARGE,
    LAST,
    LATENCIES,
    LUBM,
    MEDIUM,
    PART,
    RANGE,
    RDFS,
    SMALL,
    SUBCLASS,
    SUBPROPERTY,
    TYPE,
    WITH_RULE,
)

Columns = published.Columns
Tables = published.Tables
Picked = dict[str, np.ndarray]
"""Rows by relation."""

_CHANCE = 0.01
_EDGES_A_NODE = 10
# The corners of R-MAT as GTgraph has them: a, a + b, a + b + c.
_CORNERS = (0.45, 0.60, 0.75)
_CITY, _REGION, _COUNTRY = 1000, 20, 10
_KNOWN = 4
_MUTUAL = 0.1
_NAMES, _THINGS = 100, 1000
"""Where the numbers of classes and properties begin in triples, and those of individuals."""
_KINDS = {"subClassOf": SUBCLASS, "subPropertyOf": SUBPROPERTY, "domain": DOMAIN, "range": RANGE}
_LEAST_SHARE = 20
"""A small change is at most one fact of so many."""
_TOUCHED = 5


def dense(nodes: int) -> Tables:
    """RAND1K: each pair is an edge with the same chance, which gives each node a few edges at least."""
    left, right = np.divmod(np.arange(nodes * nodes, dtype=np.int64), nodes)
    keep = unit(300, nodes * nodes) < max(_CHANCE, 3 / nodes)
    return {"edge": (left[keep], right[keep])}


def rmat(nodes: int) -> Tables:
    """RMAT1K: ten distinct edges a node, drawn by quarters of the matrix."""
    bits = (nodes - 1).bit_length()
    wanted, drawn = _EDGES_A_NODE * nodes, 4 * _EDGES_A_NODE * nodes
    left, right = np.zeros(drawn, np.int64), np.zeros(drawn, np.int64)
    for bit in range(bits):
        corner = np.searchsorted(_CORNERS, unit(310 + bit, drawn), side="right")
        left, right = 2 * left + corner // 2, 2 * right + corner % 2
    inside = (left < nodes) & (right < nodes) & (left != right)
    return {"edge": published.distinct((left[inside], right[inside]), wanted)}


def people(facts: int) -> Tables:
    """One person in five facts; half of those whom one knows live in the same city, a tenth know one back."""
    persons = facts // (1 + _KNOWN)
    person = np.arange(persons, dtype=np.int64)
    city = max(min(_CITY, persons // 8), 1)
    count = int(_KNOWN * persons / (1 + _MUTUAL))
    a, b = below(320, count, persons), below(321, count, persons)
    near = unit(322, count) < 0.5
    b = np.where(near, np.minimum(a // city * city + below(323, count, city), persons - 1), b)
    back = unit(324, count) < _MUTUAL
    knows = published.distinct((np.concatenate([a, b[back]]), np.concatenate([b, a[back]])))
    cities = np.arange(persons // city + 1, dtype=np.int64)
    regions = np.arange(len(cities) // _REGION + 1, dtype=np.int64)
    first_region = persons + len(cities)
    first_country = first_region + len(regions)
    part_of = (
        np.concatenate([persons + cities, first_region + regions]),
        np.concatenate([first_region + cities // _REGION, first_country + regions // _COUNTRY]),
    )
    return {"person": (person, persons + person // city), "knows": knows, "partOf": part_of}


def lubm(file: str, rows: int | None) -> Tables:
    """What was prepared; of each relation the first `rows`."""
    with np.load(file) as stored:
        return {name: tuple(column[:rows] for column in stored[name]) for name in stored.files}


def rdfs(tables: Tables, axioms: Sequence[str]) -> Tables:
    """The same as triples of numbers, and the ontology in its own relation."""
    lines = [[*axiom.split("\t"), ""][:3] for axiom in axioms]
    stated = [(kind, left, right) for kind, left, right in lines if kind in _KINDS]
    names = sorted({*tables, *(name for _, *both in stated for name in both)})
    number = {name: _NAMES + i for i, name in enumerate(names)}
    number["subOrganizationOf"] = PART
    ontology = np.array([(number[a], _KINDS[kind], number[b]) for kind, a, b in stated], np.int64)
    parts = []
    for name, columns in tables.items():
        things = [_THINGS + column for column in columns]
        named = np.full(len(columns[0]), number[name], np.int64)
        is_class = len(columns) == 1
        parts.append(
            (things[0], np.full_like(named, TYPE), named) if is_class else (things[0], named, things[1])
        )
    triples = tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
    return {"ontology": tuple(ontology.T), "T": triples}


GENERATORS: dict[str, Callable[[int], Tables]] = {
    "dag": published.dag,
    "skos": published.skos,
    "dense": dense,
    "rmat": rmat,
    "people": people,
}


def make(spec: Mapping[str, Any]) -> Tables:
    """The facts of a workload, generated or from the file that was prepared."""
    if spec["facts"] not in (LUBM, RDFS):
        return GENERATORS[spec["facts"]](spec["size"])
    tables = lubm(spec["file"], spec["rows"])
    if spec["facts"] == LUBM:
        return tables
    return rdfs(tables, read_axioms())


class Pool:
    """All facts but those of the fixed relations, in one scattered order from which changes take theirs."""

    def __init__(self, tables: Tables, fixed: Sequence[str] = ()) -> None:
        self.tables = tables
        self._names = [name for name in tables if name not in fixed]
        counts = [len(tables[name][0]) for name in self._names]
        self._starts = np.concatenate([[0], np.cumsum(counts)])
        self.total = sum(counts)
        self._order = np.argsort(words(330, self.total), kind="stable")

    def take(self, start: int, stop: int) -> Picked:
        """The facts at these places of the order."""
        chosen = np.sort(self._order[start:stop])
        bounds = np.searchsorted(chosen, self._starts)
        picked = {
            name: chosen[bounds[i] : bounds[i + 1]] - self._starts[i] for i, name in enumerate(self._names)
        }
        return {name: rows for name, rows in picked.items() if len(rows)}

    def facts(self, picked: Picked) -> Tables:
        return {name: tuple(column[rows] for column in self.tables[name]) for name, rows in picked.items()}

    def without(self, picked: Picked) -> Tables:
        """All facts but these."""
        return {
            name: tuple(np.delete(column, picked[name]) if name in picked else column for column in columns)
            for name, columns in self.tables.items()
        }

    # -- what the steps take ---------------------------------------------------------------------------

    def small(self, count: int) -> int:
        """So many facts, or fewer of a few."""
        return max(min(count, self.total // _LEAST_SHARE), 1)

    def batches(self) -> list[Picked]:
        """Ten batches of a thousand facts."""
        size = self.small(1000)
        return [self.take(i * size, (i + 1) * size) for i in range(BATCHES)]

    def touched(self, number: int) -> Picked:
        """What the small update of this number deletes, and the next one inserts again."""
        return self.take(number * _TOUCHED, (number + 1) * _TOUCHED)

    def missing(self, state: str) -> Picked:
        """Which facts a state does not have."""
        if state in (FULL, WITH_RULE):
            return {}
        if state == SMALL:
            return self.batches()[-1]
        if state == LAST:
            return self.touched(LATENCIES)
        if state == "after the first":
            return self.touched(0)
        counts = {
            "-1": 1,
            MEDIUM: self.small(100),
            LARGE: self.total // 4,
            "99 %": max(self.total // 100, 1),
            "50 %": self.total // 2,
        }
        return self.take(0, counts[state])


def count(tables: Tables) -> int:
    return sum(len(columns[0]) for columns in tables.values())


def digest(columns: Sequence[np.ndarray]) -> str:
    """A number for a set of rows, whatever their order."""
    if not columns:
        return "0"
    with np.errstate(over="ignore"):
        mixed = np.zeros(len(columns[0]), np.uint64)
        for column in columns:
            mixed = (mixed ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
        return f"{int(mixed.sum(dtype=np.uint64)):016x}"
