"""What becomes of tokens between the preprocessor and the parser: annotations go, functors are told apart.

An annotation ``@[name(..)]`` or ``@![..]`` may stand before anything, and means nothing here.  The names of
the mathematical functors are no reserved words, since relations are called ``log`` and ``exp`` too: such a
name before a parenthesis is the functor's, unless the program declares a relation of that name.  So
``any`` and ``all`` are words only where an argument begins and another expression follows them.
"""

from __future__ import annotations

from collections.abc import Container

from gpuengine.language import codes
from gpuengine.language.diagnostics import Reporter
from gpuengine.language.functors import MATHEMATICAL
from gpuengine.language.lexer import Token
from gpuengine.language.tables import END

FUNCTION = "FUNCTION"
QUANTIFIER = "QUANTIFIER"
QUANTIFIERS = ("any", "all")
_OPERANDS = ("IDENT", "NUMBER", "UNSIGNED", "FLOAT", "(")
_OPENING, _CLOSING = "([{", ")]}"


def declared_relations(tokens: list[Token]) -> set[str]:
    """The names that stand in ``.decl a, b(..)``."""
    names: set[str] = set()
    for at, token in enumerate(tokens):
        if token[0] == ".decl":
            at += 1
            while tokens[at][0] in ("IDENT", ","):
                names.add(tokens[at][1])
                at += 1
    return names


def prepared(tokens: list[Token], relations: Container[str], reporter: Reporter) -> list[Token]:
    """Tokens for the parser; `relations` are those that are declared elsewhere."""
    kinds = {token[0] for token in tokens}
    if "@" in kinds:
        tokens = _without_annotations(tokens, reporter)
    if not any(token[1] in MATHEMATICAL or token[1] in QUANTIFIERS for token in tokens):
        return tokens
    declared = declared_relations(tokens)
    result: list[Token] = []
    for at, token in enumerate(tokens):
        kind, text = token[:2]
        if (kind == "IDENT" and text in MATHEMATICAL) or text in QUANTIFIERS:
            follows = tokens[at + 1][0]
            is_named = text in declared or text in relations
            if text in MATHEMATICAL and follows == "(" and not is_named:
                kind = FUNCTION
            elif text in QUANTIFIERS and _begins_argument(tokens, at) and follows in _OPERANDS:
                kind = QUANTIFIER if follows != "(" or not is_named else kind
        result.append((kind, *token[1:]))
    return result


def _begins_argument(tokens: list[Token], at: int) -> bool:
    return at > 0 and tokens[at - 1][0] in ("(", ",")


def _without_annotations(tokens: list[Token], reporter: Reporter) -> list[Token]:
    kept: list[Token] = []
    at = 0
    while at < len(tokens):
        opening = _opening(tokens, at)
        if opening is None:
            kept.append(tokens[at])
            at += 1
            continue
        end = _closed(tokens, opening)
        if end is None:
            start, last = tokens[at][2], tokens[opening][3]
            reporter.error(codes.SYNTAX, "this annotation is never closed", start, last, "add a ]")
            line_end = start + len(reporter.sources.line_at(start))  # the rest of its line goes with it
            while tokens[at][0] != END and start <= tokens[at][2] < line_end:
                at += 1
        else:
            at = end
    return kept


def _opening(tokens: list[Token], at: int) -> int | None:
    """Where the bracket of an annotation that begins here stands."""
    if tokens[at][0] != "@":
        return None
    bracket = at + 2 if tokens[at + 1][0] == "!" else at + 1
    return bracket if bracket < len(tokens) and tokens[bracket][0] == "[" else None


def _closed(tokens: list[Token], opening: int) -> int | None:
    """The place after the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(tokens)):
        kind = tokens[at][0]
        depth += (kind in _OPENING) - (kind in _CLOSING) if len(kind) == 1 else 0
        if depth == 0:
            return at + 1
    return None
