"""The terms of a `Dictionary` as plain arrays, and back, so that every id stays what it was.

The terms of a space are numbered from 0 in order of first sight; the id of a term is its number plus a
constant of the space.  Numbers that are their own ids are in no table and need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gpuengine.errors import StoreError
from gpuengine.terms.tables import RowTable, StringTable, WordTable
from gpuengine.terms.text import from_offsets

if TYPE_CHECKING:
    from gpuengine.terms.dictionary import Dictionary

Kind = Literal["words", "strings", "rows"]
_KINDS: dict[type, Kind] = {WordTable: "words", StringTable: "strings", RowTable: "rows"}


@dataclass(frozen=True, slots=True, eq=False)
class TermColumns:
    """`count` terms of one space with the numbers begin, begin + 1, ...; the arrays may be read-only views.

    | kind | arrays | size |
    |---|---|---|
    | words | uint64[count] | 0 |
    | strings | int64 offsets[count + 1] from 0, uint8 bytes | how many bytes |
    | rows | uint32[count, width] | the width |
    """

    kind: Kind
    begin: int
    count: int
    arrays: tuple[np.ndarray, ...]

    @property
    def size(self) -> int:
        """What must be known besides `kind` and `count` to know the shapes of the arrays."""
        return 0 if self.kind == "words" else int(self.arrays[-1].shape[-1])

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.begin + self.count


def term_shapes(kind: str, count: int, size: int) -> tuple[tuple[type, tuple[int, ...]], ...]:
    """The (dtype, shape) of each array of such `TermColumns`. An unknown kind is a `ValueError`."""
    if kind == "words":
        return ((np.uint64, (count,)),)
    if kind == "strings":
        return (np.int64, (count + 1,)), (np.uint8, (size,))
    if kind == "rows":
        return ((np.uint32, (count, size)),)
    raise ValueError(f"unknown kind of terms {kind!r}")


def join_terms(parts: Sequence[TermColumns]) -> TermColumns:
    """Stretches of one space that follow each other as one; one alone is not copied."""
    first = parts[0]
    if len(parts) == 1:
        return first
    count = sum(part.count for part in parts)
    if first.kind != "strings":
        return TermColumns(
            first.kind, first.begin, count, (np.concatenate([part.arrays[0] for part in parts]),)
        )
    starts = np.cumsum([0, *(part.size for part in parts)])
    shifted = [part.arrays[0][1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
    offsets = np.concatenate([np.zeros(1, np.int64), *shifted])
    data = np.concatenate([part.arrays[1] for part in parts])
    return TermColumns(first.kind, first.begin, count, (offsets, data))


def term_counts(dictionary: Dictionary) -> dict[str, int]:
    """How many terms of each space the dictionary has given a number."""
    return {space: len(table) for space, table in dictionary.tables().items()}


def export_terms(dictionary: Dictionary, since: Mapping[str, int]) -> dict[str, TermColumns]:
    """The terms of each space from number `since` on (0 for a space it lacks); spaces without any are left
    out. The arrays are views where they can be, and stay as they are when the dictionary grows."""
    exported: dict[str, TermColumns] = {}
    for space, table in dictionary.tables().items():
        begin = since.get(space, 0)
        if begin >= len(table):
            continue
        arrays = table.since(begin)  # others may intern more meanwhile
        count = len(arrays[0]) - 1 if isinstance(table, StringTable) else len(arrays[0])
        exported[space] = TermColumns(_KINDS[type(table)], begin, count, arrays)
    return exported


def restore_terms(dictionary: Dictionary, terms: Mapping[str, TermColumns]) -> None:
    """Intern exported terms, so that each gets the number it had.

    Raises `StoreError` if the program has no such type, or if a term gets another number; a dictionary that
    was refused may have taken some of the terms and is not to be used.
    """
    tables = dictionary.tables()
    for space, columns in terms.items():
        table = tables.get(space)
        if table is None:
            raise StoreError(
                f"the knowledge base holds terms of type {space!r}, which the program does not declare. "
                "Open it with the program it was made with."
            )
        if columns.kind != _KINDS[type(table)] or (
            isinstance(table, RowTable) and columns.size != table.width
        ):
            raise StoreError(
                f"the knowledge base holds terms of type {space!r} of another shape than the program "
                "declares. Open it with the program it was made with."
            )
        if len(table) != columns.begin:
            raise StoreError(
                f"the terms of type {space!r} begin with number {columns.begin}, but the dictionary already "
                f"has {len(table)}. Restore into a new dictionary, oldest terms first."
            )
        first = table.first_id + columns.begin
        ids = _intern(table, columns)
        if not np.array_equal(ids, np.arange(first, first + columns.count, dtype=np.int64)):
            raise StoreError(
                f"the terms of type {space!r} in the knowledge base are not distinct: they can't get their "
                "ids back. Restore the knowledge base from a copy."
            )


def _intern(table: WordTable | StringTable | RowTable, columns: TermColumns) -> np.ndarray:
    if isinstance(table, StringTable):
        offsets, data = columns.arrays
        if offsets[0] != 0 or offsets[-1] != len(data) or (offsets[1:] < offsets[:-1]).any():
            raise StoreError(
                "the symbols in the knowledge base overlap or leave gaps. "
                "Restore the knowledge base from a copy."
            )
        # The kernels want a byte to point to, even if every string is empty.
        return table.intern(from_offsets(offsets, data if len(data) else np.zeros(1, np.uint8)))
    return table.intern(np.ascontiguousarray(columns.arrays[0]))
