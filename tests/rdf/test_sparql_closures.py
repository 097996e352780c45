"""Queries over transitive properties: answered from the closure, without listing its pairs."""

from __future__ import annotations

import random

import pytest

from gpuengine.rdf.answers import Answering
from gpuengine.rdf.engine import RdfEngine
from gpuengine.schemes.closure import Closure

TRANSITIVE = (
    "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
    "<http://www.w3.org/2002/07/owl#TransitiveProperty>",
)
PREFIX = "PREFIX : <http://e/>\n"


def name(local: object) -> str:
    return f"<http://e/{local}>"


def closed(pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    while True:
        more = {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs
        if not more:
            return pairs
        pairs = pairs | more


@pytest.mark.parametrize("transitive", [True, False], ids=["closure", "table"])
@pytest.mark.parametrize("seed", range(4))
def test_paths(seed: int, transitive: bool) -> None:
    draw = random.Random(seed)
    edges = {(draw.randrange(25), draw.randrange(25)) for _ in range(30)}
    kb = RdfEngine(profile="owl2rl", schemes={"p_p": "closure"} if transitive else {})
    kb.load([(name(a), name("p"), name(b)) for a, b in edges])
    if transitive:
        kb.load([(name("p"), *TRANSITIVE)])
    assert kb.is_transitive(name("p")) is transitive
    pairs = closed(edges)
    start = draw.choice(sorted(edges))[0]
    for query, wanted in (
        (f"SELECT ?y {{ :{start} :p+ ?y }}", {(name(b),) for a, b in pairs if a == start}),
        (f"SELECT ?y {{ :{start} ^:p+ ?y }}", {(name(a),) for a, b in pairs if b == start}),
        (f"SELECT ?y {{ ?y :p+ :{start} }}", {(name(a),) for a, b in pairs if b == start}),
        (f"SELECT ?y {{ :{start} :p* ?y }}", {(name(b),) for a, b in pairs if a == start} | {(name(start),)}),
        ("SELECT ?x ?y { ?x :p+ ?y }", {(name(a), name(b)) for a, b in pairs}),
        ("SELECT ?x { ?x :p+ ?x }", {(name(a),) for a, b in pairs if a == b}),
    ):
        found = kb.sparql(PREFIX + query).rows()
        assert set(found) == wanted
        assert len(found) == len(wanted)
    for query, count in (
        ("{ ?x :p+ ?y }", len(pairs)),
        ("{ ?x :p ?y }", len(pairs if transitive else edges)),
        ("{ ?x :p+ ?x }", sum(a == b for a, b in pairs)),
        ("{ ?x :none ?y }", 0),
        ("{ ?x :none+ ?y }", 0),
    ):
        (row,) = kb.sparql(f"{PREFIX}SELECT (COUNT(*) AS ?n) {query}").rows()
        assert row == (f'"{count}"^^<http://www.w3.org/2001/XMLSchema#integer>',)


def test_pairs_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 3000
    kb = RdfEngine(profile="owl2rl")
    kb.load([(name(n), name("p"), name(n + 1)) for n in range(size)] + [(name("p"), *TRANSITIVE)])
    kb.materialise()

    def listing(*_: object, **__: object) -> None:
        raise AssertionError("the pairs are listed")

    monkeypatch.setattr(Closure, "scan", listing)
    monkeypatch.setattr(Answering, "closure", listing)
    for path in (":p", ":p+"):
        (row,) = kb.sparql(f"{PREFIX}SELECT (COUNT(*) AS ?n) {{ ?x {path} ?y }}").rows()
        assert row[0].startswith(f'"{size * (size + 1) // 2}"')
        assert len(kb.sparql(f"{PREFIX}SELECT ?y {{ :10 {path} ?y }}")) == size - 10
        assert len(kb.sparql(f"{PREFIX}SELECT ?x {{ ?x {path} :10 }}")) == 10
