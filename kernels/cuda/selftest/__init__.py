"""The contract suite for a device: every operation on random inputs, held against NumPy and the CPU backend.

It needs nothing but a `Device`, so it runs on a real GPU (``gpuengine doctor --device``), and in the tests on
emulated and on deliberately broken ones. Inputs are the same every time. A check that ends without a
`Mismatch` or an error of the device has passed.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuengine.kernels.contract import DeviceError, DeviceMemoryError, DeviceUnavailable
from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.primitives import CudaPrimitives

DEFAULT_SIZE = 200_000
"""Rows in the large inputs: enough that all parts of a GPU are busy."""
_EDGES = (0, 1, 2, 31, 32, 33, 255, 256, 257)
"""Sizes around warps and blocks."""


class Mismatch(Exception):
    """The device gave something else than it should; the message says what."""


_FAILURES = (
    Mismatch,
    DeviceError,
    DeviceMemoryError,
    DeviceUnavailable,
    ArithmeticError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


class Kit:
    """What a check works with: a device, the backend and the primitives on it, and its own random numbers."""

    def __init__(self, device: Device, name: str, size: int) -> None:
        self.device = device
        self.backend = CudaBackend(device)
        self.primitives = CudaPrimitives(device)
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.size = size

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes worth trying: those around warps and blocks, and a large one."""
        return (*(size for size in _EDGES if size < self.size), self.size)

    def ids(self, count: int, end: int, low: int = 0) -> np.ndarray:
        """Random ids in [low, end)."""
        return self.random.integers(low, end, count, dtype=np.uint32)

    def keys(self, count: int) -> np.ndarray:
        """Random keys of 64 bits, with the extreme ones among them."""
        keys = self.random.integers(0, 2**64, count, dtype=np.uint64, endpoint=False)
        extremes = np.array([0, 2**64 - 1, 2**63, 2**63 - 1], np.uint64)
        keys[: min(count, 4)] = extremes[: min(count, 4)]
        return keys

    def fetch(self, array: Array) -> np.ndarray:
        """A device array on the host."""
        return self.device.download(array)


@dataclass(frozen=True, slots=True)
class Check:
    """One named check; it raises if the device does not do what it should."""

    name: str
    run: Callable[[Kit], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a check ended; `message` says what went wrong."""

    name: str
    passed: bool
    seconds: float
    message: str = ""


def expect(found: Any, expected: Any, what: str) -> None:
    """Raise `Mismatch` unless two arrays are equal in size and content."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise Mismatch(f"{what}: {found.shape} elements, {expected.shape} expected")
    wrong = np.flatnonzero(found.ravel() != expected.ravel())
    if len(wrong):
        place = int(wrong[0])
        raise Mismatch(
            f"{what}: {len(wrong):,} of {found.size:,} elements differ, first at {place}: "
            f"{found.ravel()[place]} for {expected.ravel()[place]}"
        )


def all_checks() -> list[Check]:
    """Every check, in the order in which they run: what others stand on comes first."""
    from gpuengine.kernels.cuda.selftest import (
        calculations,
        groups,
        joins,
        pipelines,
        positions,
        removals,
        rounds,
        storage,
        timelines,
    )

    first = [
        *storage.CHECKS,
        *pipelines.CHECKS,
        *removals.CHECKS,
        *calculations.CHECKS,
        *groups.CHECKS,
        *joins.CHECKS,
    ]
    return [*first, *rounds.CHECKS, *positions.CHECKS, *timelines.CHECKS]


def run_checks(
    device: Device, *, size: int = DEFAULT_SIZE, before: Callable[[str], None] = lambda name: None
) -> Iterator[Outcome]:
    """Run all checks on a device; `before` is called with the name of each before it begins."""
    device.bind_thread()
    for check in all_checks():
        before(check.name)
        yield run_check(check, device, size)


def run_check(check: Check, device: Device, size: int = DEFAULT_SIZE) -> Outcome:
    """Run one check."""
    started = time.perf_counter()
    message = ""
    try:
        check.run(Kit(device, check.name, size))
    except _FAILURES as error:
        message = str(error) if isinstance(error, Mismatch) else f"{type(error).__name__}: {error}"
    return Outcome(check.name, not message, time.perf_counter() - started, message)
