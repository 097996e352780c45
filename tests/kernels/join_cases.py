"""Inputs for joins and runs, random and nasty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gpuengine.kernels.primitives import NONE, Run
from tests.kernels.primitive_cases import ID_END, REFERENCE, Args, ids

#: Ids by how sets hold them: as bits, as keys, and, from three columns on, as rows.
SPREADS: dict[str, Sequence[int]] = {
    "few": (0, 1, 2),
    "high": range(ID_END - 4, ID_END),
    "some": range(0, 4000, 571),
    "all": (0, 1, 2**31 - 1, 2**31, ID_END - 2, ID_END - 1),
}


def columns(rows: Sequence[Sequence[int]], arity: int) -> list[np.ndarray]:
    """Rows by column."""
    return [ids(row[j] for row in rows) for j in range(arity)]


@st.composite
def sides(draw: Any) -> Args:
    """Left and right rows of one to four columns; some columns may be spread more than others."""
    arity = draw(st.integers(1, 4))
    spreads = [SPREADS[draw(st.sampled_from(sorted(SPREADS)))] for _ in range(arity)]
    row = st.tuples(*(st.sampled_from(spread) for spread in spreads))
    right = draw(st.lists(row, max_size=draw(st.sampled_from([1, 8, 60]))))
    among = st.sampled_from(right) | row if right else row
    left = draw(st.lists(among, max_size=draw(st.sampled_from([1, 8, 60]))))
    return columns(left, arity), columns(right, arity)


@st.composite
def pairs(draw: Any) -> Args:
    """Keys, values and the number of owners; keys may be few or one, values anywhere."""
    n_owners = draw(st.integers(1, 8))
    keys = st.just(draw(st.integers(0, n_owners - 1))) | st.integers(0, n_owners - 1)
    values = st.sampled_from(SPREADS["all"]) | st.integers(0, draw(st.sampled_from([0, 40, ID_END - 1])))
    some = draw(st.lists(st.tuples(keys, values), max_size=60))
    return ids(key for key, _ in some), ids(value for _, value in some), n_owners


@st.composite
def intersections(draw: Any) -> Args:
    """One to four runs, of as many CSRs or fewer, with owners that have none, and NONE."""
    stored = [draw(pairs()) for _ in range(draw(st.integers(1, 3)))]
    taken = [draw(st.sampled_from(stored)) for _ in range(draw(st.integers(1, 4)))]
    bindings = draw(st.integers(0, 20))
    runs = []
    for each in taken:
        owner = st.integers(0, each[2] - 1) | st.just(NONE) if draw(st.booleans()) else st.just(0)
        owners = draw(st.lists(owner, min_size=bindings, max_size=bindings))
        runs.append(Run(*REFERENCE.sorted_runs(*each), ids(owners)))
    return (runs,)


#: For each operation the strategy of its arguments.
OPERATIONS: dict[str, st.SearchStrategy[Args]] = {
    "semi_join": sides(),
    "anti_join": sides(),
    "sorted_runs": pairs(),
    "intersect_runs": intersections(),
}
