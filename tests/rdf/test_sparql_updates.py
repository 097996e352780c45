"""SPARQL Update: what changes is what changes in pyoxigraph's store, and derived triples follow."""

from __future__ import annotations

from random import Random

import pyoxigraph
import pytest

import gpuengine as ge
from gpuengine.errors import ProgramErrors
from tests.rdf import w3c
from tests.rdf.random_queries import GRAPHS, LITERALS, NODES, PREDICATES, Quad, RandomQuery, random_quads

Triples = set[Quad]


def state_of(store: pyoxigraph.Store) -> Triples:
    return {
        (
            w3c.text(quad.subject),
            w3c.text(quad.predicate),
            w3c.text(quad.object),
            None if isinstance(quad.graph_name, pyoxigraph.DefaultGraph) else w3c.text(quad.graph_name),
        )
        for quad in store
    }


def state_of_engine(kb: ge.RdfEngine) -> Triples:
    default = kb.sparql("SELECT ?s ?p ?o { ?s ?p ?o }").rows()
    named = kb.sparql("SELECT ?s ?p ?o ?g { GRAPH ?g { ?s ?p ?o } }").rows()
    return {(*row, None) for row in default} | set(named)


def loaded(quads: list[Quad]) -> tuple[ge.RdfEngine, pyoxigraph.Store]:
    quads = [quad for quad in quads if not any(term and term.startswith("_:") for term in quad)]
    kb = ge.RdfEngine()
    kb.load([quad[:3] for quad in quads if quad[3] is None])
    kb.load([quad for quad in quads if quad[3] is not None])
    store = pyoxigraph.Store()
    lines = "".join(f"{s} {p} {o} {g or ''} .\n" for s, p, o, g in quads)
    store.load(lines.encode(), format=pyoxigraph.RdfFormat.N_QUADS)
    return kb, store


def random_request(random: Random) -> str:
    # Paths are not compared here: the nodes that they must find in pyoxigraph's graph may be gone.
    query = RandomQuery(random, paths=False)

    def data() -> str:
        triples = " ".join(
            f"{random.choice(NODES)} {random.choice(PREDICATES)} {random.choice(NODES + LITERALS)} ."
            for _ in range(random.randint(1, 3))
        )
        return f"GRAPH {random.choice(GRAPHS)} {{ {triples} }}" if random.random() < 0.3 else triples

    def template() -> str:
        return " ".join(query.triple() for _ in range(random.randint(1, 2)))

    def graph() -> str:
        return random.choice(["DEFAULT", "NAMED", "ALL", *(f"GRAPH {name}" for name in GRAPHS)])

    def place() -> str:
        return random.choice(["DEFAULT", *GRAPHS])

    kind = random.random()
    if kind < 0.25:
        return f"INSERT DATA {{ {data()} }}"
    if kind < 0.4:
        return f"DELETE DATA {{ {data()} }}"
    if kind < 0.55:
        return f"DELETE WHERE {{ {query.triple()} {query.triple()} }}"
    if kind < 0.85:
        where = query.group(1)
        within = f"WITH {random.choice(GRAPHS)} " if random.random() < 0.2 else ""
        return f"{within}DELETE {{ {template()} }} INSERT {{ {template()} }} WHERE {where}"
    if kind < 0.92:
        return f"{random.choice(['CLEAR', 'DROP'])} SILENT {graph()}"
    return f"{random.choice(['ADD', 'COPY', 'MOVE'])} SILENT {place()} TO {place()}"


@pytest.mark.parametrize("seed", range(60))
def test_random_requests(seed: int) -> None:
    random = Random(seed)
    kb, store = loaded(random_quads(random))
    for _ in range(6):
        request = " ;\n".join(random_request(random) for _ in range(random.randint(1, 3)))
        kb.sparql_update(request)
        store.update(request)
        assert state_of_engine(kb) == state_of(store), request


def test_derived_triples_follow() -> None:
    kb = ge.RdfEngine("PREFIX : <http://e/>\n:q[?y, ?x] :- :p[?x, ?y] .")
    kb.sparql_update("INSERT DATA { :a :p :b . :c :p :d }")
    assert kb.sparql("ASK { :b :q :a . :d :q :c }")
    # The second operation sees what follows from the first.
    kb.sparql_update("DELETE DATA { :a :p :b } ; INSERT { ?x :was :p } WHERE { ?y :q ?x }")
    assert kb.sparql("SELECT ?x { ?x :was :p }").rows() == [("<http://e/c>",)]
    assert not kb.sparql("ASK { :b :q :a }")


def test_a_new_blank_node_for_each_solution() -> None:
    kb = ge.RdfEngine()
    kb.load([("<http://e/a>", "<http://e/p>", f'"{number}"') for number in range(3)])
    kb.sparql_update("INSERT { ?x <http://e/q> _:b . _:b <http://e/r> ?y } WHERE { ?x <http://e/p> ?y }")
    found = kb.sparql("SELECT ?y { <http://e/a> <http://e/q> [ <http://e/r> ?y ] } ORDER BY ?y")
    assert found.rows() == [('"0"',), ('"1"',), ('"2"',)]
    assert len(kb.sparql("SELECT DISTINCT ?b { ?x <http://e/q> ?b }")) == 3


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        ("LOAD <http://e/data>", "LOAD is not supported"),
        ("INSERT DATA { ?x <http://e/p> 1 }", "data have no variables"),
        ("DELETE DATA { _:b <http://e/p> 1 }", "a blank node can't be deleted"),
        ("SELECT * { ?s ?p ?o }", "this is a query"),
        ("INSRT DATA { }", "did you mean the word 'INSERT'"),
        ("INSERT DATA { <http://e/a> <http://e/p> 1 ", "expected '.'"),
    ],
)
def test_wrong_requests(request_text: str, message: str) -> None:
    kb = ge.RdfEngine()
    with pytest.raises(ProgramErrors, match=message.replace(".", r"\.")):
        kb.sparql_update(request_text)
