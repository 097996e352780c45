"""Values of literals, ranges with facets, inconsistencies by name, and lists that are broken or long."""

from __future__ import annotations

import pytest

from gpuengine.errors import DataWarning
from gpuengine.rdf.datatypes import ILL_TYPED, value
from gpuengine.rdf.engine import RdfEngine
from gpuengine.rdf.terms import OWL, RDF, RDFS, TYPE, XSD
from tests.rdf.entailment import Statement, broken, compiled_closure, parsed

PREFIXES = f"""@prefix : <http://x/> . @prefix owl: <{OWL}> . @prefix rdf: <{RDF}> .
@prefix rdfs: <{RDFS}> . @prefix xsd: <{XSD}> .
"""


def statements(text: str) -> list[Statement]:
    return parsed(PREFIXES + text)


def typed(lexical: str, datatype: str) -> str:
    return f'"{lexical}"^^<{XSD}{datatype}>'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (typed("1", "byte"), typed("+1.0", "decimal")),
        (typed("1e0", "double"), typed("1.0", "double")),
        (typed("a", "token"), '"a"'),
        (f'"a@en"^^<{RDF}PlainLiteral>', '"a"@en'),
        (typed("2000-01-01T24:00:00", "dateTime"), typed("2000-01-02T00:00:00", "dateTime")),
        (typed("0a", "hexBinary"), typed("0A", "hexBinary")),
    ],
)
def test_literals_of_one_value(one: str, other: str) -> None:
    assert isinstance(value(one), tuple)
    assert value(one) == value(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (typed("1", "integer"), typed("1", "double")),
        (typed("1", "float"), typed("1", "double")),
        (typed("0", "double"), typed("-0", "double")),
        ('"a"@en', '"a"'),
        (typed("2000-01-01T00:00:00Z", "dateTime"), typed("2000-01-01T01:00:00+01:00", "dateTime")),
    ],
)
def test_literals_of_different_values(one: str, other: str) -> None:
    assert value(one) != value(other)


@pytest.mark.parametrize(
    "text",
    [
        typed("256", "unsignedByte"),
        typed(" 1", "integer"),
        typed("1.", "integer"),
        typed("2001-02-29T00:00:00", "dateTime"),
        typed("TRUE", "boolean"),
        typed("abc", "hexBinary"),
    ],
)
def test_ill_typed(text: str) -> None:
    assert value(text) is ILL_TYPED


def test_numerals_of_any_length_are_harmless() -> None:
    assert value(typed("9" * 1_000_000, "integer")) is None
    assert isinstance(value(typed("1e999999999", "double")), tuple)


def test_facets() -> None:
    given = statements("""
        :Adult owl:equivalentClass [ owl:onProperty :age ; owl:someValuesFrom
            [ a rdfs:Datatype ; owl:onDatatype xsd:integer ;
              owl:withRestrictions ( [ xsd:minInclusive 18 ] ) ] ] .
        :a :age 20 . :b :age 17 . :c :age "old" .
    """)
    kb = RdfEngine(profile="owl2rl")
    kb.load(given)
    columns = [column.to_pylist() for column in kb.triples().to_arrow().columns]
    triples = set(zip(*columns, strict=True))
    assert {s for s, p, o in triples if (p, o) == (TYPE, "<http://x/Adult>")} == {"<http://x/a>"}
    assert {
        s for s, p, o in compiled_closure(given, "owl2rl")[0] if (p, o) == (TYPE, "<http://x/Adult>")
    } == {"<http://x/a>"}


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("cax-dw", ":A owl:disjointWith :B . :x a :A, :B ."),
        ("cax-adc", "[] a owl:AllDisjointClasses ; owl:members (:A :B :C) . :x a :A, :C ."),
        ("cls-com", ":A owl:complementOf :B . :x a :A, :B ."),
        ("cls-nothing2", ":x a owl:Nothing ."),
        (
            "cls-maxc1",
            ':A owl:maxCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p . :x a :A ; :p :y .',
        ),
        (
            "cls-maxqc1",
            ':A owl:maxQualifiedCardinality "0"^^xsd:nonNegativeInteger ; owl:onProperty :p ;'
            " owl:onClass :B . :x a :A ; :p :y . :y a :B .",
        ),
        ("prp-irp", ":p a owl:IrreflexiveProperty . :x :p :x ."),
        ("prp-asyp", ":p a owl:AsymmetricProperty . :x :p :y . :y :p :x ."),
        ("prp-pdw", ":p owl:propertyDisjointWith :q . :x :p :y ; :q :y ."),
        ("prp-adp", "[] a owl:AllDisjointProperties ; owl:members (:p :q) . :x :p :y ; :q :y ."),
        (
            "prp-npa1",
            "[] owl:sourceIndividual :x ; owl:assertionProperty :p ; owl:targetIndividual :y . :x :p :y .",
        ),
        (
            "prp-npa2",
            '[] owl:sourceIndividual :x ; owl:assertionProperty :p ; owl:targetValue "v" . :x :p "v" .',
        ),
        ("eq-diff1", ":x owl:sameAs :y ; owl:differentFrom :y ."),
        ("eq-diff2", "[] a owl:AllDifferent ; owl:members (:x :y) . :y owl:sameAs :x ."),
        ("eq-diff3", "[] a owl:AllDifferent ; owl:distinctMembers (:x :y) . :y owl:sameAs :x ."),
        ("dt-not-type", ':p rdfs:range xsd:integer . :x :p "one" .'),
        ("dt-diff", ':p a owl:FunctionalProperty . :x :p "a", "b" .'),
    ],
)
def test_inconsistency_is_told_by_its_rule(rule: str, text: str) -> None:
    given = statements(text)
    kb = RdfEngine(profile="owl2rl")
    kb.load(given)
    assert rule in {case.rule for case in kb.inconsistencies()}
    for meta in (False, True):
        triples, compiled = compiled_closure(given, "owl2rl", meta=meta)
        cases = broken(triples, compiled)
        assert rule in {case.rule for case in cases}
        assert all(set(case.triples) <= triples for case in cases)


def test_broken_list_is_left_out() -> None:
    with pytest.warns(DataWarning, match="has 0 rdf:rest"):
        triples, _ = compiled_closure(
            statements(":A owl:intersectionOf _:l . _:l rdf:first :B . :x a :A, :B ."), "owl2rl"
        )
    assert ("<http://x/x>", TYPE, "<http://x/A>") in triples


def test_long_lists() -> None:
    members = [f":C{i}" for i in range(40)]
    given = statements(
        f":A owl:intersectionOf ({' '.join(members)}) ."
        f":x a {', '.join(members)} . :y a {', '.join(members[1:])} ."
        f":p owl:propertyChainAxiom ({' '.join(':q' for _ in range(30))}) ."
        + " ".join(f":n{i} :q :n{i + 1} ." for i in range(31))
    )
    kb = RdfEngine(profile="owl2rl")
    kb.load(given)
    columns = [column.to_pylist() for column in kb.triples().to_arrow().columns]
    triples = set(zip(*columns, strict=True))
    assert {s for s, p, o in triples if (p, o) == (TYPE, "<http://x/A>")} == {"<http://x/x>"}
    assert {(s, o) for s, p, o in triples if p == "<http://x/p>"} == {
        ("<http://x/n0>", "<http://x/n30>"),
        ("<http://x/n1>", "<http://x/n31>"),
    }
    assert not any("urn:gpuengine" in term for triple in triples for term in triple)
