"""Facts leave tables: what is there, what is NEW, and every index stay right through any changes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gpuengine.kernels.contract import Domain
from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.table import Table
from tests.schemes.test_table import Row, columns_of, facts, insert, matches
from tests.schemes.worlds import NEW, OLD


class Model:
    """A table, and what it should hold as OLD and as NEW."""

    def __init__(self, arity: int, generator: random.Random) -> None:
        self.table = Table("p", arity, CPU)
        self.table.maintained = True
        self.arity, self.random = arity, generator
        self.old: set[Row] = set()
        self.new: set[Row] = set()

    def row(self) -> Row:
        return tuple(self.random.choice([0, 1, 2, 3, 4, 70_000]) for _ in range(self.arity))

    def some(self) -> list[Row]:
        return [self.row() for _ in range(self.random.randrange(8))]

    def settle(self) -> None:
        self.table.take_in()
        self.old, self.new = self.old | self.new, set()

    def insert(self) -> None:
        self.settle()
        rows = self.some()
        insert(self.table, rows)
        self.table.advance()
        self.table.refresh_indexes()
        self.new = set(rows) - self.old

    def delete(self) -> None:
        self.settle()
        rows = self.some()
        assert self.table.delete(columns_of(rows, self.arity), len(rows)) == len(set(rows) & self.old)
        self.new = set(rows) & self.old
        self.old -= self.new

    def take_back(self) -> None:
        self.table.take_back()
        self.new = set()

    def show_last(self) -> None:
        """What came last can be shown again; nothing must have been deleted since."""
        self.insert()
        last = self.new
        self.settle()
        self.table.show_last(len(last))
        self.old, self.new = self.old - last, last

    def keep(self) -> None:
        self.settle()
        rows = facts(self.table)
        mask = np.array([self.random.random() < 0.7 for _ in rows], np.bool_)
        self.table.keep(mask)
        self.old = {row for row, kept in zip(rows, mask, strict=True) if kept}

    def check(self) -> None:
        start, end = self.table.rows.delta
        rows = facts(self.table)
        assert set(rows[:start]) == self.old and set(rows[start:end]) == self.new
        assert len(rows) == end == len(self.old) + len(self.new)
        asked = [self.row() for _ in range(20)]
        found = self.table.contains(columns_of(asked, self.arity), len(asked)).tolist()
        assert found == [row in self.old | self.new for row in asked]
        for keys in [(0,), (self.arity - 1,), (0, 1)][: self.arity + 1]:
            for domain, expected in ((Domain.ALL, self.old | self.new), (Domain.OLD, self.old)):
                self.check_index(keys, domain, expected)

    def check_index(self, keys: tuple[int, ...], domain: Domain, expected: set[Row]) -> None:
        rest = [column for column in range(self.arity) if column not in keys]
        if not rest:
            return
        asked = self.row()
        key = tuple(asked[k] for k in keys)
        found = matches(self.table, keys, key, domain, growing=True)
        wanted = [tuple(row[c] for c in rest) for row in expected if tuple(row[k] for k in keys) == key]
        assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("arity", [2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_any_stream_of_changes(arity: int, seed: int) -> None:
    model = Model(arity, random.Random(f"{arity} {seed}"))
    steps = [model.insert, model.insert, model.delete, model.take_back, model.show_last, model.settle]
    for number in range(120):
        step = model.random.choice(steps if number % 29 else [model.keep])
        step()
        model.check()


def test_without_columns() -> None:
    table = Table("p", 0, CPU)
    assert table.delete([], 1) == 0
    table.insert([], 1)
    table.take_in()
    assert table.delete([], 1) == 1 and table.count(NEW) == 1 and table.count(OLD) == 0
    table.take_back()
    assert len(table) == 0 and not table.contains([], 1).any()
    table.insert([], 1)
    assert len(table) == 1


def test_what_it_costs_does_not_depend_on_the_table() -> None:
    """No index, set or locator is made anew by a small change."""
    count = 50_000
    numbers = np.arange(count, dtype=np.uint32)
    table = Table("p", 2, CPU)
    table.maintained = True
    table.insert([numbers % 1000, numbers], count)
    table.take_in()
    index, keyset = table.index((0,), growing=True), table.keyset
    table.delete([numbers[:10] % 1000, numbers[:10]], 10)
    removal, epoch = table.removal, table.epoch
    table.take_back()
    table.insert([numbers[:10] % 1000, numbers[:10]], 10)
    table.take_in()
    table.delete([numbers[5:15] % 1000, numbers[5:15]], 10)
    assert table.index((0,), growing=True) is index and table.keyset is keyset
    assert (table.removal, table.epoch) == (removal, epoch)
