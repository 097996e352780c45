"""`gpuengine shell`, through a pipe and at a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

from tests.cli.processes import COMMAND, gpuengine, reach_project

SAID = """\
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
edge(1, 2). edge(2, 3).
path(x, y) :-
    edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
?- path(1, x).
.explain path(1, 3)
.whynot path(3, 1)
edge(3, 4).
.undo
?- path(1, 4).
.schema
"""


def test_a_session_through_a_pipe(tmp_path: Path) -> None:
    done = gpuengine("shell", cwd=tmp_path, stdin=SAID)
    assert (done.returncode, done.stderr) == (0, "")
    assert "edge: +2 -0\n" in done.stdout
    assert "path: +2 -0\n" in done.stdout and "path: +1 -0\n" in done.stdout
    assert "x\n─\n2\n3\n" in done.stdout
    assert "path(1, 3)  along 2 facts by" in done.stdout
    assert "path(3, 1) does not hold" in done.stdout
    assert "edge: +1 -0\npath: +3 -0\nedge: +0 -1\npath: +0 -3\nfalse\n" in done.stdout
    assert "path(x: number, y: number)      3\n" in done.stdout


def test_errors_have_their_place_and_the_session_goes_on(tmp_path: Path) -> None:
    said = ".decl a(x: number)\na(1).\nb(x) :- a(x).\n.nonsense\n?- a(x).\n"
    done = gpuengine("shell", cwd=tmp_path, stdin=said)
    assert done.returncode == 1
    assert "error[E" in done.stderr and "^" in done.stderr
    assert "there is no command .nonsense" in done.stderr
    assert done.stdout.endswith("x\n─\n1\n")


def test_transactions_are_all_or_nothing(tmp_path: Path) -> None:
    said = ".decl a(x: number)\n.begin\na(1).\na(2).\n.rollback\n?- a(x).\n"
    said += ".begin\na(3).\na(4).\n.commit\n?- a(x).\n"
    done = gpuengine("shell", cwd=tmp_path, stdin=said)
    assert done.returncode == 0, done.stderr
    assert "a: +2 -0\n" in done.stdout
    assert done.stdout.endswith("x\n─\n3\n4\n")


def test_undo_leaves_what_was_there_before(tmp_path: Path) -> None:
    said = ".decl a(x: number)\n.decl b(x: number)\na(1).\na(1). a(2).\n.undo\n?- a(x).\n"
    said += "b(x) :- a(x).\n.undo\n.rules\n?- b(x).\n.remove a(1).\n.undo\n?- a(x).\n"
    done = gpuengine("shell", cwd=tmp_path, stdin=said)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("x\n─\n1\n") == 2
    assert "b: +1 -0\nb: +0 -1\n" in done.stdout


def test_a_knowledge_base_keeps_what_was_said(tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = gpuengine("shell", "reach.dl", "-F", "facts", cwd=tmp_path, stdin=".save kb\n")
    assert done.returncode == 0, done.stderr
    (tmp_path / "more.csv").write_text("3\t4\n")
    done = gpuengine("shell", "kb", cwd=tmp_path, stdin=".load edge more.csv\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert gpuengine("query", "kb", "path(1, 4)", cwd=tmp_path).stdout == "true\n"


def test_interrupts_end_a_query_and_not_the_shell(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    process = subprocess.Popen(
        [*COMMAND, "shell"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    )
    os.close(slave)
    shown = ""

    def until(text: str) -> None:
        nonlocal shown
        deadline = time.monotonic() + 120
        while text not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([master], [], [], 1)[0]:
                shown += os.read(master, 65536).decode(errors="replace")
        shown = shown.partition(text)[2]

    def say(text: str) -> None:
        os.write(master, text.encode())

    try:
        until("gpuengine> ")
        say(".decl n(x: number)\n")
        until("gpuengine> ")
        say("n(x) :- x = range(0, 3000).\n")
        until("n: +3,000 -0")
        say("?- n(x), n(y), n(z), x + y + z < 0.\n")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        until("interrupted")
        until("gpuengine> ")
        say("?- n(7).\n")
        until("true")
        say(".quit\n")
        assert process.wait(timeout=60) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(master)
    assert "n(x) :- x = range(0, 3000)." in (tmp_path / "gpuengine" / "history").read_text()
