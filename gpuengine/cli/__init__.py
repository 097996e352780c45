"""The command line: `entry` is what ``gpuengine`` and ``python -m gpuengine`` call.

Nothing heavy is imported before the arguments are understood: ``gpuengine --help`` needs the standard
library only. Each command is a module of this package with one function, loaded when it is asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gpuengine.cli.arguments import parse_arguments
from gpuengine.cli.failures import guarded


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 success; 1 the program, the data or the evaluation is at fault; 2 usage; 130 interrupted
    (143 by SIGTERM); 141 the reader of standard output went away.
    """
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    return guarded(arguments.command, arguments)


def entry() -> None:
    """Run the command of this process and end it.

    At once: taking the interpreter and its libraries apart takes longer than many programs.
    """
    code = main()
    sys.stderr.flush()
    os._exit(code)
