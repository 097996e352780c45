"""The union scheme: a relation that copies others reads them instead of storing what they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.contract import BATCH, Columns, Domain, Scheme, cover
from gpuengine.schemes.pairs import PairScheme
from gpuengine.schemes.table import Table

_FEW = 1 << 12
"""Rows are listed if at most one in so many is left out."""


@dataclass(frozen=True, slots=True)
class Part:
    """A relation that is copied: U(a_0, ..) holds if it has (b_0, ..) with b_j = a_permutation[j]."""

    scheme: Scheme
    permutation: tuple[int, ...]

    def inward(self, columns: Columns) -> list[np.ndarray]:
        """Rows of the union as rows of the part."""
        return [columns[place] for place in self.permutation]

    def outward(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Rows of the part as rows of the union."""
        result: list[np.ndarray] = [columns[0]] * len(columns)
        for place, column in zip(self.permutation, columns, strict=True):
            result[place] = column
        return result

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain, room: int
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        """`Scheme.expand` in the union's columns."""
        asked = {j: bound[place] for j, place in enumerate(self.permutation) if place in bound}
        free = [place for place in self.permutation if place not in bound]
        order = sorted(range(len(free)), key=free.__getitem__)
        for places, columns in self.scheme.expand(asked, count, domain, room):
            yield places, [columns[k] for k in order]


class Union(Scheme):
    """Facts of other relations, under their copy rules U(x, y) :- A(x, y), and facts of its own.

    Own are those that other rules derive and no part has; they are in a table. A fact that several parts have
    comes once: from the first, in an order in which compact parts precede tables. How many facts there are,
    and which rows of tables other parts have as well, is found out once and remembered until a part changes.

    The parts live their own lives: U has NEW what is NEW in a part and OLD in none, so the parts must
    `advance` and `settle` before it, and it must `remove` before them.
    """

    kind = "union"
    is_view = True

    def __init__(self, name: str, parts: Sequence[Part], own: Table) -> None:
        self.name = name
        self.arity = own.arity
        self.parts = _in_order(parts)
        self.own = own
        self._all = [*self.parts, Part(own, tuple(range(own.arity)))]
        self._widened = [(0, 0)] * own.arity
        self._is_fresh = False
        self._overlap = _Overlap()

    def replace(self, old: Scheme, new: Scheme) -> None:
        self.parts = _in_order(
            Part(new if part.scheme is old else part.scheme, part.permutation) for part in self.parts
        )
        self._all = [*self.parts, self._all[-1]]
        self._overlap = _Overlap()

    def snapshot(self) -> Union:
        parts = [Part(part.scheme.snapshot(), part.permutation) for part in self.parts]
        snapshot = Union(self.name, parts, self.own.snapshot())
        snapshot._widened = self._widened
        snapshot._overlap = self._overlap
        return snapshot

    def begin_change(self) -> None:
        for part in self._all:
            part.scheme.begin_change()

    def end_change(self) -> None:
        for part in self._all:
            part.scheme.end_change()

    @property
    def bounds(self) -> list[tuple[int, int]]:  # type: ignore[override]
        """What the parts may have, too."""
        covered = self._widened
        for part in self._all:
            outward = [(0, 0)] * self.arity
            for place, bounds in zip(part.permutation, part.scheme.bounds, strict=True):
                outward[place] = bounds
            covered = [cover(old, new) for old, new in zip(covered, outward, strict=True)]
        return covered

    def widen(self, bounds: Sequence[tuple[int, int]]) -> None:
        self._widened = [cover(old, new) for old, new in zip(self._widened, bounds, strict=True)]

    @property
    def host_nbytes(self) -> int:
        """Its own facts and what it remembers; the parts count for themselves."""
        overlap = self._overlap.known
        masks = overlap[1] if overlap is not None else []
        return self.own.host_nbytes + sum(mask.nbytes for mask in masks if mask is not None)

    @property
    def device_nbytes(self) -> int:
        return self.own.device_nbytes

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(number for part in self._all for number in part.scheme.version)

    def count(self, domain: Domain) -> int:
        if domain is Domain.ALL or (domain is Domain.NEW and self._is_fresh):
            return self._known_overlap()[1]
        return sum(len(batch[0]) for batch in self.scan(domain))

    @property
    def rough_count(self) -> int:
        """What parts have in common counts for each."""
        return sum(len(part.scheme) for part in self._all)

    @property
    def may_have_new(self) -> bool:
        """To tell it, facts would be compared."""
        return True

    @property
    def own_news(self) -> int:
        """How much is NEW of its own, for the parts tell of theirs; to begin with, everything."""
        return self.rough_count if self._is_fresh else self.own.count(Domain.NEW)

    def distinct(self, column: int) -> float:
        estimates = [part.scheme.distinct(part.permutation.index(column)) for part in self._all]
        return float(max(*estimates, sum(estimates) / 2))

    def contains(self, columns: Columns, count: int, domain: Domain = Domain.ALL) -> np.ndarray:
        mask = np.zeros(count, np.bool_)
        for part in self.read_in(domain):
            missing = ~mask
            rest = [np.asarray(column)[missing] for column in columns]
            if len(rest[0]):
                wanted = self.read_as(domain)
                mask[missing] = part.scheme.contains(part.inward(rest), len(rest[0]), wanted)
        if domain is Domain.NEW:
            mask &= ~self._stays(columns, count)
        return mask

    def expand(
        self, bound: Mapping[int, np.ndarray], count: int, domain: Domain = Domain.ALL, room: int = BATCH
    ) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        free = [column for column in range(self.arity) if column not in bound]
        for number, part in enumerate(self.read_in(domain)):
            for places, columns in part.expand(bound, count, self.read_as(domain), room):
                row = [columns[free.index(c)] if c in free else bound[c][places] for c in range(self.arity)]
                kept = self._is_first(number, row, domain)
                if kept.any():
                    yield places[kept], [column[kept] for column in columns]

    def scan(self, domain: Domain = Domain.ALL, room: int = BATCH) -> Iterator[list[np.ndarray]]:
        if domain is Domain.ALL or (domain is Domain.NEW and self._is_fresh):
            yield from self._scan_all(room)
            return
        for number, part in enumerate(self.read_in(domain)):
            for batch in part.scheme.scan(self.read_as(domain), room):
                columns = part.outward(batch)
                kept = self._is_first(number, columns, domain)
                if kept.any():
                    yield [column[kept] for column in columns]

    def values(self, column: int, domain: Domain = Domain.ALL) -> np.ndarray:
        if domain is not Domain.ALL:
            return super().values(column, domain)
        ids = [part.scheme.values(part.permutation.index(column)) for part in self._all]
        return np.unique(np.concatenate(ids))

    def insert(self, columns: Columns, count: int) -> int:
        if not count:
            return 0
        fresh = self.insertable(columns, count)
        return self.own.insert(
            [np.asarray(column)[fresh] for column in columns], int(np.count_nonzero(fresh))
        )

    def advance(self) -> int:
        """How much of its own is NEW; the parts tell of theirs."""
        self._is_fresh = False
        return self.own.advance()

    def renew(self) -> int:
        self._is_fresh = True
        self.own.renew()
        return self.own_news

    def settle(self) -> None:
        self._is_fresh = False
        self.own.settle()

    def delete(self, columns: Columns, count: int) -> int:
        """Its own facts go; those of parts go when they do there."""
        self.settle()
        self.own.delete(columns, count)
        return self.count(Domain.NEW)

    def remove(self) -> None:
        self.own.remove()

    def read_as(self, domain: Domain) -> Domain:
        """The domain of the parts that one of the union is: to begin with, all that they have is NEW here."""
        return Domain.ALL if self._is_fresh and domain is Domain.NEW else domain

    def read_in(self, domain: Domain) -> list[Part]:
        """What has facts in a domain: while everything is NEW, nothing is OLD."""
        return [] if self._is_fresh and domain is Domain.OLD else self._all

    def _is_first(self, number: int, columns: Columns, domain: Domain) -> np.ndarray:
        """Which rows of a part none of the parts before it has, nor, if they are NEW, any had or keeps."""
        kept = np.ones(len(columns[0]), np.bool_)
        for before in self._all[:number]:
            rest = [column[kept] for column in columns]
            if len(rest[0]):
                kept[kept] = ~_has_too(before, self._all[number], rest, self.read_as(domain))
        if domain is Domain.NEW:
            rest = [column[kept] for column in columns]
            kept[kept] = ~self._stays(rest, len(rest[0]))
        return kept

    def _stays(self, columns: Columns, count: int) -> np.ndarray:
        """Rows that are NEW in a part but not here: another had them before, or keeps them."""
        mask = np.zeros(count, np.bool_)
        if self._is_fresh or not count:
            return mask
        for part in self._all:
            mask |= part.scheme.contains(part.inward(columns), count, Domain.OLD)
        return mask

    def _scan_all(self, room: int) -> Iterator[list[np.ndarray]]:
        masks, _ = self._known_overlap()
        # What is scheduled while others take what is listed here does not belong to it.
        sizes = self._sizes()
        for number, part in enumerate(self._all):
            mask, done = masks[number], 0
            for batch in part.scheme.scan(Domain.ALL, room):
                rows = min(len(batch[0]), sizes[number] - done)
                columns = [column[:rows] for column in part.outward(batch)]
                if mask is not None:
                    pieces = mask.of_batch(columns, done)
                elif number and not isinstance(part.scheme, Table):
                    kept = self._is_first(number, columns, Domain.ALL)
                    pieces = iter([[column[kept] for column in columns]])
                else:
                    pieces = iter([columns])
                done += rows
                yield from (piece for piece in pieces if len(piece[0]))

    def _sizes(self) -> tuple[int, ...]:
        return tuple(len(part.scheme) for part in self._all)

    def _known_overlap(self) -> tuple[list[_Taken | None], int]:
        """For each table which rows to take (None: all of them), and how many facts there are."""
        version, overlap = self.version, self._overlap.known
        if overlap is None or overlap[0] != version:
            overlap = (version, *_find_overlap(self._all, self._sizes()))
            self._overlap.known = overlap
        return overlap[1], overlap[2]


def tables_in(scheme: Scheme) -> list[Table]:
    """The tables that reading a scheme reads: itself, or those of a union's parts."""
    if isinstance(scheme, Union):
        return [table for part in scheme.parts for table in tables_in(part.scheme)] + [scheme.own]
    return [scheme] if isinstance(scheme, Table) else []


def _has_too(before: Part, part: Part, columns: Columns, domain: Domain) -> np.ndarray:
    """Which rows that one part has another has as well: a mask. Of a closure both ways, components tell."""
    reversed_too = before.scheme is part.scheme and before.permutation != part.permutation
    if domain is Domain.ALL and reversed_too and isinstance(part.scheme, PairScheme):
        return part.scheme.are_mutual(part.inward(columns))
    return before.scheme.contains(before.inward(columns), len(columns[0]), domain)


def _in_order(parts: Iterable[Part]) -> list[Part]:
    """Compact parts before tables: whether a row is in one of those is told without listing anything."""
    return sorted(parts, key=lambda part: isinstance(part.scheme, Table))


@dataclass(slots=True)
class _Overlap:
    """What a union and its snapshots know of facts that several parts have: for which version, and what."""

    known: tuple[tuple[int, ...], list[_Taken | None], int] | None = None


@dataclass(frozen=True, slots=True)
class _Taken:
    """Which rows of a table the union takes: all but some, listed if they are few, else as a packed mask."""

    left_out: np.ndarray
    is_mask: bool

    @staticmethod
    def of(taken: np.ndarray) -> _Taken:
        left_out = np.flatnonzero(~taken)
        if len(left_out) * _FEW > len(taken):
            return _Taken(np.packbits(taken), is_mask=True)
        return _Taken(left_out, is_mask=False)

    @property
    def nbytes(self) -> int:
        return self.left_out.nbytes

    def of_batch(self, columns: list[np.ndarray], start: int) -> Iterator[list[np.ndarray]]:
        """What is taken of the rows from `start` on, in pieces: to leave out a few, nothing is copied."""
        rows = len(columns[0])
        if self.is_mask:
            bits = np.unpackbits(self.left_out[start // 8 : (start + rows + 7) // 8])
            kept = bits[start % 8 : start % 8 + rows].astype(np.bool_)
            yield [column[kept] for column in columns]
            return
        first, last = np.searchsorted(self.left_out, (start, start + rows))
        cuts = [-1, *(self.left_out[first:last] - start).tolist(), rows]
        for a, b in pairwise(cuts):
            yield [column[a + 1 : b] for column in columns]


def _find_overlap(parts: Sequence[Part], sizes: Sequence[int]) -> tuple[list[_Taken | None], int]:
    """Which rows of the tables no part before them has, and how many facts all have together."""
    masks: list[_Taken | None] = [None] * len(parts)
    total = 0
    tables = [
        part for part, size in zip(parts, sizes, strict=True) if isinstance(part.scheme, Table) and size
    ]
    rows_in_tables = sum(len(part.scheme) for part in tables)
    seen = None
    for number, part in enumerate(parts):
        if not sizes[number]:
            continue
        before = [other for other in parts[:number] if len(other.scheme)]
        if not isinstance(part.scheme, Table):
            total += sizes[number] - _shared(part, before)
            continue
        columns = part.outward(part.scheme.columns())
        taken = np.ones(sizes[number], np.bool_)
        for other in before:
            if not isinstance(other.scheme, Table):
                taken &= ~other.scheme.contains(other.inward(columns), sizes[number])
        if len(tables) > 1:
            rows = CPU.rows(len(columns), sizes[number])
            rows.append(columns, sizes[number])
            if seen is None:
                seen = CPU.keyset(len(columns), _common_bounds(tables), rows_in_tables)
            taken &= np.asarray(seen.insert(rows, 0, sizes[number]))
        if not taken.all():
            masks[number] = _Taken.of(taken)
        total += int(np.count_nonzero(taken))
    return masks, total


def _common_bounds(parts: Sequence[Part]) -> list[tuple[int, int]]:
    common = [(0, 0)] * parts[0].scheme.arity
    for part in parts:
        for place, bounds in zip(part.permutation, part.scheme.bounds, strict=True):
            common[place] = cover(common[place], bounds)
    return common


def _shared(part: Part, before: Sequence[Part]) -> int:
    """How many facts of a compact part others have as well; enumerated only if there is no other way."""
    scheme = part.scheme
    if len(before) == 1 and before[0].scheme is scheme and isinstance(scheme, PairScheme):
        return scheme.mutual_pairs
    if not before:
        return 0
    shared = 0
    for batch in scheme.scan():
        columns = part.outward(batch)
        mask = np.zeros(len(batch[0]), np.bool_)
        for other in before:
            mask |= other.scheme.contains(other.inward(columns), len(mask))
        shared += int(np.count_nonzero(mask))
    return shared


def as_union(scheme: Scheme) -> Union:
    """The union that a scheme is known to be."""
    assert isinstance(scheme, Union), f"{scheme.name} is no union"
    return scheme
