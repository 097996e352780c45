"""``--timeout`` and ``timeout=``: a run that takes too long ends, says where it was, and changes nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import gpuengine as ge
from gpuengine.errors import GpuEngineError
from tests.cli.processes import gpuengine, reach_project, visible_files

ENDLESS = ".decl n(x: number)\n.output n\nn(0).\nn(to_number(to_string(x + 1))) :- n(x).\n"
CROSS = """
.decl a(x: number)
a(x) :- x = range(0, 200000).
.decl s(n: number)
s(n) :- n = sum x * y : { a(x), a(y) }.
.output s
"""


@pytest.mark.parametrize(("program", "rule"), [(ENDLESS, "n(to_number("), (CROSS, "n = sum")])
def test_a_run_that_takes_too_long(program: str, rule: str, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(program)
    for seconds in (4, 16, 64):  # a busy machine may need some of them to start
        done = gpuengine("run", "p.dl", "-w", "-D", "out", "--timeout", str(seconds), cwd=tmp_path)
        assert done.returncode == 124
        first, *where = done.stderr.splitlines()
        assert first == f"error: out of time after {seconds} s; no output file was changed"
        assert visible_files(tmp_path) == ["p.dl"]
        if where:
            break
    assert where[0].startswith("  while deriving by: ") and rule in where[0]


def test_an_update_that_takes_too_long_leaves_the_knowledge_base(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(
        ".decl seed(x: number)\n.input seed\n.decl n(x: number)\nn(x) :- seed(x).\nn(x + 1) :- n(x), x > 0.\n"
    )
    (tmp_path / "seed.facts").write_text("0\n")
    assert gpuengine("run", "p.dl", "--save", "kb", cwd=tmp_path).returncode == 0
    (tmp_path / "more.csv").write_text("1\n")
    done = gpuengine("update", "kb", "--insert", "seed=more.csv", "--timeout", "4", cwd=tmp_path)
    assert done.returncode == 124
    assert "error: out of time after 4 s; the knowledge base is as it was" in done.stderr
    shown = gpuengine("query", "kb", "n(x)", cwd=tmp_path)
    assert shown.stdout == "x\n0\n"


def test_in_time_nothing_is_said(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", "--timeout", "100", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf", ""])
def test_what_is_no_time(seconds: str, tmp_path: Path) -> None:
    done = gpuengine("run", "p.dl", f"--timeout={seconds}", cwd=tmp_path)
    assert done.returncode == 2
    assert f"{seconds!r} is not a number of seconds above 0" in done.stderr


@pytest.mark.parametrize("seconds", [0, -1, True, "3", float("nan"), float("inf")])
def test_what_is_no_time_in_python(seconds: object) -> None:
    with pytest.raises(GpuEngineError, match="timeout must be a number of seconds above 0"):
        ge.Engine(ENDLESS).materialise(timeout=seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_timeout_in_python(in_main_thread: bool) -> None:
    kb = ge.Engine(".decl e(x: number)\n.decl n(x: number)\nn(x) :- e(x).\nn(x + 1) :- n(x), x > 0.\n")
    kb.load("e", [(0,)])
    kb.materialise(timeout=60)
    kb.load("e", [(1,)])
    raised: list[BaseException] = []

    def work() -> None:
        try:
            for seconds in (0.5, 4, 32):  # a busy machine may need some of them to begin
                with pytest.raises(ge.TimedOut) as caught:
                    kb.materialise(timeout=seconds)
                told = f"out of time: stopped after {seconds:g} s; nothing was changed"
                assert str(caught.value).startswith(told)
                if "\n" in str(caught.value):
                    break
            raised.append(caught.value)
        except BaseException as error:
            raised.append(error)

    if in_main_thread:
        work()
    else:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert isinstance(raised[0], ge.TimedOut)
    assert "\n  while deriving by: n(" in str(raised[0])
    assert list(kb["n"]) == [(0,)]
