"""Checks of position sets, held against the CPU's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cuda.selftest import Check, Kit, expect
from gpuengine.kernels.position_sets import PositionSets, converted
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


def _made(kit: Kit) -> Iterator[tuple[Graph, PositionSets, PositionSets]]:
    """Graphs with their sets on the host and, copied, on the device."""
    for graph in graphs(kit):
        sets = CpuPrimitives().reached_sets(*graph)
        yield graph, sets, converted(sets, kit.device.upload)


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

            found = kit.fetch(kit.primitives.sets_contain(on_device, *given, negated=True))
            missing = CpuPrimitives().sets_contain(sets, owners, positions, negated=True)
            expect(found, missing, "sets do not contain")


def _joined(parts: Iterable[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """All that is listed, whatever pieces it came in."""
    none = np.empty(0, np.uint32)
    places, values = zip((none, none), *parts, strict=True)
    return np.concatenate(places), np.concatenate(values)


def look_ups(kit: Kit) -> None:
    """As many questions as there is to know, of which some have no answer."""
    for size in kit.sizes:
        known = np.unique(kit.ids(size, max(3 * size, 1)))
        values = kit.ids(len(known), NONE)
        asked, near = kit.ids(size, max(3 * size, 1)), kit.ids(size, len(known) + 9)
        sent = [kit.device.upload(x) for x in (asked, known, values, near)]
        expected = CpuPrimitives().search(asked, known, values)
        expect(kit.fetch(kit.primitives.search(*sent[:3])), expected, "search")
        expected = CpuPrimitives().look_up(near, 5, values)
        expect(kit.fetch(kit.primitives.look_up(sent[3], 5, sent[2])), expected, "look up")


def sets_list(kit: Kit) -> None:
    for graph, sets, on_device in _made(kit):
        owners = kit.ids(min(kit.size // 16, 3000) if len(sets) else 0, max(len(sets), 1))
        values = kit.random.permutation(graph[5]).astype(np.uint32)
        some = values.copy()
        owners[::5], some[::3] = NONE, NONE
        for given in (values, some):
            sent = kit.device.upload(owners), kit.device.upload(given)
            room = max(kit.size // 3, 1)
            asked, listed = _joined(
                tuple(map(kit.fetch, part)) for part in kit.primitives.sets_list(on_device, *sent, room)
            )
            wanted_asked, wanted = _joined(CpuPrimitives().sets_list(sets, owners, given, 1 << 30))
            expect(asked, wanted_asked, "sets list: owners")
            expect(listed[np.lexsort((listed, asked))], wanted[np.lexsort((wanted, asked))], "sets list")


CHECKS = tuple(
    Check(f"primitive: {check.__name__.replace('_', ' ')}", check)
    for check in (look_ups, sets_contain, sets_list)
)
