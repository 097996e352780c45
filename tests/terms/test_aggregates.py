"""Aggregates over segments against plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language.program import FLOAT, NUMBER, SYMBOL, UNSIGNED, Type
from gpuengine.terms.aggregates import Reduction, identity
from gpuengine.terms.dictionary import Dictionary

DTYPES = {NUMBER: np.int64, UNSIGNED: np.uint64, FLOAT: np.float64}
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    NUMBER: st.integers(-(2**63), 2**63 - 1),
    UNSIGNED: st.integers(0, 2**64 - 1),
    FLOAT: st.floats(-1e12, 1e12),
    SYMBOL: st.text(max_size=4),
}


def run(op: str, type_: Type, groups: list[list[Any]], result: Type) -> list[Any]:
    dictionary = Dictionary()
    flat = [value for group in groups for value in group]
    ids = None
    if op != "count":
        ids = dictionary.encode(type_.space, flat if type_ is SYMBOL else np.array(flat, DTYPES[type_]))
    given = ids if ids is None or type_ is SYMBOL else dictionary.values(type_.space, ids)
    numbers = np.repeat(np.arange(len(groups), dtype=np.uint32), [len(group) for group in groups])
    order = np.random.default_rng(len(flat)).permutation(len(flat))
    results = []
    for room in (2, 1000):
        reduction = Reduction(op, type_, len(groups), dictionary)
        for start in range(0, len(flat), room):
            rows = order[start : start + room]
            reduction.add(numbers[rows], None if given is None else given[rows])
        found, reduced = reduction.results()
        assert reduced.dtype == np.uint32 and found.tolist() == list(range(len(groups)))
        results.append(dictionary.to_arrow(result, reduced).to_pylist())
    assert str(results[0]) == str(results[1])
    return results[0]


def wrap(value: int, type_: Type) -> int:
    value &= 2**64 - 1
    return value - 2**64 if type_ is NUMBER and value >= 2**63 else value


@pytest.mark.parametrize("type_", VALUES, ids=lambda t: t.name)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_against_python(type_: Type, data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.lists(VALUES[type_], min_size=1, max_size=8), max_size=8))

    def by_bytes(value: Any) -> Any:
        return value.encode() if type_ is SYMBOL else value

    assert run("min", type_, groups, type_) == [min(group, key=by_bytes) for group in groups]
    assert run("max", type_, groups, type_) == [max(group, key=by_bytes) for group in groups]
    if type_ is SYMBOL:
        return
    sums = [math.fsum(g) if type_ is FLOAT else wrap(sum(g), type_) for g in groups]
    assert run("sum", type_, groups, type_) == sums
    if type_ is not FLOAT:
        assert run("count", type_, groups, type_) == [len(group) for group in groups]
    means = [math.fsum(map(float, group)) / len(group) for group in groups]
    assert run("mean", type_, groups, FLOAT) == means


def test_nan_counts_in_a_sum_but_not_in_an_extreme() -> None:
    groups = [[math.nan, 2.0, 1.0], [math.nan]]
    assert run("min", FLOAT, groups[:1], FLOAT) == [1.0]
    assert run("max", FLOAT, groups[:1], FLOAT) == [2.0]
    assert all(math.isnan(value) for value in run("sum", FLOAT, groups, FLOAT))
    assert math.isnan(run("max", FLOAT, groups[1:], FLOAT)[0])


def test_the_aggregate_of_nothing() -> None:
    dictionary = Dictionary()
    assert identity("count", NUMBER, dictionary) == 0
    assert identity("sum", UNSIGNED, dictionary) == 0
    zero = identity("sum", FLOAT, dictionary)
    assert zero is not None and dictionary.values("float", np.array([zero], np.uint32)) == [0.0]
    assert [identity(op, NUMBER, dictionary) for op in ("min", "max", "mean")] == [None] * 3
