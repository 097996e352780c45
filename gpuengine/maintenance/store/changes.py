"""A commit as the payload of a journal record, and back.

A payload is the length of a JSON text (8 bytes), that text, and the bytes of every array it tells of, in its
order, each part padded to 8 bytes so that arrays can be used where they lie.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gpuengine.loading import Facts
from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store.contents import Commit, StoredTable
from gpuengine.terms.persistence import TermColumns, term_shapes

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 8


def encode_commit(commit: Commit) -> bytes:
    """The payload of a commit that fits its store. `ValueError` if `meta` is nothing that JSON can hold."""
    tables: list[list[Any]] = []
    parts: list[bytes] = []
    for name, change in commit.tables.items():
        deleted, inserted = _sides(change)
        arity = max(len(deleted[0]), len(inserted[0]))
        tables.append([name, arity, deleted[1], inserted[1], isinstance(change, StoredTable)])
        for columns, rows in (deleted, inserted):
            parts += [column.tobytes() for column in columns if rows]
    new_terms = {space: terms for space, terms in commit.terms.items() if terms.count}
    for terms in new_terms.values():
        parts += [array.tobytes() for array in terms.arrays]
    header = {
        "dropped": commit.dropped,
        "tables": tables,
        "terms": [
            [space, terms.kind, terms.begin, terms.count, terms.size] for space, terms in new_terms.items()
        ],
        "meta": commit.meta,
    }
    text = encode_json(header)
    return b"".join(_padded([_LENGTH.pack(len(text)), text, *parts]))


def decode_commit(payload: memoryview) -> Commit:
    """The commit of a payload; its arrays are read-only views. `ValueError` if the payload makes no sense."""
    (length,) = _LENGTH.unpack_from(payload)
    cursor = _Cursor(payload, _LENGTH.size + _aligned(length))
    try:
        header = json.loads(bytes(payload[_LENGTH.size : _LENGTH.size + length]))
        tables: dict[str, Delta | StoredTable] = {}
        for name, arity, deleted_rows, inserted_rows, replaced in header["tables"]:
            deleted = cursor.columns(arity, deleted_rows), deleted_rows
            inserted = cursor.columns(arity, inserted_rows), inserted_rows
            if replaced and deleted_rows:
                raise ValueError(f"table {name!r} is replaced: no rows of it can be deleted")
            tables[name] = (
                StoredTable(*inserted) if replaced else Delta.listed(name, arity, deleted, inserted)
            )
        terms = {}
        for space, kind, begin, count, size in header["terms"]:
            arrays = tuple(cursor.take(dtype, shape) for dtype, shape in term_shapes(kind, count, size))
            terms[space] = TermColumns(kind, begin, count, arrays)
        return Commit(tables, terms, header["meta"], tuple(header["dropped"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"unexpected fields: {error!r}") from error


def _sides(change: Delta | StoredTable) -> tuple[Facts, Facts]:
    """What goes and what comes, of a table that is replaced all there is."""
    if isinstance(change, StoredTable):
        return ([], 0), (change.columns, change.rows)
    return change.minus_facts, change.plus_facts


def encode_json(value: Any) -> bytes:
    """JSON as bytes; `ValueError` for what JSON can't hold."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except TypeError as error:
        raise ValueError(f"not to be written as JSON: {error}") from error


class _Cursor:
    """Takes arrays from a payload, one after another."""

    def __init__(self, payload: memoryview, at: int) -> None:
        self.payload = payload
        self.at = at

    def take(self, dtype: type, shape: Sequence[int]) -> np.ndarray:
        count = int(np.prod(shape))
        array: np.ndarray = np.zeros(0, dtype)
        if count:
            array = np.frombuffer(self.payload, dtype, count, self.at)
        self.at += _aligned(array.nbytes)
        return array.reshape(shape)

    def columns(self, arity: int, rows: int) -> list[np.ndarray]:
        return [self.take(np.uint32, (rows,)) for _ in range(arity)]


def _padded(parts: Sequence[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield part
        yield bytes(-len(part) % _ALIGNMENT)


def _aligned(length: int) -> int:
    return length + -length % _ALIGNMENT
