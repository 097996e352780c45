"""Reading DatalogMTL: MeTeoR's syntax, what is beyond it, and every error with its place."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from gpuengine.errors import ProgramErrors
from gpuengine.temporal import codes
from gpuengine.temporal.engine import TemporalEngine
from gpuengine.temporal.language import parse_program, parse_query
from gpuengine.temporal.syntax import (
    Binary,
    Bottom,
    Comparison,
    Constant,
    GivenFact,
    Interval,
    Negated,
    Operator,
    Relational,
    Top,
    Unary,
    Variable,
)

ROOT = Path(__file__).parents[2]
X, Y = Variable("X"), Variable("Y")
P, Q = Relational("P", (X,)), Relational("Q", (X,))


def closed(low: int | str, high: int | str) -> Interval:
    return Interval(Fraction(low), Fraction(high))


def body(text: str) -> object:
    (rule,) = parse_program(f"H(X) :- Q(X), {text}").rules
    return rule.body[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Diamondminus[0,2]P(X)", Unary(Operator.DIAMOND_MINUS, closed(0, 2), P)),
        (
            "Diamondplus ( 0 , 2 ] P(X)",
            Unary(Operator.DIAMOND_PLUS, Interval(Fraction(0), Fraction(2), True), P),
        ),
        ("<->[1]P(X)", Unary(Operator.DIAMOND_MINUS, closed(1, 1), P)),
        ("<+>[1,2]P(X)", Unary(Operator.DIAMOND_PLUS, closed(1, 2), P)),
        ("[-][1,2]P(X)", Unary(Operator.BOX_MINUS, closed(1, 2), P)),
        ("[+][1,2]P(X)", Unary(Operator.BOX_PLUS, closed(1, 2), P)),
        ("Boxminus[0.5,1.5]P(X)", Unary(Operator.BOX_MINUS, closed("1/2", "3/2"), P)),
        ("Boxminus[1/3,inf)P(X)", Unary(Operator.BOX_MINUS, Interval(Fraction(1, 3), None, False, True), P)),
        ("Boxminus[0s,2h30m]P(X)", Unary(Operator.BOX_MINUS, closed(0, 9000), P)),
        ("Boxminus[1.5ms,1d]P(X)", Unary(Operator.BOX_MINUS, closed("3/2000", 86400), P)),
        ("SOMETIME[-2,-1]P(X)", Unary(Operator.DIAMOND_MINUS, closed(1, 2), P)),
        ("SOMETIME[1,2]P(X)", Unary(Operator.DIAMOND_PLUS, closed(1, 2), P)),
        ("ALWAYS(-2,0]P(X)", Unary(Operator.BOX_MINUS, Interval(Fraction(0), Fraction(2), False, True), P)),
        (
            "ALWAYS[-1,2]P(X)",
            Unary(Operator.BOX_PLUS, closed(0, 3), Unary(Operator.BOX_MINUS, closed(1, 1), P)),
        ),
        ("P(X)Since[0,2]Q(X)", Binary(Operator.SINCE, closed(0, 2), P, Q)),
        (
            "Boxminus[0,1]P(X) Until[0,2] (P(X) Since[0,1] Q(X))",
            Binary(
                Operator.UNTIL,
                closed(0, 2),
                Unary(Operator.BOX_MINUS, closed(0, 1), P),
                Binary(Operator.SINCE, closed(0, 1), P, Q),
            ),
        ),
        ("Top", Top()),
        ("Bottom", Bottom()),
        ("not P(X)", Negated(P)),
        ("X != c", Comparison("!=", X, Constant("c"))),
        ("X <= 2.5", Comparison("<=", X, Constant("2.5"))),
        ('P("A b")', Relational("P", (Constant("A b"),))),
        ("P('c,d')", Relational("P", (Constant("c,d"),))),
        ("P(-1)", Relational("P", (Constant("-1"),))),
        ("N", Relational("N", ())),
        ("N()", Relational("N", ())),
    ],
)
def test_literals(text: str, expected: object) -> None:
    assert body(text) == expected
    if not isinstance(expected, Comparison | Negated | Top | Bottom):
        assert body(str(expected)) == expected


def test_layout() -> None:
    text = """\
% a comment
P(X):-Q(X).  // another
/* one over
   lines */ P(X) :-
    Q(X),
    R(X,_)
R(X,Y) :- S(X,Y)
    , P(X) . P(X) :- T(X). Q(a)@[1,2.5)
"""
    program = parse_program(text)
    assert [str(rule) for rule in program.rules] == [
        "P(X) :- Q(X)",
        "P(X) :- Q(X), R(X,_)",
        "R(X,Y) :- S(X,Y), P(X)",
        "P(X) :- T(X)",
    ]
    (fact,) = program.facts
    assert fact == GivenFact(
        Relational("Q", (Constant("a"),)), Interval(Fraction(1), Fraction(5, 2), False, True)
    )


def test_everything_in_a_fact_is_a_constant() -> None:
    asked = parse_query("Student(ID3,x)@[1,2]", {})
    assert isinstance(asked, GivenFact)
    assert asked.atom.terms == (Constant("ID3"), Constant("x"))


@pytest.mark.parametrize(
    ("text", "code", "place", "says"),
    [
        ("P(X) :- Q(Y)", codes.UNSAFE, "1:1", "X of the head is not in the body"),
        ("P(X) :- R(X) Since[0,1] Q(Y)", codes.ONLY_LEFT, "1:1", "only in the left operand"),
        (
            "P(Y) :- Q(Y), not (R(X) Since[0,1] Q(Y))",
            codes.UNBOUND,
            "1:15",
            "X of this negated atom is bound nowhere",
        ),
        ("P(Y) :- Q(Y), X < 3", codes.UNBOUND, "1:15", "X of this comparison"),
        ("Diamondminus[0,1] P(X) :- Q(X)", codes.HEAD_OPERATOR, "1:1", "a head can't have Diamondminus"),
        ("Boxminus[0,1] (P(X) Since[0,1] Q(X)) :- Q(X)", codes.HEAD_OPERATOR, "1:16", "can't have Since"),
        ("P(X) :- Boxminus[-1,2] Q(X)", codes.NEGATIVE_RANGE, "1:17", "can't be negative"),
        ("P(X) :- Boxminus(-inf,2] Q(X)", codes.NEGATIVE_RANGE, "1:17", "can't be negative"),
        ("P(X) :- Boxminus[2,1] Q(X)", codes.EMPTY_RANGE, "1:17", "holds no time"),
        ("P(X) :- Boxminus(1,1] Q(X)", codes.EMPTY_RANGE, "1:17", "holds no time"),
        ("P(X) :- Boxminus[inf,inf] Q(X)", codes.NUMBER, "1:17", "begins with -inf or a number"),
        ("P(X) :- Boxminus[1/0,2] Q(X)", codes.NUMBER, "1:18", "1/0 is no number"),
        ("P(X) :- Boxminus[a,2] Q(X)", codes.NUMBER, "1:18", "a number expected"),
        ("P(X) :- Boxminus Q(X)", codes.SYNTAX, "1:18", "an interval expected"),
        ("P(X) :- Q(X), Q(X,X)", codes.ARITY, "1:15", "Q has 2 arguments here, but 1 argument elsewhere"),
        ("P(X) :- Q(X) R(X)", codes.SYNTAX, "1:14", "a comma, expected"),
        ("P(X) :- A(X) Since[0,1] B(X) Since[0,1] C(X)", codes.SYNTAX, "1:30", "found 'Since'"),
        ("P(X)", codes.SYNTAX, "1:5", ":- expected"),
        ("P(X) :- Q(X), #", codes.CHARACTER, "1:15", "unexpected character '#'"),
        ('P(X) :- Q(X, "a)', codes.UNTERMINATED, "1:14", "never ends"),
        ("P(X) :- Q(X) /* no end", codes.UNTERMINATED, "1:14", "never ends"),
        ("Boxminus[0,1] P(a)@[1,2]", codes.SYNTAX, "1:19", "a fact is a relational atom"),
        ("P(X) :- Q(X), not P(X)", codes.UNSTRATIFIABLE, "1:15", "P is defined through its own negation"),
    ],
)
def test_errors(text: str, code: str, place: str, says: str) -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_program(text)
    found = caught.value.diagnostics[0]
    assert (found.code, f"{found.span.line}:{found.span.column}") == (code, place)
    assert says in found.message
    assert "^" in found.render()


def test_all_errors_at_once() -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_program("P(X) :- Q(Y)\nQ(X) :- R(X) R(X)\nP(X,Y) :- Q(X), Q(Y)\nS(X) :- Boxminus(1,1] Q(X)\n")
    assert [d.span.line for d in caught.value.diagnostics] == [1, 2, 3, 4]


def test_the_cycle_of_a_negation() -> None:
    with pytest.raises(ProgramErrors, match="B <- A <- C <- B"):
        parse_program("A(X) :- C(X)\nB(X) :- Boxminus[0,1] A(X), D(X)\nC(X) :- D(X), not B(X)\nD(a)@[0,1]")


def test_codes_are_documented() -> None:
    page = (ROOT / "docs" / "temporal.md").read_text()
    for code, meaning in codes.DESCRIPTIONS.items():
        assert f"| {code} | {meaning} |" in page


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("(" * 5000 + "Q(X)" + ")" * 5000, codes.TOO_DEEP),
        ("<->[0,1] " * 5000 + "Q(X)", codes.TOO_DEEP),
        ("(" * 200 + "Q(X)" + " Since[1,2] Q(X))" * 200, codes.TOO_DEEP),
        (f"<->[{'9' * 5000},inf) Q(X)", codes.NUMBER),
        (f"<->[0,1/{'9' * 5000}] Q(X)", codes.NUMBER),
        ("Q(X), " + ", ".join(["R(X) Since[0,1] Q(X)"] * 24), codes.ALTERNATIVES),
    ],
)
def test_programs_that_nobody_could_evaluate(body: str, code: str) -> None:
    """What is too deep, too long or too much is an error like others, in rules and in queries."""
    with pytest.raises(ProgramErrors, match=code) as caught:
        TemporalEngine(f"P(X) :- Q(X)\nP(X) :- {body}\n")
    assert len(caught.value.diagnostics) == 1
    assert len(caught.value.diagnostics[0].message) < 100
    kb = TemporalEngine("P(X) :- Q(X)\nP(X) :- R(X)\nQ(a)@1\n").materialise()
    with pytest.raises(ProgramErrors, match=code):
        kb.query(body)


def test_what_is_deep_and_much_but_can_be_evaluated() -> None:
    nested = "<->[0,1] " * 90 + "Q(X)"
    many = ", ".join(["R(X) Since[0,1] Q(X)"] * 10)
    kb = TemporalEngine(f"P(X) :- {nested}\nS(X) :- {many}\nQ(a)@1\n").materialise()
    assert kb["P"].lines() == ["P(a)@[1,91]"] and kb["S"].lines() == ["S(a)@[1,1]"]
