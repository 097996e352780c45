"""Text files: through pyarrow's parallel CSV reader, and exactly where that one gives up.

`read_text` first hands the whole file to pyarrow. Only if it refuses, or yields something that it
reads more generously than Soufflé does, is the file cut into blocks of whole rows; each block is tried
again, and the rows of those that still fail are read one by one, which finds the line of every problem.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.admission import Admission
from gpuengine.io.blocks import BLOCK, BlockReader
from gpuengine.io.options import Dialect
from gpuengine.io.scan import Problem
from gpuengine.io.schema import MAX_MESSAGES, Facts, NestedTerms, empty_table, nullary
from gpuengine.io.source import Source, first_row, line_at, open_text
from gpuengine.language.program import Attribute
from gpuengine.limits import check

_HEADER_LIKE = re.compile(r": '[A-Za-z_]\w*' is not an? [a-z ]+(?:of type .* at character 1)?$")

OnError = Literal["fail", "skip"]


def read_text(
    path: Path,
    attributes: Sequence[Attribute],
    dialect: Dialect,
    *,
    relation: str,
    on_error: OnError,
    threads: int | None,
    terms: NestedTerms,
    admission: Admission,
) -> Facts:
    """The facts in a text file; gzip and zstd are recognised by content. Raises `DataError`."""
    source = open_text(path)
    start, first_line = first_row(source.head, dialect)
    if not attributes:
        return Facts(nullary(start < len(source.head)))
    dialect = dialect.settled(line_at(source.head, start), attributes)
    start, first_line = first_row(source.head, dialect)
    if dialect.headers:
        header = line_at(source.head, first_row(source.head, replace(dialect, headers=False))[0])
        dialect = dialect.named(header, attributes, f"{source.name}: {relation}", relation)
    reader = BlockReader(attributes, dialect, line_at(source.head, start), terms, admission)
    if start >= len(source.head):
        return Facts(empty_table(attributes))
    table = reader.whole(source, threads)
    if table is not None:
        facts = Facts(table)
    else:
        facts = _read_blocks(reader, source, start, first_line, relation, on_error)
    facts.table = admission.settle(facts.table, attributes, f"{source.name}: {relation}")
    return facts


def _read_blocks(
    reader: BlockReader, source: Source, start: int, line: int, relation: str, on_error: OnError
) -> Facts:
    facts = Facts(pa.Table.from_batches([], reader.schema))
    tables = []
    for block in reader.scanner.blocks(source.all(), start, BLOCK):
        check(f"reading {source.name}")
        table = reader.block(block)
        if table is None:
            table, problems = reader.rows(block, line, first_only=on_error == "fail")
            messages = (_message(source.name, relation, p, reader.headers) for p in problems)
            if problems and on_error == "fail":
                raise DataError(next(messages))
            facts.skipped += len(problems)
            facts.first_errors.extend(islice(messages, MAX_MESSAGES - len(facts.first_errors)))
        tables.append(table)
        line += block.count(b"\n")
    if tables:
        facts.table = pa.concat_tables(tables)
    return facts


def _message(name: str, relation: str, problem: Problem, headers: bool) -> str:
    message = f"{name}:{problem.line}: {relation}: {problem.reason}"
    if problem.line == 1 and not headers and _HEADER_LIKE.search(message):
        message += "\n  = hint: if this line is a header, say headers=true"
    return message
