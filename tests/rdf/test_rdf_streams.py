"""Random streams of updates: triples, axioms, equalities, literals of one value, named graphs and rules come
and go, and everything that can be read is what computing anew gives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import gpuengine as ge
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.ontology import SAME, owl
from gpuengine.rdf.terms import TYPE, XSD
from tests.rdf.entailment import Statement, broken, compiled_closure
from tests.rdf.random_ontologies import ROLES, THINGS, Writer, ontology
from tests.rdf.test_owl_same_as import visible

LITERALS = [f'"{n}"^^<{XSD}{kind}>' for n in ("1", "01", "2") for kind in ("integer", "int", "decimal")]
LITERALS += ['"a"', '"b"', f'"a"^^<{XSD}token>']
GRAPH = "<http://x/graph>"
RULES = [
    f"[?x, {ROLES[1]}, {LITERALS[1]}] :- [?x, {ROLES[0]}, {LITERALS[0]}] .",
    f"[?y, {ROLES[2]}, ?x] :- [?x, {ROLES[1]}, ?y] {GRAPH} .",
    f"[?x, {SAME}, ?y] :- [?z, {ROLES[3]}, ?x], [?z, {ROLES[3]}, ?y] .",
    f"[?x, <http://x/next>, ?n] :- [?x, {ROLES[0]}, ?y], BIND(?y + 1 AS ?n) .",
]
QUERIES = [
    "SELECT ?x ?p ?y { ?x ?p ?y FILTER(isLiteral(?y)) }",
    f"SELECT ?x ?y {{ ?x {ROLES[0]} ?z . ?y {ROLES[1]} ?z }}",
    f"SELECT ?x ?y {{ ?x {SAME} ?y }}",
    f"SELECT ?x (COUNT(*) AS ?n) {{ ?x {ROLES[2]} ?y }} GROUP BY ?x",
    f"SELECT ?x ?y {{ GRAPH {GRAPH} {{ ?x {ROLES[1]} ?y }} }}",
]


def drawn(draw: random.Random) -> list[Statement]:
    """Some axioms and facts, most of them about literals and equality."""
    pick, kind = draw.choice, draw.random()
    if kind < 0.2:
        writer = Writer(draw.randrange(10**6))
        writer.axiom()
        tag = draw.randrange(100)
        return [tuple(t.replace("_:n", f"_:n{tag}x") for t in triple) for triple in writer.triples]
    if kind < 0.3:
        return [(pick(ROLES), TYPE, owl(f"{pick(['Functional', 'InverseFunctional'])}Property"))]
    if kind < 0.7:
        return [(pick(THINGS), pick(ROLES), pick(LITERALS))]
    if kind < 0.8:
        return [(pick(THINGS), SAME, pick(THINGS))]
    return [(pick(THINGS), pick(ROLES), pick(THINGS))]


class Stream:
    """An engine, and what is stated of it."""

    def __init__(self, draw: random.Random, options: dict[str, object], *, rules: bool) -> None:
        self.draw, self.options = draw, options
        self.stated: dict[Statement, None] = dict.fromkeys(ontology(draw.randrange(10**6), axioms=3, facts=4))
        self.named: dict[Statement, None] = {}
        self.rules: list[str] = []
        self.allowed = RULES if rules else []
        self.kb = self.fresh()

    def fresh(self) -> RdfEngine:
        kb = RdfEngine("\n".join(self.rules), **self.options)
        kb.load(list(self.stated))
        kb.load([(*triple, GRAPH) for triple in self.named])
        return kb.materialise()

    def step(self) -> None:
        draw = self.draw
        come = [triple for _ in range(draw.randint(1, 4)) for triple in drawn(draw)]
        gone = [triple for triple in self.stated if draw.random() < 0.15]
        inside = [triple for triple in come if triple[2] in LITERALS and draw.random() < 0.3]
        outside = [triple for triple in self.named if draw.random() < 0.3]
        fails = draw.random() < 0.1
        try:
            with self.kb.update() as update:
                update.delete(gone)
                update.insert(come)
                update.insert(inside, graph=GRAPH)
                update.delete(outside, graph=GRAPH)
                for rule in self.allowed:
                    if draw.random() < 0.2:
                        (update.remove_rules if rule in self.rules else update.add_rules)(rule)
                        rules = [one for one in self.rules if one != rule]
                        self.rules = rules if rule in self.rules else [*rules, rule]
                if fails:
                    raise KeyError
        except KeyError:
            self.rules = [rule for rule in self.allowed if _has(self.kb, rule)]
            return
        for triple in gone:
            self.stated.pop(triple, None)
        self.stated |= dict.fromkeys(come)
        for triple in inside:
            self.named[triple] = None
        for triple in outside:
            self.named.pop(triple, None)

    def check(self, kb: RdfEngine) -> None:
        fresh = self.fresh()
        assert set(kb.triples()) == set(fresh.triples())
        assert set(kb.quads()) == set(fresh.quads())
        assert len(kb) == len(fresh)
        assert set(kb.inconsistencies()) == set(fresh.inconsistencies())
        for query in QUERIES:
            assert sorted(kb.sparql(query).rows()) == sorted(fresh.sparql(query).rows())
        if not self.rules and not self.named and self.options == {"profile": "owl2rl"}:
            closure, compiled = compiled_closure(self.stated, "owl2rl")
            assert set(kb.triples()) == visible(closure)
            assert set(kb.inconsistencies()) == set(broken(closure, compiled))


def _has(kb: RdfEngine, rule: str) -> bool:
    from gpuengine.rdf.engine import as_rules
    from gpuengine.rdf.rules import canonical

    return canonical(as_rules(rule)[0]) in kb.rules


@pytest.mark.filterwarnings("ignore::gpuengine.errors.DataWarning")
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        *((seed, {"profile": "owl2rl"}) for seed in range(6)),
        *((seed, {"profile": "owl2rl", "copies": True}) for seed in (6, 7)),
        (8, {"profile": "owl2rl", "meta": True}),
        (10, {"profile": "owl2rl", "axiomatic": True}),
        (12, {"profile": "rdfs"}),
        (14, {"profile": "rdfs", "axiomatic": True}),
    ],
)
def test_a_state_is_that_of_computing_anew(seed: int, options: dict[str, object], tmp_path: Path) -> None:
    draw = random.Random(seed)
    stream = Stream(draw, options, rules=seed % 2 == 1)
    for _ in range(3):
        stream.step()
        stream.check(stream.kb)
    stream.kb.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as opened:
        stream.kb = opened
        for _ in range(2):
            stream.step()
            stream.check(opened)
    with ge.open(tmp_path / "kb", read_only=True) as again:
        stream.check(again)


def test_literals_of_one_value_part_with_the_last_mention() -> None:
    """In a triple of a named graph, in a rule, and in what a query computes, which is none."""
    one, other = f'"1"^^<{XSD}integer>', f'"01"^^<{XSD}int>'
    a, b, p = "<http://x/a>", "<http://x/b>", "<http://x/p>"
    functional = ("<http://x/f>", TYPE, owl("FunctionalProperty"))
    kb = RdfEngine(profile="owl2rl")
    kb.load([(a, p, one), (b, p, other), functional])

    def values(subject: str) -> set[str]:
        return {row[0] for row in kb.sparql(f"SELECT ?y {{ {subject} {p} ?y }}").rows()}

    assert values(a) == {one, other}
    with kb.update() as update:
        update.insert([(b, p, other)], graph=GRAPH)
        update.delete([(b, p, other)])
    assert values(a) == {one, other}
    with kb.update() as update:
        update.delete([(b, p, other)], graph=GRAPH)
        update.add_rules(f"[?x, <http://x/q>, ?x] :- [?x, {p}, {other}] .")
    assert values(a) == {one, other}
    assert bool(kb.sparql(f"ASK {{ {a} <http://x/q> {a} }}"))
    with kb.update() as update:
        update.remove_rules(f"[?x, <http://x/q>, ?x] :- [?x, {p}, {other}] .")
    assert values(a) == {one}
    assert kb.sparql(f"SELECT ({other} AS ?x) {{}}").rows() == [(other,)]
    with kb.update() as update:
        update.insert([(b, p, a)])
    assert values(a) == {one}
    with kb.update() as update:
        update.insert([(b, p, other)])
        update.delete([functional])
    assert values(a) == {one}  # nothing can be the same any more
