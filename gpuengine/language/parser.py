"""Drives the LALR tables over a token list, and goes on after a syntax error.

The stack of an LALR parser grows with nesting, Python's does not: ten thousand parentheses are fine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from gpuengine.language import codes
from gpuengine.language.diagnostics import LOST_DECLARATION, Reporter, nearest
from gpuengine.language.lexer import BROKEN, BROKEN_LINE, Token
from gpuengine.language.tables import END, SEPARATOR, Production, load
from gpuengine.language.tokens import FUNCTION, QUANTIFIER
from gpuengine.language.tree import TreeBuilder

_NAMES = {
    END: "the end of the program",
    "IDENT": "a name",
    "STRING": "a string",
    "NUMBER": "a number",
    "UNSIGNED": "an unsigned number",
    "FLOAT": "a float",
    "ADDRESS": "an IP address",
    "BRANCH": "a branch",
    FUNCTION: "a functor",
    QUANTIFIER: "any or all",
}
_QUALIFIERS = (
    *("eqrel", "inline", "no_inline", "overridable", "btree", "brie", "btree_delete", "magic", "no_magic"),
    "choice-domain",
)
_MAX_EXPECTED = 6


@cache
def _list_states() -> frozenset[int]:
    """The states between two items: where parsing goes on after an error."""
    return frozenset(row["items"] for row in load().gotos if "items" in row)


class _Reduction(NamedTuple):
    """A production with the method that makes its node."""

    origin: str
    length: int
    kept: tuple[int, ...]
    maker: Callable[..., Any] | None


def _reduction(production: Production, builder: TreeBuilder) -> _Reduction:
    maker = getattr(builder, f"make_{production.action}") if production.action else None
    return _Reduction(production.origin, production.length, production.kept, maker)


class Parser:
    """One parse. `builder` makes the nodes; `reporter` gets the syntax errors."""

    def __init__(self, tokens: list[Token], builder: TreeBuilder, reporter: Reporter) -> None:
        self._tokens = tokens
        self._builder = builder
        self._reporter = reporter
        self._tables = load()
        self._reductions = [_reduction(production, builder) for production in self._tables.productions]
        self._states: list[int] = []
        self._values: list[Any] = []
        self._starts: list[int] = []
        # (state below, symbol, terminal) -> state after all reductions that only hand a value on.
        self._chains: dict[tuple[int, str, str], int] = {}

    def parse(self, start: str) -> Any:
        """The value of the start symbol, or None after an error where there are no items to go on with."""
        tables = self._tables
        actions, chains, reductions = tables.actions, self._chains, self._reductions
        end_state = tables.ends[start]
        states, values, starts = self._states, self._values, self._starts
        states.append(tables.starts[start])
        tokens = self._tokens
        at = 0
        node_end = 0  # of the token shifted last, and so of every node that is complete
        token = tokens[0]
        kind, _, first, last = token
        while True:
            action = actions[states[-1]].get(kind)
            if action is None:
                if kind == END and states[-1] == end_state:
                    return values[-1]
                if kind == SEPARATOR:
                    kind = token[0]
                if self._begin_list():
                    continue
                if self._ends_item():
                    kind = SEPARATOR
                    continue
                if not _list_states().intersection(states):
                    self._complain(at)
                    return None
                at = self._recover(at)
                token = tokens[at]
                kind, _, first, last = token
                continue
            if action > 0:
                states.append(action - 1)
                values.append(token)
                starts.append(first)
                node_end = last
                at += 1
                token = tokens[at]
                kind, _, first, last = token
                continue
            origin, length, kept, maker = reductions[-1 - action]
            if length == 1:
                states.pop()
                if maker is not None:
                    values[-1] = (
                        maker(starts[-1], node_end, values[-1]) if kept else maker(starts[-1], node_end)
                    )
            elif length:
                children = values[-length:]
                node_start = starts[-length]
                del values[-length:], starts[-length:], states[-length:]
                if maker is None:
                    values.append(children[kept[0]])
                else:
                    values.append(maker(node_start, node_end, *[children[index] for index in kept]))
                starts.append(node_start)
            else:
                assert maker is not None
                values.append(maker(first, first))
                starts.append(first)
            key = (states[-1], origin, kind)
            target = chains.get(key)
            if target is None:
                target = chains[key] = self._chain(*key)
            states.append(target)

    def _chain(self, below: int, symbol: str, terminal: str) -> int:
        """The state above `below` after `symbol` and all reductions that only hand its value on."""
        tables = self._tables
        while True:
            state = tables.gotos[below][symbol]
            action = tables.actions[state].get(terminal, 1)
            if action > 0:
                return state
            production = tables.productions[-1 - action]
            if production.action is not None or production.length != 1:
                return state
            symbol = production.origin

    # Errors

    def _recover(self, at: int) -> int:
        """Report the token at `at`, drop the item it is in, and return where to go on."""
        kind, _, start, _ = self._tokens[at]
        if self._complain(at) and kind != END and self._lacks_full_stop(at):
            self._tokens.insert(at, (".", ".", start, start))
            return at
        first, braces = self._drop_item(at)
        if self._reporter.sources.text(first, first + 1) == ".":
            self._reporter.ignore(LOST_DECLARATION)
            return self._skip_lines(at + 1 if first == start else at, braces)
        return self._skip_lines(at + 1, braces) if kind == BROKEN_LINE else self._skip(at, braces)

    def _complain(self, at: int) -> bool:
        """Report the token at `at`; is it a right one in the wrong place?"""
        if self._tokens[at][0] in (BROKEN, BROKEN_LINE) or self._qualifier(at):
            return False
        self._report(at, self._expected())
        return True

    def _begin_list(self) -> bool:
        """Before the first item of a list, begin the list, so that only the item is lost."""
        empty = -1 - next(
            number for number, entry in enumerate(self._reductions) if entry[:2] == ("items", 0)
        )
        state = self._states[-1]
        if empty not in self._tables.actions[state].values():
            return False
        self._states.append(self._tables.gotos[state]["items"])
        self._values.append([])
        self._starts.append(self._starts[-1] if self._starts else 0)
        return True

    def _ends_item(self) -> bool:
        """Is an item complete here? Then it must be ended, so that a wrong token does not take it along."""
        return self._states[-1] not in _list_states() and self._accepts(SEPARATOR)

    def _drop_item(self, at: int) -> tuple[int, int]:
        """Cut the stacks back to the last complete item; at the end, to the outermost list of items.

        Returns where the dropped part starts, and how many braces are open in it.
        """
        self._builder.forget()
        safe = _list_states()
        at_end = self._tokens[at][0] == END
        depths = [depth for depth, state in enumerate(self._states) if state in safe]
        depth = depths[0 if at_end else -1]
        first = self._starts[depth] if depth < len(self._starts) else self._tokens[at][2]
        braces = sum(isinstance(value, tuple) and value[0] == "{" for value in self._values[depth:])
        del self._states[depth + 1 :]
        del self._values[depth:], self._starts[depth:]
        return first, braces

    def _skip(self, at: int, braces: int) -> int:
        """The first token after a clause end, or the next directive or end of a component."""
        tokens = self._tokens
        first = at
        while tokens[at][0] != END:
            kind, text, _, end = tokens[at]
            if len(text) > 1 and kind[0] == ".":
                return at
            if kind == "}" and braces == 0:
                return at if at > first else at + 1
            if kind == ".":
                following = tokens[at + 1]
                if following[0] != "IDENT" or following[2] != end:
                    return at + 1
            braces += (kind == "{") - (kind == "}")
            at += 1
        return at

    def _skip_lines(self, at: int, braces: int) -> int:
        """The first token that starts a line or is a directive, outside braces, or ends a component."""
        while self._tokens[at][0] != END:
            kind, text, _, _ = self._tokens[at]
            directive = len(text) > 1 and kind[0] == "."
            if braces == 0 and (directive or kind == "}" or self._starts_line(at)):
                return at
            braces += (kind == "{") - (kind == "}")
            at += 1
        return at

    def _starts_line(self, at: int) -> bool:
        start = self._tokens[at][2]
        buffer = self._reporter.sources.buffer_at(start)
        offset = start - buffer.base
        line_start = buffer.text.rfind("\n", 0, offset) + 1
        return not buffer.text[line_start:offset].strip()

    def _expected(self) -> list[str]:
        """The terminals that could really come next."""
        row = self._tables.actions[self._states[-1]]
        return [terminal for terminal in row if terminal != SEPARATOR and self._accepts(terminal)]

    def _accepts(self, *terminals: str) -> bool:
        """Would these be shifted? A reduction may lead to a state that rejects a terminal after all."""
        tables = self._tables
        states = list(self._states)
        for terminal in terminals:
            while (action := tables.actions[states[-1]].get(terminal, 0)) < 0:
                origin, length, _, _ = tables.productions[-1 - action]
                if length:
                    del states[-length:]
                states.append(tables.gotos[states[-1]][origin])
            if action == 0:
                ends = tables.ends.values() if terminal == END else _list_states()
                return terminal in (END, SEPARATOR) and states[-1] in ends
            states.append(action - 1)
        return True

    def _lacks_full_stop(self, at: int) -> bool:
        """Is the token at `at` wrong only because the clause on the lines before it does not end?"""
        at_break = self._tokens[at][0] == END or self._starts_line(at)
        return at_break and self._accepts(".", SEPARATOR)

    def _qualifier(self, at: int) -> bool:
        """Report a word after a ``.decl`` that was taken for the beginning of a clause."""
        kind, text, start, end = self._tokens[at - 1] if at else self._tokens[at]
        if at < 2 or kind != "IDENT" or self._starts_line(at - 1) or self._tokens[at][0] in (".", "("):
            return False
        first = at - 1
        while first and not self._starts_line(first):
            first -= 1
        if self._tokens[first][0] != ".decl" or self._tokens[at - 2][0] not in (")", *_QUALIFIERS):
            return False
        hint = nearest(text, _QUALIFIERS, "qualifier") or f"there is {', '.join(_QUALIFIERS)}"
        self._reporter.error(codes.SYNTAX, f"there is no qualifier {text}", start, end, hint)
        return True

    def _report(self, at: int, expected: list[str]) -> None:
        kind, text, start, end = self._tokens[at]
        following = self._tokens[min(at + 1, len(self._tokens) - 1)]
        if kind == "." and ".decl" in expected and following[0] != END and following[2] == end:
            name = f".{following[1]}"
            hint = nearest(name, (word for word in expected if word[0] == "."), "directive")
            self._reporter.error(codes.SYNTAX, f"unknown directive {name}", start, following[3], hint)
            return
        actual = _NAMES[END] if kind == END else f"'{text}'"
        wanted = [_NAMES.get(name, f"'{name}'") for name in expected]
        message = f"unexpected {actual}"
        if 0 < len(wanted) <= _MAX_EXPECTED:
            message += f", expected {' or '.join(wanted)}"
        self._reporter.error(codes.SYNTAX, message, start, end, self._hint(at, expected))

    def _hint(self, at: int, expected: list[str]) -> str | None:
        kind, text, _, _ = self._tokens[at]
        if self._lacks_full_stop(at):
            return "a fact or rule ends with '.': is it missing before this?"
        if text in self._tables.literals and text.isidentifier():
            if "IDENT" in expected:
                return f"'{text}' is a reserved word: choose another name"
        elif kind == "IDENT" and ":-" in expected:
            return "a rule is written head(..) :- body(..), .."
        if kind == "=" and self._tokens[at - 1][0] == "=":
            return "equality is written with one '='"
        return None
