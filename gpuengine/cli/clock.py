"""Where the seconds of a run went, and how much memory it took at most."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

_IMPORTED = time.perf_counter()


class Clock:
    """Splits the life of the process into named phases that follow each other.

    The first phase began when the process did, so that the phases together are the whole run.
    """

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter() - _seconds_since_process_start()
        self.seconds: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        """What passed since the last lap belongs to `phase`."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now

    @property
    def total(self) -> float:
        return self._last - self._began


def _seconds_since_process_start() -> float:
    """From the kernel's record, to a hundredth of a second; elsewhere since this module was imported."""
    try:
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(after_name[19]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - started, 0.0)
    except (OSError, AttributeError, IndexError, ValueError):
        return time.perf_counter() - _IMPORTED


def peak_rss() -> int:
    """Bytes of memory this process held at most.

    Linux carries `ru_maxrss` over from the process that started this one, so its own record comes first.
    """
    for line in _status_lines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def rss() -> int:
    """Bytes of memory this process holds now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize()


def _status_lines() -> list[str]:
    try:
        return Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return []
