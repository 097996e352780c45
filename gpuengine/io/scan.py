"""Text row by row: the exact reading of what the vectorised parser refuses.

The meaning of a row is Soufflé's (`ReadStreamCSV`), with three differences, all stricter or wider:
superfluous columns are an error unless ``columns=`` picks some, quoted fields may hold line breaks,
and ADT values are not torn apart at the commas between their parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpuengine.io.admission import PLAIN, Admission
from gpuengine.io.convert import shown
from gpuengine.io.logical import value_of_text
from gpuengine.io.options import Dialect
from gpuengine.io.schema import NESTED, TEXTUAL
from gpuengine.language.program import Attribute, Kind

Value = int | float | str | None

_QUOTED_SYMBOL = re.compile(rb'\s*+"(?:[^"\\]|\\.)*+"', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Problem:
    """A bad row: where it starts and what is wrong with it."""

    line: int
    reason: str


class RowScanner:
    """Reads blocks of whole rows in one settled dialect."""

    def __init__(
        self, attributes: Sequence[Attribute], dialect: Dialect, admission: Admission = PLAIN
    ) -> None:
        assert dialect.delimiter is not None
        self._attributes = attributes
        self._dialect = dialect
        self._delimiter = dialect.delimiter
        self._row, self._field = _quoted_patterns(dialect.delimiter)
        self.brackets = self._brackets()
        self._outside = re.compile(b"|".join(map(re.escape, (self._delimiter, *self.brackets))))
        self._inside = re.compile(b"|".join(map(re.escape, (b",", *self.brackets))))
        self._split = self._splitter()
        columns = dialect.columns if dialect.columns is not None else tuple(range(len(attributes)))
        self._picks = list(zip(columns, attributes, strict=True))
        # An empty field is a null where nulls are admitted, unless it is a text.
        self._nullable = {
            i
            for i, attribute in enumerate(attributes)
            if attribute.type.kind not in TEXTUAL and admission.admits(attribute)
        }

    def blocks(self, data: bytes, start: int, size: int) -> Iterator[bytes]:
        """Cut ``data[start:]`` into pieces of about `size` bytes that hold whole rows."""
        while start < len(data):
            end = self._row_end(data, start, start + size)
            yield data[start:end]
            start = end

    def rows(self, block: bytes, first_line: int) -> Iterator[tuple[int, tuple[Value, ...]] | Problem]:
        """The (line, values) of the rows of `block`, the first of which is line `first_line` of the file."""
        for line, row in self._raw_rows(block, first_line):
            try:
                yield line, self._values(row)
            except ValueError as error:
                yield Problem(line, str(error))

    def place(self, position: int) -> str:
        """The column of an attribute, as an error names it."""
        column, attribute = self._picks[position]
        return f"column {column + 1} ({attribute.name}: {attribute.type.name})"

    def count(self, row: bytes) -> int:
        """How many fields a row has; 0 if it can't be split."""
        try:
            return len(self._split(row))
        except ValueError:
            return 0

    def _row_end(self, data: bytes, start: int, target: int) -> int:
        if not self._dialect.quoting:
            return data.find(b"\n", target - 1) + 1 or len(data)
        end = start
        while end < min(target, len(data)):
            match = self._row.match(data, end)
            assert match is not None  # the pattern matches any text
            end = match.end()
        return end

    def _raw_rows(self, block: bytes, line: int) -> Iterator[tuple[int, bytes]]:
        start = 0
        while start < len(block):
            end = self._row_end(block, start, start + 1)
            row = block[start:end]
            yield line, row.removesuffix(b"\n").removesuffix(b"\r")
            line += row.count(b"\n")
            start = end

    def _brackets(self) -> tuple[bytes, ...]:
        """What protects delimiters that could also belong to a record; it holds no tab, and commas always."""
        nested = any(a.type.kind in NESTED for a in self._attributes)
        if self._dialect.quoting or b"\t" in self._delimiter or (b"," not in self._delimiter and not nested):
            return ()
        adts = any(a.type.kind is Kind.ADT for a in self._attributes)
        return (b"[", b"]", b"(", b")") if adts else (b"[", b"]")

    def _splitter(self) -> Callable[[bytes], list[bytes]]:
        if self._dialect.quoting:
            return self._split_quoted
        if self.brackets:
            return self._split_bracketed
        return lambda row: row.split(self._delimiter)

    def _split_quoted(self, row: bytes) -> list[bytes]:
        fields: list[bytes] = []
        position = 0
        while True:
            match = self._field.match(row, position)
            assert match is not None  # the pattern matches any text
            quoted, plain = match[1], match[2]
            if quoted is None and plain.startswith(b'"'):
                raise ValueError(f"column {len(fields) + 1}: a quote is opened and never closed")
            fields.append(plain if quoted is None else quoted.replace(b'""', b'"') + plain)
            if match.end() == len(row):
                return fields
            position = match.end() + len(self._delimiter)

    def _split_bracketed(self, row: bytes) -> list[bytes]:
        """Split at the delimiters outside brackets: a comma may also be part of a record.

        Inside brackets a symbol may stand in quotes, and whatever those hold separates nothing.
        """
        if not any(bracket in row for bracket in self.brackets):
            return row.split(self._delimiter)
        fields: list[bytes] = []
        depth = start = at = 0
        while depth >= 0 and (match := (self._inside if depth else self._outside).search(row, at)):
            token, at = match[0], match.end()
            if token in self.brackets:
                depth += 1 if token in (b"[", b"(") else -1
            elif depth == 0:
                fields.append(row[start : match.start()])
                start = at
            if depth > 0 and (quoted := _QUOTED_SYMBOL.match(row, at)):
                at = quoted.end()
        if depth != 0:
            raise ValueError(f"unbalanced brackets in {shown(row)}; use rfc4180=true and quotes")
        return [*fields, row[start:]]

    def _values(self, row: bytes) -> tuple[Value, ...]:
        fields = self._split(row)
        self._check_count(row, fields)
        values: list[Value] = []
        for position, (column, attribute) in enumerate(self._picks):
            if not fields[column] and position in self._nullable:
                values.append(None)
                continue
            try:
                values.append(value_of_text(fields[column], attribute.type))
            except ValueError as error:
                raise ValueError(f"{self.place(position)}: {error}") from None
        return tuple(values)

    def _check_count(self, row: bytes, fields: list[bytes]) -> None:
        columns = self._dialect.columns
        expected = len(self._attributes) if columns is None else max(columns) + 1
        if len(fields) == expected or (columns is not None and len(fields) > expected):
            return
        if not row:
            raise ValueError(f"an empty line, expected {_plural(expected)}")
        at_least = "" if columns is None else "at least "
        message = f"{_plural(len(fields))}, expected {at_least}{_plural(expected)}: {shown(row)}"
        raise ValueError(message + self._count_hint(row, len(fields), expected))

    def _count_hint(self, row: bytes, got: int, expected: int) -> str:
        if got > expected:
            wanted = ":".join(map(str, range(expected)))
            return f'\n  = hint: columns="{wanted}" ignores the others'
        for other in (b",", b";", b"|", b" ", b"\t"):
            if other != self._delimiter and row.count(other) == expected - 1:
                shown_as = other.decode().replace("\t", "\\t")
                return f'\n  = hint: if the columns are separated by "{shown_as}", say delimiter="{shown_as}"'
        return ""


def _quoted_patterns(delimiter: bytes) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """A row with its line break, and a field: group 1 inside quotes, group 2 outside."""
    d = re.escape(delimiter)
    plain = rb"[^\n%b]*+" % d if len(delimiter) == 1 else rb"(?:(?!%b)[^\n])*+" % d
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
    field = rb"(?:%b%b|%b)" % (quoted, plain, plain)
    row = re.compile(rb"%b(?:%b%b)*+(?:\n|\Z)" % (field, d, field))
    return row, re.compile(rb'(?:"([^"]*+(?:""[^"]*+)*+)")?(%b)' % plain)


def _plural(columns: int) -> str:
    return f"{columns} column{'s' if columns != 1 else ''}"
