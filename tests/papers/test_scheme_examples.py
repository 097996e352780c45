"""The benchmark programs of the thesis's appendix D, on small random data, in every way of storing them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.planning import scheme_costs
from tests.differential.compare import oracle_facts, rows_of
from tests.thesis_programs import FOURTEEN, TC, TC_PLUS, TCU, U

Facts = dict[str, list[tuple[int, int]]]


def declared(names: str, rules: str) -> str:
    head = "".join(f".decl {name}(x: number, y: number)\n.output {name}\n" for name in names.split())
    return head + rules


INPUTS = {
    "TC": (declared("edge path", TC), "edge"),
    "TC+": (declared("A B C D E F R R2 X", TC_PLUS), "A B C D E F"),
    "U": (declared(f"{FOURTEEN} U", U), FOURTEEN),
    "TCU": (declared("U A A2 B C D E F", TCU), "A A2 B C D E U"),
}
CHOSEN = {
    "TC": {"path": "closure"},
    "TC+": {"R": "closure", "R2": "alias", "X": "union"},
    "U": {"U": "union"},
    "TCU": {"A": "closure", "A2": "alias", "U": "union", "B": "alias", "C": "alias"},
}
WAYS: list[dict[str, Any]] = [
    {},
    {"modules": False},
    {"schemes": {"*": "table"}},
    {"schemes": {"*": "table"}, "modules": False},
]
"""Schemes wherever they can be, tables with modules, and plain rules on plain tables."""


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closures are worth while whatever their size."""
    monkeypatch.setattr(scheme_costs, "LEAST_PAIRS", 0)
    monkeypatch.setattr(scheme_costs, "LEAST_GROWTH", 0)


def materialised(program: str, facts: Facts, **options: Any) -> ge.Engine:
    kb = ge.Engine(program, **options)
    for name, rows in facts.items():
        kb.load(name, rows)
    return kb.materialise()


@st.composite
def data(draw: st.DrawFn, name: str) -> Facts:
    ids = st.integers(0, draw(st.sampled_from([3, 7, 20])))
    pairs = st.lists(st.tuples(ids, ids), max_size=9)
    return {relation: draw(pairs) for relation in INPUTS[name][1].split()}


def assert_all_ways(name: str, facts: Facts) -> None:
    program = INPUTS[name][0]
    expected = oracle_facts(program, facts)
    assert expected is not None
    for options in WAYS:
        kb = materialised(program, facts, **options)
        assert {relation: rows_of(kb, relation) for relation in expected} == expected, options


@settings(max_examples=30)
@given(data("TC"))
def test_tc(facts: Facts) -> None:
    assert_all_ways("TC", facts)


@settings(max_examples=40)
@given(data("TC+"))
def test_tc_plus(facts: Facts) -> None:
    assert_all_ways("TC+", facts)


@settings(max_examples=15)
@given(data("U"))
def test_u(facts: Facts) -> None:
    assert_all_ways("U", facts)


@settings(max_examples=40)
@given(data("TCU"))
def test_tcu(facts: Facts) -> None:
    assert_all_ways("TCU", facts)


CYCLE = [(0, 1), (1, 2), (2, 0), (2, 3)]


@pytest.mark.parametrize("name", INPUTS)
def test_the_schemes_that_relations_get(name: str) -> None:
    """Section 5.7: one closure for a transitive relation and its inverse, unions above and below it."""
    program, inputs = INPUTS[name]
    facts = dict.fromkeys(inputs.split(), CYCLE)
    stored = materialised(program, facts).storage
    assert {relation: one.scheme for relation, one in stored.items() if one.scheme != "table"} == CHOSEN[name]
    forced = materialised(program, facts, schemes={"*": "table"}).storage
    assert {one.scheme for one in forced.values()} == {"table"}
    assert {r: one.facts for r, one in forced.items()} == {r: one.facts for r, one in stored.items()}


def test_the_union_of_a_closure_and_its_inverse_is_not_listed() -> None:
    """TCU on a chain: U has the pairs of A both ways, and no facts of its own but those that A lacks."""
    nodes = 2000
    facts: Facts = {"A": [(x, x + 1) for x in range(nodes - 1)], "D": [(5, 3), (7, 7)], "E": [(7, 7)]}
    kb = materialised(INPUTS["TCU"][0], facts)
    assert len(kb["A"]) == nodes * (nodes - 1) // 2
    assert len(kb["U"]) == len(kb["B"]) == len(kb["C"]) == nodes * (nodes - 1) + 1
    assert set(kb["F"]) == {(5, 3), (7, 7)}
    assert kb.storage["U"].nbytes + kb.storage["A"].nbytes < 3 * 10**6, "as a table U takes 32 MB or more"


@pytest.mark.parametrize("shape", ["chain", "cycle", "tree", "complete"])
def test_tc_by_formula(shape: str) -> None:
    n = 63
    edges = {
        "chain": [(x, x + 1) for x in range(n - 1)],
        "cycle": [(x, (x + 1) % n) for x in range(n)],
        "tree": [(x, child) for x in range(n) for child in (2 * x + 1, 2 * x + 2) if child < n],
        "complete": [(x, y) for x in range(20) for y in range(20) if x != y],
    }[shape]
    # In a full binary tree of 6 levels a node of level k has 2**(6 - k) - 2 below it.
    below = sum(2**k * (2 ** (6 - k) - 2) for k in range(6))
    expected = {"chain": n * (n - 1) // 2, "cycle": n * n, "tree": below, "complete": 400}[shape]
    assert [len(materialised(INPUTS["TC"][0], {"edge": edges}, **options)["path"]) for options in WAYS] == [
        expected
    ] * 4
