"""What starting costs: a program of three facts, warm, beside what Python and its libraries take alone.

Processor time (user and system) of whole processes, the least of several: a busy machine hardly changes it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

_RUNS = 9
_PROGRAM = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
.output path
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
_COMMANDS = {
    "python": ("-c", "pass"),
    "import numpy, pyarrow": ("-c", "import numpy, pyarrow"),
    "gpuengine --help": ("-m", "gpuengine", "--help"),
    "gpuengine run, 3 facts": ("-m", "gpuengine", "run", "path.dl", "-D", "out", "--quiet"),
    "gpuengine query, 3 facts": ("-m", "gpuengine", "query", "path.dl", "path(1, x)"),
}


def run_command(console: Console) -> int:
    """Measure and print; 0."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "path.dl").write_text(_PROGRAM)
        Path(folder, "edge.facts").write_text("1\t2\n2\t3\n3\t4\n")
        # Compiled kernels and modules are kept by the first of each.
        seconds = {name: [_processor_seconds(command, folder) for _ in range(_RUNS + 1)][1:]
                   for name, command in _COMMANDS.items()}  # fmt: skip
    table = Table("process", "least s CPU", "median s CPU")
    for name, measured in seconds.items():
        table.add_row(name, f"{min(measured):.3f}", f"{sorted(measured)[_RUNS // 2]:.3f}")
    console.print(table)
    return 0


def _processor_seconds(command: tuple[str, ...], folder: str) -> float:
    """What a process takes of processors, its threads and the system's part included."""
    keeping = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    keeping["PYTHONPATH"] = str(Path(__file__).parents[1])
    process = subprocess.Popen([sys.executable, *command], cwd=folder, env=keeping, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise ValueError(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime
