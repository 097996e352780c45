"""Which structures rules imply: recognised in every spelling, and never where they do not hold."""

from __future__ import annotations

import pytest

from gpuengine.language import parse_program
from gpuengine.language.program import Program, Rule
from gpuengine.planning.plan import describe
from gpuengine.planning.shapes import Candidate, Shape, Source, find_shapes, shape_problem
from gpuengine.planning.sharing import share_equal_relations
from tests.planning.rewriting import rewrite

CLOSURE, EQUIVALENCE, UNION = Shape.CLOSURE, Shape.EQUIVALENCE, Shape.UNION


def read(rules: str, header: str = "", pairs: str = "r e f u") -> Program:
    """A rewritten program over binary relations of numbers, equal ones shared."""
    declared = [f".decl {name}(x: number, y: number)\n.output {name}" for name in pairs.split()]
    return share_equal_relations(rewrite(parse_program("\n".join([*declared, header, rules, ""]))))[0]


def found(program: Program) -> dict[str, list[Shape]]:
    return {name: [one.shape for one in candidates] for name, candidates in find_shapes(program).items()}


def candidate(program: Program, relation: str, shape: Shape) -> Candidate:
    (one,) = (one for one in find_shapes(program)[relation] if one.shape is shape)
    assert one.relation == relation
    assert shape_problem(program, relation, shape) == ""
    return one


def told(rule: Rule) -> str:
    return f"{describe(rule.head)} :- {', '.join(map(describe, rule.body))}"


def handled(program: Program, relation: str, shape: Shape) -> list[str]:
    return [told(rule) for rule in candidate(program, relation, shape).handled]


def sources(one: Candidate) -> list[tuple[str, tuple[int, ...]]]:
    return [(source.relation, source.permutation) for source in one.sources]


@pytest.mark.parametrize(
    "rule",
    [
        "r(x, z) :- r(x, y), r(y, z).",
        "r(x, z) :- r(y, z), r(x, y).",
        "r(z, x) :- r(y, x), r(z, y).",
        "r(b, a) :- r(b, c), r(c, a).",
    ],
)
def test_a_transitive_relation_is_a_closure_in_every_spelling(rule: str) -> None:
    program = read(rule + "r(x, y) :- e(x, y), x < y.  r(x, y) :- f(x, _), u(_, y).  r(1, 2).")
    assert found(program) == {"r": [CLOSURE]}
    one = candidate(program, "r", CLOSURE)
    assert one.handled == program.rules[:1]
    assert one.sources == ()
    assert not one.linear
    assert one.why == f"{told(program.rules[0])} makes it transitive"


@pytest.mark.parametrize(
    "rule",
    [
        "r(x, z) :- r(x, y), r(y, z), x != z.",
        "r(x, z) :- r(x, y), r(y, z), e(x, z).",
        "r(x, z) :- r(x, y), r(y, z), !e(x, z).",
        "r(x, z) :- r(x, y), r(y, z), r(z, _).",
        "r(x, z) :- r(x, y), r(y, w), r(w, z).",
        "r(x, z) :- r(x, 1), r(1, z).",
        "r(x, 2) :- r(x, y), r(y, 2).",
        "r(x, x) :- r(x, y), r(y, x).",
        "r(x, z) :- r(x, x), r(x, z).",
        "r(x, z) :- r(x, _), r(_, z).",
        "r(x, z) :- r(x, y), r(z, y).",
        "r(x, z) :- r(y, x), r(y, z).",
        "r(x, z) :- r(z, y), r(y, x).",
        "r(x, z) :- r(x, y), e(y, z).",
        "r(x, z) :- e(x, y), e(y, z).",
        "u(x, z) :- r(x, y), r(y, z).",
        "r(x, n) :- e(x, _), n = count : { e(x, y), e(y, _) }.",
        "r(x, z) :- r(x, y), y = z.",
        "r(x, z) :- r(x, y), r(w, z), w = y + 0.",
    ],
)
def test_what_is_no_closure(rule: str) -> None:
    assert found(read(rule)) == {}
    assert shape_problem(read(rule), "r", CLOSURE) == "no rule makes it transitive"


def test_rules_that_transitivity_implies_are_handled() -> None:
    program = read(
        """
        r(x, y) :- e(x, y).
        r(x, z) :- r(x, y), e(y, z).
        r(x, z) :- e(x, y), r(y, z).
        r(x, z) :- r(x, y), r(y, z).
        r(x, y) :- f(y, x).
        r(x, z) :- r(x, y), f(z, y).
        r(x, z) :- e(y, x), r(y, z).
        r(x, z) :- r(x, y), f(y, z).
        r(x, z) :- r(x, y), u(y, z).
        r(x, z) :- r(x, y), e(y, z), x < z.
        r(x, z) :- e(x, y), f(z, y).
        """
    )
    assert handled(program, "r", CLOSURE) == [
        "r(x, z) :- r(x, y), e(y, z)",
        "r(x, z) :- e(x, y), r(y, z)",
        "r(x, z) :- r(x, y), r(y, z)",
        "r(x, z) :- r(x, y), f(z, y)",
        "r(x, z) :- e(x, y), f(z, y)",
    ]


@pytest.mark.parametrize(
    ("rules", "permutation"),
    [
        ("r(x, y) :- e(x, y).  r(x, z) :- e(x, y), r(y, z).", (0, 1)),
        ("r(x, y) :- e(x, y).  r(x, z) :- r(x, y), e(y, z).", (0, 1)),
        ("r(x, z) :- e(y, z), r(x, y).  r(a, b) :- e(a, b).", (0, 1)),
        ("r(x, y) :- e(x, y).  r(x, z) :- r(x, y), e(y, z).  r(x, z) :- e(x, y), r(y, z).", (0, 1)),
        ("r(x, y) :- e(x, y).  r(x, z) :- r(x, y), e(y, z).  r(x, z) :- e(x, y), e(y, z).", (0, 1)),
        ("r(x, y) :- e(x, y).  r(y, x) :- e(y, x).  r(c, a) :- e(c, b), r(b, a).", (0, 1)),
        ("r(y, x) :- e(x, y).  r(x, z) :- e(y, x), r(y, z).", (1, 0)),
        ("r(x, y) :- e(y, x).  r(x, z) :- r(x, y), e(z, y).", (1, 0)),
    ],
)
def test_linear_recursion_is_the_closure_of_a_relation(rules: str, permutation: tuple[int, int]) -> None:
    program = read(rules, header=".input e")
    assert found(program) == {"r": [CLOSURE, UNION]}
    one = candidate(program, "r", CLOSURE)
    assert one.linear
    assert one.handled == program.rules
    assert sources(one) == [("e", permutation)]
    step = next(rule for rule in program.rules if len(rule.body) == 2)
    reversed_or_not = " reversed" if permutation == (1, 0) else ""
    assert one.why == f"{told(step)} makes it the closure of e{reversed_or_not}"


def test_a_linear_closure_of_a_relation_that_depends_on_it() -> None:
    program = read("r(x, y) :- e(x, y).  r(x, z) :- e(x, y), r(y, z).  e(x, y) :- r(y, x), f(x, y).")
    assert found(program) == {"r": [CLOSURE, UNION]}


LINEAR = "r(x, y) :- e(x, y).  r(x, z) :- e(x, y), r(y, z)."


@pytest.mark.parametrize(
    ("rules", "header", "problem"),
    [
        (LINEAR + "r(x, y) :- f(x, y).", "", "r(x, y) :- f(x, y) makes it more than the closure of e"),
        (LINEAR + "r(y, x) :- e(x, y).", "", "r(y, x) :- e(x, y) makes it more than the closure of e"),
        (LINEAR + "r(x, x) :- f(x, _).", "", "r(x, x) :- f(x, _) makes it more than the closure of e"),
        (LINEAR + "r(x, z) :- f(x, y), r(y, z).", "", "r(x, z) :- f(x, y), r(y, z) makes it more"),
        (LINEAR + "r(y, x) :- r(x, y).", "", "r(y, x) :- r(x, y) makes it more than the closure of e"),
        (LINEAR + "r(1, 2).", "", "the fact r(1, 2) makes it more than the closure of e"),
        (LINEAR, ".input r", "it has an .input, which makes it more than the closure of e"),
        (LINEAR, ".limitsize r(n=5)", "it has a .limitsize"),
        ("r(x, y) :- e(y, x).  r(x, z) :- e(x, y), r(y, z).", "", "no rule makes it transitive"),
        ("r(x, y) :- e(x, y).  r(x, z) :- e(y, x), r(y, z).", "", "no rule makes it transitive"),
        ("r(x, y) :- e(x, y).  r(x, z) :- e(x, y), r(z, y).", "", "no rule makes it transitive"),
        ("r(x, y) :- e(x, y).  r(x, z) :- f(x, y), r(y, z).", "", "no rule makes it transitive"),
        ("r(x, y) :- e(x, y).  r(x, z) :- e(x, y), e(y, z).", "", "no rule makes it transitive"),
        ("r(x, y) :- e(x, y), x < y.  r(x, z) :- e(x, y), r(y, z).", "", "no rule makes it transitive"),
        ("r(x, y) :- e(x, y).  r(x, z) :- e(x, y), r(y, z), x < z.", "", "no rule makes it transitive"),
        ("r(x, y) :- e(x, y).  r(x, z) :- e(x, y), r(y, z), !f(x, z).", "", "no rule makes it transitive"),
        ("r(x, z) :- e(x, y), r(y, z).", "", "no rule makes it transitive"),
        ("r(x, y) :- r(y, x).  r(x, z) :- r(x, y), r(z, y).", "", "no rule makes it transitive"),
    ],
)
def test_what_is_no_linear_closure(rules: str, header: str, problem: str) -> None:
    program = read(rules, header)
    assert CLOSURE not in found(program).get("r", [])
    assert shape_problem(program, "r", CLOSURE).startswith(problem)


@pytest.mark.parametrize(
    "transitive",
    [
        "r(x, z) :- r(x, y), r(y, z).",
        "r(z, x) :- r(y, x), r(z, y).",
        "r(x, z) :- r(x, y), r(z, y).",
        "r(x, z) :- r(y, x), r(y, z).",
        "r(x, z) :- r(z, y), r(y, x).",
    ],
)
def test_symmetric_and_transitive_is_an_equivalence(transitive: str) -> None:
    """With symmetry, each way of composing the relation with itself makes it transitive."""
    program = read(f"{transitive} r(b, a) :- r(a, b).  r(x, x) :- r(_, x).  r(x, y) :- e(x, y).")
    assert found(program)["r"][0] is EQUIVALENCE
    one = candidate(program, "r", EQUIVALENCE)
    assert one.handled == program.rules[:3]
    assert not one.sources
    assert not one.linear
    assert one.why == (f"r(b, a) :- r(a, b) makes it symmetric and {told(program.rules[0])} transitive")


def test_rules_that_an_equivalence_implies_are_handled() -> None:
    program = read(
        """
        r(x, z) :- r(x, y), r(y, z).  r(y, x) :- r(x, y).
        r(x, y) :- e(x, y).
        r(x, z) :- r(x, y), e(z, y).
        r(x, z) :- r(x, y), r(z, y).
        r(x, x) :- r(x, _).  r(x, x) :- r(_, x).
        r(x, x) :- e(x, _).
        r(x, 1) :- r(x, _).
        r(x, y) :- r(x, _), r(_, y).
        """
    )
    assert found(program) == {"r": [EQUIVALENCE, CLOSURE]}
    assert candidate(program, "r", EQUIVALENCE).handled == (*program.rules[:2], *program.rules[3:7])
    assert candidate(program, "r", CLOSURE).handled == (program.rules[0], program.rules[4])


def test_an_eqrel_is_an_equivalence() -> None:
    program = read("same(x, y) :- e(x, y).", header=".decl same(x: number, y: number) eqrel\n.output same")
    assert found(program) == {"same": [EQUIVALENCE, CLOSURE]}
    one = candidate(program, "same", EQUIVALENCE)
    assert one.handled == program.rules[1:]
    assert len(one.handled) == 4
    assert one.why == "it is declared eqrel"


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("r(x, z) :- r(x, y), r(y, z).", "no rule makes it symmetric"),
        ("r(x, z) :- r(x, y), r(y, z).  r(x, y) :- r(y, x), x < y.", "no rule makes it symmetric"),
        ("r(x, z) :- r(x, y), r(y, z).  r(x, y) :- e(y, x).", "no rule makes it symmetric"),
        ("r(x, z) :- r(x, y), r(y, z).  r(x, y) :- r(x, y).", "no rule makes it symmetric"),
        ("r(y, x) :- r(x, y).", "no rule makes it transitive"),
        ("r(y, x) :- r(x, y).  r(x, z) :- r(x, y), e(y, z).", "no rule makes it transitive"),
        ("r(y, x) :- r(x, y).  r(x, z) :- r(x, y), r(y, z), x != z.", "no rule makes it transitive"),
    ],
)
def test_what_is_no_equivalence(rules: str, problem: str) -> None:
    program = read(rules)
    assert EQUIVALENCE not in found(program).get("r", [])
    assert shape_problem(program, "r", EQUIVALENCE) == problem


def test_copies_make_a_union() -> None:
    program = read(
        """
        u(x, y) :- e(x, y).
        u(a, b) :- f(b, a).
        u(b, a) :- e(b, a).
        u(y, x) :- e(x, y).
        u(x, y) :- r(x, y), x < y.
        r(x, y) :- u(x, y), f(x, _).
        """
    )
    assert found(program) == {"u": [UNION]}
    one = candidate(program, "u", UNION)
    assert one.handled == program.rules[:4]
    assert sources(one) == [("e", (0, 1)), ("f", (1, 0)), ("e", (1, 0))]
    assert one.sources[0] == Source("e", (0, 1), program.rules[0])
    assert not one.linear
    assert one.why == "u(x, y) :- e(x, y) and 3 more rules copy relations into it"


def test_a_union_of_any_number_of_columns() -> None:
    header = """
    .decl agent(x: symbol)
    .decl person(x: symbol)
    .decl sale(who: symbol, what: number, of: symbol)
    .decl buy(what: number, of: symbol, who: symbol)
    .output agent
    .output sale
    """
    program = read("agent(x) :- person(x).  sale(a, b, c) :- buy(b, c, a).", header)
    assert found(program) == {"agent": [UNION], "sale": [UNION]}
    assert sources(candidate(program, "sale", UNION)) == [("buy", (1, 2, 0))]
    assert candidate(program, "agent", UNION).why == "agent(x) :- person(x) copies person into it"


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("u(x, y) :- e(x, y), x < y.", "no rule copies another relation into it"),
        ("u(x, y) :- e(x, y), f(x, y).", "no rule copies another relation into it"),
        ("u(x, x) :- e(x, x).", "no rule copies another relation into it"),
        ("u(x, x) :- e(x, _).", "no rule copies another relation into it"),
        ("u(x, 1) :- e(x, 1).", "no rule copies another relation into it"),
        ("u(x, n) :- e(x, _), n = count : { e(x, _) }.", "no rule copies another relation into it"),
        ("u(x, y) :- e(x, y).  u(y, x) :- u(x, y).", "u(y, x) :- u(x, y) is part of a cycle"),
        ("u(x, y) :- e(x, y).  e(y, x) :- u(x, y).", "u(x, y) :- e(x, y) is part of a cycle"),
        (
            "u(x, y) :- f(x, y).  u(x, y) :- e(x, y).  r(x, y) :- u(x, y).  e(y, x) :- r(x, y).",
            "u(x, y) :- e(x, y) is part of a cycle of rules that copy it to itself",
        ),
    ],
)
def test_what_is_no_union(rules: str, problem: str) -> None:
    program = read(rules)
    assert "u" not in found(program)
    assert shape_problem(program, "u", UNION).startswith(problem)


def test_problems_with_columns() -> None:
    header = """
    .decl sizes(x: number, y: number, z: number)
    .decl set(x: number)
    .decl mixed(x: number, y: symbol)
    .output mixed
    """
    program = read("", header)
    assert shape_problem(program, "sizes", CLOSURE) == "sizes has 3 columns; a closure has 2"
    assert shape_problem(program, "set", EQUIVALENCE) == "set has 1 column; an equivalence has 2"
    assert shape_problem(program, "mixed", CLOSURE) == "its columns have different types (number, symbol)"
    assert shape_problem(program, "mixed", UNION) == "no rule copies another relation into it"


def test_limited_relations_have_no_shape() -> None:
    rules = "r(x, z) :- r(x, y), r(y, z).  r(y, x) :- r(x, y).  u(x, y) :- e(x, y)."
    program = read(rules, header=".limitsize r(n=9)\n.limitsize u(n=9)")
    assert found(program) == {}
    assert {shape_problem(program, "r", shape) for shape in Shape} == {"it has a .limitsize"}
