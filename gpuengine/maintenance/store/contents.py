"""What a store keeps and what a commit changes, as plain arrays of ids.

`Outline` is the part of the contents that a commit must agree with: which tables there are, how wide they
are, and how many terms each space has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuengine.maintenance.delta import Delta
from gpuengine.terms.persistence import TermColumns, term_shapes

Columns = Sequence[np.ndarray]
"""The columns of a table: uint32 arrays of one length."""


@dataclass
class StoredTable:
    """Distinct rows in no particular order. A table without columns has 0 rows or 1.

    Columns that a store loaded may be read-only views of a file.
    """

    columns: list[np.ndarray]
    rows: int


@dataclass
class Snapshot:
    """Everything in a store. `terms` begin at number 0; `meta` holds what JSON can (keys are text)."""

    meta: dict[str, Any]
    terms: Mapping[str, TermColumns]
    tables: dict[str, StoredTable]


@dataclass
class Commit:
    """One step of a store. Tables are `dropped` before others change; `terms` are the new ones only; `meta`
    replaces the meta object unless it is None.

    Of a table there is a delta, or the whole content, whatever was there before: this makes new tables too,
    and may change how many columns a table has. Of a delta's facts, which are listed, those that go and come
    stay; deleting what isn't there and inserting what is changes nothing.
    """

    tables: Mapping[str, Delta | StoredTable]
    terms: Mapping[str, TermColumns]
    meta: dict[str, Any] | None
    dropped: tuple[str, ...] = ()


@dataclass
class Outline:
    """Columns of each table; kind, width (of rows) and number of terms of each space."""

    arities: dict[str, int] = field(default_factory=dict)
    spaces: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    @property
    def term_counts(self) -> dict[str, int]:
        """How many terms each space has."""
        return {space: count for space, (_, _, count) in self.spaces.items()}

    def check(self, commit: Commit) -> None:
        """Raise `ValueError` if the commit can't follow this state."""
        for name in commit.dropped:
            if name not in self.arities:
                raise ValueError(f"table {name!r} is dropped, but there is none")
        for name, change in commit.tables.items():
            if isinstance(change, StoredTable):
                _check_columns(name, change.columns, change.rows, len(change.columns))
                continue
            arity = None if name in commit.dropped else self.arities.get(name)
            if arity is None:
                raise ValueError(f"table {name!r} is changed, but there is none; replace it to make it")
            _check_columns(name, *change.minus_facts, arity)
            _check_columns(name, *change.plus_facts, arity)
        for space, columns in commit.terms.items():
            self._check_terms(space, columns)

    def apply(self, commit: Commit) -> None:
        """Become the outline of the state after a commit that was checked."""
        for name in commit.dropped:
            del self.arities[name]
        for name, change in commit.tables.items():
            if isinstance(change, StoredTable):
                self.arities[name] = len(change.columns)
        for space, columns in commit.terms.items():
            if columns.count:
                self.add_terms(space, columns.kind, columns.end, columns.size)

    def add_terms(self, space: str, kind: str, end: int, size: int) -> None:
        """The space now has `end` terms."""
        self.spaces[space] = (kind, size if kind == "rows" else 0, end)

    def _check_terms(self, space: str, columns: TermColumns) -> None:
        width = columns.size if columns.kind == "rows" else 0
        kind, known_width, count = self.spaces.get(space, (columns.kind, width, 0))
        if (kind, known_width, count) != (columns.kind, width, columns.begin):
            raise ValueError(f"new terms of {space!r} do not follow the {count} that there are")
        shapes = term_shapes(columns.kind, columns.count, columns.size)
        if [(array.dtype, array.shape) for array in columns.arrays] != [
            (np.dtype(dtype), shape) for dtype, shape in shapes
        ]:
            raise ValueError(f"the arrays of the terms of {space!r} have the wrong types or lengths")


def as_commit(snapshot: Snapshot) -> Commit:
    """The commit that makes an empty store this one."""
    return Commit(snapshot.tables, snapshot.terms, snapshot.meta)


def _check_columns(name: str, columns: Columns, rows: int, arity: int) -> None:
    if rows == 0 and not columns:
        return
    if len(columns) != arity:
        raise ValueError(f"table {name!r} has {arity} columns, not {len(columns)}")
    if any(column.dtype != np.uint32 or column.shape != (rows,) for column in columns):
        raise ValueError(f"the columns of table {name!r} must be uint32 arrays of {rows} ids")
    if arity == 0 and rows > 1:
        raise ValueError(f"table {name!r} has no columns: it has one row or none, not {rows}")
