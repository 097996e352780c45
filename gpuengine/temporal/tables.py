"""Temporal facts of tables: Arrow, rows of Python, and files of columns; times of every kind, exactly."""

from __future__ import annotations

import csv
import datetime as dates
import decimal
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.errors import DataError
from gpuengine.kernels.timeline import INFINITY, LARGEST, MINUS_INFINITY
from gpuengine.temporal.encoding import overflow, worst_of
from gpuengine.temporal.facts import (
    MAX_MESSAGES,
    TABLE_SUFFIXES,
    GivenFacts,
    Problems,
    content_of,
    first_line,
    read_lines,
    suffix_of,
)
from gpuengine.temporal.spelling import number_of, timestamp_of
from gpuengine.terms.text import Text, from_arrow

if TYPE_CHECKING:
    import pyarrow as pa

STREAM = "<stdin>"
TIME_COLUMNS = ("start", "end", "start_closed", "end_closed")


def from_table(
    predicate: str,
    table: pa.Table,
    arity: int | None,
    where: str,
    problems: Problems,
    *,
    timestamps: bool = False,
) -> GivenFacts:
    """Facts of an Arrow table: arguments, and times as `_Layout` finds them."""
    import pyarrow as pa

    try:
        return _from_table(predicate, table, arity, where, problems, timestamps)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise DataError(f"{where}: {error}") from error


def _from_table(
    predicate: str, table: pa.Table, arity: int | None, where: str, problems: Problems, timestamps: bool
) -> GivenFacts:
    layout = _Layout.of(table, predicate, arity, where)
    start = _times(table.column(layout.start), timestamps)
    end = _times(table.column(layout.end), timestamps)
    start_closed = _flags(table, layout.start_closed, where)
    end_closed = _flags(table, layout.end_closed, where)
    if not start.missing.all() and not end.missing.all() and (start.stamp is None) != (end.stamp is None):
        raise DataError(
            f"{where}: timestamps and plain numbers as ends of one interval\n"
            "  hint: give both ends as timestamps, or both as numbers"
        )
    scale = math.lcm(start.scale, end.scale)
    low, low_bad = start.encoded(scale, MINUS_INFINITY)
    up, up_bad = end.encoded(scale, INFINITY)
    low = np.where((low != MINUS_INFINITY) & ~start_closed, low + 1, low)
    up = np.where((up != INFINITY) & ~end_closed, up - 1, up)
    bad = low_bad | up_bad | (low > up)
    for row in np.flatnonzero(bad).tolist():
        shown = [table.column(k)[row].as_py() for k in (layout.start, layout.end)]
        what = "no time" if low_bad[row] or up_bad[row] else "the interval holds no time"
        problems.add(f"{where}: row {row + 1}: {what}: {shown[0]}, {shown[1]}")
    texts = [_text_column(table.column(j), where) for j in layout.arguments]
    if bad.any():
        kept = ~bad
        low, up = low[kept], up[kept]
        texts = [text.take(np.flatnonzero(kept)) for text in texts]
    problems.check()
    return GivenFacts(predicate, texts, low, up, scale, start.stamp or end.stamp)


@dataclass(frozen=True)
class _Layout:
    """Which columns are which: by the names start, end, start_closed and end_closed, or by their places."""

    arguments: list[int]
    start: int
    end: int
    start_closed: int | None = None
    end_closed: int | None = None

    @staticmethod
    def of(table: pa.Table, predicate: str, arity: int | None, where: str) -> _Layout:
        places = {name.lower(): place for place, name in reversed(list(enumerate(table.column_names)))}
        width = len(table.column_names)
        if "start" in places and "end" in places:
            layout = _Layout([], *(places.get(name) for name in TIME_COLUMNS))  # type: ignore[arg-type]
        elif (arity is not None and width == arity + 4) or {"start_closed", "end_closed"} <= places.keys():
            layout = _Layout([], width - 4, width - 3, width - 2, width - 1)
        else:
            layout = _Layout([], width - 2, width - 1)
        times = (layout.start, layout.end, layout.start_closed, layout.end_closed)
        arguments = [place for place in range(width) if place not in times]
        if layout.start < 0 or (arity is not None and len(arguments) != arity):
            expected = f"{arity} arguments, " if arity is not None else "arguments, "
            raise DataError(
                f"{where}: {width} columns; {predicate} has {expected}then start and end, and perhaps "
                "start_closed and end_closed"
            )
        return replace(layout, arguments=arguments)


@dataclass
class _Times:
    """A column of times: whole numbers of 1 / `scale`; missing ones are infinite, bad ones no times.

    `signs` are those of infinities that were written out, else 0.
    """

    values: np.ndarray
    missing: np.ndarray
    bad: np.ndarray
    scale: int
    stamp: Any = None
    signs: np.ndarray | None = None

    def encoded(self, scale: int, infinity: int) -> tuple[np.ndarray, np.ndarray]:
        factor = 2 * (scale // self.scale)
        largest = int(np.abs(self.values[~self.missing & ~self.bad]).max(initial=0))
        if largest * factor >= LARGEST:
            raise overflow(Fraction(largest, self.scale), scale)
        bad = self.bad if self.signs is None else self.bad | (self.signs == -np.sign(infinity))
        return np.where(self.missing, infinity, self.values * factor), bad


def _times(column: Any, timestamps: bool) -> _Times:
    import pyarrow as pa

    array = _one_chunk(column)
    type = array.type
    missing = _missing(array)
    nothing = np.zeros(len(array), np.bool_)
    if pa.types.is_integer(type):
        return _Times(_integers(array), missing, nothing, 1)
    if pa.types.is_timestamp(type):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type.unit]
        values = _integers(array)
        # Whole seconds, as most are, need no finer unit.
        common = math.gcd(per_second, int(np.gcd.reduce(values[~missing], initial=0)))
        return _Times(values // common, missing, nothing, per_second // common, type)
    if pa.types.is_date(type):
        return _Times(_integers(array.cast(pa.timestamp("s"))), missing, nothing, 1, pa.timestamp("s"))
    if (pa.types.is_string(type) or pa.types.is_large_string(type)) and not timestamps:
        return _text_times(array, missing)
    return _other_times(array, missing, timestamps)


def _one_chunk(column: Any) -> Any:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _missing(array: Any) -> np.ndarray:
    # Asking Arrow for more than the count imports its compute functions, which takes longer than small runs.
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _integers(array: Any) -> np.ndarray:
    """The numbers behind integers or timestamps, 0 for nulls."""
    import pyarrow as pa

    plain = array if array.type == pa.int64() else array.cast(pa.int64())
    if plain.null_count:
        plain = plain.fill_null(0)
    return np.asarray(plain.to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def _text_times(array: Any, missing: np.ndarray) -> _Times:
    """Text: plain numbers by a kernel, all other forms one by one."""
    from gpuengine.kernels.cpu import fact_text as kernel

    if missing.any():
        array = array.fill_null("")
    text = from_arrow(array)
    count = len(text)
    words, values = np.empty(2 * count + 3, np.int64), np.empty(count, np.int64)
    status = np.empty(count, np.uint8)
    if kernel.scan_times(text.starts, text.ends, text.data, count, words, values, status):
        # Infinity, fractions, durations, nothing at all, and what is no time.
        return _other_times(array, missing, timestamps=False)
    digits, kinds = words[:count], words[count : 2 * count]
    most = int(digits.max(initial=0))
    if most:
        largest = int(np.abs(values).max(initial=0))
        if largest * 10**most >= LARGEST:
            raise overflow(Fraction(largest, 10**most), 10**most)
        values = values * np.power(10, most - digits)
    is_infinite = kinds == kernel.INFINITE
    signs = np.where(is_infinite, np.sign(values), 0)
    return _Times(values, missing | is_infinite, np.zeros(count, np.bool_), 10**most, signs=signs)


def _other_times(array: Any, missing: np.ndarray, timestamps: bool) -> _Times:
    """Text, floats, decimals and objects: each distinct one read once."""
    import pyarrow as pa

    encoded = array.dictionary_encode() if not pa.types.is_dictionary(array.type) else array
    values = encoded.dictionary.to_pylist()
    times = [time_of(value, timestamps=timestamps) for value in values]
    exact = [time if isinstance(time, Fraction) else Fraction(0) for time in times]
    codes = _integers(encoded.indices)
    scale = math.lcm(1, *{time.denominator for time in exact})
    scaled = [time.numerator * (scale // time.denominator) for time in exact]
    if any(abs(value) >= LARGEST for value in scaled):
        raise overflow(worst_of(exact), scale)
    amounts = np.array([*scaled, 0], np.int64)[codes]
    is_infinite = np.array([*(isinstance(time, float) for time in times), True], np.bool_)[codes]
    is_bad = np.array([*(time is None for time in times), False], np.bool_)[codes]
    stamp = pa.timestamp("us", "UTC") if timestamps else None
    # An empty text says infinity without saying which.
    signs = [
        math.copysign(1, time) if isinstance(time, float) and value != "" else 0
        for value, time in zip(values, times, strict=True)
    ]
    signed = np.array([*signs, 0], np.int64)[codes]
    return _Times(amounts, missing | is_infinite, is_bad & ~missing, scale, stamp, signed)


def time_of(value: Any, *, timestamps: bool = False) -> Fraction | float | None:
    """The time that a value is: a rational, an infinity, or None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Fraction | decimal.Decimal):
        return Fraction(value)
    if isinstance(value, float):
        return value if math.isinf(value) else None if math.isnan(value) else Fraction(value)
    if isinstance(value, dates.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dates.UTC)
        since = moment - dates.datetime(1970, 1, 1, tzinfo=dates.UTC)
        return Fraction(since.days * 86400 + since.seconds) + Fraction(since.microseconds, 10**6)
    if isinstance(value, dates.date):
        return Fraction((value - dates.date(1970, 1, 1)).days * 86400)
    if isinstance(value, str):
        text = value.strip()
        if text in ("inf", "+inf", ""):
            return math.inf
        if text == "-inf":
            return -math.inf
        return timestamp_of(text) if timestamps else number_of(text)
    return None


def _flags(table: Any, column: int | None, where: str) -> np.ndarray:
    import pyarrow as pa

    if column is None:
        return np.ones(table.num_rows, np.bool_)
    array = table.column(column)
    if not pa.types.is_boolean(array.type):
        truth = {"true": True, "1": True, "false": False, "0": False, "": True}
        texts = array.cast(pa.string()).to_pylist()
        wrong = [text for text in texts if text is not None and text.lower() not in truth]
        if wrong:
            raise DataError(
                f"{where}: {wrong[0]!r} does not say whether an end is closed\n  hint: true or false"
            )
        return np.array([True if text is None else truth[text.lower()] for text in texts], np.bool_)
    truth = _one_chunk(array)
    return np.asarray((truth.fill_null(True) if truth.null_count else truth).to_numpy(zero_copy_only=False))


def _text_column(column: Any, where: str) -> Text:
    import pyarrow as pa

    array = _one_chunk(column)
    if array.null_count:
        raise DataError(f"{where}: a constant is null\n  hint: only start and end may be null, for infinity")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = array.cast(pa.string())
    return from_arrow(array)


def table_of_rows(predicate: str, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Python rows as a table; times become text, exactly, or timestamps if all are."""
    import pyarrow as pa

    listed = [tuple(row) for row in rows]
    widths = {len(row) for row in listed}
    if len(widths) > 1:
        raise DataError(f"{predicate}: rows of {min(widths)} and of {max(widths)} values")
    width = widths.pop() if widths else 0
    closed = width >= 4 and all(isinstance(v, bool) for row in listed for v in row[-2:])
    arity = width - (4 if closed else 2)
    if listed and arity < 0:
        raise DataError(f"{predicate}: a row has arguments, then start and end; this one is {listed[0]!r}")
    arrays = [pa.array([str(row[j]) for row in listed], pa.string()) for j in range(max(arity, 0))]
    names = [f"a{j}" for j in range(max(arity, 0))]
    for j in (arity, arity + 1) if listed else ():
        arrays.append(_time_array([row[j] for row in listed]))
    if closed:
        arrays += [pa.array([row[j] for row in listed], pa.bool_()) for j in (width - 2, width - 1)]
    return pa.table(
        arrays, names=[*names, "start", "end", *(["start_closed", "end_closed"] if closed else [])]
    )


def _time_array(values: list[Any]) -> Any:
    import pyarrow as pa

    present = [value for value in values if value is not None]
    if present and all(isinstance(value, dates.date) for value in present):
        return pa.array(list(map(_moment, values)), pa.timestamp("us", "UTC"))
    if all(type(value) is int and abs(value) < 2**62 for value in present):
        return pa.array(values, pa.int64())
    texts = []
    for value in values:
        time = None if value is None else time_of(value)
        texts.append(None if value is None else str(value) if time is None else _exact_text(time))
    return pa.array(texts, pa.string())


def _moment(day: dates.date | None) -> dates.datetime | None:
    """A date as the moment at which it begins."""
    if day is None or isinstance(day, dates.datetime):
        return day
    return dates.datetime.combine(day, dates.time(), dates.UTC)


def _exact_text(time: Fraction | float) -> str:
    if isinstance(time, float):
        return "inf" if time > 0 else "-inf"
    return f"{time.numerator}/{time.denominator}" if time.denominator != 1 else str(time.numerator)


def read_table(
    path: Path, predicate: str, arity: int | None, problems: Problems, *, timestamps: bool = False
) -> GivenFacts:
    """The facts of a CSV, TSV, Parquet or Arrow file."""
    suffix = suffix_of(path)
    if suffix in (".csv", ".tsv"):
        table = _read_delimited(path, "," if suffix == ".csv" else "\t", predicate, problems, timestamps)
    else:
        from gpuengine.io.columnar import read_columns
        from gpuengine.io.options import Format

        format = Format.PARQUET if suffix in (".parquet", ".pq") else Format.ARROW
        table = read_columns(path, format, relation=predicate)
    return from_table(predicate, table, arity, str(path), problems, timestamps=timestamps)


def read_named(
    path: Path, predicate: str, arity: int | None, problems: Problems, *, timestamps: bool = False
) -> list[GivenFacts]:
    """The facts that a file has of one predicate: a table, or lines of text that all name it."""
    if suffix_of(path) in TABLE_SUFFIXES:
        return [read_table(path, predicate, arity, problems, timestamps=timestamps)]
    return _read_text(content_of(path), predicate, arity, str(path), problems, timestamps)


def read_stream(
    data: bytes, predicate: str, arity: int | None, problems: Problems, *, timestamps: bool = False
) -> list[GivenFacts]:
    """The facts of one predicate in a stream without a name: lines of text with ``@``, else TSV or CSV."""
    first = data.lstrip().split(b"\n", 1)[0]
    if not first:
        return []
    if b"@" in first:
        return _read_text(data, predicate, arity, STREAM, problems, timestamps)
    delimiter = "\t" if b"\t" in first else ","
    table = _parse_delimited(data, delimiter, first.decode(errors="replace"), problems, timestamps)
    return [from_table(predicate, table, arity, STREAM, problems, timestamps=timestamps)]


def _read_text(
    data: bytes, predicate: str, arity: int | None, where: str, problems: Problems, timestamps: bool
) -> list[GivenFacts]:
    arities = {} if arity is None else {predicate: arity}
    given = read_lines(data, where, problems, arities, timestamps=timestamps)
    others = sorted({facts.predicate for facts in given} - {predicate})
    if others:
        raise DataError(
            f"{where} has facts of {', '.join(others)}, but those of {predicate} were asked for\n"
            "  hint: name the file without a predicate to take all that it has"
        )
    return given


def _header(line: str, delimiter: str, timestamps: bool) -> tuple[list[str], bool]:
    """The names of the columns by the first line, and whether it is a header: its times are none."""
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    says_closed = len(cells) >= 4 and all(cell.lower() in ("true", "false") for cell in cells[-2:])
    times = cells[-4:-2] if says_closed else cells[-2:]
    is_header = not any(cell and time_of(cell, timestamps=timestamps) is not None for cell in times)
    names = cells if is_header else [f"c{j}" for j in range(len(cells))]
    if says_closed and not is_header:
        names[-2:] = TIME_COLUMNS[2:]
    return names, is_header


def _parse_delimited(data: bytes, delimiter: str, line: str, problems: Problems, timestamps: bool) -> Any:
    """The rows of a stream, every column as text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, is_header = _header(line.rstrip("\r"), delimiter, timestamps)
    names = _distinct(names)

    def bad(row: Any) -> str:
        problems.add(
            f"{STREAM}: {row.actual_columns} columns, not {row.expected_columns}: {(row.text or '').strip()}"
        )
        return "skip"

    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            arrow_csv.ReadOptions(column_names=names, skip_rows=int(is_header), use_threads=False),
            arrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=bad),
            arrow_csv.ConvertOptions(column_types={name: pa.string() for name in names}),
        )
    except pa.ArrowException as error:
        raise DataError(f"{STREAM}: {error}") from error
    problems.check()
    return table


def _read_delimited(path: Path, delimiter: str, predicate: str, problems: Problems, timestamps: bool) -> Any:
    """Every column as text. A first row whose times are none is a header."""
    from gpuengine.io.read import read_facts
    from gpuengine.language.program import SYMBOL, Attribute

    names, is_header = _header(first_line(path), delimiter, timestamps)
    facts = read_facts(
        path,
        [Attribute(name, SYMBOL) for name in names],
        {"delimiter": delimiter, "rfc4180": "true", "headers": "true" if is_header else "false"},
        relation=predicate,
        on_error=problems.on_error,
    )
    problems.skipped += facts.skipped
    problems.messages += list(facts.first_errors)[: MAX_MESSAGES - len(problems.messages)]
    return facts.table.rename_columns(_distinct(names))


def _distinct(names: Sequence[str]) -> list[str]:
    return [name if names.index(name) == j else f"{name}_{j}" for j, name in enumerate(names)]
