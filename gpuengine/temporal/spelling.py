"""Exact times, ranges and constants as text, and back.

A time is a rational number. Whole numbers and decimals are written as such where they are exact, else as
fractions. A duration such as ``2h30m`` is a number of seconds. A timestamp is one too, since 1970.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from gpuengine.temporal.syntax import Interval

_UNITS = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
    "w": Fraction(604800),
}
DURATION = r"(?:\d+(?:\.\d+)?(?:ns|us|ms|[smhdw]))+(?![A-Za-z0-9_])"
NUMBER = r"\d+(?:\.\d+)?(?:/\d+)?|\.\d+"
_NUMBER = re.compile(rf"([+-]?)({NUMBER})")
_DURATION = re.compile(rf"([+-]?)({DURATION})")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|[smhdw])")
STAMP = r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?(Z|[+-]\d\d:?\d\d)?"
_STAMP = re.compile(STAMP)
_PLAIN = re.compile(r"[A-Za-z_0-9.+:/#-]*[A-Za-z_0-9/#-]|[A-Za-z_0-9]")
_IN_RULE = re.compile(r"[a-z]\w*|\d+(?:\.\d+)?")
_LONGEST_NUMBER = 100
"""So many characters are enough for any time that fits 64 bits, and for any constant that is compared."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number_of(text: str) -> Fraction | None:
    """The number or duration that a text is, None if it is neither.

    A zero denominator is None too, and what has more digits than anything that could be computed with.
    """
    if len(text) > _LONGEST_NUMBER:
        return None
    spelt = _NUMBER.fullmatch(text)
    if spelt is not None:
        try:
            value = Fraction(spelt[2]) if "." not in spelt[2] or "/" not in spelt[2] else _ratio(spelt[2])
        except ZeroDivisionError:
            return None
        return -value if spelt[1] == "-" else value
    spelt = _DURATION.fullmatch(text)
    if spelt is None:
        return None
    value = sum((Fraction(n) * _UNITS[unit] for n, unit in _PART.findall(spelt[2])), Fraction(0))
    return -value if spelt[1] == "-" else value


def _ratio(text: str) -> Fraction:
    over, _, under = text.partition("/")
    return Fraction(over) / Fraction(under)


def timestamp_of(text: str) -> Fraction | None:
    """Seconds since 1970 of an ISO 8601 text, None if it is none. Without a zone it is UTC."""
    spelt = _STAMP.fullmatch(text.strip())
    if spelt is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = spelt.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC
        )
    except ValueError:
        return None
    value = Fraction(int((moment - _EPOCH).total_seconds()))
    if fraction:
        value += Fraction(int(fraction), 10 ** len(fraction))
    if zone and zone != "Z":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        value -= (60 if zone[0] == "+" else -60) * minutes
    return value


def time_text(value: Fraction, *, as_timestamp: bool = False) -> str:
    """A time as a person would write it, exactly."""
    if as_timestamp:
        return timestamp_text(value)
    if value.denominator == 1:
        return str(value.numerator)
    digits = decimal_digits(value.denominator)
    if digits is None:
        return f"{value.numerator}/{value.denominator}"
    scaled = abs(value.numerator) * (10**digits // value.denominator)
    whole, rest = divmod(scaled, 10**digits)
    return f"{'-' if value < 0 else ''}{whole}.{rest:0{digits}d}"


def timestamp_text(value: Fraction) -> str:
    """A time as ISO 8601; what has no exact decimal of a second stays a fraction of seconds."""
    whole = value.numerator // value.denominator
    rest = value - whole
    digits = decimal_digits(rest.denominator)
    if digits is None:
        return f"{value.numerator}/{value.denominator}"
    moment = (_EPOCH + timedelta(seconds=whole)).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{int(rest * 10**digits):0{digits}d}Z" if digits else f"{moment}Z"


def decimal_digits(denominator: int) -> int | None:
    """How many decimals a fraction with this denominator takes, None if no number of them is exact."""
    twos = fives = 0
    while denominator % 2 == 0:
        denominator //= 2
        twos += 1
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    return max(twos, fives) if denominator == 1 else None


def range_text(range: Interval, *, as_timestamp: bool = False) -> str:
    """``[0,2.5)``; infinite ends are open."""
    low = "(-inf" if range.lower is None else "(["[not range.lower_open]
    low += "" if range.lower is None else time_text(range.lower, as_timestamp=as_timestamp)
    high = "inf)" if range.upper is None else time_text(range.upper, as_timestamp=as_timestamp)
    high += "" if range.upper is None else ")]"[not range.upper_open]
    return f"{low},{high}"


def constant_text(text: str, *, in_rule: bool = False) -> str:
    """A constant as facts (or rules, where upper case begins variables) have it: quoted if it must be."""
    if (_IN_RULE if in_rule else _PLAIN).fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
