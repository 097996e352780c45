"""Versions of what the nodes of a graph reach, and what one of them has more than another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuengine.kernels.cpu.position_sets import subtract
from gpuengine.kernels.position_sets import PositionSets, empty_sets
from gpuengine.kernels.primitives import NONE
from gpuengine.schemes.numbering import Numbering
from gpuengine.schemes.pairs import Reached


@dataclass(frozen=True)
class Version:
    """The strongly connected component of each node, and for each component what it reaches.

    `places` has the position of a node of each, `cyclic` whether it reaches itself. `node_at` is the node at
    each position, as it was known to the version.
    """

    component: np.ndarray
    cyclic: np.ndarray
    places: np.ndarray
    sets: PositionSets
    node_at: np.ndarray

    @property
    def nodes(self) -> int:
        return len(self.component)

    @cached_property
    def pairs(self) -> int:
        return int(self.sets.sizes[self.component].sum())

    @cached_property
    def sources(self) -> int:
        """How many nodes reach any."""
        return int(np.count_nonzero(self.sets.sizes[self.component]))

    @property
    def mutual_pairs(self) -> int:
        """How many of the pairs there are the other way round as well: those within a component."""
        sizes = np.bincount(self.component, minlength=len(self.cyclic)).astype(np.uint64)
        return int((sizes[self.cyclic != 0] ** 2).sum())


@dataclass(frozen=True)
class Difference:
    """What two versions do not have in common; found out when first asked for.

    One of them has all that the other has. `filled` are the positions that nodes took in between.
    """

    now: Version
    before: Version
    numbering: Numbering
    filled: np.ndarray
    stop: np.ndarray

    @cached_property
    def reached(self) -> Reached:
        now, before = self.now, self.before
        if now is before:
            return Reached(np.empty(0, np.uint32), empty_sets(now.sets.pool, 0))
        # Where there was nothing, an empty set is subtracted: that of an owner past the others.
        empty = len(before.sets)
        earlier = before.sets.copy(empty + 1)
        old = np.full(now.nodes, empty, np.uint32)
        old[: before.nodes] = before.component
        changed = now.sets.sizes[now.component] != earlier.sizes[old]
        pairs = (now.component[changed].astype(np.uint64) << np.uint64(32)) | old[changed]
        distinct, which = np.unique(pairs, return_inverse=True)
        new_owner = (distinct >> np.uint64(32)).astype(np.uint32)
        old_owner = (distinct & np.uint64(NONE)).astype(np.uint32)
        grown = bool(np.all(now.sets.sizes[new_owner] >= earlier.sizes[old_owner]))
        later = now.sets, new_owner
        more, less = (later, (earlier, old_owner)) if grown else ((earlier, old_owner), later)
        sets = subtract(*more, *less, len(self.numbering.node_at), spared=self.filled, stop=self.stop)
        self.numbering.count(sets, np.arange(len(sets), dtype=np.uint32))
        owners = np.full(now.nodes, NONE, np.uint32)
        owners[changed] = which
        return Reached(owners, sets)

    @property
    def nbytes(self) -> int:
        """What it takes by itself, which is nothing before it is asked for."""
        if "reached" not in self.__dict__:
            return 0
        return self.reached.owners.nbytes + self.reached.sets.nbytes + self.reached.sets.pool.nbytes
