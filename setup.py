"""What pyproject.toml can't say: a wheel may bring compiled kernels, and is then one for its platform.

``GPUENGINE_WHEEL_KERNELS=all`` asks for it (``make wheel`` does), or names of kernels with commas between,
where those of GPUs begin with ``cuda.``. The build then needs a linker, and numba and numba-cuda, which pip
brings to it; no GPU.
"""

import os
import platform
import shutil
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
WANTED = os.environ.get("GPUENGINE_WHEEL_KERNELS", "")
ON_DEVICE = [name.removeprefix("cuda.") for name in WANTED.split(",") if name.startswith("cuda.")]
ON_HOST = [name for name in WANTED.split(",") if not name.startswith("cuda.")]


class BuildWithKernels(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        host, device = (
            Path(self.build_lib, f"gpuengine/kernels/{kind}/compiled") for kind in ("cpu", "cuda")
        )
        for folder in (host, device):
            shutil.rmtree(folder, ignore_errors=True)  # an earlier build's, of other sources
        if WANTED:
            sys.path.insert(0, str(ROOT))
            from gpuengine.kernels.cpu.shipping import build_libraries, kernels_named

            build_libraries(host, kernels_named([] if WANTED == "all" else ON_HOST))
            if WANTED == "all" or ON_DEVICE:
                from gpuengine.kernels.cuda.devices.shipping import build_cubins, device_kernels_named

                build_cubins(device, device_kernels_named(ON_DEVICE))


class PlatformWheel(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        """Any Python, as nothing is linked to it; any Linux of this machine that its dependencies run on."""
        if not WANTED:
            return super().get_tag()
        return "py3", "none", f"manylinux_2_17_{platform.machine()}"


class WithKernels(Distribution):
    def has_ext_modules(self) -> bool:
        """Machine code is inside, though none of Python's."""
        return bool(WANTED) or super().has_ext_modules()


setup(
    distclass=WithKernels,
    cmdclass={"build_py": BuildWithKernels, "bdist_wheel": PlatformWheel},
    setup_requires=[
        *(["numba>=0.61"] if WANTED else []),
        *(["numba-cuda[cu13]>=0.30"] if WANTED == "all" or ON_DEVICE else []),
    ],
)
