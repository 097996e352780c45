"""RowLocator: a row's number by its content, while rows come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpuengine.kernels.cpu import locator
from gpuengine.kernels.cpu.locator import ABSENT, RowLocator
from tests.kernels.backends import CPU, ID_END, Row, columns_of, make_rows, read_rows

FAR = 2_654_435_761


class History:
    """A locator beside a list of the rows by number, and an array that moves with them."""

    def __init__(self, arity: int) -> None:
        self.arity = arity
        self.rows = CPU.rows(arity)
        self.locator = RowLocator(self.rows)
        self.held: list[Row] = []
        self.beside = np.zeros(0, object)

    def append(self, batch: Sequence[Row]) -> None:
        self.rows.append(columns_of(batch, self.arity), len(batch))
        self.rows.advance()
        self.locator.append(len(self.held), self.rows.count)
        self.held += batch
        self.beside = np.append(self.beside, [repr(row) for row in batch])

    def remove(self, places: np.ndarray) -> None:
        left = len(self.held) - len(places)
        movers, holes = self.locator.remove(places)
        assert movers.dtype == holes.dtype == np.int64 and len(movers) == len(holes)
        assert sorted(holes) == sorted(place for place in places.tolist() if place < left)
        assert sorted(movers) == sorted(set(range(left, len(self.held))) - set(places.tolist()))
        gone = {self.held[place] for place in places.tolist()}
        self.beside[holes] = self.beside[movers]
        self.beside = self.beside[:left]
        for mover, hole in zip(movers.tolist(), holes.tolist(), strict=True):
            self.held[hole] = self.held[mover]
        del self.held[left:]
        assert not gone & set(self.held)
        assert self.rows.delta == (left, left)

    def truncate(self, start: int) -> None:
        self.locator.truncate(start)
        assert self.rows.count == len(self.held), "the rows are their owner's to cut"
        self.rows.count = min(start, self.rows.count)
        self.rows.settle()
        del self.held[start:]
        self.beside = self.beside[:start]

    def check(self, strangers: Sequence[Row]) -> None:
        assert self.rows.count == self.locator.count == len(self.held)
        assert read_rows(self.rows, self.arity) == self.held
        assert self.beside.tolist() == [repr(row) for row in self.held]
        numbers = {row: number for number, row in enumerate(self.held)}
        asked = [*strangers, *self.held, *strangers]
        found = self.locator.locate(make_rows(CPU, asked, self.arity), 1, len(asked) - 1)
        assert found.dtype == np.uint32
        assert found.tolist() == [numbers.get(row, ABSENT) for row in asked[1:-1]]


@pytest.mark.parametrize("size", [8, 60, 700])
@pytest.mark.parametrize("arity", range(1, 6))
def test_rows_that_come_and_go(arity: int, size: int) -> None:
    rng = np.random.default_rng([arity, size])
    history = History(arity)
    pool = [
        tuple(number * FAR % ID_END if j == arity - 1 else number % 3 for j in range(arity))
        for number in range(size)
    ]
    for _ in range(150):
        held = set(history.held)
        count = len(history.held)
        match rng.integers(0, 5):
            case 0 | 1:
                fresh = [pool[i] for i in rng.permutation(size) if pool[i] not in held]
                history.append(fresh[: rng.integers(0, size // 2)])
            case 2:
                history.remove(rng.permutation(count)[: rng.integers(0, count + 1)])
            case 3:
                history.remove(rng.permutation(count)[:1].astype(np.uint32))
            case _:
                history.truncate(int(rng.integers(count // 2, count + 2)))
        history.check(pool)
    history.truncate(0)
    history.check(pool)
    history.append(pool)
    history.remove(np.arange(size))
    history.check(pool)


def test_the_row_without_columns() -> None:
    history = History(0)
    for _ in range(3):
        history.check([(), ()])
        history.append([()])
        history.check([()] * 2)
        history.remove(np.zeros(1, np.int64))
        history.check([()] * 2)
        history.append([()])
        history.truncate(0)


def test_runs_of_entries_around_the_end_of_the_table() -> None:
    """Rows whose search begins at the last places of the first table."""
    history = History(2)
    capacity = len(history.locator._table)
    candidates = make_rows(CPU, [(number, number * FAR % ID_END) for number in range(4000)], 2)
    # A table that holds only one entry shows where the search for it begins.
    homes = []
    for number in range(candidates.count):
        table = np.zeros(capacity, np.uint32)
        locator.put_numbers(table, capacity, candidates.header, 2, number, number + 1)
        homes.append(int(np.flatnonzero(table)[0]))
    rows = read_rows(candidates, 2)
    crowd = [row for row, home in zip(rows, homes, strict=True) if home >= capacity - 2][:40]
    crowd += [row for row, home in zip(rows, homes, strict=True) if home < 3][:20]
    assert len(crowd) == 60
    rng = np.random.default_rng(3)
    for _ in range(200):
        held = set(history.held)
        fresh = [crowd[i] for i in rng.permutation(60) if crowd[i] not in held]
        history.append(fresh[: rng.integers(0, 30)])
        history.check(crowd)
        count = len(history.held)
        if rng.random() < 0.3:
            history.truncate(int(rng.integers(0, count + 1)))
        else:
            history.remove(rng.permutation(count)[: rng.integers(0, count + 1)])
        history.check(crowd)
    assert len(history.locator._table) == capacity


def test_memory_follows_the_most_rows_there_were() -> None:
    rows = CPU.rows(2)
    table = RowLocator(rows)
    for start in range(0, 50_000, 500):
        numbers = np.arange(start, start + 500, dtype=np.uint32)
        rows.append([numbers, numbers], 500)
        table.append(start, start + 500)
    most = table.nbytes
    assert most <= 12 * 50_000 + 1024
    for _ in range(20):
        table.remove(np.arange(0, 50_000, 3))
        left = rows.count
        numbers = np.arange(100_000, 100_000 + 50_000 - left, dtype=np.uint32)
        rows.append([numbers, numbers], len(numbers))
        table.append(left, 50_000)
        table.remove(np.arange(left, 50_000))
        numbers = np.setdiff1d(np.arange(50_000, dtype=np.uint32), rows.column(0))
        rows.append([numbers, numbers], len(numbers))
        table.append(left, 50_000)
    assert table.nbytes == most
    assert np.array_equal(table.locate(rows, 0, 50_000), np.arange(50_000))
