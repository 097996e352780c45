"""The facts of the scheme benchmarks are the same everywhere and have the published shape."""

from pathlib import Path

import numpy as np
import pytest

from bench.lubm import rules as lubm
from bench.schemes import facts
from bench.schemes.catalogue import BENCHMARKS, BROADER, COMPONENT, LUBM

GENERATED = {b.facts: b.quick for b in (*BENCHMARKS, *BROADER, COMPONENT) if b.quick and b.facts != LUBM}


def pairs(columns: facts.Columns) -> set[tuple[int, ...]]:
    return set(zip(*(column.tolist() for column in columns), strict=True))


def closure(edges: set[tuple[int, ...]]) -> set[tuple[int, int]]:
    """All pairs that a way leads between, one node at a time."""
    after: dict[int, list[int]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    found = set()
    for start in after:
        waiting, seen = list(after[start]), set()
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += after.get(node, [])
        found |= {(start, node) for node in seen}
    return found


@pytest.mark.parametrize("name", sorted(facts.GENERATORS))
def test_facts_are_repeatable_and_distinct(name: str) -> None:
    first, again = (facts.GENERATORS[name](GENERATED[name]) for _ in range(2))
    for relation, columns in first.items():
        assert all(np.array_equal(a, b) for a, b in zip(columns, again[relation], strict=True))
        assert all(column.dtype == np.int64 and column.min() >= 0 for column in columns)
        assert len(pairs(columns)) == len(columns[0])


def test_generated_facts_do_not_change() -> None:
    """Recorded sizes rest on them."""
    source, target = facts.dag(10_000)["edge"]
    assert len(source) == 100_000
    assert (int(source.sum()), int((source ^ target).sum())) == (499_326_411, 644_785_252)


def test_the_dag_has_no_cycle() -> None:
    assert all(a != b for a, b in closure(pairs(facts.dag(100)["edge"])))


@pytest.mark.parametrize(("name", "size", "total"), [("tc-plus", 2000, 22_000), ("tcu", 2000, 13_000)])
def test_published_numbers_of_facts(name: str, size: int, total: int) -> None:
    assert sum(len(columns[0]) for columns in facts.GENERATORS[name](size).values()) == total


def test_relations_that_are_joined_share_facts() -> None:
    plus, tcu = facts.tc_plus(200), facts.tcu(200)
    assert pairs(plus["B"]) & pairs(plus["C"])
    assert pairs(tcu["D"]) & pairs(tcu["E"])


def test_categories_have_cycles_and_grow_by_batches() -> None:
    edges = pairs(facts.categories(2000))
    batches = [pairs(batch) for batch in facts.additions(2000)]
    assert 1900 < len(edges) < 2100
    assert [len(batch) for batch in batches] == [100] * facts.BATCHES
    assert not edges.intersection(*batches)
    closures = [closure(edges.union(*batches[:count])) for count in range(facts.BATCHES + 1)]
    sizes, on_cycles = zip(*((len(c), sum(a == b for a, b in c)) for c in closures), strict=True)
    assert list(sizes) == sorted(sizes)
    assert 0 < on_cycles[0] <= on_cycles[-2] < on_cycles[-1]


def test_subclasses_are_sparse() -> None:
    edges = pairs(facts.subclasses(5000)["subclassOf"])
    assert 2 * len(edges) < len(closure(edges)) < 4 * len(edges)


def test_the_component_is_connected() -> None:
    edges = pairs(facts.component(200)["edge"])
    assert len(closure(edges | {(b, a) for a, b in edges})) == 200 * 200


def test_lubm_axioms_become_rules() -> None:
    axioms = ["subClassOf\tDean\tProfessor", "domain\tage\tPerson", "range\tadvisor\tProfessor",
              "subPropertyOf\theadOf\tworksFor", "inverse\tmember\tmemberOf", "transitive\tpart",
              "contains\tChair\tPerson and some headOf and in Department"]  # fmt: skip
    assert [lubm.rule(axiom) for axiom in axioms] == [
        "Professor(x) :- Dean(x).",
        "Person(x) :- age(x,_).",
        "Professor(y) :- advisor(_,y).",
        "worksFor(x,y) :- headOf(x,y).",
        "memberOf(x,y) :- member(y,x).",
        "part(x,z) :- part(x,y), part(y,z).",
        "Chair(x) :- Person(x), headOf(x,y), Department(y).",
    ]
    assert lubm.arities(axioms)["headOf"] == 2
    assert ".decl Chair(a0:number)" in lubm.program(axioms, lubm.arities(axioms))


def test_every_program_is_there() -> None:
    from bench.catalogue import PROGRAMS

    folder: Path = PROGRAMS / "schemes"
    named = {b.program for b in (*BENCHMARKS, *BROADER, COMPONENT) if b.program}
    assert named == {path.name for path in folder.glob("*.dl")}
