"""Checks of joins and runs, held against the CPU's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.kernels.cuda.selftest import Check, Kit, expect
from gpuengine.kernels.primitives import NONE, Run

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


def _pairs(kit: Kit) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Keys, values and how many keys there may be; every third pair has one of few keys."""
    for size in kit.sizes:
        owners = max(size // 8, 1)
        keys = kit.ids(size, owners)
        keys[::3] = kit.ids(len(keys[::3]), min(owners, 3))
        for end in (max(size // 4, 1), 2**32 - 1):
            yield keys, kit.ids(size, end), owners


def sorted_runs(kit: Kit) -> None:
    for keys, values, owners in _pairs(kit):
        sent = kit.device.upload(keys), kit.device.upload(values)
        found = kit.primitives.sorted_runs(*sent, owners)
        expected = CpuPrimitives().sorted_runs(keys, values, owners)
        for one, other in zip(found, expected, strict=True):
            expect(kit.fetch(one), other, "sorted runs")


def _intersections(kit: Kit) -> Iterator[Sequence[Run]]:
    """One to four runs for each binding; some bindings have none."""
    for keys, values, owners in _pairs(kit):
        some = CpuPrimitives().sorted_runs(keys, values, owners)
        half = CpuPrimitives().sorted_runs(keys[::2], values[::2], owners)
        for count in range(1, 5):
            asked = [kit.ids(max(owners, 16), owners) for _ in range(count)]
            asked[-1] = asked[0].copy()
            asked[-1][::7] = NONE
            yield [Run(*(some, half)[number % 2], each) for number, each in enumerate(asked)]


def intersect_runs(kit: Kit) -> None:
    for runs in _intersections(kit):
        sent = [Run(*(kit.device.upload(x) for x in (run.offsets, run.values, run.owners))) for run in runs]
        found, expected = kit.primitives.intersect_runs(sent), CpuPrimitives().intersect_runs(runs)
        for one, other in zip(found, expected, strict=True):
            expect(kit.fetch(one), other, "intersect runs")


CHECKS = tuple(
    Check(f"primitive: {check.__name__.replace('_', ' ')}", check)
    for check in (semi_join, anti_join, sorted_runs, intersect_runs)
)
