"""Relations to files: streamed batch by batch, and visible only when complete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from gpuengine.io.format import RowFormatter
from gpuengine.io.options import DATABASES, Format, codec_of, format_of, text_dialect
from gpuengine.io.replacing import Replacement
from gpuengine.io.schema import outer_schema
from gpuengine.io.source import BYTE_ORDER_MARK
from gpuengine.language.program import Attribute

_ROW_GROUP = 1 << 20
_GZIP_LEVEL = 6

# How a relation without attributes that holds looks in a format that needs a column.
_NULLARY = pa.schema([pa.field("()", pa.bool_())])


def write_facts(
    path: Path,
    batches: Iterable[pa.RecordBatch],
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
    *,
    among: Replacement | None = None,
) -> int:
    """Write `batches` to `path` and return how many rows there were.

    The columns of the batches are the attributes in order. Format and dialect follow `params`
    (``IO delimiter headers rfc4180 compress format``) and the extension; of a database ``name`` is the table,
    and others stay. The file appears when it is
    complete, `among` others when those are: whatever interrupts the writing leaves what was there before.
    Raises `DataError` if the file can't be written, and what the iteration of `batches` raises.
    """
    if among is None:
        with Replacement() as alone:
            rows = write_facts(path, batches, attributes, params, among=alone)
            alone.finish()
        return rows
    format = format_of(path, params)
    if format in DATABASES:
        from gpuengine.io.databases import write_database

        with among.kept(path) as beside:
            return write_database(beside, path, format, params.get("name", path.stem), batches, attributes)
    if format is Format.JSON:
        from gpuengine.io.json_rows import write_json

        with among.file(path) as sink:
            return write_json(sink.write, batches, attributes, params)
    write = {Format.TEXT: _write_text, Format.PARQUET: _write_parquet, Format.ARROW: _write_arrow}[format]
    with among.file(path) as sink:
        return write(sink, path, batches, attributes, params)


def write_stdout(
    relation: str,
    batches: Iterable[pa.RecordBatch],
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
    stream: BinaryIO | None = None,
) -> int:
    """Print a relation as ``.output R(IO=stdout)`` does: between rulers, under its name."""
    if stream is None:
        sys.stdout.flush()
        stream = sys.stdout.buffer
    if params.get("IO") == "json":
        from gpuengine.io.json_rows import write_json

        rows = write_json(stream.write, batches, attributes, params)
        stream.flush()
        return rows
    formatter = RowFormatter(attributes, text_dialect(params))
    stream.write(f"---------------\n{relation}\n".encode() + formatter.header() + b"===============\n")
    rows = 0
    for batch in batches:
        stream.write(formatter.rows(batch))
        rows += batch.num_rows
    stream.write(b"===============\n")
    stream.flush()
    return rows


def _write_text(
    sink: BinaryIO,
    path: Path,
    batches: Iterable[pa.RecordBatch],
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
) -> int:
    formatter = RowFormatter(attributes, text_dialect(params))
    rows = 0
    with _compressing(sink, codec_of(path, params)) as write:
        write(header := formatter.header())
        for batch in batches:
            lines = formatter.rows(batch)
            if not rows and not header and bytes(lines[: len(BYTE_ORDER_MARK)]) == BYTE_ORDER_MARK:
                write(BYTE_ORDER_MARK)  # readers drop one, and this one is data
            write(lines)
            rows += batch.num_rows
    return rows


@contextmanager
def _compressing(sink: BinaryIO, codec: str | None) -> Iterator[Callable[[bytes | memoryview], object]]:
    if codec is None:
        yield sink.write
    elif codec == "gzip":
        import gzip

        # Without name and time, so that equal facts make equal files.
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, sink, mtime=0) as compressed:
            yield compressed.write
    else:
        with pa.CompressedOutputStream(sink, codec) as compressed:
            yield compressed.write


def _write_parquet(
    sink: BinaryIO,
    path: Path,
    batches: Iterable[pa.RecordBatch],
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
) -> int:
    from pyarrow import parquet

    schema = _file_schema(attributes)
    rows = 0
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in _grouped(_conformed(batches, attributes, schema), _ROW_GROUP):
            writer.write_table(table, row_group_size=_ROW_GROUP)
            rows += table.num_rows
    return rows


def _write_arrow(
    sink: BinaryIO,
    path: Path,
    batches: Iterable[pa.RecordBatch],
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
) -> int:
    schema = _file_schema(attributes)
    rows = 0
    with pa.ipc.new_file(sink, schema) as writer:
        for table in _conformed(batches, attributes, schema):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _file_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    return outer_schema(attributes) if attributes else _NULLARY


def _conformed(
    batches: Iterable[pa.RecordBatch], attributes: Sequence[Attribute], schema: pa.Schema
) -> Iterator[pa.Table]:
    for batch in batches:
        if not attributes:
            yield pa.Table.from_arrays([pa.array([True] * batch.num_rows, pa.bool_())], schema=schema)
            continue
        columns = [
            c if c.type == f.type else c.cast(f.type) for c, f in zip(batch.columns, schema, strict=True)
        ]
        yield pa.Table.from_arrays(columns, schema=schema)


def _grouped(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Small tables put together until they have `rows` rows: tiny row groups read and compress badly."""
    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        waiting.append(table)
        count += table.num_rows
        if count >= rows:
            yield pa.concat_tables(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_tables(waiting)
