"""Kills, Ctrl-C and full disks: a knowledge base has the whole of an update or nothing of it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import gpuengine as ge
from gpuengine.errors import StoreError
from tests.cli.kb_processes import FIRST
from tests.cli.processes import COMMAND, OnTerminal, reach_project, visible_files

ROOT = Path(__file__).parents[2]
SOON = 3.0  # a second is promised; the machine may be busy
COUNTING = ".decl n(x: number)\nn(0).\nn(x + 1) :- n(x).\n"
LARGE = """
.decl n(x: number)
.decl pair(x: number, y: number)
.output n
n(x) :- x = range(0, 3000000).
pair(x, y) :- n(x), y = x + 1.
"""

State = dict[str, set[tuple[Any, ...]]]


def state_of(kb: Path | ge.Engine) -> State:
    if isinstance(kb, ge.Engine):
        return {name: set(kb[name]) for name in kb.relations}
    with ge.open(kb, read_only=True) as opened:
        return state_of(opened)


def small(folder: Path) -> Path:
    """``kb`` with two edges and their paths."""
    reach_project(folder)
    engine = ge.Engine(folder / "reach.dl")
    engine.load("edge", folder / "facts")
    engine.materialise().save(folder / "kb")
    return folder / "kb"


# -- SIGKILL -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writer", "kills", "longest"),
    [("update", 100, 0.1), ("compact", 25, 0.2), ("save", 25, 0.05), ("command", 25, 0.4)],
)
def test_killed_at_random(tmp_path: Path, writer: str, kills: int, longest: float) -> None:
    command = [sys.executable, "-m", "tests.cli.kb_processes", tmp_path, writer, kills, longest, 7]
    done = subprocess.run(
        [*map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kills"] == kills
    assert found["transactions"] >= FIRST + (kills // 2 if writer != "save" else 0)


def test_killed_command(tmp_path: Path) -> None:
    """The real command, killed while rules that never end are being added."""
    kb = small(tmp_path)
    before = state_of(kb)
    (tmp_path / "n.dl").write_text(COUNTING)
    for _ in range(2):
        process = OnTerminal("update", "kb", "--add-rules", "n.dl", cwd=tmp_path)
        process.wait_for("stratum ")
        process.signal(signal.SIGKILL)
        assert state_of(kb) == before
    with ge.open(kb) as opened, opened.update() as u:
        u.insert("edge", [(3, 4)])
    assert (1, 4) in state_of(kb)["path"]


# -- SIGINT --------------------------------------------------------------------------------------------


def interrupt(process: OnTerminal, shown: str, said: str) -> None:
    """Send Ctrl-C once `shown` is there; the process ends soon, and says so."""
    process.wait_for(shown)
    seconds = process.signal(signal.SIGINT)
    assert process.process.returncode == 130
    assert seconds < SOON
    assert process.shown.replace("\x1b[K", "\n").rstrip().endswith(f"interrupted; {said}")
    assert process.shown.count("interrupted") == 1
    assert "Traceback" not in process.shown


def test_ctrl_c_while_updating(tmp_path: Path) -> None:
    kb = small(tmp_path)
    before = state_of(kb)
    (tmp_path / "n.dl").write_text(COUNTING)
    process = OnTerminal("update", "kb", "--add-rules", "n.dl", "--changes", "ch", cwd=tmp_path)
    interrupt(process, "stratum ", "the knowledge base is as it was")
    assert state_of(kb) == before
    assert visible_files(tmp_path / "ch") == []


def test_ctrl_c_while_reading(tmp_path: Path) -> None:
    kb = small(tmp_path)
    before = state_of(kb)
    os.mkfifo(tmp_path / "pipe")
    process = OnTerminal("update", "kb", "--insert", "edge=pipe", cwd=tmp_path)
    interrupt(process, "reading 1/1", "the knowledge base is as it was")
    assert state_of(kb) == before


def test_ctrl_c_while_changes_are_written(tmp_path: Path) -> None:
    """The update is committed by then; that is what is said."""
    kb = small(tmp_path)
    (tmp_path / "n.dl").write_text(LARGE.replace(".output n\n", ""))
    process = OnTerminal("update", "kb", "--add-rules", "n.dl", "--changes", "ch", cwd=tmp_path)
    interrupt(process, "writing ", "the update is committed, but what it changed was not written")
    assert visible_files(tmp_path / "ch") == []
    with ge.open(kb, read_only=True) as opened:
        assert len(opened["n"]) == len(opened["pair"]) == 3_000_000


def test_ctrl_c_while_saving(tmp_path: Path) -> None:
    kb = small(tmp_path)
    before = state_of(kb)
    (tmp_path / "p.dl").write_text(LARGE)
    for arguments in (("--save", "kb", "--replace"), ("--save", "other")):
        process = OnTerminal("run", "p.dl", "-D", "out", *arguments, cwd=tmp_path)
        interrupt(process, "saving ", f"no output file was changed, nor was {arguments[1]}")
        assert visible_files(tmp_path / "out") == []
    assert state_of(kb) == before
    assert not (tmp_path / "other" / "manifest.json").exists()
    ge.Engine(".decl a(x: number)\na(1).").materialise().save(
        tmp_path / "other"
    )  # what is left is no hindrance
    assert state_of(tmp_path / "other") == {"a": {(1,)}}


def test_ctrl_c_while_compacting(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(".decl n(x: number, y: number)\n")
    ge.Engine(tmp_path / "p.dl").materialise().save(tmp_path / "kb")
    with ge.open(tmp_path / "kb") as kb:
        for start in range(0, 8):
            with kb.update() as u:
                u.insert("n", [(start, y) for y in range(900)])
    before = state_of(tmp_path / "kb")
    process = OnTerminal("compact", "kb", cwd=tmp_path)
    process.wait_for("compacting kb")
    process.signal(signal.SIGINT)
    assert process.process.returncode in (0, 130)  # it may have been done already
    if process.process.returncode:
        assert "interrupted; the knowledge base holds what it held" in process.shown
    assert state_of(tmp_path / "kb") == before
    with ge.open(tmp_path / "kb") as kb, kb.update() as u:
        u.insert("n", [(-1, -1)])
    assert len(state_of(tmp_path / "kb")["n"]) == 7201


def test_ctrl_c_just_after_the_commit(tmp_path: Path) -> None:
    """What is said is what is on the disk."""
    kb = small(tmp_path)
    (tmp_path / "f").write_text("3\t4\n")
    script = (
        "import os, signal, sys, time\n"
        "from gpuengine.maintenance.persistence import Durable\n"
        "from gpuengine.cli import entry\n"
        "real, pause = Durable.commit, float(sys.argv.pop())\n"
        "def commit(self, *arguments):\n"
        "    real(self, *arguments)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(pause)\n"
        "Durable.commit = commit\n"
        "entry()\n"
    )
    for pause in ("0.2", "30"):  # unwound, or ended from outside
        command = [sys.executable, "-c", script, "update", kb, f"--insert=edge={tmp_path / 'f'}", pause]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr.startswith("interrupted; the update is committed")
        assert (1, 4) in state_of(kb)["path"]
        (tmp_path / "f").write_text("4\t5\n")


def test_interrupted_just_after_the_commit(tmp_path: Path) -> None:
    """In a process of its own: who has the signals of this one is not known."""
    path = small(tmp_path)
    script = (
        "import os, signal, sys, time\n"
        "import gpuengine as ge\n"
        "from gpuengine.maintenance.persistence import Durable\n"
        "real = Durable.commit\n"
        "def commit(self, *arguments):\n"
        "    real(self, *arguments)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(0.3)\n"
        "kb = ge.open(sys.argv[1])\n"
        "Durable.commit = commit\n"
        "try:\n"
        "    with kb.update() as u:\n"
        "        u.insert('edge', [(3, 4)])\n"
        "except (ge.Interrupted, KeyboardInterrupt) as error:\n"
        "    print(type(error).__name__)\n"
        "Durable.commit = real\n"
        "with kb.update() as u:\n"
        "    u.insert('edge', [(4, 5)])\n"
        "saved = ge.open(sys.argv[1], read_only=True)\n"
        "print(sorted(kb['edge']) == sorted(saved['edge']), (3, 4) in kb['edge'])\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.stdout, done.stderr) == ("KeyboardInterrupt\nTrue True\n", "")


# -- full disks ----------------------------------------------------------------------------------------


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """No file of this process can grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rebuilt(program: str, edges: set[tuple[Any, ...]]) -> State:
    """What a new engine derives."""
    fresh = ge.Engine(program)
    fresh.load("edge", sorted(edges))
    return state_of(fresh.materialise())


@pytest.mark.parametrize("scheme", ["table", "closure"])
@pytest.mark.parametrize("rows", [50, 5000], ids=["maintained", "anew"])
def test_full_disk(tmp_path: Path, rows: int, scheme: str) -> None:
    """The engine is what it was, in memory as well, and works when there is room."""
    text = (
        ".decl edge(x: symbol, y: symbol)\n.decl path(x: symbol, y: symbol)\n"
        "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), path(y, z).\n"
        ".decl out(n: number)\nout(n) :- n = count : { edge(_, _) }.\n"
    )
    engine = ge.Engine(text, schemes={"path": scheme})
    edges: set[tuple[Any, ...]] = {("a", "b"), ("b", "c")}
    engine.load("edge", sorted(edges))
    path = tmp_path / "kb"
    engine.materialise().save(path)
    new = [(f"from {k}", f"to {k}") for k in range(rows)]
    with ge.open(path) as kb:
        before, told = state_of(kb), []
        kb.subscribe("path", told.append)
        for _ in range(2):
            full = pytest.raises(StoreError, match="make room on the disk")
            with limited_files(700), full, kb.update() as u:
                u.delete("edge", [("a", "b")])
                u.insert("edge", new)
                u.add_rules("path(x, x) :- edge(x, _).\n")
            assert state_of(kb) == before == state_of(path) and not told
        with kb.update() as u:
            u.delete("edge", [("b", "c")])
            u.insert("edge", [("b", "d")])
        edges = edges - {("b", "c")} | {("b", "d")}
        assert state_of(kb) == state_of(path) == rebuilt(text, edges)
        assert set(u.change["path"].inserted) == {("b", "d"), ("a", "d")}
        with kb.update() as u:
            u.insert("edge", new)
        assert state_of(kb) == rebuilt(text, edges | set(new))
    assert state_of(path) == rebuilt(text, edges | set(new))
    assert len(told) == 2


def limited_command(folder: Path, size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        preexec_fn=limit,
    )


def test_full_disk_on_the_command_line(tmp_path: Path) -> None:
    """Each file gets too large in its turn: the journal, the files of the changes, outputs beside a save."""
    reach_project(tmp_path, [(x, x + 1) for x in range(600)])
    program = (tmp_path / "reach.dl").read_text().replace("path(x, y), edge(y, z)", "path(x, y), path(y, z)")
    (tmp_path / "reach.dl").write_text(program)
    save = ("run", "reach.dl", "-F", "facts", "-D", "out", "--scheme=path=closure", "--save", "kb")
    done = limited_command(tmp_path, 100_000, *save)
    assert done.returncode == 1
    assert done.stderr == "error: can't write out/path.csv: File too large\n  note: kb is saved\n"
    assert visible_files(tmp_path / "out") == []
    before = state_of(tmp_path / "kb")
    (tmp_path / "f").write_text("600\t601\n")
    (tmp_path / "g").write_text("300\t301\n")
    update = ("update", "kb", "--insert", "edge=f", "--delete", "edge=g", "--changes", "ch")
    done = limited_command(tmp_path, 60, *update)
    assert done.returncode == 1 and "make room on the disk" in done.stderr
    assert "committed" not in done.stderr
    assert state_of(tmp_path / "kb") == before
    done = limited_command(tmp_path, 100_000, *update)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: can't write ") and "note: the update is committed" in done.stderr
    assert visible_files(tmp_path / "ch") == []
    assert state_of(tmp_path / "kb")["edge"] == before["edge"] - {(300, 301)} | {(600, 601)}
