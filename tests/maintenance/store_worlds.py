"""Stores and commits for tests, with Python sets as the model of what a store must hold.

Light on imports: the processes of the crash tests are forked from one that needs nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuengine.maintenance.delta import Delta
from gpuengine.maintenance.store import Commit, Snapshot, StoredTable
from gpuengine.terms.persistence import TermColumns

Row = tuple[int, ...]
ODD_NAMES = (
    "edge",
    "path@external",
    "a/b",
    "../up",
    "größe ∀",
    "",
    "lock",
    "x" * 5000,
    "null\0byte",
    "\ud800",
)
KINDS = {"number": "words", "symbol": "strings", "list": "rows"}
WIDTH = 3


def columns_of(rows: Iterable[Row], arity: int) -> list[np.ndarray]:
    """Rows as columns."""
    listed = list(rows)
    return [np.array([row[position] for row in listed], np.uint32) for position in range(arity)]


def delta(minus: Iterable[Row], plus: Iterable[Row], arity: int) -> Delta:
    """Rows that go and rows that come, of whatever table."""
    gone, come = list(minus), list(plus)
    sides = ((columns_of(rows, arity), len(rows)) for rows in (gone, come))
    return Delta.listed("", arity, *sides)


def rows_of(table: StoredTable) -> set[Row]:
    """The rows of a table, which must be distinct."""
    assert all(column.dtype == np.uint32 and column.shape == (table.rows,) for column in table.columns)
    if not table.columns:
        return {()} if table.rows else set()
    rows = set(zip(*(column.tolist() for column in table.columns), strict=True))
    assert len(rows) == table.rows
    return rows


def terms_of(space: str, values: list[Any], begin: int) -> TermColumns:
    """Terms in the way of a dictionary: int words, bytes, or rows of `WIDTH` ids."""
    kind = KINDS[space]
    if kind == "words":
        return TermColumns("words", begin, len(values), (np.array(values, np.uint64),))
    if kind == "rows":
        return TermColumns(
            "rows", begin, len(values), (np.array(values, np.uint32).reshape(len(values), WIDTH),)
        )
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
    return TermColumns(
        "strings", begin, len(values), (offsets, np.frombuffer(b"".join(values), np.uint8).copy())
    )


def values_of(terms: TermColumns) -> list[Any]:
    """Terms as Python values."""
    if terms.kind == "strings":
        offsets, data = terms.arrays
        text = data.tobytes()
        return [text[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    values = terms.arrays[0].tolist()
    return [tuple(row) for row in values] if terms.kind == "rows" else values


@dataclass
class World:
    """What a store must hold: rows by table, with the table's number of columns; terms by space; meta."""

    meta: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, tuple[int, set[Row]]] = field(default_factory=dict)
    terms: dict[str, list[Any]] = field(default_factory=dict)

    def snapshot(self) -> Snapshot:
        """This world as a snapshot."""
        tables = {
            name: StoredTable(columns_of(rows, arity), len(rows))
            for name, (arity, rows) in self.tables.items()
        }
        terms = {space: terms_of(space, values, 0) for space, values in self.terms.items() if values}
        return Snapshot(deepcopy(self.meta), terms, tables)

    @classmethod
    def of(cls, snapshot: Snapshot) -> World:
        """The world that a snapshot holds."""
        assert all(terms.begin == 0 for terms in snapshot.terms.values())
        return cls(
            snapshot.meta,
            {name: (len(table.columns), rows_of(table)) for name, table in snapshot.tables.items()},
            {space: values_of(terms) for space, terms in snapshot.terms.items()},
        )

    def step(self, rng: random.Random, names: tuple[str, ...] = ODD_NAMES) -> Commit:
        """Change this world at random; the commit that does the same to a store."""
        changes = {}
        dropped = tuple(name for name in self.tables if rng.random() < 0.05)
        for name in dropped:
            del self.tables[name]
        for name in rng.sample(names, rng.randint(0, 3)):
            changes[name] = self._change(name, rng)
        terms = {}
        for space in KINDS:
            known = self.terms.get(space, [])
            if rng.random() < 0.5:
                fresh = [_new_term(space, len(known) + at, rng) for at in range(rng.randint(1, 4))]
                terms[space] = terms_of(space, fresh, len(known))
                self.terms[space] = known + fresh
        meta = None
        if rng.random() < 0.3:
            meta = {"k": rng.random(), "text": "∀\ud800", "list": [1, None, True]}
            self.meta = deepcopy(meta)
        return Commit(changes, terms, meta, dropped)

    def _change(self, name: str, rng: random.Random) -> Delta | StoredTable:
        if name not in self.tables or rng.random() < 0.1:
            arity = rng.randint(0, 5)
            rows = {_row(arity, rng) for _ in range(rng.randint(0, 12))}
            self.tables[name] = (arity, rows)
            return StoredTable(columns_of(rows, arity), len(rows))
        arity, rows = self.tables[name]
        deleted = [_row(arity, rng) for _ in range(rng.randint(0, 6 if arity else 1))]
        inserted = [_row(arity, rng) for _ in range(rng.randint(0, 6 if arity else 1))]
        self.tables[name] = (arity, (rows - set(deleted)) | set(inserted))
        return delta(deleted, inserted, arity)


def _row(arity: int, rng: random.Random) -> Row:
    """A row of few values, so that rows meet again; the largest id is among them."""
    return tuple(rng.choice((0, 1, 2, 2**24, 2**32 - 2)) for _ in range(arity))


def _new_term(space: str, number: int, rng: random.Random) -> Any:
    """A term that no other number of the space has."""
    if space == "number":
        return 2**64 - 1 - number
    if space == "list":
        return (number, 0, 2**32 - 1)
    return b"" if number == 0 else b"%d" % number + b"\xff" * rng.randint(0, 20)


# -- numbered commits, for processes that are killed ---------------------------------------------------


def numbered_commit(number: int) -> Commit:
    """Commit `number` (from 1): a function of its number, to a store that `numbered_world` made."""
    row, gone = (number, number % 7), (number - 3, (number - 3) % 7)
    is_odd = number % 2 == 1
    seen: dict[str, Delta | StoredTable] = {
        "window": delta([gone] if number > 3 else [], [row], 2),
        "all": delta([], [(number,)], 1),
        "odd": delta([] if is_odd else [()], [()] if is_odd else [], 0),
        "last": StoredTable(columns_of([row], 2), 1),
    }
    terms = {"symbol": terms_of("symbol", [b"s%d" % number], number - 1)}
    return Commit(seen, terms, {"number": number})


def numbered_world(number: int) -> World:
    """The world after the commits 1 .. number."""
    window = {(n, n % 7) for n in range(max(1, number - 2), number + 1)}
    return World(
        {"number": number},
        {
            "window": (2, window),
            "all": (1, {(n,) for n in range(1, number + 1)}),
            "odd": (0, {()} if number % 2 else set()),
            "last": (2, {(number, number % 7)} if number else set()),
            "still": (3, {(1, 2, 3)}),
        },
        {"symbol": [b"s%d" % n for n in range(1, number + 1)]} if number else {},
    )
