"""Errors of queries: what is wrong, where, and what to do."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.errors import ProgramErrors
from gpuengine.rdf.sparql import answer
from gpuengine.rdf.sparql.parser import parse_query, parse_update
from gpuengine.rdf.sparql.reader import DEEPEST
from tests.rdf.memory_graph import MemoryGraph


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "1:1", "expected SELECT, ASK, CONSTRUCT or DESCRIBE, found the end of the text"),
        ("SELEC ?x { }", "1:1", "did you mean the word 'SELECT'"),
        ("SELECT ?x\n{ ?x a }", "2:8", "expected a term"),
        ("SELECT ?x { ?x a <http://e/c> ", "1:31", "expected '.', ';', ',' or '}', found the end"),
        ("SELECT ?x { ?x ex:p 1 }", "1:16", "the prefix 'ex:' is not declared"),
        ("SELECT ?x { ?x rdfss:label 1 }", "1:16", "did you mean the prefix 'rdfs'"),
        ("SELECT ?x { ?x <p> 1 }", "1:16", "is relative"),
        ("SELECT ?x { ?x a 'abc }", "1:18", "a string that does not end"),
        ("SELECT ?x { ?x a '\\q' }", "1:18", "a wrong escape"),
        ("SELECT ?x { ?x a `c` }", "1:18", "unexpected character '`'"),
        ("SELECT ?x { FILTER(STRLN(?x)) }", "1:20", "did you mean the function 'STRLEN'"),
        ("SELECT ?x { FILTER(STRLEN(?x, 1)) }", "1:20", "STRLEN takes 1 argument, not 2"),
        ("SELECT ?x { FILTER(<http://e/f>(?x)) }", "1:20", "<http://e/f> is not known"),
        ("SELECT ?x { FILTER(?x > ) }", "1:25", "expected a term"),
        ("SELECT ?x { FILTER(COUNT(?x) > 1) }", "1:20", "COUNT can't stand here"),
        ("SELECT ?x { ?x ?y ?z } GROUP BY ?y", "1:8", "?x is neither grouped nor aggregated"),
        ("SELECT (1 AS ?x) { ?x ?y ?z }", "1:14", "?x has a value already"),
        ("SELECT * { ?x ?y ?z BIND(1 AS ?x) }", "1:31", "?x has a value already"),
        ("SELECT * { ?x ?y ?z } GROUP BY ?x", "1:8", "SELECT * with GROUP BY"),
        ("SELECT * { VALUES (?x ?y) { (1) } }", "1:29", "a row of 1 values for 2 variables"),
        ("SELECT * { { _:a ?p ?o } { _:a ?q ?o } }", "1:28", "stands in two groups"),
        ("SELECT * { SERVICE <http://e/s> { } }", "1:12", "SERVICE is not supported"),
        ("SELECT * { << ?a ?b ?c >> ?p ?o }", "1:12", "expected a triple"),
        ("SELECT * { ?s ?p ?o } LIMIT x", "1:29", "expected a number"),
        ("SELECT * { ?s ?p ?o } } ", "1:23", "expected the end of the query"),
        ("SELECT * { ?s ?p '\\uD800' }", "1:18", "no character"),
        ("INSERT DATA { <http://e/a> a <http://e/b> }", "1:1", "this is an update"),
    ],
)
def test_errors_name_place_and_cause(text: str, place: str, message: str) -> None:
    with pytest.raises(ProgramErrors) as caught:
        parse_query(text)
    assert f"query:{place}\n" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("begin", "middle", "end"),
    [
        ("{", "", "}"),
        ("FILTER(" + "(", "1", ")" + ")"),
        ("OPTIONAL {", "", "}"),
        ("FILTER(!", "1", ")"),
        ("?x <http://e/p> [ <http://e/p> ", "1", "]"),
        ("FILTER EXISTS {", "", "}"),
        ("{ SELECT * {", "", "} }"),
        ("?x (", "<http://e/p>", ")+ ?y"),
    ],
)
def test_deep_nesting_is_refused(begin: str, middle: str, end: str) -> None:
    for depth in (200, 20_000):
        before, after = begin * depth, end * depth
        if begin.startswith("FILTER((") or begin.startswith("FILTER(!"):
            before, after = "FILTER(" + begin[7:] * depth, end[1:] * depth + ")"
        elif begin.startswith("?x (") or begin.startswith("?x <"):
            before = begin + begin[begin.index(begin.split()[-1] if "[" not in begin else "[") :] * depth
        with pytest.raises(ProgramErrors):
            parse_query(f"SELECT * {{ {before}{middle}{after} }}")


def test_what_is_not_too_deep_is_answered() -> None:
    graph = MemoryGraph([("<http://e/a>", "<http://e/p>", "<http://e/b>", None)])
    groups = DEEPEST - 10
    assert len(answer(f"SELECT * {'{' * groups} ?s ?p ?o {'}' * groups}", graph)) == 1
    brackets = f"{'(' * groups}1{')' * groups}"
    assert len(answer(f"SELECT * {{ ?s ?p ?o FILTER({brackets}) }}", graph)) == 1
    nested = "1"
    for _ in range(groups):
        nested = f"IF({nested} = 1, 1, 2)"
    assert len(answer(f"SELECT * {{ ?s ?p ?o FILTER({nested} = 1) }}", graph)) == 1


def test_long_queries_are_answered() -> None:
    graph = MemoryGraph([("<http://e/a>", "<http://e/p>", "<http://e/b>", None)])
    many = 3000
    alternatives = " || ".join(f"?s = <http://e/{n}>" for n in range(many))
    assert len(answer(f"SELECT * {{ ?s ?p ?o FILTER({alternatives} || ?s = <http://e/a>) }}", graph)) == 1
    binds = " ".join(f"BIND({n} AS ?v{n})" for n in range(many))
    assert len(answer(f"SELECT ?v7 {{ ?s ?p ?o {binds} }}", graph)) == 1
    unions = " UNION ".join("{ ?s ?p ?o }" for _ in range(many))
    assert len(answer(f"SELECT * {{ {unions} }}", graph)) == many
    values = " ".join(f"<http://e/{n}>" for n in range(many))
    assert len(answer(f"SELECT * {{ VALUES ?s {{ {values} <http://e/a> }} ?s ?p ?o }}", graph)) == 1


VOCABULARY = (
    "SELECT * WHERE { } ( ) ?x ?y <http://e/p> rdf:type a . ; , 1 'a' FILTER OPTIONAL UNION BIND AS = + ^ | /"
    " ! GROUP BY COUNT ORDER LIMIT VALUES GRAPH MINUS EXISTS NOT IN [ ] _:b @en ^^ INSERT DATA DELETE"
)
WORDS = st.sampled_from(VOCABULARY.split())


@settings(max_examples=500, deadline=None)
@given(st.lists(WORDS, max_size=25))
def test_any_words_are_a_query_or_an_error(words: list[str]) -> None:
    for text in (" ".join(words), "SELECT * { " + " ".join(words) + " }"):
        for parse in (parse_query, parse_update):
            try:
                parse(text)
            except ProgramErrors as error:
                assert "-->" in str(error)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_query_or_an_error(text: str) -> None:
    with contextlib.suppress(ProgramErrors):
        parse_query("SELECT * { " + text)
