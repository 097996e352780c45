"""Batches to text as Soufflé writes it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gpuengine.io.arrays import column as strings
from gpuengine.io.options import Dialect
from gpuengine.io.schema import TEXTUAL
from gpuengine.language.program import Attribute, Kind

_FLOATS_AT_ONCE = 1 << 16


class RowFormatter:
    """Formats batches of one relation.

    Numbers are plain, floats have 17 significant digits (``%.17g``: what is read back is the same
    float), symbols and records are raw. With quoting, symbols and records are enclosed in double
    quotes and quotes inside are doubled.
    """

    def __init__(self, attributes: Sequence[Attribute], dialect: Dialect) -> None:
        assert dialect.delimiter is not None
        self._attributes = attributes
        self._dialect = dialect
        self._delimiter = dialect.delimiter.decode()
        self._floats = {i for i, a in enumerate(attributes) if a.type.kind is Kind.FLOAT}
        self._texts = {i for i, a in enumerate(attributes) if a.type.kind in TEXTUAL}

    def header(self) -> bytes:
        """The line of attribute names, if the dialect has one."""
        if not self._dialect.headers:
            return b""
        return (self._delimiter.join(a.name for a in self._attributes) + "\n").encode()

    def rows(self, batch: pa.RecordBatch) -> bytes | memoryview:
        """The lines of a batch; a relation without attributes that holds is the line ``()``."""
        if batch.num_rows == 0:
            return b""
        if not self._attributes:
            return b"()\n"
        columns = [
            _formatted_floats(c) if i in self._floats else _decoded(c) for i, c in enumerate(batch.columns)
        ]
        if len(self._delimiter) == 1 and self._delimiter.isascii():
            written = self._by_csv_writer(columns)
            if written is not None:
                return written
        return self._by_joining(columns)

    def _by_csv_writer(self, columns: list[pa.Array]) -> memoryview | None:
        """None if a symbol has a character that pyarrow would only write quoted."""
        from pyarrow import csv

        if self._dialect.quoting and self._floats:
            return None  # the formatted floats are text by now and would be quoted
        batch = pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(len(columns))])
        options = csv.WriteOptions(
            include_header=False,
            batch_size=1 << 14,
            delimiter=self._delimiter,
            quoting_style="needed" if self._dialect.quoting else "none",
        )
        sink = pa.BufferOutputStream()
        try:
            csv.write_csv(batch, sink, options)
        except pa.ArrowInvalid:
            return None
        return memoryview(sink.getvalue())

    def _by_joining(self, columns: list[pa.Array]) -> memoryview:
        """The lines are one text array whose data, end to end, is the file."""
        from pyarrow import compute

        def large(text: str) -> pa.Scalar:
            return pa.scalar(text, pa.large_string())

        texts = []
        for i, column in enumerate(columns):
            text = column.cast(pa.large_string())
            if self._dialect.quoting and i in self._texts:
                doubled = compute.replace_substring(text, '"', '""')
                text = compute.binary_join_element_wise(large('"'), doubled, large('"'), large(""))
            texts.append(text)
        lines = compute.binary_join_element_wise(*texts, large(self._delimiter))
        return memoryview(compute.binary_join_element_wise(lines, large(""), large("\n")).buffers()[2])


def _formatted_floats(column: pa.Array) -> pa.Array:
    texts: list[str] = []
    for start in range(0, len(column), _FLOATS_AT_ONCE):
        values = column.slice(start, _FLOATS_AT_ONCE).to_pylist()
        # One format operation for many floats: several times faster than one each.
        texts.extend(("%.17g\n" * len(values) % tuple(values)).split())
    return strings(texts, pa.string())


def _decoded(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
