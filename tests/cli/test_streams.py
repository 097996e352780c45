"""Closed and broken standard streams, no home, Ctrl-C while starting: no traceback, the right exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.processes import COMMAND, TIMEOUT, reach_project, visible_files

SIZES = ".decl p(x: number)\np(x) :- x = range(0, 5).\n.printsize p\n"


def shell(line: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command line, in which ``$GPUENGINE`` stands for the command."""
    environment = {**os.environ, "GPUENGINE": " ".join(COMMAND), **more}
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, text=True, timeout=TIMEOUT
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "<&- >&-", ">&- 2>&-"])
def test_closed_streams_do_not_matter_to_who_does_not_use_them(closed: str, tmp_path: Path) -> None:
    reach_project(tmp_path)
    done = shell(f"$GPUENGINE run reach.dl -F facts -D out {closed}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "out" / "path.csv").read_text() == "1\t2\n1\t3\n2\t3\n"
    assert visible_files(tmp_path / "out") == ["path.csv"]


def test_printing_to_a_closed_output_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(SIZES)
    done = shell("$GPUENGINE run p.dl >&-", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: standard output: Bad file descriptor\n"


def test_reading_a_closed_input_is_an_error(tmp_path: Path) -> None:
    reach_project(tmp_path)
    assert shell("$GPUENGINE run reach.dl -F facts --save kb -D out", tmp_path).returncode == 0
    done = shell("$GPUENGINE update kb --insert edge=- <&-", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and done.stderr.startswith("error: ")


@pytest.mark.parametrize("options", ["--help", "run --help", "run p.dl"])
def test_a_reader_that_goes_away(options: str, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(SIZES)
    done = shell(f"($GPUENGINE {options}; echo $? > code) | true", tmp_path)
    assert done.stderr == ""
    assert (tmp_path / "code").read_text() in ("141\n", "0\n")  # it may have been faster


def test_a_full_disk_behind_the_output(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(SIZES)
    done = shell("$GPUENGINE run p.dl > /dev/full", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "code"),
    [("run p.dl --stats", 0), ("run missing.dl", 1), ("run", 2), ("run broken.dl", 1)],
)
@pytest.mark.parametrize("errors", ["broken", "full"])
def test_nobody_reads_the_errors(options: str, code: int, errors: str, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(SIZES)
    (tmp_path / "broken.dl").write_text(".decl p(x: number)\np(y) :- p(x).\n")
    reader, writer = os.pipe()
    os.close(reader)
    target = writer if errors == "broken" else os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run(
        [*COMMAND, *options.split()], cwd=tmp_path, stdout=subprocess.PIPE, stderr=target, timeout=TIMEOUT
    )
    assert done.returncode == code
    if code == 0:
        assert done.stdout == b"p\t5\n"


def test_no_home(tmp_path: Path) -> None:
    """A user without a home, whom no list of users knows either."""
    reach_project(tmp_path)
    prelude = (
        "import os, pwd, sys\n"
        "def nobody(uid): raise KeyError(uid)\n"
        "pwd.getpwuid = nobody\n"
        "from gpuengine.cli import entry\n"
        "sys.argv = ['gpuengine', 'run', 'reach.dl', '-F', 'facts', '-D', 'out']\n"
        "entry()\n"
    )
    hidden = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GPUENGINE_CACHE_DIR", "GPUENGINE_CONFIG_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["TMPDIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", prelude],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "path.csv").exists()
    assert (tmp_path / f"gpuengine-{os.getuid()}").is_dir()


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4])
def test_ctrl_c_while_starting(delay: float, tmp_path: Path) -> None:
    """From the first of our lines on; what Python does before that is its own."""
    (tmp_path / "p.dl").write_text(".decl n(x: number)\nn(0).\nn(x + 1) :- n(x).\n.output n\n")
    program = (
        "import sys\n"
        "from gpuengine.cli import entry\n"
        "sys.argv = ['gpuengine', 'run', 'p.dl', '-D', 'out']\n"
        "import signal, os\n"
        "set_handler = signal.signal\n"
        "def told(*args):\n"
        "    result = set_handler(*args)\n"
        "    os.write(1, b'.')\n"
        "    signal.signal = set_handler\n"
        "    return result\n"
        "signal.signal = told\n"
        "entry()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"."
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert err.decode().startswith("interrupted") and b"Traceback" not in err
    assert visible_files(tmp_path) == ["p.dl"]


def test_a_command_run_in_a_process_leaves_its_signals_alone(tmp_path: Path) -> None:
    """A later Ctrl-C is for whoever called: nobody ends the process, nothing of the command is left."""
    (tmp_path / "p.dl").write_text(SIZES)
    program = (
        "import signal, sys, threading, time, warnings\n"
        "from gpuengine.cli import failures, main\n"
        "hooks = lambda: ([signal.getsignal(n) for n in (2, 14, 15)], sys.excepthook, warnings.showwarning)\n"
        "before = hooks()\n"
        "assert main(['run', 'p.dl', '--timeout', '60']) == 0 and main(['run', 'no.dl']) == 1\n"
        "assert hooks() == before\n"
        "assert signal.set_wakeup_fd(-1) == -1 and signal.getitimer(signal.ITIMER_REAL)[0] == 0\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "    time.sleep(3 * failures.GRACE_SECONDS)\n"
        "print('alive', [t.name for t in threading.enumerate() if t.name == 'gpuengine-signals'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert done.stdout.splitlines()[-1] == "alive []", done.stderr


def test_ctrl_c_while_a_class_is_made(tmp_path: Path) -> None:
    """Python turns what `__set_name__` raises into a RuntimeError; enums have one."""
    program = (
        "import signal\n"
        "from gpuengine.cli.failures import guarded\n"
        "class Name:\n"
        "    def __set_name__(self, owner, name): signal.raise_signal(signal.SIGINT)\n"
        "def parse():\n"
        "    class Owner: name = Name()\n"
        "raise SystemExit(guarded(parse))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 130 and done.stderr.startswith("interrupted")
