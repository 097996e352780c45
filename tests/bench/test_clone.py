"""A clone with nothing beside it has all that its tests and benchmarks need."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.catalogue import choose
from bench.prepare import ROOT, Places, prepare

MADE = (".git", ".venv", "__pycache__", "out", "build", "dist", "*.egg-info", ".*_cache")
MADE_BY_BENCH = {"data", "results"}
"""What is not of the repository."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's files alone in an empty folder."""
    folder = tmp_path_factory.mktemp("stranger") / "clone"
    made = shutil.ignore_patterns(*MADE)

    def left_out(directory: str, names: list[str]) -> set[str]:
        by_bench = MADE_BY_BENCH if Path(directory) == ROOT / "bench" else set()
        return made(directory, names) | by_bench & set(names)

    shutil.copytree(ROOT, folder, ignore=left_out, symlinks=True)
    return folder


def run(clone: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=clone, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_the_suite_is_collected(clone: Path) -> None:
    assert "tests/bench/test_clone.py: 3\n" in run(clone, "-m", "pytest", "--collect-only", "-q", "tests")


def test_the_bench_lists_its_workloads(clone: Path) -> None:
    listed = run(clone, "-m", "bench", "list")
    assert all(workload.name in listed for workload in choose(["all"]))


def test_every_packed_workload_and_graph_is_there(tmp_path: Path) -> None:
    places = Places(data=tmp_path)
    for workload in choose(["packed", "graphs", "large"]):
        ready = prepare(workload, places)
        assert ready.program.exists()
        assert all(file.stat().st_size for file in ready.facts.iterdir())
