"""Looks at the machine: what works, what is missing, and what to install. It never guesses."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from gpuengine import __version__
from gpuengine.errors import GpuEngineError
from gpuengine.machine import available_memory, usable_cores

_FEATURES = ("sse4_2", "avx", "avx2", "fma", "bmi2", "avx512f", "neon", "asimd", "sve")
_SELF_TEST = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
edge(1, 2). edge(2, 3). edge(3, 1).
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """`status` is ``ok``, ``missing`` (optional, absent) or ``failed``; `advice` says what to do.

    The engine can't work if a `needed` finding is not ``ok``.
    """

    group: str
    name: str
    status: str
    value: str
    advice: str = ""
    needed: bool = False


def examine() -> Iterator[Finding]:
    """Every finding, one after the other as it is made."""
    yield from _python()
    yield from _processor()
    yield from _libraries()
    yield from _kernels()
    yield from _gpu()
    yield from _spark()


def works(findings: list[Finding]) -> bool:
    """Can the engine itself work here?"""
    return all(finding.status == "ok" for finding in findings if finding.needed)


def _python() -> Iterator[Finding]:
    group = "Python"
    supported = sys.version_info >= (3, 11)
    advice = "" if supported else "install Python 3.11 or newer"
    yield Finding(group, "python", _ok(supported), platform.python_version(), advice, needed=True)
    yield Finding(group, "gpuengine", "ok", __version__)
    yield Finding(group, "platform", "ok", platform.platform())


def _processor() -> Iterator[Finding]:
    group = "Machine"
    info = _first_processor()
    model = info.get("model name") or platform.processor() or platform.machine()
    yield Finding(group, "processor", "ok", model)
    flags = set(info.get("flags", info.get("Features", "")).split())
    present = [feature for feature in _FEATURES if feature in flags]
    yield Finding(group, "features", "ok", " ".join(present) or "not reported by this system")
    usable, all_of_them = usable_cores(), os.cpu_count() or 1
    yield Finding(group, "threads", "ok", f"{usable} usable of {all_of_them}")
    yield _memory(group)


def _first_processor() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _memory(group: str) -> Finding:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Finding(
        group, "memory", "ok", f"{available_memory() / 2**30:.1f} GB free of {total / 2**30:.1f} GB"
    )


def _libraries() -> Iterator[Finding]:
    for name in ("numpy", "numba", "llvmlite", "pyarrow", "rich"):
        yield _package("Libraries", name, f"pip install {name}", needed=True)


def _package(
    group: str, name: str, advice: str, *, module: str | None = None, needed: bool = False
) -> Finding:
    """Whether a package is installed, without importing it."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(group, name, "failed" if needed else "missing", "not installed", advice, needed)
    if importlib.util.find_spec(module or name.replace("-", "_")) is None:
        return Finding(group, name, "failed", f"{version} is installed but can't be found", advice, needed)
    return Finding(group, name, "ok", version, needed=needed)


def _kernels() -> Iterator[Finding]:
    group = "Engine"
    try:
        from gpuengine.engine import Engine
        from gpuengine.kernels.cpu import shipped
        from gpuengine.kernels.cpu.jit import cache_directory, compile_seconds
    except ImportError as error:
        advice = "reinstall: pip install --force-reinstall gpuengine"
        yield Finding(group, "import", "failed", str(error), advice, needed=True)
        return
    level = shipped.level()
    brought = f"came compiled, for {level}" if level else "compiled when first needed, then cached"
    yield Finding(group, "kernels", "ok", brought)
    yield _cache(group, cache_directory(), level is None)
    started = time.perf_counter()
    try:
        answers = len(Engine(_SELF_TEST).materialise()["path"])
    except (GpuEngineError, OSError, RuntimeError) as error:
        yield Finding(group, "self-test", "failed", str(error), "see the line above", needed=True)
        return
    seconds = time.perf_counter() - started
    compiled = f"{len(compile_seconds)} kernels compiled" if compile_seconds else "no kernel compiled"
    value = f"{answers} facts derived in {seconds:.2f} s, {compiled}"
    yield Finding(
        group, "self-test", _ok(answers == 9), value, "expected 9 facts" if answers != 9 else "", True
    )


def _cache(group: str, folder: Path, is_needed: bool) -> Finding:
    kept = sum(1 for _ in folder.glob("kernels/*/*.bin")) if folder.is_dir() else 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        advice = "set GPUENGINE_CACHE_DIR to a writable folder, or every start compiles the kernels"
        return Finding(
            group, "kernel cache", "missing", f"{folder} is not writable: {error.strerror}", advice
        )
    empty = "empty: the first run compiles" if is_needed else "empty"
    state = f"{kept} compiled kernels" if kept else empty
    return Finding(group, "kernel cache", "ok", f"{folder}, {state}")


def gpu_findings() -> Iterator[Finding]:
    """What the driver says, without opening a device."""
    yield _driver("GPU")
    yield _devices("GPU")


def _gpu() -> Iterator[Finding]:
    group = "GPU"
    yield from gpu_findings()
    yield _cupy(group)
    yield _package(group, "numba-cuda", "pip install 'gpuengine[gpu]'", module="numba_cuda")
    yield _package(group, "cudf-cu13", "pip install cudf-cu13, for DataFrames on the GPU", module="cudf")
    yield _cuda_backend(group)


def _cupy(group: str) -> Finding:
    """CuPy comes as a package for each generation of CUDA."""
    advice = "pip install 'gpuengine[gpu]', or 'gpuengine[gpu12]' for a driver of CUDA 12"
    findings = [_package(group, name, advice, module="cupy") for name in ("cupy-cuda13x", "cupy-cuda12x")]
    return next((finding for finding in findings if finding.status == "ok"), findings[0])


def _cuda_backend(group: str) -> Finding:
    """Open the first GPU, if there is a sign of one: nothing is imported for nothing."""
    try:
        from gpuengine.evaluation.placement.accelerator import gpu_present
        from gpuengine.kernels.contract import DeviceUnavailable
    except ImportError as error:
        return Finding(group, "cuda backend", "missing", str(error), "see the libraries above")
    if not gpu_present():
        advice = "none needed: --backend cpu works, and auto uses it"
        return Finding(group, "cuda backend", "missing", "no NVIDIA GPU in this machine", advice)
    from gpuengine.kernels.cuda import backend

    try:
        device = backend.open_device().device
    except DeviceUnavailable as error:
        advice = "until then use --backend cpu; auto uses it by itself"
        return Finding(group, "cuda backend", "failed", str(error), advice)
    usable = device.memory()[1] / 2**30
    value = f"{device.name}, {usable:.1f} GB to use; gpuengine doctor --device checks it"
    return Finding(group, "cuda backend", "ok", value)


def _driver(group: str) -> Finding:
    """Ask the CUDA driver library for its version."""
    advice = "install the NVIDIA driver, if there is an NVIDIA GPU"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Finding(group, "driver", "missing", "libcuda.so.1 not found", advice)
    version = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return Finding(group, "driver", "failed", "libcuda.so.1 is there but finds no device", advice)
    return Finding(
        group, "driver", "ok", f"supports CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    )


def _devices(group: str) -> Finding:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    output = _output(query)
    if output is None:
        return Finding(
            group, "devices", "missing", "nvidia-smi reports none", "none needed: the CPU backend works"
        )
    return Finding(group, "devices", "ok", "; ".join(output.splitlines()))


def _spark() -> Iterator[Finding]:
    group = "Spark"
    yield _java(group)
    yield _package(group, "pyspark", "pip install 'gpuengine[spark]'")


def _java(group: str) -> Finding:
    """The Java that Spark would start; it is asked for its version, no more."""
    advice = "install Java 17 or 21 for Spark, or let JAVA_HOME name one"
    try:
        from gpuengine.spark_bridge.sessions import OLDEST_JAVA, find_java, java_version
    except ImportError as error:
        return Finding(group, "java", "missing", str(error), "see the libraries above")
    path = find_java()
    if path is None:
        return Finding(group, "java", "missing", "no java on the PATH, and no JAVA_HOME", advice)
    try:
        version = java_version(path)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(group, "java", "failed", f"{path} does not run: {error}", advice)
    if version is None:
        return Finding(group, "java", "ok", f"{path}, of a version that it does not tell")
    is_old = version < OLDEST_JAVA
    return Finding(group, "java", _ok(not is_old), f"Java {version}, {path}", advice if is_old else "")


def _output(command: list[str]) -> str | None:
    """What a program prints, or None if it is not there or fails."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = (done.stdout or done.stderr).strip()
    return text if done.returncode == 0 and text else None


def _ok(good: bool) -> str:
    return "ok" if good else "failed"
