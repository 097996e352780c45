"""Parquet and Arrow IPC files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.conform import Place, conform
from gpuengine.io.options import Format, pick_columns
from gpuengine.io.schema import Facts, NestedCheck, nullary
from gpuengine.language.program import Attribute


def read_columnar(
    path: Path,
    format: Format,
    attributes: Sequence[Attribute],
    columns: tuple[int, ...] | None,
    *,
    relation: str,
    skip_bad_rows: bool,
    threads: int | None,
    check: NestedCheck,
) -> Facts:
    """The facts in a columnar file, in the relation's types. Raises `DataError`."""
    read = _parquet if format is Format.PARQUET else _arrow
    place = Place(f"{path}: {relation}", skip_bad_rows, check)
    wanted = [a.name for a in attributes]
    try:
        table, columns = read(path, wanted, columns, place.name, threads != 1)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        detail = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"{path}: not a readable {format.value} file: {detail}") from error
    if not attributes:
        return Facts(nullary(table.num_rows > 0))
    return conform(table, attributes, place, columns=columns)


_Read = tuple[pa.Table, tuple[int, ...] | None]


def _parquet(
    path: Path, wanted: Sequence[str], columns: tuple[int, ...] | None, where: str, parallel: bool
) -> _Read:
    """The table, with only the wanted columns if their names tell them apart."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        if not wanted or len(set(names)) < len(names) or any("." in name for name in names):
            return file.read(use_threads=parallel), columns
        picked = pick_columns(names, wanted, columns, where)
        table = file.read([names[i] for i in picked], use_threads=parallel)
        order = [table.column_names.index(names[i]) for i in picked]
        return table, tuple(order)


def _arrow(
    path: Path, wanted: Sequence[str], columns: tuple[int, ...] | None, where: str, parallel: bool
) -> _Read:
    """An IPC file, or an IPC stream."""
    options = pa.ipc.IpcReadOptions(use_threads=parallel)
    with pa.OSFile(str(path)) as file:
        if file.read(6) == b"ARROW1":
            return pa.ipc.open_file(file, options=options).read_all(), columns
        file.seek(0)
        return pa.ipc.open_stream(file, options=options).read_all(), columns
