"""Work on Spark that the command line can watch and end: its thread, its session, and what the JVM says."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gpuengine.cli import interrupts
from gpuengine.cli.clock import Clock
from gpuengine.cli.live import LiveLine, live_line
from gpuengine.errors import GpuEngineError, Interrupted

_SECONDS_TO_END = 5.0
_LOG_LINES = 6


class SparkWork(ABC):
    """Something to do on Spark. `perform` has a thread of its own do it: a call to the JVM can't be
    interrupted, but from another thread jobs can be cancelled, so that the work ends in order."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._line: LiveLine = live_line(arguments.quiet)
        self._clock = Clock()
        self._stopped = threading.Event()
        self._spark: Any = None
        self._failure: BaseException | None = None

    @abstractmethod
    def _work(self) -> None:
        """Do it, by way of `_tell` and `_start`."""

    def perform(self) -> int:
        """Do the work and wait for it; raises what it raises."""
        interrupts.GRACE_SECONDS = _SECONDS_TO_END + 1
        thread = threading.Thread(target=self._guarded, name="gpuengine-spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.2)
        except KeyboardInterrupt:
            self._stop()
            thread.join(_SECONDS_TO_END)
            raise
        finally:
            self._line.clear()
        if self._failure is not None:
            raise self._failure
        return 0

    def _guarded(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._failure = error

    def _stop(self) -> None:
        self._stopped.set()
        if self._spark is not None:
            # The signal may have ended the JVM too; what is to be told is the interrupt.
            with suppress(Exception):
                self._spark.sparkContext.cancelAllJobs()

    def _tell(self, text: str) -> None:
        """Show what is going on; ends the work if it was stopped."""
        if self._stopped.is_set():
            raise Interrupted("interrupted; nothing was changed")
        self._line.show(text)

    def _start(self, name: str) -> Any:
        """A session as the arguments ask for."""
        from gpuengine.spark_bridge.launching import session

        arguments = self._arguments
        self._tell("starting Spark")
        with _log_aside():
            self._spark = session(
                master=arguments.master,
                app_name=name,
                rapids=arguments.rapids is not None,
                rapids_jar=arguments.rapids or None,
                conf=arguments.conf,
            )
        self._spark.sparkContext.setLogLevel("ERROR")
        return self._spark


@contextmanager
def _log_aside() -> Iterator[None]:
    """Have a JVM that is started inside write to a file instead of the terminal; if it does not start, the
    error tells what it wrote."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except GpuEngineError as error:
            log.seek(0)
            for text in telling_lines(log.read().decode(errors="replace")):
                error.add_note(f"| {text}")
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def telling_lines(log: str) -> list[str]:
    """The last lines of a log that say what went wrong, or else just the last ones."""
    lines = [line for line in log.splitlines() if line.strip() and not re.match(r"\s+(at|\.\.\.) ", line)]
    telling = [line for line in lines if re.search(r"\bERROR\b|Exception|Error:|^Caused by", line)]
    return list(dict.fromkeys(telling or lines))[-_LOG_LINES:]
