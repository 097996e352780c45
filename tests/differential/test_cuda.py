"""Whole programs with every rule on a CUDA device, without a GPU: they derive what the oracle derives."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.cuda.backend import CudaBackend
from tests.differential.compare import assert_agrees, checked, oracle_facts, rows_of
from tests.differential.devices import BACK_AND_FORTH, EVERYWHERE, emulated, on, simulated
from tests.generated import Case, Clause
from tests.strategies import cases, counters, queries

EMULATED = emulated()
#: Every expansion is cut into pieces.
PIECEMEAL = emulated(chunk_items=3)
SIMULATED = simulated()
DEVICES = st.sampled_from([(EMULATED, EVERYWHERE), (PIECEMEAL, EVERYWHERE), (EMULATED, BACK_AND_FORTH)])
Place = tuple[CudaBackend, Thresholds]


@settings(max_examples=100)
@given(cases(), DEVICES)
def test_programs_over_primitive_types(case: Case, place: Place) -> None:
    assert_agrees(str(case), case.facts, **on(*place))


@settings(max_examples=100)
@given(cases(types=("number",)), DEVICES)
def test_programs_over_numbers(case: Case, place: Place) -> None:
    assert_agrees(str(case), case.facts, **on(*place))


@settings(max_examples=60)
@given(cases(compound=True), DEVICES)
def test_programs_over_records_and_adts(case: Case, place: Place) -> None:
    assert_agrees(str(case), case.facts, **on(*place))


@settings(max_examples=60)
@given(counters(), DEVICES)
def test_guarded_recursion_over_computed_values(case: Case, place: Place) -> None:
    assert_agrees(str(case), case.facts, **on(*place))


@settings(max_examples=10)
@given(cases() | cases(compound=True) | counters())
def test_programs_in_the_simulator(case: Case) -> None:
    assert_agrees(str(case), case.facts, **on(SIMULATED))


@settings(max_examples=60)
@given(queries())
def test_queries_read_tables_of_the_device(question: tuple[Case, Clause]) -> None:
    """A query answers what a rule with the same body derives."""
    case, rule = question
    variables = re.findall(r"v\d+", rule.heads[0])
    expected = oracle_facts(str(replace(case, clauses=(*case.clauses, rule))), case.facts)
    assert expected is not None
    kb = ge.Engine(str(replace(case, relations=case.relations[:-1])), **on(EMULATED))
    for name, rows in case.facts.items():
        kb.load(name, rows)
    kb.materialise()
    answer = kb.query(", ".join(rule.body))
    places = [answer.columns.index(name) for name in variables]
    found = [tuple(row[place] for place in places) for row in answer.to_pylist()]
    assert len(found) == len(set(found)) == len(answer)
    assert set(found) == expected["q"]


@settings(max_examples=40)
@given(cases(), st.integers(1, 3))
def test_materialising_again_after_more_facts(case: Case, parts: int) -> None:
    """Facts come in parts, with a materialisation after each: the last one has everything."""
    kb = ge.Engine(str(case), **on(EMULATED))
    expected = oracle_facts(str(case), case.facts)
    if expected is None:
        return
    for part in range(parts):
        for name, rows in case.facts.items():
            kb.load(name, rows[part::parts])
        kb.materialise()
        kb.materialise()
    assert {name: rows_of(kb, name) for name in checked(str(case)).relations} == expected


FEATURES: dict[str, tuple[str, dict[str, list[tuple[Any, ...]]]]] = {
    "closure, negation, several strata": (
        """
        .decl edge(x: number, y: number)
        .decl path(x: number, y: number)
        .decl node(x: number)
        .decl apart(x: number, y: number)
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
        node(x) :- edge(x, _).
        node(y) :- edge(_, y).
        apart(x, y) :- node(x), node(y), !path(x, y), !path(y, x), x < y.
        """,
        {"edge": [(1, 2), (2, 3), (3, 1), (4, 5), (16777216, 4), (2**62, 16777216)]},
    ),
    "mutual and nonlinear recursion": (
        """
        .decl e(x: number, y: number)
        .decl odd, even(x: number, y: number)
        odd(x, y) :- e(x, y).
        odd(x, z) :- e(x, y), even(y, z).
        even(x, z) :- odd(x, y), odd(y, z).
        """,
        {"e": [(i, i + 1) for i in range(9)] + [(9, 0), (3, 7)]},
    ),
    "aggregates over derived relations": (
        """
        .decl sale(shop: symbol, amount: number)
        .decl total(shop: symbol, n: number, s: number, low: number, high: number)
        .decl best(shop: symbol)
        .decl average(m: float)
        total(x, n, s, low, high) :- sale(x, _), n = count : { sale(x, _) }, s = sum v : { sale(x, v) },
            low = min v : { sale(x, v) }, high = max v : { sale(x, v) }.
        best(x) :- total(x, _, s, _, _), s = max t : { total(_, _, t, _, _) }.
        average(m) :- m = mean v : { sale(_, v) }.
        """,
        {"sale": [("a", 5), ("a", -7), ("b", 2**40), ("b", 16777216), ("c", 0), ("é", 3)]},
    ),
    "arithmetic, comparisons and strings": (
        """
        .decl p(x: number, u: unsigned, f: float, s: symbol)
        .decl q(x: number, s: symbol)
        .decl r(a: number, b: float)
        q(x * 3 - 7, cat(s, "!")) :- p(x, u, f, s), u > 2u, f <= 1.5, s != "b".
        q(x + 1, s) :- q(x, s), x < 5.
        r(x, f) :- p(x, _, f, _), p(y, _, g, _), x < y, f > g.
        """,
        {"p": [(1, 3, 0.5, "a"), (-4, 2**63, -1.0, "b"), (2**50, 5, 1.5, ""), (-9, 7, 0.25, "日本")]},
    ),
    "records and nested data types": (
        """
        .type Pair = [a: number, b: symbol]
        .type Tree = Leaf {} | Node { left: Tree, value: Pair, right: Tree }
        .decl n(x: number, s: symbol)
        .decl pair(p: Pair)
        .decl tree(t: Tree)
        .decl top(x: number)
        pair([x, s]) :- n(x, s).
        tree($Leaf()).
        tree($Node($Leaf(), p, $Leaf())) :- pair(p), p = [x, _], x < 3.
        top(x) :- tree($Node(_, [x, "b"], $Leaf())).
        """,
        {"n": [(1, "a"), (2, "b"), (3, "b"), (-1, "b")]},
    ),
    "equivalence relation in a recursion": (
        """
        .decl link(x: number, y: number)
        .decl same(x: number, y: number) eqrel
        .decl mark(x: number)
        .decl marked(x: number)
        same(x, y) :- link(x, y).
        marked(x) :- mark(x).
        marked(y) :- marked(x), same(x, y).
        same(x, y) :- marked(x), marked(y), link(y, _).
        """,
        {"link": [(1, 2), (2, 3), (5, 6), (16777217, 6), (8, 9)], "mark": [(2,), (5,)]},
    ),
    "wide rows with extreme values": (
        """
        .decl w(a: number, b: number, c: number, d: number, e: number)
        .decl v(a: number, b: number, c: number, d: number, e: number)
        .decl u(a: number, b: number, c: number)
        v(e, a, b, c, d) :- w(a, b, c, d, e).
        v(e, a, b, c, d) :- v(a, b, c, d, e).
        u(a, c, e) :- v(a, b, c, d, e), w(_, b, _, d, _), !w(a, b, c, d, e).
        """,
        {"w": [(1, 2**63 - 1, -(2**63), 16777215, 16777216), (0, 0, 0, 0, 0), (5, 2**31, 5, 2**32, 5)]},
    ),
    "nullary relations and cross products": (
        """
        .decl a(x: number)
        .decl yes, no, go()
        .decl r(x: number, y: number, z: number)
        yes() :- a(1).
        no() :- a(99).
        go() :- yes(), !no().
        r(x, y, z) :- go(), a(x), a(y), a(z), x <= y, y != z.
        """,
        {"a": [(i,) for i in range(7)]},
    ),
}


@pytest.mark.parametrize(
    "place",
    [(EMULATED, EVERYWHERE), (PIECEMEAL, EVERYWHERE), (EMULATED, BACK_AND_FORTH), (SIMULATED, EVERYWHERE)],
    ids=["emulated", "in chunks of 3", "back and forth", "simulator"],
)
@pytest.mark.parametrize("feature", FEATURES)
def test_feature(feature: str, place: Place) -> None:
    program, facts = FEATURES[feature]
    before = place[0].device.statistics.launches
    assert_agrees(program, facts, **on(*place))
    assert place[0].device.statistics.launches > before, "nothing ran on the device"


CLOSURE = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@pytest.mark.parametrize("backend", [EMULATED, SIMULATED], ids=["emulated", "simulator"])
def test_results_on_the_device_are_read_as_on_the_host(backend: CudaBackend) -> None:
    kb = ge.Engine(CLOSURE, **on(backend))
    kb.load("edge", [(1, 2), (2, 3), (3, 4), (16777217, 1)])
    kb.materialise()
    expected = {(x, y) for x, y in [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]}
    expected |= {(16777217, y) for y in (1, 2, 3, 4)}
    path = kb["path"]
    assert rows_of(kb, "path") == expected and set(path) == expected
    assert (1, 4) in path and (4, 1) not in path and (16777217, 4) in path and (7, 7) not in path
    assert set(map(tuple, path.to_numpy().tolist())) == expected
    assert set(kb.query("path(1, x), !edge(1, x)").to_pylist()) == {(3,), (4,)}
    assert set(kb.query("path(x, 4), edge(x, y), x < y").to_pylist()) == {(1, 2), (2, 3), (3, 4)}
    kb.materialise()
    assert rows_of(kb, "path") == expected
    kb.load("edge", [(4, 5)])
    kb.materialise()
    assert rows_of(kb, "path") == expected | {(x, 5) for x in (1, 2, 3, 4, 16777217)}


def test_a_limit_on_the_size_of_a_relation_stops_it_on_the_device() -> None:
    program = CLOSURE + ".limitsize path(n=10)\n"
    sizes = []
    for options in ({}, on(EMULATED)):
        kb = ge.Engine(program, **options)
        kb.load("edge", [(i, i + 1) for i in range(50)])
        kb.materialise()
        sizes.append(len(kb["path"]))
    assert sizes[1] >= 10 and sizes[1] == sizes[0]


@pytest.mark.parametrize("budget", [0, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 22])
def test_a_device_with_little_memory_gives_the_same_or_leaves_it_to_the_host(budget: int) -> None:
    edges = [(i, (i * 7 + 3) % 200) for i in range(200)] + [(i, i // 2) for i in range(200)]
    expected = ge.Engine(CLOSURE, backend="cpu")
    expected.load("edge", edges)
    expected.materialise()
    kb = ge.Engine(CLOSURE, **on(emulated(budget)))
    kb.load("edge", edges)
    kb.materialise()
    assert rows_of(kb, "path") == rows_of(expected, "path")
