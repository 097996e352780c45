"""What the Python API says of arguments that mean nothing, and what the obvious ones mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gpuengine as ge
from gpuengine.errors import DataError, GpuEngineError

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl other(x: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
other(x) :- edge(x, _).
"""


@pytest.fixture
def kb() -> ge.Engine:
    kb = ge.Engine(PROGRAM, threads=1)
    kb.load("edge", [(i, i + 1) for i in range(50)])
    return kb


def test_on_error(kb: ge.Engine, tmp_path: Path) -> None:
    (tmp_path / "edge.facts").write_text("1\t2\nbad\n")
    unknown: Any = "ignore"
    for data in (tmp_path / "edge.facts", [(1, 2)]):
        with pytest.raises(DataError, match=r"^on_error='ignore' is not known\n  hint: on_error='fail' or"):
            kb.load("edge", data, on_error=unknown)
        with kb.update() as update, pytest.raises(DataError, match="on_error='ignore' is not known"):
            update.insert("edge", data, on_error=unknown)


def test_params(kb: ge.Engine, tmp_path: Path) -> None:
    (tmp_path / "edge.tsv").write_text("y\tx\n1\t2\n")
    assert kb.load("edge", tmp_path / "edge.tsv", params={"headers": True}) == 1  # type: ignore[dict-item]
    assert (2, 1) in kb.materialise()["edge"]
    (tmp_path / "edge.tsv").write_text("1\t2\n")
    assert kb.load("edge", tmp_path / "edge.tsv", params={"headers": False}) == 1  # type: ignore[dict-item]
    for frame in (pd.DataFrame({"x": [1], "y": [2]}), [(1, 2)], {"x": [1], "y": [2]}):
        with pytest.raises(DataError, match=r"^params \(delimiter\) say how a file is read, and \w+ is none"):
            kb.load("edge", frame, params={"delimiter": ","})
        assert kb.load("edge", frame, params={}) == 1
    wrong: Any
    for wrong in ({"columns": 1}, {"delimiter": None}, {1: "x"}, ["headers"], "headers"):
        with pytest.raises(DataError, match=r"^params"):
            kb.load("edge", tmp_path / "edge.tsv", params=wrong)
    with pytest.raises(GpuEngineError, match="there is no parameter delimeter"):
        kb.load("edge", tmp_path / "edge.tsv", params={"delimeter": ","})


def test_one_wanted_relation(kb: ge.Engine) -> None:
    kb.materialise(wanted="path")
    assert len(kb["path"]) == 50 * 51 // 2
    with pytest.raises(GpuEngineError, match="other was left out"):
        kb["other"]
    with pytest.raises(GpuEngineError, match=r"no relation 'pth' in the program; did you mean 'path'"):
        kb.materialise(wanted="pth")
    wrong: Any
    for wrong in (5, [5], object()):
        with pytest.raises(GpuEngineError, match="name of a relation"):
            kb.materialise(wanted=wrong)


def test_names_of_relations(kb: ge.Engine) -> None:
    assert "edge" in kb and "path" in kb and "nothing" not in kb
    assert 1 not in kb and ("edge",) not in kb and None not in kb
    assert list(kb) == ["edge", "path", "other"]
    wrong: Any = 0
    with pytest.raises(GpuEngineError, match="the name of a relation is a str, not int"):
        kb[wrong]


def test_an_error_in_watch(kb: ge.Engine) -> None:
    kb.materialise()
    kb.load("edge", [(100, 101)])
    before = len(kb["path"])

    def watch(progress: object) -> None:
        raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="the screen is gone") as caught:
        kb.materialise(watch=watch)
    assert "nothing was changed" in caught.value.__notes__[0]
    assert len(kb["path"]) == before
    assert len(kb.materialise()["path"]) == before + 1


def test_an_error_in_the_watch_of_an_update(kb: ge.Engine) -> None:
    kb.materialise()

    def watch(progress: object) -> None:
        raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="the screen is gone") as caught, kb.update(watch=watch) as update:
        update.insert("edge", [(100, 101)])
    happened = (100, 101) in kb["edge"]
    assert ("has happened" if happened else "nothing was changed") in caught.value.__notes__[0]
    assert ((100, 101) in kb["path"]) == happened
    with kb.update() as update:
        update.insert("edge", [(101, 102)])
    assert ((100, 102) in kb["path"]) == happened and (101, 102) in kb["path"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schemes": "closure"}, r"schemes go by name, as schemes=\{'path': 'closure'\}, not 'closure'"),
        ({"schemes": ["path"]}, "schemes go by name"),
        ({"evaluators": "join"}, r"evaluators go by name, as evaluators=\{'path': 'join'\}, not 'join'"),
        ({"macros": "N"}, r"macros go by name, as macros=\{'N': '10'\}, not 'N'"),
        ({"macros": {"N": None}}, "macros: 'N': None is not a str"),
        ({"macros": {1: "x"}}, "macros: 1: 'x' is not a str"),
        ({"include_dirs": 5}, "include_dirs: 5 is no path of a directory, nor several"),
        ({"thresholds": 3}, "thresholds must be a Thresholds, not 3"),
    ],
)
def test_options_of_another_type(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GpuEngineError, match=f"^{message}"):
        ge.Engine(PROGRAM, **options)


def test_one_directory_of_included_programs(tmp_path: Path) -> None:
    (tmp_path / "more.dl").write_text(PROGRAM)
    one: Any
    for one in (str(tmp_path), tmp_path, [tmp_path], [str(tmp_path)]):
        assert "path" in ge.Engine('#include "more.dl"\n', include_dirs=one)


def test_a_macro_that_is_a_number() -> None:
    assert list(ge.Engine(".decl p(x: number)\np(N).\n", macros={"N": 7}).materialise()["p"]) == [(7,)]


def test_what_is_no_function(kb: ge.Engine) -> None:
    wrong: Any = 3
    with pytest.raises(GpuEngineError, match=r"^watch must be a function, or None, not 3"):
        kb.materialise(watch=wrong)
    with pytest.raises(GpuEngineError, match=r"^watch must be a function, or None, not 3"):
        kb.update(watch=wrong)
    with pytest.raises(GpuEngineError, match=r"^callback must be a function, not 3"):
        kb.subscribe("path", wrong)
    with kb.update() as update:
        update.insert("edge", [(100, 101)])
    assert (100, 101) in kb["path"]


def test_plans_and_queries_of_what_there_is_not(kb: ge.Engine) -> None:
    with pytest.raises(GpuEngineError, match=r"no relation 'pth' in the program; did you mean 'path'"):
        kb.plan("pth")
    kb.materialise()
    wrong: Any = 3
    with pytest.raises(GpuEngineError, match=r"^a query is a str such as 'path\(1, x\)', not int"):
        kb.query(wrong)


@pytest.mark.parametrize("rows", [0, -1, 1.5, "10", True, None])
def test_batches_of_no_rows(kb: ge.Engine, rows: Any) -> None:
    view = kb.materialise()["path"]
    with pytest.raises(GpuEngineError, match=r"^rows must be a whole number above 0"):
        view.batches(rows=rows)
    assert sum(batch.num_rows for batch in view.batches(rows=10**30)) == len(view)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e300, "1", True])
def test_timeouts_that_are_none(kb: ge.Engine, timeout: Any) -> None:
    with pytest.raises(GpuEngineError, match=r"^timeout must be a number of seconds above 0"):
        kb.materialise(timeout=timeout)
