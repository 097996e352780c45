"""Logical types: what the numbers of a column stand for outside the engine.

| declared | the number | Arrow | text |
|---|---|---|---|
| boolean | 0 or 1 | bool | true, false |
| date | days since 1970-01-01 | date32 | 2024-02-29 |
| time | microseconds since midnight | time64[us] | 12:30:00.5 |
| timestamp | microseconds since 1970-01-01 | timestamp[us] | 2024-02-29 12:30:00.5 |
| instant | the same, of UTC | timestamp[us, UTC] | 2024-02-29 12:30:00.5Z, also +01:00 |
| decimal_2 | hundredths; decimal_0 to decimal_18 | decimal128(19, 2) | 12.34 |

Columns come in from Arrow data of these types, from numbers, and from text; they go out as Arrow data. Inside
records and ADT values they are the numbers themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from gpuengine.errors import DataError
from gpuengine.io.convert import from_object, from_text, shown
from gpuengine.language.program import Attribute, Kind, Type

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_FIRST_DAY, _LAST_DAY = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
_FIRST, _LAST = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?\Z")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?\Z")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)\Z")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)\Z")
_DECIMAL_WORDS = 2


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type: as what Arrow has it, which numbers are values of it, and how a text looks."""

    arrow: pa.DataType
    low: int
    high: int
    example: str

    @property
    def scale(self) -> int:
        """How many digits of a decimal come after the point."""
        return int(self.arrow.scale)


_LOGICAL = {
    "boolean": Logical(pa.bool_(), 0, 1, "true"),
    "date": Logical(pa.date32(), _FIRST_DAY, _LAST_DAY, "2024-02-29"),
    "time": Logical(pa.time64("us"), 0, _DAY - 1, "12:30:00"),
    "timestamp": Logical(pa.timestamp("us"), _FIRST, _LAST, "2024-02-29 12:30:00"),
    "instant": Logical(pa.timestamp("us", "UTC"), _FIRST, _LAST, "2024-02-29 12:30:00Z"),
}


def logical_of(type: Type) -> Logical | None:
    """What the numbers of a type stand for; None if for themselves."""
    if not type.logical:
        return None
    if type.logical not in _LOGICAL:
        scale = int(type.logical.removeprefix("decimal_"))
        example = f"12.{'345678901234567890'[:scale]}".removesuffix(".")
        _LOGICAL[type.logical] = Logical(pa.decimal128(19, scale), -(2**63), 2**63 - 1, example)
    return _LOGICAL[type.logical]


# Values, one at a time


def value_of_text(text: bytes, type: Type) -> int | float | str:
    """What a text denotes in a column of `type`; raises `ValueError` with a reason that begins with it."""
    if not type.logical:
        return from_text(text, type.kind)
    return _number(text.decode(errors="replace").strip(" \t"), type)


def value_of_object(value: Any, type: Type) -> int | float | str:
    """What a Python object is in a column of `type`; raises `ValueError` with a reason."""
    if not type.logical or value is None:
        return from_object(value, type.kind)
    if isinstance(value, bytes):
        return value_of_text(value, type)
    if hasattr(value, "to_pydatetime"):  # of pandas
        if getattr(value, "nanosecond", 0):
            raise ValueError(f"{shown(str(value))} has nanoseconds, and a {type.name} has microseconds")
        value = value.to_pydatetime()
    elif isinstance(value, np.datetime64):
        value = _moment_of_numpy(value, type)
    elif isinstance(value, np.timedelta64):  # an integer to NumPy, of whatever unit
        raise ValueError(f"{shown(str(value))} is a duration, and no {type.name}")
    elif hasattr(value, "item") and not isinstance(value, Real):
        value = value.item()
    return _number(value, type)


def _moment_of_numpy(value: np.datetime64, type: Type) -> date | datetime:
    """A moment as Python has it: where it has none, NumPy would give a number of whatever unit it counts."""
    if np.isnat(value):
        raise ValueError("null; facts have no nulls")
    moment = value.item()
    if not isinstance(moment, date):
        whole = value.astype("datetime64[us]")
        moment = whole.item()
        if whole.astype(value.dtype) != value or not isinstance(moment, date):
            raise ValueError(f"{shown(str(value))} has nanoseconds or years that a {type.name} has not")
    return moment


def _number(value: Any, type: Type) -> int:
    logical = logical_of(type)
    assert logical is not None
    if isinstance(value, str):
        found = _of_text(value, type.logical, logical)
    elif pt.is_decimal(logical.arrow):
        found = _of_decimal(value, logical)
    elif isinstance(value, Integral):
        found = int(value)
    else:
        found = _of_moment(value, type.logical)
    if found is None:
        raise ValueError(f"{shown(value)} is no {type.name}, such as {logical.example}")
    if not logical.low <= found <= logical.high:
        raise ValueError(f"{shown(value)} is outside the range of a {type.name}")
    return found


def _of_text(text: str, name: str, logical: Logical) -> int | None:
    try:
        if name == "boolean":
            return {"true": 1, "1": 1, "false": 0, "0": 0}.get(text.lower())
        if name == "date":
            return _of_moment(date.fromisoformat(text), name) if _DATE.match(text) else None
        if name == "time":
            return _of_moment(time.fromisoformat(text), name) if _TIME.match(text) else None
        if name in ("timestamp", "instant"):
            pattern = _TIMESTAMP if name == "timestamp" else _INSTANT
            return _of_moment(datetime.fromisoformat(text), name) if pattern.match(text) else None
    except (ValueError, OverflowError):
        return None
    return _of_decimal(Decimal(text), logical) if _DECIMAL.match(text) else None


def _of_moment(value: Any, name: str) -> int | None:
    """Dates and times of Python; a timestamp at midnight is a date, and a date such a timestamp."""
    if isinstance(value, datetime):
        aware = value.tzinfo is not None
        if name == "instant":
            return (value.astimezone(UTC).replace(tzinfo=None) - _EPOCH) // _MICROSECOND if aware else None
        microseconds = (value - _EPOCH) // _MICROSECOND if not aware else None
        if name == "timestamp" or microseconds is None:
            return microseconds if name == "timestamp" else None
        return microseconds // _DAY if name == "date" and microseconds % _DAY == 0 else None
    if isinstance(value, date) and name in ("date", "timestamp"):
        days = value.toordinal() - _EPOCH.toordinal()
        return days if name == "date" else days * _DAY
    if isinstance(value, time) and name == "time" and value.tzinfo is None:
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1_000_000 + value.microsecond
    return None


def _of_decimal(value: Any, logical: Logical) -> int | None:
    """In units of the last digit; of a float the shortest decimal that it prints as."""
    if isinstance(value, float | np.floating):
        value = repr(float(value))
    elif isinstance(value, Integral):
        value = int(value)
    elif not isinstance(value, Decimal):
        return None
    try:
        number = Decimal(value)
        if not number.is_finite():
            return None
        sign, digits, exponent = number.as_tuple()
    except InvalidOperation:
        return None
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)) or "0")
    shift = exponent + logical.scale
    if shift > 40 and whole:
        raise ValueError(f"{shown(str(number))} is outside the range of a decimal_{logical.scale}")
    if shift >= 0:
        whole *= 10 ** min(shift, 40)
    else:
        whole, rest = divmod(whole, 10 ** min(-shift, 60))
        if rest:
            raise ValueError(f"{shown(str(number))} has more than {logical.scale} digits after the point")
    return -whole if sign else whole


# Columns


def takes(source: pa.DataType, type: Type) -> bool:
    """Can Arrow data of a type hold values of a logical type?"""
    name = type.logical
    if pt.is_string(source) or pt.is_large_string(source) or pt.is_string_view(source):
        return True
    if pt.is_integer(source):
        return True
    if name == "boolean":
        return bool(pt.is_boolean(source))
    if name in ("date", "timestamp") and (pt.is_date(source) or pt.is_timestamp(source)):
        return getattr(source, "tz", None) is None
    if name == "instant":
        return bool(pt.is_timestamp(source)) and source.tz is not None
    if name == "time":
        return bool(pt.is_time(source))
    return name.startswith("decimal") and bool(pt.is_decimal(source) or pt.is_floating(source))


def to_numbers(column: pa.ChunkedArray, type: Type) -> pa.ChunkedArray:
    """A column that `takes` allows as the numbers it stands for; nulls stay.

    Raises `pa.ArrowInvalid` if a value is none of the type, or may be: then look at them one by one.
    """
    logical = logical_of(type)
    assert logical is not None
    source = column.type
    is_text = not (pt.is_primitive(source) or pt.is_decimal(source))
    if pt.is_integer(source) and not pt.is_decimal(logical.arrow):
        numbers = column.cast(pa.int64())
    elif is_text and (pt.is_time(logical.arrow) or pt.is_boolean(logical.arrow)):
        raise pa.ArrowInvalid("texts that Arrow reads otherwise, or not at all")
    elif pt.is_decimal(logical.arrow):
        if pt.is_floating(source):
            raise pa.ArrowInvalid("floats are read by how they print")
        numbers = _unscaled(column.cast(pa.decimal128(38, logical.scale)))
    else:
        typed = column.cast(logical.arrow)
        if pt.is_timestamp(source) and typed.cast(source) != column:
            raise pa.ArrowInvalid("a time of day in a date")
        narrow = pt.is_date32(logical.arrow)
        numbers = (typed.cast(pa.int32()) if narrow else typed).cast(pa.int64())
    _check_range(numbers, logical)
    return numbers


def _check_range(numbers: pa.ChunkedArray, logical: Logical) -> None:
    from pyarrow import compute

    ends = compute.min_max(numbers).as_py()
    if ends["min"] is not None and not logical.low <= ends["min"] <= ends["max"] <= logical.high:
        raise pa.ArrowInvalid("out of range")


def _unscaled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The digits of decimals as numbers."""
    chunks = []
    for chunk in column.chunks:
        words = np.frombuffer(chunk.buffers()[1], np.int64)[_DECIMAL_WORDS * chunk.offset :]
        words = words[: _DECIMAL_WORDS * len(chunk)].reshape(-1, _DECIMAL_WORDS)
        nulls = np.asarray(chunk.is_null().to_numpy(zero_copy_only=False), np.bool_)
        fits = (words[:, 1] == words[:, 0] >> 63) | nulls
        if not fits.all():
            raise pa.ArrowInvalid("a decimal of too many digits")
        chunks.append(pa.array(words[:, 0], pa.int64(), mask=nulls))
    return pa.chunked_array(chunks, pa.int64())


def from_numbers(numbers: pa.Array, attribute: Attribute, relation: str) -> pa.Array:
    """Numbers as what they stand for; those of a type that is not logical stay.

    Raises `DataError` if one is no value of the attribute's type, such as a rule may compute.
    """
    logical = logical_of(attribute.type)
    if logical is None:
        return numbers
    values = np.frombuffer(numbers.buffers()[1], np.int64)[numbers.offset :][: len(numbers)]
    if len(values) and not (logical.low <= values.min() and values.max() <= logical.high):
        bad = values[(values < logical.low) | (values > logical.high)][0]
        raise DataError(
            f"{relation}: {attribute.name} is declared {attribute.type.name}, and {bad} is none\n"
            f"  hint: declare it as number, and see which rule computes it"
        )
    return _outside(values, logical.arrow)


def from_digits(numbers: list[int | None], type: Type) -> pa.Array:
    """Numbers, some of them perhaps missing, as what they stand for."""
    logical = logical_of(type)
    assert logical is not None
    if pt.is_decimal(logical.arrow):
        scale = -logical.scale
        return pa.array([None if n is None else Decimal(n).scaleb(scale) for n in numbers], logical.arrow)
    return pa.array(numbers, pa.int64())


def _outside(values: np.ndarray, arrow: pa.DataType) -> pa.Array:
    if pt.is_boolean(arrow):
        packed = np.packbits(values.astype(np.bool_), bitorder="little")
        return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(packed)])
    if pt.is_date32(arrow):
        values = values.astype(np.int32)
    elif pt.is_decimal(arrow):
        values = np.stack([values, values >> 63], axis=1)
    data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(arrow, len(data), [None, pa.py_buffer(data)])


def outer_type(type: Type) -> pa.DataType | None:
    """The Arrow type that values of a logical type leave as; None for other types."""
    logical = logical_of(type)
    return None if logical is None else logical.arrow


def is_temporal(source: pa.DataType) -> bool:
    """Are these dates or times, of any kind?"""
    return bool(pt.is_date(source) or pt.is_timestamp(source) or pt.is_time(source))


def advice(source: pa.DataType, attribute: Attribute) -> str:
    """How to have Arrow data of a type in a column that is not declared for it; "" if there is no way."""
    if pt.is_dictionary(source):
        source = source.value_type
    if pt.is_date(source):
        declared = "date"
    elif pt.is_timestamp(source):
        declared = "timestamp" if source.tz is None else "instant"
    elif pt.is_time(source):
        declared = "time"
    elif pt.is_boolean(source):
        declared = "boolean"
    elif pt.is_decimal(source):
        declared = f"decimal_{max(source.scale, 0)}"
    else:
        return ""
    said = f"\n  hint: declare it as {attribute.name}: {declared}"
    if not is_temporal(source) or attribute.type.logical:
        return said
    kind = attribute.type.kind
    if kind is Kind.NUMBER:
        return f'{said}, or say dates="days" for its number of days (of times: microseconds)'
    return f'{said}, or say dates="text" for its text' if kind is Kind.SYMBOL else said
