"""Pieces of text to tables, through pyarrow's CSV reader or row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gpuengine.io.admission import PLAIN, Admission
from gpuengine.io.arrays import column, values
from gpuengine.io.convert import shown
from gpuengine.io.logical import to_numbers
from gpuengine.io.options import Dialect
from gpuengine.io.scan import Problem, RowScanner, Value
from gpuengine.io.schema import ANY_TEXT, NESTED, TEXTUAL, NestedTerms, arrow_schema
from gpuengine.io.source import BYTE_ORDER_MARK, SMALL, Source
from gpuengine.language.program import Attribute, Kind
from gpuengine.limits import charge

BLOCK = 1 << 20
_PARALLEL_BLOCK = 1 << 22
_SUBSTITUTES = tuple(bytes([b]) for b in (0x1F, 0x1E, 0x1D, 0x1C, *range(1, 9)))


class BlockReader:
    """Parses pieces of text in one settled dialect into tables of one schema."""

    def __init__(
        self,
        attributes: Sequence[Attribute],
        dialect: Dialect,
        first_row: bytes,
        terms: NestedTerms = ANY_TEXT,
        admission: Admission = PLAIN,
    ) -> None:
        assert dialect.delimiter is not None
        self.schema = arrow_schema(attributes)
        self.scanner = RowScanner(attributes, dialect, admission)
        self._nullable = [a.type.kind not in TEXTUAL and admission.admits(a) for a in attributes]
        self._logical = [i for i, a in enumerate(attributes) if a.type.logical]
        self.headers = dialect.headers
        self._attributes = attributes
        self._dialect = dialect
        self._delimiter = dialect.delimiter
        # Without columns= a file has as many as the relation; with it, as many as its first row.
        file_columns = len(attributes) if dialect.columns is None else self.scanner.count(first_row)
        self._file_columns = file_columns
        self._columns = dialect.columns if dialect.columns is not None else tuple(range(len(attributes)))
        kinds = {a.type.kind for a in attributes}
        torn_quotes = dialect.quoting and len(self._delimiter) > 1
        self._vectorisable = not torn_quotes and max(self._columns) < file_columns
        # pyarrow reads an empty line as a row of empty fields, which only symbols accept.
        self._check_empty = file_columns > 1 and kinds <= TEXTUAL
        self._terms = terms
        # A delimiter inside a record shows as a field too many, unless nobody knows how many there are; but
        # commas are in all records, and it would be in vain to try.
        torn = b"," in dialect.delimiter or dialect.columns is not None
        self._brackets = self.scanner.brackets if torn else ()
        self._nested = [i for i, a in enumerate(attributes) if a.type.kind in NESTED]
        self._floats = [i for i, a in enumerate(attributes) if a.type.kind is Kind.FLOAT]

    def whole(self, source: Source, threads: int | None) -> pa.Table | None:
        """All of the source, or None if some of it must be read exactly."""
        charge(self._bytes(source), f"parsing {source.name}")
        return self._finished(self._parse_whole(source, threads) if self._vectorisable else None)

    def _bytes(self, source: Source) -> int:
        """What the columns of all rows take, about: numbers eight bytes, texts themselves and an offset."""
        texts = sum(attribute.type.kind in TEXTUAL for attribute in self._attributes)
        numbers = len(self._attributes) - texts
        size = len(source.data) if source.data is not None else source.path.stat().st_size
        return source.rows() * (8 * numbers + 4 * texts) + (size if texts else 0)

    def block(self, block: bytes) -> pa.Table | None:
        """A block of whole rows, or None if some of it must be read exactly."""
        if block.startswith(BYTE_ORDER_MARK):  # it is data, but pyarrow would drop it
            block = BYTE_ORDER_MARK + block
        return self._finished(
            self._parse_bytes(block, skip_rows=0, parallel=False) if self._vectorisable else None
        )

    def _finished(self, table: pa.Table | None) -> pa.Table | None:
        """What pyarrow read in the relation's types, or None if some of it must be read exactly."""
        typed = None if table is None else self._typed(table)
        return None if typed is None or self._has_bad_nested(typed) else typed

    def rows(self, block: bytes, first_line: int, *, first_only: bool) -> tuple[pa.Table, list[Problem]]:
        """The good rows of a block, read one by one, and what is wrong with the others, in order.

        With `first_only` it is enough if the first problem, should there be one, is among those found.
        """
        good: list[tuple[int, tuple[Value, ...]]] = []
        bad: list[Problem] = []
        for row in self.scanner.rows(block, first_line):
            if isinstance(row, Problem):
                bad.append(row)
            else:
                good.append(row)
        reasons = self._nested_reasons([values for _, values in good], first_only)
        bad += [Problem(good[row][0], reason) for row, reason in reasons.items()]
        bad.sort(key=lambda problem: problem.line)
        kept = [values for row, (_, values) in enumerate(good) if row not in reasons]
        return self._table(kept), bad

    def _table(self, rows: list[tuple[Value, ...]]) -> pa.Table:
        arrays = []
        for i, field in enumerate(self.schema):
            found = [row[i] for row in rows]
            has_null = self._nullable[i] and None in found
            arrays.append(pa.array(found, field.type) if has_null else column(found, field.type))
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _nested_reasons(self, rows: list[tuple[Value, ...]], first_only: bool) -> dict[int, str]:
        """The rows with a text that is no record or ADT value of its column, and what is wrong with them."""
        reasons: dict[int, str] = {}
        for i in self._nested:
            texts = column([row[i] for row in rows], pa.string())
            bad = self._terms.bad_values(self._attributes[i].type.space, texts, first_only=first_only)
            for row, reason in bad.items():
                reasons.setdefault(row, f"{self.scanner.place(i)}: {shown(rows[row][i])} {reason}")
        return reasons

    def _parse_whole(self, source: Source, threads: int | None) -> pa.Table | None:
        header = 1 if self._dialect.headers else 0
        peculiar = self._dialect.quoting or self._brackets or len(self._delimiter) > 1
        if source.data is not None or peculiar or source.has_carriage_return():
            data = source.all()
            parallel = threads != 1 and len(data) >= SMALL
            return self._parse_bytes(data, skip_rows=header, parallel=parallel)
        with pa.OSFile(str(source.path)) as stream:
            return self._parse(stream, self._delimiter, skip_rows=header, parallel=threads != 1)

    def _parse_bytes(self, data: bytes, *, skip_rows: int, parallel: bool) -> pa.Table | None:
        # pyarrow ends a line at a lone CR, and splits at commas inside brackets.
        if data.count(b"\r") != data.count(b"\r\n") or any(b in data for b in self._brackets):
            return None
        delimiter = self._delimiter
        if len(delimiter) > 1:
            substitute = next((s for s in _SUBSTITUTES if s not in data), None)
            if substitute is None:
                return None
            data, delimiter = data.replace(delimiter, substitute), substitute
        if self._dialect.quoting:
            return self._parse_quoted(data, skip_rows=skip_rows, parallel=parallel)
        return self._parse(pa.BufferReader(data), delimiter, skip_rows=skip_rows, parallel=parallel)

    def _parse_quoted(self, data: bytes, *, skip_rows: int, parallel: bool) -> pa.Table | None:
        """With a row of zeros behind the data: pyarrow lets a quote that is never closed swallow the rest,
        and then that row is not the last."""
        end = b"" if data.endswith(b"\n") else b"\n"
        guarded = data + end + self._delimiter.join([b"0"] * self._file_columns) + b"\n"
        stream = pa.BufferReader(guarded)
        table = self._parse(stream, self._delimiter, skip_rows=skip_rows, parallel=parallel)
        if table is None or any(str(c[-1].as_py()) not in ("0", "0.0") for c in table.columns):
            return None
        return table.slice(0, table.num_rows - 1)

    def _parse(
        self, stream: pa.NativeFile, delimiter: bytes, *, skip_rows: int, parallel: bool
    ) -> pa.Table | None:
        from pyarrow import csv

        quoting = self._dialect.quoting
        names = [str(i) for i in range(self._file_columns)]
        picked = [names[c] for c in self._columns]
        types = dict(zip(picked, self.schema.types, strict=True))
        types |= {picked[i]: pa.string() for i in self._logical}
        try:
            table = csv.read_csv(
                stream,
                csv.ReadOptions(
                    use_threads=parallel,
                    block_size=_PARALLEL_BLOCK if parallel else BLOCK,
                    skip_rows=skip_rows,
                    column_names=names,
                ),
                csv.ParseOptions(
                    delimiter=delimiter.decode("latin-1"),
                    quote_char='"' if quoting else False,
                    double_quote=quoting,
                    escape_char=False,
                    newlines_in_values=quoting,
                    ignore_empty_lines=False,
                ),
                csv.ConvertOptions(
                    check_utf8=True,
                    column_types=types,
                    null_values=[""] if any(self._nullable) else [],
                    strings_can_be_null=False,
                    include_columns=picked,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return None if self._suspicious(table) else table.rename_columns(self.schema.names)

    def _typed(self, table: pa.Table) -> pa.Table | None:
        """The table with numbers for texts of logical types, or None if some must be read exactly."""
        if any(table.column(i).null_count for i, nullable in enumerate(self._nullable) if not nullable):
            return None
        for i in self._logical:
            texts = table.column(i)
            if self._nullable[i]:
                from pyarrow import compute

                texts = compute.if_else(compute.equal(texts, ""), pa.scalar(None, pa.string()), texts)
            try:
                numbers = to_numbers(texts, self._attributes[i].type)
            except pa.ArrowInvalid:
                return None
            table = table.set_column(i, self.schema.field(i), numbers)
        return table

    def _has_bad_nested(self, table: pa.Table) -> bool:
        spaces = ((i, self._attributes[i].type.space) for i in self._nested)
        return any(self._terms.bad_values(space, table.column(i), first_only=True) for i, space in spaces)

    def _suspicious(self, table: pa.Table) -> bool:
        """Did pyarrow accept what may be an empty line, or a float beyond all floats?"""
        if any(self._nullable) and self._file_columns > 1 and _has_blank_row(table):
            return True
        if self._check_empty and any(_has_empty_row(batch) for batch in table.to_batches()):
            return True
        chunks = (chunk for i in self._floats for chunk in table.column(i).chunks)
        return any(bool(np.isinf(values(chunk, np.float64)).any()) for chunk in chunks)


def _has_blank_row(table: pa.Table) -> bool:
    """Is nothing in all fields of a row? Then its line may be empty."""
    from pyarrow import compute

    blank = None
    for fields in table.columns:
        is_text = pa.types.is_string(fields.type)
        empty = compute.equal(fields, "") if is_text else compute.is_null(fields)
        blank = empty if blank is None else compute.and_(blank, empty)
    return bool(compute.any(blank).as_py())


def _has_empty_row(batch: pa.RecordBatch) -> bool:
    empty: np.ndarray | None = None
    for text in batch.columns:
        offsets = values(text, np.int32, 1)
        blank = offsets[1:] == offsets[:-1]
        empty = blank if empty is None else empty & blank
        if not empty.any():
            return False
    return empty is not None
