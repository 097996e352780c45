"""What must not change a materialisation: the order and the names in which things are said."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.differential.compare import engine_facts
from tests.generated import Case, Clause, literal
from tests.strategies import cases

CASES = st.one_of(cases(), cases(compound=True))


@given(CASES, st.randoms(use_true_random=False))
def test_order_of_facts_and_repeats(case: Case, random: Random) -> None:
    shuffled = {name: random.sample([*rows, *rows], 2 * len(rows)) for name, rows in case.facts.items()}
    assert engine_facts(str(case), shuffled) == engine_facts(str(case), case.facts)


@given(CASES, st.integers(2, 4))
def test_load_in_parts(case: Case, parts: int) -> None:
    assert engine_facts(str(case), case.facts, parts=parts) == engine_facts(str(case), case.facts)


@given(CASES, st.randoms(use_true_random=False))
def test_order_of_rules(case: Case, random: Random) -> None:
    shuffled = replace(case, clauses=tuple(random.sample(case.clauses, len(case.clauses))))
    assert engine_facts(str(shuffled), case.facts) == engine_facts(str(case), case.facts)


@given(CASES, st.randoms(use_true_random=False))
def test_order_of_literals(case: Case, random: Random) -> None:
    clauses = tuple(Clause(c.heads, tuple(random.sample(c.body, len(c.body)))) for c in case.clauses)
    assert engine_facts(str(replace(case, clauses=clauses)), case.facts) == engine_facts(
        str(case), case.facts
    )


@given(CASES)
def test_names_of_variables(case: Case) -> None:
    assert engine_facts(str(case.renamed()), case.facts) == engine_facts(str(case), case.facts)


@given(CASES)
def test_a_rule_said_twice(case: Case) -> None:
    doubled = replace(case, clauses=(*case.clauses, *case.clauses))
    assert engine_facts(str(doubled), case.facts) == engine_facts(str(case), case.facts)


@given(CASES)
def test_facts_in_the_text_or_loaded(case: Case) -> None:
    """Facts of the program and loaded facts are the same thing."""
    types = {relation.name: relation.types for relation in case.relations}
    said = tuple(
        Clause((f"{name}({', '.join(literal(v, t) for v, t in zip(row, types[name], strict=True))})",))
        for name, rows in case.facts.items()
        for row in rows
    )
    stated = replace(case, clauses=(*said, *case.clauses))
    assert engine_facts(str(stated), {}) == engine_facts(str(case), case.facts)
