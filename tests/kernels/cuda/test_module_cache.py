"""The files of machine code: what one process assembles, the next ones find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuengine.kernels.contract import DeviceUnavailable
from gpuengine.kernels.cpu import code_files
from gpuengine.kernels.cuda.columns import gather, take_every
from gpuengine.kernels.cuda.devices import module_cache
from gpuengine.kernels.cuda.devices.assemble import known_capabilities, symbol
from gpuengine.kernels.cuda.devices.module_cache import compiler_versions, module_file

#: Tells where a kernel's file is and whether the compiler was imported.
SCRIPT = """
import sys
from gpuengine.kernels.cuda.columns import gather, take_every
from gpuengine.kernels.cuda.devices.module_cache import module_file
print(module_file(gather, (8, 9)).name, "numba" in sys.modules, "cupy" in sys.modules)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUENGINE_CACHE_DIR", str(tmp_path))
    return tmp_path


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(module_cache, "assemble", refuse)
    monkeypatch.setattr(module_cache, "to_ptx", refuse)


def test_the_second_process_does_not_import_the_compiler(cache: Path) -> None:
    module_file(gather, (8, 9))
    environment = {**os.environ, "GPUENGINE_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    (file,) = cache.rglob("gather.*.cubin")
    assert done.stdout == f"{file.name} False False\n"


def test_a_file_is_made_once_for_each_architecture(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = module_file(gather, (7, 5)), module_file(gather, (12, 0))
    assert first.suffix == second.suffix == ".cubin"
    assert first.read_bytes() != second.read_bytes()
    forbid_compiling(monkeypatch)
    assert (module_file(gather, (7, 5)), module_file(gather, (12, 0))) == (first, second)


@pytest.mark.parametrize("damage", [b"", b"\x7fELF torn"])
def test_a_damaged_file_is_replaced(cache: Path, damage: bytes) -> None:
    path = module_file(gather, (8, 0))
    whole = path.read_bytes()
    path.write_bytes(damage)
    assert module_file(gather, (8, 0)) == path
    assert path.read_bytes() == whole


def test_a_file_under_another_kernels_name_is_replaced(cache: Path) -> None:
    path, other = module_file(gather, (8, 0)), module_file(take_every, (8, 0))
    whole = path.read_bytes()
    wrong = path.with_name(other.name.replace(take_every.name, gather.name))
    path.unlink()
    wrong.write_bytes(other.read_bytes())
    assert module_file(gather, (8, 0)) == path
    assert path.read_bytes() == whole


def test_a_cache_that_others_may_write_is_not_used(cache: Path) -> None:
    path = module_file(gather, (8, 0))
    path.parent.chmod(0o777)
    code_files._trusted.clear()
    with pytest.warns(RuntimeWarning, match="can be written by other users"):
        assert cache not in module_file(gather, (8, 0)).parents
    path.parent.chmod(0o700)
    assert module_file(gather, (8, 0)) == path
    path.chmod(0o666)
    with pytest.warns(RuntimeWarning, match=f"{path.name} can be written by other users"):
        assert module_file(gather, (8, 0)) == path
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_gpu_newer_than_the_compiler_gets_ptx(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = (known_capabilities()[-1][0] + 1, 0)
    path = module_file(gather, newer)
    assert path.suffix == ".ptx"
    assert f".visible .entry {symbol(gather)}(" in path.read_text()
    assert ".target sm_100" in path.read_text()
    forbid_compiling(monkeypatch)
    assert module_file(gather, newer) == path


def test_a_cache_that_cannot_be_written_costs_only_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("GPUENGINE_CACHE_DIR", str(blocked))
    path = module_file(gather, (8, 0))
    assert path.read_bytes().startswith(b"\x7fELF")
    assert tmp_path not in path.parents


def test_another_compiler_makes_its_own_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = module_file(gather, (8, 0))
    monkeypatch.setattr(module_cache, "version", lambda package: "1.0")
    module_cache._digest.cache_clear()
    try:
        assert module_file(gather, (8, 0)).parent != path.parent
    finally:
        module_cache._digest.cache_clear()


def test_without_a_compiler_the_reason_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ImportError("No module named 'numba_cuda'")

    monkeypatch.setattr(module_cache, "known_capabilities", missing)
    with pytest.raises(
        DeviceUnavailable, match="compiler for kernels is missing: No module named 'numba_cuda'"
    ):
        module_file(gather, (8, 0))


def test_the_compilers_are_known() -> None:
    assert {"numba", "numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink"} <= dict(compiler_versions()).keys()
