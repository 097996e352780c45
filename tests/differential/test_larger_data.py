"""The engine on thousands of facts, against answers computed directly with Python sets.

The naive oracle is too slow here, yet only such sizes reach merged runs, several chunks, both threads
and a memory budget that matters. Values are spread over the id ranges: small, around 2^24, huge, text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpuengine as ge

Pairs = set[tuple[Any, Any]]

SPREAD: dict[str, tuple[str, Callable[[int], Any]]] = {
    "small": ("number", lambda i: i),
    "around 2^24": ("number", lambda i: 2**24 - 200 + i),
    "scattered": ("number", lambda i: (i * 0x9E3779B97F4A7C15) % 2**64 - 2**63),
    "unsigned": ("unsigned", lambda i: (i * 0x9E3779B97F4A7C15) % 2**64),
    "float": ("float", lambda i: i / 8),
    "symbol": ("symbol", lambda i: f"node {i}"),
}
OPTIONS = [{"threads": 1}, {"threads": 2}, {"threads": 2, "memory": "64MB"}]


def graph(nodes: int, edges: int, seed: int) -> Pairs:
    random = np.random.default_rng(seed)
    return {(int(x), int(y)) for x, y in random.integers(0, nodes, (edges, 2))}


def successors(pairs: Pairs) -> dict[Any, set[Any]]:
    found: dict[Any, set[Any]] = defaultdict(set)
    for x, y in pairs:
        found[x].add(y)
    return found


def closure(pairs: Pairs) -> Pairs:
    following = successors(pairs)
    found = set()
    for start in list(following):
        todo, seen = list(following[start]), set(following[start])
        while todo:
            for y in following.get(todo.pop(), ()):
                if y not in seen:
                    seen.add(y)
                    todo.append(y)
        found |= {(start, y) for y in seen}
    return found


def derive(
    program: str, facts: dict[str, Any], relation: str, options: dict[str, Any]
) -> set[tuple[Any, ...]]:
    kb = ge.Engine(program, **options)
    for name, rows in facts.items():
        kb.load(name, list(rows))
    kb.materialise()
    rows = kb[relation].to_pylist()
    assert len(rows) == len(set(rows)) == len(kb[relation])
    return set(rows)


@pytest.mark.parametrize("spread", SPREAD)
@pytest.mark.parametrize(
    "rule", ["path(x, y), edge(y, z)", "edge(x, y), path(y, z)", "path(x, y), path(y, z)"]
)
def test_closure(spread: str, rule: str) -> None:
    type_, value = SPREAD[spread]
    edges = {(value(x), value(y)) for x, y in graph(400, 520, seed=1)}
    program = f"""
    .decl edge(x: {type_}, y: {type_})
    .decl path(x: {type_}, y: {type_})
    .output path
    path(x, y) :- edge(x, y).
    path(x, z) :- {rule}.
    """
    assert derive(program, {"edge": edges}, "path", {"threads": 2}) == closure(edges)


@pytest.mark.parametrize("options", OPTIONS)
def test_triangles(options: dict[str, Any]) -> None:
    edges = graph(300, 6000, seed=2)
    following = successors(edges)
    expected = {(x, y, z) for x, y in edges for z in following[y] if x in following[z]}
    program = """
    .decl edge(x: number, y: number)
    .decl triangle(x: number, y: number, z: number)
    .output triangle
    triangle(x, y, z) :- edge(x, y), edge(y, z), edge(z, x).
    """
    assert derive(program, {"edge": edges}, "triangle", options) == expected


@pytest.mark.parametrize("options", OPTIONS)
def test_same_generation(options: dict[str, Any]) -> None:
    parents = {(i, (i - 1) // 3) for i in range(1, 400)}
    depth = {0: 0}
    for child, parent in sorted(parents):
        depth[child] = depth[parent] + 1
    expected = {(x, y) for x in depth for y in depth if depth[x] == depth[y] and x != y}
    program = """
    .decl parent(child: number, parent: number)
    .decl sg(x: number, y: number)
    .output sg
    sg(x, y) :- parent(x, p), parent(y, p), x != y.
    sg(x, y) :- parent(x, p), sg(p, q), parent(y, q).
    """
    assert derive(program, {"parent": parents}, "sg", options) == expected


@pytest.mark.parametrize("options", OPTIONS)
def test_wide_joins(options: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    p = {tuple(map(int, row)) for row in random.integers(0, 12, (700, 3))}
    q = {tuple(map(int, row)) for row in random.integers(0, 12, (700, 4))}
    by_pair = defaultdict(set)
    for b, c, d, e in q:
        by_pair[b, c].add((d, e))
    expected = {(a, b, c, d, e) for a, b, c in p for d, e in by_pair[b, c] if a != e}
    program = """
    .decl p(a: number, b: number, c: number)
    .decl q(b: number, c: number, d: number, e: number)
    .decl r(a: number, b: number, c: number, d: number, e: number)
    .output r
    r(a, b, c, d, e) :- p(a, b, c), q(b, c, d, e), a != e.
    """
    assert derive(program, {"p": p, "q": q}, "r", options) == expected


@pytest.mark.parametrize("options", OPTIONS)
def test_negation_and_projection(options: dict[str, Any]) -> None:
    edges = graph(200, 1500, seed=4)
    blocked = {y for x, y in edges if x < 20}
    expected = {(y, x) for x, y in edges if y not in blocked and (y, x) not in edges}
    program = """
    .decl edge(x: number, y: number)
    .decl low(x: number, y: number)
    .decl r(x: number, y: number)
    .output r
    low(x, y) :- edge(x, y), x < 20.
    r(y, x) :- edge(x, y), !low(_, y), !edge(y, x).
    """
    assert derive(program, {"edge": edges}, "r", options) == expected


@pytest.mark.parametrize("options", OPTIONS)
def test_aggregates_by_group(options: dict[str, Any]) -> None:
    random = np.random.default_rng(5)
    values = zip(random.integers(0, 90, 5000), random.integers(-(2**62), 2**62, 5000), strict=True)
    rows = {(int(g), int(v)) for g, v in values}
    rows |= {(g, g) for g in range(5)}
    groups = successors(rows)
    expected = {
        (g, len(vs), (sum(vs) + 2**63) % 2**64 - 2**63, min(vs), max(vs), sum(v > 0 for v in vs))
        for g, vs in groups.items()
    }
    program = """
    .decl v(g: number, x: number)
    .decl group(g: number)
    .decl r(g: number, n: number, s: number, low: number, high: number, positive: number)
    .output r
    group(g) :- v(g, _).
    r(g, n, s, low, high, positive) :- group(g), n = count : { v(g, _) }, s = sum x : { v(g, x) },
        low = min x : { v(g, x) }, high = max x : { v(g, x) }, positive = count : { v(g, x), x > 0 }.
    """
    assert derive(program, {"v": rows}, "r", options) == expected


def test_many_tiny_rounds() -> None:
    length = 5000
    program = """
    .decl next(x: number, y: number)
    .decl reach(x: number)
    .output reach
    reach(0).
    reach(y) :- reach(x), next(x, y).
    """
    chain = [(i, i + 1) for i in range(length)]
    assert derive(program, {"next": chain}, "reach", {"threads": 2}) == {(i,) for i in range(length + 1)}


@pytest.mark.parametrize("spread", ["small", "scattered", "symbol"])
def test_equivalence(spread: str) -> None:
    type_, value = SPREAD[spread]
    links = {(i, i + 7) for i in range(600) if i % 70 < 60}
    both = closure(links | {(y, x) for x, y in links})
    program = f"""
    .decl link(x: {type_}, y: {type_})
    .decl same(x: {type_}, y: {type_}) eqrel
    .output same
    same(x, y) :- link(x, y).
    """
    found = derive(program, {"link": {(value(x), value(y)) for x, y in links}}, "same", {"threads": 2})
    assert found == {(value(x), value(y)) for x, y in both}


@pytest.mark.parametrize("options", OPTIONS)
def test_mutual_recursion_points_to(options: dict[str, Any]) -> None:
    random = np.random.default_rng(6)
    new = {(int(v), int(v) % 40) for v in random.integers(0, 150, 60)}
    assign, load, store = (graph(150, size, seed) for size, seed in ((150, 7), (60, 8), (60, 9)))
    points: Pairs = set(new)
    while True:
        of = successors(points)
        heap = successors({(o, p) for base, v in store for o in of[base] for p in of[v]})
        more = {(v, o) for v, u in assign for o in of[u]} | {
            (v, p) for v, base in load for o in of[base] for p in heap[o]
        }
        if more <= points:
            break
        points |= more
    program = """
    .decl new(v: number, o: number)
    .decl assign, load, store(v: number, u: number)
    .decl points(v: number, o: number)
    .decl heap(o: number, p: number)
    .output points
    points(v, o) :- new(v, o).
    points(v, o) :- assign(v, u), points(u, o).
    heap(o, p) :- store(b, v), points(b, o), points(v, p).
    points(v, p) :- load(v, b), points(b, o), heap(o, p).
    """
    facts = {"new": new, "assign": assign, "load": load, "store": store}
    assert derive(program, facts, "points", options) == points


@pytest.mark.parametrize("options", OPTIONS)
def test_computed_values_and_filters(options: dict[str, Any]) -> None:
    edges = graph(120, 2000, seed=10)
    expected = {(x * y - 7, (x + y) % 5) for x, y in edges if x < y and (x & y) != 0}
    program = """
    .decl edge(x: number, y: number)
    .decl r(a: number, b: number)
    .output r
    r(x * y - 7, b) :- edge(x, y), x < y, (x band y) != 0, b = (x + y) % 5.
    """
    assert derive(program, {"edge": edges}, "r", options) == expected


@pytest.mark.parametrize("options", OPTIONS)
def test_cross_product(options: dict[str, Any]) -> None:
    program = """
    .decl a(x: number)
    .decl b(y: symbol)
    .decl r(x: number, y: symbol)
    .output r
    r(x, y) :- a(x), b(y).
    """
    left, right = list(range(500)), [f"s{i}" for i in range(400)]
    facts = {"a": [(x,) for x in left], "b": [(y,) for y in right]}
    assert derive(program, facts, "r", options) == {(x, y) for x in left for y in right}
