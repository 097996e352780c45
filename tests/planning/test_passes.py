"""Rewrites keep what a program means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import Atom, Literal, Program, Rule, literal_variables
from gpuengine.planning.passes import (
    PASSES,
    blank_single_variables,
    close_equivalences,
    pass_name,
    spell_program,
)
from gpuengine.planning.passes import rewrite as rewrite_up_to
from gpuengine.planning.plan import describe
from tests.core_oracle import naive, outcome
from tests.generated import Case
from tests.planning.rewriting import rewrite
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


def test_every_pass_has_a_picture_and_a_line_in_the_guide() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    for one in PASSES:
        assert one.__doc__ is not None and "→" in one.__doc__
        assert f"| `{pass_name(one)}` |" in guide


SHARED = """
.decl broader(x: number, y: number)
.decl narrower(x: number, y: number)
.decl out(x: number)
.output out
broader(1, 2).
narrower(y, x) :- broader(x, y).
broader(y, x) :- narrower(x, y).
out(x) :- narrower(x, y), narrower(1, z).
"""


def test_the_program_between_passes() -> None:
    program = parse_program(SHARED)
    blanked, shared = (rewrite_up_to(program, pass_name(one)) for one in PASSES[2:])
    assert "narrower(y, x) :- broader(x, y)." in spell_program(blanked)
    assert "out(x) :- narrower(x, _), narrower(1, _)." in spell_program(blanked)
    assert not blanked.aliases
    assert (
        spell_program(shared)
        == """\
.decl broader(x: number, y: number)
.decl narrower(x: number, y: number)
.decl out(x: number)
// narrower(a0, a1) is stored as broader(a1, a0)
broader(1, 2).
out(x) :- broader(_, x), broader(_, 1).
"""
    )
    assert shared == rewrite_up_to(program)
