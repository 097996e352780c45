"""One line of N-Triples or N-Quads at a time: for what is not in its final form, and for messages.

Also the texts of terms: each has one, see `gpuengine.rdf.terms`.
"""

from __future__ import annotations

import re

XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_NAMED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f]')
_NAMES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_BAD_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_SPACE = re.compile(r"[ \t]*")
_IRI = re.compile(r"<((?:[^\x00-\x20<>\"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*)>")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BLANK = re.compile(r"_:([\w](?:[\w.\-·]*[\w\-·])?)")
_STRING = re.compile(r'"((?:[^"\\\n\r]|\\.)*)"')
_LANGUAGE = re.compile(r"@([A-Za-z]+(?:-[A-Za-z0-9]+)*)")
_END = re.compile(r"[ \t]*(?:#.*)?$")


class BadLine(ValueError):
    """What is wrong with a line, and in which column (from 1)."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(reason)
        self.column = column


def escaped(text: str) -> str:
    """As it stands between the quotation marks of a literal."""
    if _SPECIAL.search(text) is None:
        return text
    return _SPECIAL.sub(lambda found: _NAMES.get(found[0]) or f"\\u{ord(found[0]):04X}", text)


def unescaped(text: str) -> str:
    """The characters of an escaped text; `ValueError` for an escape that there is not."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    number = found[1] or found[2]
    if number is None:
        if found[3] not in _NAMED:
            raise ValueError(f"there is no escape \\{found[3]}")
        return _NAMED[found[3]]
    code = int(number, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"{found[0]} is no character")
    return chr(code)


def iri_text(value: str) -> str:
    """The text of an IRI; `ValueError` if it has characters that no IRI has."""
    bad = _BAD_IN_IRI.search(value)
    if bad is not None:
        raise ValueError(f"an IRI can't have the character {bad[0]!r}")
    return f"<{value}>"


def literal_text(lexical: str, datatype: str | None = None, language: str | None = None) -> str:
    """The text of a literal; `datatype` is an IRI without brackets."""
    if language:
        return f'"{escaped(lexical)}"@{language.lower()}'
    if datatype is None or datatype == XSD_STRING:
        return f'"{escaped(lexical)}"'
    return f'"{escaped(lexical)}"^^<{datatype}>'


def read_line(line: str, *, with_graph: bool) -> tuple[str, str, str, str | None]:
    """Subject, predicate, object and graph of a line that is not empty; `BadLine` says what is wrong."""
    at = _skip(line, 0)
    subject, at = _term(line, at, "a subject", literal=False, blank=True)
    predicate, at = _term(line, at, "a predicate", literal=False, blank=False)
    value, at = _term(line, at, "an object", literal=True, blank=True)
    graph = None
    if line[at : at + 1] != "." and line[at : at + 1]:
        if not with_graph:
            raise BadLine("expected a full stop after the object: N-Triples has no graphs", at + 1)
        graph, at = _term(line, at, "a graph or a full stop", literal=False, blank=True)
    if line[at : at + 1] != ".":
        raise BadLine("the full stop at the end is missing", at + 1)
    if not _END.match(line, at + 1):
        raise BadLine("there is more after the full stop", at + 2)
    return subject, predicate, value, graph


def read_term(text: str, place: str) -> str:
    """The one text of a term that may be a subject, predicate, object or graph; `BadLine` if it is none."""
    article = "an" if place == "object" else "a"
    term, at = _term(text, 0, f"{article} {place}", literal=place == "object", blank=place != "predicate")
    if at != len(text):
        raise BadLine("there is more after the term", at + 1)
    return term


def _skip(line: str, at: int) -> int:
    space = _SPACE.match(line, at)
    assert space is not None
    return space.end()


def _term(line: str, at: int, what: str, *, literal: bool, blank: bool) -> tuple[str, int]:
    first = line[at : at + 1]
    try:
        if first == "<":
            text, end = _iri(line, at)
        elif blank and (label := _BLANK.match(line, at)) is not None:
            text, end = label[0], label.end()
        elif literal and first == '"':
            text, end = _literal(line, at)
        else:
            raise BadLine(f"expected {what}, found {_shown(line, at)}", at + 1)
    except BadLine:
        raise
    except ValueError as error:
        raise BadLine(str(error), at + 1) from None
    return text, _skip(line, end)


def _iri(line: str, at: int) -> tuple[str, int]:
    if line.startswith("<<", at):
        raise BadLine("triples as terms (RDF 1.2) are not supported", at + 1)
    match = _IRI.match(line, at)
    if match is None:
        bad = _BAD_IN_IRI.search(line, at + 1)
        if bad is None or bad[0] in "\n\r":
            raise BadLine("an IRI that never ends", at + 1)
        if bad[0] == "\\":
            raise BadLine("an unknown escape in an IRI", bad.start() + 1)
        raise BadLine(f"an IRI can't have the character {bad[0]!r}", bad.start() + 1)
    value = unescaped(match[1])
    if not _SCHEME.match(value):
        raise BadLine(
            f"the IRI <{shortened(value)}> is relative, and there is nothing it could be relative to", at + 1
        )
    return iri_text(value), match.end()


def _literal(line: str, at: int) -> tuple[str, int]:
    match = _STRING.match(line, at)
    if match is None:
        raise BadLine("a literal that never ends", at + 1)
    lexical, end = unescaped(match[1]), match.end()
    if line[end : end + 1] == "@":
        tag = _LANGUAGE.match(line, end)
        if tag is None:
            raise BadLine("a language tag such as @en is missing", end + 1)
        if line.startswith("--", tag.end()):
            raise BadLine("directions of text (RDF 1.2) are not supported", tag.end() + 1)
        return literal_text(lexical, language=tag[1]), tag.end()
    if line.startswith("^^", end):
        if line[end + 2 : end + 3] != "<":
            raise BadLine("the IRI of a datatype is missing", end + 3)
        datatype, after = _iri(line, end + 2)
        return literal_text(lexical, datatype[1:-1]), after
    return literal_text(lexical), end


def _shown(line: str, at: int) -> str:
    rest = line[at:].split(maxsplit=1)
    return repr(shortened(rest[0])) if rest else "the end of the line"


def shortened(text: str) -> str:
    """A text as messages show it."""
    return text if len(text) <= 60 else text[:57] + "…"
