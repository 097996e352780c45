"""Command lines as processes of their own, without paying for Python's imports each time.

`python -m tests.cli_processes` imports the package once and then forks for each command it is sent:
a child starts as clean as a new interpreter, with its own directory, output files and exit code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str


class CommandLines:
    """Runs ``gpuengine`` commands; close it when done."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.cli_processes"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, args: list[str], cwd: Path) -> Finished:
        assert self._server.stdin is not None and self._server.stdout is not None
        out, err = self._scratch / "out", self._scratch / "err"
        job = {"args": args, "cwd": str(cwd), "out": str(out), "err": str(err)}
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return Finished(code, out.read_text(), err.read_text())

    def close(self) -> None:
        self._server.communicate()


def _serve() -> None:
    import gpuengine.cli.run
    import gpuengine.engine
    import gpuengine.io  # noqa: F401
    from gpuengine.language import parse_program

    parse_program(".decl warm(up: number)")
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            _become(job)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(job: dict[str, object]) -> None:
    """Turn this child into the command."""
    from gpuengine.cli import entry

    os.chdir(str(job["cwd"]))
    for number, name in ((1, "out"), (2, "err")):
        target = os.open(str(job[name]), os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(target, number)
    sys.argv = ["gpuengine", *job["args"]]  # type: ignore[misc]
    entry()


if __name__ == "__main__":
    _serve()
