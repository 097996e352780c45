"""Answers as Arrow and in the formats of the W3C, read back by pyoxigraph."""

from __future__ import annotations

import csv
import datetime
import io
from decimal import Decimal
from random import Random

import pyarrow.parquet as parquet
import pyoxigraph
import pytest

from gpuengine.errors import DataError
from gpuengine.rdf.sparql import Answer, answer
from gpuengine.rdf.terms import XSD, literal_text
from tests.rdf import w3c
from tests.rdf.memory_graph import MemoryGraph
from tests.rdf.random_queries import RandomQuery, random_quads

AWKWARD = [
    literal_text('a "quoted", line\r\nwith\ttab \\ & <tag> ü 𝄞'),
    literal_text(""),
    literal_text("x", language="de-AT"),
    literal_text("1", "http://e/own"),
    "<http://e/a?b=c&d>",
    "_:b0",
]


def asked(query: str, objects: list[str]) -> Answer:
    rows = [(f"<http://e/{place}>", "<http://e/p>", term, None) for place, term in enumerate(objects)]
    return answer(query, MemoryGraph(rows))


FORMATS = {
    "json": pyoxigraph.QueryResultsFormat.JSON,
    "xml": pyoxigraph.QueryResultsFormat.XML,
    "tsv": pyoxigraph.QueryResultsFormat.TSV,
}


@pytest.mark.parametrize("form", FORMATS)
def test_rows_come_back(form: str) -> None:
    found = asked("SELECT ?x ?no { ?s <http://e/p> ?x }", AWKWARD)
    back = w3c.parsed(found.write(form), FORMATS[form])
    assert back.variables == ("x", "no")
    assert w3c.same(list(back.rows), found.rows())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(20))
def test_random_rows_come_back(seed: int, form: str) -> None:
    random = Random(seed)
    graph = MemoryGraph(random_quads(random))
    found = answer(RandomQuery(random).select(2), graph)
    back = w3c.parsed(found.write(form), FORMATS[form])
    assert (back.variables, len(back.rows)) == (found.variables, len(found))
    assert w3c.same(list(back.rows), found.rows())


@pytest.mark.parametrize("form", ["json", "xml"])
@pytest.mark.parametrize(("query", "truth"), [("ASK { ?s ?p 1 }", True), ("ASK { ?s ?p 2 }", False)])
def test_truth_comes_back(form: str, query: str, truth: bool) -> None:
    found = asked(query, [f'"1"^^<{XSD}integer>'])
    assert bool(found) == truth
    assert w3c.parsed(found.write(form), FORMATS[form]).truth == truth
    assert found.write("csv").strip() == (b"true" if truth else b"false")
    with pytest.raises(DataError, match="ASK has no format 'ttl'"):
        found.write("ttl")
    assert found.to_arrow().to_pylist() == [{"answer": truth}]


def test_csv_has_plain_values() -> None:
    found = asked("SELECT ?x ?s { ?s <http://e/p> ?x } ORDER BY ?s", AWKWARD[:2] + AWKWARD[4:])
    rows = list(csv.reader(io.StringIO(found.write("csv").decode(), newline="")))
    assert rows[0] == ["x", "s"]
    assert [row[0] for row in rows[1:]] == [
        'a "quoted", line\r\nwith\ttab \\ & <tag> ü 𝄞', "", "http://e/a?b=c&d", "_:b0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "read_as"), [("nt", pyoxigraph.RdfFormat.N_TRIPLES), ("ttl", pyoxigraph.RdfFormat.TURTLE)]
)
def test_triples_come_back(form: str, read_as: pyoxigraph.RdfFormat) -> None:
    found = asked("CONSTRUCT { ?s <http://e/q> ?x, [] } WHERE { ?s <http://e/p> ?x }", AWKWARD)
    back = pyoxigraph.parse(found.write(form), format=read_as)
    rows = [(w3c.text(quad.subject), w3c.text(quad.predicate), w3c.text(quad.object)) for quad in back]
    assert w3c.same(rows, found.rows())
    assert len(rows) == 2 * len(AWKWARD)
    with pytest.raises(DataError, match="CONSTRUCT has no format 'json': choose one of"):
        found.write("json")
    with pytest.raises(DataError, match="there is no format 'yaml'"):
        found.write("yaml")


def typed(*terms: str) -> list[object]:
    found = asked("SELECT ?x { ?s <http://e/p> ?x } ORDER BY ?s", list(terms))
    return found.to_arrow()["x"].to_pylist()


def test_columns_of_one_kind_have_its_type() -> None:
    def xsd(name: str, *texts: str) -> list[str]:
        return [literal_text(text, f"{XSD}{name}") for text in texts]

    assert typed(*xsd("integer", "1", "-2")) == [1, -2]
    assert typed(*xsd("decimal", "1.50", "2")) == [Decimal("1.50"), 2]
    assert typed(*xsd("double", "1e0"), *xsd("integer", "2")) == [1.0, 2.0]
    assert typed(*xsd("boolean", "true", "0")) == [True, False]
    assert typed(*xsd("date", "2020-02-03")) == [datetime.date(2020, 2, 3)]
    assert typed(*xsd("dateTime", "2020-02-03T04:05:06")) == [datetime.datetime(2020, 2, 3, 4, 5, 6)]
    zoned = typed(*xsd("dateTime", "2020-02-03T04:05:06+01:00"))
    assert zoned == [datetime.datetime(2020, 2, 3, 3, 5, 6, tzinfo=datetime.UTC)]
    assert typed("<http://e/a>", "_:b") == ["http://e/a", "_:b"]
    assert typed('"a"', '"b"@en') == ["a", "b"]
    # What no type has stays what it is.
    assert typed("<http://e/a>", '"a"') == ["<http://e/a>", '"a"']
    assert typed(*xsd("integer", str(2**70))) == xsd("integer", str(2**70))
    assert typed(*xsd("dateTime", "12020-02-03T04:05:06"))[0] is not None


def test_frames_and_parquet() -> None:
    found = asked("SELECT ?x ?no { ?s <http://e/p> ?x }", [f'"{n}"^^<{XSD}integer>' for n in (3, 1)])
    assert sorted(found.to_polars()["x"].to_list()) == [1, 3]
    assert sorted(found.to_pandas()["x"]) == [1, 3]
    assert found.to_arrow(terms=True)["x"].to_pylist()[0].endswith("integer>")
    table = parquet.read_table(io.BytesIO(found.write("parquet")))
    assert table.column_names == ["x", "no"]
    assert table["no"].null_count == 2


def test_order() -> None:
    terms = [
        '"b"', '"a"', f'"10"^^<{XSD}integer>', f'"9.5"^^<{XSD}decimal>', "<http://e/a>", "_:b",
        f'"false"^^<{XSD}boolean>', '"?"^^<http://e/unknown>',
    ]  # fmt: skip
    rows = asked("SELECT ?x { ?s <http://e/p> ?x } ORDER BY ?x", terms).rows()
    order = [term for (term,) in rows]
    assert order[:2] == ["_:b", "<http://e/a>"]
    assert order.index('"a"') < order.index('"b"')
    assert order.index(terms[3]) < order.index(terms[2])
    back = asked("SELECT ?x { ?s <http://e/p> ?x } ORDER BY DESC(?x) LIMIT 3 OFFSET 1", terms).rows()
    assert back == rows[::-1][1:4]
    unbound = asked("SELECT ?x { { ?s <http://e/p> ?x } UNION {} } ORDER BY ?x", terms).rows()
    assert unbound[0] == (None,)
