"""The W3C's cases for SPARQL, by their manifests.

``data/w3c-sparql.zip`` has folders of https://github.com/w3c/rdf-tests (sparql/sparql10, sparql/sparql11; W3C
Test Suite Licence and 3-clause BSD) as of August 2026.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pyoxigraph

from gpuengine.rdf.terms import literal_text
from gpuengine.rdf.values import decode

ARCHIVE = Path(__file__).parent / "data" / "w3c-sparql.zip"
BASE = "http://example.org/w3c/"
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
ENTAILMENT = "http://www.w3.org/ns/entailment/"
SD = "http://www.w3.org/ns/sparql-service-description#"

Row = tuple[str | None, ...]
Quad = tuple[str, str, str, str | None]


@dataclass(frozen=True)
class Case:
    name: str
    """``sparql11/aggregates/agg01``."""
    kind: str
    query: str
    data: tuple[str, ...] = ()
    graphs: tuple[str, ...] = ()
    result: str | None = None
    regime: str | None = field(default=None)


@cache
def archive() -> dict[str, bytes]:
    with zipfile.ZipFile(ARCHIVE) as found:
        return {name: found.read(name) for name in found.namelist()}


def text(term: object) -> str:
    """A term of pyoxigraph as gpuengine writes it."""
    if isinstance(term, pyoxigraph.NamedNode):
        return f"<{term.value}>"
    if isinstance(term, pyoxigraph.BlankNode):
        return f"_:{term.value}"
    assert isinstance(term, pyoxigraph.Literal)
    return literal_text(term.value, None if term.language else term.datatype.value, term.language)


_FORMATS = {
    "ttl": pyoxigraph.RdfFormat.TURTLE,
    "rdf": pyoxigraph.RdfFormat.RDF_XML,
    "nt": pyoxigraph.RdfFormat.N_TRIPLES,
    "n3": pyoxigraph.RdfFormat.TURTLE,
}


def triples(name: str) -> list[pyoxigraph.Quad]:
    form = _FORMATS[name.rsplit(".", 1)[1]]
    return list(pyoxigraph.parse(archive()[name], format=form, base_iri=BASE + name))


def quads(name: str, graph: str | None = None) -> Iterator[Quad]:
    for quad in triples(name):
        yield text(quad.subject), text(quad.predicate), text(quad.object), graph


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case for name in archive() if name.endswith("/manifest.ttl") for case in _manifest(name))


def _manifest(name: str) -> Iterator[Case]:
    store = pyoxigraph.Store()
    store.extend(triples(name))
    folder = name.rsplit("/", 1)[0]

    def objects(subject: object, predicate: str) -> list:
        found = store.quads_for_pattern(subject, pyoxigraph.NamedNode(predicate), None)
        return [quad.object for quad in found]

    def listed(node: object) -> Iterator:
        while node != pyoxigraph.NamedNode(f"{RDF}nil"):
            yield objects(node, f"{RDF}first")[0]
            (node,) = objects(node, f"{RDF}rest")

    def path(node: pyoxigraph.NamedNode) -> str:
        return node.value.removeprefix(BASE)

    for entries in store.quads_for_pattern(None, pyoxigraph.NamedNode(f"{MF}entries"), None):
        for entry in listed(entries.object):
            kind = objects(entry, f"{RDF}type")[0].value.rsplit("#", 1)[1]
            (action,) = objects(entry, f"{MF}action")
            name = entry.value.rsplit("#", 1)[-1].rsplit("/", 1)[-1]
            if kind == "NegativeSyntaxTest11":
                yield Case(f"{folder}/{name}", kind, path(action))
                continue
            regimes = objects(action, f"{SD}entailmentRegime")
            for regime in list(regimes):
                if isinstance(regime, pyoxigraph.BlankNode):
                    regimes += listed(regime)
            named = sorted(r.value.rsplit("/", 1)[1] for r in regimes if isinstance(r, pyoxigraph.NamedNode))
            yield Case(
                f"{folder}/{name}",
                kind,
                path(objects(action, f"{QT}query")[0]),
                tuple(map(path, objects(action, f"{QT}data"))),
                tuple(map(path, objects(action, f"{QT}graphData"))),
                path(objects(entry, f"{MF}result")[0]),
                ",".join(named) or None,
            )


# Results


@dataclass(frozen=True)
class Expected:
    variables: tuple[str, ...]
    rows: tuple[Row, ...]
    truth: bool | None = None


def expected(name: str, form: str) -> Expected:
    """The answer that a file of results has."""
    kind = name.rsplit(".", 1)[1]
    if form in ("CONSTRUCT", "DESCRIBE"):
        return Expected(("subject", "predicate", "object"), tuple(quad[:3] for quad in quads(name)))
    if kind in ("ttl", "rdf"):
        return _vocabulary(name)
    formats = {
        "srx": pyoxigraph.QueryResultsFormat.XML,
        "srj": pyoxigraph.QueryResultsFormat.JSON,
        "tsv": pyoxigraph.QueryResultsFormat.TSV,
    }
    return parsed(archive()[name], formats[kind])


def parsed(content: bytes, form: pyoxigraph.QueryResultsFormat) -> Expected:
    found = pyoxigraph.parse_query_results(content, format=form)
    if isinstance(found, pyoxigraph.QueryBoolean):
        return Expected((), (), bool(found))
    names = tuple(variable.value for variable in found.variables)
    rows = tuple(tuple(None if term is None else text(term) for term in row) for row in found)
    return Expected(names, rows)


def _vocabulary(name: str) -> Expected:
    store = pyoxigraph.Store()
    store.extend(triples(name))

    def objects(subject: object, predicate: str) -> list:
        found = store.quads_for_pattern(subject, pyoxigraph.NamedNode(RS + predicate), None)
        return [quad.object for quad in found]

    truths = objects(None, "boolean")
    if truths:
        return Expected((), (), truths[0].value == "true")
    names = tuple(sorted(node.value for node in objects(None, "resultVariable")))
    rows = []
    for solution in objects(None, "solution"):
        row = dict.fromkeys(names)
        for binding in objects(solution, "binding"):
            (variable,), (value,) = objects(binding, "variable"), objects(binding, "value")
            row[variable.value] = text(value)
        rows.append(tuple(row[name] for name in names))
    return Expected(names, tuple(rows))


# Comparison


def normal(term: str | None) -> str | None:
    """Numbers by value and type: the lexical forms of computed ones are not settled by the standard."""
    if term is None or not term.startswith('"'):
        return term
    value = decode(term)
    if value.is_numeric:
        return (
            f"{value.native!r}^^{value.datatype}"
            if value.kind != 6
            else f"{value.native.normalize()}^^decimal"
        )
    return term


def same(left: list[Row], right: list[Row]) -> bool:
    """Equal bags of rows, up to the names of blank nodes."""
    left = [tuple(map(normal, row)) for row in left]
    right = [tuple(map(normal, row)) for row in right]

    def blank(term: str | None) -> bool:
        return term is not None and term.startswith("_:")

    def shape(row: Row) -> Row:
        return tuple("_:" if blank(term) else term for term in row)

    if Counter(map(shape, left)) != Counter(map(shape, right)):
        return False
    if not any(blank(term) for row in left for term in row):
        return True

    def search(rest: list[Row], mapping: dict[str, str], used: frozenset[str], free: Counter) -> bool:
        if not rest:
            return True
        row = rest[0]
        for candidate in list(free):
            if shape(candidate) != shape(row):
                continue
            more = dict(mapping)
            taken = set(used)
            for mine, theirs in zip(row, candidate, strict=True):
                if blank(mine) and mine not in more and theirs not in taken:
                    more[mine] = theirs
                    taken.add(theirs)
            if any(
                blank(mine) and more.get(mine) != theirs for mine, theirs in zip(row, candidate, strict=True)
            ):
                continue
            less = free.copy()
            less[candidate] -= 1
            if search(rest[1:], more, frozenset(taken), +less):
                return True
        return False

    return search(left, {}, frozenset(), Counter(right))
