"""Fact files of every format, one or many, to one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.admission import PLAIN, Admission
from gpuengine.io.locate import STDIN, part_files
from gpuengine.io.options import DATABASES, Format, format_of, reading_dialect
from gpuengine.io.schema import ANY_TEXT, MAX_MESSAGES, Facts, NestedTerms, empty_table, nullary
from gpuengine.io.text import OnError, read_text
from gpuengine.language.program import Attribute
from gpuengine.rdf_names import format_of_name


def read_facts(
    path: Path,
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
    *,
    relation: str,
    on_error: OnError = "fail",
    threads: int | None = None,
    terms: NestedTerms = ANY_TEXT,
    admission: Admission = PLAIN,
) -> Facts:
    """The facts of `relation` in a file, a directory of part files or a glob; ``-`` is standard input.

    `params` are those of ``.input`` (``IO delimiter headers columns rfc4180 nulls dates``); without ``IO=``
    the extension names the format. `threads` 1 keeps the reading on the calling thread. `terms` say which
    texts are bad values in columns of records and ADTs; without them, all are taken. `admission` says what
    becomes of nulls, dates and times unless `params` do.
    A bad value, column count or encoding raises `DataError` with file, line, column and value and
    nothing is returned, or with `on_error` "skip" leaves the row out and counts it.
    """
    admission = admission.said(params)
    try:
        parts = [path] if path == STDIN else part_files(path)
        results = [
            _read_part(p, attributes, params, relation, on_error, threads, terms, admission) for p in parts
        ]
    except OSError as error:
        raise DataError(f"{error.filename or path}: {error.strerror or error}") from error
    if len(results) == 1:
        return results[0]
    return _together(results, attributes)


def _read_part(
    path: Path,
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
    relation: str,
    on_error: OnError,
    threads: int | None,
    terms: NestedTerms,
    admission: Admission,
) -> Facts:
    is_rdf = "IO" not in params and format_of_name(path) is not None
    format = Format.RDF if is_rdf else format_of(path, params)
    dialect = reading_dialect(path, params, len(attributes))
    if format is Format.TEXT:
        return read_text(
            path,
            attributes,
            dialect,
            relation=relation,
            on_error=on_error,
            threads=threads,
            terms=terms,
            admission=admission,
        )
    if format is Format.JSON:
        from gpuengine.io.json_rows import read_json

        return read_json(path, attributes, relation=relation, terms=terms, admission=admission)
    if format in DATABASES:
        from gpuengine.io.databases import read_database

        return read_database(
            path,
            format,
            params.get("name", relation),
            attributes,
            dialect.columns,
            relation=relation,
            skip_bad_rows=on_error == "skip",
            terms=terms,
            admission=admission,
        )
    if format is Format.RDF:
        from gpuengine.io.triples.facts import read_triples

        return read_triples(path, attributes, relation=relation, on_error=on_error, threads=threads)
    from gpuengine.io.columnar import read_columnar

    return read_columnar(
        path,
        format,
        attributes,
        dialect.columns,
        relation=relation,
        skip_bad_rows=on_error == "skip",
        threads=threads,
        terms=terms,
        admission=admission,
    )


def _together(results: list[Facts], attributes: Sequence[Attribute]) -> Facts:
    if attributes:
        tables = [r.table for r in results] or [empty_table(attributes)]
        # Permissive, since one part may hold text in large_string and another in string.
        table = pa.concat_tables(tables, promote_options="permissive")
    else:
        table = nullary(any(r.table.num_rows for r in results))
    messages = [m for r in results for m in r.first_errors]
    return Facts(table, sum(r.skipped for r in results), messages[:MAX_MESSAGES])
