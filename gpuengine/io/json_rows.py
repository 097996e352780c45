"""Relations as JSON, as Soufflé writes it: a list of rows, each a list, or with ``format=object`` an object.

Records and ADT values are texts in it; on reading they may be nested lists too, and nil may be null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpuengine.errors import DataError
from gpuengine.io.admission import Admission
from gpuengine.io.schema import Facts, NestedTerms, nullary
from gpuengine.io.source import open_text
from gpuengine.io.tabular import from_tabular
from gpuengine.language.program import Attribute, Kind
from gpuengine.limits import charge

_TIMES_LARGER = 8
"""What JSON takes as values of Python, about, for each byte of it."""


def read_json(
    path: Path,
    attributes: Sequence[Attribute],
    *,
    relation: str,
    terms: NestedTerms,
    admission: Admission,
) -> Facts:
    """The facts in a file of JSON, or in standard input. Raises `DataError`."""
    source = open_text(path)
    text = source.all()
    charge(_TIMES_LARGER * len(text), f"reading {source.name}")
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source.name}: {relation}: this is no JSON: {error}") from error
    if not attributes:
        return Facts(nullary(rows is None or bool(rows)))
    if not isinstance(rows, list) or {type(row) for row in rows} not in ({list}, {dict}, set()):
        raise DataError(f"{source.name}: {relation}: expected a list of rows, all lists or all objects")
    for place, attribute in enumerate(attributes):
        if attribute.type.kind is Kind.RECORD:
            _name_nils(rows, place, attribute.name)
    where = f"{source.name}: {relation}"
    return Facts(from_tabular(rows, attributes, relation=where, terms=terms, admission=admission))


def _name_nils(rows: list[Any], place: int, name: str) -> None:
    """Have ``nil`` where a record is null."""
    for row in rows:
        if isinstance(row, dict):
            if row.get(name, "") is None:
                row[name] = "nil"
        elif place < len(row) and row[place] is None:
            row[place] = "nil"


def write_json(
    write: Callable[[bytes], object],
    batches: Iterable[pa.RecordBatch],
    attributes: Sequence[Attribute],
    params: Mapping[str, str],
) -> int:
    """Write the facts of `batches`; returns how many there were."""
    names = [attribute.name for attribute in attributes]
    rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        write(b",\n" if rows else b"[")
        columns = [column.to_pylist() for column in batch.columns]
        objects: Iterable[Any] = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        if params.get("format") == "object":
            objects = (dict(zip(names, row, strict=True)) for row in objects)
        write(",\n".join(map(_text, objects)).encode())
        rows += batch.num_rows
    write(b"]\n" if rows else b"[]\n")
    return rows


def _text(row: Any) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)  # dates and times as texts, and so decimals
