"""However facts come in, from the host or a device, in whatever order, they are the same facts."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from tests.exchange.stand_ins import CudaArray, DlpackArray, engine

PROGRAM = """
.decl edge(x: number, y: number)
.decl loop(x: number)
.decl two(x: number, z: number)
loop(x) :- edge(x, x).
two(x, z) :- edge(x, y), edge(y, z).
"""
NAMES = ("edge", "loop", "two")

numbers = st.one_of(
    st.integers(0, 5),
    st.sampled_from([2**24 - 1, 2**24, 2**31 - 1]),
    st.sampled_from([-1, 2**32 - 1, -(2**31), 2**40]),
)
pairs = st.lists(st.tuples(numbers, numbers), max_size=8)
forms = st.sampled_from(["list", "numpy", "matrix", "columns", "named", "dlpack", "part"])


def shaped(rows: list[tuple[int, int]], form: str, dtype: str, order: Any) -> Any:
    """The rows in one of the forms, of a type that holds them."""
    info = np.iinfo(dtype)
    fits = all(info.min <= value <= info.max for row in rows for value in row)
    matrix = np.array(rows, dtype if fits else "i8", order=order).reshape(-1, 2)
    x, y = matrix[:, 0], matrix[:, 1]
    match form:
        case "list":
            return rows
        case "numpy":
            return matrix
        case "matrix":
            return CudaArray(matrix)
        case "dlpack":
            return DlpackArray(matrix)
        case "columns":
            return [CudaArray(x), CudaArray(np.ascontiguousarray(y))]
        case "named":
            return {"y": CudaArray(y[::-1][::-1]), "x": CudaArray(x)}
    return {"y": y, "x": CudaArray(x)}


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            pairs, forms, st.sampled_from(["i4", "u4", "i8", "u8"]), st.sampled_from("CF"), st.booleans()
        ),
        max_size=5,
    )
)
def test_any_way_in(batches: list[tuple[list[tuple[int, int]], str, str, Any, bool]]) -> None:
    kb, expected = engine(PROGRAM), ge.Engine(PROGRAM, backend="cpu")
    views: list[tuple[ge.RelationView, list[Any]]] = []
    for rows, form, dtype, order, materialise in batches:
        assert kb.load("edge", shaped(rows, form, dtype, order)) == len(rows)
        expected.load("edge", rows)
        if materialise:
            kb.materialise()
            expected.materialise()
            views += [(kb[name], sorted(expected[name])) for name in NAMES]
    kb.materialise()
    expected.materialise()
    views += [(kb[name], sorted(expected[name])) for name in NAMES]
    for view, facts in views:
        assert sorted(view) == facts
        matrix = np.from_dlpack(view)
        assert sorted(map(tuple, matrix.reshape(len(view), len(view.columns)).tolist())) == facts
