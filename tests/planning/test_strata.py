"""Strata bottom-up, delta variants that meet every new combination exactly once, and dropped rules."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import Aggregate, Atom, Literal, Negation, Program, Rule
from gpuengine.planning.plan import Plan, Stratum, Variant, body_relations
from gpuengine.planning.strata import delta_variants, make_plan, member_positions
from tests import core_oracle
from tests.generated import Case
from tests.strategies import cases


def variants_of(stratum: Stratum) -> list[Variant]:
    return [*stratum.once, *stratum.recursive]


def rules_of(plan: Plan) -> set[Rule]:
    return {variant.rule for stratum in plan.strata for variant in variants_of(stratum)}


def strictly_below(body: tuple[Literal, ...], inside: bool = False) -> set[str]:
    """The relations that a body negates or aggregates over."""
    found: set[str] = set()
    for literal in body:
        if isinstance(literal, Negation):
            found.add(literal.atom.relation)
        elif isinstance(literal, Aggregate):
            found |= strictly_below(literal.body, inside=True)
        elif isinstance(literal, Atom) and inside:
            found.add(literal.relation)
    return found


@settings(max_examples=20)
@given(cases())
def test_what_a_rule_reads_is_complete_or_in_its_own_stratum(case: Case) -> None:
    program = parse_program(str(case))
    plan = make_plan(program)
    derived = {rule.head.relation for rule in program.rules if rule.body}
    done: set[str] = set()
    for number, stratum in enumerate(plan.strata):
        assert stratum.number == number
        own = set(stratum.relations)
        assert not own & done, "a relation is in one stratum"
        for variant in variants_of(stratum):
            assert variant.rule.head.relation in own
            assert body_relations(variant.rule.body) & derived <= done | own
            assert strictly_below(variant.rule.body) & derived <= done
        done |= own
    assert derived <= done


@settings(max_examples=20)
@given(cases())
def test_strata_are_the_strongly_connected_components(case: Case) -> None:
    program = parse_program(str(case))
    derived = {rule.head.relation for rule in program.rules if rule.body}
    expected = {component for component in core_oracle.strata(program) if component & derived}
    assert {frozenset(stratum.relations) for stratum in make_plan(program).strata} == expected


@settings(max_examples=20)
@given(cases())
def test_every_rule_is_evaluated_once_or_for_each_of_its_recursive_atoms(case: Case) -> None:
    program = parse_program(str(case))
    plan = make_plan(program)
    assert rules_of(plan) == {rule for rule in program.rules if rule.body}
    assert Counter(plan.facts) == Counter(rule for rule in program.rules if not rule.body)
    assert plan.dropped == ()
    for stratum in plan.strata:
        assert stratum.is_recursive == bool(stratum.recursive)
        seen = Counter((variant.rule, variant.delta) for variant in variants_of(stratum))
        assert set(seen.values()) <= {1}
        for variant in stratum.once:
            assert variant.delta is None and not variant.old
            assert not member_positions(variant.rule, stratum.relations)
        for variant in stratum.recursive:
            positions = member_positions(variant.rule, stratum.relations)
            assert {delta for rule, delta in seen if rule == variant.rule} == set(positions)
            assert variant.old == frozenset(
                p for p in positions if variant.delta is not None and p < variant.delta
            )


RULES = parse_program(
    """
    .decl e(x: number, y: number)
    .decl p(x: number, y: number)
    .decl q(x: number, y: number)
    .input e
    .output p
    p(x, y) :- e(x, y).
    q(x, y) :- p(x, y).
    p(x, z) :- p(x, y), p(y, z).
    p(x, w) :- p(x, y), e(y, z), q(z, w).
    p(x, w) :- p(x, y), p(y, z), q(z, w), x != w, !e(x, w).
    p(x, x) :- q(x, x).
    """
)
Pairs = set[tuple[Any, ...]]
PAIRS = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)


@given(PAIRS, PAIRS, PAIRS, PAIRS, PAIRS)
def test_the_variants_meet_each_new_combination_once(
    e: Pairs, p_old: Pairs, p_new: Pairs, q_old: Pairs, q_new: Pairs
) -> None:
    """Bindings with some new fact = the union of the variants' bindings, none of them twice."""
    known: core_oracle.Facts = {"e": e}
    for name, old, new in (("p", p_old, p_new), ("q", q_old, q_new)):
        known |= {f"{name} old": old, f"{name} new": new - old, f"{name} all": old | new}
    for rule in (rule for rule in RULES.rules if member_positions(rule, "pq")):
        found: Counter[frozenset[Any]] = Counter()
        for variant in delta_variants(rule, "pq"):
            domains: dict[int | None, str] = {variant.delta: "new"}
            domains.update(dict.fromkeys(variant.old, "old"))
            found.update(bindings(rule, domains, known))
        assert found == Counter(bindings(rule, {}, known)) - Counter(bindings(rule, None, known))


def bindings(
    rule: Rule, domains: dict[int | None, str] | None, known: core_oracle.Facts
) -> list[frozenset[Any]]:
    """The bindings of a body whose recursive atoms read these domains (else all; None: all of them old)."""
    body = tuple(
        replace(literal, relation=f"{literal.relation} {'old' if domains is None else domains.get(i, 'all')}")
        if isinstance(literal, Atom) and literal.relation in "pq"
        else literal
        for i, literal in enumerate(rule.body)
    )
    return [frozenset(found.items()) for found in core_oracle.solutions(body, known)]


@settings(max_examples=20)
@given(cases(), st.integers(0, 99))
def test_only_what_the_wanted_relations_need_is_evaluated(case: Case, seed: int) -> None:
    program = parse_program(str(case))
    wanted = Random(seed).sample(sorted(program.relations), 1)
    plan = make_plan(program, wanted)
    needed: set[str] = set(wanted)
    before: set[str] = set()
    while needed != before:
        before = set(needed)
        for rule in program.rules:
            if rule.head.relation in needed:
                needed |= body_relations(rule.body)
    assert rules_of(plan) == {r for r in program.rules if r.body and r.head.relation in needed}
    assert set(plan.facts) == {r for r in program.rules if not r.body and r.head.relation in needed}
    assert set(plan.dropped) == {r for r in program.rules if r.head.relation not in needed}


def chain(length: int) -> Program:
    lines = [f".decl r{i}(x: number)" for i in range(length + 1)]
    lines += [f"r{i}(x) :- r{i + 1}(x)." for i in range(length)]
    return parse_program("\n".join([*lines, f"r{length}(1).", ".output r0"]))


def test_a_long_chain_of_relations_needs_no_deep_recursion() -> None:
    plan = make_plan(chain(1500))
    assert [stratum.relations for stratum in plan.strata] == [(f"r{i}",) for i in reversed(range(1500))]


def test_a_long_cycle_of_relations_is_one_stratum() -> None:
    program = chain(1500)
    last = program.rules[0]
    closing = replace(
        last, head=replace(last.head, relation="r1500"), body=(replace(last.head, relation="r0"),)
    )
    plan = make_plan(replace(program, rules=(*program.rules, closing)))
    (stratum,) = plan.strata
    assert len(stratum.relations) == 1501 and len(stratum.recursive) == 1501 and not stratum.once
