"""Shapes in whole programs: of the thesis "Optimising Datalog Materialisations", SKOS, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import Atom, Program, Rule, Variable
from gpuengine.planning.shapes import Candidate, find_shapes
from tests.core_oracle import naive
from tests.planning.rewriting import rewrite
from tests.planning.test_shapes import CLOSURE, EQUIVALENCE, UNION, candidate, found, handled, read, sources
from tests.thesis_programs import FOURTEEN, TC, TC_PLUS, TCU, U

Draw = Callable[[st.SearchStrategy[Any]], Any]


def test_thesis_tc() -> None:
    program = read(TC, pairs="path edge")
    assert found(program) == {"path": [CLOSURE, UNION]}
    assert handled(program, "path", CLOSURE) == ["path(x, z) :- path(x, y), path(y, z)"]


def test_thesis_tc_plus() -> None:
    """R2 is R reversed, so that one closure holds both; X is R2."""
    program = read(TC_PLUS, pairs="R R2 A B C D E F X")
    assert found(program) == {"R": [CLOSURE, UNION], "X": [UNION]}
    assert handled(program, "R", CLOSURE) == ["R(x, z) :- R(x, y), R(y, z)"]
    assert sources(candidate(program, "R", UNION)) == [("A", (0, 1)), ("F", (1, 0))]
    assert sources(candidate(program, "X", UNION)) == [("R", (1, 0))]


def test_thesis_u() -> None:
    program = read(U, pairs=f"U {FOURTEEN}")
    assert found(program) == {"U": [UNION]}
    one = candidate(program, "U", UNION)
    assert sources(one) == [(p, (1, 0) if p == "D" else (0, 1)) for p in FOURTEEN.split()]
    assert one.why == "U(x, y) :- A(x, y) and 13 more rules copy relations into it"


def test_thesis_tcu() -> None:
    """U, B and C are equal, A2 is A reversed: one union of a closure, read in both directions."""
    program = read(TCU, pairs="U A A2 B C D E F")
    assert found(program) == {"U": [UNION], "A": [CLOSURE]}
    assert sources(candidate(program, "U", UNION)) == [("A", (0, 1)), ("A", (1, 0))]
    assert handled(program, "A", CLOSURE) == ["A(x, y) :- A(x, z), A(z, y)"]


def test_skos_concepts() -> None:
    program = read(
        """
        narrower(y, x) :- broader(x, y).  broader(y, x) :- narrower(x, y).
        narrowerT(y, x) :- broaderT(x, y).  broaderT(y, x) :- narrowerT(x, y).
        broaderT(x, y) :- broader(x, y).
        narrowerT(x, z) :- narrowerT(x, y), narrowerT(y, z).
        semantic(x, y) :- broaderT(x, y).  semantic(x, y) :- narrowerT(x, y).
        semantic(x, y) :- related(x, y).
        """,
        pairs="broader narrower broaderT narrowerT related semantic",
    )
    assert found(program) == {"narrowerT": [CLOSURE, UNION], "semantic": [UNION]}
    assert sources(candidate(program, "narrowerT", UNION)) == [("broader", (1, 0))]
    assert sources(candidate(program, "semantic", UNION)) == [
        ("narrowerT", (1, 0)),
        ("narrowerT", (0, 1)),
        ("related", (0, 1)),
    ]


# Random programs: the handled rules may go if the structure holds instead.
NAMES = ("p", "q", "e")
LINEAR = (
    ("q(x, y) :- e(x, y).", "q(x, z) :- e(x, y), q(y, z)."),
    ("q(x, y) :- e(y, x).", "q(x, z) :- q(x, y), e(z, y)."),
    ("q(x, y) :- p(x, y).", "q(x, z) :- q(x, y), p(y, z).", "q(x, z) :- p(x, y), q(y, z)."),
    ("q(x, y) :- p(x, y).", "q(x, z) :- p(y, x), q(y, z)."),
)


@st.composite
def programs(draw: Draw) -> tuple[str, dict[str, list[tuple[int, int]]]]:
    """Copies and compositions in all directions over three relations, and facts for its inputs."""

    def atom(left: str, right: str, names: str = "ppqe") -> str:
        pair = (left, right) if draw(st.integers(0, 2)) else (right, left)
        return f"{draw(st.sampled_from(names))}({', '.join(pair)})"

    def rule() -> str:
        head = draw(st.sampled_from("ppq"))
        kind = draw(st.integers(0, 12))
        if kind <= 3:
            return f"{head}(x, y) :- {atom('x', 'y')}."
        if kind <= 9:
            return f"{head}(x, z) :- {', '.join(draw(st.permutations([atom('x', 'y'), atom('y', 'z')])))}."
        if kind == 10:
            return f"{head}(x, x) :- {atom('x', '_')}."
        return f"{head}(x, z) :- {atom('x', 'y')}, {atom('y', 'z')}, x != z."

    inputs = ["e", *draw(st.lists(st.sampled_from("pq"), unique=True))]
    lines = [f".decl {name}(x: number, y: number)\n.output {name}" for name in NAMES]
    lines += [f".input {name}" for name in inputs]
    if draw(st.integers(0, 3)) == 3:
        lines += draw(st.sampled_from(LINEAR))
    lines += [rule() for _ in range(draw(st.integers(0, 5)))]
    rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=5)
    return "\n".join(lines) + "\n", {name: draw(rows) for name in inputs}


def structure(one: Candidate, program: Program) -> list[Rule]:
    """The rules that say what the shape means."""
    attributes = program.relations[one.relation].attributes
    variables = [Variable(name, attributes[0].type) for name in "xyz"]
    span = program.relations[one.relation].span

    def atom(args: tuple[int, ...], relation: str = one.relation) -> Atom:
        return Atom(relation, tuple(variables[i] for i in args), span)

    copies = [_rule(atom((0, 1)), atom(source.permutation, source.relation)) for source in one.sources]
    if one.shape is UNION:
        return copies
    transitive = _rule(atom((0, 2)), atom((0, 1)), atom((1, 2)))
    symmetric = [_rule(atom((1, 0)), atom((0, 1)))] if one.shape is EQUIVALENCE else []
    return [*copies, transitive, *symmetric]


def _rule(head: Atom, *body: Atom) -> Rule:
    return Rule(head, body, head.span, "")


@settings(max_examples=200)
@given(programs())
def test_the_structure_replaces_the_handled_rules(
    case: tuple[str, dict[str, list[tuple[int, int]]]],
) -> None:
    text, facts = case
    program = rewrite(parse_program(text))
    expected = naive(program, facts)
    for candidates in find_shapes(program).values():
        for one in candidates:
            rest = [rule for rule in program.rules if rule not in one.handled]
            if one.linear:
                assert not [rule for rule in rest if rule.head.relation == one.relation]
            instead = replace(program, rules=(*rest, *structure(one, program)))
            assert naive(instead, facts) == expected, one
