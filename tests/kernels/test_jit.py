"""The cache of compiled kernels, by real processes: what one compiles, the next ones load."""

from __future__ import annotations

import os
import shutil
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
    assert run(tmp_path / "file" / "below") == COMPILED
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


def test_a_file_under_another_kernels_name_is_not_run(cache: Path) -> None:
    """It is whole, but of another kernel: calling it would give any result at all."""
    file = cached_file(cache)
    (other,) = (one for one in _some_kernels() if one.name != "keyset.count_distinct")
    environment = {**os.environ, "GPUENGINE_CACHE_DIR": str(cache)}
    load = f"from gpuengine.kernels.cpu.{other.name.replace('.', ' import ')} as other; other.load()"
    subprocess.run([sys.executable, "-c", load], env=environment, check=True, timeout=120)
    (file.parent / f"{other.name}.bin").replace(file)
    assert run(cache) == COMPILED
    assert run(cache) == LOADED


def _some_kernels() -> list[jit.Kernel]:
    from gpuengine.kernels.cpu import keyset

    found = [one for one in vars(keyset).values() if isinstance(one, jit.Kernel)]
    return sorted(found, key=lambda one: (one.name != "keyset.count_distinct", one.name))[:2]


def doubted(cache: Path, said: str) -> None:
    """A process compiles for itself, and warns once why."""
    process = start(cache)
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0 and out.rstrip("\n") == COMPILED
    assert errors.count("kernels are compiled anew") == 1
    assert said in errors and "GPUENGINE_CACHE_DIR" in errors


@pytest.fixture
def cache(warm_cache: Path, tmp_path: Path) -> Path:
    """A warm cache to be spoilt."""
    return Path(shutil.copytree(warm_cache, tmp_path / "shared" / "cache"))


@pytest.mark.parametrize("mode, depth", [(0o777, 0), (0o770, 1), (0o1777, 2)])
def test_folders_that_others_may_write_are_not_trusted(cache: Path, mode: int, depth: int) -> None:
    folder = cached_file(cache).parents[depth]
    assert folder.stat().st_mode & 0o777 == 0o700
    before = cached_file(cache).read_bytes()
    folder.chmod(mode)
    doubted(cache, f"{folder} can be written by other users (mode {mode:04o})")
    assert cached_file(cache).read_bytes() == before
    folder.chmod(0o755)
    assert run(cache) == LOADED


def test_a_cache_in_a_folder_that_others_may_write(cache: Path) -> None:
    cache.parent.chmod(0o777)
    doubted(cache, f"{cache.parent} can be written by other users")
    cache.parent.chmod(0o1777)  # others can't exchange what is not theirs
    assert run(cache) == LOADED


def test_files_that_others_may_write_are_not_run(cache: Path) -> None:
    file = cached_file(cache)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o622)
    doubted(cache, f"{file} can be written by other users (mode 0622)")
    assert run(cache) == LOADED, "it was replaced"


def test_links_are_not_run(cache: Path) -> None:
    file = cached_file(cache)
    elsewhere = file.rename(cache / "elsewhere")
    file.symlink_to(elsewhere)
    doubted(cache, f"{file} is a symbolic link")
    assert run(cache) == LOADED and not file.is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("depth", [0, 2])
def test_files_and_folders_of_others_are_not_run(cache: Path, depth: int) -> None:
    place = (cached_file(cache), *cached_file(cache).parents)[depth]
    os.chown(place, 12345, 12345)
    doubted(cache, f"{place} belongs to another user (12345)")


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
