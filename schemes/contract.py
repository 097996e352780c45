"""What every storage scheme offers: the facts of one predicate, and the rules that its structure implies.

The functions are the thesis's (section 5.3.2), on columns of ids instead of single facts. Where it writes I
and Δ, read `Domain.OLD` and `Domain.NEW`; R_d are the rules that the scheme implies. Its D, what was removed,
is not kept: whoever wants it reads NEW before `remove`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

import numpy as np

from gpuengine.kernels.identity import NotCopied

Bounds = list[tuple[int, int]]
"""For each column the least id and one past the greatest; (0, 0) where there is none."""
Columns = Sequence[np.ndarray]
"""For each column of a relation its ids (uint32), all of one length, in host memory."""
BATCH = 1 << 16
"""How many facts a read yields at a time, about, unless told."""


class Domain(IntEnum):
    """Which facts are read.

    NEW is what the last change concerns and OLD what it leaves alone: they have nothing in common, and ALL is
    both together. After `advance`, NEW is what was added; after `delete`, what goes, until `remove` takes it
    out. So a rule that finds what follows from NEW facts serves both ways.
    """

    ALL = 0
    OLD = 1
    NEW = 2


class Scheme(NotCopied, ABC):
    """The facts of one predicate, closed under the rules that the scheme implies.

    Life of a fact: scheduled by `insert`; with all that follows from it by the scheme's own rules NEW after
    `advance`; OLD after the next `advance`, or after `settle`. On the way out: `delete` makes NEW what no
    longer follows, `remove` takes it out. An insertion is settled before a deletion begins, and a deletion
    removed before an insertion does.

    Definition 4 of the thesis, which every scheme's tests check: `advance` derives at least what one
    application of the scheme's rules does and at most their fixpoint, and leaves OLD as it was; `delete`
    takes at least what was scheduled and no longer follows, at most what there is.
    """

    kind: str
    name: str
    arity: int
    bounds: Bounds
    is_listed: bool = False
    """Do the facts lie in rows, one by one, as those of a table, which pipelines read and write?"""
    is_view: bool = False
    """Are they those of other relations, whose changes are its own?"""
    is_paired: bool = False
    """Are they pairs, read from the set of partners that each node has, as those of a closure?"""

    def __len__(self) -> int:
        return self.count(Domain.ALL)

    @property
    @abstractmethod
    def host_nbytes(self) -> int:
        """What the scheme takes in host memory."""

    @property
    def device_nbytes(self) -> int:
        """What the scheme takes in the memory of a device."""
        return 0

    @property
    def nbytes(self) -> int:
        return self.host_nbytes + self.device_nbytes

    @property
    @abstractmethod
    def version(self) -> tuple[int, ...]:
        """What is another one whenever the facts have changed."""

    @abstractmethod
    def count(self, domain: Domain) -> int:
        """How many facts there are; nothing is enumerated for it."""

    @property
    def rough_count(self) -> int:
        """How many facts there are, about, where to tell it exactly may take time."""
        return len(self)

    @property
    def own_news(self) -> int:
        """How much is NEW that no other relation tells of."""
        return self.count(Domain.NEW)

    @property
    def may_have_new(self) -> bool:
        """May something be NEW? Known at once."""
        return self.count(Domain.NEW) > 0

    @abstractmethod
    def distinct(self, column: int) -> float:
        """About how many distinct ids a column has."""

    @abstractmethod
    def contains(self, columns: Columns, count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        """Which of the given rows are facts: a mask."""

    @abstractmethod
    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """The facts that match each of `count` keys, at most `room` of them at a time.

        `bound` has the ids of some columns, at least one and not all. Yields places in the keys, and
        beside each the ids of the other columns, in their order. The same fact comes once for a key.
        """

    @abstractmethod
    def scan(self, domain: Domain = Domain.ALL, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        """All facts, each once, in no promised order, at most `room` at a time, with bounded memory."""

    def exists(self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        """Which of the keys (see `expand`) match some fact: a mask."""
        mask = np.zeros(count, np.bool_)
        for places, _ in self.expand(bound, count, domain):
            mask[places] = True
        return mask

    def degrees(self, bound: Mapping[int, np.ndarray], count: int) -> np.ndarray:
        """How many facts match each of the keys (see `expand`), uint64."""
        total = np.zeros(count, np.uint64)
        for places, _ in self.expand(bound, count):
            total += np.bincount(places, minlength=count).astype(np.uint64)
        return total

    def values(self, column: int, domain: Domain = Domain.ALL) -> np.ndarray:
        """The distinct ids of a column."""
        ids = np.empty(0, np.uint32)
        for batch in self.scan(domain):
            ids = np.union1d(ids, batch[column])
        return ids

    def insertable(self, columns: Columns, count: int) -> np.ndarray:
        """Which of the rows are neither facts nor scheduled: a mask. It may miss what is only scheduled."""
        return ~self.contains(columns, count)

    @abstractmethod
    def insert(self, columns: Columns, count: int) -> int:
        """Schedule facts, possibly with duplicates; how many were taken, those already there left out."""

    @abstractmethod
    def advance(self) -> int:
        """What was NEW becomes OLD; what is scheduled, and follows from it, NEW. How much that is."""

    @abstractmethod
    def renew(self) -> int:
        """All that is there or scheduled becomes NEW: a fixpoint begins. How much."""

    @abstractmethod
    def settle(self) -> None:
        """All that is there or scheduled becomes OLD."""

    @abstractmethod
    def delete(self, columns: Columns, count: int) -> int:
        """Make NEW what goes when these facts no longer hold by themselves; how much that is."""

    @abstractmethod
    def remove(self) -> None:
        """What is NEW is gone: ALL loses it."""

    def widen(self, bounds: Sequence[tuple[int, int]]) -> None:
        """Admit ids within `bounds`."""
        self.bounds = [cover(old, new) for old, new in zip(self.bounds, bounds, strict=True)]

    def replace(self, old: Scheme, new: Scheme) -> None:
        """Where the facts of `old` are its own, read `new`, which has the same; only views read others."""

    def leave_device(self) -> bool:
        """Free what a device has copies of, if the facts are kept by the host; was there any?"""
        return False

    @abstractmethod
    def snapshot(self) -> Scheme:
        """The facts as they are now, all of them OLD, for whoever reads them while they change.

        Between `begin_change` and `end_change` any thread may ask, and gets the facts as they were when the
        change began; at other times nothing may be changing. Memory is shared as long as it can be: whoever
        then changes it in place has a copy made before, once. Any number of threads may read a snapshot.
        """

    @abstractmethod
    def begin_change(self) -> None:
        """From now on facts may come and go; remember what there is."""

    @abstractmethod
    def end_change(self) -> None:
        """What there is now is what `snapshot` is of."""


class ReadOnly(Scheme):
    """What can't be written to."""

    def insert(self, columns: Columns, count: int) -> int:
        raise AssertionError(f"{self.name} is only read")

    def advance(self) -> int:
        raise AssertionError(f"{self.name} is only read")

    def renew(self) -> int:
        raise AssertionError(f"{self.name} is only read")

    def settle(self) -> None:
        """There is nothing to settle."""

    def delete(self, columns: Columns, count: int) -> int:
        raise AssertionError(f"{self.name} is only read")

    def remove(self) -> None:
        raise AssertionError(f"{self.name} is only read")

    def snapshot(self) -> Scheme:
        return self

    def begin_change(self) -> None:
        """Nothing changes."""

    def end_change(self) -> None:
        """Nothing has changed."""


def in_pieces(columns: Columns, room: int) -> Iterator[list[np.ndarray]]:
    """Columns of equal length in pieces of at most `room` rows; none are empty."""
    for start in range(0, len(columns[0]), room):
        yield [column[start : start + room] for column in columns]


def cover(old: tuple[int, int], new: tuple[int, int]) -> tuple[int, int]:
    """Bounds that hold both; (0, 0) is no id at all."""
    if old == (0, 0) or new == (0, 0):
        return new if old == (0, 0) else old
    return min(old[0], new[0]), max(old[1], new[1])
