"""The worked examples of the papers this engine is built from, with the facts they name written out."""

from __future__ import annotations

import pytest

import gpuengine as ge

TRANSITIVE = """
.decl R(x: symbol, y: symbol)
.output R
R(x, z) :- R(x, y), R(y, z).
"""
SYMMETRIC = TRANSITIVE + "R(y, x) :- R(x, y).\n"


def c(i: int) -> str:
    return f"c{i}"


def a(i: int) -> str:
    return f"a{i}"


@pytest.mark.parametrize("n", [1, 2, 3, 10, 60])
def test_modular_example_1_chain(n: int) -> None:
    """Modular materialisation, section 3.2, example 1: a transitive relation on a chain c0 ... cn.

    The paper lists the edges up to i = n but the closure up to j = n; the chain that ends in c_n is meant.
    """
    kb = ge.Engine(TRANSITIVE)
    kb.load("R", [(c(i), c(i + 1)) for i in range(n)])
    kb.materialise()
    assert set(kb["R"].to_pylist()) == {(c(i), c(j)) for i in range(n) for j in range(i + 1, n + 1)}


@pytest.mark.parametrize("n", [1, 2, 3, 10, 40])
def test_modular_example_2_symmetric_ring(n: int) -> None:
    """Modular materialisation, section 3.2, example 2: symmetric and transitive, on a ring c1 ... cn."""
    kb = ge.Engine(SYMMETRIC)
    kb.load("R", [(c(i), c(i + 1)) for i in range(1, n)] + [(c(n), c(1))])
    kb.materialise()
    assert set(kb["R"].to_pylist()) == {(c(i), c(j)) for i in range(1, n + 1) for j in range(1, n + 1)}


@pytest.mark.parametrize("n", [3, 4, 8, 40])
def test_thesis_example_5(n: int) -> None:
    """Optimising Datalog materialisations, section 5.2, example 5 (tables 5.1 and 5.2).

    (R6) closes the chain to {R(ai, aj) | 1 <= j < i <= n}; (R7) derives A(a1, a3), (R5) R(a1, a3), and
    inserting it adds {R(ai, aj) | 1 <= i <= j <= 3} (round 6 of table 5.2).
    """
    kb = ge.Engine("""
    .decl A(x: symbol, y: symbol)
    .decl S(x: symbol, y: symbol)
    .decl R(x: symbol, y: symbol)
    .output A, R
    R(x, y) :- A(x, y).
    R(x, z) :- R(x, y), R(y, z).
    A(y, x) :- R(x, y), S(x, y).
    """)
    kb.load("A", [(a(i), a(i - 1)) for i in range(2, n + 1)])
    kb.load("S", [("a3", "a1")])
    kb.materialise()
    chain = {(a(i), a(j)) for i in range(1, n + 1) for j in range(1, i)}
    added = {(a(i), a(j)) for i in range(1, 4) for j in range(i, 4)}
    assert set(kb["R"].to_pylist()) == chain | added
    assert set(kb["A"].to_pylist()) == {(a(i), a(i - 1)) for i in range(2, n + 1)} | {("a1", "a3")}


def test_dynamic_rewrite_product() -> None:
    """Dynamic Datalog, section 3, example 3.2: P(x, y) joined with the rewrites {x -> a}, {x -> b}."""
    kb = ge.Engine("""
    .decl P(x: symbol, y: symbol)
    .decl rewrite(x: symbol)
    .decl product(x: symbol, y: symbol)
    .output product
    product(x, y) :- rewrite(x), P(x, y).
    """)
    kb.load("P", [("a", "b"), ("b", "c"), ("c", "d")])
    kb.load("rewrite", [("a",), ("b",)])
    kb.materialise()
    assert set(kb["product"].to_pylist()) == {("a", "b"), ("b", "c")}


RDFS = """
.decl T(s: symbol, p: symbol, o: symbol)
.output T
T(y, "rdf:type", x) :- T(a, "rdfs:domain", x), T(y, a, z).
T(z, "rdf:type", x) :- T(a, "rdfs:range", x), T(y, a, z).
T(x, "rdfs:subPropertyOf", z) :- T(x, "rdfs:subPropertyOf", y), T(y, "rdfs:subPropertyOf", z).
T(x, "rdfs:subClassOf", z) :- T(x, "rdfs:subClassOf", y), T(y, "rdfs:subClassOf", z).
T(z, "rdf:type", y) :- T(x, "rdfs:subClassOf", y), T(z, "rdf:type", x).
T(x, b, y) :- T(a, "rdfs:subPropertyOf", b), T(x, a, y).
"""


def test_dynamic_rdfs() -> None:
    """Dynamic Datalog, section 5, equation 5: RDFS as six rules over one ternary relation.

    Each rule is needed: `headOf` is a `worksFor` is an `affiliatedWith` (subPropertyOf, twice), whose
    domain is Person and range Organization; Chair under Professor under Person (subClassOf).
    """
    ontology = {
        ("headOf", "rdfs:subPropertyOf", "worksFor"),
        ("worksFor", "rdfs:subPropertyOf", "affiliatedWith"),
        ("affiliatedWith", "rdfs:domain", "Person"),
        ("affiliatedWith", "rdfs:range", "Organization"),
        ("headOf", "rdfs:domain", "Chair"),
        ("Chair", "rdfs:subClassOf", "Professor"),
        ("Professor", "rdfs:subClassOf", "Employee"),
    }
    data = {("ann", "headOf", "cs"), ("bob", "worksFor", "cs")}
    inferred = {
        ("headOf", "rdfs:subPropertyOf", "affiliatedWith"),
        ("Chair", "rdfs:subClassOf", "Employee"),
        ("ann", "worksFor", "cs"),
        ("ann", "affiliatedWith", "cs"),
        ("bob", "affiliatedWith", "cs"),
        ("ann", "rdf:type", "Person"),
        ("bob", "rdf:type", "Person"),
        ("cs", "rdf:type", "Organization"),
        ("ann", "rdf:type", "Chair"),
        ("ann", "rdf:type", "Professor"),
        ("ann", "rdf:type", "Employee"),
    }
    kb = ge.Engine(RDFS)
    kb.load("T", sorted(ontology | data))
    kb.materialise()
    assert set(kb["T"].to_pylist()) == ontology | data | inferred


def test_dynamic_owl_rules() -> None:
    """Dynamic Datalog, section 5, equation 6: the three rules of the OWL 2 RL program that are printed."""
    kb = ge.Engine("""
    .decl hasAlumnus(x: symbol, y: symbol)
    .decl degreeFrom(x: symbol, y: symbol)
    .decl PostDoc, Faculty, Person, Organization, Employee(x: symbol)
    .decl worksFor(x: symbol, y: symbol)
    .output degreeFrom, Faculty, Employee
    degreeFrom(x, y) :- hasAlumnus(y, x).
    Faculty(x) :- PostDoc(x).
    Employee(x) :- Person(x), worksFor(x, y), Organization(y).
    """)
    kb.load("hasAlumnus", [("mit", "ann")])
    kb.load("PostDoc", [("bob",)])
    kb.load("Person", [("ann",), ("bob",), ("cy",)])
    kb.load("Organization", [("lab",)])
    kb.load("worksFor", [("ann", "lab"), ("bob", "home"), ("dee", "lab")])
    kb.materialise()
    assert set(kb["degreeFrom"].to_pylist()) == {("ann", "mit")}
    assert set(kb["Faculty"].to_pylist()) == {("bob",)}
    assert set(kb["Employee"].to_pylist()) == {("ann",)}


@pytest.mark.parametrize(
    ("edges", "closure"),
    [
        ([(1, 2), (2, 3)], {(1, 2), (2, 3), (1, 3)}),
        ([(1, 2), (2, 1)], {(1, 2), (2, 1), (1, 1), (2, 2)}),
    ],
)
def test_dynamic_transitive_closure(edges: list[tuple[int, int]], closure: set[tuple[int, int]]) -> None:
    """Dynamic Datalog, section 5, equation 7 (whose second head is printed T(x, y); T(x, z) is meant)."""
    kb = ge.Engine("""
    .decl E(x: number, y: number)
    .decl T(x: number, y: number)
    .output T
    T(x, y) :- E(x, y).
    T(x, z) :- E(x, y), T(y, z).
    """)
    kb.load("E", edges)
    kb.materialise()
    assert set(kb["T"].to_pylist()) == closure
