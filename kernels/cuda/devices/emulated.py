"""Kernels compiled for the host and run by its threads: slow for a GPU, fast for a test.

The same source goes through the same type inference as for a GPU, and several threads at once use the
same atomics on the same memory, so whole workloads run here, with their races.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

from gpuengine.kernels.cpu.jit import Kernel, device, intrinsic_of, source_contents
from gpuengine.kernels.cuda.atomics import compiled_atomics
from gpuengine.kernels.cuda.devices.device import HostArrays, Prepared
from gpuengine.kernels.cuda.spec import AtomicOperation, DeviceKernel, bind, entry_point

_ENTRY = """
def {name}(_item, _end, {parameters}):
    while _item < _end:
        body(_item, {parameters})
        _item += 1
    return 0
"""
_PIECE = 1 << 12


class EmulatedDevice(HostArrays):
    """A device of `threads` host threads."""

    name = "emulated"

    def __init__(self, threads: int | None = None, budget: int | None = None) -> None:
        super().__init__(budget)
        self.threads = threads or os.cpu_count() or 1
        self.concurrency = self.threads
        self._pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        run = host_kernel(kernel)
        if self._pool is None or items < 2 * _PIECE:
            run(0, items, *args)
            return
        piece = max(_PIECE, items // (8 * self.threads))
        spans = [(start, min(start + piece, items)) for start in range(0, items, piece)]
        list(self._pool.map(lambda span: run(*span, *args), spans))

    def _prepare(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> Prepared:
        """Workers take turns: they are as many as threads, and a round should not wait for those to start."""
        return host_kernel(kernel).prepare(0, items, *args)


@cache
def host_kernel(kernel: DeviceKernel) -> Kernel:
    """The kernel compiled for the host: call it with the first item, the end, and the arguments."""
    made: dict[int, Any] = {}
    body = device(bind(kernel.body, _marked_atomics(), device, made))
    entry = entry_point(kernel, _ENTRY, {"body": body, "__name__": f"emulated_{_source_digest()}"})
    _kept.append((body, made))
    return Kernel(entry, f"i8(i8, i8, {', '.join(kernel.signature)})")


@cache
def _source_digest() -> str:
    """Part of the kernels' names in the cache, which knows the sources of the CPU backend only."""
    digest = hashlib.sha256()
    for content in source_contents(Path(__file__).parents[1], below=True):
        digest.update(content)
    return digest.hexdigest()[:16]


_kept: list[Sequence[Any]] = []
"""Functions are known to the compiler by identity: they must outlive it."""


@cache
def _marked_atomics() -> dict[str, Any]:
    """Stand-ins for the atomics that the compiler replaces when it meets them."""
    from gpuengine.kernels.cuda import atomics

    found = [value for value in vars(atomics).values() if isinstance(value, AtomicOperation)]
    return {each.name: intrinsic_of(partial(_intrinsic, each.name))(each.body) for each in found}


def _intrinsic(name: str) -> Any:
    return _intrinsics()[name]


@cache
def _intrinsics() -> dict[str, Any]:
    from numba import types
    from numba.extending import intrinsic

    return compiled_atomics(intrinsic, types.int64)
