"""The Arrow types of relations, and what reading yields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from gpuengine.io.logical import outer_type
from gpuengine.language.program import Attribute, Branch, Kind, Type

_ARROW = {
    Kind.NUMBER: pa.int64(),
    Kind.UNSIGNED: pa.uint64(),
    Kind.FLOAT: pa.float64(),
    Kind.SYMBOL: pa.string(),
    Kind.RECORD: pa.string(),
    Kind.ADT: pa.string(),
}

TEXTUAL = frozenset({Kind.SYMBOL, Kind.RECORD, Kind.ADT})

NESTED = frozenset({Kind.RECORD, Kind.ADT})

MAX_MESSAGES = 5  # how many skipped rows are described; the rest are only counted


@dataclass(slots=True)
class Facts:
    """The facts of one relation: `table` has a column per attribute, in order, and no nulls.

    A relation without attributes has a table without columns whose `num_rows` says if it holds.
    `skipped` rows were left out as bad; `first_errors` describes the first few of them. A column of
    text is `string`, or `large_string` where one chunk exceeds 2 GB.
    """

    table: pa.Table
    skipped: int = 0
    first_errors: list[str] = field(default_factory=list)


class NestedTerms(Protocol):
    """Knows what records and ADT values look like, which reading itself takes as any text."""

    def bad_values(self, space: str, values: Any, *, first_only: bool) -> Mapping[int, str]:
        """The rows of a column of text without nulls that are not values of the space, in order, each with
        what is to be said of the text; only the first of them if so asked."""

    def branches(self, space: str) -> tuple[Branch, ...]:
        """The branches of an ADT space; a record space has one, without a name."""


class AnyText:
    """Knows nothing of records and ADT values: any text is one, and no tuple."""

    def bad_values(self, space: str, values: Any, *, first_only: bool) -> Mapping[int, str]:
        return {}

    def branches(self, space: str) -> tuple[Branch, ...]:
        return ()


ANY_TEXT = AnyText()


def arrow_type(type: Type) -> pa.DataType:
    """The Arrow type of a column as it is interned; records and ADTs travel as Soufflé's text,
    ``[1, [2, nil]]``, ``$B(1)``."""
    return _ARROW[type.kind]


def arrow_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """The schema of a relation's table as it is interned: dates, for one, are numbers in it."""
    return pa.schema([pa.field(a.name, arrow_type(a.type)) for a in attributes])


def outer_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """The schema of a relation's table as it is handed out: dates are dates."""
    return pa.schema([pa.field(a.name, outer_type(a.type) or arrow_type(a.type)) for a in attributes])


def empty_table(attributes: Sequence[Attribute]) -> pa.Table:
    """The table of a relation without facts."""
    return pa.Table.from_batches([], arrow_schema(attributes))


def nullary(holds: bool) -> pa.Table:
    """The table of a relation without attributes."""
    rows = pa.StructArray.from_buffers(pa.struct([]), int(holds), [None])
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)])
