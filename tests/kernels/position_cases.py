"""Inputs for the primitives over position sets: acyclic graphs, and sets that are crowded here and there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpuengine.kernels.position_sets import PositionSets
from gpuengine.kernels.primitives import NONE
from tests.kernels.primitive_cases import Args, csr, edge_lists, ids
from tests.kernels.reference_position_sets import pack

#: A bit more than three blocks of positions.
END = 1700


def reaching(
    edges: Sequence[tuple[int, int]], own: Sequence[Sequence[int]], cyclic: Iterable[int] = ()
) -> Args:
    """Arguments of `reached_sets`: edges between components, what each owns, and which are cyclic."""
    count = len(own)
    flags = np.zeros(count, np.uint8)
    flags[list(cyclic)] = 1
    owned = [(c, p) for c, positions in enumerate(own) for p in positions]
    positions = max((p + 1 for _, p in owned), default=0)
    return *csr(edges, count), *csr(owned, count), flags, positions


def family(sets: Sequence[Iterable[int]], order: Sequence[int] | None = None) -> PositionSets:
    """Position sets; `order` says which of `sets` each owner has, else they come as they are."""
    packed = pack(sets)
    if order is None:
        return packed
    chosen = np.array(order, np.int64)
    return PositionSets(packed.pool, *(array[chosen] for array in packed.arrays))


@st.composite
def acyclic(draw: Any) -> Args:
    """Components with positions in or out of order, beside each other or with gaps."""
    edges, count = draw(edge_lists())
    if draw(st.booleans()):
        edges += [(c + 1, c) for c in range(count - 1)]
    edges = [(max(edge), min(edge)) for edge in edges if edge[0] != edge[1]]
    cyclic = draw(st.sets(st.integers(0, count - 1), max_size=8))
    sizes = [draw(st.integers(1, 4)) if c in cyclic else 1 for c in range(count)]
    places = list(range(sum(sizes)))
    if draw(st.booleans()):
        places = draw(st.permutations(places))
    first, step = draw(st.sampled_from([0, 480, 1016])), draw(st.sampled_from([1, 2, 3, 40]))
    ends = np.cumsum(sizes).tolist()
    own = [
        [first + step * places[k] for k in range(end - n, end)] for end, n in zip(ends, sizes, strict=True)
    ]
    return reaching(edges, own, cyclic)


@st.composite
def position_set(draw: Any) -> set[int]:
    """A union of stretches and combs, less another: intervals over block borders, crowded blocks, gaps."""
    stretch = st.builds(
        lambda start, count, step: range(start, min(start + count * step, END), step),
        st.integers(0, END) | st.sampled_from([0, 510, 511, 512, 1023, 1024]),
        st.integers(0, 40) | st.sampled_from([8, 9, 512, 1024]),
        st.sampled_from([1, 1, 2, 3, 64]),
    )
    added, taken = draw(st.lists(stretch, max_size=4)), draw(st.lists(stretch, max_size=1))
    return set().union(*added) - set().union(*taken)


@st.composite
def families(draw: Any) -> PositionSets:
    """Some sets of some owners, in any order of the pool, some of them the same."""
    sets = draw(st.lists(position_set(), min_size=1, max_size=5))
    return family(sets, draw(st.lists(st.integers(0, len(sets) - 1), min_size=1, max_size=7)))


@st.composite
def look_ups(draw: Any) -> Args:
    sets = draw(families())
    owner = st.integers(0, len(sets) - 1) | st.just(NONE)
    position = st.integers(0, END) | st.sampled_from([0, 511, 512, 1023, 1024, NONE - 1, NONE])
    asked = draw(st.lists(st.tuples(owner, position), max_size=60))
    return sets, ids(o for o, _ in asked), ids(p for _, p in asked)


@st.composite
def listings(draw: Any) -> Args:
    sets = draw(families())
    owners = draw(st.lists(st.integers(0, len(sets) - 1) | st.just(NONE), max_size=8))
    values = np.arange(END, dtype=np.uint32)[::-1] * np.uint32(3)
    missing = draw(st.sampled_from([1, 2, 7, END]))
    values[::missing] = NONE if missing < END else 5
    return sets, ids(owners), values, draw(st.sampled_from([1, 7, 64, 1 << 30]))


@st.composite
def differences(draw: Any) -> Args:
    """Of families in one pool, or in two."""
    a = draw(families())
    b = a if draw(st.booleans()) else draw(families())
    pair = st.tuples(st.integers(0, len(a) - 1), st.integers(0, len(b) - 1))
    pairs = draw(st.lists(pair, max_size=8))
    return a, ids(k for k, _ in pairs), b, ids(t for _, t in pairs)


#: For each operation the strategy of its arguments.
OPERATIONS: dict[str, st.SearchStrategy[Args]] = {
    "reached_sets": acyclic(),
    "sets_contain": look_ups(),
    "sets_list": listings(),
    "sets_difference": differences(),
}
