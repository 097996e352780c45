"""`gpuengine doctor`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from gpuengine.doctor import Finding, examine, works
from tests.cli.processes import COMMAND, gpuengine


def test_text(tmp_path: Path) -> None:
    done = gpuengine("doctor", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("python", "processor", "threads", "numba", "kernel cache", "self-test", "driver", "java"):
        assert f"  {word} " in done.stdout
    assert "9 facts derived" in done.stdout
    assert done.stdout.endswith("\nThe engine works here.\n")


def test_json(tmp_path: Path) -> None:
    report = json.loads(gpuengine("doctor", "--json", cwd=tmp_path).stdout)
    assert report["works"] is True
    findings = {(finding["group"], finding["name"]): finding for finding in report["findings"]}
    assert {finding["status"] for finding in report["findings"]} <= {"ok", "missing", "failed"}
    assert findings["GPU", "cuda backend"]["status"] == "missing"
    assert findings["Libraries", "numpy"]["needed"] is True
    assert all(finding["advice"] for finding in report["findings"] if finding["status"] != "ok")


def test_a_cache_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    environment = {**os.environ, "GPUENGINE_CACHE_DIR": str(tmp_path / "taken")}
    # Without a place for the kernels everything still works; only the cache is looked at, to save compiling.
    script = (
        "from gpuengine.doctor import _cache\nfrom gpuengine.kernels.cpu.jit import cache_directory\n"
        "print(_cache('Engine', cache_directory(), True).advice)"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.startswith("set GPUENGINE_CACHE_DIR to a writable folder")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def version(name: str) -> str:
        if name == "pyarrow":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    findings = list(examine())
    pyarrow = next(finding for finding in findings if finding.name == "pyarrow")
    assert (pyarrow.status, pyarrow.advice) == ("failed", "pip install pyarrow")
    assert not works(findings)


def test_only_what_is_needed_decides() -> None:
    assert works(
        [Finding("GPU", "driver", "missing", ""), Finding("Python", "python", "ok", "", needed=True)]
    )
    assert not works([Finding("Python", "python", "failed", "", needed=True)])


def test_without_numpy_it_still_says_what_is_missing(tmp_path: Path) -> None:
    # A module that can't be imported in place of NumPy.
    (tmp_path / "numpy.py").write_text("raise ImportError('numpy is broken')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [*COMMAND, "doctor"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 1
    assert "numpy is broken" in done.stdout
    assert done.stdout.endswith("The engine can't work here: see the lines marked !!\n")


def test_warm_compiles_what_is_missing_and_nothing_twice(tmp_path: Path) -> None:
    done = gpuengine("doctor", "--warm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = gpuengine("doctor", "--warm", cwd=tmp_path)
    assert again.stdout.endswith("kernels are ready, 0 of them compiled now\n")
    assert int(again.stdout.split()[0]) > 50
