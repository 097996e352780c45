"""The last probe of an inserting pipeline in one kernel, where it fits: expand, check, insert, append."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuengine.kernels.contract import IGNORE, IndexProbe, Insert
from gpuengine.kernels.cuda.devices.device import Array, Device
from gpuengine.kernels.cuda.expansion import Found
from gpuengine.kernels.cuda.join_kernels import TILE, expand_and_insert, pack_shape
from gpuengine.kernels.cuda.keyset import KeySet
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.cuda.set_kernels import BITMAP, WIDE

_MOST_COLUMNS = 4
_MOST_CHECKS = 2


@dataclass(frozen=True)
class FusedInsert:
    """How the kernel gets its values: (column, register) to check, and for each head column either the
    column of the matching row or the register of the binding."""

    checks: tuple[tuple[int, int], ...]
    sources: tuple[tuple[bool, int], ...]

    def launch(
        self, device: Device, found: Found, base: int, end: int, sink: Insert, out: Rows
    ) -> tuple[int, int]:
        """Insert candidates [base, end), of which not all need be there, and for which `out` has room.

        Returns how many rows it has then, and how many candidates there are in all.
        """
        index, batch = found.probe.index, found.batch
        counter = device.full(2, out.count, np.uint64)
        device.launch(
            expand_and_insert,
            -(-(end - base) // TILE),
            base,
            end,
            batch.count,
            found.offsets,
            *found.matches.starts,
            index.main.pairs,
            index.recent.pairs,
            *self.arguments(device, sink.keyset, index.rows.device_column, batch.column),
            out.data,
            out.capacity,
            counter,
        )
        rows, total = device.read(counter)
        return int(rows), int(total)

    @property
    def registers(self) -> set[int]:
        """The registers of the binding that are read."""
        checked = {register for _, register in self.checks}
        return checked | {number for from_match, number in self.sources if not from_match}

    def arguments(
        self,
        device: Device,
        keyset: KeySet,
        matching: Callable[[int], Array],
        bound: Callable[[int], Array],
    ) -> list[Any]:
        """What a kernel is passed for the shape, the checks, the head's columns and its set.

        `matching` has the columns of what is probed by number, `bound` those of the bindings by register.
        """
        checks: list[Array] = []
        for j, register in self.checks:
            checks += [matching(j), bound(register)]
        columns = [matching(number) if from_match else bound(number) for from_match, number in self.sources]
        unused = columns[0]
        checks += [unused] * (2 * _MOST_CHECKS - len(checks))
        strides = list(keyset.strides) + [0] * (_MOST_COLUMNS - len(columns))
        from_match = [from_match for from_match, _ in self.sources]
        # Columns that are not there are read from where the first one is, times a stride of 0.
        from_match += [from_match[0]] * (_MOST_COLUMNS - len(columns))
        is_bitmap = keyset.kind == BITMAP
        return [
            pack_shape(len(columns), len(self.checks), is_bitmap, from_match),
            *checks,
            *columns,
            *[unused] * (_MOST_COLUMNS - len(columns)),
            keyset.least_key % (1 << 64),
            *strides,
            keyset.table if is_bitmap else device.empty(1, np.uint32),
            device.empty(1, np.uint64) if is_bitmap else keyset.table,
            0 if is_bitmap else keyset.mask,
        ]


def plan_fused(probe: IndexProbe, sink: Insert) -> FusedInsert | None:
    """The plan of the fused kernel for a last probe; None if it asks for more than the kernel has."""
    index = probe.index
    if not 1 <= len(sink.registers) <= _MOST_COLUMNS or sink.keyset.kind == WIDE:
        return None
    payload = [j for j in range(index.rows.arity) if j not in index.keys]
    written = {binding: j for j, binding in zip(payload, probe.payload, strict=True) if binding >= 0}
    checks = [
        (j, -2 - binding) for j, binding in zip(payload, probe.payload, strict=True) if binding < IGNORE
    ]
    if index.verifies:
        checks += zip(index.keys, probe.keys, strict=True)
    if len(checks) > _MOST_CHECKS or any(register in written for _, register in checks):
        return None
    sources = tuple(
        (True, written[register]) if register in written else (False, register) for register in sink.registers
    )
    return FusedInsert(tuple(checks), sources)
