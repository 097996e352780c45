"""Ctrl-C, SIGTERM and SIGKILL: the process ends soon, and no file is ever half there."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.cli.processes import OnTerminal, gpuengine, reach_project, visible_files

COUNTING = ".decl n(x: number)\n.output n\nn(0).\nn(x + 1) :- n(x).\n"
LARGE_OUTPUT = """
.decl n(x: number)
.output n(filename="n.csv.gz")
.output n
n(x) :- x = range(0, 4000000).
"""
SOON = 3.0  # seconds of the processor: a second is promised, of two threads


def assert_interrupted(process: OnTerminal, seconds: float, code: int = 130) -> None:
    assert process.process.returncode == code
    assert seconds < SOON
    assert process.shown.replace("\x1b[K", "\n").rstrip().endswith("interrupted; no output file was changed")
    assert process.shown.count("interrupted") == 1
    assert "Traceback" not in process.shown


def test_ctrl_c_in_a_program_that_never_ends(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(COUNTING)
    process = OnTerminal("run", "p.dl", "-D", "out", cwd=tmp_path)
    process.wait_for("stratum 1/1")
    assert_interrupted(process, process.signal(signal.SIGINT))
    assert visible_files(tmp_path) == ["p.dl"]


def test_ctrl_c_in_a_large_join(tmp_path: Path) -> None:
    """A closure of 400 million pairs, on all threads."""
    chance = random.Random(1)
    nodes = 20_000
    reach_project(tmp_path, [(chance.randrange(nodes), chance.randrange(nodes)) for _ in range(4 * nodes)])
    process = OnTerminal("run", "reach.dl", "-F", "facts", "-D", "out", cwd=tmp_path)
    process.wait_for("stratum 1/1")
    assert_interrupted(process, process.signal(signal.SIGINT))
    assert visible_files(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
def test_stopped_while_writing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    (tmp_path / "p.dl").write_text(LARGE_OUTPUT)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "n.csv").write_text("what was there before\n")
    process = OnTerminal("run", "p.dl", "-D", "out", cwd=tmp_path)
    process.wait_for("writing n")
    assert_interrupted(process, process.signal(number), code)
    assert visible_files(tmp_path / "out") == ["n.csv"]
    assert (tmp_path / "out" / "n.csv").read_text() == "what was there before\n"


def test_killed_while_writing(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(LARGE_OUTPUT)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "n.csv").write_text("what was there before\n")
    process = OnTerminal("run", "p.dl", "-D", "out", cwd=tmp_path)
    process.wait_for("writing n")
    process.signal(signal.SIGKILL)
    assert process.process.returncode == -signal.SIGKILL
    complete = [name for name in visible_files(tmp_path / "out") if not name.startswith(".")]
    assert complete == ["n.csv"]
    assert (tmp_path / "out" / "n.csv").read_text() == "what was there before\n"


def test_the_next_run_is_not_disturbed_by_what_a_kill_left(tmp_path: Path) -> None:
    reach_project(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".1234-abcd.tmp.path.csv").write_text("9\t9\n9")
    assert gpuengine("run", "reach.dl", "-F", "facts", "-D", "out", cwd=tmp_path).returncode == 0
    assert len((tmp_path / "out" / "path.csv").read_text().splitlines()) == 3
