"""Values of RDF terms: what an expression of SPARQL computes with.

A `Value` is a term together with what it means: a number, a moment, a truth value, a text. `decode` makes it
from the text of a term (see `gpuengine.rdf.terms`), `Value.text` goes back, exactly. Integers and decimals
are exact; moments know years of any size, and their time zone if they have one.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from enum import IntEnum
from fractions import Fraction
from typing import Any, NamedTuple

from gpuengine.rdf.terms import RDF, XSD, literal_text, unescaped

LANGUAGE_STRING = f"{RDF}langString"


class ValueFault(Exception):
    """An expression has no value here (a type error of SPARQL); never leaves the evaluation."""


class Kind(IntEnum):
    """What a term means. Numeric kinds stand in the order of promotion."""

    IRI = 0
    BLANK = 1
    STRING = 2
    LANGUAGE = 3
    BOOLEAN = 4
    INTEGER = 5
    DECIMAL = 6
    FLOAT = 7
    DOUBLE = 8
    DATETIME = 9
    DATE = 10
    TIME = 11
    DURATION = 12
    OTHER = 13
    """A literal of a datatype that is not known, or that the text is not in."""


class Moment(NamedTuple):
    """A date, a time or both. `zone` are minutes east of Greenwich; None if it is not said."""

    year: int
    month: int
    day: int
    seconds: Fraction
    """Of the day."""
    zone: int | None

    def timeline(self) -> Fraction:
        """Seconds since 1970 in UTC, as if one without a zone were in UTC."""
        return days_from_civil(self.year, self.month, self.day) * 86400 + self.seconds - 60 * (self.zone or 0)


class Duration(NamedTuple):
    months: int
    seconds: Fraction


def days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil_from_days(days: int) -> tuple[int, int, int]:
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def days_of_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


class Value:
    """A term and its meaning: `native` is a number, bool, str, `Moment` or `Duration` by `kind`."""

    __slots__ = ("_text", "datatype", "kind", "language", "native")

    def __init__(
        self,
        kind: Kind,
        native: Any,
        datatype: str | None = None,
        language: str | None = None,
        text: str | None = None,
    ) -> None:
        self.kind = kind
        self.native = native
        self.datatype = datatype
        self.language = language
        self._text = text

    @property
    def text(self) -> str:
        """The term, as the dictionary has it."""
        if self._text is None:
            self._text = self._written()
        return self._text

    def _written(self) -> str:
        if self.kind == Kind.IRI:
            return f"<{self.native}>"
        if self.kind == Kind.BLANK:
            return f"_:{self.native}"
        return literal_text(self.lexical, self.datatype, self.language)

    @property
    def lexical(self) -> str:
        """What `STR` gives: the IRI, or the lexical form of a literal."""
        if self.kind in (Kind.IRI, Kind.STRING, Kind.LANGUAGE, Kind.OTHER):
            return self.native
        if self._text is not None:
            return split_literal(self._text)[0]
        return canonical(self.kind, self.native, self.datatype)

    @property
    def is_literal(self) -> bool:
        return self.kind > Kind.BLANK

    @property
    def is_numeric(self) -> bool:
        return Kind.INTEGER <= self.kind <= Kind.DOUBLE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Value({self.text})"


# Texts of terms ------------------------------------------------------------------------------------------


def split_literal(text: str) -> tuple[str, str | None, str | None]:
    """Lexical form, datatype (None: a string) and language of the text of a literal."""
    if text[-1] == '"':
        return unescaped(text[1:-1]), None, None
    if text[-1] == ">":
        end = text.rindex('"^^<')
        return unescaped(text[1:end]), text[end + 4 : -1], None
    end = text.rindex('"')
    return unescaped(text[1:end]), None, text[end + 2 :]


def decode(text: str) -> Value:
    """The value of a term."""
    first = text[0]
    if first == "<":
        return Value(Kind.IRI, text[1:-1], text=text)
    if first == "_":
        return Value(Kind.BLANK, text[2:], text=text)
    lexical, datatype, language = split_literal(text)
    if language is not None:
        return Value(Kind.LANGUAGE, lexical, LANGUAGE_STRING, language, text)
    if datatype is None:
        return Value(Kind.STRING, lexical, f"{XSD}string", None, text)
    reading = _READERS.get(datatype)
    if reading is not None:
        kind, read = reading
        native = read(lexical)
        if native is not None:
            return Value(kind, native, datatype, None, text)
    return Value(Kind.OTHER, lexical, datatype, None, text)


# Lexical forms -------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ZONE = r"(Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DATE_PART = r"(-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME_PART = r"([01][0-9]|2[0-4]):([0-5][0-9]):([0-5][0-9](?:\.[0-9]+)?)"
_DATETIME = re.compile(f"{_DATE_PART}T{_TIME_PART}{_ZONE}")
_DATE = re.compile(f"{_DATE_PART}{_ZONE}")
_TIME = re.compile(f"{_TIME_PART}{_ZONE}")
_DURATION = re.compile(
    r"(-)?P(?=.)(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?"
    r"(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_BLANKS = " \t\n\r"

DIGITS = 18
"""Digits after the point that a division of decimals gives."""
EXACT = Context(prec=1000, rounding=ROUND_HALF_EVEN)
LONGEST_NUMBER = 900
"""Digits of a number that still counts as one: with longer ones, arithmetic could stop the machine."""


def read_integer(lexical: str) -> int | None:
    stripped = lexical.strip(_BLANKS)
    if _INTEGER.fullmatch(stripped) is None or len(stripped) > LONGEST_NUMBER:
        return None
    return int(stripped)


def _bounded(low: int | None, high: int | None) -> Callable[[str], int | None]:
    def read(lexical: str) -> int | None:
        value = read_integer(lexical)
        if value is None or (low is not None and value < low) or (high is not None and value > high):
            return None
        return value

    return read


def read_decimal(lexical: str) -> Decimal | None:
    stripped = lexical.strip(_BLANKS)
    if _DECIMAL.fullmatch(stripped) is None or len(stripped) > LONGEST_NUMBER:
        return None
    return Decimal(stripped)


def read_double(lexical: str) -> float | None:
    stripped = lexical.strip(_BLANKS)
    if _DOUBLE.fullmatch(stripped) is not None:
        return float(stripped)
    return _INFINITE.get(stripped)


_INFINITE = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}


def single(number: float) -> float:
    """A number rounded to the precision of xsd:float."""
    try:
        return struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def read_float(lexical: str) -> float | None:
    value = read_double(lexical)
    return None if value is None else single(value)


def read_boolean(lexical: str) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(lexical.strip(_BLANKS))


def _zone(text: str | None) -> int | None:
    if not text:
        return None
    if text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    return -minutes if text[0] == "-" else minutes


def _of_day(hours: str, minutes: str, seconds: str) -> Fraction | None:
    total = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds)
    return None if total > 86400 else total


def read_datetime(lexical: str) -> Moment | None:
    match = _DATETIME.fullmatch(lexical.strip(_BLANKS))
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    seconds = _of_day(match[4], match[5], match[6])
    if seconds is None or day > days_of_month(year, month):
        return None
    if seconds == 86400:
        year, month, day = civil_from_days(days_from_civil(year, month, day) + 1)
        seconds = Fraction(0)
    return Moment(year, month, day, seconds, _zone(match[7]))


def read_datetime_stamp(lexical: str) -> Moment | None:
    moment = read_datetime(lexical)
    return None if moment is None or moment.zone is None else moment


def read_date(lexical: str) -> Moment | None:
    match = _DATE.fullmatch(lexical.strip(_BLANKS))
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if day > days_of_month(year, month):
        return None
    return Moment(year, month, day, Fraction(0), _zone(match[4]))


def read_time(lexical: str) -> Moment | None:
    match = _TIME.fullmatch(lexical.strip(_BLANKS))
    if match is None:
        return None
    seconds = _of_day(match[1], match[2], match[3])
    return None if seconds is None else Moment(1972, 12, 31, seconds % 86400, _zone(match[4]))


def read_duration(lexical: str) -> Duration | None:
    match = _DURATION.fullmatch(lexical.strip(_BLANKS))
    if match is None:
        return None
    years, months, days, hours, minutes = (int(match[part] or 0) for part in range(2, 7))
    seconds = days * 86400 + hours * 3600 + minutes * 60 + Fraction(match[7] or 0)
    sign = -1 if match[1] else 1
    return Duration(sign * (years * 12 + months), sign * seconds)


def _read_day_time(lexical: str) -> Duration | None:
    return None if re.search("[YM](?!.*[T])|Y", lexical.split("T")[0]) else read_duration(lexical)


def _read_year_month(lexical: str) -> Duration | None:
    return None if "D" in lexical or "T" in lexical else read_duration(lexical)


_INTEGERS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
}

_READERS: dict[str, tuple[Kind, Callable[[str], Any]]] = {
    f"{XSD}boolean": (Kind.BOOLEAN, read_boolean),
    f"{XSD}decimal": (Kind.DECIMAL, read_decimal),
    f"{XSD}float": (Kind.FLOAT, read_float),
    f"{XSD}double": (Kind.DOUBLE, read_double),
    f"{XSD}dateTime": (Kind.DATETIME, read_datetime),
    f"{XSD}dateTimeStamp": (Kind.DATETIME, read_datetime_stamp),
    f"{XSD}date": (Kind.DATE, read_date),
    f"{XSD}time": (Kind.TIME, read_time),
    f"{XSD}duration": (Kind.DURATION, read_duration),
    f"{XSD}dayTimeDuration": (Kind.DURATION, _read_day_time),
    f"{XSD}yearMonthDuration": (Kind.DURATION, _read_year_month),
    **{f"{XSD}{name}": (Kind.INTEGER, _bounded(*limits)) for name, limits in _INTEGERS.items()},
}


def reader(datatype: str) -> tuple[Kind, Callable[[str], Any]] | None:
    """Kind of a datatype that is known, and the reader of its lexical forms: None for a bad one."""
    return _READERS.get(datatype)


# Writing -------------------------------------------------------------------------------------------------


def canonical(kind: Kind, native: Any, datatype: str | None) -> str:
    """The lexical form of a value that was computed."""
    if kind == Kind.BOOLEAN:
        return "true" if native else "false"
    if kind == Kind.INTEGER:
        return str(native)
    if kind == Kind.DECIMAL:
        return written_decimal(native)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return written_double(native, kind)
    if kind == Kind.DURATION:
        return written_duration(native, datatype)
    return written_moment(kind, native)


def written_decimal(number: Decimal) -> str:
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def written_double(number: float, kind: Kind = Kind.DOUBLE) -> str:
    """The canonical form of XML Schema: ``1.5E0``."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    shortest = repr(number)
    if kind == Kind.FLOAT:
        shortest = next(t for digits in range(6, 18) if single(float(t := f"{number:.{digits}g}")) == number)
    sign, digits_of, exponent = Decimal(shortest).normalize().as_tuple()
    if digits_of == (0,):
        return "-0.0E0" if math.copysign(1, number) < 0 else "0.0E0"
    assert isinstance(exponent, int)
    digits = "".join(map(str, digits_of))
    return f"{'-' if sign else ''}{digits[0]}.{digits[1:] or '0'}E{exponent + len(digits) - 1}"


def written_seconds(seconds: Fraction) -> str:
    """Without a point if they are whole."""
    if seconds.denominator == 1:
        return str(seconds.numerator)
    return written_decimal(decimal_of(seconds))


def decimal_of(number: Fraction | int) -> Decimal:
    """A fraction as a decimal, to `DIGITS` digits after the point if it has no exact one."""
    scaled = round(Fraction(number) * 10**DIGITS)
    return Decimal(scaled).scaleb(-DIGITS, EXACT)


def written_moment(kind: Kind, moment: Moment) -> str:
    zone = "" if moment.zone is None else written_zone(moment.zone)
    date = f"{'-' if moment.year < 0 else ''}{abs(moment.year):04d}-{moment.month:02d}-{moment.day:02d}"
    if kind == Kind.DATE:
        return date + zone
    minutes, seconds = divmod(moment.seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    written = written_seconds(seconds)
    if seconds < 10:
        written = f"0{written}"
    time = f"{hours:02d}:{minutes:02d}:{written}{zone}"
    return time if kind == Kind.TIME else f"{date}T{time}"


def written_zone(minutes: int) -> str:
    if minutes == 0:
        return "Z"
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def written_duration(duration: Duration, datatype: str | None) -> str:
    sign = "-" if duration.months < 0 or duration.seconds < 0 else ""
    years, months = divmod(abs(duration.months), 12)
    days, rest = divmod(abs(duration.seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    date = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
    time = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M")) if n)
    if seconds:
        time += f"{written_seconds(Fraction(seconds))}S"
    if not date and not time:
        return "P0M" if datatype == f"{XSD}yearMonthDuration" else "PT0S"
    return f"{sign}P{date}{'T' if time else ''}{time}"


# Values that are computed --------------------------------------------------------------------------------


def string(text: str, language: str | None = None) -> Value:
    if language:
        return Value(Kind.LANGUAGE, text, LANGUAGE_STRING, language.lower())
    return Value(Kind.STRING, text, f"{XSD}string")


def iri(text: str) -> Value:
    return Value(Kind.IRI, text)


TRUE = Value(Kind.BOOLEAN, True, f"{XSD}boolean")
FALSE = Value(Kind.BOOLEAN, False, f"{XSD}boolean")

_NUMERIC_TYPES = {
    Kind.INTEGER: f"{XSD}integer",
    Kind.DECIMAL: f"{XSD}decimal",
    Kind.FLOAT: f"{XSD}float",
    Kind.DOUBLE: f"{XSD}double",
}


def boolean(truth: bool) -> Value:
    return TRUE if truth else FALSE


def number(native: int | Decimal | float, kind: Kind) -> Value:
    """A number of a numeric kind; `native` is converted to it."""
    if kind == Kind.INTEGER:
        if abs(native) >= _TOO_LONG:
            raise ValueFault("an integer of too many digits")
        native = int(native)
    elif kind == Kind.DECIMAL:
        native = native if isinstance(native, Decimal) else Decimal(native)
        if native.is_nan() or abs(native) >= _TOO_LONG:
            raise ValueFault("no decimal")
    elif kind == Kind.FLOAT:
        native = single(as_float(native))
    else:
        native = as_float(native)
    return Value(kind, native, _NUMERIC_TYPES[kind])


_TOO_LONG = 10**LONGEST_NUMBER


def as_float(native: int | Decimal | float) -> float:
    try:
        return float(native)
    except OverflowError:
        return math.inf if native > 0 else -math.inf


def converted(value: Value, kind: Kind) -> int | Decimal | float:
    """The number of a value, as arithmetic of a kind takes it."""
    native = value.native
    if kind == Kind.INTEGER:
        return native
    if kind == Kind.DECIMAL:
        return native if isinstance(native, Decimal) else Decimal(native)
    return as_float(native)


def divided(left: Decimal, right: Decimal) -> Decimal:
    try:
        return decimal_of(Fraction(left) / Fraction(right))
    except (ZeroDivisionError, InvalidOperation):
        raise ValueFault("division by zero") from None
