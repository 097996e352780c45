"""The backends that the contract tests run on. A new backend is one more line in `BACKENDS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels import reference
from gpuengine.kernels.contract import Status
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.sets import KeySet

Row = tuple[int, ...]
Bounds = Sequence[tuple[int, int]]

#: One past the greatest id that a column can hold.
ID_END = (1 << 32) - 1


@dataclass(frozen=True)
class Backend:
    """The classes of the contract; `output(arity, room)` makes rows that are full after `room` rows."""

    name: str
    rows: Callable[..., Any]
    keyset: Callable[..., Any]
    index: Callable[..., Any]
    program: Callable[..., Any]
    output: Callable[[int, int], Any]


def _limited(arity: int, room: int) -> Rows:
    rows = Rows(arity, room)
    rows.limit(room)
    return rows


REFERENCE = Backend(
    "reference", reference.Rows, reference.KeySet, reference.RowIndex, reference.Program, reference.Rows
)
CPU = Backend("cpu", Rows, KeySet, RowIndex, Program, _limited)
BACKENDS = (REFERENCE, CPU)

on_every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)


def columns_of(rows: Sequence[Row], arity: int) -> list[np.ndarray]:
    matrix = np.array(rows, np.uint32).reshape(len(rows), arity)
    return [np.ascontiguousarray(matrix[:, j]) for j in range(arity)]


def make_rows(backend: Backend, rows: Sequence[Row], arity: int) -> Any:
    """Rows that hold `rows`, all of them beyond the delta."""
    made = backend.rows(arity)
    made.append(columns_of(rows, arity), len(rows))
    return made


def read_rows(rows: Any, arity: int) -> list[Row]:
    if not arity:
        return [()] * rows.count
    return [tuple(map(int, row)) for row in zip(*(rows.column(j) for j in range(arity)), strict=True)]


def bounds_of(rows: Sequence[Row], arity: int) -> list[tuple[int, int]]:
    """The least id and one past the greatest, by column; (0, 0) where there is none."""
    if not rows:
        return [(0, 0)] * arity
    return [(min(row[j] for row in rows), max(row[j] for row in rows) + 1) for j in range(arity)]


def filled_set(backend: Backend, rows: Any, arity: int, bounds: Bounds) -> Any:
    """A set that holds all of `rows`."""
    keyset = backend.keyset(arity, bounds, rows.count)
    keyset.insert(rows, 0, rows.count)
    return keyset


def drain(
    program: Any, spans: Sequence[tuple[int, int]], out: Any, arity: int, before: Callable[[list[Row]], None]
) -> list[Row]:
    """Run a program over spans of its driver, emptying `out` whenever it is full.

    `before` is called before each run and resume with the rows that have come out so far.
    """
    found: list[Row] = []
    for start, end in spans:
        before(found)
        status = program.run(out, start, end)
        while True:
            found += read_rows(out, arity)
            _empty(out)
            if status is not Status.FULL:
                break
            before(found)
            status = program.resume(out)
        assert status is Status.DONE
    return found


def _empty(rows: Any) -> None:
    if isinstance(rows, reference.Rows):
        rows.data.clear()
    else:
        rows.count = 0
