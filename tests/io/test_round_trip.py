"""What leaves comes back the same: records, ADT values, symbols and floats through every format."""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.io import write_facts
from gpuengine.relation import RelationView

DECLARED = """
.type Pair = [name: symbol, weight: float, next: Pair]
.type Tree = Leaf {} | Node {left: Tree, name: symbol, right: Tree} | Bag {pair: Pair, size: unsigned}
.decl r(p: Pair, t: Tree)
"""
RULES = """
.decl name(s: symbol)
.decl inner(s: symbol)
name(s) :- r([s, _, _], _).
name(s) :- r([_, _, [s, _, _]], _).
inner(s) :- r(_, $Node(_, s, _)).
inner(s) :- r(_, $Node($Node(_, s, _), _, _)).
inner(s) :- r(_, $Bag([s, _, _], _)).
"""

NASTY = [
    '"a"', " a ", "a\nb", "a, b", "a]", "a)", "[", "(", "$x", "$Leaf", "nil", "", "\\", '\\"', "\\n", "\t",
    "\r", "\ufeff", "\ufeffa", "a\r\n", '"', "\v", "a\x00b", "ä", "[nil, 0, nil]", '"\\"', "a\tb", "\x1f",
]  # fmt: skip
symbols = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.sampled_from('ab,"\\[]()$ \n\t\r\ufeffé'), max_size=6),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
floats = st.floats(allow_nan=False) | st.just(math.nan)
pairs = st.recursive(st.none(), lambda inner: st.tuples(symbols, floats, inner), max_leaves=3)
trees = st.recursive(
    st.one_of(st.just(("$Leaf",)), st.tuples(st.just("$Bag"), pairs, st.integers(0, 2**64 - 1))),
    lambda inner: st.tuples(st.just("$Node"), inner, symbols, inner),
    max_leaves=4,
)
rows = st.lists(st.tuples(pairs, trees), min_size=1, max_size=6)

Journey = Callable[[RelationView, Path], Any]


def by_file(name: str, **params: str) -> Journey:
    def journey(view: RelationView, folder: Path) -> Any:
        write_facts(folder / name, view.batches(), view.attributes, params)
        return folder / name, {key: value for key, value in params.items() if key != "compress"}

    return journey


JOURNEYS: dict[str, Journey] = {
    "to_arrow": lambda view, folder: (view.to_arrow(), {}),
    "to_pandas": lambda view, folder: (view.to_pandas(), {}),
    "to_polars": lambda view, folder: (view.to_polars(), {}),
    "to_pylist": lambda view, folder: (view.to_pylist(), {}),
    "to_numpy": lambda view, folder: (view.to_numpy(), {}),
    "view": lambda view, folder: (view, {}),
    "facts": by_file("r.facts"),
    "gzip": by_file("r.facts.gz"),
    "zstd": by_file("r.tsv.zst"),
    "headers": by_file("r.tsv", headers="true"),
    "delimiter": by_file("r.txt", delimiter=","),
    "long delimiter": by_file("r.txt", delimiter=",|"),
    "semicolon": by_file("r.txt", delimiter=";"),
    "space": by_file("r.txt", delimiter=" "),
    "rfc4180": by_file("r.csv", IO="csv"),
    "csv with headers": by_file("r.csv", IO="csv", headers="true"),
    "csv": by_file("r.csv"),
    "parquet": by_file("r.parquet"),
    "arrow": by_file("r.arrow"),
}


def bits(value: Any) -> Any:
    """A value that is equal to others of the same bits only."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return tuple(map(bits, value)) if isinstance(value, tuple) else value


def loaded(program: str, data: Any, params: dict[str, str] | None = None) -> ge.Engine:
    kb = ge.Engine(program, threads=1)
    kb.load("r", data, params=params)
    return kb


def names(pair: Any, depth: int = 2) -> set[str]:
    return set() if pair is None or not depth else {pair[0], *names(pair[2], depth - 1)}


def inner(tree: Any, depth: int = 2) -> set[str]:
    if tree[0] == "$Bag":
        return names(tree[1], 1) if depth == 2 else set()
    if tree[0] == "$Leaf" or not depth:
        return set()
    return {tree[2], *(inner(tree[1], depth - 1) if depth == 2 else ())}


@settings(max_examples=15, deadline=None)
@example([((symbol, 1.5, None), ("$Node", ("$Leaf",), symbol, ("$Leaf",))) for symbol in NASTY])
@given(rows)
def test_records_come_back(given_rows: list[tuple[Any, Any]]) -> None:
    kb = loaded(DECLARED + RULES, given_rows).materialise()
    # What rules see of the values does not depend on how they are printed.
    assert {s for (s,) in kb["name"]} == set().union(*(names(pair) for pair, _ in given_rows))
    assert {s for (s,) in kb["inner"]} >= set().union(*(inner(tree) for _, tree in given_rows))
    before = set(kb["r"])
    assert len(before) == len(kb["r"]) and all(row in kb["r"] for row in [*given_rows, *before])
    for name, journey in JOURNEYS.items():
        with tempfile.TemporaryDirectory() as folder:
            again = loaded(DECLARED, *journey(kb["r"], Path(folder)))["r"]
        assert set(again) == before and len(again) == len(before), name
        assert given_rows[0] in again, name


@settings(max_examples=5, deadline=None)
@given(rows)
def test_records_come_back_from_a_knowledge_base(given_rows: list[tuple[Any, Any]]) -> None:
    kb = loaded(DECLARED + RULES, given_rows).materialise()
    with tempfile.TemporaryDirectory() as folder:
        kb.save(Path(folder) / "kb")
        with ge.open(Path(folder) / "kb") as again:
            assert set(again["r"]) == set(kb["r"]) and set(again["name"]) == set(kb["name"])


@settings(max_examples=15, deadline=None)
@example(
    [(-0.0, "\ufeff"), (0.0, "\ufeffa"), (math.nan, "nan"), (math.inf, ""), (-math.inf, "a"), (5e-324, "b")]
)
@example([(math.nan, "a")])
@given(st.lists(st.tuples(floats, st.text(st.sampled_from('ab\ufeff"'), max_size=4)), min_size=1, max_size=6))
def test_floats_come_back(given_rows: list[tuple[float, str]]) -> None:
    declared = ".decl r(f: float, s: symbol)"
    kb = loaded(declared, given_rows)
    before = {bits(row) for row in kb["r"]}
    assert before == {bits(row) for row in given_rows}
    for name, journey in JOURNEYS.items():
        with tempfile.TemporaryDirectory() as folder:
            again = loaded(declared, *journey(kb["r"], Path(folder)))["r"]
        assert {bits(row) for row in again} == before and len(again) == len(before), name
        assert all(row in again for row in given_rows), name


@pytest.mark.parametrize("first", ["\ufeff", "\ufeffa", "\ufeff\ufeffa", '\ufeff"a"', "a"])
def test_a_byte_order_mark_that_is_data_comes_back(first: str, tmp_path: Path) -> None:
    declared = ".decl r(s: symbol, n: number)"
    kb = loaded(declared, [(first, 1)])
    for name, journey in JOURNEYS.items():
        assert set(loaded(declared, *journey(kb["r"], tmp_path))["r"]) == {(first, 1)}, name


def test_a_byte_order_mark_is_no_data(tmp_path: Path) -> None:
    """One at the beginning of a text is dropped, as others do; those of later rows and blocks are data."""
    lines = [f"\ufeff{i}\t{i}" for i in range(200_000)]
    path = tmp_path / "r.facts"
    for end in ("", "\nx\ty"):
        path.write_text("\ufeff" + "\n".join(lines) + end, encoding="utf-8")
        kb = ge.Engine(".decl r(s: symbol, n: number)", threads=1)
        kb.load("r", path, on_error="skip")
        assert {s for s, _ in kb["r"]} == {f"\ufeff{i}" for i in range(200_000)}
