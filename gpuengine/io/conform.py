"""Arrow tables of other types and orders to the table of a relation, exactly or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from gpuengine.errors import DataError
from gpuengine.io.admission import NULLS_HINT, PLAIN, Admission
from gpuengine.io.convert import shown
from gpuengine.io.logical import advice, takes, to_numbers, value_of_object
from gpuengine.io.options import pick_columns
from gpuengine.io.schema import (
    ANY_TEXT,
    MAX_MESSAGES,
    NESTED,
    TEXTUAL,
    Facts,
    NestedTerms,
    arrow_type,
    nullary,
)
from gpuengine.language.program import Attribute, Type
from gpuengine.limits import charge

_SLICE = 4096  # rows that are looked at one by one when a cast of them fails
_MAX_STRING_BYTES = 2**31 - 1


@dataclass(slots=True)
class Place:
    """Where a table comes from (``edge.parquet: edge`` or ``edge``), and what becomes of its bad values."""

    name: str
    relation: str
    skip_bad_rows: bool = False
    terms: NestedTerms = ANY_TEXT
    admission: Admission = PLAIN
    bad_rows: dict[int, str] = field(default_factory=dict)  # row -> message

    def note(self, row: int, column: int, attribute: Attribute, reason: str) -> None:
        """Remember a bad value, or raise `DataError`."""
        where = f"row {row} (counted from 0), column {column + 1} ({attribute.name}: {attribute.type.name})"
        message = f"{self.name}: {where}: {reason}"
        if not self.skip_bad_rows:
            raise DataError(f"{message}\n  hint: {NULLS_HINT}" if reason.startswith("null;") else message)
        self.bad_rows.setdefault(row, message)


def conform(
    table: pa.Table,
    attributes: Sequence[Attribute],
    place: Place,
    *,
    columns: tuple[int, ...] | None = None,
) -> Facts:
    """`table` with the relation's columns, names and types.

    Values change type only where that loses nothing. Raises `DataError` for the first bad value, or
    leaves bad rows out and counts them; columns of a wrong type altogether always raise.
    """
    if not attributes:
        return Facts(nullary(table.num_rows > 0))
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise DataError(f"{place.name}: damaged Arrow data: the name of a column is not UTF-8") from error
    picked = pick_columns(names, [a.name for a in attributes], columns, place.name, relation=place.relation)
    result = [conform_column(table.column(i), i, a, place) for i, a in zip(picked, attributes, strict=True)]
    schema = pa.schema([pa.field(a.name, c.type) for a, c in zip(attributes, result, strict=True)])
    conformed = pa.Table.from_arrays(result, schema=schema)
    facts = _without(place.bad_rows, conformed) if place.bad_rows else Facts(conformed)
    facts.table = place.admission.settle(facts.table, attributes, place.name)
    return facts


def check_columns(table: pa.Table, where: str) -> None:
    """Raise `DataError` if the offsets, indexes or text of a table could lead outside its buffers."""
    try:
        names = table.column_names
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: damaged Arrow data: the name of a column is not UTF-8") from error
    for name, column in zip(names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError(f"{where}: column {name}: damaged Arrow data: {error}") from error


def _without(bad: dict[int, str], table: pa.Table) -> Facts:
    import numpy as np

    keep = np.ones(table.num_rows, bool)
    keep[list(bad)] = False
    messages = [bad[row] for row in sorted(bad)[:MAX_MESSAGES]]
    return Facts(table.filter(pa.array(keep)), len(bad), messages)


def conform_column(
    column: pa.ChunkedArray, index: int, attribute: Attribute, place: Place
) -> pa.ChunkedArray:
    """`column` in the attribute's type; bad values are noted in `place`, some of which become null, and nulls
    that are admitted stay for `Admission.settle`.

    Nothing is read of a column whose offsets, indexes or text could lead outside its buffers.
    """
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        where = f"column {index + 1} ({attribute.name}: {attribute.type.name})"
        raise DataError(f"{place.name}: {where}: damaged Arrow data: {error}") from error
    converted = _converted(column, index, attribute, place)
    if attribute.type.kind in NESTED:
        # What is null has been noted before, and the first note about a row counts; or it is admitted.
        texts = converted.fill_null("") if converted.null_count else converted
        admitted = converted.null_count > 0 and place.admission.admits(attribute)
        first_only = not place.skip_bad_rows and not admitted
        bad = place.terms.bad_values(attribute.type.space, texts, first_only=first_only)
        for row, reason in bad.items():
            if not admitted or converted[row].is_valid:
                place.note(row, index, attribute, f"{shown(texts[row].as_py())} {reason}")
    return converted


def _converted(column: pa.ChunkedArray, index: int, attribute: Attribute, place: Place) -> pa.ChunkedArray:
    target = arrow_type(attribute.type)
    if len(column) == 0:
        return pa.chunked_array([], target)
    column = place.admission.without_dates(_without_view_dictionaries(column), attribute)
    _check_type(column, index, attribute, place)
    if column.null_count == 0 or place.admission.admits(attribute):
        if (column.type == target and not attribute.type.logical) or _too_large_for_string(column):
            return column
        charge(_bytes_as(column, target), f"{place.name}: {attribute.name} as {target}")
        try:
            return _cast(column, attribute.type)
        except pa.ArrowInvalid:
            pass
    pieces = [
        _piece(column.slice(start, _SLICE), start, index, attribute, place)
        for start in range(0, len(column), _SLICE)
    ]
    return pa.chunked_array([chunk for piece in pieces for chunk in piece.chunks], target)


def _cast(column: pa.ChunkedArray, type: Type) -> pa.ChunkedArray:
    """Raises `pa.ArrowInvalid` if some values do not fit, or must be looked at one by one."""
    if not type.logical or pt.is_null(column.type):
        return column.cast(arrow_type(type))
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return to_numbers(column, type)


def _piece(
    piece: pa.ChunkedArray, start: int, index: int, attribute: Attribute, place: Place
) -> pa.ChunkedArray:
    target = arrow_type(attribute.type)
    admitted = place.admission.admits(attribute)
    if piece.null_count == 0 or admitted:
        try:
            return _cast(piece, attribute.type)
        except pa.ArrowInvalid:
            pass
    values: list[int | float | str | None] = []
    for row, value in enumerate(_objects(piece), start):
        try:
            values.append(None if value is None and admitted else value_of_object(value, attribute.type))
        except ValueError as error:
            place.note(row, index, attribute, str(error))
            values.append(None)
    return pa.chunked_array([pa.array(values, target)])


def _objects(piece: pa.ChunkedArray) -> list[Any]:
    try:
        return list(piece.to_pylist())
    except (ValueError, OverflowError):  # moments before the year 1 or after 9999, which Python has not
        return list(piece.cast(pa.string()).to_pylist())


def _check_type(column: pa.ChunkedArray, index: int, attribute: Attribute, place: Place) -> None:
    if _castable(column.type, attribute.type):
        return
    row = next((i for i in range(len(column)) if column[i].is_valid), 0)
    value = shown(_objects(column.slice(row, 1))[0])
    reason = f"{value}: the column holds {column.type}, not {attribute.type.name}"
    Place(place.name, place.relation).note(row, index, attribute, reason + advice(column.type, attribute))


def _castable(source: pa.DataType, type: Type) -> bool:
    """Do values of an Arrow type mean the same in a column of `type`?  Dates and numbers, for one, do not."""
    if pt.is_null(source):
        return True
    if pt.is_dictionary(source):
        source = source.value_type
    if type.logical:
        return takes(source, type)
    if type.kind in TEXTUAL:
        return (
            pt.is_string(source)
            or pt.is_large_string(source)
            or pt.is_string_view(source)
            or pt.is_binary(source)
            or pt.is_large_binary(source)
            or pt.is_binary_view(source)
        )
    return pt.is_integer(source) or pt.is_floating(source) or pt.is_decimal(source) or pt.is_boolean(source)


def _without_view_dictionaries(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionaries of views, as polars exports categories, in a form that Arrow can decode."""
    if not pt.is_dictionary(column.type):
        return column
    if pt.is_string_view(column.type.value_type):
        plain = pa.large_string()
    elif pt.is_binary_view(column.type.value_type):
        plain = pa.large_binary()
    else:
        return column
    chunks = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(plain)) for c in column.chunks]
    return pa.chunked_array(chunks)


def _bytes_as(column: pa.ChunkedArray, target: pa.DataType) -> int:
    """What a column takes in another type, about."""
    if pt.is_dictionary(column.type) and not pt.is_primitive(target):
        return sum(_decoded_bytes(chunk) for chunk in column.chunks)
    return len(column) * target.bit_width // 8 if pt.is_primitive(target) else int(column.nbytes)


def _decoded_bytes(array: pa.DictionaryArray) -> int:
    """The bytes of text that a dictionary-encoded array stands for: large entries may occur often."""
    from pyarrow import compute

    lengths = compute.binary_length(array.dictionary)
    return int(compute.sum(lengths.take(array.indices).cast(pa.int64())).as_py() or 0)


def _too_large_for_string(column: pa.ChunkedArray) -> bool:
    """Is this text in chunks that 32-bit offsets can't address?"""
    return pt.is_large_string(column.type) and any(c.nbytes > _MAX_STRING_BYTES for c in column.chunks)
