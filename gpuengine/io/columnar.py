"""Parquet and Arrow IPC files.

A file may be damaged, or made to do harm. Arrow's readers check the structure of what they read; that offsets
and indexes stay inside their buffers and that text is UTF-8 is checked by `conform_column`, before anything
looks at a value. What a file decodes to is asked of the memory budget: by the sizes that it states, and piece
by piece as it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpuengine.errors import DataError, MemoryBudgetError
from gpuengine.io.admission import Admission
from gpuengine.io.conform import Place, check_columns, conform
from gpuengine.io.ipc_sizes import stated_sizes
from gpuengine.io.options import Format, pick_columns
from gpuengine.io.schema import Facts, NestedTerms, nullary
from gpuengine.language.program import Attribute
from gpuengine.limits import charge, check

_BATCH_ROWS = 1 << 16
_VALUE_BYTES = 8
"""What a value of a Parquet file takes at least when it is decoded, or its offset."""


def read_columnar(
    path: Path,
    format: Format,
    attributes: Sequence[Attribute],
    columns: tuple[int, ...] | None,
    *,
    relation: str,
    skip_bad_rows: bool,
    threads: int | None,
    terms: NestedTerms,
    admission: Admission,
) -> Facts:
    """The facts in a columnar file, in the relation's types. Raises `DataError`."""
    place = Place(f"{path}: {relation}", relation, skip_bad_rows, terms, admission)
    wanted = [a.name for a in attributes]
    table, columns = _read(path, format, wanted, columns, place, threads != 1)
    if not attributes:
        return Facts(nullary(table.num_rows > 0))
    return conform(table, attributes, place, columns=columns)


def read_columns(path: Path, format: Format, *, relation: str) -> pa.Table:
    """All columns of a file as it has them; nothing in them leads outside. Raises `DataError`."""
    table, _ = _read(path, format, (), None, Place(f"{path}: {relation}", relation), True)
    check_columns(table, str(path))
    return table


_Read = tuple[pa.Table, tuple[int, ...] | None]


def _read(
    path: Path,
    format: Format,
    wanted: Sequence[str],
    columns: tuple[int, ...] | None,
    place: Place,
    parallel: bool,
) -> _Read:
    """The table of a file, not looked into yet, and where its wanted columns are."""
    read = _parquet if format is Format.PARQUET else _arrow
    try:
        return read(path, wanted, columns, place, parallel)
    except MemoryError as error:
        raise MemoryBudgetError(
            f"{place.name}: it asks for more memory than there is ({error})\n"
            "  hint: the file is damaged, or too large to be read at once: split it"
        ) from error
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        detail = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{path}: not a readable {format.value} file: {detail}") from error


def _parquet(
    path: Path, wanted: Sequence[str], columns: tuple[int, ...] | None, place: Place, parallel: bool
) -> _Read:
    """The table, with only the wanted columns if their names tell them apart."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        picked: list[int] | None = None
        if wanted and len(set(names)) == len(names) and not any("." in name for name in names):
            picked = pick_columns(names, wanted, columns, place.name, relation=place.relation)
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            width = len(names) if picked is None else len(picked)
            charge(group.num_rows * width * _VALUE_BYTES, f"decoding {path}")
        chosen = None if picked is None else [names[i] for i in picked]
        batches = file.iter_batches(_BATCH_ROWS, columns=chosen, use_threads=parallel)
        schema = file.schema_arrow
        if chosen is not None:
            # As the file has them: a batch has its columns in that order.
            schema = pa.schema([field for field in schema if field.name in chosen])
        table = _together(batches, schema, f"decoding {path}")
        if picked is None:
            return table, columns
        return table, tuple(table.column_names.index(names[i]) for i in picked)


def _arrow(
    path: Path, wanted: Sequence[str], columns: tuple[int, ...] | None, place: Place, parallel: bool
) -> _Read:
    """An IPC file, or an IPC stream."""
    what = f"reading {path}"
    for size in stated_sizes(path):
        charge(size, what)
    options = pa.ipc.IpcReadOptions(use_threads=parallel)
    with pa.OSFile(str(path)) as file:
        if file.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(file, options=options)
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            return _together(batches, reader.schema, what), columns
        file.seek(0)
        reader = pa.ipc.open_stream(file, options=options)
        return _together(reader, reader.schema, what), columns


def _together(batches: Iterable[Any], schema: pa.Schema, what: str) -> pa.Table:
    kept = []
    for batch in batches:
        check(what)
        kept.append(batch)
    return pa.Table.from_batches(kept, kept[0].schema if kept else schema)
