"""The cache of compiled kernels, by real processes: what one compiles, the next ones load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuengine.kernels.cpu import jit

#: Runs a kernel that uses device functions and intrinsics, and tells what it compiled and imported.
SCRIPT = """
import sys
import numpy as np
from gpuengine.kernels.cpu import jit
from gpuengine.kernels.cpu.keyset import count_distinct
bits = np.zeros(2, np.uint64)
ids = np.array([5, 6, 5, 70, 6], np.uint32)
assert count_distinct(ids, 5, 0, bits) == 3, "wrong result"
assert bits.tolist() == [0b1100000, 1 << 6]
print(",".join(jit.compile_seconds), "numba" in sys.modules)
"""
COMPILED, LOADED = "keyset.count_distinct True", " False"


def start(cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "GPUENGINE_CACHE_DIR": str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert not error
    return out.rstrip("\n")


def run(cache: Path) -> str:
    return finish(start(cache))


def cached_file(cache: Path) -> Path:
    (file,) = cache.rglob("*.bin")
    return file


def test_the_second_process_compiles_nothing_and_does_not_import_numba(tmp_path: Path) -> None:
    assert run(tmp_path) == COMPILED
    assert cached_file(tmp_path).name == "keyset.count_distinct.bin"
    assert run(tmp_path) == LOADED


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content[: len(content) // 2],
        lambda content: b"",
    ],
    ids=["a flipped bit", "truncated", "empty"],
)
def test_a_damaged_file_is_compiled_again(warm_cache: Path, damage: object) -> None:
    file = cached_file(warm_cache)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))  # type: ignore[operator]
    assert run(warm_cache) == COMPILED
    assert run(warm_cache) == LOADED


@pytest.fixture(scope="module")
def warm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    run(cache)
    return cache


def test_a_cache_that_can_not_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert run(tmp_path / "file") == COMPILED
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert run(closed) == COMPILED


def test_a_warm_cache_without_permission_to_write_is_read(tmp_path: Path) -> None:
    assert run(tmp_path) == COMPILED
    folder = cached_file(tmp_path).parent
    folder.chmod(0o500)
    try:
        assert run(tmp_path) == LOADED
    finally:
        folder.chmod(0o700)


def test_two_processes_that_compile_at_once(tmp_path: Path) -> None:
    both = [start(tmp_path), start(tmp_path)]
    assert {finish(process) for process in both} <= {COMPILED, LOADED}
    assert [file.name for file in cached_file(tmp_path).parent.iterdir()] == ["keyset.count_distinct.bin"]
    assert run(tmp_path) == LOADED


def test_in_the_background_only_the_first_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(jit, "_load_cached", lambda wanted: None)
    monkeypatch.setattr(jit, "_compile", lambda wanted: compiled.append(wanted.name) or 1)
    kernels = [jit.Kernel(lambda: 0, "i8(i8)"), jit.Kernel(lambda: 0, "i8(i8)")]
    jit.load_in_background(kernels).join()
    assert len(compiled) == 1
    assert [kernel._call is not None for kernel in kernels] == [True, False]
