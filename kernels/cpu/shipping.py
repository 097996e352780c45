"""Compile kernels ahead, into the shared libraries that `shipped` loads. Building a wheel calls it.

Each kernel is translated once and optimised for each level. The libraries need no others: what LLVM itself
calls (memcpy and the like) is the C library's, which every Python has loaded.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuengine.kernels.cpu import all_kernels
from gpuengine.kernels.cpu.jit import Kernel, object_code, translate
from gpuengine.kernels.cpu.shipped import LEVELS, symbol_of


class CannotShip(Exception):
    """Kernels can't be compiled ahead here; the message says why."""


def kernels_named(names: Sequence[str]) -> list[Kernel]:
    """All kernels that programs can ask for, or those named."""
    every = {one.name: one for one in all_kernels()}
    unknown = sorted(set(names) - set(every))
    if unknown:
        raise CannotShip(f"there is no kernel {', '.join(unknown)}")
    return [every[name] for name in names] or list(every.values())


def build_libraries(folder: Path, kernels: Sequence[Kernel]) -> list[Path]:
    """A library for each level of this machine, with all of `kernels`, in `folder`."""
    levels = LEVELS.get(platform.machine(), {})
    linker = shutil.which("ld")
    if sys.platform != "linux" or not levels:
        raise CannotShip(f"no levels are known of {sys.platform} on {platform.machine()}")
    if linker is None:
        raise CannotShip("there is no linker: install binutils")
    machines = {level: _machine(level) for level in levels}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for kernel in kernels:
            translated, symbol = translate(kernel)
            for level, machine in machines.items():
                code = _object_file(translated, symbol, symbol_of(kernel.name), machine)
                (work / f"{kernel.name}.{level}.o").write_bytes(code)
        return [_link(linker, level, kernels, work, folder) for level in levels]


def _machine(level: str) -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(cpu=level, features="", opt=3, reloc="pic", codemodel="small")


def _object_file(translated: Any, symbol: str, name: str, machine: Any) -> bytes:
    from llvmlite import binding

    module = binding.parse_bitcode(translated.as_bitcode())
    for function in module.functions:
        if not function.is_declaration and function.name != symbol:
            function.linkage = "internal"  # so that what is inlined everywhere goes
    module.get_function(symbol).name = name
    return object_code(module, machine)


def _link(linker: str, level: str, kernels: Sequence[Kernel], work: Path, folder: Path) -> Path:
    """One library of one level; only the kernels can be seen from outside."""
    exported = work / "exported"
    names = "".join(f"{symbol_of(kernel.name)};" for kernel in kernels)
    exported.write_text(f"{{ global: {names} local: *; }};\n")
    library = folder / f"{level}.so"
    objects = [str(work / f"{kernel.name}.{level}.o") for kernel in kernels]
    options = ["-shared", "--gc-sections", "--strip-all", "-z", "noexecstack", "-z", "relro", "-z", "now"]
    command = [linker, *options, f"--version-script={exported}", "-o", str(library), *objects]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotShip(f"the linker fails: {done.stderr.strip()}")
    return library
