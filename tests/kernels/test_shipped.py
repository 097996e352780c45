"""Kernels that a wheel brings: built by pip, installed beside what others need, run with an empty cache."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuengine.kernels.cpu import all_kernels, shipped
from gpuengine.kernels.cpu.shipping import CannotShip, build_libraries, kernels_named

ROOT = Path(__file__).parents[2]
KERNELS = ("keyset.count_distinct", "keyset.after_gap")
ON_DEVICE = ("cuda.gather",)
LEVELS = shipped.LEVELS[platform.machine()]
SCRIPT = """
import sys
import numpy as np
from gpuengine.kernels.cpu import jit, keyset
bits = np.zeros(2, np.uint64)
assert keyset.count_distinct(np.array([5, 6, 5, 70, 6], np.uint32), 5, 0, bits) == 3
assert bits.tolist() == [0b1100000, 1 << 6]
print(jit.__file__, list(jit.compile_seconds), "llvmlite" in sys.modules)
"""


def test_all_kernels_are_all_that_programs_can_ask_for() -> None:
    """Kernels are declared in modules of this folder; only the emulated device makes others, for itself."""
    declared = set()
    for path in (ROOT / "kernels" / "cpu").glob("*.py"):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if line.startswith("@kernel("):
                name = next(after for after in lines[number:] if after.startswith("def "))
                declared.add(f"{path.stem}.{name[4:].partition('(')[0]}")
    names = [one.name for one in all_kernels()]
    assert len(names) == len(set(names))
    assert set(names) == declared == {one.name for one in kernels_named([])}


def test_a_kernel_that_there_is_not() -> None:
    with pytest.raises(CannotShip, match=r"there is no kernel keyset\.nothing"):
        kernels_named(["keyset.nothing"])


def test_without_a_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShip, match="install binutils"):
        build_libraries(tmp_path / "compiled", kernels_named([KERNELS[0]]))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries") / "compiled"
    built = build_libraries(folder, kernels_named(KERNELS))
    assert sorted(path.stem for path in built) == sorted(LEVELS)
    return folder


@pytest.fixture
def brought(libraries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As if the package had come with the libraries; a copy, to be damaged."""
    folder = tmp_path / "compiled"
    shutil.copytree(libraries, folder)
    monkeypatch.setattr(shipped, "FOLDER", folder)
    shipped._library.cache_clear()
    yield folder
    shipped._library.cache_clear()


def test_a_library_has_the_kernels_that_it_was_made_of(brought: Path) -> None:
    assert all(shipped.address_of(name) for name in KERNELS)
    assert shipped.address_of("pipeline.run") is None
    assert shipped.level() in LEVELS


@pytest.mark.parametrize("level", LEVELS)
def test_the_best_level_that_the_processor_has_is_taken(
    brought: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    monkeypatch.setattr(shipped, "_features", lambda: LEVELS[level])
    assert shipped.level() == level


def test_a_processor_below_all_levels_compiles(brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"x86_64": {"level": frozenset({"none-has-this"})}}
    monkeypatch.setattr(shipped, "LEVELS", needed)
    assert shipped.level() is None
    assert shipped.address_of(KERNELS[0]) is None


def test_another_machine_compiles(brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert shipped.address_of(KERNELS[0]) is None


@pytest.mark.parametrize("content", [b"", b"\x7fELF and no more"])
def test_a_damaged_library_is_as_none(brought: Path, content: bytes) -> None:
    for path in brought.glob("*.so"):
        path.write_bytes(content)
    assert shipped.address_of(KERNELS[0]) is None


def test_libraries_need_no_others(libraries: Path) -> None:
    """So that they load wherever Python does: what they don't have themselves, the C library has."""
    if shutil.which("readelf") is None:
        pytest.fail("binutils is needed to look at libraries")
    for path in libraries.glob("*.so"):
        shown = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        assert "(NEEDED)" not in shown


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package of a wheel that brings a few kernels."""
    sources, tools, out = (tmp_path_factory.mktemp(name) for name in ("sources", "tools", "out"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    for name in ("gpuengine", "kernels", "schemes", "spark_bridge"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, sources / name, symlinks=True, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "install", "--target", str(tools), "setuptools>=77"])
    wanted = {"PYTHONPATH": str(tools), "GPUENGINE_WHEEL_KERNELS": ",".join([*KERNELS, *ON_DEVICE])}
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(out), str(sources)], **wanted)
    (wheel,) = out.glob("*.whl")
    assert wheel.name.endswith(f"-py3-none-manylinux_2_17_{platform.machine()}.whl")
    folder = tmp_path_factory.mktemp("installed")
    run([*pip, "install", "--no-deps", "--target", str(folder), str(wheel)])
    return folder


def run(command: list[str], cwd: Path | None = None, **environment: str) -> str:
    own = {**os.environ, **environment}
    done = subprocess.run(command, cwd=cwd, env=own, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stderr
    return done.stdout


GPU_SCRIPT = """
import sys
from gpuengine.kernels.cuda.columns import gather
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES
from gpuengine.kernels.cuda.devices.module_cache import module_file
print({module_file(gather, one).parents[2].name for one in ARCHITECTURES}, "numba" in sys.modules)
"""


@pytest.mark.slow
def test_an_installed_wheel_uses_its_kernels_of_gpus(installed: Path, tmp_path: Path) -> None:
    own = {"GPUENGINE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(installed)}
    assert run([sys.executable, "-c", GPU_SCRIPT], tmp_path, **own) == "{'compiled'} False\n"


@pytest.mark.slow
def test_an_installed_wheel_uses_its_kernels(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "program.dl").write_text(
        ".decl a(x: number)\n.decl b(x: number)\na(1).\nb(x) :- a(x).\n.output b\n"
    )
    own = {"GPUENGINE_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(installed)}
    said = run([sys.executable, "-c", SCRIPT], tmp_path, **own)
    assert said == f"{installed}/gpuengine/kernels/cpu/jit.py [] False\n"
    command = [sys.executable, "-m", "gpuengine", "run", "program.dl", "--json"]
    report = json.loads(run(command, tmp_path, **own))
    compiled = set(report["compiled_kernels"])
    assert compiled
    assert not compiled & set(KERNELS)
    assert (tmp_path / "b.csv").read_text() == "1\n"
