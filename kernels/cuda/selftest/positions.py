"""Checks of condensations and of position sets, held against the CPU's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cuda.selftest import Check, Kit, expect
from gpuengine.kernels.cuda.selftest.primitives import directed
from gpuengine.kernels.position_sets import BLOCK_WORDS, PositionSets, converted
from gpuengine.kernels.primitives import NONE

Graph = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]
"""The arguments of `reached_sets`."""

_LAYERS = 6
_CHILDREN = 3
_NEAR = 40
"""Children are at most so far away: what is reached lies close together, however large the graph is."""
_TEETH = 40


def _csr(lists: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.zeros(len(lists) + 1, np.uint64)
    offsets[1:] = np.cumsum([len(each) for each in lists])
    return offsets, np.concatenate([np.empty(0, np.uint32), *lists]).astype(np.uint32)


def _layered(kit: Kit) -> Graph:
    """Layers of components, each with a few children near it in the layer before; some are cyclic.

    Those beside each other have positions beside each other, so that sets are crowded from a few layers on.
    """
    width = max(kit.size // 48, 6)
    count = _LAYERS * width
    children = []
    for c in range(count):
        near = c % width + kit.random.integers(-_NEAR, _NEAR + 1, _CHILDREN)
        children.append((c // width - 1) * width + near % width if c >= width else np.empty(0, np.int64))
    cyclic = kit.ids(count, 4) == 0
    sizes = np.where(cyclic, kit.ids(count, 4, 1), 1)
    order = np.arange(count).reshape(_LAYERS, width).T.ravel()
    ends = np.empty(count, np.int64)
    ends[order] = np.cumsum(sizes[order])
    own = [np.arange(ends[c] - sizes[c], ends[c]) for c in range(count)]
    return *_csr(children), *_csr(own), cyclic.astype(np.uint8), int(sizes.sum())


def _combs(kit: Kit) -> Graph:
    """Combs of two components that reach every other of some leaves, and one that reaches both of them."""
    combs = max(kit.size // 160, 2)
    leaves = 2 * _TEETH * combs
    grid = np.arange(leaves).reshape(combs, _TEETH, 2)
    teeth = [grid[g, :, side] for g in range(combs) for side in range(2)]
    both = [leaves + np.array([2 * g, 2 * g + 1]) for g in range(combs)]
    lists = [np.empty(0, np.int64)] * leaves + teeth + both
    own = [np.array([c]) for c in range(len(lists))]
    return *_csr(lists), *_csr(own), np.zeros(len(lists), np.uint8), len(lists)


def graphs(kit: Kit) -> Iterator[Graph]:
    """What is crowded and stays so, what is crowded and becomes whole, and nothing."""
    yield _layered(kit)
    yield _combs(kit)
    none = np.zeros(0, np.uint32)
    yield np.zeros(1, np.uint64), none, np.zeros(1, np.uint64), none, np.zeros(0, np.uint8), 0


def _stretches(first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """All places in stretches of a pool, owner by owner."""
    before = np.cumsum(counts, dtype=np.uint64) - counts
    places = np.repeat(first - before, counts.astype(np.int64)) + np.arange(counts.sum(), dtype=np.uint64)
    return places.astype(np.int64)


def _expect_sets(kit: Kit, found: PositionSets, expected: PositionSets, what: str) -> None:
    """Equal sets, wherever they lie in their pools."""
    found = converted(found, kit.fetch)
    for name in ("sizes", "interval_counts", "block_counts"):
        expect(getattr(found, name), getattr(expected, name), f"{what}: {name}")
    places = [_stretches(sets.first_interval, sets.interval_counts) for sets in (found, expected)]
    expect(found.pool.starts[places[0]], expected.pool.starts[places[1]], f"{what}: starts")
    expect(found.pool.ends[places[0]], expected.pool.ends[places[1]], f"{what}: ends")
    places = [_stretches(sets.first_block, sets.block_counts) for sets in (found, expected)]
    expect(found.pool.blocks[places[0]], expected.pool.blocks[places[1]], f"{what}: blocks")
    words, expected_words = (sets.pool.words.reshape(-1, BLOCK_WORDS) for sets in (found, expected))
    expect(words[places[0]], expected_words[places[1]], f"{what}: words")


def _made(kit: Kit) -> Iterator[tuple[Graph, PositionSets, PositionSets]]:
    """Graphs with their sets on the host and, copied, on the device."""
    for graph in graphs(kit):
        sets = CpuPrimitives().reached_sets(*graph)
        yield graph, sets, converted(sets, kit.device.upload)


def condense(kit: Kit) -> None:
    for offsets, targets, nodes in directed(kit):
        given = kit.device.upload(offsets), kit.device.upload(targets)
        found, count = kit.primitives.condense(*given, nodes)
        numbers = kit.fetch(found)
        labels = CpuPrimitives().strongly_connected(offsets, targets, nodes)
        expect(count, len(np.unique(labels)), "condense: components")
        pairs = np.unique(np.stack([numbers, labels]), axis=1)
        expect(pairs[0], np.arange(count), "condense: numbers, one for each component")
        sources = np.repeat(numbers, np.diff(offsets).astype(np.int64))
        expect(sources >= numbers[targets], np.ones(len(targets), np.bool_), "condense: edges lead down")


def reached_sets(kit: Kit) -> None:
    for graph in graphs(kit):
        child_offsets, children, own_offsets, own, cyclic = (kit.device.upload(x) for x in graph[:5])
        found = kit.primitives.reached_sets(child_offsets, children, own_offsets, own, cyclic, graph[5])
        _expect_sets(kit, found, CpuPrimitives().reached_sets(*graph), "reached sets")


def sets_contain(kit: Kit) -> None:
    for graph, sets, on_device in _made(kit):
        if len(sets):
            owners = kit.ids(kit.size, len(sets))
            near = graph[3][graph[2][owners].astype(np.int64)] + kit.ids(kit.size, 200)
            positions = (near % np.uint32(graph[5])).astype(np.uint32)
            owners[::7], positions[::11] = NONE, NONE
            given = kit.device.upload(owners), kit.device.upload(positions)
            found = kit.fetch(kit.primitives.sets_contain(on_device, *given))
            expect(found, CpuPrimitives().sets_contain(sets, owners, positions), "sets contain")


def sets_list(kit: Kit) -> None:
    for graph, sets, on_device in _made(kit):
        owners = kit.ids(min(kit.size // 16, 3000) if len(sets) else 0, max(len(sets), 1))
        values = kit.random.permutation(graph[5]).astype(np.uint32)
        some = values.copy()
        owners[::5], some[::3] = NONE, NONE
        for given in (values, some):
            sent = kit.device.upload(owners), kit.device.upload(given)
            asked, listed = map(kit.fetch, kit.primitives.sets_list(on_device, *sent))
            wanted_asked, wanted = CpuPrimitives().sets_list(sets, owners, given)
            expect(asked, wanted_asked, "sets list: owners")
            expect(listed[np.lexsort((listed, asked))], wanted[np.lexsort((wanted, asked))], "sets list")


def sets_difference(kit: Kit) -> None:
    for _, sets, on_device in _made(kit):
        kept = kit.ids(min(kit.size // 4, 20_000) if len(sets) else 0, max(len(sets), 1))
        taken = ((kept + kit.ids(len(kept), 4)) % max(len(sets), 1)).astype(np.uint32)
        for a, b in ((kept, taken), (taken[::-1].copy(), np.sort(kept))):
            sent = kit.device.upload(a), kit.device.upload(b)
            found = kit.primitives.sets_difference(on_device, sent[0], on_device, sent[1])
            _expect_sets(kit, found, CpuPrimitives().sets_difference(sets, a, sets, b), "sets difference")


CHECKS = tuple(
    Check(f"primitive: {check.__name__.replace('_', ' ')}", check)
    for check in (condense, reached_sets, sets_contain, sets_list, sets_difference)
)
