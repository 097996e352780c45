"""Run a script in a Python process of its own, since a process has one Spark session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUIET = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings for every session of a test."""


def run_script(
    text: str,
    folder: Path,
    *arguments: str,
    env: Mapping[str, str | None] | None = None,
    timeout: float = 150,
) -> str:
    """What the script prints; a script that fails, fails the test with what it wrote."""
    done = start_script(text, folder, *arguments, env=env, timeout=timeout)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-6000:]}"
    return done.stdout


def start_script(
    text: str,
    folder: Path,
    *arguments: str,
    env: Mapping[str, str | None] | None = None,
    timeout: float = 150,
) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, whatever that is. Variables of `env` that are None are unset."""
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable} | dict(env or {})
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        env={name: value for name, value in variables.items() if value is not None},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
