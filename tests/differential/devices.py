"""Engines whose rules all run on a CUDA device that needs no GPU."""

from __future__ import annotations

from typing import Any

from gpuengine.evaluation.thresholds import Thresholds
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from tests.kernels.cuda.simulator import SimulatedDevice

#: Every stratum starts on the device and stays there.
EVERYWHERE = Thresholds(auto_facts=0, small_delta=0, large_delta=0)
#: A stratum changes between the host and the device before each of its rounds.
BACK_AND_FORTH = Thresholds(
    auto_facts=0,
    small_delta=1 << 60,
    large_delta=0,
    transfer_bytes_per_microsecond=float("inf"),
    rebuild_rows_per_microsecond=float("inf"),
)


def emulated(budget: int | None = None, chunk_items: int | None = None) -> CudaBackend:
    """Kernels compiled for the host and run by two of its threads."""
    device = EmulatedDevice(2, budget)
    if chunk_items is not None:
        device.chunk_items = chunk_items
    return CudaBackend(device)


def simulated(seed: int = 0) -> CudaBackend:
    """Kernels in numba's simulator; few threads, because each costs time."""
    return CudaBackend(SimulatedDevice(4, 2, seed))


def on(backend: CudaBackend, thresholds: Thresholds = EVERYWHERE) -> dict[str, Any]:
    """The options of an engine that uses a device."""
    return {"backend": backend, "thresholds": thresholds, "threads": 2}
