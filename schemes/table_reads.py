"""Reading a table by some of its columns, for whoever is not a compiled pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuengine.kernels.contract import (
    MAX_KEYS,
    Collect,
    Domain,
    Driver,
    IndexProbe,
    Pipeline,
    Probe,
    Status,
    check,
    write,
)
from gpuengine.kernels.cpu.primitives import CpuPrimitives
from gpuengine.schemes.contract import in_pieces

if TYPE_CHECKING:
    from gpuengine.schemes.table import Table

_KEYS_AT_ONCE = 1 << 12
_SAMPLE = 1 << 16
_PRIMITIVES = CpuPrimitives()


def probe(
    table: Table, bound: Mapping[int, np.ndarray], count: int, old: bool, room: int
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Places of keys and the free columns of matching rows, by an index on one or two of the bound ones."""
    backend, arity = table.backend, table.arity
    by_distinct = sorted(bound, key=lambda column: -table.distinct(column))
    keys = tuple(sorted(by_distinct[:MAX_KEYS]))
    free = [column for column in range(arity) if column not in bound]
    # Registers: the place of the key, its columns, then what is found.
    register = {column: 1 + k for k, column in enumerate([*bound, *free])}
    payload = tuple(
        (check if column in bound else write)(register[column])
        for column in range(arity)
        if column not in keys
    )
    index = table.index(keys, growing=table.rows.delta[0] != table.rows.count)
    step = IndexProbe(index, Domain.OLD if old else Domain.ALL, tuple(register[c] for c in keys), payload)
    driver = backend.rows(1 + len(bound), count)
    driver.append([np.arange(count, dtype=np.uint32), *bound.values()], count)
    pipeline = Pipeline(
        Driver(driver, tuple(write(k) for k in range(1 + len(bound)))),
        (Probe((step,)),),
        Collect((0, *(register[column] for column in free))),
        1 + arity,
    )
    program = backend.program(pipeline, np.zeros(1, np.int64))
    out = backend.rows(1 + len(free), room)
    status = program.run(out, 0, count)
    while True:
        if out.count:
            places, *columns = (out.column(j).copy() for j in range(1 + len(free)))
            yield places, columns
        if status is Status.DONE:
            return
        out.count = 0
        status = program.resume(out)


def match_rows(
    batch: Sequence[np.ndarray], bound: Mapping[int, np.ndarray], room: int
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Places of keys and the free columns of the rows that match them, by sorting some keys at a time."""
    count = len(next(iter(bound.values())))
    for start in range(0, count, _KEYS_AT_ONCE):
        keys = {column: ids[start : start + _KEYS_AT_ONCE] for column, ids in bound.items()}
        for places, *columns in in_pieces(_matches(batch, keys), room):
            yield places + np.uint32(start), columns


def _matches(batch: Sequence[np.ndarray], bound: Mapping[int, np.ndarray]) -> list[np.ndarray]:
    """Places of keys, and the free columns of the rows that match them."""
    keys = [bound[column] for column in bound]
    rows = [batch[column] for column in bound]
    both = [np.concatenate(pair) for pair in zip(rows, keys, strict=True)]
    _, number = np.unique(np.stack(both), axis=1, return_inverse=True)
    number = number.ravel()
    row_numbers, key_numbers = number[: len(rows[0])], number[len(rows[0]) :]
    order = np.argsort(row_numbers, kind="stable")
    first = np.searchsorted(row_numbers[order], key_numbers, "left")
    counts = np.searchsorted(row_numbers[order], key_numbers, "right") - first
    places = np.repeat(np.arange(len(keys[0]), dtype=np.uint32), counts)
    within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    matching = order[np.repeat(first, counts) + within]
    return [places, *(batch[column][matching] for column in range(len(batch)) if column not in bound)]


def is_row_of(columns: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> np.ndarray:
    """Which rows of `columns` are among the rows of `others`: a mask."""
    if not columns:
        return np.full(0, bool(others), np.bool_)
    mask = np.zeros(len(columns[0]), np.bool_)
    mask[_PRIMITIVES.semi_join(*_contiguous(columns, others))] = True
    return mask


def rows_missing(columns: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The rows of `columns`, of which there is at least one column, that are not among those of `others`."""
    places = _PRIMITIVES.anti_join(*_contiguous(columns, others))
    return [column[places] for column in columns]


def _contiguous(*sides: Sequence[np.ndarray]) -> list[list[np.ndarray]]:
    return [[np.ascontiguousarray(column, np.uint32) for column in side] for side in sides]


def shared_ids(column: np.ndarray) -> float:
    """With how many rows, about, a row has its id in common, itself included; from a sample if it is long."""
    count = len(column)
    if not count:
        return 1.0
    places = slice(None) if count <= _SAMPLE else np.random.default_rng(count).integers(0, count, _SAMPLE)
    _, frequencies = np.unique(column[places], return_counts=True)
    taken = min(count, _SAMPLE)
    pairs = float(np.square(frequencies.astype(np.float64)).sum()) - taken
    return 1.0 + pairs * (count / taken) / taken
