"""The expressions of ``#if``: C's integer expressions, in 64 bits, names that are no macros being 0."""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_DEPTH = 100
_TOKEN = re.compile(r"\s*(?:(\d\w*)|([A-Za-z_]\w*)|(<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|!~?:()])|(\S))")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)(?:[uU]?[lL]{0,2}|[lL]{1,2}[uU])\Z")


class ConditionError(Exception):
    """An expression that is wrong; the text says how."""


def evaluate(text: str) -> int:
    """The value of an expression; a part that does not decide it may divide by 0, as in C."""
    return _Evaluator(text).value()


def _divided(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "|": (3, lambda a, b: a | b),
    "^": (4, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "==": (6, lambda a, b: a == b),
    "!=": (6, lambda a, b: a != b),
    "<": (7, lambda a, b: a < b),
    ">": (7, lambda a, b: a > b),
    "<=": (7, lambda a, b: a <= b),
    ">=": (7, lambda a, b: a >= b),
    "<<": (8, lambda a, b: a << (b & 63)),
    ">>": (8, lambda a, b: a >> (b & 63)),
    "+": (9, lambda a, b: a + b),
    "-": (9, lambda a, b: a - b),
    "*": (10, lambda a, b: a * b),
    "/": (10, _divided),
    "%": (10, lambda a, b: a - b * _divided(a, b)),
}


class _Evaluator:
    """Evaluates while it reads; where `live` is false the value does not matter."""

    def __init__(self, text: str) -> None:
        self._tokens = [(match.lastindex, match[match.lastindex or 0]) for match in _TOKEN.finditer(text)]
        self._at = 0
        self._depth = 0

    def value(self) -> int:
        if not self._tokens:
            raise ConditionError("there is no expression")
        value = self._conditional(True)
        if self._at < len(self._tokens):
            raise ConditionError(f"unexpected {self._tokens[self._at][1]!r} in the expression")
        return value

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, text: str) -> bool:
        taken = self._next() == text
        self._at += taken
        return taken

    def _need(self, text: str) -> None:
        if not self._take(text):
            instead = f", not {self._next()!r}" if self._next() else ""
            raise ConditionError(f"{text!r} is missing in the expression{instead}")

    def _conditional(self, live: bool) -> int:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ConditionError("the expression is nested too deeply")
        value = self._binary(1, live)
        if self._take("?"):
            chosen = self._conditional(live and value != 0)
            self._need(":")
            other = self._conditional(live and value == 0)
            value = chosen if value else other
        self._depth -= 1
        return value

    def _binary(self, least: int, live: bool) -> int:
        """An expression of operators that bind as tightly as `least` or tighter."""
        left = self._unary(live)
        while True:
            operator = self._next()
            if operator == "||" and least <= 1:
                self._at += 1
                right = self._binary(2, live and not left)
                left = int(left != 0 or right != 0)
            elif operator == "&&" and least <= 2:
                self._at += 1
                right = self._binary(3, live and left != 0)
                left = int(left != 0 and right != 0)
            elif operator in _BINARY and _BINARY[operator][0] >= least:
                self._at += 1
                tightness, function = _BINARY[operator]
                right = self._binary(tightness + 1, live)
                if operator in "/%" and right == 0:
                    if live:
                        raise ConditionError("division by zero in the expression")
                    right = 1
                left = _wrapped(int(function(left, right)))
            else:
                return left

    def _unary(self, live: bool) -> int:
        signs = []
        while self._next() in ("-", "+", "!", "~") and self._next():
            signs.append(self._next())
            self._at += 1
        value = self._primary(live)
        for sign in reversed(signs):
            value = {"-": -value, "+": value, "!": int(not value), "~": ~value}[sign]
        return _wrapped(value)

    def _primary(self, live: bool) -> int:
        if self._take("("):
            value = self._conditional(live)
            self._need(")")
            return value
        if self._at >= len(self._tokens):
            raise ConditionError("the expression ends too early")
        group, text = self._tokens[self._at]
        self._at += 1
        if group == 1:
            match = _NUMBER.match(text)
            if match is None or len(text) > 70:
                raise ConditionError(f"{text} is no integer")
            digits = match[1]
            is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
            try:
                return _wrapped(int(digits, 8 if is_octal else 0))
            except ValueError:
                raise ConditionError(f"{text} is no integer") from None
        if group == 2:
            return 0
        raise ConditionError(f"unexpected {text!r} in the expression")


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
