"""Rules evaluated over the nodes of hypertrees derive what join plans and the naive oracle derive."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.driver import node_tables, stratum
from tests.cyclic_programs import MODES, Mode, cyclic_programs, hypertrees
from tests.differential.compare import engine_facts, oracle_facts
from tests.generated import Case
from tests.maintenance.streams import ALL_SCHEMES

OPTIONS = st.fixed_dictionaries(
    {
        "schemes": st.sampled_from(ALL_SCHEMES),
        "modules": st.booleans(),
        "threads": st.sampled_from([1, 2]),
    }
)


@settings(max_examples=100)
@given(cyclic_programs(), st.sampled_from(MODES), st.sampled_from(["auto", "join", "written"]), OPTIONS)
def test_every_evaluator_derives_the_same(
    case: Case, mode: Mode, other: str, options: dict[str, Any]
) -> None:
    expected = oracle_facts(str(case), case.facts)
    with hypertrees(mode):
        for evaluator in ("hypertree", other):
            found = engine_facts(str(case), case.facts, evaluators={"*": evaluator}, **options)
            assert found == expected, f"evaluated by {evaluator}"


def leave_nodes(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Have nodes left that have more facts than this, between rounds, none of them in the compiled loop."""
    monkeypatch.setattr(node_tables, "OUTGROWN", 0)
    monkeypatch.setattr(node_tables, "LEAST_OUTGROWN", most)
    monkeypatch.setattr(stratum, "SMALL_DELTA", -1)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cyclic_programs(), st.sampled_from(MODES), OPTIONS, st.integers(0, 12))
def test_nodes_can_be_left_between_any_two_rounds(
    monkeypatch: pytest.MonkeyPatch, case: Case, mode: Mode, options: dict[str, Any], most: int
) -> None:
    """The more facts they may have, the later that is."""
    leave_nodes(monkeypatch, most)
    expected = oracle_facts(str(case), case.facts)
    with hypertrees(mode):
        found = engine_facts(str(case), case.facts, evaluators={"*": "hypertree"}, **options)
    assert found == expected


def test_nodes_that_outgrew_what_was_expected_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_nodes(monkeypatch, 20)
    program = """.decl e, f, p(x: number, y: number)
    p(x, y) :- e(x, u), p(u, y), f(x, v), p(v, y).
    """
    chain = [(i, i + 1) for i in range(20)]
    engine = ge.Engine(program, evaluators={"*": "hypertree"})
    for name in "ef":
        engine.load(name, chain)
    engine.load("p", [(20, k) for k in range(5)])
    engine.materialise()
    assert set(engine["p"]) == {(x, k) for x in range(21) for k in range(5)}
    assert engine.database is not None
    (choice,) = engine.database.evaluators.choices.values()
    assert choice.why == "its nodes outgrew what was expected"
    assert not [name for name in engine.database.tables if name.startswith("@")]
    with engine.update() as update:
        update.delete("e", [(10, 11)])
    assert set(engine["p"]) == {(x, k) for x in range(11, 21) for k in range(5)}


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_node_that_admits_more_than_the_rule_would(mode: Mode) -> None:
    """What reads closures is computed in steps and admits ids with room to spare; so must the head."""
    program = """
    .decl e(x: number, y: number)
    .decl f(x: number, y: number)
    .decl m(x: number)
    .decl c(x: number, y: number)
    .decl s(x: number, y: number) eqrel
    .decl u(x: number, y: number)
    .decl w(x: number, y: number, z: number)
    .decl z()
    w(c, a, d), w(b, b, d), z() :- s(a, b), e(x, d), u(b, c), e(a, a), e(x, x), c(d, d), s(c, a).
    c(a, b) :- e(a, b).
    c(a, b) :- c(a, x), c(x, b).
    s(a, b) :- f(a, b), m(a).
    u(a, b) :- e(a, b).
    u(b, a) :- f(a, b).
    """
    facts: dict[str, list[tuple[int, ...]]] = {
        "e": [(1, 0), (4, 3), (0, 1), (5, 0), (0, 2), (5, 2), (3, 1), (1, 2), (2, 3)],
        "f": [(1, 4), (3, 4), (4, 2), (3, 0), (1, 0), (2, 2), (2, 1), (1, 3)],
        "m": [(5,), (3,), (4,), (1,)],
    }
    options: dict[str, Any] = {
        "evaluators": {"*": "hypertree"},
        "schemes": {"*": "closure"},
        "modules": False,
    }
    with hypertrees(mode):
        assert engine_facts(program, facts, **options) == oracle_facts(program, facts)


LARGER = (
    "p(x, y) :- e(x, u), p(u, y), f(x, v), p(v, y).",
    "p(x, y) :- e(x, u), f(u, y), e(y, v), f(v, x).",
    "p(x, z), q(y, w) :- e(x, y), f(y, z), e(z, w), f(w, x), p(x, y), x != z.",
    "p(x, y) :- p(x, u), e(u, w), p(w, y), f(y, k), e(k, x).",
    "q(x, y) :- p(x, y), e(y, z), f(z, w), p(w, v), e(v, x), !p(z, x).",
)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_larger_data(seed: int, threads: int) -> None:
    """Thousands of facts, so that reductions, first passes and threads are used as they are meant to be."""
    random = Random(seed)
    rules = random.sample(LARGER, 3)
    program = ".decl e, f, p, q(x: number, y: number)\n" + "\n".join(rules)
    nodes, facts = random.choice([(300, 900), (1000, 2500), (4000, 6000)])
    loads = {
        name: [(random.randrange(nodes), random.randrange(nodes)) for _ in range(facts)] for name in "efp"
    }
    found = []
    for evaluator in ("join", "hypertree"):
        kb = ge.Engine(program, evaluators={"*": evaluator}, threads=threads)
        for name, rows in loads.items():
            kb.load(name, rows)
        kb.materialise()
        states = [{name: set(kb[name].to_pylist()) for name in "pq"}]
        for name in "ef":
            with kb.update() as update:
                update.delete(name, loads[name][:30])
                update.insert(name, [(y, x) for x, y in loads[name][30:60]])
            states.append({name: set(kb[name].to_pylist()) for name in "pq"})
        found.append(states)
    assert found[0] == found[1]
