"""Text to tokens: one regular expression made of the grammar's terminals.

A token is ``(kind, text, start, end)``; a reserved word or mark is a kind of its own, the others are
the grammar's named terminals.  Besides these there are ``#`` (a preprocessor line), the words
``.include`` and ``.once``, ``OPEN`` (a string or comment that never ends) and ``ERROR`` (no token
starts here), which the preprocessor consumes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from gpuengine.language.source import Buffer
from gpuengine.language.tables import load

Token = tuple[str, str, int, int]

PREPROCESSOR_LINE = "#"
INCLUDE = ".include"
ONCE = ".once"
OPEN = "OPEN"
ERROR = "ERROR"
# What the preprocessor leaves in place of OPEN and ERROR: reported, the parser skips the clause.
BROKEN_LINE = "BROKEN LINE"
BROKEN = "BROKEN"


class _Lexer(NamedTuple):
    pattern: re.Pattern[str]
    literals: frozenset[str]


@cache
def _lexer() -> _Lexer:
    tables = load()
    words = sorted(word for word in tables.literals if word[-1].isalnum() and "-" not in word)
    directives = [word for word in words if word.startswith(".")]
    directives += [INCLUDE, ONCE]
    marks = sorted((word for word in tables.literals if not word[-1].isalnum()), key=len, reverse=True)
    marks.remove("_")
    named = [f"(?P<{name}>{pattern})" for name, pattern in tables.patterns]
    alternatives = [
        r"(?P<SKIP>\Z|//[^\n]*|/\*[\s\S]*?\*/)",
        # A comment in it may go over lines, and so may a line that ends with a backslash.
        r"(?P<LINE>\#(?:/\*[\s\S]*?\*/|//(?:[^\\\n]|\\(?:\r?\n|.)?)*|[^\\\n]|\\(?:\r?\n|.)?)*)",
        rf"(?P<DIRECTIVE>(?:{'|'.join(re.escape(word) for word in directives)})(?![_?a-zA-Z0-9]))",
        r"(?P<CHOICE>choice-domain)",
        *named,
        r"(?P<OPEN>/\*[\s\S]*|\"[^\n]*)",
        rf"(?P<MARK>{'|'.join(re.escape(mark) for mark in marks)}|_)",
        r"(?P<ERROR>\S)",
    ]
    return _Lexer(re.compile(rf"\s*(?:{'|'.join(alternatives)})"), tables.literals)


def tokenize(buffer: Buffer, start: int = 0, end: int | None = None) -> list[Token]:
    """All tokens of a buffer, or of a part of it, comments and blanks left out."""
    pattern, literals = _lexer()
    base = buffer.base
    tokens: list[Token] = []
    append = tokens.append
    text = buffer.text
    for match in pattern.finditer(text, start, len(text) if end is None else end):
        kind = match.lastgroup
        if kind == "SKIP":
            continue
        first, last = match.span(match.lastindex or 0)
        word = text[first:last]
        if kind == "IDENT":
            if word in literals:
                kind = word
        elif kind in ("MARK", "DIRECTIVE", "CHOICE"):
            kind = word
        elif kind == "LINE":
            kind = PREPROCESSOR_LINE
        append((kind, word, base + first, base + last))  # type: ignore[arg-type]
    return tokens
