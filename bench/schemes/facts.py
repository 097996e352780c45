"""Seeded facts of the published shapes, each with one size parameter; the same bytes on every machine.

The papers give counts, not files: nodes, facts before and facts after. Sizes are chosen to give these.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.random_numbers import below, unit, words

Columns = tuple[np.ndarray, ...]
Tables = dict[str, Columns]

UNION_PARTS = tuple("ABCDEFGHIJKLMN")
BATCH = 1000
"""How many facts table 5.10 adds at a time."""
BATCHES = 3
_NODES_AN_EDGE = 0.75
_RING = 35
_EDGES_A_RING_NODE = 4000
_UPPERMOST = 0.02
_SECOND_SUPERCLASS = 0.1
_INSTANCES_A_CLASS = 5


def distinct(pairs: Columns, count: int | None = None) -> Columns:
    """The first `count` distinct pairs, in the order in which they first appear."""
    left, right = pairs
    packed = (left.astype(np.uint64) << np.uint64(32)) | right.astype(np.uint64)
    _, first = np.unique(packed, return_index=True)
    kept = np.sort(first)[:count]
    return left[kept], right[kept]


def random_pairs(seed: int, count: int, nodes: int) -> Columns:
    """Exactly `count` distinct pairs of nodes, uniformly."""
    drawn = count + count // 8 + 16
    while True:
        pairs = distinct((below(seed, drawn, nodes), below(seed + 1, drawn, nodes)), count)
        if len(pairs[0]) == count:
            return pairs
        drawn *= 2


def _joined(*parts: Columns) -> Columns:
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _names(seed: int, nodes: int) -> np.ndarray:
    """A shuffled name for every node, so that nothing can be read off the order of numbers."""
    return np.argsort(words(seed, nodes), kind="stable").astype(np.int64)


def dag(nodes: int) -> Tables:
    """TC, which is DAG-R: an acyclic random graph with exactly ten distinct edges a node."""
    names = _names(100, nodes)
    drawn = 12 * nodes
    a, b = below(101, drawn, nodes), below(102, drawn, nodes)
    keep = a != b
    low, high = distinct((np.minimum(a, b)[keep], np.maximum(a, b)[keep]), 10 * nodes)
    return {"edge": (names[low], names[high])}


def tc_plus(nodes: int) -> Tables:
    """TC+: eleven facts a node; R, R2 and X become nearly all pairs. A fifth of B is in C as well."""
    count = nodes * 2
    b = random_pairs(112, count, nodes)
    c = random_pairs(114, count, nodes)
    shared = count // 5
    c = distinct(_joined((b[0][:shared], b[1][:shared]), c), count)
    return {
        "A": random_pairs(110, 3 * nodes, nodes),
        "B": b,
        "C": c,
        "D": random_pairs(116, 2 * nodes, nodes),
        "E": random_pairs(118, nodes, nodes),
        "F": random_pairs(120, nodes, nodes),
    }


def union(pairs: int) -> Tables:
    """U: fourteen relations of random pairs over twice as many nodes, so that they hardly overlap."""
    return {name: random_pairs(130 + 2 * i, pairs, 2 * pairs) for i, name in enumerate(UNION_PARTS)}


def tcu(nodes: int) -> Tables:
    """TCU: three A edges a node, whose closure is nine tenths of all pairs; D and E with few in common."""
    d = random_pairs(162, nodes * 7 // 4, nodes)
    e = random_pairs(164, nodes * 7 // 4, nodes)
    shared = nodes // 4
    e = distinct(_joined((d[0][:shared], d[1][:shared]), e), nodes * 7 // 4)
    return {"A": random_pairs(160, 3 * nodes, nodes), "D": d, "E": e}


def _links(seed: int, children: np.ndarray) -> Columns:
    """From each category to one that is more general: any of smaller number."""
    return children, (unit(seed, len(children)) * children).astype(np.int64)


def _ring(seed: int, length: int, nodes: int) -> Columns:
    """A cycle through random ones of the more general categories."""
    around = below(seed, length, max(int(nodes * _UPPERMOST), 2))
    return around, np.roll(around, -1)


def category_count(edges: int) -> int:
    """How many categories the graph of so many `broader` edges has."""
    return int(edges * _NODES_AN_EDGE)


def _growing_categories(edges: int) -> tuple[Columns, int, int]:
    """A category graph and additions to it, distinct; how many are the graph's, how many a batch has."""
    nodes, ring = category_count(edges), _RING + edges // _EDGES_A_RING_NODE
    batch = min(BATCH, edges // 20)
    first = _joined(
        _ring(170, ring, nodes),
        _links(171, np.arange(1, nodes, dtype=np.int64)),
        _links(172, 1 + below(173, edges - nodes + 1, nodes - 1)),
    )
    # The last batch closes another cycle: that of table 5.10 nearly doubles the facts.
    more = _links(174, 1 + below(175, (BATCHES + 1) * batch, nodes - 1))
    late = _ring(176, ring // 3, nodes)
    early = (BATCHES - 1) * batch
    added = _joined((more[0][:early], more[1][:early]), late, (more[0][early:], more[1][early:]))
    a, b = distinct(_joined(first, added))
    names = _names(177, nodes)
    return (names[a], names[b]), len(distinct(first)[0]), batch


def categories(edges: int) -> Columns:
    """`broader`: each category below one or more general ones, with a long cycle among the most general."""
    (narrow, general), count, _ = _growing_categories(edges)
    return narrow[:count], general[:count]


def additions(edges: int) -> list[Columns]:
    """What table 5.10 adds to `categories` of the same size: batches of facts that it does not have."""
    (narrow, general), count, batch = _growing_categories(edges)
    starts = (count + i * batch for i in range(BATCHES))
    return [(narrow[start : start + batch], general[start : start + batch]) for start in starts]


def broader(edges: int) -> Tables:
    """The `broader` edges of `categories` alone."""
    return {"broader": categories(edges)}


def skos(edges: int) -> Tables:
    """`categories`, a tenth as many `related` pairs, and articles with a `subject`."""
    nodes = category_count(edges)
    article = np.arange(edges // 2, dtype=np.int64)
    return {
        "broader": categories(edges),
        "related": random_pairs(180, edges // 10, nodes),
        "subject": (nodes + article, below(182, len(article), nodes)),
    }


def subclasses(classes: int) -> Tables:
    """Wikidata-like: four levels of classes, each ten times as large as the one above it, and instances.

    A class has a superclass one level up, some have two: the closure is a few times its edges.
    """
    ends = [classes // 1000, classes // 100, classes // 10, classes]
    children, parents = [], []
    for level in range(1, len(ends)):
        start = ends[level - 2] if level > 1 else 0
        child = np.arange(ends[level - 1], ends[level], dtype=np.int64)
        second = child[unit(190 + level, len(child)) < _SECOND_SUPERCLASS]
        child = np.concatenate([child, second])
        children.append(child)
        parents.append(start + below(195 + level, len(child), ends[level - 1] - start))
    instance = np.arange(_INSTANCES_A_CLASS * classes, dtype=np.int64)
    return {
        "subclassOf": distinct((np.concatenate(children), np.concatenate(parents))),
        "instanceOf": (classes + instance, below(199, len(instance), classes)),
    }


def component(nodes: int) -> Tables:
    """One connected component: a random spanning tree and as many edges again."""
    child = np.arange(1, nodes, dtype=np.int64)
    tree = (child, (unit(200, nodes - 1) * child).astype(np.int64))
    names = _names(201, nodes)
    a, b = distinct(_joined(tree, random_pairs(202, nodes, nodes)))
    return {"edge": (names[a], names[b])}


GENERATORS: dict[str, Callable[[int], Tables]] = {
    "dag": dag,
    "tc-plus": tc_plus,
    "union": union,
    "tcu": tcu,
    "broader": broader,
    "skos": skos,
    "subclasses": subclasses,
    "component": component,
}
