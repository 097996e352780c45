"""Soufflé's intrinsic functors on Python values, one at a time; a symbol is its bytes.

What was decided, after Soufflé's interpreter (64-bit build):

| functor | meaning |
|---|---|
| ``+ - * neg`` on number, unsigned | wrap around 2^64 |
| ``/ %`` on integers | truncate towards zero, the remainder has the dividend's sign; -2^63 / -1 wraps |
| ``/ %`` by zero | `Failure` (Soufflé stops) |
| ``/`` on floats | IEEE: x/0 is an infinity or NaN |
| ``^`` on integers | exact power, or the limit of the type (Soufflé rounds through a double from 2^53 on) |
| ``^`` with a negative exponent | truncates towards zero; of 0: `Failure` |
| ``bshl bshr bshru`` | the distance is taken modulo 64; ``bshr`` keeps the sign of a number |
| ``lnot land lor lxor`` | C truth values: 0 is false, the result is 0 or 1 |
| ``min max`` | any number of arguments; symbols by their UTF-8 bytes; NaN: the first of the two |
| ``strlen substr`` | count bytes of UTF-8; what ``substr`` leaves of a character that it cuts is U+FFFD |
| ``substr`` from outside the string | "" ; a negative length means "to the end" |
| ``to_number`` ... of a symbol | the integer it begins with, also ``0x1f`` or ``0b1``; none: `Failure` |
| ``to_string`` of a float | six decimals, as C's ``%f`` |
| ``to_number``, ``to_unsigned`` of a float | truncates, past the limits of the type the limit; |
| | of an infinity or NaN: `Failure` |
| ``as`` | the same 64 bits under another type |
| ``range(a, b)`` | a, a±1, ... without b, counting down when a > b; ``range(a, b, 0)`` is {a} unless a = b |
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any

from tests.oracle.values import canonical

INTEGERS = ("number", "unsigned")
MATHEMATICAL = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("exp", "log", "sqrt", "ceil", "floor"),
)


class Failure(Exception):
    """Soufflé would stop with an error of evaluation."""


def wrap(value: int, kind: str) -> int:
    """`value` modulo 2^64, read as int64 or uint64."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if kind == "number" and value >= 1 << 63 else value


def apply(op: str, operand: str, result: str, args: list[Any]) -> Any:
    """The value of intrinsic `op` (all but ``range``) on operands of one kind, as a `result`."""
    value = CONVERSIONS[op](args[0], operand, result) if op in CONVERSIONS else OPERATIONS[op](operand, *args)
    if result in INTEGERS:
        return wrap(int(value), result)
    return canonical(value) if result == "float" else value


def can_fail(op: str, operand: str, result: str) -> bool:
    if op in ("/", "%", "^"):
        return operand in INTEGERS
    if op in ("to_number", "to_unsigned"):
        return operand in ("symbol", "float")
    return op == "to_float" and operand == "symbol"


def span(kind: str, start: Any, end: Any, step: Any = None) -> Iterator[Any]:
    """The values of ``range(start, end[, step])``."""
    if step is None:
        step = 1 if start <= end else -1
    if step == 0 and start != end:
        yield start
    while step and (start < end if step > 0 else start > end):
        yield start
        start += step
        if kind in INTEGERS and wrap(start, kind) != start:
            return


def _divide(kind: str, left: Any, right: Any) -> Any:
    if kind == "float":
        if right:
            return left / right
        if not left or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    if right == 0:
        raise Failure("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


LIMITS = {"number": (-(1 << 63), (1 << 63) - 1), "unsigned": (0, (1 << 64) - 1)}


def _power(kind: str, base: Any, exponent: Any) -> Any:
    if kind == "float":
        return math.pow(base, exponent)
    if exponent >= 0:
        least, most = LIMITS[kind]
        return min(max(base**exponent, least), most)
    if base == 0:
        raise Failure("0 has no negative power")
    return int(base**exponent)


def _substr(_kind: str, text: bytes, start: int, length: int) -> bytes:
    if not 0 <= start <= len(text):
        return b""
    cut = text[start : len(text) if length < 0 else start + length]
    return cut.decode(errors="replace").encode()


def _least(_kind: str, first: Any, *others: Any) -> Any:
    for other in others:
        first = other if other < first else first
    return first


def _greatest(_kind: str, first: Any, *others: Any) -> Any:
    for other in others:
        first = other if first < other else first
    return first


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: lambda _k, a, name=name: float(getattr(math, name)(a)) for name in MATHEMATICAL},
    "+": lambda k, a, b: a + b,
    "-": lambda k, a, b: a - b,
    "*": lambda k, a, b: a * b,
    "/": _divide,
    "%": lambda k, a, b: a - b * _divide(k, a, b),
    "^": _power,
    "neg": lambda k, a: -a,
    "bnot": lambda k, a: ~a,
    "band": lambda k, a, b: a & b,
    "bor": lambda k, a, b: a | b,
    "bxor": lambda k, a, b: a ^ b,
    "bshl": lambda k, a, b: a << (b & 63),
    "bshr": lambda k, a, b: a >> (b & 63),
    "bshru": lambda k, a, b: wrap(a, "unsigned") >> (b & 63),
    "lnot": lambda k, a: not a,
    "land": lambda k, a, b: bool(a and b),
    "lor": lambda k, a, b: bool(a or b),
    "lxor": lambda k, a, b: bool(a) != bool(b),
    "min": _least,
    "max": _greatest,
    "cat": lambda k, *args: b"".join(args),
    "strlen": lambda k, a: len(a),
    "substr": _substr,
}


def _to_integer(value: Any, source: str, target: str) -> int:
    if source == "symbol":
        return _read_integer(value, target)
    if source == "float" and not math.isfinite(value):
        raise Failure(f"{value} is no integer")
    if source == "float":
        _, most = LIMITS[target]
        return min(max(int(value), LIMITS["number"][0]), most)
    return int(value)


def _read_integer(text: bytes, kind: str) -> int:
    """The integer that a text begins with, as strtoll reads it; what follows it is ignored."""
    prefixed = re.match(rb"(-?)(?:0x([0-9a-fA-F]+)|0b([01]+))", text)
    decimal = re.match(rb"[ \t-\r]*([+-]?\d+)", text)
    if prefixed is not None:
        sign, hexadecimal, binary = prefixed.groups()
        value = int(sign + (hexadecimal or binary), 16 if hexadecimal else 2)
    elif decimal is not None:
        value = int(decimal[1])
    else:
        raise Failure(f"no {kind}: {text!r}")
    if wrap(value, kind) != value:
        raise Failure(f"{text!r} does not fit")
    return value


def _to_float(value: Any, source: str, _target: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise Failure(f"not a float: {value!r}") from None


def _to_string(value: Any, source: str, _target: str) -> bytes:
    if source == "symbol":
        return bytes(value)
    return (f"{value:f}" if source == "float" else str(value)).encode()


def _as(value: Any, source: str, target: str) -> Any:
    codes = {"number": "<q", "unsigned": "<Q", "float": "<d"}
    if source == target or source not in codes:
        return value
    return struct.unpack(codes[target], struct.pack(codes[source], value))[0]


CONVERSIONS: dict[str, Callable[[Any, str, str], Any]] = {
    "to_number": _to_integer,
    "to_unsigned": _to_integer,
    "to_float": _to_float,
    "to_string": _to_string,
    "as": _as,
}
