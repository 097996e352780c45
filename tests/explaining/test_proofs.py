"""Proofs are right and as low as can be: on random programs, after updates, saved, with every scheme."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import EvaluationError
from gpuengine.explaining import search as searching
from tests.explaining.checker import Checker, composes_itself
from tests.generated import Case
from tests.strategies import cases, counters

_GOALS = 12


def loaded(text: str, facts: Any, **options: Any) -> ge.Engine:
    kb = ge.Engine(text, **options)
    for name, rows in facts.items():
        kb.load(name, list(rows))
    return kb


def check_all(kb: ge.Engine, checker: Checker, heights: dict[str, dict[Any, int]] | None) -> None:
    """A proof of some facts of each relation, alone and together."""
    for name in checker.program.relations:
        arity = len(checker.program.relations[name])
        query = f"{name}({', '.join(f'q{j}' for j in range(arity))})"
        proof = kb.explain(query, limit=_GOALS)
        assert proof.count == len(checker.model[name])
        assert len(proof.goals) == min(_GOALS, proof.count)
        checker.check(proof)
        for goal in proof.goals:
            step = proof.steps[goal]
            row = checker.row(name, step.fact.values)
            if heights is not None and proof.is_least:
                assert step.height == heights[name][row], f"{step.fact} has a lower proof"


@pytest.fixture(params=[200_000, 0], ids=["back", "forth"])
def instances(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many instances a search looks at before it goes forth from what is stated."""
    monkeypatch.setattr(searching, "_MOST_INSTANCES", request.param)
    return int(request.param)


def materialised(case: Case) -> ge.Engine:
    kb = loaded(str(case), case.facts)
    try:
        kb.materialise()
    except EvaluationError:
        assume(False)
    return kb


def check_case(case: Case) -> None:
    kb = materialised(case)
    probe = Checker(str(case), case.facts)
    chains = {rule.head.relation for rule in probe.rules if composes_itself(rule)}
    chains |= probe.program.equivalences
    checker = Checker(str(case), case.facts, chains)
    check_all(kb, checker, None if chains else checker.least_heights())


@given(cases(types=("number",)))
@settings(max_examples=20)
def test_random_programs_over_numbers(case: Case) -> None:
    check_case(case)


@given(cases())
@settings(max_examples=15)
def test_random_programs_over_primitive_types(case: Case) -> None:
    check_case(case)


@given(counters())
@settings(max_examples=10)
def test_computed_recursion(case: Case) -> None:
    check_case(case)


@given(cases(types=("number",)))
@settings(max_examples=20)
def test_going_forth_finds_the_same_heights(case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "_MOST_INSTANCES", 0)
        check_case(case)


RELATIONS = """\
.decl edge(x: number, y: number)
.decl block(x: number)
.decl link(x: number, y: number)
.decl path(x: number, y: number)
.decl reach(x: number, y: number)
.decl back(x: number, y: number)
.decl both(x: number, y: number)
.decl same(x: number, y: number)
.decl eq(x: number, y: number) eqrel
.decl far(x: number, y: number)
.decl plus(x: number, y: number)
"""
RULES = """\
link(x, y) :- edge(x, y), !block(x).
link(y, x) :- edge(x, y), block(y), far(x, _).
far(x, y) :- edge(x, z), edge(z, y), x != y.
path(x, y) :- link(x, y).
path(x, z) :- path(x, y), path(y, z).
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
back(x, y) :- block(x), edge(x, y).
back(x, z) :- link(x, y), back(y, z).
both(x, y) :- edge(x, y), block(y).
both(x, z) :- both(x, y), link(z, y).
both(x, z) :- edge(x, y), both(y, z).
same(x, y) :- link(x, y), block(y).
same(y, x) :- same(x, y).
same(x, z) :- same(x, y), same(y, z).
eq(x, y) :- edge(x, y), block(x).
plus(x, y) :- edge(x, y), block(x).
plus(x, z) :- plus(x, y), plus(y, z).
plus(x, z) :- plus(y, x), link(y, z), !block(z).
"""
IMPLIED = {
    "path": ["path(x, z) :- path(x, y), path(y, z)."],
    "reach": ["reach(x, z) :- reach(x, y), edge(y, z)."],
    "back": ["back(x, z) :- link(x, y), back(y, z)."],
    "both": ["both(x, z) :- both(x, y), link(z, y).", "both(x, z) :- edge(x, y), both(y, z)."],
    "same": ["same(y, x) :- same(x, y).", "same(x, z) :- same(x, y), same(y, z)."],
    "eq": [],
    "plus": ["plus(x, z) :- plus(x, y), plus(y, z)."],
}
CHAINS = RELATIONS + RULES


def chain_checker(facts: Any) -> tuple[Checker, dict[str, dict[Any, int]]]:
    checker = Checker(CHAINS, facts, IMPLIED)
    implied = {name: checker.program.rules_of("\n".join(texts)) for name, texts in IMPLIED.items()}
    return checker, checker.least_heights(implied)


def random_facts(chance: random.Random, stated: bool) -> dict[str, set[tuple[int, ...]]]:
    nodes = chance.randint(2, 7)

    def pairs(most: int) -> set[tuple[int, ...]]:
        return {(chance.randrange(nodes), chance.randrange(nodes)) for _ in range(chance.randint(0, most))}

    facts: dict[str, set[tuple[int, ...]]] = {
        "edge": pairs(12),
        "block": {(chance.randrange(nodes),) for _ in range(chance.randint(0, 3))},
    }
    if stated:
        facts |= {name: pairs(2) for name in ("path", "reach", "same", "eq", "plus", "link")}
    return facts


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=15)
def test_chains(seed: int, stated: bool) -> None:
    facts = random_facts(random.Random(seed), stated)
    checker, heights = chain_checker(facts)
    check_all(loaded(CHAINS, facts).materialise(), checker, heights)


@pytest.mark.parametrize("schemes", [{"*": "table"}, {}, {"path": "closure", "same": "equivalence"}])
@pytest.mark.parametrize("seed", range(3))
def test_every_scheme(schemes: dict[str, str], seed: int, instances: int) -> None:
    facts = random_facts(random.Random(seed), stated=False)
    checker, heights = chain_checker(facts)
    check_all(loaded(CHAINS, facts, schemes=schemes).materialise(), checker, heights)


@pytest.mark.parametrize("seed", range(4))
def test_after_updates_and_saved(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    facts = random_facts(chance, stated=seed % 2 == 0)
    kb = loaded(CHAINS, facts).materialise()
    for _ in range(3):
        come, gone = random_facts(chance, stated=False), random_facts(chance, stated=False)
        with kb.update() as update:
            for name in ("edge", "block"):
                update.delete(name, list(gone[name]))
                update.insert(name, list(come[name]))
                facts[name] = facts[name] - gone[name] | come[name]
        checker, heights = chain_checker(facts)
        check_all(kb, checker, heights)
    kb.save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as opened:
        check_all(opened, checker, heights)
        with opened.update() as update:
            update.add_rules("far(x, y) :- block(x), block(y).")
        assert opened.explain("far(x, y)").holds == bool(len(opened["far"]))


def test_shared_steps_are_there_once() -> None:
    kb = ge.Engine("""
    .decl a(x: number)
    .decl b(x: number)
    .decl c(x: number, y: number)
    a(1). b(x) :- a(x). c(x, x) :- b(x), b(x), a(x).
    """).materialise()
    proof = kb.explain("c(1, 1)")
    assert [step.fact.text for step in proof] == ["c(1, 1)", "b(1)", "a(1)"]
    assert str(proof).count("by b(x) :- a(x).") == 1
