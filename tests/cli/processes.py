"""The command line as a real process, with and without a terminal."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

COMMAND = [sys.executable, "-m", "gpuengine"]
TIMEOUT = 180  # a first run compiles kernels

REACH = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


def gpuengine(*arguments: str | Path, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def reach_project(folder: Path, edges: Sequence[tuple[int, int]] = ((1, 2), (2, 3))) -> Path:
    """A folder with ``reach.dl`` and its facts in ``facts``."""
    (folder / "reach.dl").write_text(REACH)
    (folder / "facts").mkdir()
    (folder / "facts" / "edge.facts").write_text("".join(f"{x}\t{y}\n" for x, y in edges))
    return folder


def visible_files(folder: Path) -> list[str]:
    """Every file below a folder, hidden ones as well."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def worked_by_children() -> float:
    """Seconds of the processor that processes took which were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _worked_by(process: int) -> float:
    """Seconds of the processor that a process that runs took; 0 where the system does not say."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.exists():
        return 0.0
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class OnTerminal:
    """A process whose standard error is a terminal."""

    def __init__(self, *arguments: str | Path, cwd: Path) -> None:
        self._terminal, inner = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], cwd=cwd, stdout=subprocess.DEVNULL, stderr=inner
        )
        os.close(inner)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Read the terminal until `text` is shown."""
        while text not in self.shown:
            if not self._read():
                raise AssertionError(f"{text!r} was never shown, only {self.shown!r}")

    def signal(self, number: signal.Signals) -> float:
        """Send a signal; returns how many seconds the process worked on, however busy the machine is."""
        before = worked_by_children() + _worked_by(self.process.pid)
        self.process.send_signal(number)
        self.finish()
        return worked_by_children() - before

    def finish(self) -> int:
        """Read to the end; returns the exit code."""
        while self._read():
            pass
        os.close(self._terminal)
        return self.process.wait(TIMEOUT)

    def _read(self) -> bool:
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:  # how Linux says that nobody holds the other end any more
            return False
        self.shown += data.decode()
        return bool(data)
