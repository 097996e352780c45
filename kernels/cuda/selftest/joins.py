"""Checks of joins, held against the CPU's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cuda.selftest import Check, Kit, expect

Columns = list[np.ndarray]

_ENDS = (40, 1 << 16, 2**32 - 1)
"""Of ids, so that the sets of right rows are bitmaps, hashed or, from three columns on, wide."""


def _sides(kit: Kit) -> Iterator[tuple[Columns, Columns]]:
    """Left and right rows of one to four columns; half of the left are among the right."""
    for arity in range(1, 5):
        for end in _ENDS:
            for size, others in ((kit.size, kit.size // 2), (kit.size // 16, kit.size), (1, 33)):
                right = [kit.ids(others, end) for _ in range(arity)]
                from_right, rows = kit.ids(size, 2) == 0, kit.ids(size, others)
                left = [np.where(from_right, column[rows], kit.ids(size, end)) for column in right]
                yield left, right
    yield [kit.ids(5, 9)], [kit.ids(0, 9)]
    yield [kit.ids(0, 9)], [kit.ids(5, 9)]


def _joins(kit: Kit, operation: str) -> None:
    for left, right in _sides(kit):
        sent = [[kit.device.upload(column) for column in columns] for columns in (left, right)]
        found = getattr(kit.primitives, operation)(*sent)
        expect(kit.fetch(found), getattr(CpuPrimitives(), operation)(left, right), operation)


def semi_join(kit: Kit) -> None:
    _joins(kit, "semi_join")


def anti_join(kit: Kit) -> None:
    _joins(kit, "anti_join")


CHECKS = tuple(
    Check(f"primitive: {check.__name__.replace('_', ' ')}", check) for check in (semi_join, anti_join)
)
