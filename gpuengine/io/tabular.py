"""Anything tabular in memory to the table of a relation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.admission import PLAIN, Admission
from gpuengine.io.arrays import column, from_numpy
from gpuengine.io.conform import Place, conform, conform_column
from gpuengine.io.convert import shown
from gpuengine.io.logical import value_of_object
from gpuengine.io.options import pick_columns
from gpuengine.io.records import record_text
from gpuengine.io.schema import ANY_TEXT, NESTED, NestedTerms, arrow_type, nullary
from gpuengine.language.program import Attribute, Kind
from gpuengine.limits import check as check_memory

# TypeError: of dates of NumPy in a list.
_ARROW_REFUSALS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)

_PIECE = 4096


def from_tabular(
    obj: Any,
    attributes: Sequence[Attribute],
    *,
    relation: str,
    params: Mapping[str, str] | None = None,
    terms: NestedTerms = ANY_TEXT,
    admission: Admission = PLAIN,
) -> pa.Table:
    """`obj` as the table of `relation`: its columns, names and types, no nulls.

    Takes a path, read with `params` as by `read_facts`; pyarrow tables, batches, readers and lists of
    arrays; whatever speaks the Arrow PyCapsule protocol; pandas and polars frames; NumPy arrays
    (n x arity, structured, or one column) and what DLPack makes one; a mapping of names to columns; an
    iterable of rows (sequences or mappings; plain values for a single column). Columns match as
    `pick_columns` says. `admission` says what becomes of nulls, dates and times. Values must be exactly
    representable, and texts of records and ADT values be such to `terms`: otherwise `DataError` names
    relation, column, row and value.
    """
    if isinstance(obj, str | os.PathLike):
        from gpuengine.io.read import read_facts

        path = Path(obj).expanduser()
        facts = read_facts(
            path, attributes, params or {}, relation=relation, terms=terms, admission=admission
        )
        return facts.table
    place = Place(relation, relation, terms=terms, admission=admission)
    if not attributes:
        return nullary(_has_rows(obj, relation))
    try:
        table = _arrow_table(obj, relation)
    except pa.ArrowInvalid as error:
        raise DataError(f"{relation}: damaged Arrow data: {error}") from error
    if table is None:
        names, columns = _columns(obj, attributes, relation)
        picked = pick_columns(names, [a.name for a in attributes], None, relation, relation=relation)
        arrays = [arrow_column(columns[i], a, i, place) for i, a in zip(picked, attributes, strict=True)]
        table = _table([a.name for a in attributes], arrays, relation)
        return admission.settle(table, attributes, relation)
    return conform(table, attributes, place).table


def arrow_column(values: Any, attribute: Attribute, index: int, place: Place) -> pa.ChunkedArray:
    """One column, of anything that a mapping given to `from_tabular` may hold, in the attribute's type."""
    array = _array(values, attribute, index, place)
    whole = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    return conform_column(whole, index, attribute, place)


def _arrow_table(obj: Any, relation: str) -> pa.Table | None:
    """The table that `obj` already is, or None if it isn't Arrow data."""
    if _is_from("polars", obj) and hasattr(obj, "collect"):
        obj = obj.collect()
    if isinstance(obj, pa.Table):
        return obj
    if isinstance(obj, pa.RecordBatch):
        return pa.Table.from_batches([obj])
    if isinstance(obj, pa.ChunkedArray):
        return pa.Table.from_arrays([obj], names=[""])
    if isinstance(obj, pa.StructArray):
        obj.validate(full=True)
        return pa.Table.from_struct_array(obj)
    if isinstance(obj, pa.Array):
        return pa.Table.from_arrays([obj], names=[""])
    if isinstance(obj, pa.RecordBatchReader):
        return _read_all(obj, relation)
    if _is_from("pandas", obj):
        return None  # its own Arrow export would add the index as a column
    if _is_from("polars", obj) and not hasattr(obj, "columns"):
        return pa.Table.from_arrays([obj.to_arrow()], names=[obj.name])
    if hasattr(obj, "__arrow_c_stream__"):
        return _read_all(pa.RecordBatchReader.from_stream(obj), relation)
    if hasattr(obj, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(obj)])
    if isinstance(obj, list | tuple) and obj and all(isinstance(c, pa.Array | pa.ChunkedArray) for c in obj):
        return _table([""] * len(obj), obj, relation)
    return None


def _columns(obj: Any, attributes: Sequence[Attribute], relation: str) -> tuple[list[str], list[Any]]:
    """The names and columns of `obj`; names are empty where it has none."""
    if _is_from("pandas", obj):
        if not hasattr(obj, "columns"):
            return [""], [obj]
        return [str(name) for name in obj.columns], [obj.iloc[:, i] for i in range(len(obj.columns))]
    if _is_from("numpy", obj) and hasattr(obj, "dtype") and hasattr(obj, "ndim"):
        return _array_columns(obj, len(attributes), relation)
    if hasattr(obj, "__dlpack__"):
        return _array_columns(_from_dlpack(obj, relation), len(attributes), relation)
    if isinstance(obj, Mapping):
        return [str(name) for name in obj], list(obj.values())
    if isinstance(obj, Iterable) and not isinstance(obj, bytes | bytearray | memoryview):
        return _row_columns(listed(obj, relation), attributes, relation)
    raise _unreadable(obj, relation)


def _unreadable(obj: Any, relation: str) -> DataError:
    return DataError(
        f"{relation}: can't read facts from {type(obj).__name__}; give a path, an Arrow, pandas or polars "
        f"table, a NumPy array, a dict of columns or a list of tuples"
    )


def listed(values: Iterable[Any], relation: str) -> list[Any]:
    """All of `values`; what makes them as they are asked for, and may never end, is held to the budget."""
    if isinstance(values, Sized):
        return list(values)
    rows: list[Any] = []
    made = iter(values)
    while piece := list(islice(made, _PIECE)):
        rows += piece
        check_memory(f"{len(rows):,} rows for {relation}")
    return rows


def _read_all(batches: pa.RecordBatchReader, relation: str) -> pa.Table:
    """The table of a stream, which may never end either."""
    pieces: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pieces.append(batch)
        rows += batch.num_rows
        check_memory(f"{rows:,} rows for {relation}")
    return pa.Table.from_batches(pieces, schema=batches.schema)


def _from_dlpack(obj: Any, relation: str) -> np.ndarray:
    try:
        return np.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"{relation}: can't read {type(obj).__name__} by DLPack: {error}") from error


def _array_columns(array: Any, arity: int, relation: str) -> tuple[list[str], list[Any]]:
    if array.dtype.names is not None:
        return list(array.dtype.names), [array[name] for name in array.dtype.names]
    if array.ndim == 2:
        return [""] * array.shape[1], [array[:, i] for i in range(array.shape[1])]
    if array.ndim == 1 and (arity == 1 or len(array) == 0):
        return [""] * arity, [array] * arity
    raise DataError(f"{relation}: an array of shape {array.shape}, expected (n, {arity})")


def _row_columns(
    rows: list[Any], attributes: Sequence[Attribute], relation: str
) -> tuple[list[str], list[Any]]:
    arity = len(attributes)
    types = set(map(type, rows))
    if rows and all(issubclass(t, Mapping) for t in types):
        names = [a.name for a in attributes]
        return names, [_each(rows, lambda r, n=name: r[n], name, relation) for name in names]
    if arity == 1 and not any(_is_sequence(t) for t in types):
        return [""], [rows]
    if not all(map(_is_sequence, types)) or not set(map(len, rows)) <= {arity}:
        _complain_of_row(rows, arity, relation)
    return [""] * arity, [list(map(itemgetter(i), rows)) for i in range(arity)]


def _complain_of_row(rows: list[Any], arity: int, relation: str) -> NoReturn:
    index, row = next((i, r) for i, r in enumerate(rows) if not _is_sequence(type(r)) or len(r) != arity)
    place = f"{relation}: row {index} (counted from 0)"
    if not _is_sequence(type(row)):
        raise DataError(f"{place}: {shown(row)} is not a row of {arity} values")
    raise DataError(f"{place}: {len(row)} values, expected {arity}: {shown(row)}")


def _each(rows: list[Any], value: Callable[..., Any], name: str, relation: str) -> list[Any]:
    try:
        return [value(row) for row in rows]
    except KeyError:
        index = next(i for i, row in enumerate(rows) if name not in row)
        place = f"{relation}: row {index} (counted from 0)"
        raise DataError(f"{place}: no {name!r} in {shown(rows[index])}") from None


def _array(values: Any, attribute: Attribute, index: int, place: Place) -> pa.ChunkedArray | pa.Array:
    """One column as Arrow data, of whatever type its values have."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "__dlpack__") and not _is_from("numpy", values):
        values = _from_dlpack(values, place.name)
    if not isinstance(values, Sized) and isinstance(values, Iterable):
        values = listed(values, place.relation)
    is_record = attribute.type.kind in NESTED
    if not is_record or _is_from("numpy", values) or _is_from("pandas", values):
        array = _vectorised(values, attribute)
        if array is not None:
            return array
    return _one_by_one(list(values), attribute, index, place)


def _vectorised(values: Any, attribute: Attribute) -> pa.Array | pa.ChunkedArray | None:
    """The column that Arrow makes of `values`, None if it can't: mixed types, too large numbers, ..."""
    try:
        if _is_from("pandas", values):
            if attribute.type.kind is Kind.FLOAT and getattr(values.dtype, "kind", "") in ("f", "O"):
                return pa.array(values.to_numpy(), from_pandas=False)  # in which nan is a value, not a null
            return pa.Array.from_pandas(values)
        if _is_from("polars", values):
            return values.to_arrow()
        if _is_from("numpy", values):
            return from_numpy(values)
        exact = _exact_type(values, attribute)
        return pa.array(values) if exact is None else column(values, exact)
    except _ARROW_REFUSALS:
        return None


def _exact_type(values: Iterable[Any], attribute: Attribute) -> pa.DataType | None:
    """The type to build at once, ten times faster than inferring it, where Arrow then loses nothing:
    it would cut a float to an integer, so only columns of one Python type qualify."""
    types = set(map(type, values))
    if attribute.type.logical:
        return None
    if types == {int} and attribute.type.kind in (Kind.NUMBER, Kind.UNSIGNED):
        return arrow_type(attribute.type)
    if types == {float}:
        return pa.float64()
    return pa.string() if types == {str} else None


def _one_by_one(values: list[Any], attribute: Attribute, index: int, place: Place) -> pa.Array:
    kind = attribute.type.kind
    admitted = place.admission.admits(attribute)
    has_null = False
    converted: list[int | float | str | None] = []
    for row, value in enumerate(values):
        if value is None and admitted and kind is not Kind.RECORD:
            has_null = True
            converted.append(None)
            continue
        try:
            text = record_text(value, attribute.type, place.terms) if kind in NESTED else value
            converted.append(value_of_object(text, attribute.type))
        except ValueError as error:
            place.note(row, index, attribute, str(error))
    target = arrow_type(attribute.type)
    return pa.array(converted, target) if has_null else column(converted, target)


def _table(names: list[str], arrays: Sequence[Any], relation: str) -> pa.Table:
    lengths = {len(a) for a in arrays}
    if len(lengths) > 1:
        raise DataError(
            f"{relation}: columns of different lengths ({', '.join(str(len(a)) for a in arrays)})"
        )
    return pa.Table.from_arrays(list(arrays), names=names)


def _has_rows(obj: Any, relation: str) -> bool:
    if isinstance(obj, pa.RecordBatchReader):
        return any(batch.num_rows for batch in obj)
    rows = getattr(obj, "num_rows", None)
    if rows is not None:
        return bool(rows)
    if not isinstance(obj, Iterable) or isinstance(obj, bytes | bytearray | memoryview):
        raise _unreadable(obj, relation)
    return any(True for _ in obj)


def _is_sequence(type_: type) -> bool:
    return hasattr(type_, "__len__") and hasattr(type_, "__getitem__") and not issubclass(type_, str | bytes)


def _is_from(package: str, obj: Any) -> bool:
    """Is `obj` of a class of `package`?  Asked by name, so that nothing is imported."""
    return any(t.__module__.partition(".")[0] == package for t in type(obj).__mro__)
