"""The device beside the host that an engine may use, opened when it is first wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuengine.errors import BackendError
from gpuengine.evaluation.thresholds import Thresholds, load_thresholds, stored_thresholds
from gpuengine.kernels.contract import Backend, DeviceUnavailable, PackageMissing

_EVIDENCE = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/usr/lib/wsl/lib/libcuda.so.1")
_HINT = "  hint: `gpuengine doctor` says what is missing; --backend cpu works without a GPU"


class Accelerator:
    """None, one that is given, or one that `open` opens: once, and only if it is wanted.

    `thresholds` are those of the device once it is open; before, those that decide whether it is
    wanted. `unavailable` says why it could not be opened.
    """

    def __init__(
        self,
        backend: Backend | None = None,
        thresholds: Thresholds | None = None,
        opener: Callable[[], Backend] | None = None,
    ) -> None:
        self.backend = backend
        self.unavailable: str | None = None
        self._opener = opener
        self._given = thresholds
        self.thresholds = thresholds or self._known_thresholds()

    @property
    def is_possible(self) -> bool:
        """Is there one, or may there be one?"""
        return self.backend is not None or self._opener is not None

    def open(self) -> Backend | None:
        """The device; None if it turns out that it can't be used. Raises nothing."""
        if self.backend is None and self._opener is not None:
            opener, self._opener = self._opener, None
            try:
                self.backend = opener()
            except DeviceUnavailable as error:
                self.unavailable = str(error)
            else:
                self.thresholds = self._given or self._known_thresholds()
        return self.backend

    def _known_thresholds(self) -> Thresholds:
        """The device's own; of one that is not open yet, the lowest at which some device was wanted."""
        if self.backend is not None:
            return load_thresholds(self.backend.device_name)
        defaults = Thresholds()
        if self._opener is None:
            return defaults
        known = [defaults, *stored_thresholds().values()]
        return replace(
            defaults,
            auto_facts=min(each.auto_facts for each in known),
            large_delta=min(each.large_delta for each in known),
        )


def find_accelerator(
    backend: str | Backend, device: int, memory: int | None, thresholds: Thresholds | None
) -> Accelerator:
    """What an engine may use beside the host, by the name of a backend: ``auto``, ``cpu`` or ``cuda``.

    ``cuda`` opens the device at once and raises `BackendError` if that can't be done. ``auto`` imports and
    opens nothing before a device is wanted, and never fails.
    """
    if not isinstance(backend, str):
        if not hasattr(backend, "bind_thread"):
            raise BackendError(f"no backend {backend!r}; choose auto, cpu or cuda")
        return Accelerator(backend, thresholds)
    if backend not in ("auto", "cpu", "cuda"):
        raise BackendError(f"no backend {backend!r}; choose auto, cpu or cuda")
    if backend == "cpu" or (backend == "auto" and not gpu_present()):
        return Accelerator(None, thresholds or Thresholds())

    def opener() -> Backend:
        return _open_cuda(device, memory)

    if backend == "auto":
        return Accelerator(None, thresholds, opener)
    try:
        return Accelerator(opener(), thresholds)
    except DeviceUnavailable as error:
        raise BackendError(f"the cuda backend can't be used: {explain(error)}\n{_HINT}") from error


def explain(error: DeviceUnavailable) -> str:
    """Why there is no device: what is missing first comes first, so that nobody installs packages in vain."""
    if isinstance(error, PackageMissing) and not gpu_present():
        return f"no NVIDIA driver was found in this machine; besides, {error}"
    return str(error)


def gpu_present() -> bool:
    """Is there a sign of an NVIDIA driver? Looks at a few files only."""
    if sys.platform == "win32":
        return (Path(os.environ.get("SYSTEMROOT", "C:/Windows")) / "System32" / "nvcuda.dll").exists()
    return any(Path(path).exists() for path in _EVIDENCE)


def _open_cuda(device: int, memory: int | None) -> Backend:
    from gpuengine.kernels.cuda.backend import open_device

    opened: Backend = open_device(device, memory)
    return opened
