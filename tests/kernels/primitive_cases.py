"""Inputs for the primitives, random and nasty, and the comparison of a backend with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.primitives import CudaPrimitives
from gpuengine.kernels.position_sets import BLOCK_WORDS, PositionSets, converted
from gpuengine.kernels.primitives import Primitives, Run
from tests.kernels.cuda.simulator import SimulatedDevice
from tests.kernels.reference_primitives import ReferencePrimitives

REFERENCE = ReferencePrimitives()
CPU = CpuPrimitives()
EMULATED = CudaPrimitives(EmulatedDevice(threads=2))
FAST = (CPU, EMULATED)

#: One past the greatest value of an interval: no id is greater.
ID_END = 2**32 - 1

#: Keys that show signs, halves and floating point: neighbours around powers of two, and both ends.
KEYS = (*range(40), *range(2**32 - 2, 2**32 + 2), *range(2**53 - 1, 2**53 + 3), 2**63 - 1, 2**63, 2**64 - 1)

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


def _by_least_node(args: Args, results: list[Any]) -> list[Any]:
    """A condensation with the least node of each component for its number; checks the order of numbers."""
    (offsets, targets, _), (numbers, count) = args, results
    assert numbers.dtype == np.uint32
    assert np.all(np.repeat(numbers, np.diff(offsets).astype(np.int64)) >= numbers[targets]), (
        "edges lead down"
    )
    used, least, which = np.unique(numbers, return_index=True, return_inverse=True)
    assert used.tolist() == list(range(count)), "numbers have no gaps"
    return [least[which], count]


def _ordered_within(args: Args, results: list[Any]) -> list[Any]:
    """Listed values in ascending order within what one owner has."""
    asked, listed = results
    order = np.lexsort((listed, asked))
    assert np.array_equal(asked[order], asked), "owners come in turn"
    return [asked, listed[order]]


#: What of the results does not depend on the backend, where that is not all of them.
_NORMAL_FORMS: dict[str, Callable[[Args, list[Any]], list[Any]]] = {
    "condense": _by_least_node,
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
def ascending(draw: Any) -> np.ndarray:
    return keys(sorted(draw(st.lists(st.sampled_from(KEYS), max_size=60))))


@st.composite
def strictly_ascending(draw: Any) -> np.ndarray:
    return keys(sorted(draw(st.sets(st.sampled_from(KEYS) | st.integers(0, 2**64 - 1), max_size=60))))


@st.composite
def bitmaps(draw: Any, count: int) -> Args:
    size = draw(st.integers(0, 140))
    members = st.lists(st.integers(0, size - 1), max_size=80) if size else st.just([])
    return tuple(REFERENCE.bitmap_of(ids(draw(members)), size) for _ in range(count))


@st.composite
def raw_bitmaps(draw: Any) -> Args:
    size = draw(st.integers(1, 300))
    return ids(draw(st.lists(st.integers(0, size - 1), max_size=80))), size


@st.composite
def bitmap_look_ups(draw: Any) -> Args:
    (words,) = draw(bitmaps(1))
    return words, ids(draw(st.lists(st.integers(0, 170) | st.just(ID_END - 1), max_size=50)))


@st.composite
def raw_intervals(draw: Any) -> Args:
    """Owners, starts, ends and the number of owners; also empty, backward, touching and repeated ones."""
    n_owners = draw(st.integers(1, 5))
    base = draw(st.sampled_from([0, 2**31 - 20, ID_END - 40]))
    ends = st.integers(0, 40)
    some = draw(st.lists(st.tuples(st.integers(0, n_owners - 1), ends, ends), max_size=40))
    return (
        ids(o for o, _, _ in some),
        ids(base + start for _, start, _ in some),
        ids(base + end for _, _, end in some),
        n_owners,
    )


@st.composite
def interval_sets(draw: Any) -> Args:
    return tuple(REFERENCE.interval_normalise(*draw(raw_intervals())))


@st.composite
def interval_look_ups(draw: Any) -> Args:
    offsets, starts, ends = draw(interval_sets())
    interesting = {0, ID_END - 1}
    for place in [*starts.tolist(), *ends.tolist()]:
        interesting |= {max(place - 1, 0), place, min(place + 1, ID_END - 1)}
    pairs = st.tuples(st.integers(0, len(offsets) - 2), st.sampled_from(sorted(interesting)))
    asked = draw(st.lists(pairs, max_size=60))
    return offsets, starts, ends, ids(o for o, _ in asked), ids(x for _, x in asked)


@st.composite
def interval_owners(draw: Any) -> Args:
    offsets, starts, ends = draw(interval_sets())
    return offsets, starts, ends, ids(draw(st.lists(st.integers(0, len(offsets) - 2), max_size=12)))


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
def directed(draw: Any) -> Args:
    edges, nodes = draw(edge_lists())
    return *csr(edges, nodes), nodes


@st.composite
def seeded(draw: Any) -> Args:
    offsets, targets, nodes = draw(directed())
    return offsets, targets, ids(draw(st.lists(st.integers(0, nodes - 1), max_size=4))), nodes


#: For each operation the strategy of its arguments.
OPERATIONS: dict[str, st.SearchStrategy[Args]] = {
    "merge": st.tuples(ascending(), ascending()),
    "union": st.tuples(strictly_ascending(), strictly_ascending()),
    "difference": st.tuples(strictly_ascending(), strictly_ascending()),
    "intersection": st.tuples(strictly_ascending(), strictly_ascending()),
    "bitmap_of": raw_bitmaps(),
    "bitmap_union": bitmaps(2),
    "bitmap_difference": bitmaps(2),
    "bitmap_intersection": bitmaps(2),
    "bitmap_count": bitmaps(1),
    "bitmap_members": bitmaps(1),
    "bitmap_contains": bitmap_look_ups(),
    "interval_contains": interval_look_ups(),
    "interval_counts": interval_sets(),
    "interval_normalise": raw_intervals(),
    "interval_expand": interval_owners(),
    "components": undirected(),
    "breadth_first": seeded(),
    "levels_of_dag": directed(),
    "strongly_connected": directed(),
    "condense": directed(),
}
