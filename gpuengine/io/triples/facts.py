"""Triples as the facts of a relation of symbols: ``.input t(IO=rdf, filename="data.nt")``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.schema import Facts
from gpuengine.io.triples.read import Findings, OnError, Statements, read_statements
from gpuengine.kernels.cpu.triple_text import BLANK
from gpuengine.language.program import Attribute, Kind
from gpuengine.terms.text import Text, concatenate, from_offsets, single


def read_triples(
    path: Path, attributes: Sequence[Attribute], *, relation: str, on_error: OnError, threads: int | None
) -> Facts:
    """The statements of a file: subject, predicate, object and, if the relation has a fourth column, the
    graph (empty for the default graph; a relation of three has the triples of all graphs).

    Terms are as N-Triples writes them. Blank nodes of different files are different.
    """
    if len(attributes) not in (3, 4) or any(one.type.kind is not Kind.SYMBOL for one in attributes):
        raise DataError(
            f"{path}: triples are for relations of 3 columns, or 4 with the graph, all of type symbol; "
            f"{relation} is declared otherwise"
        )
    findings = Findings()
    scope = f"_:f{zlib.crc32(str(path.absolute()).encode()):08x}."
    names = [attribute.name for attribute in attributes]
    schema = pa.schema([pa.field(name, pa.large_string()) for name in names])
    batches = [
        pa.RecordBatch.from_arrays([_column(part, j, scope) for j in range(len(names))], schema=schema)
        for part in read_statements(path, on_error=on_error, findings=findings, threads=threads)
    ]
    return Facts(pa.Table.from_batches(batches, schema=schema), findings.rows, findings.first_errors)


def _column(statements: Statements, term: int, scope: str) -> pa.Array:
    text = Text(statements.starts[term], statements.ends[term], statements.data)
    blank = statements.kinds[term] == BLANK
    if not blank.any():
        return text.to_arrow()
    # A prefix for each row: the scope before what follows the underscore of a blank node, nothing for others.
    prefix = single(scope)
    starts, ends = np.zeros(len(text), np.int64), np.where(blank, len(prefix.data), 0)
    rest = Text(text.starts + 2 * blank, text.ends, text.data)
    return from_offsets(*concatenate((Text(starts, ends, prefix.data), rest), len(text))).to_arrow()
