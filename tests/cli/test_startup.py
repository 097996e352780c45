"""What is imported for what: starting up must stay short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import gpuengine, reach_project

UNUSED = {
    "gpuengine.evaluation.rules.aggregate",
    "gpuengine.evaluation.rules.device_steps",
    "gpuengine.evaluation.rules.multiway",
    "gpuengine.evaluation.rules.tree_join",
    "gpuengine.planning.hypertree",
    "gpuengine.schemes.closure",
    "gpuengine.schemes.equivalence",
}
"""What a small program on the host, without a cycle in a body, has no use for."""
HEAVY = {"numpy", "pyarrow", "numba", "llvmlite", "lark", "rich", "pandas", "polars"}


def imported(*arguments: str, cwd: Path) -> set[str]:
    """Every module that a process imports."""
    command = [sys.executable, "-X", "importtime", "-m", "gpuengine", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    modules = imported("--help", cwd=tmp_path)
    assert "gpuengine.cli.arguments" in modules
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert len(modules) < 150


def test_a_run_imports_only_what_it_needs(tmp_path: Path) -> None:
    reach_project(tmp_path)
    arguments = ("run", "reach.dl", "-F", "facts", "-D", "out")
    assert gpuengine(*arguments, cwd=tmp_path).returncode == 0  # compiles what the cache lacks
    modules = imported(*arguments, cwd=tmp_path)
    assert "pyarrow" in modules
    assert not modules & {"numba", "rich", "pandas", "polars", "pyarrow.compute", "pyarrow.pandas_compat"}
    assert not modules & UNUSED
    assert not any(name.startswith(("cupy", "gpuengine.kernels.cuda")) for name in modules)


@pytest.mark.parametrize("given", [None, "3"])
def test_linear_algebra_starts_no_threads_unless_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    threads = (
        "@gpuengine.functor\ndef threads() -> int:\n    return int(os.environ['OPENBLAS_NUM_THREADS'])\n"
    )
    (tmp_path / "f.py").write_text(f"import os\nimport gpuengine\n{threads}")
    (tmp_path / "p.dl").write_text(
        ".functor threads(): number\n.decl p(x: number)\n.output p\np(@threads()).\n"
    )
    done = gpuengine("run", "p.dl", "--functors", "f.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.csv").read_text() == f"{given or 1}\n"


def test_version(tmp_path: Path) -> None:
    from gpuengine import __version__

    assert gpuengine("--version", cwd=tmp_path).stdout == f"gpuengine {__version__}\n"


def test_help_names_every_command_and_option(tmp_path: Path) -> None:
    commands = gpuengine("--help", cwd=tmp_path).stdout
    assert all(f"\n    {name} " in commands for name in ("run", "plan", "query", "doctor"))
    options = gpuengine("run", "--help", cwd=tmp_path).stdout
    engine = ("-j", "--backend", "--device", "--device-memory", "--memory")
    for option in ("-F", "-D", "-I", "-M", "--on-error", "--stats", "--json", *engine):
        assert option in options
