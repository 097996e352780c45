"""Solutions as columns of ids, and the operators of SPARQL's algebra on them.

A table is a bag of rows; an id below zero is a variable without a value. Two rows go together (are
compatible) if no variable has two different values: where all are bound that is a join on keys; rows with
unbound variables are joined apart, by which of the shared variables they bind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

UNBOUND = -1
DENSE = 4
"""Keys are addressed directly if their range is at most this many times their number."""


class Table:
    """Columns of one length; `length` is told where there are no columns."""

    __slots__ = ("columns", "length")

    def __init__(self, columns: Mapping[str, np.ndarray], length: int) -> None:
        self.columns = dict(columns)
        self.length = length

    @classmethod
    def unit(cls) -> Table:
        """One row without variables: what a join starts from."""
        return cls({}, 1)

    @classmethod
    def empty(cls, names: Iterable[str] = ()) -> Table:
        return cls({name: np.empty(0, np.int64) for name in names}, 0)

    @property
    def is_unit(self) -> bool:
        return not self.columns and self.length == 1

    def take(self, rows: np.ndarray) -> Table:
        """Rows by their places, or by a mask."""
        length = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return Table({name: column[rows] for name, column in self.columns.items()}, length)

    def slice(self, start: int, stop: int | None) -> Table:
        columns = {name: column[start:stop] for name, column in self.columns.items()}
        return Table(columns, len(range(self.length)[start:stop]))

    def project(self, names: Iterable[str]) -> Table:
        """Of these variables; those that there are not are unbound."""
        return Table({name: self.column(name) for name in names}, self.length)

    def without(self, names: Iterable[str]) -> Table:
        dropped = set(names)
        return Table({n: column for n, column in self.columns.items() if n not in dropped}, self.length)

    def extended(self, name: str, column: np.ndarray) -> Table:
        return Table({**self.columns, name: column}, self.length)

    def column(self, name: str) -> np.ndarray:
        column = self.columns.get(name)
        return np.full(self.length, UNBOUND, np.int64) if column is None else column


# Keys ----------------------------------------------------------------------------------------------------


def _packed(columns: Sequence[np.ndarray]) -> np.ndarray:
    """One key for each row, equal where all columns are. Ids may be `UNBOUND`."""
    keys = columns[0]
    if len(columns) == 1:
        return keys
    size = int(keys.max(initial=0)) + 2
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 2
        if size * width >= 2**63:
            distinct, keys = np.unique(keys, return_inverse=True)
            size = len(distinct) + 1
            if size * width >= 2**63:
                others, column = np.unique(column, return_inverse=True)
                width = len(others) + 1
        keys = keys * width + column + 1
        size *= width
    return keys


def _packed_pair(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Keys of the rows of two tables that can be compared with each other."""
    if len(left) == 1:
        return left[0], right[0]
    border = len(left[0])
    keys = _packed([np.concatenate(pair) for pair in zip(left, right, strict=True)])
    return keys[:border], keys[border:]


def _matches(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of all pairs of equal keys."""
    if len(left) < len(right):
        there, here = _matches(right, left)
        return here, there
    order = np.argsort(right, kind="stable")
    keys = right[order]
    first, counts = _ranges(keys, left)
    here = np.repeat(np.arange(len(left)), counts)
    starts = np.cumsum(counts) - counts
    offsets = np.arange(len(here)) - np.repeat(starts, counts)
    return here, order[np.repeat(first, counts) + offsets]


def _ranges(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where sorted keys have each wanted one, and how often."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
    low, high = int(keys[0]), int(keys[-1])
    if high - low < DENSE * (len(keys) + len(wanted)) + 1024:
        counts = np.bincount(keys - low, minlength=high - low + 2)
        starts = np.cumsum(counts) - counts
        place = np.where((wanted < low) | (wanted > high), high - low + 1, wanted - low)
        return starts[place], counts[place]
    first = np.searchsorted(keys, wanted, "left")
    return first, np.searchsorted(keys, wanted, "right") - first


def _are_among(wanted: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """A mask of the keys that are among others."""
    return np.isin(wanted, keys)


# Operators -----------------------------------------------------------------------------------------------


def join(left: Table, right: Table) -> Table:
    """All compatible pairs of rows."""
    if left.is_unit:
        return right
    if right.is_unit:
        return left
    here, there = _compatible(left, right)
    return _combined(left, right, here, there)


def _combined(left: Table, right: Table, here: np.ndarray, there: np.ndarray) -> Table:
    columns = {name: column[here] for name, column in left.columns.items()}
    for name, column in right.columns.items():
        if name not in columns:
            columns[name] = column[there]
        elif _partial(columns[name]):
            columns[name] = np.where(columns[name] < 0, column[there], columns[name])
    return Table(columns, len(here))


def _partial(column: np.ndarray) -> bool:
    return bool(len(column)) and int(column.min()) < 0


def _compatible(left: Table, right: Table) -> tuple[np.ndarray, np.ndarray]:
    """Places of all compatible pairs."""
    shared = [name for name in left.columns if name in right.columns]
    parts = list(_parts(left, right, shared))
    if len(parts) == 1:
        return _pairs(left, right, *parts[0])
    pairs = [_pairs(left, right, *part) for part in parts]
    if not pairs:
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    return np.concatenate([here for here, _ in pairs]), np.concatenate([there for _, there in pairs])


def _parts(
    left: Table, right: Table, shared: list[str]
) -> Iterator[tuple[np.ndarray | None, np.ndarray | None, list[str]]]:
    """Rows of both sides (None: all) that bind the same shared variables, and those that both bind."""
    partial = [n for n in shared if _partial(left.columns[n]) or _partial(right.columns[n])]
    if not partial:
        yield None, None, shared
        return
    whole = [name for name in shared if name not in partial]
    sides = [_masks(table, partial) for table in (left, right)]
    for here, bound_here in sides[0]:
        for there, bound_there in sides[1]:
            both = [name for place, name in enumerate(partial) if bound_here[place] and bound_there[place]]
            yield here, there, whole + both


def _masks(table: Table, names: list[str]) -> list[tuple[np.ndarray, tuple[bool, ...]]]:
    """The rows by which of some variables they bind."""
    bound = np.stack([table.columns[name] >= 0 for name in names], axis=1)
    kinds, place = np.unique(bound, axis=0, return_inverse=True)
    place = place.reshape(-1)
    return [(np.flatnonzero(place == n), tuple(map(bool, kind))) for n, kind in enumerate(kinds)]


def _pairs(
    left: Table, right: Table, here: np.ndarray | None, there: np.ndarray | None, names: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    rows_here = left.length if here is None else len(here)
    rows_there = right.length if there is None else len(there)
    if not names:
        a = np.repeat(np.arange(rows_here), rows_there)
        b = np.tile(np.arange(rows_there), rows_here)
    else:
        a, b = _matches(*_keys(left, right, here, there, names))
    return (a if here is None else here[a]), (b if there is None else there[b])


def _keys(
    left: Table, right: Table, here: np.ndarray | None, there: np.ndarray | None, names: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    def of(table: Table, rows: np.ndarray | None) -> list[np.ndarray]:
        columns = [table.columns[name] for name in names]
        return columns if rows is None else [column[rows] for column in columns]

    return _packed_pair(of(left, here), of(right, there))


def left_join(
    left: Table, right: Table, kept: np.ndarray | None, pairs: tuple[np.ndarray, np.ndarray]
) -> Table:
    """The pairs of `pairs_of` that are `kept` (None: all), and the rows on the left that are in none."""
    here, there = pairs
    if kept is not None:
        here, there = here[kept], there[kept]
    matched = _combined(left, right, here, there)
    alone = np.ones(left.length, bool)
    alone[here] = False
    if not alone.any():
        return matched
    rest = left.take(alone).project(matched.columns)
    return concatenated([matched, rest])


def pairs_of(left: Table, right: Table) -> tuple[np.ndarray, np.ndarray]:
    """Places of the compatible pairs of rows."""
    return _compatible(left, right)


def combined(left: Table, right: Table, pairs: tuple[np.ndarray, np.ndarray]) -> Table:
    return _combined(left, right, *pairs)


def minus(left: Table, right: Table, ignored: frozenset[str] = frozenset()) -> Table:
    """The rows on the left without a compatible row on the right that binds one of their variables.

    Variables that are `ignored` must agree, but do not count as bound ones.
    """
    shared = [name for name in left.columns if name in right.columns]
    gone = np.zeros(left.length, bool)
    for here, there, names in _parts(left, right, shared):
        if not set(names) - ignored:
            continue
        matches = _are_among(*_keys(left, right, here, there, names))
        if here is None:
            gone |= matches
        else:
            gone[here[matches]] = True
    return left.take(~gone) if gone.any() else left


def matched(left: Table, right: Table) -> np.ndarray:
    """A mask of the rows on the left that have a compatible row on the right."""
    shared = [name for name in left.columns if name in right.columns]
    mask = np.zeros(left.length, bool)
    for here, there, names in _parts(left, right, shared):
        if names:
            matches = _are_among(*_keys(left, right, here, there, names))
        else:
            some = right.length if there is None else len(there)
            matches = np.full(left.length if here is None else len(here), some > 0)
        if here is None:
            mask |= matches
        else:
            mask[here[matches]] = True
    return mask


def concatenated(tables: Sequence[Table]) -> Table:
    """The rows of all; a variable that one of them does not have is unbound there."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    columns = {name: np.concatenate([table.column(name) for table in tables]) for name in names}
    return Table(columns, sum(table.length for table in tables))


def distinct(table: Table) -> Table:
    """Each row once, in the order of their first ones."""
    first = np.sort(groups_of(table)[1])
    return table if len(first) == table.length else table.take(first)


def groups_of(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """For each row the number of its group of equal rows, and for each group the place of its first row."""
    if not table.columns:
        return np.zeros(table.length, np.int64), np.zeros(min(1, table.length), np.int64)
    keys = _packed(list(table.columns.values()))
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers, first
