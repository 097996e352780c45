"""A split rule derives what the rule derived: as a program, and when it is applied within a fixpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.evaluation.driver import stratum
from gpuengine.evaluation.rules import variants
from gpuengine.language import parse_program
from gpuengine.language.program import NUMBER, Attribute, Program, Relation, Variable
from gpuengine.planning import split
from gpuengine.planning.split import Split, find_split
from gpuengine.planning.strata import make_plan
from tests.core_oracle import naive
from tests.differential.compare import assert_agrees, engine_facts
from tests.planning.random_recursion import recursive_program
from tests.planning.rewriting import rewrite
from tests.planning.statistics import RandomSizes, Sizes


@contextmanager
def always_worthwhile() -> Iterator[list[Split]]:
    """Split whatever can be split, as early as possible; collects the splits that are applied."""
    applied: list[Split] = []
    apply = stratum.StratumEvaluation._apply

    def noted(self: stratum.StratumEvaluation, rule: object, chosen: Split) -> None:
        applied.append(chosen)
        apply(self, rule, chosen)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "WORTHWHILE_COST", 0)
        patch.setattr(split, "WORTHWHILE_GAIN", 1e9)
        patch.setattr(stratum, "_KNOWN_FACTS", 0)
        patch.setattr(stratum.StratumEvaluation, "_apply", noted)
        yield applied


def split_program(program: Program, seed: int) -> tuple[Program, int]:
    """The program with every rule split that can be, and how many were."""
    count = 0
    for part in make_plan(program).strata:
        for rule in dict.fromkeys(variant.rule for variant in part.recursive):
            found = find_split(rule, frozenset(part.relations), program.relations, RandomSizes(seed))
            if found is None:
                continue
            count += 1
            head = found.inner.head
            attributes = tuple(Attribute(arg.name, NUMBER) for arg in head.args if isinstance(arg, Variable))
            added = Relation(head.relation, attributes, frozenset(), rule.span)
            rules = [other for other in program.rules if other is not rule]
            program = replace(
                program,
                relations={**program.relations, head.relation: added},
                rules=(*rules, found.inner, found.outer),
            )
    return program, count


@settings(max_examples=40)
@given(st.integers(0, 10**9))
def test_the_two_rules_are_equivalent_to_the_one(seed: int) -> None:
    text, facts = recursive_program(seed)
    program = rewrite(parse_program(text))
    with always_worthwhile():
        changed, count = split_program(program, seed)
    assert len(changed.rules) == len(program.rules) + count
    derived, expected = naive(changed, facts), naive(program, facts)
    assert {name: derived[name] for name in expected} == expected


def test_most_random_rules_can_be_split() -> None:
    """Guards the tests above and below against having nothing to test."""
    with always_worthwhile():
        counts = [split_program(rewrite(parse_program(recursive_program(s)[0])), s)[1] for s in range(30)]
    assert sum(count > 0 for count in counts) >= 15


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.booleans())
def test_splits_within_a_fixpoint_change_nothing(seed: int, large_rounds: bool) -> None:
    text, facts = recursive_program(seed)
    with always_worthwhile(), pytest.MonkeyPatch.context() as patch:
        if large_rounds:
            patch.setattr(stratum, "SMALL_DELTA", 0)
            patch.setattr(variants, "SMALL_DELTA", 0)
        assert_agrees(text, facts, threads=2 if large_rounds else 1)


POINTS_TO = """
.decl new(x: number, y: number)
.decl load(x: number, y: number)
.decl store(x: number, y: number)
.decl p(x: number, y: number)
.input new
.input load
.input store
.output p
p(x, y) :- new(x, y).
p(x, w) :- load(x, y), p(y, z), p(z, w).
p(y, w) :- store(y, x), p(x, z), p(z, w), p(y, _).
"""


@pytest.mark.parametrize("late", [0, 30, 200])
def test_a_split_in_the_middle_of_a_fixpoint(late: int) -> None:
    """The new relation starts from the OLD facts when `late` facts are known, with a delta under way."""
    facts = {
        "new": [(i, (i * 7 + 3) % 40) for i in range(40)],
        "load": [((i * 11) % 40, i) for i in range(40)],
        "store": [(i, (i * 13 + 1) % 40) for i in range(0, 40, 2)],
    }
    expected = engine_facts(POINTS_TO, facts, threads=1)
    with always_worthwhile() as applied, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stratum, "_KNOWN_FACTS", late)
        patch.setattr(stratum, "SMALL_DELTA", 0)
        assert engine_facts(POINTS_TO, facts, threads=1) == expected
    assert len(applied) >= 2
    assert expected is not None and len(expected["p"]) > 300
    assert set(expected) == {"new", "load", "store", "p"}


def test_a_pair_of_which_one_atom_only_checks_is_left_alone() -> None:
    """``p(a, b), e(b, a)`` joins nothing: the second atom filters what the first one binds."""
    text = """
    .decl e(x: number, y: number)
    .decl p(x: number, y: number)
    .input e
    .output p
    p(x, y) :- e(x, y).
    p(x, x) :- p(x, _), p(a, b), e(b, a).
    """
    with always_worthwhile() as applied:
        assert_agrees(text, {"e": [(1, 2), (3, 4), (4, 3)]})
        assert_agrees(text, {"e": [(1, 2), (3, 4)]})
        assert_agrees(text, {"e": []})
    assert not applied


@pytest.mark.parametrize("large_rounds", [False, True])
def test_a_split_pair_without_recursive_atoms_is_evaluated_all_the_same(large_rounds: bool) -> None:
    text = """
    .decl e(x: number, y: number)
    .decl f(x: number, y: number)
    .decl q(x: number, y: number)
    .input e
    .input f
    .output q
    q(x, y) :- e(x, y).
    q(x, w) :- q(w, x), e(x, y), f(w, y).
    """
    facts = {"e": [(1, 2), (2, 3), (3, 1)], "f": [(1, 3), (2, 1), (1, 1)]}
    with always_worthwhile() as applied, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stratum, "SMALL_DELTA", 0 if large_rounds else 4096)
        found = engine_facts(text, facts, threads=1)
    assert found is not None and found["q"] == {(1, 2), (2, 3), (3, 1), (2, 1), (3, 2)}
    assert {part.relation for chosen in applied for part in chosen.inner.body} == {"e", "f"}  # type: ignore[union-attr]


@pytest.mark.parametrize("late", [2, 5, 20])
@pytest.mark.parametrize(
    "body", ["g(z), p(z, y), q(y, z)", "g(z), q(y, z), p(z, y)", "p(z, y), g(z), q(y, z), z > 0"]
)
def test_a_split_in_the_middle_keeps_to_old_facts(body: str, late: int) -> None:
    """One fact of q comes a round, and what it gives must not be taken for known when the rule is split."""
    text = f"""
    .decl e(x: number, y: number)
    .decl a(x: number, y: number)
    .decl p(x: number, y: number)
    .decl q(x: number, y: number)
    .decl g(x: number)
    .decl h(x: number)
    .input e
    .input a
    .output h
    p(x, y) :- a(x, y).
    g(x) :- e(x, _).
    q(0, 1).
    q(y, z) :- q(x, y), e(y, z).
    h(z) :- {body}.
    g(x) :- h(x), e(x, 77).
    q(x, x) :- h(x), e(x, 77).
    p(x, x) :- h(x), e(x, 77).
    """
    facts = {"e": [(i, i + 1) for i in range(30)], "a": [(i + 1, i) for i in range(30)]}
    with always_worthwhile(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(stratum, "_KNOWN_FACTS", late)
        patch.setattr(stratum, "SMALL_DELTA", 0)
        found = engine_facts(text, facts, threads=1)
    assert found is not None and found["h"] == {(i,) for i in range(1, 30)}


@settings(max_examples=30)
@given(st.integers(0, 10**9), st.integers(1, 10))
def test_late_splits_change_nothing(seed: int, late: int) -> None:
    text, facts = recursive_program(seed)
    with always_worthwhile(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(stratum, "_KNOWN_FACTS", late)
        patch.setattr(stratum, "SMALL_DELTA", 0)
        assert_agrees(text, facts, threads=1)


LOAD = "p(x, w) :- load(x, y), p(y, z), p(z, w)."


def test_a_split_is_found_only_where_it_pays() -> None:
    program = rewrite(parse_program(POINTS_TO))
    rule = next(rule for rule in program.rules if rule.text == LOAD)
    members = frozenset(("p",))
    many = {"load": (1e5, (1e5, 10.0)), "p": (1e6, (1e4, 1e4))}
    found = find_split(rule, members, program.relations, Sizes(many))
    assert found is not None and found.cost_after <= split.WORTHWHILE_GAIN * found.cost_before
    assert found.inner.head.relation not in program.relations
    assert found.outer.head == rule.head and found.inner.head in found.outer.body
    few = {"load": (100.0, (100.0, 10.0)), "p": (100.0, (50.0, 50.0))}
    assert find_split(rule, members, program.relations, Sizes(few)) is None, "a cheap rule is left alone"
    taken = {*program.relations, found.inner.head.relation}
    again = find_split(rule, members, taken, Sizes(many))
    assert again is not None and again.inner.head.relation not in taken


def test_rules_of_two_atoms_and_variables_that_are_needed_are_not_split() -> None:
    text = POINTS_TO + "p(x, z) :- p(x, y), p(y, z).\np(x, y) :- p(x, y), load(x, y), store(x, y).\n"
    program = rewrite(parse_program(text))
    with always_worthwhile():
        for rule in program.rules[-2:]:
            assert find_split(rule, frozenset("p"), program.relations, RandomSizes(1)) is None
