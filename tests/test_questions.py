"""Queries with parameters, projection, order and limit, and what views offer besides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import DataError, GpuEngineError, ProgramErrors

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl word(n: number, w: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
"""
FACTS = ".decl word(n: number, w: symbol)"
WORDS = ['a"b', "back\\slash", "$a", "line\nbreak", "tab\t", "日本", ""]


@pytest.fixture(scope="module")
def kb() -> ge.Engine:
    made = ge.Engine(PROGRAM)
    made.load("edge", [(1, 2), (2, 3), (3, 4), (-5, 1)])
    made.load("word", list(enumerate(WORDS)))
    return made.materialise()


def test_parameters_are_values(kb: ge.Engine) -> None:
    assert set(kb.query("path($a, x)", a=1)) == {(2,), (3,), (4,)}
    assert set(kb.query("path($a, x), x < $most", a=np.int64(-5), most=3)) == {(1,), (2,)}
    for number, word in enumerate(WORDS):
        assert kb.query("word(n, $w)", w=word).to_pylist() == [(number,)]
    assert kb.query('word(n, "$a")').to_pylist() == [(2,)]


@given(st.text(alphabet=st.characters(blacklist_categories=("Cs", "Cc")), max_size=8))
def test_no_text_is_more_than_a_value(text: str) -> None:
    made = ge.Engine(FACTS)
    made.load("word", [(1, text), (2, text + "!")])
    assert made.query("word(n, $w)", w=text).to_pylist() == [(1,)]


def test_what_parameters_can_not_be(kb: ge.Engine) -> None:
    with pytest.raises(GpuEngineError, match="no parameter \\$b"):
        kb.query("path($a, x)", a=1, b=2)
    with pytest.raises(GpuEngineError, match="can't be None"):
        kb.query("path($a, x)", a=None)
    with pytest.raises(ProgramErrors):
        kb.query("path($a, x)")


def test_projection(kb: ge.Engine) -> None:
    answer = kb.query("z, x : path(x, y), edge(y, z)")
    assert answer.columns == ["z", "x"]
    assert set(answer) == {(z, x) for x, z in kb["path"] if (x, z) not in kb["edge"]}
    assert kb.query("x : path(x, y)", order="x").to_pylist() == [(-5,), (1,), (2,), (3,)]
    with pytest.raises(ProgramErrors, match="it names x, y"):
        kb.query("w : path(x, y)")
    with pytest.raises(ProgramErrors, match=":1:5"):
        kb.query("x : pth(x, y)")


def test_alternatives(kb: ge.Engine) -> None:
    path, edge = set(kb["path"]), set(kb["edge"])
    assert set(kb.query("edge(x, y); path(y, x)")) == edge | {(x, y) for y, x in path}
    assert set(kb.query("x : edge(x, _); edge(_, x)", order="x", limit=2)) == {(-5,), (1,)}
    assert set(kb.query("path(x, y), (x = $a; y = $b), !edge(x, y)", a=1, b=4)) == {
        (x, y) for x, y in path - edge if x == 1 or y == 4
    }
    assert len(kb.query("edge(1, 3); path(1, 3)")) == 1 and len(kb.query("edge(1, 3); path(3, 1)")) == 0
    assert len(kb.query("edge(1, 1); edge(1, 3)")) == 0


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4))), st.integers(0, 5), st.integers(0, 5))
def test_alternatives_are_a_union(edges: set[tuple[int, int]], a: int, b: int) -> None:
    made = ge.Engine(".decl e(x: number, y: number)")
    made.load("e", sorted(edges)) if edges else None
    found = made.query("e(x, y), x < $a; e(y, x), !e(x, y); e(x, y), y = $b, x != y", a=a, b=b)
    expected = {(x, y) for x, y in edges if x < a or (y == b and x != y)}
    assert set(found) == expected | {(x, y) for y, x in edges if (x, y) not in edges}
    assert len(found) == len(set(found))


def test_alternatives_of_an_inline_relation() -> None:
    made = ge.Engine(
        ".decl e(x: number, y: number)\n.decl near(x: number, y: number) inline\n"
        "near(x, y) :- e(x, y).\nnear(x, y) :- e(y, x).\ne(1, 2)."
    )
    assert set(made.query("near(x, y)")) == {(1, 2), (2, 1)}


def test_alternatives_have_the_same_variables(kb: ge.Engine) -> None:
    for text, told in (
        ("edge(x, y); path(x, 1)", "say which are asked for, as in: x : "),
        ("y : edge(x, y); path(x, 1)", ":1:1"),
        ("edge(x, 1); word(1, x)", "different types"),
    ):
        with pytest.raises(ProgramErrors, match=told) as caught:
            kb.query(text)
        assert text in str(caught.value) and "^" in str(caught.value)
    with pytest.raises(ProgramErrors, match="can't have alternatives here"):
        kb.explain("edge(1, 2); edge(2, 3)")


def test_aggregates(kb: ge.Engine) -> None:
    path = set(kb["path"])
    assert set(kb.query("n = count : { path(_, _) }")) == {(len(path),)}
    ends = {x: [y for x2, y in path if x2 == x] for x, _ in path}
    counted = kb.query("x, n, m : edge(x, _), n = count : { path(x, _) }, m = max y : { path(x, y) }")
    assert set(counted) == {(x, len(ys), max(ys)) for x, ys in ends.items()}


def test_order_and_limit(kb: ge.Engine) -> None:
    rows = sorted(kb["path"], key=lambda row: (-row[1], row[0]))
    assert kb["path"].sort("-y").to_pylist() == rows
    assert kb.query("path(x, y)", order=["-y", "x"], limit=3).to_pylist() == rows[:3]
    assert kb["word"].sort("w").to_pylist() == sorted(enumerate(WORDS), key=lambda row: row[1].encode())
    assert len(kb["path"].head(0)) == 0 and len(kb["path"].limit(99)) == len(rows)
    assert len(kb.query("path(1, 2)", limit=0)) == 0
    with pytest.raises(DataError, match="it has x, y"):
        kb["path"].sort("z")


def test_forms_of_a_view(kb: ge.Engine, tmp_path: Path) -> None:
    path = kb["path"]
    assert path.to_dicts()[0].keys() == {"x", "y"}
    assert np.array_equal(np.asarray(path), path.to_numpy())
    assert np.asarray(path, dtype=np.float32).dtype == np.float32
    assert path.write(tmp_path / "p.csv") == len(path) == path.write(tmp_path / "p.parquet")
    assert pq.read_table(tmp_path / "p.parquet").num_rows == len(path)
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "x,y"
    assert "more" not in path._repr_html_() and "<td>-5</td>" in path._repr_html_()
    assert "<td>path</td><td>10</td>" in kb._repr_html_() and kb._ipython_key_completions_() == [
        "edge",
        "path",
        "word",
    ]
    assert "explain" in dir(kb) and "adopt" not in dir(kb)


def test_a_notebook_shows_markup_as_text() -> None:
    made = ge.Engine(FACTS)
    made.load("word", [(1, "<script>")])
    assert "&lt;script&gt;" in made["word"]._repr_html_()
    with made.update() as update:
        update.insert("word", [(2, "x")])
    assert "<td>+2</td>" in update.change._repr_html_()
