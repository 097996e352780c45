"""Tokens of SPARQL, and errors that name their place."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuengine.errors import Diagnostic, ProgramErrors, Span
from gpuengine.rdf.sparql import codes

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_WORD = _BASE + "_"
_CHARACTERS = _WORD + "\\-0-9\u00b7\u0300-\u036f\u203f-\u2040"
_ESCAPED = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_PREFIX = f"[{_BASE}](?:[{_CHARACTERS}.]*[{_CHARACTERS}])?"
_LOCAL = f"(?:[{_WORD}:0-9]|{_ESCAPED})(?:(?:[{_CHARACTERS}.:]|{_ESCAPED})*(?:[{_CHARACTERS}:]|{_ESCAPED}))?"
_UNICODE = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_CHARACTER = rf"\\[tbnrf\\\"']|{_UNICODE}"

_TOKENS = re.compile(
    rf"""
    (?P<space>(?:\s+|\#[^\n\r]*)+)
  | (?P<iri><(?:[^<>"{{}}|^`\\\x00-\x20]|{_UNICODE})*>)
  | (?P<long>\"\"\"(?:\"{{0,2}}(?:[^"\\]|{_CHARACTER}))*\"\"\"|'''(?:'{{0,2}}(?:[^'\\]|{_CHARACTER}))*''')
  | (?P<string>"(?:[^"\\\n\r]|{_CHARACTER})*"|'(?:[^'\\\n\r]|{_CHARACTER})*')
  | (?P<blank>_:[{_WORD}0-9](?:[{_CHARACTERS}.]*[{_CHARACTERS}])?)
  | (?P<name>(?:{_PREFIX})?:(?:{_LOCAL})?)
  | (?P<variable>[?$][{_WORD}0-9][{_WORD}0-9\u00b7\u0300-\u036f\u203f-\u2040]*)
  | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<double>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+-]?[0-9]+)
  | (?P<decimal>[0-9]*\.[0-9]+)
  | (?P<integer>[0-9]+)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<mark>\^\^|&&|\|\||!=|<=|>=|<<|>>|[{{}}()\[\].,;*/+\-|^?!=<>])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class Source:
    """The text of a query, for messages."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name

    def error(self, code: str, message: str, start: int, end: int, hint: str | None = None) -> ProgramErrors:
        text = self.text
        line = text.count("\n", 0, start) + 1
        begin = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        column = start - begin + 1
        width = max(1, min(end, stop) - start)
        # A line of a million characters is shown around the place.
        shown = text[begin:stop]
        if len(shown) > 160:
            cut = max(0, column - 80)
            shown = shown[cut : cut + 160]
            span = Span(self.name, line, column, line, column + width)
            note = f"column {column} is at character {column - cut} of what is shown"
            return ProgramErrors([Diagnostic(code, message, span, shown, hint, (note,))])
        span = Span(self.name, line, column, line, column + width)
        return ProgramErrors([Diagnostic(code, message, span, shown, hint)])


def tokens(source: Source) -> list[Token]:
    """All tokens, ended by one of the kind ``end``."""
    listed: list[Token] = []
    text = source.text
    place = 0
    match = _TOKENS.match
    while place < len(text):
        token = match(text, place)
        if token is None:
            raise _unknown(source, place)
        kind = token.lastgroup
        if kind != "space":
            assert kind is not None
            listed.append(Token(kind, token[0], place, token.end()))
        place = token.end()
    listed.append(Token("end", "", len(text), len(text)))
    return listed


def _unknown(source: Source, place: int) -> ProgramErrors:
    character = source.text[place]
    if character in "\"'":
        message = "a string that does not end, or that has a wrong escape"
        hint = "a string in one pair of quotation marks stays on its line; three marks let it go on"
        return source.error(codes.CHARACTER, message, place, place + 1, hint)
    return source.error(codes.CHARACTER, f"unexpected character {character!r}", place, place + 1)
