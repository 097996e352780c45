"""RDFox's syntax: what is read, and what is said of what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuengine.errors import ProgramErrors
from gpuengine.rdf.dlog import parse_rules, rule_text
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.rules import (
    Aggregate,
    Aggregation,
    Bind,
    Call,
    Filter,
    Negation,
    Rule,
    Triple,
    Variable,
    canonical,
)

P = "PREFIX : <http://e/>\n"
X, Y, Z, N = map(Variable, "xyzn")
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
XSD = "http://www.w3.org/2001/XMLSchema#"


def e(name: str) -> str:
    return f"<http://e/{name}>"


RULES = {
    ":C[?x] :- :p[?x, ?y] .": Rule((Triple(X, TYPE, e("C")),), (Triple(X, e("p"), Y),)),
    "[?x, a, :C] <- [?x, :p, 1.5] .": Rule(
        (Triple(X, TYPE, e("C")),), (Triple(X, e("p"), f'"1.5"^^<{XSD}decimal>'),)
    ),
    ":q[?x, \"a\\tb\"@EN] :g :- [?x, ?y, '''c'''] ?z .": Rule(
        (Triple(X, e("q"), '"a\\u0009b"@en', e("g")),), (Triple(X, Y, '"c"', Z),)
    ),
    ":C[:a] .": Rule((Triple(e("a"), TYPE, e("C")),), ()),
    ":C[?x] :- :p[?x, ?y], NOT :q[?y, ?x], NOT EXISTS ?z IN (:p[?y, ?z], :C[?z]) .": Rule(
        (Triple(X, TYPE, e("C")),),
        (
            Triple(X, e("p"), Y),
            Negation((Triple(Y, e("q"), X),)),
            Negation((Triple(Y, e("p"), Z), Triple(Z, TYPE, e("C"))), (Z,)),
        ),
    ),
    ":p[?x, ?z] :- :p[?x, ?y], BIND(-?y * (2 + ?y) AS ?z),\n"
    "  FILTER(?z > 1 && !(?y IN (1, 2)) || STRLEN(?x) = 3) .": Rule(
        (Triple(X, e("p"), Z),),
        (
            Triple(X, e("p"), Y),
            Bind(
                Call("*", (Call("-", (Y,)), Call("+", (f'"2"^^<{XSD}integer>', Y)))),
                Z,
            ),
            Filter(
                Call(
                    "||",
                    (
                        Call(
                            "&&",
                            (
                                Call(">", (Z, f'"1"^^<{XSD}integer>')),
                                Call(
                                    "!",
                                    (Call("IN", (Y, f'"1"^^<{XSD}integer>', f'"2"^^<{XSD}integer>')),),
                                ),
                            ),
                        ),
                        Call("=", (Call("STRLEN", (X,)), f'"3"^^<{XSD}integer>')),
                    ),
                )
            ),
        ),
    ),
    ":n[?x, ?n] :- AGGREGATE(:p[?x, ?y] ON ?x BIND(COUNT(DISTINCT ?y) AS ?n)) .": Rule(
        (Triple(X, e("n"), N),),
        (Aggregate((Triple(X, e("p"), Y),), (X,), (Aggregation("COUNT", Y, N, True),)),),
    ),
    ":n[?x, ?y] :- :p[?x, ?z], BIND(xsd:integer(?z) AS ?y) .": Rule(
        (Triple(X, e("n"), Y),), (Triple(X, e("p"), Z), Bind(Call(f"<{XSD}integer>", (Z,)), Y))
    ),
}


@pytest.mark.parametrize("text", RULES)
def test_rules(text: str) -> None:
    assert parse_rules(P + text) == [RULES[text]]
    assert [canonical(rule) for rule in parse_rules(rule_text(RULES[text]) + "\n")] == [
        canonical(RULES[text])
    ]


def test_prefixes_comments_and_bases() -> None:
    text = """
        # a comment
        @prefix ex: <http://e/> .
        BASE <http://e/x/>
        ex:C[?x] :- ex:p[?x, <y>] .   # another
    """
    declared: dict[str, str] = {}
    assert parse_rules(text, declared)[0].body == (Triple(X, e("p"), "<http://e/x/y>"),)
    assert declared == {"ex": "http://e/"}
    assert parse_rules(text)[0].name == "<rules>:5"


WRONG = {
    ":C[?x] :- :p[?x, ?y]": "expected '.' at the end of the rule",
    ":C[?z] :- :p[?x, ?y] .": "?z of the head is not bound",
    ":C[?x] :- :p[?x, ?y], FILTER(?z > 1) .": "?z of FILTER is not bound",
    ":C[?x] :- :p[?x, ?y], BIND(?w + 1 AS ?z) .": "?w of BIND is not bound",
    ":C[?x] :- NOT :p[?x, ?y] .": "?x of the head is not bound",
    "x:C[?x] :- :p[?x, ?y] .": "no prefix 'x:'",
    ":C[?x, ?y, ?z] :- :p[?x, ?y] .": "a class takes one argument and a property two",
    "[?x, :p] :- :p[?x, ?y] .": "a triple has a subject, a predicate and an object",
    ':C[?x] :- :p[?x, "a\\qb"] .': "no escape \\q",
    ':C[?x] :- :p[?x, "ab] .': "a string that never ends",
    ":C[?x] :- :p[?x, ?y], BIND(?y ?z) .": "expected AS",
    ":C[?x] :- AGGREGATE(:p[?x, ?y] ON ?x BIND(MEDIAN(?y) AS ?n)) .": "MEDIAN is no aggregate",
    ":C[?x] :- :p[?x, ?y], FILTER(" + "(" * 200 + "1" + ")" * 200 + ") .": "nested too deeply",
    ":C[?x] :- :p[?x, ?y], § .": "the character '§'",
}


@pytest.mark.parametrize("text", WRONG)
def test_errors_show_place_and_reason(text: str) -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_rules(P + text + ("\n:D[?x] :- :p[?x] ." if text.endswith(".") else ""))
    shown = caught.value.render()
    assert WRONG[text] in shown
    assert "<rules>:2:" in shown and "^" in shown


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_rules(P + ":C[?y] :- :p[?x] .\n:D[?x] :- :p[?x] .\nx:C[?x] :- :p[?x] .\n")
    assert len(caught.value.diagnostics) == 2


def test_a_cycle_through_negation_names_the_rule(tmp_path: Path) -> None:
    (tmp_path / "bad.dlog").write_text(
        "PREFIX : <http://example.org/>\n:B[?x] :- :p[?x, ?y] .\n:A[?x] :- :p[?x, ?y], NOT :A[?y] .\n"
    )
    with pytest.raises(ProgramErrors, match=r"its own negation(.|\n)*it came of the rule at .*bad\.dlog:3"):
        RdfEngine(tmp_path / "bad.dlog").materialise()
