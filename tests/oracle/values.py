"""Values as the oracle holds them, and as the engine shows them.

A symbol is its bytes: strings are measured, cut and compared by them. A relation holds bit patterns of
floats, so that -0.0 is not 0.0, and NaN is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any


class _NegativeZero(float):
    """Computes as -0.0, but is the same value as nothing else."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


NEGATIVE_ZERO = _NegativeZero(-0.0)
NAN = math.nan  # the one object: Python's sets look at identity first


def canonical(value: float) -> float:
    """The one object for what Python's ``==`` gets wrong, else the float."""
    if value == 0 and math.copysign(1, value) < 0:
        return NEGATIVE_ZERO
    return float(value) if value == value else NAN


def held(value: Any, kind: str) -> Any:
    """A value of a text or a fact, as the oracle holds it."""
    if kind == "float":
        return canonical(float(value))
    return value.encode() if isinstance(value, str) else value


def shown(value: Any) -> Any:
    """A value as the engine shows it: records and ADTs as Soufflé's text."""
    if isinstance(value, bytes):
        return value.decode()
    return _text(value) if value is None or isinstance(value, tuple) else value


def _text(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, float):
        return f"{value:.17g}"
    if isinstance(value, bytes):
        return _quoted(value.decode())
    if not isinstance(value, tuple):
        return str(value)
    tag, *args = value
    inner = ", ".join(_text(arg) for arg in args)
    if tag == "[]":
        return f"[{inner}]"
    return f"{tag}({inner})" if args else tag


def _quoted(symbol: str) -> str:
    """A symbol inside a record: bare, or in quotes where it would be read as something else."""
    if symbol == symbol.strip() and not any(char in symbol for char in ',[]()"\t\r\n'):
        return symbol
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return f'"{"".join(escapes.get(char, char) for char in symbol)}"'


def total(values: Iterable[float]) -> float:
    """The exact sum, rounded once, whatever the order."""
    numbers = list(values)
    special = {number for number in numbers if not math.isfinite(number)}
    if special:
        return canonical(math.nan if len(special) > 1 else special.pop())
    exact = sum(map(Fraction, numbers), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
