"""Random queries over random graphs: our answers are those of pyoxigraph's store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pyoxigraph
import pytest

import gpuengine as ge
from gpuengine.rdf.graph import Graph
from gpuengine.rdf.sparql import answer
from tests.rdf import w3c
from tests.rdf.memory_graph import MemoryGraph
from tests.rdf.random_queries import TYPE, Quad, RandomQuery, random_quads


def store_of(quads: list[Quad]) -> pyoxigraph.Store:
    lines = "".join(f"{s} {p} {o} {g or ''} .\n" for s, p, o, g in quads)
    store = pyoxigraph.Store()
    # Blank nodes keep their labels.
    store.extend(pyoxigraph.parse(lines.encode(), format=pyoxigraph.RdfFormat.N_QUADS))
    return store


def oracle(store: pyoxigraph.Store, query: str) -> tuple[list[str], Counter]:
    found = store.query(query)
    names = [variable.value for variable in found.variables]
    rows = [tuple(None if term is None else w3c.normal(w3c.text(term)) for term in row) for row in found]
    order = sorted(range(len(names)), key=names.__getitem__)
    return sorted(names), Counter(tuple(row[place] for place in order) for row in rows)


def ours(graph: Graph, query: str) -> tuple[list[str], Counter]:
    found = answer(query, graph)
    order = sorted(range(len(found.variables)), key=found.variables.__getitem__)
    rows = (tuple(w3c.normal(row[place]) for place in order) for row in found.rows())
    return sorted(found.variables), Counter(rows)


RULES = """
PREFIX : <http://e/>
:r[?x, ?y] :- :q[?x, ?y] .
:c[?x] :- :p[?x, ?y] .
"""


def with_derived(quads: list[Quad]) -> list[Quad]:
    """What `RULES` come to, as triples."""
    found = dict.fromkeys(quads)
    for s, p, o, g in quads:
        if p == "<http://e/q>" and g is None:
            found[s, "<http://e/r>", o, g] = None
        if p == "<http://e/p>" and g is None:
            found[s, TYPE, "<http://e/c>", g] = None
    return list(found)


def memory_of(quads: list[Quad]) -> Graph:
    return MemoryGraph(with_derived(quads))


def engine_of(quads: list[Quad]) -> Graph:
    return _loaded(ge.RdfEngine(), with_derived(quads))


def engine_with_rules_of(quads: list[Quad]) -> Graph:
    """Classes and properties have relations of their own, and the engine derives what follows."""
    return _loaded(ge.RdfEngine(RULES), quads)


def _loaded(kb: ge.RdfEngine, quads: list[Quad]) -> ge.RdfEngine:
    kb.load([quad[:3] for quad in quads if quad[3] is None])
    kb.load([quad for quad in quads if quad[3] is not None])
    return kb


@pytest.mark.parametrize("make", [memory_of, engine_of, engine_with_rules_of])
@pytest.mark.parametrize("seed", range(100))
def test_random_queries(seed: int, make: Callable[[list[Quad]], Graph]) -> None:
    random = Random(seed)
    quads = random_quads(random)
    graph = make(quads)
    store = store_of(with_derived(quads))
    for _ in range(10):
        query = RandomQuery(random).select(2)
        assert ours(graph, query) == oracle(store, query), query
