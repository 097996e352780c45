"""A device that runs a sample of each kernel's items in Python and counts the memory that they touch.

Items run in warps of 32. What a warp reads, and what it writes, is counted in sectors of 32 bytes, each once:
that is what a GPU moves for it if its caches hold no more than a warp needs at a time.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from gpuengine.kernels.cuda.devices.device import Prepared
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice, host_kernel
from gpuengine.kernels.cuda.spec import DeviceKernel

WARP = 32
SECTOR = 32
LEAST_ITEMS = 2 * WARP
"""Smaller launches are not sampled: their arrays are too small to tell streams from random places."""
WARPS_OF_A_LAUNCH = 3
WARPS_OF_A_KERNEL = 90

_SCALARS = {"i8": np.int64, "u8": np.uint64}


class CountedArray:
    """An array that notes the sectors that are read and written."""

    def __init__(self, array: np.ndarray, read: set[int], written: set[int]) -> None:
        self.array, self._read, self._written = array, read, written
        self._address, self._step = array.ctypes.data, array.itemsize

    def __getitem__(self, index: int) -> Any:
        assert 0 <= index < len(self.array)
        self._read.add((self._address + int(index) * self._step) // SECTOR)
        return self.array[index]

    def __setitem__(self, index: int, value: Any) -> None:
        assert 0 <= index < len(self.array)
        self._written.add((self._address + int(index) * self._step) // SECTOR)
        self.array[index] = value


class CountingDevice(EmulatedDevice):
    """Counts in `moved` the bytes of the items in `sampled`, by kernel."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__(threads=1)
        self.concurrency = WARPS_OF_A_LAUNCH * WARP
        self.sampled: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        done = 0
        if items >= LEAST_ITEMS and self.sampled[kernel.name] < WARPS_OF_A_KERNEL * WARP:
            warps = min(WARPS_OF_A_LAUNCH, items // WARP - 1)
            for number in range(warps):
                first = (items - WARP) * (2 * number + 1) // (2 * warps) // WARP * WARP
                host_kernel(kernel)(done, first, *args)
                self._count(kernel, first, args)
                self.sampled[kernel.name] += WARP
                done = first + WARP
        host_kernel(kernel)(done, items, *args)

    def _prepare(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> Prepared:
        """All workers run in Python, in warps; what they did is told afterwards."""

        def launch() -> None:
            for first in range(0, items, WARP):
                self._count(kernel, first, args, min(WARP, items - first))

        return launch

    def count_work(self, kernel: DeviceKernel, items: int) -> None:
        super().count_work(kernel, items)
        self.sampled[kernel.name] += items

    def _count(self, kernel: DeviceKernel, first: int, args: tuple[Any, ...], items: int = WARP) -> None:
        read: set[int] = set()
        written: set[int] = set()
        counted = [
            _SCALARS[code](argument) if code in _SCALARS else CountedArray(argument, read, written)
            for code, argument in zip(kernel.signature, args, strict=True)
        ]
        with np.errstate(over="ignore"):
            for item in range(first, first + items):
                kernel.body(np.int64(item), *counted)
        self.moved[kernel.name] += SECTOR * (len(read) + len(written))
