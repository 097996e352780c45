"""Groups of an aggregate are evaluated once in a run, however many chunks of bindings ask for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.rules import aggregate, table_groups
from gpuengine.evaluation.rules.known_groups import KnownGroups
from tests.differential.compare import assert_agrees


@pytest.mark.parametrize(
    ("body", "groups"),
    [
        ("t(_, b, c), n = count : { t(x, b, c), x >= 0 }", 21),
        ("t(_, _, c), n = max x : { t(x, _, c), x >= 0 }", 7),
    ],
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
        rows = [tuple(row[:width]) for row in chunk]
        columns = [np.array([row[j] for row in rows], np.uint32) for j in range(width)]
        numbers = known.number(columns, len(rows))
        asked, count = known.new()
        new = list(zip(*(column.tolist() for column in asked), strict=True)) if count else []
        assert len(new) == len(set(new)) == count and set(new) == set(rows) - set(model)
        made = np.arange(len(model), len(model) + count, dtype=np.uint32) * 7
        known.add(made, made % 2 == 0)
        model |= dict(zip(new, made.tolist(), strict=True))
        results, holds = known.results(numbers)
        assert results.tolist() == [model[row] for row in rows]
        assert holds.tolist() == [model[row] % 2 == 0 for row in rows]


def test_a_group_has_one_sum_of_floats_however_chunks_cut_it() -> None:
    kb = ge.Engine(
        ".decl t(g: number, v: float)\n.input t\n"
        ".decl r(g: number, n: float)\nr(g, n) :- t(g, _), n = sum v : { t(g, v) }."
    )
    rows, groups = 400_000, 1_000
    values = np.random.default_rng(7).random(rows) * 10.0 ** (np.arange(rows) % 9)
    kb.load("t", {"g": np.repeat(np.arange(groups), rows // groups), "v": values})
    kb.materialise()
    assert len(kb["r"]) == groups
    found = dict(kb["r"].to_pylist())
    for group, one in enumerate(values.reshape(groups, -1)):
        assert np.isclose(found[group], one.sum(), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["number", "unsigned", "float", "symbol"]),
    st.sampled_from(
        ["count : ", "sum v : ", "min v : ", "max v : ", "mean v : ", "sum v * v : ", "sum 6 / v : "]
    ),
    st.sampled_from(["t(a, b, v)", "t(a, _, v)", "t(_, b, v)", "t(_, a, v)", "t(a, a, v)", "t(a, 1, v)"]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5)), max_size=30),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
)
def test_groups_of_a_whole_table(
    kind: str, op: str, atom: str, facts: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    assume(kind != "symbol" or op == "count : ")
    assume("/" not in op or kind == "number")
    make: Any = {"number": int, "unsigned": int, "float": lambda v: v / 4 - 1, "symbol": "s{}".format}[kind]
    program = f"""
.decl q(a: number, b: number)
.decl t(a: number, b: number, v: {kind})
.decl r(a: number, b: number, n: {"float" if op[:2] == "me" else "number" if op[:2] == "co" else kind})
r(a, b, n) :- q(a, b), n = {op}{{ {atom} }}.
.decl s(n: {"float" if op[:2] == "me" else "number" if op[:2] == "co" else kind})
s(n) :- q(a, b), n = {op}{{ {atom} }}.
"""
    loads = {"q": asked, "t": [(a, b, make(v)) for a, b, v in facts]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_groups, "_MANY", 0)
        patch.setattr(table_groups, "_PIECE", 7)
        assert_agrees(program, loads)


def test_many_groups_need_no_index() -> None:
    kb = ge.Engine(
        ".decl t(a: number, c: number)\n.input t\n"
        ".decl r(c: number, n: number)\nr(c, n) :- t(_, c), n = sum a : { t(a, c) }."
    )
    numbers = np.arange(200_000)
    kb.load("t", np.stack([numbers, numbers % 5_000], 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "_reduce_groups", None)
        kb.materialise()
    sums = np.bincount(numbers % 5_000, numbers).astype(int).tolist()
    assert dict(kb["r"].to_pylist()) == dict(enumerate(sums))
