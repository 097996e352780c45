"""The command line: `entry` is what ``gpuengine`` and ``python -m gpuengine`` call.

Nothing heavy is imported before the arguments are understood: ``gpuengine --help`` needs the standard
library only. Each command is a module of this package with one function, loaded when it is asked for.
Nothing at all is imported here before signals and standard streams are in order.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence

_OBJECTS_BETWEEN_COLLECTIONS = 200_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 success; 1 the program, the data or the evaluation is at fault; 2 usage; 124 out of time; 130
    interrupted (143 by SIGTERM); 141 the reader of standard output went away.
    """
    from gpuengine.cli.arguments import parse_arguments
    from gpuengine.cli.failures import guarded

    return guarded(lambda: parse_arguments(sys.argv[1:] if argv is None else argv))


def entry() -> None:
    """Run the command of this process and end it.

    At once: taking the interpreter and its libraries apart takes longer than many programs.
    """
    from gpuengine import unsupported

    # What modules and a program are made of lives as long as this process: the collector need not look at it.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # NumPy's linear algebra starts threads when it is loaded; only a functor could have work for them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end_while_starting)
    if (why := unsupported()) is not None:
        sys.exit(f"error: {why}")
    from gpuengine.cli.streams import prepare_streams

    prepare_streams()
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr.flush()
    os._exit(code)


def _end_while_starting(number: int, frame: object) -> None:
    """Ctrl-C before anything has begun."""
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(128 + number)
