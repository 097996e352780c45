"""Inputs for the primitives, random and nasty, and the comparison of a backend with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpuengine.kernels.cpu.position_sets import subtract
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.position_sets import BLOCK_SIZE, BLOCK_WORDS, PositionSets, SegmentPool, converted
from gpuengine.kernels.primitives import Primitives, Run
from tests.kernels.cuda.simulator import SimulatedDevice
from tests.kernels.reference_primitives import ReferencePrimitives

REFERENCE = ReferencePrimitives()


class HostPrimitives(CpuPrimitives):
    """With the difference of position sets, which only storage schemes ask for, as the reference has it."""

    def sets_difference(
        self, a: PositionSets, kept: np.ndarray, b: PositionSets, taken: np.ndarray
    ) -> PositionSets:
        end = max(_positions_end(a, kept), _positions_end(b, taken))
        if a.pool is not b.pool:
            a, b = _in_one_pool(a, b)
        return subtract(a, kept, b, taken, end)


def _positions_end(sets: PositionSets, owners: np.ndarray) -> int:
    """A number that all positions of the owners' sets are below."""
    last_interval = (sets.first_interval[owners] + sets.interval_counts[owners]).astype(np.int64) - 1
    last_block = (sets.first_block[owners] + sets.block_counts[owners]).astype(np.int64) - 1
    ends = sets.pool.ends[last_interval[sets.interval_counts[owners] != 0]]
    blocks = sets.pool.blocks[last_block[sets.block_counts[owners] != 0]]
    return max(int(ends.max(initial=0)), (int(blocks.max(initial=0)) + 1) * BLOCK_SIZE)


def _in_one_pool(a: PositionSets, b: PositionSets) -> tuple[PositionSets, PositionSets]:
    """The same sets, with what they refer to in one pool."""
    first, second = a.pool, b.pool
    pool = SegmentPool(
        np.concatenate([first.starts[: first.intervals], second.starts[: second.intervals]]),
        np.concatenate([first.ends[: first.intervals], second.ends[: second.intervals]]),
        np.concatenate([first.blocks[: first.block_count], second.blocks[: second.block_count]]),
        np.concatenate(
            [
                first.words[: BLOCK_WORDS * first.block_count],
                second.words[: BLOCK_WORDS * second.block_count],
            ]
        ),
        first.intervals + second.intervals,
        first.block_count + second.block_count,
    )
    first_interval, interval_counts, first_block, block_counts, sizes = b.arrays
    moved = PositionSets(
        pool,
        first_interval + np.uint64(first.intervals),
        interval_counts,
        first_block + np.uint64(first.block_count),
        block_counts,
        sizes,
    )
    return PositionSets(pool, *a.arrays), moved


CPU = HostPrimitives()
EMULATED = CudaPrimitives(EmulatedDevice(threads=2))
FAST = (CPU, EMULATED)


def those_with(operation: str) -> list[Primitives]:
    """The fast ones that have an operation: some are the host's alone."""
    return [primitives for primitives in FAST if hasattr(primitives, operation)]


#: One past the greatest value of an interval: no id is greater.
ID_END = 2**32 - 1

Args = tuple[Any, ...]


def keys(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), np.uint64)


def ids(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), np.uint32)


def simulated(seed: int) -> CudaPrimitives:
    """A few threads only: starting one takes longer than what it does here."""
    return CudaPrimitives(SimulatedDevice(threads=8, block=4, seed=seed))


def run(primitives: Primitives, operation: str, args: Args) -> list[Any]:
    """The results on the host, in a form that only depends on what the contract promises.

    Checks that the inputs stay as they are. Position sets that are given twice stay the same ones.
    """
    known: dict[int, Any] = {}
    given = [known.setdefault(id(arg), _moved(arg, primitives.upload)) for arg in args]
    result = getattr(primitives, operation)(*given)
    if isinstance(result, Iterator):
        parts = [tuple(primitives.download(array) for array in part) for part in result]
        assert all(0 < len(places) <= args[-1] for places, _ in parts), "too many at once"
        none = ids([])
        result = tuple(np.concatenate(column) for column in zip((none, none), *parts, strict=True))
        result = tuple(primitives.upload(column) for column in result)
    results = list(result) if isinstance(result, tuple) else [result]
    inputs = [array for arg in given for array in _arrays(arg)]
    for one in (array for value in results for array in _arrays(value)):
        assert not any(_share(one, other) for other in inputs), (
            f"{operation}: the result shares memory with an input"
        )
    for before, after in zip(args, given, strict=True):
        again = _arrays(_moved(after, primitives.download))
        same = all(map(np.array_equal, _arrays(before), again))
        assert same, f"{operation}: an input was changed"
    return _NORMAL_FORMS.get(operation, _described)(
        args, [_moved(one, primitives.download) for one in results]
    )


def _moved(value: Any, move: Callable[[Any], Any]) -> Any:
    """An argument or a result as it is on the other side."""
    if isinstance(value, PositionSets):
        return converted(value, move)
    if isinstance(value, Run):
        return Run(*(move(array) for array in _arrays(value)))
    if isinstance(value, list):
        return [_moved(one, move) for one in value]
    return value if isinstance(value, int) else move(value)


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, PositionSets):
        pool = value.pool
        return [pool.starts, pool.ends, pool.blocks, pool.words, *value.arrays]
    if isinstance(value, Run):
        return [value.offsets, value.values, value.owners]
    if isinstance(value, list):
        return [array for one in value for array in _arrays(one)]
    return [] if isinstance(value, int) else [value]


def _share(one: Any, other: Any) -> bool:
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.shares_memory(one, other)


def _described(args: Args, results: list[Any]) -> list[Any]:
    return [describe(one) if isinstance(one, PositionSets) else one for one in results]


def describe(sets: PositionSets) -> list[Any]:
    """By owner the intervals, the blocks with their words, and the size, wherever that is in the pool."""
    kinds = (np.uint64, np.uint32, np.uint64, np.uint32, np.uint64)
    assert [array.dtype for array in _arrays(sets)[4:]] == list(kinds)
    pool, found = sets.pool, []
    for first, count, first_block, blocks, size in zip(*(a.tolist() for a in sets.arrays), strict=True):
        assert first + count <= pool.intervals or not count
        assert first_block + blocks <= pool.block_count or not blocks
        part = slice(first, first + count)
        words = pool.words[BLOCK_WORDS * first_block : BLOCK_WORDS * (first_block + blocks)]
        found.append(
            (
                list(zip(pool.starts[part].tolist(), pool.ends[part].tolist(), strict=True)),
                pool.blocks[first_block : first_block + blocks].tolist(),
                words.tolist(),
                size,
            )
        )
    return found


def _ordered_within(args: Args, results: list[Any]) -> list[Any]:
    """Listed values in ascending order within what one owner has."""
    asked, listed = results
    order = np.lexsort((listed, asked))
    assert np.array_equal(asked[order], asked), "owners come in turn"
    return [asked, listed[order]]


#: What of the results does not depend on the backend, where that is not all of them.
_NORMAL_FORMS: dict[str, Callable[[Args, list[Any]], list[Any]]] = {
    "sets_list": _ordered_within,
}


def assert_same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()
        else:
            assert one == other


def csr(edges: Sequence[tuple[int, int]], nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and targets; the edges of a node stay in order."""
    pairs = np.array(edges, np.int64).reshape(len(edges), 2)
    order = np.argsort(pairs[:, 0], kind="stable")
    offsets = np.zeros(nodes + 1, np.uint64)
    offsets[1:] = np.cumsum(np.bincount(pairs[:, 0], minlength=nodes))
    return offsets, pairs[order, 1].astype(np.uint32)


@st.composite
def edge_lists(draw: Any) -> tuple[list[tuple[int, int]], int]:
    """Edges and the number of nodes: sparse and dense, skewed, with loops and duplicates."""
    nodes = draw(st.integers(1, 40))
    node = st.integers(0, nodes - 1)
    if draw(st.booleans()):
        node = st.just(draw(node)) | node
    edges = draw(st.lists(st.tuples(node, node), max_size=draw(st.sampled_from([nodes, 3 * nodes]))))
    if draw(st.booleans()):
        edges = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]]
    return edges, nodes


@st.composite
def undirected(draw: Any) -> Args:
    edges, nodes = draw(edge_lists())
    return ids(x for x, _ in edges), ids(y for _, y in edges), nodes


@st.composite
def taking(draw: Any) -> Args:
    column = draw(st.lists(st.integers(0, ID_END), min_size=1, max_size=20))
    return ids(column), ids(draw(st.lists(st.integers(0, len(column) - 1), max_size=30)))


@st.composite
def look_ups(draw: Any, by_address: bool) -> Args:
    """Ids around what is known, at both ends of what an id can be."""
    base = draw(st.sampled_from([0, 7, 2**31 - 5, ID_END - 60]))
    asked = ids(draw(st.lists(st.integers(max(base - 5, 0), base + 55), max_size=40)))
    known = sorted(draw(st.sets(st.integers(base, base + 50), max_size=30)))
    values = ids(draw(st.lists(st.integers(0, ID_END), min_size=len(known), max_size=len(known))))
    return (asked, base, values) if by_address else (asked, ids(known), values)


#: For each operation the strategy of its arguments.
OPERATIONS: dict[str, st.SearchStrategy[Args]] = {
    "components": undirected(),
    "take": taking(),
    "filled": st.tuples(st.integers(0, ID_END), st.integers(0, 40)),
    "look_up": look_ups(by_address=True),
    "search": look_ups(by_address=False),
}
