"""``owl:sameAs`` by representatives: what is read back, and what updates make of it, against naive evaluation
of the profile's own rules (eq-sym, eq-trans, eq-rep-s, eq-rep-p, eq-rep-o)."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import gpuengine as ge
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.equality import Classes, NamedTwice
from gpuengine.rdf.ontology import AUXILIARY, SAME, owl
from gpuengine.rdf.rules import Triple, Variable
from gpuengine.rdf.terms import TYPE
from tests.rdf.entailment import Statement, broken, compiled_closure

INTEGER, DECIMAL = (f"<http://www.w3.org/2001/XMLSchema#{name}>" for name in ("integer", "decimal"))


def name(local: object) -> str:
    return f"<http://example.org/{local}>"


AXIOMS = [
    (name("f"), TYPE, owl("FunctionalProperty")),
    (name("i"), TYPE, owl("InverseFunctionalProperty")),
    (name("f"), "<http://www.w3.org/2000/01/rdf-schema#subPropertyOf>", name("p")),
    (name("p"), "<http://www.w3.org/2000/01/rdf-schema#domain>", name("C")),
    (name("C"), "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", name("D")),
    (name("t"), TYPE, owl("TransitiveProperty")),
    (name("g"), owl("inverseOf"), name("f")),
    ("_:r", owl("hasValue"), name("x1")),
    ("_:r", owl("onProperty"), name("p")),
    (name("E"), "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", "_:r"),
    ("_:r", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>", name("H")),
    (name("D"), owl("disjointWith"), name("N")),
]
THINGS = [name(f"x{n}") for n in range(8)]
VALUES = [f'"1"^^{INTEGER}', f'"1.0"^^{DECIMAL}', f'"2"^^{INTEGER}', '"one"']


def facts(draw: random.Random, count: int) -> list[Statement]:
    found = []
    for _ in range(count):
        kind = draw.random()
        one, other = draw.choice(THINGS), draw.choice(THINGS)
        if kind < 0.2:
            found.append((one, SAME, other))
        elif kind < 0.3:
            found.append((one, TYPE, name(draw.choice("CEN"))))
        elif kind < 0.4:
            found.append((one, name(draw.choice("fq")), draw.choice(VALUES)))
        elif kind < 0.45:
            found.append((one, owl("differentFrom"), other))
        elif kind < 0.47:
            found.append((name(draw.choice("pq")), SAME, name(draw.choice("qu"))))
        else:
            found.append((one, name(draw.choice("fiptgqu")), other))
    return found


def engine(statements: list[Statement], **options: object) -> RdfEngine:
    kb = RdfEngine(profile="owl2rl", **options)
    kb.load(statements)
    return kb.materialise()


def shown(kb: RdfEngine) -> set[Statement]:
    return set(kb.triples())


def expected(statements: list[Statement]) -> set[Statement]:
    return visible(compiled_closure(statements, "owl2rl")[0])


def visible(triples: set[Statement]) -> set[Statement]:
    return {
        triple
        for triple in triples
        if not triple[0].startswith('"') and triple[1].startswith("<") and AUXILIARY not in " ".join(triple)
    }


@pytest.mark.parametrize("meta", [False, True], ids=["compiled", "meta"])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_read_is_the_closure(seed: int, meta: bool) -> None:
    draw = random.Random(seed)
    statements = AXIOMS + facts(draw, draw.choice([8, 20, 30]))
    kb = engine(statements, meta=meta)
    closure, compiled = compiled_closure(statements, "owl2rl", meta=meta)
    assert shown(kb) == visible(closure)
    assert len(kb) == len(kb.triples()) == len(visible(closure))
    assert set(kb.inconsistencies()) == set(broken(closure, compiled))


@pytest.mark.parametrize("seed", range(12))
def test_classes_split_and_merge_with_updates(seed: int) -> None:
    draw = random.Random(seed)
    stated = list(dict.fromkeys(facts(draw, 20)))
    kb = engine(AXIOMS + stated)
    for _ in range(5):
        gone = [triple for triple in stated if draw.random() < 0.2]
        come = facts(draw, draw.randrange(5))
        with kb.update() as update:
            update.delete(gone)
            update.insert(come)
        before = stated
        stated = list(dict.fromkeys([triple for triple in before if triple not in gone] + come))
        fresh = engine(AXIOMS + stated)
        assert shown(kb) == shown(fresh) == expected(AXIOMS + stated)
        assert len(kb) == len(shown(kb))


@pytest.mark.parametrize("seed", range(6))
def test_patterns_are_answered_for_all_terms(seed: int) -> None:
    draw = random.Random(seed)
    statements = AXIOMS + facts(draw, 25)
    kb, copied = engine(statements), engine(statements, copies=True)
    x, y, z = map(Variable, "xyz")
    thing = draw.choice(THINGS)
    for patterns in (
        [Triple(x, name("p"), y), Triple(y, name("p"), z)],
        [Triple(thing, y, z)],
        [Triple(x, y, thing)],
        [Triple(x, SAME, y), Triple(y, TYPE, z)],
        [Triple(thing, SAME, x)],
        [Triple(x, y, x)],
    ):
        rows = []
        for one in (kb, copied):
            columns = one.solve(patterns)
            rows.append(sorted(zip(*(one.terms.texts(columns[key]) for key in sorted(columns)), strict=True)))
        assert rows[0] == rows[1]


def test_facts_are_stored_once_and_read_back_for_all() -> None:
    members = [name(f"m{n}") for n in range(2000)]
    chain = [(one, SAME, other) for one, other in pairwise(members)]
    kb = engine([*chain, (members[7], name("p"), name("c")), (name("c"), name("p"), members[9])])
    assert len(kb.triples(expand=False)) == 3
    assert len(kb) == 2000 * 2000 + 4000
    query = f"SELECT ?x {{ ?x {name('p')} {name('c')} }}"
    assert len(kb.sparql(query)) == 2000
    assert len(kb.sparql(query, expand=False)) == 1
    assert bool(kb.sparql(f"ASK {{ {members[3]} {name('p')} {name('c')} }}"))
    with kb.update() as update:
        update.delete([chain[999]])
    assert len(kb) == 2 * 1000 * 1000 + 2000
    assert len(kb.sparql(query)) == 1000
    assert kb.inconsistencies() == []
    with kb.update() as update:
        update.insert([chain[999]])
    assert len(kb) == 2000 * 2000 + 4000


def test_the_classes_are_kept(tmp_path: Path) -> None:
    statements = AXIOMS + facts(random.Random(5), 25)
    kb = engine(statements)
    kb.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as opened:
        assert shown(opened) == shown(kb)
        with opened.update() as update:
            update.delete(statements[len(AXIOMS) + 3 :: 2])
        rest = [t for t in statements if t not in statements[len(AXIOMS) + 3 :: 2]]
        assert shown(opened) == expected(rest)
    with ge.open(tmp_path / "kb", read_only=True) as again:
        assert shown(again) == expected(rest)


def test_rules_that_name_two_equal_terms_have_facts_for_all() -> None:
    """The terms of a class can't all stand for it: facts are stored for each."""
    statements = [
        ("_:l1", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#first>", name("x1")),
        ("_:l1", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#rest>", "_:l2"),
        ("_:l2", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#first>", name("x2")),
        (
            "_:l2",
            "<http://www.w3.org/1999/02/22-rdf-syntax-ns#rest>",
            "<http://www.w3.org/1999/02/22-rdf-syntax-ns#nil>",
        ),
        (name("Few"), owl("oneOf"), "_:l1"),
        (name("f"), TYPE, owl("FunctionalProperty")),
        (name("x3"), name("f"), name("x1")),
        (name("x1"), name("p"), name("x4")),
    ]
    kb = engine(statements)
    assert kb.entailment.represents
    more = (name("x3"), name("f"), name("x2"))
    with kb.update() as update:
        update.insert([more])
    assert not kb.entailment.represents
    assert shown(kb) == expected([*statements, more])
    with kb.update() as update:
        update.delete([more])
    assert shown(kb) == expected(statements)


def test_rules_that_tell_terms_apart_have_facts_for_all() -> None:
    kb = engine([(name("a"), SAME, name("b")), (name("a"), name("p"), name("c"))])
    rule = f"[?x, {name('other')}, ?y] :- [?x, {name('p')}, ?z], [?y, {name('p')}, ?z], FILTER(?x != ?y) ."
    with kb.update() as update:
        update.add_rules(rule)
    pairs = {(name(one), name(other)) for one in "ab" for other in "ab"}
    assert set(kb.sparql(f"SELECT ?x ?y {{ ?x {name('other')} ?y }}").rows()) == pairs
    given = RdfEngine(rule, profile="owl2rl")
    given.load([(name("a"), SAME, name("b")), (name("a"), name("p"), name("c"))])
    assert shown(given) == shown(kb)


def test_an_update_that_fails_late_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms come to be the same in a second step, which fails."""
    statements = [*AXIOMS, (name("x2"), name("f"), name("x3")), (name("x4"), SAME, name("x5"))]
    kb = engine(statements)
    before = shown(kb)
    merged = Classes.merged
    asked = []

    def failing(self: Classes, pairs: list[np.ndarray], *rest: object, **more: object) -> Classes:
        asked.append(len(pairs[0]))
        if len(asked) > 1:
            raise MemoryError("no room")
        return merged(self, pairs, *rest, **more)

    monkeypatch.setattr(Classes, "merged", failing)
    with pytest.raises(MemoryError), kb.update() as update:
        update.insert([(name("x2"), name("f"), name("x4")), (name("x6"), SAME, name("x5"))])
        update.add_rules(f"[?x, {name('new')}, ?y] :- [?x, {name('p')}, ?y] .")
    monkeypatch.undo()
    assert len(asked) == 2
    assert shown(kb) == before
    with kb.update() as update:
        update.insert([(name("x2"), name("f"), name("x4"))])
    assert shown(kb) == expected([*statements, (name("x2"), name("f"), name("x4"))])
    assert update.change["p_f"]


@pytest.mark.parametrize("seed", range(20))
def test_classes_of_pairs(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pairs = [draw.integers(0, 60, 25).astype(np.uint32) for _ in range(2)]
    classes = Classes.none().merged(pairs, np.zeros(0, np.uint32))
    parent = {n: {n} for n in range(60)}
    for one, other in zip(*pairs, strict=True):
        both = parent[one] | parent[other]
        for each in both:
            parent[each] = both
    ids = np.arange(60, dtype=np.uint32)
    found = classes.of(ids)
    assert {n: set(ids[found == found[n]].tolist()) for n in range(60)} == parent
    assert all(found[found[n]] == found[n] for n in range(60))
    assert classes.sizes(found).tolist() == [len(parent[n]) for n in range(60)]
    wanted = classes.expanded({"x": np.unique(found)})["x"]
    assert sorted(wanted.tolist()) == list(range(60))
    even = classes.expanded({"x": np.unique(found)}, {"x": lambda column: column % 2 == 0})["x"]
    assert sorted(even.tolist()) == list(range(0, 60, 2))


def test_a_class_has_one_term_that_rules_name() -> None:
    pairs = [np.array([1, 2], np.uint32), np.array([2, 3], np.uint32)]
    named = np.array([3, 9], np.uint32)
    assert Classes.none().merged(pairs, named).of(np.array([1, 2, 3, 4], np.uint32)).tolist() == [3, 3, 3, 4]
    with pytest.raises(NamedTwice):
        Classes.none().merged(pairs, np.array([1, 3], np.uint32))
