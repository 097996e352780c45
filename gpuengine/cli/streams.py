"""Standard input, output and error, whatever the process was started with.

A closed one would be taken by the first file that is opened, which would then get what is printed; and Python
has nothing to print to. A reader of standard error that went away, or a full disk behind it, must not
change what a command does.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any


def prepare_streams() -> None:
    """Have all three: closed ones fail when they are used, except standard error, which is silent."""
    # Opened the wrong way round, so that reading and writing fail as they do on what is closed.
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest number that is free
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    errors = io.TextIOWrapper(
        io.BufferedWriter(_Unfailing(2, "w", closefd=False)),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
    sys.stderr = errors


class _Unfailing(io.FileIO):
    """Writes what can be written."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(memoryview(data).cast("B"))
