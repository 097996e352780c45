"""`RowIndex` on a device: sorted pairs of key and row, in a main run and a recent one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuengine.kernels.contract import Domain
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.index_kernels import (
    HASHED_KEY,
    ONE,
    TWO,
    fill_directory,
    find_matches,
    make_pairs,
)
from gpuengine.kernels.cuda.keyset import Bounds
from gpuengine.kernels.cuda.primitives.sorted_sets import merge_runs
from gpuengine.kernels.cuda.removal_kernels import draw_nearer, find_pairs, leave_out, make_pairs_of
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.filling import fill_holes

_KEY_BITS = 32
_RECENT_SHARE = 4
"""The recent run joins the main one when it is larger than this part of it."""
_MOST_ERASED = 8
"""If more than one row in so many goes, sorting the others anew is better."""


@dataclass(frozen=True)
class Run:
    """Ascending pairs ``key << 32 | row``; `directory` has the place of the first pair of 2**shift keys."""

    pairs: Array
    directory: Array
    shift: int

    @property
    def nbytes(self) -> int:
        return int(self.pairs.nbytes + self.directory.nbytes)


@dataclass(frozen=True)
class Matches:
    """Where the matches of some bindings lie in the runs of an index; `counts` are over both runs."""

    main_starts: Array
    main_counts: Array
    recent_starts: Array
    counts: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        return self.main_starts, self.main_counts, self.recent_starts, self.counts

    @property
    def starts(self) -> tuple[Array, Array, Array]:
        return self.main_starts, self.main_counts, self.recent_starts


class RowIndex:
    """An index of a `Rows` by `keys` (one or two columns).

    Life: `build` sorts all rows into the main run; `ensure` merges each delta into the recent run, which
    joins the main one when it has grown. Within a key rows are in the order of their numbers, so that
    OLD is what lies before a row number, and rows that were taken back lie behind those that are there: their
    pairs stay until others come in their place. `verifies` says that keys are hashed and that matches must
    be compared with the key columns.
    """

    def __init__(self, device: Device, rows: Rows, keys: Sequence[int], bounds: Bounds) -> None:
        self.device = device
        self.rows = rows
        self.keys = tuple(keys)
        self.bounds = [bounds[key] for key in self.keys]
        extents = [max(high - low, 1) for low, high in self.bounds]
        if len(self.keys) == 1:
            self._mode, keys_in_all = ONE, extents[0]
        elif extents[0] * extents[1] <= 1 << _KEY_BITS:
            self._mode, keys_in_all = TWO, extents[0] * extents[1]
        else:
            self._mode, keys_in_all = HASHED_KEY, 1 << _KEY_BITS
        self._key_bits = max((keys_in_all - 1).bit_length(), 1)
        self.main = self._run(device.empty(0, np.uint64))
        self.recent = self.main
        self.indexed = 0
        self._leftover: Array | None = None

    @property
    def verifies(self) -> bool:
        return self._mode == HASHED_KEY

    @property
    def nbytes(self) -> int:
        return self.main.nbytes + (self.recent.nbytes if self.recent is not self.main else 0)

    @property
    def look_up(self) -> tuple[Any, ...]:
        """What a kernel is passed to look keys up: their mode and bounds, and then the runs."""
        (first_low, first_high), (second_low, second_high) = self.bounds[0], self.bounds[-1]
        main, recent = self.main, self.recent
        return (
            *(self._mode, first_low, first_high, second_low, second_high),
            int(len(recent.pairs) > 0),
            *(main.pairs, main.directory, main.shift),
            *(recent.pairs, recent.directory, recent.shift),
        )

    def build(self, exact: bool) -> None:
        """Index all rows up to the delta's end; on a device `exact` makes no difference."""
        self.main = self._run(self._sorted_pairs(0, self.rows.delta[1]))
        self.recent = self._run(self.device.empty(0, np.uint64))
        self.indexed = self.rows.delta[1]
        self._leftover = None

    def ensure(self) -> bool:
        """Take in the rows up to the delta's end; False if the index must be made anew."""
        end = self.rows.delta[1]
        if end < self.indexed:
            return False
        if end > self.indexed:
            fresh = self._sorted_pairs(self.indexed, end)
            if self._leftover is not None:
                self._leave_out(self._leftover)
                self._leftover = None
            self._merge(fresh)
            self.indexed = end
        return True

    def erase(self, rows: Rows, start: int, end: int, places: np.ndarray) -> bool:
        """Take the rows at `places` out, before they are filled with others; False if many go.

        Writes again each run that has some of the pairs of what goes and of what moves. Waits, twice at most.
        """
        device, gone = self.device, np.asarray(places, np.uint32)
        if len(gone) * _MOST_ERASED > self.indexed:
            return False
        movers, holes = fill_holes(self.indexed, gone)
        moving = device.upload(movers.astype(np.uint32))
        going = device.upload(np.concatenate([gone, movers.astype(np.uint32)]))
        pairs, moved = device.sort(self._pairs_of(going, going)), None
        if len(movers):
            moved = device.sort(self._pairs_of(moving, device.upload(holes.astype(np.uint32))))
        if self._leftover is not None:
            pairs = merge_runs(device, pairs, self._leftover)
        self._leave_out(pairs)
        self._leftover = None
        self.indexed -= len(gone)
        if moved is not None:
            self._merge(moved)
        return True

    def show_delta(self) -> bool:
        """Nothing to do: what is old is told by the numbers of rows."""
        return True

    def retract(self, start: int) -> None:
        """Take the rows from number `start` on out; the others become old. Waits for nothing."""
        if start < self.indexed:
            pairs = self._sorted_pairs(start, self.indexed)
            if self._leftover is not None:
                pairs = merge_runs(self.device, self._leftover, pairs)
            self._leftover, self.indexed = pairs, start

    def _merge(self, fresh: Array) -> None:
        """Take in ascending pairs."""
        recent = merge_runs(self.device, self.recent.pairs, fresh) if len(self.recent.pairs) else fresh
        if len(recent) * _RECENT_SHARE > len(self.main.pairs):
            self.main = self._run(merge_runs(self.device, self.main.pairs, recent))
            recent = self.device.empty(0, np.uint64)
        self.recent = self._run(recent)

    def _leave_out(self, pairs: Array) -> None:
        """Take ascending pairs out, each of which is in one of the runs."""
        recent, missing = self._without(self.recent, pairs, len(pairs))
        main, missing = self._without(self.main, pairs, missing)
        assert not missing, "pairs that are in no run were to be taken out of an index"
        self.main, self.recent = main, recent

    def _without(self, run: Run, pairs: Array, most: int) -> tuple[Run, int]:
        """A run without those of the pairs that it has, and how many of `most` are still to be found."""
        device, count = self.device, len(pairs)
        if not most or not len(run.pairs):
            return run, most
        places, found = device.empty(count, np.uint32), device.empty(count, np.uint8)
        device.launch(find_pairs, count, pairs, run.pairs, len(run.pairs), places, found)
        removed = device.gather(places, device.select(found))
        if not len(removed):
            return run, most
        left = device.empty(len(run.pairs) - len(removed), np.uint64)
        device.launch(leave_out, len(left), run.pairs, removed, len(removed), left)
        directory = device.empty(len(run.directory), np.uint32)
        device.launch(draw_nearer, len(directory), run.directory, removed, len(removed), directory)
        return Run(left, directory, run.shift), most - len(removed)

    def find(self, columns: Sequence[Array], count: int, domain: Domain) -> Matches:
        """The matches of bindings, given by their key columns."""
        device = self.device
        row_end = self.rows.delta[0] if domain is Domain.OLD else self.indexed
        found = Matches(*(device.empty(count, np.uint32) for _ in range(4)))
        ends, runs = self.look_up[:5], self.look_up[5:]
        device.launch(
            find_matches,
            count,
            *ends,
            columns[0],
            columns[-1],
            row_end,
            *runs,
            found.main_starts,
            found.main_counts,
            found.recent_starts,
            found.counts,
        )
        return found

    def _sorted_pairs(self, start: int, end: int) -> Array:
        device = self.device
        columns = [self.rows.device_column(key)[start:end] for key in self.keys]
        (first_low, _), (second_low, second_high) = self.bounds[0], self.bounds[-1]
        pairs = device.empty(end - start, np.uint64)
        device.launch(
            make_pairs,
            end - start,
            self._mode,
            start,
            columns[0],
            first_low,
            columns[-1],
            second_low,
            second_high - second_low,
            pairs,
        )
        return device.sort(pairs)

    def _pairs_of(self, places: Array, numbers: Array) -> Array:
        """The keys of the rows at `places`, beside other numbers."""
        device = self.device
        first, second = self.rows.device_column(self.keys[0]), self.rows.device_column(self.keys[-1])
        (first_low, _), (second_low, second_high) = self.bounds[0], self.bounds[-1]
        pairs = device.empty(len(places), np.uint64)
        device.launch(
            make_pairs_of,
            len(places),
            self._mode,
            places,
            numbers,
            first,
            first_low,
            second,
            second_low,
            second_high - second_low,
            pairs,
        )
        return pairs

    def _run(self, pairs: Array) -> Run:
        """A run with a directory of about as many buckets as it has pairs."""
        bits = min(self._key_bits, max(len(pairs).bit_length(), 1))
        shift, buckets = self._key_bits - bits, 1 << bits
        directory = self.device.empty(buckets + 1, np.uint32)
        self.device.launch(fill_directory, buckets + 1, pairs, len(pairs), shift, buckets, directory)
        return Run(pairs, directory, shift)
