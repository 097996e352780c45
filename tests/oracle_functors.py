"""Soufflé's intrinsic functors on Python values, one at a time: the slow half of the oracle.

What was decided, after Soufflé's interpreter (64-bit build):

| functor | meaning |
|---|---|
| ``+ - * neg`` on number, unsigned | wrap around 2^64 |
| ``/ %`` on integers | truncate towards zero, the remainder has the dividend's sign; -2^63 / -1 wraps |
| ``/ %`` by zero | `EvaluationError` (Soufflé stops) |
| ``/`` on floats | IEEE: x/0 is an infinity or NaN |
| ``^`` on integers | exact power, wrapped (Soufflé rounds through a double from 2^53 on) |
| ``^`` with a negative exponent | truncates towards zero; of 0: `EvaluationError` |
| ``bshl bshr bshru`` | the distance is taken modulo 64; ``bshr`` keeps the sign of a number |
| ``lnot land lor lxor`` | C truth values: 0 is false, the result is 0 or 1 |
| ``min max`` | any number of arguments; symbols compare by their UTF-8 bytes |
| ``strlen substr`` | count bytes of UTF-8 |
| ``substr`` from outside the string | "" ; a negative length means "to the end" |
| ``to_number`` ... of a symbol | decimal (hex and binary with prefix); anything else: `EvaluationError` |
| ``to_string`` of a float | six decimals, as C's ``%f`` |
| ``to_number``, ``to_unsigned`` of a float | truncates towards zero |
| ``as`` | the same 64 bits under another type |
| ``range(a, b)`` | a, a±1, ... without b, counting down when a > b; ``range(a, b, 0)`` is {a} unless a = b |
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

from gpuengine.errors import EvaluationError
from gpuengine.language.program import Kind

Value = Any
INTEGERS = (Kind.NUMBER, Kind.UNSIGNED)


def wrap(value: int, kind: Kind) -> int:
    """`value` modulo 2^64, read as int64 or uint64."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if kind is Kind.NUMBER and value >= 1 << 63 else value


def apply(op: str, kind: Kind, args: list[Value], arg_kinds: list[Kind]) -> Value:
    """The value of intrinsic `op` (all but ``range``); `kind` is the result's."""
    if op in CONVERSIONS:
        return CONVERSIONS[op](args[0], arg_kinds[0], kind)
    result = OPERATIONS[op](arg_kinds[0], *args)
    return wrap(int(result), kind) if kind in INTEGERS else result


def span(kind: Kind, start: Value, end: Value, step: Value = None) -> Iterator[Value]:
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


def _divide(kind: Kind, left: Value, right: Value) -> Value:
    if kind is Kind.FLOAT:
        if right:
            return left / right
        if not left or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _modulo(kind: Kind, left: int, right: int) -> int:
    return left - right * _divide(kind, left, right)


def _power(kind: Kind, base: Value, exponent: Value) -> Value:
    if kind is Kind.FLOAT:
        return math.pow(base, exponent)
    if exponent >= 0:
        return pow(base, exponent, 1 << 64)
    if base == 0:
        raise EvaluationError("0 has no negative power")
    return int(base**exponent)


def _unsigned(value: int) -> int:
    return wrap(value, Kind.UNSIGNED)


def _substr(_kind: Kind, text: str, start: int, length: int) -> str:
    raw = text.encode()
    if not 0 <= start <= len(raw):
        return ""
    return raw[start : len(raw) if length < 0 else start + length].decode(errors="replace")


OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": lambda k, a, b: a + b,
    "-": lambda k, a, b: a - b,
    "*": lambda k, a, b: a * b,
    "/": _divide,
    "%": _modulo,
    "^": _power,
    "neg": lambda k, a: -a,
    "bnot": lambda k, a: ~a,
    "band": lambda k, a, b: a & b,
    "bor": lambda k, a, b: a | b,
    "bxor": lambda k, a, b: a ^ b,
    "bshl": lambda k, a, b: a << (b & 63),
    "bshr": lambda k, a, b: a >> (b & 63),
    "bshru": lambda k, a, b: _unsigned(a) >> (b & 63),
    "lnot": lambda k, a: not a,
    "land": lambda k, a, b: bool(a and b),
    "lor": lambda k, a, b: bool(a or b),
    "lxor": lambda k, a, b: bool(a) != bool(b),
    "min": lambda k, *args: min(args),
    "max": lambda k, *args: max(args),
    "cat": lambda k, *args: "".join(args),
    "strlen": lambda k, a: len(a.encode()),
    "substr": _substr,
}


def _to_integer(value: Value, source: Kind, target: Kind) -> int:
    if source is Kind.SYMBOL:
        try:
            value = int(value, 0)
        except ValueError:
            raise EvaluationError(f"not a {target.value}: {value!r}") from None
    return wrap(int(value), target)


def _to_float(value: Value, source: Kind, _target: Kind) -> float:
    try:
        return float(value)
    except ValueError:
        raise EvaluationError(f"not a float: {value!r}") from None


def _to_string(value: Value, source: Kind, _target: Kind) -> str:
    return f"{value:f}" if source is Kind.FLOAT else str(value)


def _as(value: Value, source: Kind, target: Kind) -> Value:
    codes = {Kind.NUMBER: "<q", Kind.UNSIGNED: "<Q", Kind.FLOAT: "<d"}
    if source is target or source not in codes:
        return value
    return struct.unpack(codes[target], struct.pack(codes[source], value))[0]


CONVERSIONS: dict[str, Callable[[Value, Kind, Kind], Value]] = {
    "to_number": _to_integer,
    "to_unsigned": _to_integer,
    "to_float": _to_float,
    "to_string": _to_string,
    "as": _as,
}
