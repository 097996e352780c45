"""Object- and function-like macros on tokens, as the C preprocessor expands them (without # and ##)."""

from __future__ import annotations

from typing import NamedTuple

from gpuengine.language.diagnostics import counted
from gpuengine.language.lexer import Token, tokenize
from gpuengine.language.source import Buffer

MAX_EXPANDED = 1_000_000
MAX_DEPTH = 50
_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")


class MacroError(Exception):
    """A macro used wrongly; the text says how."""


class EndlessExpansion(MacroError):
    """Expansion does not come to an end, and is better not tried again."""


class Macro(NamedTuple):
    """`params` is None for an object-like macro."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[Token, ...]


def make_macro(name: str, params: tuple[str, ...] | None, body: str) -> Macro:
    return Macro(name, params, tuple(tokenize(Buffer(name, body, 0, None))))


class Macros:
    """The macros defined at one point of the text. Expansion is bounded by `MAX_EXPANDED` tokens in all."""

    def __init__(self) -> None:
        self._defined: dict[str, Macro] = {}
        self._expanded = 0
        self._depth = 0

    def __contains__(self, name: str) -> bool:
        return name in self._defined

    def __bool__(self) -> bool:
        return bool(self._defined)

    def define(self, macro: Macro) -> None:
        self._defined[macro.name] = macro

    def undefine(self, name: str) -> None:
        self._defined.pop(name, None)

    def clear(self) -> None:
        self._defined.clear()

    def expand(self, tokens: list[Token], at: int, out: list[Token]) -> int:
        """Append the expansion of the macro named at `tokens[at]` to `out`; returns where to go on."""
        self._depth = 0
        return self._expand(tokens, at, out, frozenset())

    def _expand(self, tokens: list[Token], at: int, out: list[Token], hidden: frozenset[str]) -> int:
        token = tokens[at]
        macro = self._defined[token[1]]
        arguments: dict[str, list[Token]] = {}
        following = at + 1
        if macro.params is not None:
            if following >= len(tokens) or tokens[following][0] != "(":
                out.append(token)
                return following
            given, following = _arguments(macro, tokens, following)
            arguments = {
                name: self._expand_all(argument, hidden)
                for name, argument in zip(macro.params, given, strict=True)
            }
        _, _, start, end = token
        replaced: list[Token] = []
        for kind, text, _, _ in macro.body:
            if text in arguments and kind == "IDENT":
                replaced.extend(arguments[text])
            else:
                replaced.append((kind, text, start, end))
            self._spend(len(replaced))
        out.extend(self._expand_all(replaced, hidden | {macro.name}))
        return following

    def _expand_all(self, tokens: list[Token], hidden: frozenset[str]) -> list[Token]:
        if self._depth >= MAX_DEPTH:
            raise EndlessExpansion(f"macros are nested more than {MAX_DEPTH} deep")
        self._depth += 1
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token[0] == "IDENT" and token[1] in self._defined and token[1] not in hidden:
                at = self._expand(tokens, at, out, hidden)
            else:
                out.append(token)
                at += 1
        self._expanded += len(out)
        self._spend(0)
        self._depth -= 1
        return out

    def _spend(self, pending: int) -> None:
        if self._expanded + pending > MAX_EXPANDED:
            raise EndlessExpansion(f"macros expand to more than {MAX_EXPANDED} tokens")


def _arguments(macro: Macro, tokens: list[Token], at: int) -> tuple[list[list[Token]], int]:
    """The arguments of a call whose parenthesis opens at `at`, and where the call ends."""
    assert macro.params is not None
    given: list[list[Token]] = [[]]
    depth = 0
    for position in range(at, len(tokens)):
        token = tokens[position]
        kind = token[0]
        if kind in _OPEN:
            depth += 1
            if depth == 1:
                continue
        elif kind in _CLOSE:
            depth -= 1
            if depth == 0:
                break
        elif kind == "," and depth == 1:
            given.append([])
            continue
        given[-1].append(token)
    else:
        raise MacroError(f"the call of the macro {macro.name} is never closed")
    if not macro.params and given == [[]]:
        given = []
    if len(given) != len(macro.params):
        takes = counted(len(macro.params), "argument")
        raise MacroError(f"the macro {macro.name} takes {takes}, {len(given)} given")
    return given, position + 1
