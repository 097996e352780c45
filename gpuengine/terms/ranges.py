"""``range(a, b[, step])`` over columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpuengine.errors import FunctorError
from gpuengine.language.program import Functor
from gpuengine.terms.arithmetic import place

_MOST = 2**32
"""No row of a range may yield more values: they could not all have ids."""
ROOM = 1 << 18
"""Values of a piece."""


def expand(
    operands: Sequence[np.ndarray], functor: Functor, room: int = ROOM
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(row index, value) of every value of each row's range, in pieces of at most `room`.

    Columns of one dtype: begin, end[, step].
    """
    begin, end = operands[0], operands[1]
    if len(operands) == 3:
        step = operands[2]
    else:
        one = np.int64 if begin.dtype.kind == "u" else begin.dtype.type  # unsigned count down as well
        step = np.where(begin <= end, one(1), one(-1))
    if begin.dtype.kind == "f":
        yield from _expand_floats(begin, end, step, functor, room)
    else:
        yield from _expand_integers(begin, end, step, functor, room)


def _expand_integers(
    begin: np.ndarray, end: np.ndarray, step: np.ndarray, functor: Functor, room: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    up, down = step > 0, step < 0
    first, last, stride = (column.view(np.uint64) for column in (begin, end, step))
    # Distances between 64-bit integers fit uint64 once the sign is known.
    distance = np.where(up, last - first, first - last)
    stride = np.where(down, np.negative(stride), stride)
    some = (up & (begin < end)) | (down & (end < begin))
    counts = np.where(some, (distance - np.uint64(1)) // np.maximum(stride, np.uint64(1)) + np.uint64(1), 0)
    counts = np.where(step == 0, (begin != end).astype(np.uint64), counts.astype(np.uint64))
    if len(counts) and counts.max() > _MOST:
        raise _endless(functor)
    for row, index, position in _positions(counts.astype(np.int64), room):
        index += row
        values = first[index] + position.view(np.uint64) * step.view(np.uint64)[index]
        yield index, values.view(begin.dtype)


def _expand_floats(
    begin: np.ndarray, end: np.ndarray, step: np.ndarray, functor: Functor, room: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from gpuengine.kernels.cpu.arithmetic import count_float_ranges, fill_float_ranges

    rows = len(begin)
    begin, end, step = (np.ascontiguousarray(column) for column in (begin, end, step))
    counts = np.empty(rows, np.int64)
    if count_float_ranges(begin, end, step, rows, _MOST, counts) != rows:
        raise _endless(functor)
    following = 0.0
    for row, index, position in _positions(counts, room):
        taken = np.bincount(index)
        starts, steps = begin[row : row + len(taken)].copy(), step[row : row + len(taken)]
        if position[0]:
            starts[0] = following  # by repeated addition, on from the last piece
        values = np.empty(len(index))
        fill_float_ranges(starts, steps, taken, len(taken), values)
        following = values[-1] + steps[-1]
        yield index + row, values


def _positions(counts: np.ndarray, room: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The values of rows, counts[row] of each, in pieces: (first row, rows from there, places in the row)."""
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]) if len(ends) else 0, room):
        stop = min(start + room, int(ends[-1]))
        row, last = np.searchsorted(ends, [start, stop - 1], side="right")
        before = (ends - counts)[row : last + 1]
        taken = np.minimum(ends[row : last + 1], stop) - np.maximum(before, start)
        index = np.repeat(np.arange(len(taken)), taken)
        yield int(row), index, np.arange(start, stop) - before[index]


def _endless(functor: Functor) -> FunctorError:
    return FunctorError(f"{place(functor)} does not end within {_MOST:,} values")
