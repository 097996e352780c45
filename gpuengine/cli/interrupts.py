"""Ctrl-C and SIGTERM: end within a second, with one line and no half-written file.

Python raises KeyboardInterrupt in the main thread as soon as that runs Python code again, and then
everything unwinds: the fixpoint stops, files being written are removed. But the main thread can be
inside one long call of Arrow or the kernel compiler. So a second thread learns of the signal through a
pipe, waits a little, and ends the process itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

GRACE_SECONDS = 0.5

_unfinished: set[Path] = set()
"""Files being written: removed if the process is ended by the second thread."""


def unfinished() -> set[Path]:
    """The files to remove should the process end now."""
    return _unfinished


def say_when_interrupted(outcome: Callable[[], str]) -> None:
    """From now on an interrupt comes to this; it is asked when one is reported."""
    global _outcome
    _outcome = outcome


def _outcome() -> str:
    return "no output file was changed"


class Interrupts:
    """Watches for SIGINT and SIGTERM from `install` until the process ends."""

    def __init__(self) -> None:
        self._code = 128 + signal.SIGINT
        self._reported = threading.Lock()

    def install(self) -> None:
        """Only in the main thread of a process; elsewhere signals are not ours to handle."""
        if threading.current_thread() is not threading.main_thread():
            return
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, self._raise)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(read_end,), name="gpuengine-signals", daemon=True).start()

    def report(self) -> int:
        """Say that the work was interrupted, once; returns the exit code."""
        if self._reported.acquire(blocking=False):
            clear = "\r\x1b[K" if sys.stderr.isatty() else ""
            said = "interrupted"
            with suppress(Exception):  # saying so must not fail
                said = f"interrupted; {_outcome()}"
            print(f"{clear}{said}", file=sys.stderr, flush=True)
        return self._code

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self._code = 128 + number
        raise KeyboardInterrupt

    def _watch(self, read_end: int) -> None:
        while True:
            received = os.read(read_end, 1)[0]
            if received in (signal.SIGINT, signal.SIGTERM):
                break
        self._code = 128 + received
        threading.Event().wait(GRACE_SECONDS)
        for path in list(_unfinished):
            _remove(path)
        os._exit(self.report())


def _remove(unfinished_file: Path) -> None:
    """Remove a file and the one beside it that its writer may not have renamed to it yet."""
    for path in list(unfinished_file.parent.iterdir()):
        if unfinished_file.name in path.name:
            path.unlink(missing_ok=True)
