"""Interval operations of metric time on a device. See `kernels.timeline`.

What is read may lie on the host: lists are sent once and kept on the device until they change
(`Runs.changed`), row numbers are sent with each call. What is made stays on the device; only what `holding`,
`with_new`, `fetched` and `emit` return comes back. The pools that lists are merged into are the host's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuengine.kernels.cpu.timeline import CpuTimeline
from gpuengine.kernels.cuda import timeline_kernels as kernels
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.timeline import Chain, Reader, Runs, Shift


class CudaTimeline(CpuTimeline):
    """See `kernels.timeline.Timeline`; pools are merged and compacted by the host's kernels."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def shift(self, operand: Reader, shift: Shift, p: int, q: int) -> Runs:
        return self._made(len(operand), [(operand, 1)], 0, kernels.timeline_shift, int(shift), p, q)

    def chain(self, left: Reader, right: Reader, chain: Chain, p: int, q: int) -> Runs:
        parts = [(left, 2), (right, 2)]
        return self._made(len(left), parts, 0, kernels.timeline_chain, int(chain), p, q)

    def intersect(self, left: Reader, right: Reader) -> Runs:
        return self._made(len(left), [(left, 1), (right, 1)], 0, kernels.timeline_intersect)

    def complement(self, operand: Reader) -> Runs:
        return self._made(len(operand), [(operand, 1)], 1, kernels.timeline_complement)

    def mark_new(self, runs: Runs, old: Runs) -> None:
        if not self.device.owns(runs.lower):
            super().mark_new(runs, old)
            return
        device = self.device
        if len(runs.flags) != len(runs.lower):
            runs.flags = device.empty(len(runs.lower), np.uint8)
        sent = self._sent(old)
        arrays = (runs.starts, runs.counts, runs.lower, runs.upper, runs.flags)
        before = (sent.starts, sent.counts, sent.lower, sent.upper)
        device.launch(kernels.timeline_mark, len(runs), *arrays, *before)

    def mark_all(self, runs: Runs) -> None:
        if not self.device.owns(runs.lower):
            super().mark_all(runs)
            return
        runs.flags = self.device.full(len(runs.lower), 1, np.uint8)

    def holding(self, runs: Runs) -> np.ndarray:
        if not self.device.owns(runs.counts):
            return super().holding(runs)
        return self.device.read(runs.counts) > 0

    def with_new(self, runs: Runs) -> np.ndarray:
        if not self.device.owns(runs.counts):
            return super().with_new(runs)
        found = self.device.empty(len(runs), np.uint8)
        self.device.launch(kernels.timeline_has_new, len(runs), runs.starts, runs.counts, runs.flags, found)
        return self.device.read(found).astype(np.bool_)

    def fetched(self, runs: Runs) -> Runs:
        if not self.device.owns(runs.lower):
            return super().fetched(runs)
        device = self.device
        counts = device.read(runs.counts)
        offsets = np.zeros(len(counts) + 1, np.uint64)
        np.cumsum(counts, out=offsets[1:])
        total = int(offsets[-1])
        lower, upper = device.empty(total, np.int64), device.empty(total, np.int64)
        device.launch(
            kernels.timeline_pack, len(runs), runs.starts, runs.counts, runs.lower, runs.upper,
            device.upload(offsets), lower, upper,
        )  # fmt: skip
        ends = device.read(lower), device.read(upper)
        return Runs(offsets[:-1].astype(np.int64), counts, *ends, np.zeros(0, np.uint8))

    def emit(
        self, results: Reader, heads: np.ndarray, known: Runs, low: int, high: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        device = self.device
        asked = self._asked(results)
        offsets, total = self._places([(results, 1)], [asked], 0)
        sent = self._sent(known)
        keep = device.full(total, 0, np.uint8)
        rows = device.empty(total, np.uint32)
        lower, upper = device.empty(total, np.int64), device.empty(total, np.int64)
        device.launch(
            kernels.timeline_emit, len(results), *asked, device.upload(heads),
            sent.starts, sent.counts, sent.lower, sent.upper, low, high, offsets, keep, rows, lower, upper,
        )  # fmt: skip
        kept = device.select(keep)
        found = device.empty(len(kept), np.int64), device.empty(len(kept), np.int64)
        for source, target in zip((lower, upper), found, strict=True):
            device.launch(kernels.timeline_gather, len(kept), source, kept, target)
        return device.read(device.gather(rows, kept)), device.read(found[0]), device.read(found[1])

    def _made(
        self, entries: int, parts: list[tuple[Reader, int]], extra: int, kernel: Any, *before: int
    ) -> Runs:
        """What a kernel makes of the lists of each entry; `parts` say how many places each interval needs."""
        device = self.device
        asked = [self._asked(reader) for reader, _ in parts]
        offsets, total = self._places(parts, asked, extra)
        starts, counts = device.empty(entries, np.int64), device.empty(entries, np.int64)
        lower, upper = device.empty(total, np.int64), device.empty(total, np.int64)
        read = [each for one in asked for each in one]
        device.launch(kernel, entries, *before, *read, offsets, starts, counts, lower, upper)
        return Runs(starts, counts, lower, upper, device.empty(0, np.uint8))

    def _places(
        self, parts: list[tuple[Reader, int]], asked: list[tuple[Any, ...]], extra: int
    ) -> tuple[Array, int]:
        """Where the places of each entry begin, and how many there are in all. Waits, to learn that."""
        device = self.device
        room = device.full(len(parts[0][0]), extra, np.uint32)
        for (_, factor), (_, counts, *_, rows) in zip(parts, asked, strict=True):
            device.launch(kernels.timeline_room, len(rows), counts, rows, factor, room)
        offsets = device.offsets(room)
        return offsets, int(device.read(offsets[-1:])[0])

    def _asked(self, reader: Reader) -> tuple[Any, ...]:
        """A reader as kernels take it."""
        runs = self._sent(reader.runs)
        rows = reader.rows if self.device.owns(reader.rows) else self.device.upload(reader.rows)
        return runs.starts, runs.counts, runs.lower, runs.upper, runs.flags, int(reader.choice), rows

    def _sent(self, runs: Runs) -> Runs:
        """Lists in the device's memory."""
        if self.device.owns(runs.lower):
            return runs
        if runs.mirror is None or runs.mirror[0] is not self.device:
            arrays = (runs.starts, runs.counts, runs.lower, runs.upper, runs.flags)
            runs.mirror = self.device, Runs(*(self.device.upload(array) for array in arrays))
        return runs.mirror[1]
