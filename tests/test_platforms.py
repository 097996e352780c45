"""Systems that are not Linux, as far as taking its names away can show, and options that no system has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gpuengine as ge
from gpuengine.errors import GpuEngineError

PROGRAM = ".decl e(x: number, y: number)\n.decl p(x: number, y: number)\np(x, y) :- e(x, y).\n"

_MACOS = """
import builtins, ctypes, io, os, pathlib, sys, time
import llvmlite.binding  # what others load for this system is loaded

sys.platform = "darwin"
for name in ("sched_getaffinity", "sched_setaffinity", "fdatasync", "posix_fadvise", "posix_fallocate"):
    if hasattr(os, name):
        delattr(os, name)
del time.CLOCK_BOOTTIME
def without_proc(function):
    def wrapped(path, *args, **kwargs):
        if str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return function(path, *args, **kwargs)
    return wrapped
os.open = without_proc(os.open)
io.open = builtins.open = without_proc(open)
whole = ctypes.CDLL
class Library(whole):
    def __getattr__(self, name):
        if name in ("malloc_trim", "mremap", "malloc_usable_size"):
            raise AttributeError(name)
        return super().__getattr__(name)
ctypes.CDLL = Library
"""


def run_on(system: str, code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", system + code], cwd=cwd, capture_output=True, text=True, timeout=180
    )


def test_a_system_without_the_names_of_linux(tmp_path: Path) -> None:
    code = f"""
import gpuengine as ge
kb = ge.Engine({PROGRAM!r}, memory="500MB", backend="cpu")
assert kb.options.threads == os.cpu_count()
kb.load("e", [(i, i + 1) for i in range(1000)])
kb.materialise(timeout=100)
assert len(kb["p"].to_arrow()) == 1000
kb.save("kb")
with ge.open("kb", backend="cpu") as kb:
    with kb.update() as update:
        update.insert("e", [(5, 5)])
    assert len(kb["p"]) == 1001
ge.Engine({PROGRAM!r}).materialise()
from gpuengine.machine import available_memory, resident_memory
assert available_memory() > 0 and resident_memory() > 0
from gpuengine.cli import main
assert main(["query", "kb", "p(5, x)"]) == 0
assert main(["doctor"]) == 0
"""
    done = run_on(_MACOS, code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "x\n5\n6\n" in done.stdout or "x\n6\n5\n" in done.stdout


def test_windows_is_told_at_once(tmp_path: Path) -> None:
    windows = "import sys\nsys.platform = 'win32'\n"
    done = run_on(windows, "from gpuengine.cli import entry\nentry()\n", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: gpuengine runs on Linux and macOS; on Windows, use it inside WSL\n"
    done = run_on(windows, "import gpuengine\ngpuengine.Engine\n", tmp_path)
    assert "ImportError: gpuengine runs on Linux and macOS" in done.stderr


@pytest.mark.parametrize("threads", [-1, 0, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none(threads: object) -> None:
    with pytest.raises(GpuEngineError, match="threads must be a whole number above 0"):
        ge.Engine(PROGRAM, threads=threads)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["memory", "device_memory"])
@pytest.mark.parametrize("size", [-5, 0, "10XB", "-1GB", 1.5, True])
def test_a_size_that_is_none(option: str, size: object) -> None:
    with pytest.raises(GpuEngineError, match="memory size"):
        ge.Engine(PROGRAM, **{option: size})  # type: ignore[arg-type]


@pytest.mark.parametrize("device", [-1, 1.5, True, "0"])
def test_a_device_that_is_none(device: object) -> None:
    with pytest.raises(GpuEngineError, match="device must be the number of a GPU"):
        ge.Engine(PROGRAM, device=device)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["gpu", "", 7, None])
def test_a_backend_that_is_none(backend: object) -> None:
    with pytest.raises(GpuEngineError, match="choose auto, cpu or cuda"):
        ge.Engine(PROGRAM, backend=backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--memory=-5", "not a memory size: '-5'"),
        ("--memory=0", "a memory size must be more than 0"),
        ("--memory=10XB", "not a memory size: '10XB'"),
        ("--jobs=0", "is not a number above 0"),
        ("--jobs=-1", "is not a number above 0"),
        ("--jobs=1.5", "is not a number above 0"),
        ("--device=-1", "is not the number of a GPU"),
        ("--backend=gpu", "invalid choice: 'gpu'"),
    ],
)
def test_options_that_are_none(option: str, said: str, tmp_path: Path) -> None:
    code = f"from gpuengine.cli import entry\nimport sys\nsys.argv[1:] = ['run', 'p', {option!r}]\nentry()"
    done = run_on("", code, tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
