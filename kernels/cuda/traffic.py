"""What a run asks of a device's memory: bytes, launches and waits, counted while it runs.

Beside them stands what the host takes to ask for it: processor time of the thread that does, less what it
spends on doing the device's work in its place.

Bytes are counted as a device without caches moves them: what a kernel declares for each of its items, and
for library operations the passes of the implementation that `cupy_calls` leads to:

- fill, copy: what is written; what is read and written. One kernel.
- sort: 19 times the keys' bytes in 11 kernels. CuPy copies; then CUB's Onesweep (Adinets and Merrill,
  "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs", 2022) reads the keys once for all
  histograms, and reads and writes them for each of 8 digits. Up to `ONE_TILE` keys: 4 times, in 2 kernels.
- scan: 28 bytes an element in 4 kernels. CuPy casts to uint64; then CUB's scan reads and writes once (Merrill
  and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016).
- select: 4 bytes a flag and 20 a result in 5 kernels. CuPy's `nonzero` tests, sums by chunk, scans the sums
  and writes 64-bit positions, which are cast.
- reduce: the column twice, for the least and the greatest. Two kernels.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import get_ident
from time import thread_time
from typing import Any

import numpy as np

from gpuengine.kernels.cuda.backend import CudaBackend
from gpuengine.kernels.cuda.devices.device import Array, Prepared
from gpuengine.kernels.cuda.devices.emulated import EmulatedDevice
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.cuda.spec import DeviceKernel

SECTOR = 32
"""Bytes that a GPU fetches from memory for an access to a place of its own."""
ONE_TILE = 2304
"""Up to so many 64-bit keys CUB sorts in one block."""


@dataclass
class Span:
    """What was asked for a while; bytes `moved` within the device, `sent` and `fetched` over the bus.

    `host_seconds` are what the host took to ask for it, on the machine that emulates the device.
    """

    kernels: int = 0
    moved: int = 0
    sent: int = 0
    fetched: int = 0
    waits: int = 0
    host_seconds: float = 0.0

    def add(self, other: Span) -> None:
        self.kernels += other.kernels
        self.moved += other.moved
        self.sent += other.sent
        self.fetched += other.fetched
        self.waits += other.waits
        self.host_seconds += other.host_seconds

    @property
    def is_empty(self) -> bool:
        return self == Span()


@dataclass
class Traffic:
    """All that was asked: span by span between waits, round by round, and in bytes by operation."""

    spans: list[Span] = field(default_factory=list)
    rounds: list[Span] = field(default_factory=list)
    moved: Counter[str] = field(default_factory=Counter)


class Emulation:
    """Adds up the `seconds` of the processor that a thread spends within, however often it enters."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._entered = 0.0

    def __enter__(self) -> None:
        if not self._depth:
            self._entered = thread_time()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self.seconds += thread_time() - self._entered


class MeteredDevice(EmulatedDevice):
    """An emulated device that counts its traffic."""

    name = "metered"

    def __init__(self, threads: int | None = None, budget: int | None = None) -> None:
        super().__init__(threads, budget)
        self.traffic = Traffic()
        self._span = Span()
        self._round = Span()
        self._emulation = Emulation()
        self._began = self._time()

    def end_round(self) -> None:
        """What comes is of the next round."""
        self._flush()
        if not self._round.is_empty:
            self.traffic.rounds.append(self._round)
            self._round = Span()

    def finish(self) -> Traffic:
        """All that was counted."""
        self.end_round()
        return self.traffic

    def upload(self, host: np.ndarray) -> Array:
        self._span.sent += host.nbytes
        return super().upload(host)

    def _empty(self, count: int, dtype: Any) -> Array:
        with self._emulation:
            return super()._empty(count, dtype)

    def _upload(self, host: np.ndarray) -> Array:
        with self._emulation:
            return super()._upload(host)

    def _launch(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> None:
        self._move(kernel.name, items * (kernel.streamed + SECTOR * kernel.random), 1)
        with self._emulation:
            super()._launch(kernel, items, args)

    def _prepare(self, kernel: DeviceKernel, items: int, args: tuple[Any, ...]) -> Prepared:
        with self._emulation:  # which may compile it
            begin = super()._prepare(kernel, items, args)

        def launch() -> None:
            self._move(kernel.name, 0, 1)
            with self._emulation:
                begin()

        return launch

    def count_work(self, kernel: DeviceKernel, items: int) -> None:
        super().count_work(kernel, items)
        moved = items * (kernel.streamed + SECTOR * kernel.random)
        self.traffic.moved[kernel.name] += moved
        # It was done before the wait that told of it.
        self.traffic.spans[-1].moved += moved
        self._round.moved += moved

    def _fill(self, array: Array, value: int) -> None:
        self._move("fill", array.nbytes, 1)
        with self._emulation:
            super()._fill(array, value)

    def _copy(self, target: Array, source: Array) -> None:
        self._move("copy", 2 * target.nbytes, 1)
        with self._emulation:
            super()._copy(target, source)

    def _sort(self, keys: Array) -> Array:
        if len(keys) <= ONE_TILE:
            self._move("sort", 4 * keys.nbytes, 2)
        else:
            digits = keys.itemsize
            self._move("sort", (2 + 1 + 2 * digits) * keys.nbytes, 3 + digits)
        with self._emulation:
            return super()._sort(keys)

    def _offsets(self, counts: Array) -> Array:
        self._move("scan", counts.nbytes + 3 * 8 * len(counts), 4)
        with self._emulation:
            return super()._offsets(counts)

    def _select(self, flags: Array) -> Array:
        with self._emulation:
            selected = super()._select(flags)
        self._move("select", 4 * flags.nbytes + 20 * len(selected), 5)
        self._waited(8)
        return selected

    def _least_and_greatest(self, column: Array) -> tuple[int, int]:
        self._move("reduce", 2 * column.nbytes, 2)
        self._waited(2 * column.itemsize)
        with self._emulation:
            return super()._least_and_greatest(column)

    def _download(self, array: Array) -> np.ndarray:
        self._waited(array.nbytes)
        with self._emulation:
            return super()._download(array)

    def _wait(self) -> None:
        self._waited(0)
        with self._emulation:
            super()._wait()

    def _wait_for_others(self) -> None:
        self._waited(0)
        with self._emulation:
            super()._wait_for_others()

    def _spill(self, array: Array) -> Any:
        self._span.fetched += array.nbytes
        with self._emulation:
            return super()._spill(array)

    def _restore(self, spilled: Any) -> Array:
        self._span.sent += spilled.nbytes
        with self._emulation:
            return super()._restore(spilled)

    def _move(self, operation: str, nbytes: int, kernels: int) -> None:
        self._span.moved += nbytes
        self._span.kernels += kernels
        self.traffic.moved[operation] += nbytes

    def _waited(self, fetched: int) -> None:
        self._span.fetched += fetched
        self._span.waits += 1
        self._flush()

    def _flush(self) -> None:
        now = self._time()
        if not self._span.is_empty:
            if now[0] == self._began[0]:
                self._span.host_seconds = now[1] - self._began[1]
            self.traffic.spans.append(self._span)
            self._round.add(self._span)
            self._span = Span()
        self._began = now

    def _time(self) -> tuple[int, float]:
        """Which thread asks, and for how long it has run but for what it did in the device's place."""
        return get_ident(), thread_time() - self._emulation.seconds


class _MarkedRows(Rows):
    """Rows that tell their device when a round of their relation is over."""

    device: MeteredDevice

    def advance(self) -> int:
        self.device.end_round()
        return super().advance()

    def settle(self) -> None:
        self.device.end_round()
        super().settle()


class MeteredBackend(CudaBackend):
    """The CUDA backend on a metered device."""

    device: MeteredDevice

    def __init__(self, device: MeteredDevice) -> None:
        super().__init__(device)

    def rows(self, arity: int, capacity: int = 0) -> Rows:
        return _MarkedRows(self.device, arity, capacity)
