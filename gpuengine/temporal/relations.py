"""`TemporalRelation`: the ground atoms of one predicate, and when each of them holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.kernels.cpu.timeline import CpuTimeline
from gpuengine.kernels.timeline import Merged, Pool, Runs
from gpuengine.limits import charge
from gpuengine.schemes.table import Table
from gpuengine.temporal.encoding import Encoding
from gpuengine.terms.tables import RowTable

TIMELINE = CpuTimeline()
_ANY_ATOM = (0, (1 << 32) - 1)
_LEAST_WASTE = 1 << 12
_INTERVAL_BYTES = 17
"""What an interval takes in a pool: two ends and a flag."""
_GROUPED_BYTES = 40
"""What an interval that is put in takes until it is."""


class TemporalRelation:
    """Atoms are numbered in order of first sight; `pool` has the coalesced intervals of each.

    Life of a round: rules find numbers for the atoms that they derive (`intern`) and collect intervals for
    them; `merge` then puts all of it in at once. The intervals that are new, or longer than before, are
    flagged,
    and their atoms are the `delta`; `settle` makes everything old. Joins read `table`, whose last column is
    the
    number of the atom; it is made on first use and brought up to date by `merge`.
    """

    def __init__(self, name: str, arity: int) -> None:
        self.name = name
        self.arity = arity
        self._atoms = RowTable(name, max(arity, 1), 0)
        empty = np.zeros(0, np.int64)
        self.pool = Pool(Runs(empty, empty, empty, empty, np.zeros(0, np.uint8)), 0, 0, 0)
        self.delta = np.zeros(0, np.uint32)
        self.is_all_new = True
        self._table: Table | None = None
        self._mask: np.ndarray | None = None

    def __len__(self) -> int:
        """How many facts there are: intervals of atoms."""
        return self.pool.live

    @property
    def atoms(self) -> int:
        """How many atoms have a number."""
        return len(self._atoms)

    @property
    def runs(self) -> Runs:
        return self.pool.runs

    @property
    def nbytes(self) -> int:
        runs = self.pool.runs
        arrays = (runs.starts, runs.counts, runs.lower, runs.upper, runs.flags)
        return self._atoms.nbytes + sum(array.nbytes for array in arrays)

    def column(self, j: int, atoms: np.ndarray | None = None) -> np.ndarray:
        """Argument `j` of these atoms (default: of all), contiguous."""
        column = self._atoms.rows[:, j]
        return np.ascontiguousarray(column) if atoms is None else column[atoms]

    def intern(self, columns: Sequence[np.ndarray], count: int) -> np.ndarray:
        """The numbers of atoms, new ones for those that are unknown."""
        numbers = self._atoms.intern(_matrix(columns, count))
        self._grow(len(self._atoms))
        return numbers

    def find(self, columns: Sequence[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
        """(numbers, known?) of atoms."""
        return self._atoms.find(_matrix(columns, count))

    def merge(
        self, atoms: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, keep_old: bool = False
    ) -> Merged:
        """Coalesce new intervals with those that are there; what changed is the delta."""
        if self.pool.used > 2 * self.pool.live + _LEAST_WASTE and not keep_old:
            TIMELINE.compact(self.pool)
        is_first = self.pool.live == 0
        needed = _GROUPED_BYTES * len(atoms)
        if self.pool.used + len(atoms) > len(self.pool.runs.lower):
            needed += (self.pool.used + len(atoms)) * _INTERVAL_BYTES * 3 // 2
        charge(needed, f"facts of {self.name}")
        merged = TIMELINE.merge(self.pool, atoms, lower, upper, keep_old=keep_old)
        self.pool.runs.changed()
        self.delta = merged.rows
        self.is_all_new = is_first
        self._mask = None
        self.update_table()
        return merged

    def settle(self) -> None:
        """No delta: everything is old."""
        if len(self.delta):
            TIMELINE.settle(self.pool, self.delta)
            self.pool.runs.changed()
            self.delta = np.zeros(0, np.uint32)
        self.is_all_new = self.pool.live == 0
        self._mask = None

    def renew(self) -> None:
        """Everything is the delta."""
        self.delta = np.flatnonzero(self.pool.runs.counts[: self.pool.rows]).astype(np.uint32)
        self.pool.runs.flags[: self.pool.used] = 1
        self.pool.runs.changed()
        self.is_all_new = True
        self._mask = None

    def show(self, atoms: np.ndarray) -> None:
        """Have atoms as the delta, whose new intervals are flagged already."""
        self.pool.runs.changed()
        self.delta = atoms
        self._mask = None

    def in_delta(self, atoms: np.ndarray) -> np.ndarray:
        """Which of these atoms are in the delta."""
        if self._mask is None:
            self._mask = np.zeros(self.pool.rows, np.bool_)
            self._mask[self.delta] = True
        return self._mask[atoms]

    @property
    def table(self) -> Table:
        """The atoms with their numbers, for joins."""
        if self._table is None:
            self._table = Table(self.name, self.arity + 1)
            self.update_table()
        return self._table

    def update_table(self) -> None:
        """Have the table hold every atom, if there is one."""
        table = self._table
        if table is None or len(table) == self.atoms:
            return
        first, count = len(table), self.atoms - len(table)
        columns = [np.ascontiguousarray(self._atoms.rows[first:, j]) for j in range(self.arity)]
        numbers = np.arange(first, self.atoms, dtype=np.uint32)
        # Ids have room to grow: bounds that change cost the indexes.
        bounds = [_with_room(column, old) for column, old in zip(columns, table.bounds, strict=False)]
        table.widen([*bounds, _ANY_ATOM])
        table.rows.append([*columns, numbers], count)
        table.take_in()

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every interval with its atom: (atoms, lower, upper), by atoms and times.

        Views where they can be.
        """
        runs, rows = self.pool.runs, self.pool.rows
        counts = runs.counts[:rows]
        atoms = np.repeat(np.arange(rows, dtype=np.uint32), counts)
        if self._in_order():
            return atoms, runs.lower[: self.pool.live], runs.upper[: self.pool.live]
        places = np.repeat(runs.starts[:rows] - (np.cumsum(counts) - counts), counts) + np.arange(len(atoms))
        return atoms, runs.lower[places], runs.upper[places]

    def _in_order(self) -> bool:
        runs, rows = self.pool.runs, self.pool.rows
        expected = np.cumsum(runs.counts[:rows]) - runs.counts[:rows]
        has_any = runs.counts[:rows] > 0
        return bool(np.array_equal(runs.starts[:rows][has_any], expected[has_any]))

    def check_scale(self, old: Encoding, new: Encoding) -> None:
        """Raise `TooFine` if times do not fit another unit."""
        runs, used = self.pool.runs, self.pool.used
        new.rescaled(runs.lower[:used], runs.upper[:used], old)

    def rescale(self, old: Encoding, new: Encoding) -> None:
        """Have all times in another unit."""
        runs, used = self.pool.runs, self.pool.used
        runs.lower[:used], runs.upper[:used] = new.rescaled(runs.lower[:used], runs.upper[:used], old)
        runs.changed()

    def copy(self) -> TemporalRelation:
        """Another one with the same facts, all of them new."""
        other = TemporalRelation(self.name, self.arity)
        numbers, lower, upper = self.entries()
        if len(numbers):
            columns = [self.column(j) for j in range(self.arity)]
            other.intern(columns, self.atoms)
            other.merge(numbers, lower, upper)
        return other

    def contains(self, atom: int, lower: int, upper: int) -> bool:
        """Does one interval of an atom hold all of [lower, upper]?"""
        lows, highs = self.list_of(atom)
        place = int(np.searchsorted(lows, lower, "right")) - 1
        return place >= 0 and int(highs[place]) >= upper

    def list_of(self, atom: int) -> tuple[np.ndarray, np.ndarray]:
        """The intervals of an atom."""
        start, count = int(self.runs.starts[atom]), int(self.runs.counts[atom])
        return self.runs.lower[start : start + count], self.runs.upper[start : start + count]

    def clear(self) -> None:
        """Lose all intervals; atoms keep their numbers."""
        rows = self.pool.rows
        self.pool.runs.counts[:rows] = 0
        self.pool.runs.changed()
        self.pool.used = self.pool.live = 0
        self.delta = np.zeros(0, np.uint32)
        self.is_all_new = True
        self._mask = None

    def forget(self, atoms: int) -> None:
        """Have the first `atoms` atoms only; the others hold at no time."""
        if atoms == self.atoms:
            return
        kept = np.ascontiguousarray(self._atoms.rows[:atoms])
        self._atoms = RowTable(self.name, max(self.arity, 1), 0)
        self._atoms.intern(kept)
        runs, used = self.pool.runs, self.pool.used
        self.pool.runs = Runs(
            runs.starts[:atoms].copy(),
            runs.counts[:atoms].copy(),
            runs.lower[:used].copy(),
            runs.upper[:used].copy(),
            runs.flags[:used].copy(),
        )
        self.pool.rows = atoms
        self._table = self._mask = None

    def _grow(self, rows: int) -> None:
        pool = self.pool
        if rows > len(pool.runs.starts):
            size = max(rows, 2 * len(pool.runs.starts), 64)
            starts, counts = np.zeros(size, np.int64), np.zeros(size, np.int64)
            starts[: pool.rows] = pool.runs.starts[: pool.rows]
            counts[: pool.rows] = pool.runs.counts[: pool.rows]
            pool.runs = Runs(starts, counts, pool.runs.lower, pool.runs.upper, pool.runs.flags)
        pool.runs.changed()
        pool.rows = rows


def _matrix(columns: Sequence[np.ndarray], count: int) -> np.ndarray:
    if not columns:
        return np.zeros((count, 1), np.uint32)
    if len(columns) == 1:
        return np.ascontiguousarray(columns[0], np.uint32).reshape(count, 1)
    return np.stack(columns, axis=1)


def _with_room(column: np.ndarray, old: tuple[int, int]) -> tuple[int, int]:
    high = int(column.max(initial=0)) + 1
    return (0, old[1] if high <= old[1] else max(1024, high + high // 2))
