"""Operators and functions of SPARQL 1.1 on values: each gives a value, or raises `ValueFault`."""

from __future__ import annotations

import hashlib
import math
import operator
import urllib.parse
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from fractions import Fraction

from gpuengine.rdf import patterns
from gpuengine.rdf.terms import XSD, literal_text
from gpuengine.rdf.values import (
    EXACT,
    Duration,
    Kind,
    Moment,
    Value,
    ValueFault,
    as_float,
    boolean,
    civil_from_days,
    converted,
    days_from_civil,
    days_of_month,
    decimal_of,
    decode,
    divided,
    iri,
    number,
    reader,
    string,
    written_decimal,
    written_double,
    written_zone,
)

# Truth ---------------------------------------------------------------------------------------------------


def truth(value: Value) -> bool:
    """The effective boolean value."""
    if value.kind == Kind.BOOLEAN:
        return value.native
    if value.is_numeric:
        return bool(value.native) and not (isinstance(value.native, float) and math.isnan(value.native))
    if value.kind in (Kind.STRING, Kind.LANGUAGE):
        return bool(value.native)
    reading = reader(value.datatype) if value.kind == Kind.OTHER and value.datatype else None
    if reading is not None and Kind.BOOLEAN <= reading[0] <= Kind.DOUBLE:
        return False
    raise ValueFault("no truth value")


# Comparison ----------------------------------------------------------------------------------------------

_FOURTEEN_HOURS = 14 * 3600


def _moments(left: Moment, right: Moment) -> Fraction:
    """The time between two moments; which is first may depend on a zone that is not said."""
    between = left.timeline() - right.timeline()
    if (left.zone is None) != (right.zone is None) and abs(between) <= _FOURTEEN_HOURS:
        raise ValueFault("moments with and without a time zone")
    return between


def _difference(left: Value, right: Value) -> Fraction | int | None:
    """Negative, zero or positive as the left value is less, equal or greater; None for NaN."""
    a, b = left.native, right.native
    if left.is_numeric and right.is_numeric:
        if isinstance(a, float) or isinstance(b, float):
            kind = max(left.kind, right.kind)
            a, b = converted(left, kind), converted(right, kind)
            if kind == Kind.FLOAT:
                a, b = number(a, kind).native, number(b, kind).native
            if math.isnan(a) or math.isnan(b):
                return None
        return (a > b) - (a < b)
    if left.kind != right.kind:
        raise ValueFault("values that do not compare")
    if left.kind in (Kind.STRING, Kind.BOOLEAN):
        return (a > b) - (a < b)
    if Kind.DATETIME <= left.kind <= Kind.TIME:
        return _moments(a, b)
    if left.kind == Kind.DURATION:
        months, seconds = a.months - b.months, a.seconds - b.seconds
        if months == 0 or seconds == 0 or (months > 0) == (seconds > 0):
            return months or seconds
        if 2678400 * abs(months) < abs(seconds):
            return seconds
        if 2419200 * abs(months) > abs(seconds):
            return months
    raise ValueFault("values that do not compare")


def equal(left: Value, right: Value) -> bool:
    """The operator ``=``: by value where both are known; of unknown literals only sameness is."""
    if left.kind <= Kind.BLANK or right.kind <= Kind.BLANK:
        return left.kind == right.kind and left.native == right.native
    if left.kind == Kind.LANGUAGE or right.kind == Kind.LANGUAGE:
        return left.native == right.native and left.language == right.language and left.kind == right.kind
    if left.kind == Kind.OTHER or right.kind == Kind.OTHER:
        if left.text == right.text:
            return True
        raise ValueFault("literals of an unknown datatype")
    if left.is_numeric and right.is_numeric:
        return _difference(left, right) == 0
    if left.kind != right.kind:
        return False
    if left.kind == Kind.DURATION:
        return left.native == right.native
    return _difference(left, right) == 0


def _compared(holds: Callable[[Fraction | int], bool]) -> Callable[[Value, Value], Value]:
    def compare(left: Value, right: Value) -> Value:
        difference = _difference(left, right)
        return boolean(difference is not None and holds(difference))

    return compare


def order_key(value: Value | None) -> tuple:
    """`ORDER BY`: nothing, blank nodes, IRIs, literals; those of kinds that do not compare by kind."""
    if value is None:
        return (0,)
    if value.kind == Kind.BLANK:
        return (1, value.native)
    if value.kind == Kind.IRI:
        return (2, value.native)
    if value.is_numeric:
        if isinstance(value.native, float) and not math.isfinite(value.native):
            return (3, 3, 0 if math.isnan(value.native) else 1 if value.native < 0 else 3, 0)
        return (3, 3, 2, Fraction(value.native))
    if value.kind == Kind.STRING:
        return (3, 1, value.native)
    if value.kind == Kind.LANGUAGE:
        return (3, 2, value.native, value.language)
    if value.kind == Kind.BOOLEAN:
        return (3, 4, value.native)
    if Kind.DATETIME <= value.kind <= Kind.TIME:
        return (3, int(value.kind), value.native.timeline(), value.native.zone is None)
    if value.kind == Kind.DURATION:
        return (3, int(value.kind), value.native.months * 2629746 + value.native.seconds, value.native.months)
    return (3, int(Kind.OTHER), value.datatype, value.native)


# Arithmetic ----------------------------------------------------------------------------------------------


def _numeric(value: Value) -> Value:
    if not value.is_numeric:
        raise ValueFault("no number")
    return value


def _added(left: Value, right: Value, sign: int) -> Value:
    if left.is_numeric and right.is_numeric:
        kind = max(left.kind, right.kind)
        a, b = converted(left, kind), converted(right, kind)
        if kind == Kind.DECIMAL:
            assert isinstance(a, Decimal) and isinstance(b, Decimal)
            return number(EXACT.add(a, b) if sign > 0 else EXACT.subtract(a, b), kind)
        return number(a + b if sign > 0 else a - b, kind)  # type: ignore[operator]
    if Kind.DATETIME <= left.kind <= Kind.TIME and right.kind == Kind.DURATION:
        return _shifted(left, right.native, sign)
    if left.kind == Kind.DURATION and right.kind == Kind.DURATION:
        return _duration(
            Duration(
                left.native.months + sign * right.native.months,
                left.native.seconds + sign * right.native.seconds,
            )
        )
    if sign > 0 and left.kind == Kind.DURATION and Kind.DATETIME <= right.kind <= Kind.TIME:
        return _shifted(right, left.native, sign)
    if sign < 0 and left.kind == right.kind and Kind.DATETIME <= left.kind <= Kind.TIME:
        return _duration(Duration(0, left.native.timeline() - right.native.timeline()))
    raise ValueFault("no numbers")


def _duration(duration: Duration) -> Value:
    if duration.months and duration.seconds:
        if (duration.months > 0) != (duration.seconds > 0):
            raise ValueFault("a duration of two signs")
        datatype = f"{XSD}duration"
    else:
        datatype = f"{XSD}yearMonthDuration" if duration.months else f"{XSD}dayTimeDuration"
    return Value(Kind.DURATION, duration, datatype)


def _shifted(value: Value, duration: Duration, sign: int) -> Value:
    moment: Moment = value.native
    if value.kind == Kind.TIME:
        if duration.months:
            raise ValueFault("months after a time of the day")
        seconds = (moment.seconds + sign * duration.seconds) % 86400
        return Value(Kind.TIME, moment._replace(seconds=seconds), f"{XSD}time")
    months = moment.year * 12 + moment.month - 1 + sign * duration.months
    year, month = months // 12, months % 12 + 1
    day = min(moment.day, days_of_month(year, month))
    total = days_from_civil(year, month, day) * 86400 + moment.seconds + sign * duration.seconds
    days, seconds = divmod(total, 86400)
    year, month, day = civil_from_days(int(days))
    if value.kind == Kind.DATE:
        seconds = Fraction(0)
    return Value(value.kind, Moment(year, month, day, Fraction(seconds), moment.zone), value.datatype)


def _multiplied(left: Value, right: Value) -> Value:
    kind = max(_numeric(left).kind, _numeric(right).kind)
    a, b = converted(left, kind), converted(right, kind)
    if kind == Kind.DECIMAL:
        assert isinstance(a, Decimal) and isinstance(b, Decimal)
        return number(EXACT.multiply(a, b), kind)
    return number(a * b, kind)  # type: ignore[operator]


def quotient(left: Value, right: Value) -> Value:
    """``/``: of integers a decimal."""
    kind = max(_numeric(left).kind, _numeric(right).kind, Kind.DECIMAL)
    a, b = converted(left, kind), converted(right, kind)
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return number(divided(a, b), kind)
    assert isinstance(a, float) and isinstance(b, float)
    if b == 0:
        if a == 0 or math.isnan(a):
            return number(math.nan, kind)
        return number(math.copysign(math.inf, a) * math.copysign(1, b), kind)
    return number(a / b, kind)


def sum_of(left: Value, right: Value) -> Value:
    return _added(left, right, 1)


def _negative(value: Value) -> Value:
    if value.kind == Kind.DURATION:
        return _duration(Duration(-value.native.months, -value.native.seconds))
    return number(-_numeric(value).native, value.kind)


def _rounding(mode: str) -> Callable[[Value], Value]:
    def rounded(value: Value) -> Value:
        native = _numeric(value).native
        if value.kind == Kind.INTEGER:
            return number(native, Kind.INTEGER)
        if isinstance(native, Decimal):
            if mode == ROUND_HALF_UP:
                # To the nearest, halves towards the positive.
                return number((native + Decimal("0.5")).to_integral_value(ROUND_FLOOR), Kind.DECIMAL)
            return number(native.to_integral_value(mode), Kind.DECIMAL)
        if not math.isfinite(native):
            return value
        result = {
            ROUND_HALF_UP: lambda n: math.floor(n + 0.5),
            ROUND_CEILING: math.ceil,
            ROUND_FLOOR: math.floor,
        }
        whole = as_float(result[mode](native))
        return number(math.copysign(whole, native) if whole == 0 else whole, value.kind)

    return rounded


# Texts ---------------------------------------------------------------------------------------------------


def _text(value: Value) -> str:
    if value.kind not in (Kind.STRING, Kind.LANGUAGE):
        raise ValueFault("no string")
    return value.native


def _simple(value: Value) -> str:
    if value.kind != Kind.STRING:
        raise ValueFault("no string without language")
    return value.native


def _pair(left: Value, right: Value) -> tuple[str, str]:
    """Two texts whose languages go together: the second has none, or that of the first."""
    a, b = _text(left), _text(right)
    if right.kind == Kind.LANGUAGE and right.language != left.language:
        raise ValueFault("texts of two languages")
    return a, b


def _substring(text: Value, start: Value, length: Value | None = None) -> Value:
    characters = _text(text)
    first = _whole(start)
    if first is None:
        return string("", text.language)
    if length is None:
        return string(characters[max(0, int(first) - 1) :] if first < math.inf else "", text.language)
    count = _whole(length)
    if count is None or math.isnan(first + count):
        return string("", text.language)
    end = min(first + count - 1, len(characters))
    begin = max(first - 1, 0)
    if begin >= end:
        return string("", text.language)
    return string(characters[int(begin) : int(end)], text.language)


def _whole(value: Value) -> float | None:
    """A number rounded as `fn:substring` does; None for NaN."""
    native = as_float(_numeric(value).native)
    if math.isnan(native):
        return None
    return native if math.isinf(native) else math.floor(native + 0.5)


def _cut(before: bool) -> Callable[[Value, Value], Value]:
    def cut(text: Value, mark: Value) -> Value:
        a, b = _pair(text, mark)
        place = a.find(b)
        if place < 0:
            return string("")
        return string(a[:place] if before else a[place + len(b) :], text.language)

    return cut


def _concatenated(*parts: Value) -> Value:
    text = "".join(_text(part) for part in parts)
    languages = {part.language for part in parts}
    return string(text, languages.pop() if len(languages) == 1 else None)


def _language_matches(tag: Value, ranges: Value) -> Value:
    language, wanted = _simple(tag).lower(), _simple(ranges).lower()
    if wanted == "*":
        return boolean(bool(language))
    return boolean(language == wanted or language.startswith(wanted + "-"))


def _hash(name: str) -> Callable[[Value], Value]:
    def digest(value: Value) -> Value:
        return string(hashlib.new(name, _simple(value).encode(errors="surrogatepass")).hexdigest())

    return digest


def _regex(text: Value, pattern: Value, flags: Value | None = None) -> Value:
    search = patterns.compiled(_simple(pattern), _simple(flags) if flags else "")
    return boolean(search.search(_text(text)) is not None)


def _replace(text: Value, pattern: Value, replacement: Value, flags: Value | None = None) -> Value:
    result = patterns.replaced(
        _text(text), _simple(pattern), _simple(replacement), _simple(flags) if flags else ""
    )
    return string(result, text.language)


# Terms ---------------------------------------------------------------------------------------------------


def _str(value: Value) -> Value:
    if value.kind == Kind.BLANK:
        raise ValueFault("a blank node has no text")
    return string(value.lexical)


def _lang(value: Value) -> Value:
    if not value.is_literal:
        raise ValueFault("no literal")
    return string(value.language or "")


def _datatype(value: Value) -> Value:
    if not value.is_literal or value.datatype is None:
        raise ValueFault("no literal")
    return iri(value.datatype)


def _typed(lexical: Value, datatype: Value) -> Value:
    if datatype.kind != Kind.IRI:
        raise ValueFault("a datatype must be an IRI")
    return decode(literal_text(_simple(lexical), datatype.native))


def _tagged(lexical: Value, language: Value) -> Value:
    tag = _simple(language)
    if not tag:
        raise ValueFault("an empty language")
    return string(_simple(lexical), tag)


def skolem(*arguments: Value) -> Value:
    """RDFox's `SKOLEM`: a blank node that is the same for the same arguments."""
    digest = hashlib.blake2b("\n".join(argument.text for argument in arguments).encode(), digest_size=16)
    return Value(Kind.BLANK, f"s{digest.hexdigest()}")


# Moments -------------------------------------------------------------------------------------------------


def _moment(value: Value, *kinds: Kind) -> Moment:
    if value.kind not in kinds:
        raise ValueFault("no date or time")
    return value.native


def _part(name: str) -> Callable[[Value], Value]:
    def part(value: Value) -> Value:
        return number(getattr(_moment(value, Kind.DATETIME, Kind.DATE), name), Kind.INTEGER)

    return part


def _hours(value: Value) -> Value:
    return number(int(_moment(value, Kind.DATETIME, Kind.TIME).seconds // 3600), Kind.INTEGER)


def _minutes(value: Value) -> Value:
    return number(int(_moment(value, Kind.DATETIME, Kind.TIME).seconds // 60 % 60), Kind.INTEGER)


def _seconds(value: Value) -> Value:
    return number(decimal_of(_moment(value, Kind.DATETIME, Kind.TIME).seconds % 60), Kind.DECIMAL)


def _timezone(value: Value) -> Value:
    zone = _moment(value, Kind.DATETIME, Kind.DATE, Kind.TIME).zone
    if zone is None:
        raise ValueFault("no time zone")
    return Value(Kind.DURATION, Duration(0, Fraction(zone * 60)), f"{XSD}dayTimeDuration")


def _tz(value: Value) -> Value:
    zone = _moment(value, Kind.DATETIME, Kind.DATE, Kind.TIME).zone
    return string("" if zone is None else written_zone(zone))


# Casts ---------------------------------------------------------------------------------------------------


def cast(datatype: str) -> Callable[[Value], Value] | None:
    """The constructor function of a datatype; None if there is none."""
    if datatype == f"{XSD}string":
        return _cast_to_string
    reading = reader(datatype)
    if reading is None:
        return None
    kind, read = reading

    def convert(value: Value) -> Value:
        if value.kind in (Kind.STRING, Kind.OTHER):
            native = read(value.native)
        elif kind == Kind.BOOLEAN:
            native = value.native if value.kind == Kind.BOOLEAN else truth(_numeric(value))
        elif Kind.INTEGER <= kind <= Kind.DOUBLE:
            native = _as_number(value, kind)
            if kind == Kind.INTEGER and native is not None:
                native = read(str(native))
        elif value.kind == kind == Kind.DURATION:
            months, seconds = value.native
            native = Duration(
                0 if datatype.endswith("dayTimeDuration") else months,
                Fraction(0) if datatype.endswith("yearMonthDuration") else seconds,
            )
        elif value.kind == kind:
            native = value.native
        elif value.kind == Kind.DATETIME and kind == Kind.DATE:
            native = value.native._replace(seconds=Fraction(0))
        elif value.kind == Kind.DATETIME and kind == Kind.TIME:
            native = value.native._replace(year=1972, month=12, day=31)
        elif value.kind == Kind.DATE and kind == Kind.DATETIME:
            native = value.native
        else:
            native = None
        if native is None:
            raise ValueFault(f"no {datatype}")
        return Value(kind, native, datatype)

    return convert


def _as_number(value: Value, kind: Kind) -> int | Decimal | float | None:
    native = int(value.native) if value.kind == Kind.BOOLEAN else _numeric(value).native
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return number(native, kind).native
    if isinstance(native, float) and not math.isfinite(native):
        return None
    if kind == Kind.INTEGER:
        return number(math.trunc(native), kind).native
    return number(Decimal(repr(native)) if isinstance(native, float) else native, kind).native


def _cast_to_string(value: Value) -> Value:
    if value.kind in (Kind.FLOAT, Kind.DOUBLE):
        native = value.native
        if native == 0 or 1e-6 <= abs(native) < 1e6:
            if native == 0:
                return string("-0" if math.copysign(1, native) < 0 else "0")
            shortest = written_double(native, value.kind)
            return string(written_decimal(Decimal(shortest)))
        return string(written_double(native, value.kind))
    if value.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.BOOLEAN):
        return string(Value(value.kind, value.native, value.datatype).lexical)
    return _str(value)


# Tables --------------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[Callable[..., Value], int, int | None]] = {
    "=": (lambda a, b: boolean(equal(a, b)), 2, 2),
    "!=": (lambda a, b: boolean(not equal(a, b)), 2, 2),
    "<": (_compared(lambda d: d < 0), 2, 2),
    ">": (_compared(lambda d: d > 0), 2, 2),
    "<=": (_compared(lambda d: d <= 0), 2, 2),
    ">=": (_compared(lambda d: d >= 0), 2, 2),
    "+": (lambda a, b=None: sum_of(a, b) if b is not None else number(_numeric(a).native, a.kind), 1, 2),
    "-": (lambda a, b=None: _added(a, b, -1) if b is not None else _negative(a), 1, 2),
    "*": (_multiplied, 2, 2),
    "/": (quotient, 2, 2),
    "STR": (_str, 1, 1),
    "LANG": (_lang, 1, 1),
    "LANGMATCHES": (_language_matches, 2, 2),
    "DATATYPE": (_datatype, 1, 1),
    "ABS": (lambda a: number(abs(_numeric(a).native), a.kind), 1, 1),
    "CEIL": (_rounding(ROUND_CEILING), 1, 1),
    "FLOOR": (_rounding(ROUND_FLOOR), 1, 1),
    "ROUND": (_rounding(ROUND_HALF_UP), 1, 1),
    "CONCAT": (_concatenated, 0, None),
    "STRLEN": (lambda a: number(len(_text(a)), Kind.INTEGER), 1, 1),
    "UCASE": (lambda a: string(_text(a).upper(), a.language), 1, 1),
    "LCASE": (lambda a: string(_text(a).lower(), a.language), 1, 1),
    "ENCODE_FOR_URI": (lambda a: string(urllib.parse.quote(_text(a), safe="~")), 1, 1),
    "CONTAINS": (lambda a, b: boolean(operator.contains(*_pair(a, b))), 2, 2),
    "STRSTARTS": (lambda a, b: boolean(str.startswith(*_pair(a, b))), 2, 2),
    "STRENDS": (lambda a, b: boolean(str.endswith(*_pair(a, b))), 2, 2),
    "STRBEFORE": (_cut(True), 2, 2),
    "STRAFTER": (_cut(False), 2, 2),
    "SUBSTR": (_substring, 2, 3),
    "REGEX": (_regex, 2, 3),
    "REPLACE": (_replace, 3, 4),
    "YEAR": (_part("year"), 1, 1),
    "MONTH": (_part("month"), 1, 1),
    "DAY": (_part("day"), 1, 1),
    "HOURS": (_hours, 1, 1),
    "MINUTES": (_minutes, 1, 1),
    "SECONDS": (_seconds, 1, 1),
    "TIMEZONE": (_timezone, 1, 1),
    "TZ": (_tz, 1, 1),
    "MD5": (_hash("md5"), 1, 1),
    "SHA1": (_hash("sha1"), 1, 1),
    "SHA256": (_hash("sha256"), 1, 1),
    "SHA384": (_hash("sha384"), 1, 1),
    "SHA512": (_hash("sha512"), 1, 1),
    "STRLANG": (_tagged, 2, 2),
    "STRDT": (_typed, 2, 2),
    "SAMETERM": (lambda a, b: boolean(a.text == b.text), 2, 2),
    "ISIRI": (lambda a: boolean(a.kind == Kind.IRI), 1, 1),
    "ISURI": (lambda a: boolean(a.kind == Kind.IRI), 1, 1),
    "ISBLANK": (lambda a: boolean(a.kind == Kind.BLANK), 1, 1),
    "ISLITERAL": (lambda a: boolean(a.is_literal), 1, 1),
    "ISNUMERIC": (lambda a: boolean(a.is_numeric), 1, 1),
    "SKOLEM": (skolem, 1, None),
}
"""Functions of the values of their arguments alone, by name: the function, the fewest and most arguments."""
