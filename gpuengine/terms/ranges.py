"""``range(a, b[, step])`` over columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuengine.errors import EvaluationError
from gpuengine.language.program import Functor
from gpuengine.terms.arithmetic import place

_MOST = 2**32
"""No row of a range may yield more values: they could not all have ids."""


def expand(operands: Sequence[np.ndarray], functor: Functor) -> tuple[np.ndarray, np.ndarray]:
    """(row index, value) of every value of each row's range; columns of one dtype: begin, end[, step]."""
    begin, end = operands[0], operands[1]
    if len(operands) == 3:
        step = operands[2]
    elif begin.dtype.kind == "u":
        step = np.ones(len(begin), np.uint64)
    else:
        step = np.where(begin <= end, begin.dtype.type(1), begin.dtype.type(-1))
    return (
        _expand_floats(begin, end, step, functor)
        if begin.dtype.kind == "f"
        else _expand_integers(begin, end, step, functor)
    )


def _expand_integers(
    begin: np.ndarray, end: np.ndarray, step: np.ndarray, functor: Functor
) -> tuple[np.ndarray, np.ndarray]:
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
    index, position = _positions(counts.astype(np.int64))
    values = first[index] + position.view(np.uint64) * step.view(np.uint64)[index]
    return index, values.view(begin.dtype)


def _expand_floats(
    begin: np.ndarray, end: np.ndarray, step: np.ndarray, functor: Functor
) -> tuple[np.ndarray, np.ndarray]:
    from gpuengine.kernels.cpu.arithmetic import count_float_ranges, fill_float_ranges

    rows = len(begin)
    begin, end, step = (np.ascontiguousarray(column) for column in (begin, end, step))
    counts = np.empty(rows, np.int64)
    if count_float_ranges(begin, end, step, rows, _MOST, counts) != rows:
        raise _endless(functor)
    values = np.empty(int(counts.sum()))
    fill_float_ranges(begin, step, counts, rows, values)
    return np.repeat(np.arange(rows, dtype=np.int64), counts), values


def _positions(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row, place within the row's values) for each of counts[row] values."""
    index = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    return index, np.arange(len(index), dtype=np.int64) - before[index]


def _endless(functor: Functor) -> EvaluationError:
    return EvaluationError(f"{place(functor)} does not end within {_MOST:,} values")
