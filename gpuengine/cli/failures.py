"""What a user sees when something goes wrong, and the exit code that says so."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from types import TracebackType

from gpuengine.cli.interrupts import Interrupts
from gpuengine.errors import GpuEngineError, Interrupted, ProgramErrors

READER_GONE = 141
"""What a shell reports for a process that SIGPIPE ended."""


def guarded(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; turn what it raises into a message on standard error and an exit code."""
    sys.excepthook = _report_bug
    interrupts = Interrupts()
    interrupts.install()
    try:
        code = command(arguments)
        sys.stdout.flush()
        return code
    except (KeyboardInterrupt, Interrupted):
        return interrupts.report()
    except ProgramErrors as error:
        return _fail(error.render())
    except GpuEngineError as error:
        return _fail(f"error: {_with_notes(error)}", error.exit_code)
    except BrokenPipeError:
        # Standard output may be flushed once more when the process ends; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"error: {where}{error.strerror or error}")
    except MemoryError:
        return _fail("error: out of memory\n  hint: set a budget with --memory, or output less")


def _fail(message: str, code: int = 1) -> int:
    print(message, file=sys.stderr)
    return code


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
