"""One value at a time: what a text, or a Python object, means in a column.

Only rows that the vectorised readers refuse come here, to be read exactly or described exactly.
Every function raises `ValueError` with a reason that begins with the value.
"""

from __future__ import annotations

import re
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from gpuengine.language.program import Kind

_DECIMAL = re.compile(rb"[ \t\v\f\r\n]*([+-]?[0-9]+)[ \t]*\Z")
_PREFIXED = re.compile(rb"[ \t\v\f\r\n]*0(?:[xX]([0-9a-fA-F]{1,16})|b([01]{1,64}))[ \t]*\Z")
_FLOAT = re.compile(
    rb"[ \t\v\f\r\n]*([+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?))[ \t]*\Z"
)
_HEX_FLOAT = re.compile(rb"[ \t\v\f\r\n]*([+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*(?:[pP][+-]?[0-9]+)?)[ \t]*\Z")
_NOT_FINITE = re.compile(rb"[ \t\v\f\r\n]*([+-]?(?:nan|inf(?:inity)?))[ \t]*\Z", re.IGNORECASE)

_INT64 = range(-(2**63), 2**63)
_UINT64 = range(2**64)
_SHOWN = 60


def shown(value: object) -> str:
    """`value` as an error shows it: quoted, and not longer than a line."""
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return _clipped(repr(value))
    try:
        return _clipped(repr(value))
    except (ValueError, RecursionError):  # an int of too many digits, or what nests too deeply
        return f"a large {type(value).__name__}"


def from_text(text: bytes, kind: Kind) -> int | float | str:
    """The value that `text` denotes in a column of `kind`, as Soufflé's fact files write it."""
    if kind is Kind.NUMBER or kind is Kind.UNSIGNED:
        return _integer(text, kind)
    if kind is Kind.FLOAT:
        return _float(text)
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{shown(text)} is not valid UTF-8") from None


def from_object(value: Any, kind: Kind) -> int | float | str:
    """The value of a Python object in a column of `kind`, if it is exactly representable there."""
    if value is None:
        raise ValueError("null; facts have no nulls")
    try:
        return _of_object(value, kind)
    except (ArithmeticError, TypeError) as error:  # Decimal's, and of classes that call themselves numbers
        raise ValueError(f"{shown(value)} ({type(value).__name__}) is not a {kind.value}") from error


def _of_object(value: Any, kind: Kind) -> int | float | str:
    if kind is Kind.NUMBER or kind is Kind.UNSIGNED:
        return _whole(value, kind)
    if kind is Kind.FLOAT:
        return _real(value)
    if isinstance(value, bytes):
        return from_text(value, kind)
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} ({type(value).__name__}) is not a {kind.value}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{shown(value)} has a lone surrogate and no UTF-8 encoding") from None
    return str(value)


def _integer(text: bytes, kind: Kind) -> int:
    if (match := _DECIMAL.match(text)) is not None:
        return _in_range(int(match[1]) if len(match[1]) < 100 else _UINT64.stop, kind, text)
    if (match := _PREFIXED.match(text)) is not None:
        bits = int(match[1], 16) if match[1] is not None else int(match[2], 2)
        # As the vectorised reader has it: digits of base 2 and 16 are the 64 bits of the value.
        return bits - 2**64 if kind is Kind.NUMBER and bits >= 2**63 else bits
    raise ValueError(f"{shown(text)} is not {_article(kind)}")


def _in_range(value: int, kind: Kind, original: object) -> int:
    if value in (_INT64 if kind is Kind.NUMBER else _UINT64):
        return value
    if value < 0 and kind is Kind.UNSIGNED:
        raise ValueError(f"{shown(original)} is negative, not an unsigned number")
    sign = "signed" if kind is Kind.NUMBER else "unsigned"
    raise ValueError(f"{shown(original)} does not fit a 64-bit {sign} number")


def _float(text: bytes) -> float:
    if (match := _FLOAT.match(text)) is not None:
        value = float(match[1])
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"{shown(text)} is too large for a 64-bit float")
        return value
    if (match := _NOT_FINITE.match(text)) is not None:
        return float(match[1])
    if (match := _HEX_FLOAT.match(text)) is not None:
        try:
            return float.fromhex(match[1].decode())
        except (ValueError, OverflowError):
            raise ValueError(f"{shown(text)} is not a float") from None
    raise ValueError(f"{shown(text)} is not a float")


def _whole(value: Any, kind: Kind) -> int:
    if isinstance(value, Integral):
        return _in_range(int(value), kind, value)
    if _is_real(value):
        try:
            whole = int(value)
        except (ValueError, OverflowError):
            raise ValueError(f"{shown(value)} is not {_article(kind)}") from None
        if whole != value:
            raise ValueError(f"{shown(value)} is not a whole number")
        return _in_range(whole, kind, value)
    raise ValueError(f"{shown(value)} ({type(value).__name__}) is not {_article(kind)}")


def _real(value: Any) -> float:
    if isinstance(value, Integral) and not _fits_float(int(value)):
        raise ValueError(f"{shown(value)} is not exactly representable as a 64-bit float")
    if _is_real(value):
        return float(value)
    raise ValueError(f"{shown(value)} ({type(value).__name__}) is not a float")


def _fits_float(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _is_real(value: Any) -> bool:
    return isinstance(value, Real | Decimal)


def _article(kind: Kind) -> str:
    return "a number" if kind is Kind.NUMBER else "an unsigned number"


def _clipped(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…{text[0]}"
