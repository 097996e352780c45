"""What goes on, in one line of a terminal, and where the seconds and the memory of a run went."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuengine.cli.failures import note_work
from gpuengine.machine import resident_memory, tell_when_compiling

if TYPE_CHECKING:
    from gpuengine.evaluation.progress import Progress

_LEAST_SECONDS_BETWEEN = 0.08


class LiveLine:
    """Rewrites the last line of standard error. Off, every method does nothing."""

    def __init__(self, on: bool) -> None:
        self.on = on
        self._shown = False
        self._text = ""
        self._compiling = False
        self._last_facts = (time.perf_counter(), 0)
        self._rate = 0.0
        self._drawn = 0.0

    def show(self, text: str) -> None:
        """Replace the line, unless it tells of compiling: then when that is done."""
        self._text = text
        if not self._compiling:
            self._draw(text)

    def compiling(self, kernel: str | None) -> None:
        """Show that a kernel is compiled, until called with None; any thread may say so."""
        if kernel is not None:
            self._compiling = True
            self._draw(f"compiling kernel {kernel}, once for this machine")
            return
        self._compiling = False
        if self._text:
            self._draw(self._text)
        else:
            self.clear()

    def _draw(self, text: str) -> None:
        note_work(lambda: text)
        if self.on:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            sys.stderr.write(f"\r\x1b[K{text[: width - 1]}")
            sys.stderr.flush()
            self._shown = True
            self._drawn = time.perf_counter()

    def clear(self) -> None:
        """Remove the line, so that something else can be printed."""
        self._text = ""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False

    def evaluating(self, progress: Progress) -> None:
        """Show how far an evaluation is."""
        if not self._compiling:
            note_work(lambda: progress.where)
        if not self.on:
            return
        self._measure(progress.facts)
        relations = ", ".join(progress.relations[:3]) + (", …" if len(progress.relations) > 3 else "")
        parts = [
            f"stratum {progress.stratum}/{progress.strata}",
            relations,
            f"round {progress.round_in_stratum:,}",
            f"{count(progress.facts)} facts",
            f"{count(int(self._rate))}/s",
            size(resident_memory()),
            f"{progress.seconds:.1f} s",
        ]
        self.show("  ".join(part for part in parts if part))

    def writing(self, relation: str, rows: int, total: int) -> None:
        """Show how much of a relation is written."""
        if self.on and (time.perf_counter() - self._drawn > _LEAST_SECONDS_BETWEEN or not rows):
            self.show(f"writing {relation}  {count(rows)} of {count(total)} rows")

    def _measure(self, facts: int) -> None:
        """Facts a second since the last look, smoothed."""
        now = time.perf_counter()
        then, before = self._last_facts
        if now > then:
            self._rate += 0.5 * (max(facts - before, 0) / (now - then) - self._rate)
        self._last_facts = (now, facts)


def live_line(quiet: bool) -> LiveLine:
    """A line that is on if standard error is a terminal and quiet was not asked for."""
    line = LiveLine(not quiet and sys.stderr.isatty())
    tell_when_compiling(line.compiling)
    return line


def count(number: int) -> str:
    """``1,234`` or ``12.3 M``."""
    for unit, scale in (("G", 10**9), ("M", 10**6)):
        if number >= 10 * scale:
            return f"{number / scale:,.1f} {unit}"
    return f"{number:,}"


def size(number: float) -> str:
    """``412 MB``, in units of 1024."""
    for unit in ("B", "KB", "MB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GB"


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


def _status_lines() -> list[str]:
    try:
        return Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return []
