"""The aggregates of SPARQL on columns: GROUP BY of queries, and AGGREGATE of RDFox's rules."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

from gpuengine.rdf.expressions import UNBOUND, Column
from gpuengine.rdf.functions import order_key, quotient
from gpuengine.rdf.values import EXACT, Kind, Value, ValueFault, as_float, number, string


def ranks(values: list[Value]) -> np.ndarray:
    """The place of each value in the order of ORDER BY; values that it does not tell apart have the same."""
    keys = [order_key(value) for value in values]
    places = {key: place for place, key in enumerate(sorted(set(keys)))}
    return np.array([places[key] for key in keys], np.int64)


def count(groups: np.ndarray, size: int, codes: np.ndarray | None) -> list[Value]:
    """COUNT of the rows of each group; of those that have a value if there is a column."""
    rows = groups if codes is None else groups[codes >= 0]
    return [number(total, Kind.INTEGER) for total in np.bincount(rows, minlength=size).tolist()]


def aggregate(function: str, values: pa.Array, groups: np.ndarray, size: int) -> pa.Array:
    """An aggregate of texts of terms for each of `size` groups; null where it is an error."""
    results = aggregate_column(function, Column.of_texts(values), groups, size)
    return pa.array([None if value is None else value.text for value in results], pa.large_string())


def aggregate_column(
    function: str, column: Column, groups: np.ndarray, size: int, separator: str = " "
) -> list[Value | None]:
    """One value for each of `size` groups; None where the aggregate is an error."""
    bound = column.codes >= 0
    codes = column.codes[bound]
    rows = groups[bound]
    if function == "COUNT":
        return list(count(groups, size, column.codes))
    values = list(column.values)
    if function == "SAMPLE":
        best = np.full(size, UNBOUND, np.int64)
        best[rows[::-1]] = codes[::-1]
        return [None if code < 0 else values[code] for code in best.tolist()]
    if function in ("SUM", "AVG"):
        results = _totals(function, rows, size, codes, values)
    elif function == "GROUP_CONCAT":
        results = _texts(separator, rows, size, codes, values)
    else:
        results = _extremes(function, rows, size, codes, values)
    # One row without a value, and the aggregate has none.
    failed = np.bincount(groups[~bound], minlength=size) > 0
    return [None if bad else value for value, bad in zip(results, failed.tolist(), strict=True)]


def _extremes(
    function: str, rows: np.ndarray, size: int, codes: np.ndarray, values: list[Value]
) -> list[Value | None]:
    """MIN and MAX, in the order of ORDER BY."""
    place = ranks(values)
    if function == "MAX":
        place = -place
    order = np.lexsort((place[codes], rows))
    best = np.full(size, UNBOUND, np.int64)
    best[rows[order][::-1]] = codes[order][::-1]
    return [None if code < 0 else values[code] for code in best.tolist()]


def _texts(
    separator: str, rows: np.ndarray, size: int, codes: np.ndarray, values: list[Value]
) -> list[Value | None]:
    """GROUP_CONCAT; a blank node has no text."""
    texts: list[str | None] = [None if value.kind == Kind.BLANK else value.lexical for value in values]
    order = np.argsort(rows, kind="stable")
    borders = np.searchsorted(rows[order], np.arange(size + 1))
    listed = codes[order].tolist()
    result: list[Value | None] = []
    for group in range(size):
        parts = [texts[code] for code in listed[borders[group] : borders[group + 1]]]
        whole = [part for part in parts if part is not None]
        result.append(None if len(whole) < len(parts) else string(separator.join(whole)))
    return result


def _totals(
    function: str, rows: np.ndarray, size: int, codes: np.ndarray, values: list[Value]
) -> list[Value | None]:
    """SUM and AVG: exact for integers and decimals, in doubles where one is among the numbers."""
    used = np.unique(codes)
    kinds = np.zeros(len(values), np.int64)
    floats = np.zeros(len(values), np.float64)
    scaled: list[int] = [0] * len(values)
    digits = max((_digits(values[code].native) for code in used.tolist()), default=0)
    for code in used.tolist():
        value = values[code]
        if value.is_numeric:
            kinds[code] = value.kind
            floats[code] = as_float(value.native)
            if value.kind <= Kind.DECIMAL:
                scaled[code] = int(Fraction(value.native) * 10**digits)
    largest = max(map(abs, scaled), default=0)
    whole = np.array(scaled, np.int64 if largest * max(1, len(codes)) < 2**62 else object)
    order = np.argsort(rows, kind="stable")
    ordered = codes[order]
    present, begin = np.unique(rows[order], return_index=True)
    result: list[Value | None] = [number(0, Kind.INTEGER)] * size
    if len(present):
        highest = np.maximum.reduceat(kinds[ordered], begin)
        lowest = np.minimum.reduceat(kinds[ordered], begin)
        exact = np.add.reduceat(whole[ordered], begin)
        rough = np.add.reduceat(floats[ordered], begin)
        counts = np.diff(np.append(begin, len(ordered)))
        for place, group in enumerate(present.tolist()):
            if lowest[place] == 0:
                result[group] = None
                continue
            result[group] = _total(
                Kind(int(highest[place])), int(exact[place]), digits, float(rough[place]),
                int(counts[place]) if function == "AVG" else None,
            )  # fmt: skip
    return result


def _total(kind: Kind, exact: int, digits: int, rough: float, parts: int | None) -> Value | None:
    try:
        if kind == Kind.INTEGER:
            total = number(exact // 10**digits, kind)
        elif kind == Kind.DECIMAL:
            total = number(Decimal(exact).scaleb(-digits, EXACT), kind)
        else:
            total = number(rough, kind)
        return total if parts is None else quotient(total, number(parts, Kind.INTEGER))
    except ValueFault:
        return None


def _digits(native: object) -> int:
    if not isinstance(native, Decimal):
        return 0
    exponent = native.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
