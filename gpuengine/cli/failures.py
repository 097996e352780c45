"""What a user sees when something goes wrong or is interrupted, and the exit code that says so.

Ctrl-C, SIGTERM and ``--timeout`` end a command within a second, with one line and no half-written file.
Python raises KeyboardInterrupt in the main thread as soon as that runs Python code again, and then everything
unwinds: the fixpoint stops, files being written are removed. But the main thread can be inside one long call
of Arrow or the kernel compiler. So a second thread learns of the signal through a pipe, waits a little, and
ends the process itself.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TextIO

from gpuengine.errors import GpuEngineError, Interrupted, ProgramErrors

GRACE_SECONDS = 0.5

OUT_OF_TIME = 124
"""What timeout(1) returns."""

_settling: list[Callable[[], None]] = []
"""Files being written are removed, or put in place, if the process is ended by the second thread."""


@contextmanager
def settled_when_ended(settle: Callable[[], None]) -> Iterator[None]:
    """Call `settle` should the process be ended now."""
    _settling.append(settle)
    try:
        yield
    finally:
        _settling.remove(settle)


def say_when_interrupted(outcome: Callable[[], str]) -> None:
    """From now on an interrupt comes to this; it is asked when one is reported."""
    global _outcome
    _outcome = outcome


def note_work(work: Callable[[], str]) -> None:
    """What is being done from now on; who is out of time is told."""
    global _work
    _work = work


def _work() -> str:
    return ""


def outcome() -> Callable[[], str]:
    """What an interrupt comes to as things are."""
    return _outcome


def _outcome() -> str:
    return "no output file was changed"


class Interrupts:
    """Watches for SIGINT and SIGTERM while a command runs: `with interrupts.watched()`."""

    def __init__(self) -> None:
        self._code = 128 + signal.SIGINT
        self._seconds = 0.0
        self._reported = threading.Lock()
        self._ended = threading.Event()
        self.is_raised = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Only in the main thread of a process; elsewhere signals are not ours to handle.

        Afterwards signals do what they did before, and no thread is left that could end the process.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        handlers = (
            (signal.SIGINT, self._raise),
            (signal.SIGTERM, self._raise),
            (signal.SIGALRM, self._raise),
        )
        previous = [(number, signal.signal(number, handler)) for number, handler in handlers]
        wakeup = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(read_end,), name="gpuengine-signals", daemon=True).start()
        try:
            yield
        finally:
            self._ended.set()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.set_wakeup_fd(wakeup)
            os.close(write_end)
            for number, handler in previous:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def end_after(self, seconds: float | None) -> None:
        """End as by a signal when so much time has passed."""
        if seconds is not None and threading.current_thread() is threading.main_thread():
            self._seconds = seconds
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def report(self, where: str = "") -> int:
        """Say that the work was interrupted, and of which work time ran out, once; returns the exit code."""
        if self._reported.acquire(blocking=False):
            clear = "\r\x1b[K" if sys.stderr.isatty() else ""
            is_late = self._code == OUT_OF_TIME
            said = f"error: out of time after {self._seconds:g} s" if is_late else "interrupted"
            with suppress(Exception):  # saying so must not fail
                said = f"{said}; {_outcome()}"
            where = where or _work()
            if is_late and where:
                said = f"{said}\n  while {where}"
            print(f"{clear}{said}", file=sys.stderr, flush=True)
        return self._code

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self._code = _exit_code(number)
        self.is_raised = True
        raise KeyboardInterrupt

    def _watch(self, read_end: int) -> None:
        received: bytes | None = None
        with os.fdopen(read_end, "rb", buffering=0) as pipe:
            while received is None or (received and received[0] not in _ENDING):
                received = pipe.read(1)
        if not received:
            return
        self._code = _exit_code(received[0])
        if self._ended.wait(GRACE_SECONDS):
            return
        for settle in list(_settling):
            with suppress(Exception):
                settle()
        os._exit(self.report())


def _exit_code(number: int) -> int:
    return OUT_OF_TIME if number == signal.SIGALRM else 128 + number


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)

READER_GONE = 141
"""What a shell reports for a process that SIGPIPE ended."""

_done = ""


def say_when_failed(done: str) -> None:
    """What was done for good, and is to be told beside whatever fails from now on."""
    global _done
    _done = done


def guarded(parse: Callable[[], argparse.Namespace]) -> int:
    """Run the command of the arguments; turn what it raises into a message and an exit code."""
    hooks = sys.excepthook, warnings.showwarning
    sys.excepthook, warnings.showwarning = _report_bug, _warn
    say_when_failed("")
    interrupts = Interrupts()
    try:
        with interrupts.watched():
            return _run(parse, interrupts)
    except KeyboardInterrupt:
        return interrupts.report()
    finally:
        if sys.exc_info()[0] is None:  # what nobody expected is still to be reported as a defect
            sys.excepthook = hooks[0]
        warnings.showwarning = hooks[1]


def _run(parse: Callable[[], argparse.Namespace], interrupts: Interrupts) -> int:
    try:
        arguments = parse()
        interrupts.end_after(arguments.timeout)
        code = int(arguments.command(arguments))
        sys.stdout.flush()
        return code
    except SystemExit as error:  # of usage and --help
        return _flushed(error)
    except KeyboardInterrupt:
        return interrupts.report()
    except (ImportError, RuntimeError, SystemError):  # what an interrupt becomes while modules are imported
        if not interrupts.is_raised:
            raise
        return interrupts.report()
    except Interrupted as error:
        return interrupts.report(error.where)
    except ProgramErrors as error:
        return _fail(error.render())
    except GpuEngineError as error:
        return _fail(f"error: {_with_notes(error)}", error.exit_code)
    except BrokenPipeError:
        _forget_output()
        return _fail("", READER_GONE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        if not where and error.errno in (errno.ENOSPC, errno.EBADF):  # full, or closed
            where = "standard output: "
        _forget_output()
        return _fail(f"error: {where}{error.strerror or error}")
    except MemoryError:
        return _fail("error: out of memory\n  hint: set a budget with --memory, or output less")


def _flushed(error: SystemExit) -> int:
    """Its code, with what was printed flushed."""
    code = error.code if isinstance(error.code, int) else 0
    try:
        sys.stdout.flush()
    except OSError as failure:
        _forget_output()
        return READER_GONE if isinstance(failure, BrokenPipeError) else 1
    return code


def _forget_output() -> None:
    """Standard output may be flushed once more when the process ends; let that go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int = 1) -> int:
    lines = [message, f"  note: {_done}" if message else f"note: {_done}"] if _done else [message]
    if any(lines):
        print("\n".join(filter(None, lines)), file=sys.stderr)
    return code


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"warning: {message}", file=file or sys.stderr)


def _with_notes(error: BaseException) -> str:
    return "\n  ".join([str(error), *getattr(error, "__notes__", ())])


def _report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    import traceback

    traceback.print_exception(kind, error, trace)
    print(
        "\nThis is a defect of gpuengine, not of your program. Please report it with the lines above, the "
        "program, and what `gpuengine doctor` prints.",
        file=sys.stderr,
    )
