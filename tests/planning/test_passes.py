"""Rewrites keep what a program means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.errors import EvaluationError
from gpuengine.language import parse_program
from gpuengine.language.program import Atom, Literal, Program, Rule, literal_variables
from gpuengine.planning.passes import blank_single_variables, close_equivalences, rewrite
from gpuengine.planning.plan import describe
from tests.generated import Case
from tests.oracle import Facts, Value, naive
from tests.strategies import cases

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=7)
EQREL = """
.decl e(x: number, y: number)
.decl same(x: number, y: number) eqrel
.decl out(x: number, y: number)
.input e
.output out
same(x, y) :- e(x, y), x != y.
out(x, y) :- same(x, y), !e(x, y).
"""


def without_eqrel(program: Program) -> Program:
    relations = {
        name: replace(relation, qualifiers=relation.qualifiers - {"eqrel"})
        for name, relation in program.relations.items()
    }
    return replace(program, relations=relations)


@given(PAIRS)
def test_the_rules_of_an_equivalence_close_it(pairs: list[tuple[int, int]]) -> None:
    program = parse_program(EQREL)
    closed = without_eqrel(close_equivalences(program))
    assert len(closed.rules) == len(program.rules) + 4
    assert naive(closed, {"e": pairs}) == naive(program, {"e": pairs})


def test_the_rules_of_an_equivalence_show_what_they_are() -> None:
    added = close_equivalences(parse_program(EQREL)).rules[2:]
    assert [rule.text for rule in added] == [
        "same(x, x) :- same(x, _). // eqrel",
        "same(x, x) :- same(_, x). // eqrel",
        "same(y, x) :- same(x, y). // eqrel",
        "same(x, z) :- same(x, y), same(y, z). // eqrel",
    ]


def test_a_program_without_equivalences_gets_no_rules() -> None:
    program = parse_program(EQREL.replace("eqrel", ""))
    assert close_equivalences(program) is program


def outcome(program: Program, facts: dict[str, list[tuple[Value, ...]]]) -> Facts | None:
    try:
        return naive(program, facts)
    except EvaluationError:
        return None


@settings(max_examples=30)
@given(cases())
def test_blanked_variables_change_nothing(case: Case) -> None:
    program = parse_program(str(case))
    blanked = blank_single_variables(program)
    assert outcome(blanked, case.facts) == outcome(program, case.facts)
    for rule in blanked.rules:
        assert not singles(rule)


@settings(max_examples=30)
@given(cases())
def test_all_passes_together_change_nothing(case: Case) -> None:
    program = parse_program(str(case))
    assert outcome(without_eqrel(rewrite(program)), case.facts) == outcome(program, case.facts)


def singles(rule: Rule) -> set[str]:
    """The variables of body atoms that are mentioned nowhere else, by literal."""
    places = Counter(name for literal in (rule.head, *rule.body) for name in mentions(literal))
    atoms = [literal for literal in rule.body if isinstance(literal, Atom)]
    return {name for atom in atoms for name in mentions(atom) if places[name] == 1}


def mentions(literal: Literal) -> Iterator[str]:
    if isinstance(literal, Atom):
        yield from (arg.name for arg in literal.args if hasattr(arg, "name"))
    else:
        yield from (variable.name for variable in literal_variables(literal))


def blanked_body(body: str) -> str:
    text = f".decl a(x: number, y: number)\n.decl h(x: number)\n.output h\nh(x) :- {body}."
    rule = blank_single_variables(parse_program(text)).rules[0]
    return ", ".join(describe(literal) for literal in rule.body)


def test_what_is_blanked() -> None:
    assert blanked_body("a(x, y), a(y, z)") == "a(x, y), a(y, _)"
    assert blanked_body("a(x, y), a(z, z)") == "a(x, _), a(z, z)"
    assert blanked_body("a(x, y), y < 3") == "a(x, y), y < 3"
    assert blanked_body("a(x, y), !a(y, 1)") == "a(x, y), !a(y, 1)"
    assert blanked_body("a(x, y), 1 < count : { a(y, _) }").startswith("a(x, y), ")
    assert blanked_body("a(x, _)") == "a(x, _)"
