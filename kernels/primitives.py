"""Array primitives that evaluation and storage schemes stand on: look-ups, semi-joins, position sets.

`cpu.primitives.CpuPrimitives` is the fast form on the host, `cuda.primitives.CudaPrimitives` the one on a
device. What holds for all operations:

- Arrays are one-dimensional and contiguous, and belong to the backend: NumPy's, or the device's (`upload` and
  `download` convert), as do those that position sets consist of. Ids are uint32 below 2**32 - 1, offsets
  uint64, masks bool.
- No input is changed, and every result is a new array that shares memory with no input.
- Inputs are trusted: an order, a range or a length that the contract asks for and does not get gives a wrong
  result or worse.
- Results are determined by the inputs alone, whatever the number of threads.

*Position sets* are described in `position_sets`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuengine.kernels.position_sets import PositionSets

Array = Any
"""A one-dimensional contiguous array of the backend."""

NONE = 0xFFFFFFFF
"""No node, no owner, no position, no value."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One of the runs that each binding intersects: those of an owner in a CSR, by binding.

    Owner o has ``values[offsets[o]:offsets[o + 1]]``, strictly ascending. Binding j takes the run of
    ``owners[j]``; NONE has an empty one.
    """

    offsets: Array
    values: Array
    owners: Array


class Primitives(Protocol):
    """The operations; see the module for what holds for all of them."""

    def upload(self, host: np.ndarray) -> Array:
        """A copy of a host array as an array of the backend."""

    def download(self, array: Array) -> np.ndarray:
        """A copy of an array of the backend as a host array."""

    # Columns.

    def take(self, column: Array, places: Array) -> Array:
        """The ids at the given places (uint32), which may repeat."""

    def filled(self, id: int, count: int) -> Array:
        """A column of one id."""

    def look_up(self, ids: Array, low: int, values: Array) -> Array:
        """``values[id - low]`` for each id; NONE for ids outside. O(ids)."""

    def search(self, ids: Array, known: Array, values: Array) -> Array:
        """The value beside each id in `known`, which is ascending; NONE for others. O(ids * log(known))."""

    # Joins.

    def semi_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        """The places (uint32, ascending) of the rows of `left` that equal some row of `right`.

        Both are columns of ids, equally many and at least one; rows may repeat. O(left + right) on average.
        On a device one synchronisation for each column, and one or two more.
        """

    def anti_join(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        """The places (uint32, ascending) of the rows of `left` that equal no row of `right`.

        The rest is as with `semi_join`.
        """

    # Position sets.

    def sets_contain(
        self, sets: PositionSets, owners: Array, positions: Array, *, negated: bool = False
    ) -> Array:
        """For each j whether ``positions[j]`` is in the set of ``owners[j]`` (or is not, if `negated`).

        NONE, as either, is nowhere. O(log(its intervals and blocks)) each.
        """

    def sets_list(
        self, sets: PositionSets, owners: Array, values: Array, room: int
    ) -> Iterator[tuple[Array, Array]]:
        """The values at the positions of each owner's set: (places in `owners`, values), both uint32.

        For j = 0, 1, ... the ``values[p]`` for the positions p of ``owners[j]``'s set, in any order, with j
        beside each, at most `room` at a time; owners may repeat. Values of NONE and owners of NONE are passed
        over. O(owners + their intervals, blocks, positions).
        """
