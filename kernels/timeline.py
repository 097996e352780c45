"""Interval operations of metric time: the contract.

`cpu.timeline.CpuTimeline` keeps it on the host, `cuda.timeline.CudaTimeline` on a device.

Times are encoded so that every interval over the rationals is a closed interval of int64: with all ends whole
multiples of one unit, a closed end at t units is 2t, an open lower end 2t + 1, an open upper end 2t - 1. An
even number is a point of time, an odd one the open gap between two of them. `MINUS_INFINITY` and `INFINITY`
are the ends of intervals that have none. So an interval is not empty iff ``lower <= upper``, two of them
coalesce iff the second begins at or below the end of the first + 1, and complement and intersection are those
of integers.

`Runs` hold an ascending list of intervals for each of many rows: disjoint, and not adjacent ("coalesced").
Rows may lie anywhere in `lower` and `upper`, in any order. A *reader* is `Runs` with `rows`: entry k reads
the list of row ``rows[k]``, or an empty one if that is `NO_ROW`; and a domain, which chooses among the
intervals by their flag: ALL of them, OLD ones (flag 0) or NEW ones (flag 1).

Results are new `Runs` with a row for each entry, in order; no input is changed but by `merge` and `settle`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

INFINITY = 1 << 60
MINUS_INFINITY = -INFINITY
LARGEST = 1 << 59
"""Finite ends of stored intervals lie below this, so that no operation reaches an infinity by adding."""
NO_ROW = 0xFFFFFFFF


class Shift(IntEnum):
    """What an operator does to each interval.

    A head's Boxplus does what Diamondminus does, and vice versa.
    """

    DIAMOND_MINUS = 0
    DIAMOND_PLUS = 1
    BOX_MINUS = 2
    BOX_PLUS = 3


class Chain(IntEnum):
    """The operators with two operands."""

    SINCE = 0
    UNTIL = 1


class Choice(IntEnum):
    """Which intervals of a row are read."""

    ALL = -1
    OLD = 0
    NEW = 1


@dataclass(slots=True, eq=False)
class Runs:
    """Row r has the intervals ``lower[k], upper[k]`` for starts[r] <= k < starts[r] + counts[r].

    int64, all of them; `flags` (uint8) lie beside the intervals. On a device all of them are its arrays;
    `mirror` is a device and its copy of lists that lie on the host, good until these change.
    """

    starts: np.ndarray
    counts: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    flags: np.ndarray
    mirror: tuple[Any, Runs] | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.starts)

    def changed(self) -> None:
        """Say that the arrays of these lists were written to."""
        self.mirror = None


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """The lists of `rows` (uint32) in some `Runs`, by a `Choice`."""

    runs: Runs
    rows: np.ndarray
    choice: Choice = Choice.ALL

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(slots=True, eq=False)
class Pool:
    """`Runs` that grow: the lists of `rows` rows, in arrays of which the first `used` places are taken.

    Places that no list holds any more are waste, until `Timeline.compact` puts the lists together again.
    """

    runs: Runs
    rows: int
    used: int
    live: int


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """What a merge changed: rows (uint32, ascending), and where their lists were before.

    `first_new` and `last_new` are the least and the greatest encoded time that is in a list now and was not
    before; `largest` the greatest absolute value of a finite end among the changed lists.
    """

    rows: np.ndarray
    old_starts: np.ndarray
    old_counts: np.ndarray
    first_new: int
    last_new: int
    largest: int


class Timeline(Protocol):
    """The operations; see the module."""

    def shift(self, operand: Reader, shift: Shift, p: int, q: int) -> Runs:
        """A diamond or a box with the range [p, q] (encoded, not negative) applied to each entry."""

    def chain(self, left: Reader, right: Reader, chain: Chain, p: int, q: int) -> Runs:
        """``left Since[p,q] right`` or Until, entry by entry."""

    def intersect(self, left: Reader, right: Reader) -> Runs:
        """The times in both, entry by entry; intervals of one domain are intersected one by one."""

    def complement(self, operand: Reader) -> Runs:
        """The times in no interval of the entry."""

    def mark_new(self, runs: Runs, old: Runs) -> None:
        """Flag the intervals of each row that no single interval of the same row of `old` contains (1, else
        0).

        Definition 4: the facts of `runs` that `old` does not entail. Flags are made if there are none.
        """

    def mark_all(self, runs: Runs) -> None:
        """Flag all intervals; flags are made."""

    def holding(self, runs: Runs) -> np.ndarray:
        """Which rows have any interval; on the host."""

    def with_new(self, runs: Runs) -> np.ndarray:
        """Which rows of a result have a flagged interval; on the host."""

    def fetched(self, runs: Runs) -> Runs:
        """A result on the host, its rows one after the other."""

    def emit(
        self, results: Reader, heads: np.ndarray, known: Runs, low: int, high: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The intervals of each entry k, cut to [low, high], that row ``heads[k]`` of `known` does not
        contain.

        As (heads uint32, lower, upper), in order.
        """

    def merge(
        self, pool: Pool, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, keep_old: bool
    ) -> Merged:
        """Coalesce intervals (in any order, rows below `pool.rows`) into the lists of a pool.

        Flags 1 those that are not what they were: the new facts of Line 5. Rows that gain nothing stay as
        they are. With `keep_old` lists that change are written elsewhere, so that the old ones can still be
        read.
        O(intervals, and the lists of their rows; where they are many, rows).
        """

    def settle(self, pool: Pool, rows: np.ndarray) -> None:
        """Clear the flags of the lists of these rows."""

    def compact(self, pool: Pool) -> None:
        """Lay all lists out one after the other, in the order of rows."""

    def subtract(self, pool: Pool, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Take intervals (in any order) out of the lists; the rows that lost something, ascending."""
