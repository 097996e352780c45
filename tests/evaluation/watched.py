"""A device that remembers what it sent to the host: sizes, and whatever else."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpuengine as ge
from gpuengine.evaluation.host_work import HostEntry
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.device import Array
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from tests.evaluation.accelerator import EVERYWHERE

SIZES = 16
"""Bytes of the sizes, bounds and flags that the host waits for, at most."""


class WatchedDevice(EmulatedDevice):
    """`sent` are the bytes of every transfer to the host of more than sizes."""

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.sent: list[int] = []

    def _download(self, array: Array) -> np.ndarray:
        if array.nbytes > SIZES:
            self.sent.append(array.nbytes)
        return super()._download(array)

    def _spill(self, array: Array) -> Any:
        self.sent.append(array.nbytes)
        return super()._spill(array)


class Watched:
    """An engine wholly on such a device, materialised over some facts."""

    def __init__(self, program: str, facts: dict[str, list[tuple[Any, ...]]], **options: Any) -> None:
        self.device = WatchedDevice()
        backend = CudaBackend(self.device)
        self.engine = ge.Engine(program, backend=backend, thresholds=EVERYWHERE, threads=1, **options)
        for name, rows in facts.items():
            self.engine.load(name, rows)
        self.engine.materialise()
        self.sent = list(self.device.sent)
        assert self.engine.progress is not None
        self.host_work: tuple[HostEntry, ...] = self.engine.progress.host_work.entries

    @property
    def derived_by_host(self) -> list[tuple[str, str, int]]:
        """What the host did of what the program asks for."""
        return [
            (str(entry.operation), entry.of, entry.rows)
            for entry in self.host_work
            if entry.operation.derives
        ]
