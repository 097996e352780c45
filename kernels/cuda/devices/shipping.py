"""Machine code of kernels that comes with the package, for every architecture in `ARCHITECTURES`.

A wheel has it if it was built so (`build_cubins`); a clone has none. It is in a folder named by the digest of
the kernels' source, so that it is passed over when any of that is another, and below it one folder for
each architecture. It is code of the package as its modules are: whoever may write the one may write the
other, so nothing is checked but that a file is whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from gpuengine.kernels.cpu.jit import source_contents
from gpuengine.kernels.cuda.devices.assemble import ARCHITECTURES, assemble
from gpuengine.kernels.cuda.spec import KERNELS, DeviceKernel

FOLDER = Path(__file__).parents[1] / "compiled"


def device_kernels_named(names: Sequence[str]) -> list[DeviceKernel]:
    """All kernels, or those named. Raises `KeyError`."""
    from gpuengine.kernels.cuda import catalogue

    assert catalogue.MODULES
    return [KERNELS[name] for name in names or sorted(KERNELS)]


def build_cubins(folder: Path, kernels: Sequence[DeviceKernel]) -> list[Path]:
    """Assemble kernels for every architecture, into `folder`, which takes the place of `FOLDER`."""
    made = []
    for kernel in kernels:
        for capability in ARCHITECTURES:
            code = assemble(kernel, capability).code
            path = _folder(folder, capability) / f"{kernel.name}.{checksum(kernel, code)}.cubin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(code)
            made.append(path)
    return made


def shipped_cubin(kernel: DeviceKernel, capability: tuple[int, int]) -> Path | None:
    """The kernel's file for a GPU of a compute capability; None if none came that is whole and fits.

    Machine code runs on the architecture it is for, and on later ones with the same first number.
    """
    fitting = [one for one in ARCHITECTURES if one[0] == capability[0] and one <= capability]
    for architecture in reversed(fitting):
        for path in _folder(FOLDER, architecture).glob(f"{kernel.name}.*.cubin"):
            if path.name.split(".")[1] == checksum(kernel, path.read_bytes()):
                return path
    return None


def checksum(kernel: DeviceKernel, code: bytes) -> str:
    """What a file's name has of a kernel's code."""
    return hashlib.sha256(kernel.name.encode() + b"\0" + code).hexdigest()[:32]


@cache
def source_digest() -> str:
    """Of every file that a kernel's code could come from."""
    digest = hashlib.sha256()
    for content in source_contents(Path(__file__).parents[2], below=True):
        digest.update(content)
    return digest.hexdigest()[:24]


def _folder(folder: Path, architecture: tuple[int, int]) -> Path:
    return folder / source_digest() / f"sm_{architecture[0]}{architecture[1]}"
