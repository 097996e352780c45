"""What pyproject.toml can't say: a wheel may bring compiled kernels, and is then one for its platform.

``GPUENGINE_WHEEL_KERNELS=all`` asks for it (``make wheel`` does), or names of kernels with commas between.
The build then needs numba, which pip brings to it, and a linker.
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


class BuildWithKernels(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = Path(self.build_lib, "gpuengine/kernels/cpu/compiled")
        shutil.rmtree(folder, ignore_errors=True)  # an earlier build's, of other sources
        if WANTED:
            sys.path.insert(0, str(ROOT))
            from gpuengine.kernels.cpu.shipping import build_libraries, kernels_named

            build_libraries(folder, kernels_named([] if WANTED == "all" else WANTED.split(",")))


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
    setup_requires=["numba>=0.61"] if WANTED else [],
)
