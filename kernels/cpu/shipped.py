"""Kernels that came compiled with the package: a shared library for each level of processor.

A wheel has them if it was built so (`shipping`); a clone has none. They are code of the package as its
modules are: whoever may write the one may write the other, so nothing else is checked. They need neither
numba nor llvmlite. What is not in there, or of no level that this processor has, is compiled and cached
(`jit`).
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("compiled")
_V2 = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"}
LEVELS: dict[str, dict[str, frozenset[str]]] = {
    "x86_64": {"x86-64-v3": _V3, "x86-64-v2": _V2},
    "aarch64": {"generic": frozenset()},
}
"""For each machine the levels by LLVM's names, best first, with what each needs by Linux's."""


def symbol_of(name: str) -> str:
    """What a kernel is called in the libraries."""
    return f"gpuengine_{name.replace('.', '__')}"


def address_of(name: str) -> int | None:
    """Where a kernel's compiled code is; None if none came for this machine."""
    library = _library()
    if library is None:
        return None
    try:
        return ctypes.cast(library[symbol_of(name)], ctypes.c_void_p).value
    except AttributeError:
        return None


def level() -> str | None:
    """The best level that this processor has and the package brings a library for."""
    if sys.platform != "linux" or not FOLDER.is_dir():
        return None
    brought = {path.stem for path in FOLDER.glob("*.so")}
    levels = LEVELS.get(platform.machine(), {})
    present = _features() if any(levels.values()) else frozenset()
    return next((one for one, needed in levels.items() if one in brought and needed <= present), None)


@cache
def _library() -> ctypes.CDLL | None:
    highest = level()
    if highest is None:
        return None
    try:
        return ctypes.CDLL(str(FOLDER / f"{highest}.so"))
    except OSError:  # for another system, or damaged: as if there were none
        return None


def _features() -> frozenset[str]:
    """What the first processor has, as Linux tells."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()
