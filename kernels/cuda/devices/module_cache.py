"""Machine code of kernels in files: come with the package (`shipping`), or assembled once and found again.

What is assembled is in the user's cache folder beside the CPU's kernels (``GPUENGINE_CACHE_DIR``), in one
folder for each architecture, compiler and state of the kernels' source. A file's name holds the checksum of
the kernel's name and the content, so one that is torn or damaged, or another kernel's, is passed over and
replaced; so is what another user could have written. A process that finds all its kernels does
not import the compiler.

A GPU that the compiler knows gets a cubin: the driver has nothing to translate, and may be older than the
compiler. A GPU newer than the compiler gets PTX, which its driver translates when it loads it.
"""

from __future__ import annotations

import hashlib
import threading
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from gpuengine.kernels.contract import DeviceUnavailable
from gpuengine.kernels.cpu.code_files import read_code, write_code
from gpuengine.kernels.cpu.jit import cache_directory
from gpuengine.kernels.cuda.devices.assemble import assemble, known_capabilities, to_ptx
from gpuengine.kernels.cuda.devices.shipping import checksum, shipped_cubin, source_digest
from gpuengine.kernels.cuda.spec import DeviceKernel

COMPILERS = (
    "numba",
    "numba-cuda",
    "nvidia-nvvm",
    "nvidia-cuda-nvcc-cu12",
    "nvidia-nvjitlink",
    "nvidia-nvjitlink-cu12",
)
"""The packages that make machine code; CUDA 12 and 13 have different names for them."""

_lock = threading.Lock()


def module_file(kernel: DeviceKernel, capability: tuple[int, int]) -> Path:
    """The file with a kernel's code for a compute capability; made if it is not there.

    Raises `DeviceUnavailable` if there is no compiler.
    """
    with _lock:
        found = shipped_cubin(kernel, capability)
        if found is not None:
            return found
        folder = _folder(capability)
        found = _find(folder, kernel)
        if found is not None:
            return found
        code, kind = _build(kernel, capability)
        name = f"{kernel.name}.{checksum(kernel, code)}.{kind}"
        try:
            write_code(folder / name, code, cache_directory())
            return folder / name
        except OSError:
            # A cache that can't be written only costs the next start.
            scratch = Path(_scratch().name)
            path = scratch / f"sm_{capability[0]}{capability[1]}-{name}"
            write_code(path, code, scratch)
            return path


def compiler_versions() -> tuple[tuple[str, str], ...]:
    """The installed packages of `COMPILERS` with their versions; not those of a system's CUDA toolkit."""
    found = []
    for package in COMPILERS:
        with suppress(PackageNotFoundError):
            found.append((package, version(package)))
    return tuple(found)


@cache
def _digest() -> str:
    """Of the compilers and of the kernels' source."""
    return hashlib.sha256(f"{compiler_versions()} {source_digest()}".encode()).hexdigest()[:24]


def _folder(capability: tuple[int, int]) -> Path:
    return cache_directory() / "cuda" / f"sm_{capability[0]}{capability[1]}-{_digest()}"


@cache
def _scratch() -> TemporaryDirectory[str]:
    """A folder that goes with the process."""
    return TemporaryDirectory(prefix="gpuengine-")


def _find(folder: Path, kernel: DeviceKernel) -> Path | None:
    """The kernel's file, if there is one that is whole."""
    for path in folder.glob(f"{kernel.name}.*.*"):
        code = read_code(path, cache_directory())
        if code is not None and path.name.split(".")[1] == checksum(kernel, code):
            return path
    return None


def _build(kernel: DeviceKernel, capability: tuple[int, int]) -> tuple[bytes, str]:
    """The kernel's code and the kind of it: cubin, or ptx for a GPU that the compiler does not know."""
    try:
        if capability in known_capabilities():
            return assemble(kernel, capability).code, "cubin"
        return to_ptx(kernel, capability).encode(), "ptx"
    except ImportError as error:
        raise DeviceUnavailable(f"the compiler for kernels is missing: {error}") from error
