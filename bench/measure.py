"""One process, timed whole: wall clock from start to end, and its own peak resident memory.

The harness itself must stay small: Linux counts the memory of the parent at the moment of the fork
into the child's peak.  Hence generators and the sort unit run in processes of their own and nothing
here imports numpy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.1
_ERROR_TAIL = 2000
# ru_maxrss counts kilobytes on Linux, bytes on macOS.
RSS_UNIT = 1 if os.uname().sysname == "Darwin" else 1024


@dataclass(frozen=True, slots=True)
class Run:
    """What one process did. `status` is ``ok``, ``failed``, ``timeout`` or ``memory``."""

    status: str
    wall: float
    cpu: float
    peak_rss: int
    stdout: str
    stderr: str
    exit_code: int


class _Guard:
    """Ends a process group that runs too long or grows too large; `verdict` says which."""

    def __init__(self, pid: int, timeout: float, memory: int) -> None:
        self.verdict: str | None = None
        self._pid, self._timeout, self._memory = pid, timeout, memory
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        end = time.monotonic() + self._timeout
        while not self._done.wait(_POLL_SECONDS):
            if time.monotonic() > end:
                self.verdict = "timeout"
            elif resident(self._pid) > self._memory:
                self.verdict = "memory"
            else:
                continue
            # It may have ended a moment ago; then there is nobody to signal.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
            return

    def stop(self) -> None:
        self._done.set()
        self._thread.join()


def resident(pid: int) -> int:
    """Resident bytes of a process now; 0 where the system does not tell or the process is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def run_process(
    command: Sequence[str], *, timeout: float, memory: int, env: Mapping[str, str], cwd: Path
) -> Run:
    """Run `command` to its end, or to `timeout` seconds, or to `memory` resident bytes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.perf_counter()
        # Popen.wait would reap the child without its resource usage, so wait4 does it here.
        child = subprocess.Popen(
            command, stdout=out, stderr=err, env=dict(env), cwd=cwd, start_new_session=True
        )
        # The guard may only signal a process that has not been reaped: WNOWAIT leaves it a zombie
        # (which keeps its id taken) until the guard has stopped.
        guard = _Guard(child.pid, timeout, memory)
        try:
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGKILL)
            raise
        finally:
            wall = time.perf_counter() - start
            guard.stop()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Run(
            status=guard.verdict or ("ok" if child.returncode == 0 else "failed"),
            wall=wall,
            cpu=usage.ru_utime + usage.ru_stime,
            peak_rss=usage.ru_maxrss * RSS_UNIT,
            stdout=out.read().decode("utf-8", "replace"),
            stderr=err.read().decode("utf-8", "replace")[-_ERROR_TAIL:],
            exit_code=child.returncode,
        )
