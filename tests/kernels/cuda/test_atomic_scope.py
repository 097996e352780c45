"""Atomics reach as far as the device and no further, on every architecture: read from the machine code.

A compare-and-swap between all devices and the host is far slower, and what the compiler makes of one if
nobody says that it need not be (see `assemble`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from gpuengine.kernels.cuda.catalogue import KERNELS
from gpuengine.kernels.cuda.devices import assemble as assemble_module
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES, assemble
from gpuengine.kernels.cuda.spec import DeviceKernel

#: Between them they have every atomic operation.
CHOSEN = ("insert_bits", "insert_keys", "insert_matches")


def disassembler() -> str:
    """Where nvdisasm is: of its package, or of a CUDA toolkit."""
    try:
        for file in files("nvidia-cuda-nvdisasm") or ():
            if file.name in ("nvdisasm", "nvdisasm.exe"):
                return str(file.locate())
    except PackageNotFoundError:
        pass
    found = shutil.which("nvdisasm")
    assert found is not None, "pip install nvidia-cuda-nvdisasm: it is one of the test dependencies"
    return found


def atomics(kernel: DeviceKernel, capability: tuple[int, int], folder: Path) -> list[str]:
    """The atomic instructions of a kernel's machine code, with all that qualifies them."""
    file = folder / f"{kernel.name}.cubin"
    file.write_bytes(assemble(kernel, capability).code)
    done = subprocess.run([disassembler(), "-c", file], capture_output=True, text=True, check=True)
    return re.findall(r"\b(?:ATOM|RED)\w*(?:\.\w+)+", done.stdout)


@pytest.mark.parametrize("capability", ARCHITECTURES, ids=lambda one: "sm_{}{}".format(*one))
def test_atomics_are_the_devices(capability: tuple[int, int], tmp_path: Path) -> None:
    for name in CHOSEN:
        found = atomics(KERNELS[name], capability, tmp_path)
        assert found, f"{name} has no atomic instruction"
        assert all(".STRONG.GPU" in one for one in found), (name, found)
    assert any(".CAS.64" in one for one in atomics(KERNELS["insert_keys"], capability, tmp_path))


@pytest.mark.parametrize("capability", [(10, 0), (12, 0)], ids=lambda one: "sm_{}{}".format(*one))
def test_the_compiler_would_have_them_reach_further(
    capability: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the compiler has learnt it, and `_within_device` is no longer needed."""
    monkeypatch.setattr(assemble_module, "_within_device", lambda ptx: ptx)
    assemble_module._compile.cache_clear()
    try:
        found = atomics(KERNELS["insert_keys"], capability, tmp_path)
    finally:
        assemble_module._compile.cache_clear()
    assert any(".STRONG.SYS" in one for one in found)
