"""Macros on tokens, expanded as the C preprocessor does it.

Every piece of text remembers of which macros it came (its hide set): those it does not name again. What a
macro leaves is read again together with the text that follows, so a name at its end may take its arguments
from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from gpuengine.language.diagnostics import counted
from gpuengine.language.lexer import PREPROCESSOR_LINE, Token, tokenize
from gpuengine.language.source import Buffer

MAX_EXPANDED = 1_000_000
MAX_DEPTH = 50
REST = "__VA_ARGS__"
_HASH = re.compile(r'"(?:[^"\\\n]|\\.)*"|(##?)')
_STRINGIFY, _PASTE = "#", "##"


class MacroError(Exception):
    """A macro used wrongly; the text says how."""


class EndlessExpansion(MacroError):
    """Expansion does not come to an end, and is better not tried again."""


class Piece(NamedTuple):
    """A token on its way: whether blanks stand before it, and the macros that it does not name any more."""

    kind: str
    text: str
    start: int
    end: int
    spaced: bool
    hidden: frozenset[str] = frozenset()

    @property
    def token(self) -> Token:
        return self.kind, self.text, self.start, self.end


class Macro(NamedTuple):
    """`params` is None for an object-like macro; the last of a `variadic` one takes all that is left."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[Piece, ...]
    variadic: bool = False


def make_macro(name: str, params: tuple[str, ...] | None, body: str, *, variadic: bool = False) -> Macro:
    pieces = tuple(_body_pieces(body.strip()))
    if pieces and (pieces[0].kind == _PASTE or pieces[-1].kind == _PASTE):
        raise MacroError(f"## has nothing to paste at an end of the macro {name}")
    for piece, following in zip_longest(pieces, pieces[1:]):
        is_param = params is not None and following is not None and following.text in params
        if params is not None and piece.kind == _STRINGIFY and not is_param:
            raise MacroError(f"# must stand before a parameter of the macro {name}")
    return Macro(name, params, pieces, variadic)


def _pieces_of(tokens: Iterable[Token]) -> Iterator[Piece]:
    last = -1
    for kind, text, start, end in tokens:
        yield Piece(kind, text, start, end, start != last)
        last = end


def _spelling(pieces: Iterable[Piece]) -> str:
    """The text of pieces, one blank where there were some."""
    return "".join(" " * piece.spaced + piece.text for piece in pieces).strip()


def _quoted(pieces: Iterable[Piece]) -> str:
    """The spelling as a string; only strings in it are escaped, as in C."""
    escaped = (
        piece._replace(text=re.sub(r'["\\]', r"\\\g<0>", piece.text)) if piece.kind == "STRING" else piece
        for piece in pieces
    )
    return f'"{_spelling(escaped)}"'


def _body_pieces(body: str) -> Iterator[Piece]:
    """The tokens of a replacement; ``#`` and ``##`` are kinds of their own there."""
    buffer = Buffer("", body, 0, None)
    tokens: list[Token] = []
    at = 0
    for match in _HASH.finditer(body):
        if match[1]:
            tokens += tokenize(buffer, at, match.start())
            tokens.append((match[1], match[1], *match.span()))
            at = match.end()
    tokens += tokenize(buffer, at)
    return _pieces_of(tokens)


class Macros:
    """The macros defined at one point of the text. Expansion is bounded by `MAX_EXPANDED` tokens in all.

    `built_in` are names that stand for something else at each place.
    """

    def __init__(self, built_in: dict[str, Callable[[int], tuple[str, str]]]) -> None:
        self._built_in = built_in
        self._defined: dict[str, Macro] = {}
        self._expanded = 0
        self._depth = 0

    def __contains__(self, name: str) -> bool:
        return name in self._defined or name in self._built_in

    def __bool__(self) -> bool:
        return bool(self._defined)

    def resume(self, built_in: dict[str, Callable[[int], tuple[str, str]]]) -> Macros:
        """A copy that can go on by itself."""
        other = Macros(built_in)
        other._defined = dict(self._defined)
        other._expanded = self._expanded
        return other

    def define(self, macro: Macro) -> None:
        self._defined[macro.name] = macro

    def undefine(self, name: str) -> None:
        self._defined.pop(name, None)

    def clear(self) -> None:
        self._defined.clear()

    def expand(self, tokens: Sequence[Token], at: int, out: list[Token]) -> int:
        """Append what the name at `tokens[at]` stands for to `out`; returns where to go on."""
        self._depth = 0
        reader = _Reader(tokens, at)
        name = reader.draw()
        assert name is not None
        reader.push([name])
        out.extend(piece.token for piece in self._pieces(reader))
        return reader.at

    def expand_text(self, text: str, place: Token) -> str:
        """A text of its own, of the directive at `place`, with its macros expanded."""
        self._depth = 0
        _, _, start, end = place
        pieces = _pieces_of(tokenize(Buffer("", text, 0, None)))
        return _spelling(self._expand_all(piece._replace(start=start, end=end) for piece in pieces))

    def _expand_all(self, pieces: Iterable[Piece]) -> list[Piece]:
        if self._depth >= MAX_DEPTH:
            raise EndlessExpansion(f"macros are nested more than {MAX_DEPTH} deep")
        self._depth += 1
        reader = _Reader((), 0)
        reader.push(list(pieces))
        out = self._pieces(reader)
        self._depth -= 1
        return out

    def _pieces(self, reader: _Reader) -> list[Piece]:
        out: list[Piece] = []
        while (piece := reader.pop()) is not None:
            if piece.text in self._built_in:
                kind, text = self._built_in[piece.text](piece.start)
                out.append(piece._replace(kind=kind, text=text))
                continue
            macro = self._defined.get(piece.text)
            if macro is None or macro.name in piece.hidden:
                out.append(piece)
                continue
            hidden = piece.hidden
            arguments: dict[str, list[Piece]] = {}
            if macro.params is not None:
                if not reader.opens():
                    out.append(piece)
                    continue
                given, closing = _arguments(macro, reader)
                hidden &= closing.hidden
                arguments = dict(zip(macro.params, given, strict=True))
            replaced = self._substitute(macro, arguments, piece)
            self._expanded += len(replaced) + 1
            if self._expanded > MAX_EXPANDED:
                raise EndlessExpansion(f"macros expand to more than {MAX_EXPANDED} tokens")
            hidden |= {macro.name}
            reader.push([part._replace(hidden=part.hidden | hidden) for part in replaced])
        return out

    def _substitute(self, macro: Macro, arguments: dict[str, list[Piece]], use: Piece) -> list[Piece]:
        """The replacement of a macro with its arguments put in; None stands for an argument that is empty."""
        result: list[Piece | None] = []
        expanded: dict[str, list[Piece]] = {}
        body = macro.body
        at = 0
        pasting = False
        while at < len(body):
            part = body[at]._replace(start=use.start, end=use.end)
            at += 1
            pasted_next = at < len(body) and body[at].kind == _PASTE
            if part.kind == _PASTE:
                pasting = True
                continue
            added: list[Piece | None]
            if part.kind == _STRINGIFY and macro.params is not None:
                added = [part._replace(kind="STRING", text=_quoted(arguments[body[at].text]))]
                at += 1
                pasted_next = at < len(body) and body[at].kind == _PASTE
            elif part.text not in arguments:
                added = [part]
            elif pasting or pasted_next:
                added = [*arguments[part.text]] or [None]
            else:
                if part.text not in expanded:
                    expanded[part.text] = self._expand_all(arguments[part.text])
                added = [*expanded[part.text]]
            if added and added[0] is not None:
                added[0] = added[0]._replace(spaced=part.spaced)
            if pasting:
                is_rest = macro.variadic and macro.params is not None and part.text == macro.params[-1]
                if is_rest and result and result[-1] is not None and result[-1].kind == ",":
                    # As GNU's: the comma before nothing goes, before something nothing is pasted.
                    if added == [None]:
                        result.pop()
                else:
                    added[:1] = _paste(result.pop() if result else None, added[0])
                pasting = False
            result += added
            if len(result) + self._expanded > MAX_EXPANDED:
                raise EndlessExpansion(f"macros expand to more than {MAX_EXPANDED} tokens")
        pieces = [piece for piece in result if piece is not None]
        if pieces:
            pieces[0] = pieces[0]._replace(spaced=use.spaced)
        return pieces


class _Reader:
    """What is to be read next: pieces put back, then the tokens of the text."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self._tokens = tokens
        self.at = at
        self._pending: list[Piece] = []

    def push(self, pieces: list[Piece]) -> None:
        self._pending += reversed(pieces)

    def pop(self) -> Piece | None:
        """The next of what was put back."""
        return self._pending.pop() if self._pending else None

    def opens(self) -> bool:
        if self._pending:
            return self._pending[-1].kind == "("
        return self.at < len(self._tokens) and self._tokens[self.at][0] == "("

    def draw(self) -> Piece | None:
        """The next of all, up to a directive."""
        if self._pending:
            return self._pending.pop()
        if self.at >= len(self._tokens) or self._tokens[self.at][0] == PREPROCESSOR_LINE:
            return None
        kind, text, start, end = self._tokens[self.at]
        spaced = self.at == 0 or self._tokens[self.at - 1][3] != start
        self.at += 1
        return Piece(kind, text, start, end, spaced)


def _paste(left: Piece | None, right: Piece | None) -> list[Piece | None]:
    if left is None or right is None:
        return [left or right]
    tokens = tokenize(Buffer("", left.text + right.text, 0, None))
    hidden = left.hidden & right.hidden
    pieces = [Piece(kind, text, left.start, left.end, False, hidden) for kind, text, _, _ in tokens]
    return [pieces[0]._replace(spaced=left.spaced), *pieces[1:]]


def _arguments(macro: Macro, reader: _Reader) -> tuple[list[list[Piece]], Piece]:
    """The arguments of a call whose parenthesis opens next, and the piece that closes it."""
    assert macro.params is not None
    reader.draw()
    given: list[list[Piece]] = [[]]
    depth = 1
    while (piece := reader.draw()) is not None:
        kind = piece.kind
        if kind == "(":
            depth += 1
        elif kind == ")":
            depth -= 1
            if depth == 0:
                break
        elif kind == "," and depth == 1 and not (macro.variadic and len(given) == len(macro.params)):
            given.append([])
            continue
        given[-1].append(piece)
    if piece is None:
        raise MacroError(f"the call of the macro {macro.name} is never closed")
    if not macro.params and given == [[]]:
        given = []
    if macro.variadic and len(given) == len(macro.params) - 1:
        given.append([])
    if len(given) != len(macro.params):
        takes = counted(len(macro.params) - macro.variadic, "argument")
        more = " or more" if macro.variadic else ""
        raise MacroError(f"the macro {macro.name} takes {takes}{more}, {len(given)} given")
    return given, piece
