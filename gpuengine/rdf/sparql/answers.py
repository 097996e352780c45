"""What a query gives: rows, a truth value or triples; as Arrow, and in the formats of the W3C."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.rdf.sparql.tables import Table
from gpuengine.rdf.sparql.typed import typed_column
from gpuengine.rdf.terms import XSD
from gpuengine.rdf.values import Kind, Value, decode
from gpuengine.rdf.writing import turtle

_OF_TRIPLES = ("nt", "ttl")
FORMATS = ("table", "csv", "tsv", "json", "xml", "parquet", *_OF_TRIPLES)
"""Rows have all but nt and ttl, triples all but json and xml, a truth value no parquet either."""


class Answer:
    """The answer of a query. `form` is SELECT, ASK, CONSTRUCT or DESCRIBE.

    Rows have a column for each of `variables`; triples are rows of subject, predicate and object. A term is
    the text of its N-Triples form; None where a variable has no value. The answer of ASK is its truth:
    `bool(answer)`.
    """

    def __init__(
        self,
        form: str,
        table: Table,
        texts: Callable[[np.ndarray], list[str]],
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self.form = form
        self.variables = tuple(table.columns)
        self._table = table
        self._texts = texts
        self._prefixes = dict(prefixes or {})

    def __len__(self) -> int:
        return self._table.length

    def __bool__(self) -> bool:
        """Whether there is a solution: the truth of ASK."""
        return self._table.length > 0

    def __iter__(self) -> Iterator[tuple[str | None, ...]]:
        return iter(self.rows())

    def __repr__(self) -> str:
        if self.form == "ASK":
            return f"Answer({bool(self)})"
        return f"Answer({self._table.length} rows of {', '.join(self.variables)})"

    def rows(self) -> list[tuple[str | None, ...]]:
        """The texts of the terms, row by row."""
        if not self.variables:
            return [()] * self._table.length
        columns = [self._rendered(name, lambda text: text) for name in self.variables]
        return list(zip(*columns, strict=True))

    def _distinct(self, name: str) -> tuple[list[str], np.ndarray]:
        """The texts of the distinct terms of a column, and the place of each row's; -1 for none."""
        ids = self._table.columns[name]
        distinct, codes = np.unique(ids, return_inverse=True)
        if len(distinct) and distinct[0] < 0:
            distinct, codes = distinct[1:], codes - 1
        return (self._texts(distinct) if len(distinct) else []), codes

    def _rendered(self, name: str, render: Callable[[str], Any], missing: Any = None) -> list[Any]:
        """A column, each distinct term rendered once."""
        texts, codes = self._distinct(name)
        rendered = [render(text) for text in texts]
        rendered.append(missing)
        return [rendered[code] for code in codes.tolist()]

    # Columns

    def to_arrow(self, *, terms: bool = False) -> pa.Table:
        """A column for each variable.

        A column whose values are all of one kind has the type of that kind: integers, doubles, decimals,
        truth values, dates, moments; strings and IRIs are plain texts. Others, and all if `terms` is true,
        are the N-Triples forms of the terms.
        """
        if self.form == "ASK":
            return pa.table({"answer": pa.array([bool(self)])})
        arrays = []
        for name in self.variables:
            texts, codes = self._distinct(name)
            values = pa.array(texts, pa.string()) if terms else typed_column([decode(text) for text in texts])
            arrays.append(values.take(pa.array(codes, mask=codes < 0)))
        return pa.table(arrays, names=list(self.variables))

    def to_polars(self, *, terms: bool = False) -> Any:
        """`to_arrow` as a frame of Polars."""
        import polars

        return polars.from_arrow(self.to_arrow(terms=terms))

    def to_pandas(self, *, terms: bool = False) -> Any:
        """`to_arrow` as a frame of pandas."""
        return self.to_arrow(terms=terms).to_pandas()

    # Formats

    def write(self, form: str) -> bytes:
        """The answer in one of `FORMATS`."""
        if form not in FORMATS:
            raise DataError(f"there is no format {form!r}: choose one of {', '.join(FORMATS)}")
        triples = self.form in ("CONSTRUCT", "DESCRIBE")
        wrong = {"json", "xml"} if triples else set(_OF_TRIPLES)
        if self.form == "ASK":
            wrong.add("parquet")
        if form in wrong:
            formats = ", ".join(other for other in FORMATS if other not in wrong)
            raise DataError(f"an answer of {self.form} has no format {form!r}: choose one of {formats}")
        if form == "parquet":
            import pyarrow.parquet as parquet

            sink = io.BytesIO()
            parquet.write_table(self.to_arrow(), sink)
            return sink.getvalue()
        if form == "ttl":
            lines = (f"{s} {p} {o} .\n".encode(errors="surrogatepass") for s, p, o in sorted(self))
            return turtle([b"".join(lines)], form, self._prefixes)
        writer = {
            "table": self._as_table,
            "csv": self._as_csv,
            "tsv": self._as_tsv,
            "json": self._as_json,
            "xml": self._as_xml,
            "nt": self._as_triples,
        }[form]
        return writer().encode(errors="surrogatepass")

    def _as_triples(self) -> str:
        return "".join(f"{s} {p} {o} .\n" for s, p, o in self.rows())

    def _as_csv(self) -> str:
        if self.form == "ASK":
            return f"{_word(bool(self))}\r\n"
        lines = io.StringIO()
        writer = csv.writer(lines)
        writer.writerow(self.variables)
        columns = [self._rendered(name, lambda text: _plain(decode(text)), "") for name in self.variables]
        if not columns:
            return "\r\n" * (1 + self._table.length)
        if len(columns) == 1:
            # An empty line would be no row.
            writer.writerows([value] if value else [""] for value in columns[0])
        else:
            writer.writerows(zip(*columns, strict=True))
        return lines.getvalue()

    def _as_tsv(self) -> str:
        if self.form == "ASK":
            return f"{_word(bool(self))}\n"
        head = "\t".join(f"?{name}" for name in self.variables)
        columns = [
            self._rendered(name, lambda text: text.replace("\t", "\\t"), "") for name in self.variables
        ]
        return "\n".join([head, *map("\t".join, self._zipped(columns)), ""])

    def _zipped(self, columns: Sequence[list[str]]) -> list[tuple[str, ...]]:
        return list(zip(*columns, strict=True)) if columns else [()] * self._table.length

    def _as_json(self) -> str:
        if self.form == "ASK":
            return json.dumps({"head": {}, "boolean": bool(self)}) + "\n"
        columns = []
        for name in self.variables:
            key = json.dumps(name)
            columns.append(
                self._rendered(name, lambda text, key=key: f"{key}: {json.dumps(_json(decode(text)))}", "")  # type: ignore[misc]
            )
        rows = ("{" + ", ".join(filter(None, row)) + "}" for row in self._zipped(columns))
        head = json.dumps({"vars": list(self.variables)})
        return f'{{"head": {head}, "results": {{"bindings": [\n' + ",\n".join(rows) + "\n]}}\n"

    def _as_xml(self) -> str:
        parts = ['<?xml version="1.0"?>\n<sparql xmlns="http://www.w3.org/2005/sparql-results#">\n<head>']
        if self.form == "ASK":
            parts.append(f"</head>\n<boolean>{_word(bool(self))}</boolean>\n</sparql>\n")
            return "".join(parts)
        parts += [f"<variable name={quoteattr(name)}/>" for name in self.variables]
        parts.append("</head>\n<results>\n")
        columns = [
            self._rendered(name, lambda text, name=name: _xml(name, decode(text)), "")  # type: ignore[misc]
            for name in self.variables
        ]
        parts += [f"<result>{''.join(row)}</result>\n" for row in self._zipped(columns)]
        parts.append("</results>\n</sparql>\n")
        return "".join(parts)

    def _as_table(self) -> str:
        """For people: columns of one width, IRIs by their prefixes."""
        if self.form == "ASK":
            return f"{_word(bool(self))}\n"
        spaces = sorted(
            ((space, name) for name, space in self._prefixes.items()), key=lambda pair: -len(pair[0])
        )

        def shown(text: str) -> str:
            if text[0] == "<":
                for space, name in spaces:
                    if text.startswith(space, 1) and _is_local(text[1 + len(space) : -1]):
                        return f"{name}:{text[1 + len(space) : -1]}"
                return text
            value = decode(text)
            if value.kind in _SHORT:
                return value.lexical
            return text

        columns = [self._rendered(name, shown, "") for name in self.variables]
        widths = [
            max([len(name), *map(len, set(column))])
            for name, column in zip(self.variables, columns, strict=True)
        ]
        lines = ["  ".join(name.ljust(width) for name, width in zip(self.variables, widths, strict=True))]
        lines.append("  ".join("─" * width for width in widths))
        for row in self._zipped(columns):
            lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
        count = self._table.length
        lines.append(f"{count} {'row' if count == 1 else 'rows'}")
        return "\n".join(line.rstrip() for line in lines) + "\n"


_SHORT = frozenset((Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.BOOLEAN))


def _is_local(text: str) -> bool:
    return bool(text) and all(character.isalnum() or character in "_-" for character in text)


def _word(truth: bool) -> str:
    return "true" if truth else "false"


def _plain(value: Value) -> str:
    return f"_:{value.native}" if value.kind == Kind.BLANK else value.lexical


def _json(value: Value) -> dict[str, str]:
    if value.kind == Kind.IRI:
        return {"type": "uri", "value": value.native}
    if value.kind == Kind.BLANK:
        return {"type": "bnode", "value": value.native}
    entry = {"type": "literal", "value": value.lexical}
    if value.language:
        entry["xml:lang"] = value.language
    elif value.datatype != f"{XSD}string":
        assert value.datatype is not None
        entry["datatype"] = value.datatype
    return entry


def _xml(name: str, value: Value) -> str:
    if value.kind == Kind.IRI:
        inner = f"<uri>{escape(value.native)}</uri>"
    elif value.kind == Kind.BLANK:
        inner = f"<bnode>{escape(value.native)}</bnode>"
    else:
        about = ""
        if value.language:
            about = f" xml:lang={quoteattr(value.language)}"
        elif value.datatype != f"{XSD}string":
            assert value.datatype is not None
            about = f" datatype={quoteattr(value.datatype)}"
        inner = f"<literal{about}>{_for_xml(value.lexical)}</literal>"
    return f"<binding name={quoteattr(name)}>{inner}</binding>"


def _for_xml(text: str) -> str:
    """Escaped; what XML 1.0 can't have stands as the replacement character."""
    text = "".join(c if c >= " " or c in "\t\n\r" else "�" for c in text)
    return escape(text, {"\r": "&#13;"})
