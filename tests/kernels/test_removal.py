"""Rows taken out of rows, sets, locators and indexes, on every backend: what is left is found, no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import Collect, Domain, Driver, IndexProbe, Pipeline, Probe, write
from gpuengine.kernels.primitives import NONE
from tests.kernels.backends import (
    CUDA,
    EMULATED,
    ID_END,
    REFERENCE,
    Backend,
    Row,
    columns_of,
    drain,
    filled_set,
    flags,
    make_rows,
    on,
    on_every_backend,
    read_rows,
)

FAR = 2_654_435_761  # odd, so ids times this (mod 2**32) are distinct and far apart
#: Arity, the end of ids, and the key columns of indexes: keys by themselves, in mixed radix, and hashed.
SHAPES = [
    (1, 200, ((0,),)),
    (2, 200, ((0,), (1,), (0, 1))),
    (2, ID_END, ((1,), (1, 0))),
    (3, 1 << 20, ((2,), (0, 2))),
    (4, ID_END, ((3,), (1, 3))),
]


class History:
    """Everything that a table is made of, beside a list of its rows and one of those that readers keep."""

    def __init__(self, backend: Backend, arity: int, end: int, keys: Sequence[tuple[int, ...]]) -> None:
        self.backend, self.arity, self.bounds = backend, arity, [(0, end)] * arity
        self.rows: Any = backend.rows(arity)
        self.set = backend.keyset(arity, self.bounds)
        self.locator: Any = backend.kernels.locator(self.rows)
        self.keys = keys
        self.indexes = {columns: self.index(columns) for columns in keys}
        self.held: list[Row] = []
        self.old = 0
        self.base = 0  # rows from here on have come since others were taken out
        self.kept: tuple[Any, list[Row]] = self.rows.frozen(0), []

    def index(self, columns: tuple[int, ...]) -> Any:
        index = self.backend.index(self.rows, columns, self.bounds)
        index.build(exact=False)
        return index

    def append(self, batch: Sequence[Row]) -> None:
        """A new round."""
        self.set.reserve(len(self.held) + len(batch), self.rows)
        assert all(flags(self.set.insert(make_rows(self.backend, batch, self.arity), 0, len(batch))))
        self.rows.append(columns_of(batch, self.arity), len(batch))
        self.old = len(self.held)
        self.held += batch
        self.rows.advance()
        self.refresh()

    def settle(self) -> None:
        self.rows.settle()
        self.old = len(self.held)
        self.refresh()

    def refresh(self) -> None:
        for columns, index in self.indexes.items():
            if not index.ensure():
                self.indexes[columns] = self.index(columns)
            assert self.indexes[columns].indexed == len(self.held)

    def move_to_end(self, gone: Sequence[Row]) -> None:
        """As a table does with facts that go: they are the delta."""
        self.settle()
        self.catch_up()
        batch = make_rows(self.backend, gone, self.arity)
        places = self.locator.locate(batch, 0, len(gone))
        assert [self.held[place] for place in places] == list(gone)
        for columns, index in list(self.indexes.items()):
            if not index.erase(batch, 0, len(gone), places):
                del self.indexes[columns]
        taken = self.rows.taken(places)
        self.rows.unshare()
        self.locator.remove(places)
        self.rows.append(taken, len(gone))
        self.rows.advance()
        self.held = read_rows(self.rows, self.arity)
        self.old = len(self.held) - len(gone)
        assert self.held[self.old :] == list(gone)
        self.base = self.old
        for columns in self.keys:
            if columns not in self.indexes:
                self.indexes[columns] = self.index(columns)
        self.refresh()

    def catch_up(self) -> None:
        if self.locator.count < len(self.held):
            self.locator.append(self.locator.count, len(self.held))

    def cut(self) -> None:
        """Take the delta back."""
        start, end = self.rows.delta
        self.set.erase(self.rows, start, end)
        for index in self.indexes.values():
            index.retract(start)
        if self.locator.count > start:
            self.locator.truncate(start)
        self.rows.unshare()
        self.rows.count = start
        self.held = self.held[:start]
        self.base = min(self.base, start)
        self.settle()

    def show_last(self, count: int) -> None:
        self.old = len(self.held) - count
        self.rows.delta = (self.old, len(self.held))
        assert all(index.show_delta() for index in self.indexes.values())

    def keep(self) -> None:
        """What a reader keeps."""
        self.kept = self.rows.frozen(len(self.held)), list(self.held)

    def check(self, strangers: Sequence[Row]) -> None:
        arity, held = self.arity, self.held
        assert read_rows(self.rows, arity) == held and len(set(held)) == len(held)
        frozen, kept = self.kept
        assert read_rows(frozen, arity) == kept
        asked = [(self.bounds[0][1] - 1,) * arity, *strangers, *held]
        found = self.set.contains(make_rows(self.backend, asked, arity), 0, len(asked))
        assert flags(found) == [row in set(held) for row in asked]
        self.catch_up()
        numbers = {row: number for number, row in enumerate(held)}
        located = self.locator.locate(make_rows(self.backend, asked, arity), 1, len(asked))
        assert located.tolist() == [numbers.get(row, NONE) for row in asked[1:]]
        middle = len(held) // 2
        pieces = self.rows.between(middle, len(held))
        assert list(zip(*(piece.tolist() for piece in pieces), strict=True)) == held[middle:]
        for columns, index in self.indexes.items():
            for domain, rows in ((Domain.OLD, held[: self.old]), (Domain.ALL, held)):
                assert self.read(columns, index, asked, domain) == sorted(rows)

    def read(self, columns: tuple[int, ...], index: Any, asked: Sequence[Row], domain: Domain) -> list[Row]:
        """What an index has for the keys of some rows."""
        arity, width = self.arity, len(columns)
        keys = list(dict.fromkeys(tuple(row[j] for j in columns) for row in asked))
        rest = [j for j in range(arity) if j not in columns]
        step = IndexProbe(index, domain, tuple(range(width)), tuple(range(width, arity)))
        driver = make_rows(self.backend, keys, width)
        pipeline = Pipeline(
            Driver(driver, tuple(map(write, range(width)))),
            (Probe((step,)),),
            Collect(tuple(range(arity))),
            arity,
        )
        out = self.backend.output(arity, 1 << 12)
        program = self.backend.program(pipeline)
        order = [[*columns, *rest].index(j) for j in range(arity)]
        found = drain(program, [(0, len(keys))], out, arity, lambda _: None)
        return sorted(tuple(row[at] for at in order) for row in found)


@on_every_backend
@pytest.mark.parametrize(("arity", "end", "keys"), SHAPES)
def test_rows_that_come_and_go(
    backend: Backend, arity: int, end: int, keys: tuple[tuple[int, ...], ...]
) -> None:
    """Rounds, rows that go, deltas that are taken back or shown again, and readers, in any order."""
    rng = np.random.default_rng([arity, end % 1000, len(keys)])
    history = History(backend, arity, end, keys)
    most, steps = (6, 8) if backend.is_slow else (60, 60)
    pool = [
        tuple((number * 7 + j * number // 5) * FAR % end if j else number * FAR % end for j in range(arity))
        for number in range(3 * most)
    ]
    pool = list(dict.fromkeys(pool))
    strangers = [row for row in ((3,) * arity, (0,) * (arity - 1) + (1,)) if row not in pool]
    for _ in range(steps):
        held = set(history.held)
        match rng.integers(0, 6):
            case 0 | 1:
                missing = [row for row in pool if row not in held]
                history.append([row for row in missing if rng.random() < 0.3])
            case 2:
                share = rng.choice([0.02, 0.1, 1.0])
                gone = [row for row in history.held if rng.random() < share]
                history.move_to_end([gone[i] for i in rng.permutation(len(gone))])
                if rng.random() < 0.7:
                    history.check(strangers)
                    history.cut()
            case 3:
                history.cut()
            case 4:
                history.keep()
            case _:
                history.show_last(int(rng.integers(0, len(history.held) - history.base + 1)))
        history.check(strangers)
    history.move_to_end(list(history.held))
    history.cut()
    history.append(pool[:most])
    history.check(strangers)


@on(*CUDA)
@pytest.mark.parametrize(("arity", "end"), [(2, ID_END), (3, 1 << 20), (3, ID_END)])
def test_a_table_with_slots_that_nothing_is_put_into_again(backend: Backend, arity: int, end: int) -> None:
    """Rows that come and go fill the slots; the table is made anew before it is full."""
    rows = backend.rows(arity)
    keyset = backend.keyset(arity, [(0, end)] * arity)
    locator: Any = backend.kernels.locator(rows)
    size = 3 if backend.is_slow else 50
    for step in range(5 if backend.is_slow else 12):
        batch = [((step * size + n) * FAR % end,) * arity for n in range(size)]
        keyset.reserve(rows.count + size, rows)
        assert all(flags(keyset.insert(make_rows(backend, batch, arity), 0, size)))
        rows.append(columns_of(batch, arity), size)
        locator.append(locator.count, rows.count)
        keyset.widen([(0, end - step % 2)] * arity, rows)
        assert flags(keyset.contains(rows, 0, rows.count)) == [True] * rows.count
        places = np.arange(0, rows.count - 2, dtype=np.uint32)
        gone = backend.rows(arity)
        gone.append(rows.taken(places), len(places))
        keyset.erase(gone, 0, gone.count)
        locator.remove(places)
        assert flags(keyset.contains(gone, 0, gone.count)) == [False] * len(places)
        assert set(locator.locate(gone, 0, gone.count).tolist()) == {NONE}
        assert flags(keyset.contains(rows, 0, 2)) == [True, True]
        assert locator.locate(rows, 0, 2).tolist() == [0, 1]


@on(REFERENCE, EMULATED)
def test_a_set_that_has_lost_rows_takes_them_again(backend: Backend) -> None:
    for arity, end in ((1, 50), (2, ID_END), (3, ID_END)):
        rows = make_rows(backend, [(n,) * arity for n in range(30)], arity)
        keyset = filled_set(backend, rows, arity, [(0, end)] * arity)
        keyset.erase(rows, 10, 20)
        batch = make_rows(backend, [(n % 30,) * arity for n in range(60)], arity)
        left = make_rows(backend, [(n,) * arity for n in range(30) if not 10 <= n < 20], arity)
        keyset.reserve(80, left)
        new = keyset.insert(batch, 0, 60)
        found = [n % 30 for n, is_new in enumerate(flags(new)) if is_new]
        assert sorted(found) == list(range(10, 20))


def test_taking_rows_out_of_an_index_writes_runs_again_without_sorting_them() -> None:
    """Few rows go: no sort of all pairs, and nothing but sizes and places moves over the bus."""
    rows = make_rows(EMULATED, [(n, n // 3) for n in range(20_000)], 2)
    rows.settle()
    index = EMULATED.index(rows, (1,), [(0, 20_000)] * 2)
    index.build(exact=False)
    counts = EMULATED.device.statistics
    sorted_before, down = counts.items["sort"], counts.downloaded
    places = np.array([5, 17_000, 19_999], np.uint32)
    gone = EMULATED.rows(2)
    gone.append(rows.taken(places), 3)
    assert index.erase(gone, 0, 3, places)
    assert counts.items["sort"] - sorted_before <= 4 * len(places)
    assert counts.downloaded == down
