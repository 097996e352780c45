"""Checks of the primitives: each on random inputs, held against the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cuda.selftest import Check, Kit, expect

Arguments = tuple[Any, ...]
Inputs = Callable[[Kit], Iterator[Arguments]]


def _check(operation: str, inputs: Inputs) -> Check:
    def run(kit: Kit) -> None:
        for arguments in inputs(kit):
            sent = [kit.device.upload(x) if isinstance(x, np.ndarray) else x for x in arguments]
            found = _several(getattr(kit.primitives, operation)(*sent))
            expected = _several(getattr(CpuPrimitives(), operation)(*arguments))
            for one, other in zip(found, expected, strict=True):
                expect(one if isinstance(one, int) else kit.fetch(one), other, operation)

    return Check(f"primitive: {operation.replace('_', ' ')}", run)


def _several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _ascending(kit: Kit, size: int, strictly: bool) -> np.ndarray:
    """Keys of which two such arrays have many in common."""
    keys = kit.random.integers(0, max(3 * size, 1), size).astype(np.uint64) << np.uint64(40)
    return np.unique(keys) if strictly else np.sort(keys)


def runs(kit: Kit) -> Iterator[Arguments]:
    for size in kit.sizes:
        yield _ascending(kit, size, False), _ascending(kit, kit.size, False)
        yield _ascending(kit, kit.size, False), _ascending(kit, size, False)


def sets(kit: Kit) -> Iterator[Arguments]:
    for size in (*kit.sizes, kit.size // 40):
        yield _ascending(kit, size, True), _ascending(kit, kit.size, True)
        yield _ascending(kit, kit.size, True), _ascending(kit, size, True)


def members(kit: Kit) -> Iterator[Arguments]:
    for size in kit.sizes:
        yield kit.ids(size, max(4 * size, 1)), max(4 * size, 1)
        yield np.zeros(size, np.uint32), 40


def bitmap_pairs(kit: Kit) -> Iterator[Arguments]:
    for size in kit.sizes:
        yield kit.ids(size, 2**32 - 1), kit.ids(size, 2**32 - 1)


def bitmaps(kit: Kit) -> Iterator[Arguments]:
    for words, _ in bitmap_pairs(kit):
        yield (words,)


def bitmap_questions(kit: Kit) -> Iterator[Arguments]:
    for words, _ in bitmap_pairs(kit):
        yield words, kit.ids(kit.size, 32 * len(words) + 100)


def intervals(kit: Kit) -> Iterator[Arguments]:
    """Owners, starts, ends, and how many owners there are; some are empty, overlap, touch or repeat."""
    for size in kit.sizes:
        owners = max(size // 8, 1)
        starts = kit.ids(size, max(40 * size, 1))
        yield kit.ids(size, owners), starts, starts + kit.ids(size, 64), owners


def interval_sets(kit: Kit) -> Iterator[Arguments]:
    for given in intervals(kit):
        yield CpuPrimitives().interval_normalise(*given)


def interval_questions(kit: Kit) -> Iterator[Arguments]:
    for offsets, starts, ends in interval_sets(kit):
        end = int(ends.max()) + 2 if len(ends) else 2
        yield offsets, starts, ends, kit.ids(kit.size, len(offsets) - 1), kit.ids(kit.size, end)


def interval_owners(kit: Kit) -> Iterator[Arguments]:
    for offsets, starts, ends in interval_sets(kit):
        yield offsets, starts, ends, kit.ids(min(kit.size // 64, 3000), len(offsets) - 1)


def _graphs(kit: Kit) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Sources, targets and nodes: sparse, with a hub, a long chain, many short cycles, and without edges."""
    nodes = max(kit.size // 4, 2)
    yield kit.ids(nodes, nodes), kit.ids(nodes, nodes), nodes
    hub = np.zeros(kit.size, np.uint32)
    yield hub, kit.ids(kit.size, nodes), nodes
    length = min(nodes, 300)
    chain = kit.random.permutation(np.arange(length - 1, dtype=np.uint32))
    yield chain, chain + np.uint32(1), length
    ring = np.arange(nodes // 8 * 4, dtype=np.uint32)
    names = kit.random.permutation(np.arange(nodes, dtype=np.uint32))
    yield names[ring], names[ring // 4 * 4 + (ring + 1) % 4], nodes
    yield np.zeros(0, np.uint32), np.zeros(0, np.uint32), 5


def undirected(kit: Kit) -> Iterator[Arguments]:
    yield from _graphs(kit)


def directed(kit: Kit) -> Iterator[Arguments]:
    for sources, targets, nodes in _graphs(kit):
        order = np.argsort(sources, kind="stable")
        offsets = np.zeros(nodes + 1, np.uint64)
        offsets[1:] = np.cumsum(np.bincount(sources, minlength=nodes))
        yield offsets, targets[order].astype(np.uint32), nodes


def acyclic(kit: Kit) -> Iterator[Arguments]:
    nodes = max(kit.size // 4, 2)
    sources = np.sort(kit.ids(2 * nodes, nodes - 1))
    targets = np.minimum(sources + 1 + kit.ids(2 * nodes, max(nodes // 20, 1)), nodes - 1).astype(np.uint32)
    offsets = np.zeros(nodes + 1, np.uint64)
    offsets[1:] = np.cumsum(np.bincount(sources, minlength=nodes))
    yield offsets, targets, nodes
    yield from directed(kit)


def seeded(kit: Kit) -> Iterator[Arguments]:
    for offsets, targets, nodes in directed(kit):
        yield offsets, targets, np.array([0, nodes - 1, 0], np.uint32), nodes
        yield offsets, targets, kit.ids(nodes // 4, nodes), nodes


CHECKS = (
    _check("merge", runs),
    _check("union", sets),
    _check("difference", sets),
    _check("intersection", sets),
    _check("bitmap_of", members),
    _check("bitmap_union", bitmap_pairs),
    _check("bitmap_difference", bitmap_pairs),
    _check("bitmap_intersection", bitmap_pairs),
    _check("bitmap_count", bitmaps),
    _check("bitmap_members", bitmaps),
    _check("bitmap_contains", bitmap_questions),
    _check("interval_normalise", intervals),
    _check("interval_counts", interval_sets),
    _check("interval_contains", interval_questions),
    _check("interval_expand", interval_owners),
    _check("components", undirected),
    _check("breadth_first", seeded),
    _check("levels_of_dag", acyclic),
    _check("strongly_connected", directed),
)
