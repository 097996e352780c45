"""Columns of values as Arrow's types, where all values are of one kind."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

from gpuengine.rdf.values import Kind, Value

_PLAIN = frozenset((Kind.IRI, Kind.BLANK))
_TEXTS = frozenset((Kind.STRING, Kind.LANGUAGE))
_EXACT = frozenset((Kind.INTEGER, Kind.DECIMAL))
_NUMBERS = _EXACT | {Kind.FLOAT, Kind.DOUBLE}


def typed_column(values: Sequence[Value]) -> pa.Array:
    """One entry for each value; N-Triples forms where no other type has them all."""
    kinds = {value.kind for value in values}
    try:
        if kinds <= _PLAIN:
            return pa.array([v.native if v.kind == Kind.IRI else v.text for v in values], pa.string())
        if kinds <= _TEXTS:
            return pa.array([value.native for value in values], pa.string())
        if kinds == {Kind.BOOLEAN}:
            return pa.array([value.native for value in values], pa.bool_())
        if kinds == {Kind.INTEGER}:
            return pa.array([value.native for value in values], pa.int64())
        if kinds <= _EXACT:
            return pa.array([Decimal(value.native) for value in values])
        if kinds <= _NUMBERS:
            return pa.array([float(value.native) for value in values], pa.float64())
        if kinds == {Kind.DATE} and all(value.native.zone is None for value in values):
            dates = [datetime.date(v.native.year, v.native.month, v.native.day) for v in values]
            return pa.array(dates, pa.date32())
        if kinds == {Kind.DATETIME}:
            return _moments(values)
    except (pa.ArrowInvalid, OverflowError, ValueError):
        # Too large for the type.
        pass
    return pa.array([value.text for value in values], pa.string())


def _moments(values: Sequence[Value]) -> pa.Array:
    zoned = {value.native.zone is not None for value in values}
    microseconds = [value.native.timeline() * 1_000_000 for value in values]
    beyond = any(not 1 < value.native.year < 9999 for value in values)
    if beyond or len(zoned) > 1 or any(moment.denominator != 1 for moment in microseconds):
        raise ValueError("moments with and without a zone, too exact, or of years that others can't show")
    kind = pa.timestamp("us", "UTC" if zoned == {True} else None)
    return pa.array([int(moment) for moment in microseconds], pa.int64()).cast(kind)
