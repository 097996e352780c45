"""Groups of an aggregate are evaluated once in a run, however many chunks of bindings ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.rules import aggregate
from gpuengine.evaluation.rules.known_groups import KnownGroups


@pytest.mark.parametrize(
    ("body", "groups"),
    [("t(_, b, c), n = count : { t(_, b, c) }", 21), ("t(_, _, c), n = max x : { t(x, _, c) }", 7)],
)
def test_each_group_is_evaluated_once(body: str, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    reduce_groups = aggregate._reduce_groups

    def counted(literal: Any, given: Any, *others: Any) -> Any:
        asked.append(given.rows)
        return reduce_groups(literal, given, *others)

    monkeypatch.setattr(aggregate, "_reduce_groups", counted)
    rows = 300_000  # several chunks
    kb = ge.Engine(
        ".decl t(a: number, b: number, c: number)\n.input t\n"
        f".decl r(c: number, n: number)\nr(c, n) :- {body}."
    )
    numbers = np.arange(rows)
    kb.load("t", np.stack([numbers, numbers % 3, numbers % 7], 1))
    kb.materialise()
    assert sum(asked) == groups
    expected = (
        {(c, int(np.sum((numbers % 3 == b) & (numbers % 7 == c)))) for b in range(3) for c in range(7)}
        if groups == 21
        else {(c, int(numbers[numbers % 7 == c].max())) for c in range(7)}
    )
    assert set(kb["r"].to_pylist()) == expected


def test_an_update_evaluates_them_again() -> None:
    kb = ge.Engine(
        ".decl t(a: number, c: number)\n.input t\n"
        ".decl r(c: number, n: number)\nr(c, n) :- t(_, c), n = count : t(_, c)."
    )
    kb.load("t", [(a, a % 2) for a in range(10)])
    kb.materialise()
    for a in (10, 11, 12):
        with kb.update() as update:
            update.insert("t", [(a, 0)])
    assert set(kb["r"].to_pylist()) == {(0, 8), (1, 5)}


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.lists(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), max_size=9)))
def test_it_is_a_mapping(width: int, chunks: list[list[list[int]]]) -> None:
    known = KnownGroups(width)
    model: dict[tuple[int, ...], int] = {}
    for chunk in chunks:
        rows = sorted({tuple(row[:width]) for row in chunk})
        columns = [np.array([row[j] for row in rows], np.uint32) for j in range(width)]
        codes = known.find(columns, len(rows))
        results, holds = known.results(codes[codes >= 0])
        found = [row for row, code in zip(rows, codes, strict=True) if code >= 0]
        assert [model[row] for row in found] == results.tolist()
        assert holds.tolist() == [model[row] % 2 == 0 for row in found]
        new = [row for row, code in zip(rows, codes, strict=True) if code < 0]
        made = np.arange(len(model), len(model) + len(new), dtype=np.uint32)
        known.add([column[codes < 0] for column in columns], made, made % 2 == 0)
        model |= dict(zip(new, made.tolist(), strict=True))
