"""Ordered bodies: every literal in its turn, each once, the driver first, cheap orders chosen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import (
    Aggregate,
    Atom,
    Comparison,
    Literal,
    Negation,
    Program,
    Rule,
    Variable,
    Wildcard,
    binds,
    literal_variables,
)
from gpuengine.planning.order import EXHAUSTIVE_ATOMS, order_body
from gpuengine.planning.plan import Access, BodyPlan, Step, describe
from gpuengine.planning.strata import make_plan
from tests.generated import Case
from tests.planning.rewriting import rewrite
from tests.planning.statistics import RandomSizes, Sizes
from tests.strategies import cases


def rule_of(body: str, head: str = "h()", arities: str = "") -> Rule:
    """The rule ``head :- body`` over relations of numbers; ``a2`` in `arities` is a relation a with two."""
    declarations = [".decl h()" if head == "h()" else ".decl h(x: number, y: number)", ".output h"]
    for item in (arities or "a2 b2 c2 d2").split():
        columns = ", ".join(f"x{j}: number" for j in range(int(item[1:])))
        declarations.append(f".decl {item[0]}({columns})\n.input {item[0]}")
    return parse_program("\n".join([*declarations, f"{head} :- {body}."])).rules[0]


def relations_in_order(plan: BodyPlan) -> list[str]:
    return [step.literal.relation for step in plan.steps if isinstance(step.literal, Atom)]


def assert_evaluable(body: Sequence[Literal], plan: BodyPlan, given_: frozenset[Variable]) -> None:
    """Each literal is placed once, and can be evaluated by its access when its turn comes."""
    placed = [position for step in plan.steps for position in (step.position, *step.alternatives)]
    assert sorted(placed) == list(range(len(body)))
    bound = given_
    for step in plan.steps:
        assert step.literal is body[step.position]
        more = binds(step.literal, bound)
        assert more is not None, "not evaluable in its turn"
        assert_access(step, bound)
        new = more
        for position in step.alternatives:
            rival = body[position]
            assert isinstance(rival, Atom) and step.access is Access.PROBE
            assert binds(rival, bound) == more and len(more) == 1, "rivals bind the same one variable"
            assert not any(isinstance(arg, Wildcard) for arg in rival.args)
        bound |= new


def assert_access(step: Step, bound: frozenset[Variable]) -> None:
    atom = step.literal.atom if isinstance(step.literal, Negation) else step.literal
    if not isinstance(atom, Atom):
        assert step.access is None
        return
    if step.access is Access.DRIVE:
        return
    known = tuple(
        column
        for column, arg in enumerate(atom.args)
        if not isinstance(arg, Wildcard) and (not isinstance(arg, Variable) or arg in bound)
    )
    assert step.bound_columns == known
    free = [arg for column, arg in enumerate(atom.args) if column not in known]
    if step.access is Access.CHECK:
        assert not free
    elif step.access is Access.EXISTS:
        assert free and all(isinstance(arg, Wildcard) for arg in free)
    else:
        assert any(isinstance(arg, Variable) for arg in free)
        assert (step.access is Access.PROBE) == bool(known)


@settings(max_examples=30)
@given(cases(), st.integers(0, 10**6))
def test_every_literal_is_evaluable_in_its_turn(case: Case, seed: int) -> None:
    program = rewrite(parse_program(str(case)))
    statistics = RandomSizes(seed)
    for stratum in make_plan(program).strata:
        for variant in (*stratum.once, *stratum.recursive):
            body = variant.rule.body
            plan = order_body(body, statistics, driver=variant.delta)
            assert_evaluable(body, plan, frozenset())
            atoms = [step for step in plan.steps if isinstance(step.literal, Atom)]
            if atoms:
                assert plan.steps[0].access is Access.DRIVE
                assert [step.access for step in plan.steps].count(Access.DRIVE) == 1
            if variant.delta is not None:
                assert plan.steps[0].position == variant.delta
            assert plan.cost >= 0 and plan.reason
            for literal in body:
                if isinstance(literal, Aggregate):
                    outer = frozenset(literal.outer)
                    inner = order_body(literal.body, statistics, given=outer)
                    assert_evaluable(literal.body, inner, outer)
                    assert not any(step.access is Access.DRIVE for step in inner.steps)


@settings(max_examples=30)
@given(cases(), st.integers(0, 10**6))
def test_filters_run_as_soon_as_they_can(case: Case, seed: int) -> None:
    program = rewrite(parse_program(str(case)))
    for rule in program.rules:
        plan = order_body(rule.body, RandomSizes(seed))
        bound: frozenset[Variable] = frozenset()
        waiting = {step.position for step in plan.steps if isinstance(step.literal, Negation | Comparison)}
        for number, step in enumerate(plan.steps):
            if isinstance(step.literal, Atom) and number:
                ready = [p for p in waiting if literal_variables(rule.body[p]) <= bound]
                assert not ready, "a filter waits while another atom is read"
            bound |= literal_variables(step.literal)
            waiting.discard(step.position)


SMALL, LARGE = (10.0, (10.0, 10.0)), (1e6, (1e5, 1e5))


def test_the_smallest_relation_drives() -> None:
    body = rule_of("a(x, y), b(y, z), c(z, w)", arities="a2 b2 c2").body
    sizes = Sizes({"a": LARGE, "b": LARGE, "c": SMALL})
    plan = order_body(body, sizes)
    assert relations_in_order(plan) == ["c", "b", "a"]
    assert "c (10 facts)" in plan.reason


def test_a_selective_constant_beats_a_smaller_relation() -> None:
    body = rule_of("a(x, y), b(7, x)", arities="a2 b2").body
    sizes = Sizes({"a": (1000.0, (1000.0, 1000.0)), "b": (1e6, (1e6, 1e6))})
    assert relations_in_order(order_body(body, sizes)) == ["b", "a"]
    unselective = Sizes({"a": (1000.0, (1000.0, 1000.0)), "b": (1e6, (2.0, 1e6))})
    assert relations_in_order(order_body(body, unselective)) == ["a", "b"]


def test_products_are_avoided() -> None:
    body = rule_of("a(x, u), b(y, v), c(x, y)", arities="a2 b2 c2").body
    sizes = Sizes(
        {"a": (1000.0, (1000.0, 10.0)), "b": (1000.0, (1000.0, 10.0)), "c": (2000.0, (1000.0, 1000.0))}
    )
    assert all(step.access is not Access.SCAN for step in order_body(body, sizes).steps)


def test_a_filtering_relation_comes_before_a_multiplying_one() -> None:
    body = rule_of("a(x, y), b(y, z), c(x, w)", head="h(z, w)", arities="a2 b2 c2").body
    sizes = Sizes(
        {"a": (1000.0, (1000.0, 1000.0)), "b": (1e6, (1000.0, 1e6)), "c": (2000.0, (10000.0, 10.0))}
    )
    assert relations_in_order(order_body(body, sizes, driver=0)) == ["a", "c", "b"]


def test_the_driver_comes_first_whatever_it_costs() -> None:
    body = rule_of("a(x, y), b(y, z), c(z, w)", arities="a2 b2 c2").body
    sizes = Sizes({"a": SMALL, "b": LARGE, "c": LARGE})
    for driver, name in enumerate("abc"):
        plan = order_body(body, sizes, driver=driver)
        assert relations_in_order(plan)[0] == name and name in plan.reason


def test_a_triangle_reads_the_shortest_of_two_lists() -> None:
    body = rule_of("a(x, y), b(y, z), c(z, x)", arities="a2 b2 c2").body
    plan = order_body(body, Sizes({"a": SMALL, "b": LARGE, "c": LARGE}))
    first, second = plan.steps
    assert first.access is Access.DRIVE and first.position == 0
    assert second.access is Access.PROBE and {second.position, *second.alternatives} == {1, 2}


@pytest.mark.parametrize("body", ["a(x, y), b(y, z), c(z, _)", "a(x, y), b(y, z), d(z, x, x, y)"])
def test_no_rivals_with_wildcards_or_many_columns(body: str) -> None:
    literals = rule_of(body, arities="a2 b2 c2 d4").body
    plan = order_body(literals, Sizes({"a": SMALL, "b": LARGE, "c": LARGE, "d": (1e6, (1e5,) * 4)}), driver=0)
    assert all(not step.alternatives for step in plan.steps)
    assert_evaluable(literals, plan, frozenset())


@pytest.mark.parametrize("atoms", [EXHAUSTIVE_ATOMS, EXHAUSTIVE_ATOMS + 1, 40])
def test_long_bodies_follow_their_chain(atoms: int) -> None:
    """Shuffled atoms of a chain are read from end to end, not as a product."""
    order = [(i * 7) % atoms for i in range(atoms)] if atoms % 7 else list(range(atoms))
    assert len(set(order)) == atoms
    body = rule_of(", ".join(f"a(x{i}, x{i + 1})" for i in order), arities="a2").body
    plan = order_body(body, Sizes({"a": (1000.0, (900.0, 900.0))}))
    assert_evaluable(body, plan, frozenset())
    assert all(step.access is not Access.SCAN for step in plan.steps)


def test_bindings_from_outside_drive_instead_of_an_atom() -> None:
    rule = rule_of("a(x, y), b(y, z)", arities="a2 b2")
    x = next(v for v in literal_variables(rule.body[0]) if v.name == "x")
    plan = order_body(rule.body, Sizes({"a": LARGE, "b": SMALL}), given=frozenset((x,)))
    assert [step.access for step in plan.steps] == [Access.PROBE, Access.PROBE]
    assert_evaluable(rule.body, plan, frozenset((x,)))


def literals_in_order(plan: BodyPlan) -> list[str]:
    return [describe(step.literal) for step in plan.steps]


def test_what_can_fail_comes_after_what_filters() -> None:
    rule = rule_of("z = x / y, a(x, y), !c(y, y), b(y, _), y != 0", head="h(x, z)", arities="a2 b2 c2")
    for driver in (None, 1, 3):
        plan = order_body(rule.body, Sizes({"a": LARGE, "b": LARGE, "c": SMALL}), driver=driver)
        assert literals_in_order(plan)[-1] == "z = (x / y)"
        assert_evaluable(rule.body, plan, frozenset())


def test_of_what_can_fail_guards_come_first() -> None:
    rule = rule_of("z = x / y, a(x, y), w = 9 / x, w > 3, 7 / y > 1", head="h(z, w)", arities="a2")
    plan = order_body(rule.body, Sizes({"a": LARGE}))
    assert literals_in_order(plan) == ["a(x, y)", "w = (9 / x)", "w > 3", "(7 / y) > 1", "z = (x / y)"]


def test_a_value_that_can_fail_is_looked_up_where_reading_first_would_cost_much_more() -> None:
    rule = rule_of("a(i, w), b(w, v), v = i / w", head="h(i, v)", arities="a2 b2")
    few_keys = Sizes({"a": (1e4, (1e4, 1.0)), "b": (1e4, (1.0, 1e4))})
    assert literals_in_order(order_body(rule.body, few_keys)) == ["a(i, w)", "v = (i / w)", "b(w, v)"]
    one_match_each = Sizes({"a": (1e4, (1e4, 1e4)), "b": (1e4, (1e4, 1e4))})
    assert literals_in_order(order_body(rule.body, one_match_each))[-1] == "v = (i / w)"
    further = rule_of("a(i, w), b(w, v), u = i / w, v = u + 1", head="h(i, v)", arities="a2 b2")
    expected = ["a(i, w)", "u = (i / w)", "v = (u + 1)", "b(w, v)"]
    assert literals_in_order(order_body(further.body, few_keys)) == expected
    plan = order_body(rule.body, few_keys, driver=1)
    assert literals_in_order(plan) == ["b(w, v)", "a(i, w)", "v = (i / w)"]
    assert_evaluable(rule.body, plan, frozenset())


def test_a_body_without_atoms() -> None:
    program: Program = parse_program(".decl h(x: number)\n.output h\nh(x) :- x = y, y = 2 + 3, x > 1.")
    body = program.rules[0].body
    plan = order_body(body, Sizes({}))
    assert_evaluable(body, plan, frozenset())
    assert plan.reason == "no atom to read"
