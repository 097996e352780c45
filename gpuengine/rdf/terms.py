"""RDF terms as the dictionary keeps them: one text for one term, its canonical N-Triples form.

An IRI is ``<http://example.org/a>``, a blank node ``_:b0``, a literal ``"text"``, ``"text"@en`` or
``"1"^^<http://www.w3.org/2001/XMLSchema#integer>``. Two texts are equal if and only if the terms are: a
literal of ``xsd:string`` has no datatype written, language tags are in lower case, and only what must be
escaped is (``\\"``, ``\\\\``, ``\\n``, ``\\r``, and other control characters by number).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuengine.io.triples.lines import escaped as escaped
from gpuengine.io.triples.lines import iri_text as iri_text
from gpuengine.io.triples.lines import literal_text as literal_text
from gpuengine.io.triples.lines import unescaped as unescaped

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"

TYPE = f"<{RDF}type>"


@dataclass(frozen=True)
class Iri:
    value: str


@dataclass(frozen=True)
class Blank:
    label: str


@dataclass(frozen=True)
class Literal:
    lexical: str
    datatype: str = f"{XSD}string"
    """An IRI without brackets; ``rdf:langString`` if there is a language."""
    language: str | None = None


Term = Iri | Blank | Literal


def term_text(term: Term) -> str:
    """The text of a term."""
    if isinstance(term, Iri):
        return iri_text(term.value)
    if isinstance(term, Blank):
        return f"_:{term.label}"
    return literal_text(term.lexical, term.datatype, term.language)


def is_literal(text: str) -> bool:
    return text.startswith('"')


def is_iri(text: str) -> bool:
    return text.startswith("<")
