"""Closures and equivalences as a device reads them: their labels, copied there when they have changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.kernels.position_sets import BLOCK_WORDS, PositionSets, SegmentPool
from gpuengine.kernels.primitives import Array, Primitives
from gpuengine.schemes.contract import Domain

if TYPE_CHECKING:
    from gpuengine.schemes.pairs import PairScheme, Reading

FORWARD = 0
_Copy = tuple[np.ndarray, int, Array]


class DeviceLabels:
    """What a pair scheme knows of its nodes, in the memory of a device: read there, made on the host.

    Arrays are copied when they are first read, and again when others are in their place; what no reading
    needs any more is let go.
    """

    def __init__(self, scheme: PairScheme, primitives: Primitives) -> None:
        self.primitives = primitives
        self._scheme = scheme
        self._copies: dict[int, _Copy] = {}
        self._needed: dict[tuple[int, Domain], list[int]] = {}
        self.node_count = 0

    def forget(self, host: np.ndarray) -> None:
        """An array has been changed in place."""
        self._copies.pop(id(host), None)

    @property
    def nbytes(self) -> int:
        return sum(host.itemsize * used for host, used, _ in self._copies.values())

    def contains(self, sources: Array, targets: Array, domain: Domain, *, negated: bool) -> Array:
        """Which pairs of ids are facts (or are none, if `negated`): a mask."""
        with _Asked(self, FORWARD, domain) as asked:
            take = self.primitives.look_up
            owners = take(asked.nodes(sources), 0, asked.owners)
            positions = take(asked.nodes(targets), 0, asked.copy(asked.reading.positions))
            return self.primitives.sets_contain(asked.sets, owners, positions, negated=negated)

    def partners(self, column: int, ids: Array, domain: Domain, room: int) -> Iterator[tuple[Array, Array]]:
        """Places in `ids`, which are of a column, with the id of a partner in the other beside each."""
        with _Asked(self, column, domain) as asked:
            owners = self.primitives.look_up(asked.nodes(ids), 0, asked.owners)
            sets, values = asked.sets, asked.copy(asked.reading.ids_at)
        yield from self.primitives.sets_list(sets, owners, values, room)

    def copied(self, host: np.ndarray, used: int) -> Array:
        """The first elements of a host array on the device."""
        copy = self._copies.get(id(host))
        if copy is None or copy[1] != used:
            copy = host, used, self.primitives.upload(host[:used])
            self._copies[id(host)] = copy
        return copy[2]

    def keep(self, column: int, domain: Domain, needed: list[int]) -> None:
        """These are the arrays that reading a column needs now."""
        self._needed[column, domain] = needed
        kept = {each for arrays in self._needed.values() for each in arrays}
        self._copies = {key: copy for key, copy in self._copies.items() if key in kept}


class _Asked:
    """One reading, and the copies that it asks for."""

    def __init__(self, labels: DeviceLabels, column: int, domain: Domain) -> None:
        self._labels = labels
        self._key = column, domain
        self._used: list[int] = []
        self._table = labels._scheme.nodes.table
        self.reading: Reading = labels._scheme._reading(column, domain)

    def __enter__(self) -> _Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self._labels.keep(*self._key, self._used)

    def copy(self, host: np.ndarray, used: int | None = None) -> Array:
        self._used.append(id(host))
        return self._labels.copied(host, len(host) if used is None else used)

    def nodes(self, ids: Array) -> Array:
        """The node of each id; NONE for those that have none."""
        known, nodes, low, count = self._table
        if known is None:
            # Nodes come into this table in place: as many as there are say which version it is.
            return self._labels.primitives.look_up(ids, low, self._versioned(nodes, count))
        return self._labels.primitives.search(ids, self.copy(known), self.copy(nodes))

    def _versioned(self, nodes: np.ndarray, count: int) -> Array:
        labels = self._labels
        if labels.node_count != count:
            labels.forget(nodes)
            labels.node_count = count
        return self.copy(nodes)

    @property
    def owners(self) -> Array:
        return self.copy(self.reading.reached.owners)

    @property
    def sets(self) -> PositionSets:
        sets = self.reading.reached.sets
        pool = sets.pool
        intervals, blocks = pool.intervals, pool.block_count
        own = SegmentPool(
            self.copy(pool.starts, intervals),
            self.copy(pool.ends, intervals),
            self.copy(pool.blocks, blocks),
            self.copy(pool.words, BLOCK_WORDS * blocks),
            intervals,
            blocks,
        )
        # The sizes stay on the host: neither look-ups nor lists ask for them.
        first_interval, interval_counts, first_block, block_counts = map(self.copy, sets.arrays[:4])
        return PositionSets(own, first_interval, interval_counts, first_block, block_counts, sets.sizes)
