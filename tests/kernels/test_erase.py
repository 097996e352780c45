"""Rows taken out of sets and indexes of the CPU backend: whatever came before, what is left is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import Collect, Domain, Driver, IndexProbe, Pipeline, Probe, write
from gpuengine.kernels.cpu import indexes, sets
from gpuengine.kernels.cpu.layout import (
    BITMAP,
    HASHED,
    INDEX_HASHED,
    INDEX_PAYLOAD_USED,
    INDEX_SLOT_CAPACITY,
    WIDE,
)
from tests.kernels.backends import (
    CPU,
    ID_END,
    Bounds,
    Row,
    columns_of,
    distinct_keys,
    drain,
    flags,
    make_rows,
)
from tests.kernels.test_keyset import CLUSTERS, pairs_with_hashes, unmix

FAR = 2_654_435_761  # odd, so ids times this (mod 2**32) are distinct and far apart
NOWHERE = np.empty(0, np.uint32)  # the host needs no places


class SetHistory:
    """A set and its rows beside a Python set of what should be in them."""

    def __init__(self, arity: int, bounds: Bounds, capacity: int = 0) -> None:
        self.arity = arity
        self.keyset = CPU.keyset(arity, bounds, capacity)
        self.stored = CPU.rows(arity)
        self.known: set[Row] = set()

    def insert(self, batch: Sequence[Row]) -> None:
        self.keyset.reserve(self.stored.count + len(batch), self.stored)
        new = self.keyset.insert(make_rows(CPU, batch, self.arity), 0, len(batch))
        assert int(new.sum()) == len(set(batch) - self.known)
        self.known.update(batch)
        self.store()

    def erase(self, batch: Sequence[Row]) -> None:
        # What lies around the span of the batch must stay.
        rows = make_rows(CPU, [*list(self.known)[:2], *batch, *list(self.known)[-2:]], self.arity)
        start = min(len(self.known), 2)
        gone = self.keyset.erase(rows, start, start + len(batch))
        assert gone == len(self.known & set(batch))
        self.known.difference_update(batch)
        self.store()

    def store(self) -> None:
        self.stored.count = 0
        self.stored.append(columns_of(sorted(self.known), self.arity), len(self.known))

    def check(self, asked: Sequence[Row]) -> None:
        assert all(flags(self.keyset.contains(self.stored, 0, self.stored.count)))
        found = self.keyset.contains(make_rows(CPU, asked, self.arity), 0, len(asked))
        assert flags(found) == [row in self.known for row in asked]


SETS = [
    *((arity, (5, 9), BITMAP) for arity in (0, 1, 2, 3, 5)),
    *((arity, (0, ID_END), HASHED) for arity in (1, 2)),
    (3, (7, 2**20), HASHED),
    *((arity, (0, ID_END), WIDE) for arity in (3, 4, 5)),
]


@pytest.mark.parametrize("pool", [6, 400])
@pytest.mark.parametrize(("arity", "span", "kind"), SETS)
def test_a_set_of_any_history(arity: int, span: tuple[int, int], kind: int, pool: int) -> None:
    rng = np.random.default_rng([arity, kind, pool])
    low, high = span
    ids = low + np.arange(pool) * FAR % (high - low)
    history = SetHistory(arity, [span] * arity)
    assert history.keyset.kind == kind

    def some(most: int) -> list[Row]:
        return [tuple(row) for row in ids[rng.integers(0, pool, (rng.integers(0, most), arity))].tolist()]

    strangers = [(outside,) * arity for outside in (0, 4, 9, 2**20, 2**32 - 2)]
    for step in range(150):
        match rng.integers(0, 5):
            case 0 | 1:
                history.insert(some(60))
            case 2:
                history.erase([*some(20), *sorted(history.known)[:: rng.integers(1, 9)]])
            case 3:
                # Equal rows, and rows that the set cannot hold.
                history.erase([*strangers[: 3 if kind == BITMAP else 0], *some(10) * 2])
            case _:
                history.erase(sorted(history.known)[: rng.integers(0, 3)])
        history.check([*some(40), *strangers])
        if step == 75 and kind != WIDE:
            history.keyset.widen([(low - min(low, 2), min(high + 2, ID_END))] * arity, history.stored)
    history.erase(sorted(history.known))
    history.check(some(100))
    history.insert(some(100))
    history.check(some(100))


def mixed(key: int) -> int:
    """The hash of keys."""
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    key = (key ^ (key >> 27)) * 0x94D049BB133111EB % 2**64
    return key ^ (key >> 31)


def quadruples_with_hashes(hashes: np.ndarray) -> list[Row]:
    """Rows of four ids that have these hashes in a wide table, as far as ids allow."""
    rows = []
    for number, hashed in enumerate(hashes.tolist()):
        word = unmix(hashed) ^ mixed(4 ^ number)
        rows.append((number, 0, word % 2**32, word >> 32))
    return [row for row in rows if max(row) < ID_END]


@pytest.mark.parametrize("arity", [2, 4])
@pytest.mark.parametrize("where", CLUSTERS)
def test_tables_with_keys_in_clusters(monkeypatch: pytest.MonkeyPatch, where: str, arity: int) -> None:
    """Long runs of entries, also around the end of the table; and tables that grow after an erasure."""
    monkeypatch.setattr(sets, "_SPREAD_HEAD", 64)
    rng = np.random.default_rng(arity)
    hashes = CLUSTERS[where](rng, 600)
    rows = list(dict.fromkeys((pairs_with_hashes if arity == 2 else quadruples_with_hashes)(hashes)))
    history = SetHistory(arity, [(0, ID_END)] * arity)
    assert history.keyset.kind == (HASHED if arity == 2 else WIDE)
    for size in (14, 60, 200, len(rows)):
        for _ in range(15):
            part = [rows[i] for i in rng.permutation(size)]
            history.insert(part[: size // 2])
            history.erase(part[size // 3 :])
            history.check(rows)


class IndexHistory:
    """An index and its rows beside a list of what should be in them."""

    def __init__(self, arity: int, columns: tuple[int, ...], bounds: Bounds, asked: Sequence[Row]) -> None:
        self.arity, self.columns, self.bounds, self.asked = arity, columns, bounds, asked
        self.stored = CPU.rows(arity)
        self.held: list[Row] = []
        self.old = 0
        self.rebuild()

    def rebuild(self) -> None:
        self.index = CPU.index(self.stored, self.columns, self.bounds)
        self.index.build(exact=False)
        self.readers = {domain: reader(self.index, self.arity, self.asked, domain) for domain in Domain}

    def append(self, batch: Sequence[Row]) -> None:
        """A new round."""
        self.stored.append(columns_of(batch, self.arity), len(batch))
        self.stored.advance()
        assert self.index.ensure()
        self.old = len(self.held)
        self.held += batch

    def erase(self, batch: Sequence[Row]) -> bool:
        rows = make_rows(CPU, [*self.held[:1], *batch, *self.held[:1]], self.arity)
        start = min(len(self.held), 1)
        done: bool = self.index.erase(rows, start, start + len(batch), NOWHERE)
        gone = set(batch)
        self.held = [row for row in self.held if row not in gone]
        self.shrink()
        if not done:
            self.rebuild()
        return done

    def retract(self, start: int) -> None:
        self.index.retract(start)
        self.held = self.held[:start]
        self.shrink()

    def shrink(self) -> None:
        """What the owner of the rows does after rows have left the index."""
        self.stored.count = 0
        self.stored.append(columns_of(self.held, self.arity), len(self.held))
        self.stored.settle()
        self.old = len(self.held)

    def check(self) -> None:
        assert self.index.ensure() and self.index.indexed == len(self.held)
        assert distinct_keys(self.index) == len({tuple(row[j] for j in self.columns) for row in self.held})
        order = [*self.columns, *(j for j in range(self.arity) if j not in self.columns)]
        for domain, rows in ((Domain.OLD, self.held[: self.old]), (Domain.ALL, self.held)):
            assert self.readers[domain]() == sorted(tuple(row[j] for j in order) for row in rows)


def reader(index: Any, arity: int, asked: Sequence[Row], domain: Domain) -> Callable[[], list[Row]]:
    """Reads what an index has for the keys `asked`, sorted: the keys, then the other columns."""
    width = len(asked[0])
    registers = tuple(range(width))
    payload = tuple(write(width + j) for j in range(arity - width))
    driver = make_rows(CPU, asked, width)
    probe = Probe((IndexProbe(index, domain, registers, payload),))
    pipeline = Pipeline(
        Driver(driver, tuple(map(write, registers))), (probe,), Collect(tuple(range(arity))), arity
    )
    program, out = CPU.program(pipeline), CPU.output(arity, 1 << 14)
    return lambda: sorted(drain(program, [(0, len(asked))], out, arity, lambda _: None))


@pytest.fixture
def always_erase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are taken out of an index even if building it anew were faster."""
    monkeypatch.setattr(indexes, "_BUILD_WORK", 1 << 60)


SHAPES = [(1, (0,)), (2, (0,)), (2, (1,)), (2, (0, 1)), (3, (1,)), (3, (2, 0)), (4, (1, 3)), (5, (2,))]


@pytest.mark.parametrize("heavy", [0.0, 0.9], ids=["even", "one heavy"])
@pytest.mark.parametrize("dense", [True, False], ids=["direct", "hashed"])
@pytest.mark.parametrize(("arity", "columns"), SHAPES)
def test_an_index_of_any_history(
    always_erase: None, arity: int, columns: tuple[int, ...], dense: bool, heavy: float
) -> None:
    """Rounds, erasures and retractions in any order; OLD is what lies before the last round."""
    rng = np.random.default_rng([arity, *columns, dense, int(10 * heavy)])
    keys = 60 if len(columns) == arity else 12
    names = np.arange(100) if dense else np.arange(100) * FAR % ID_END
    bounds = [(0, 100 if dense else ID_END)] * arity
    named = names[:keys].tolist()
    asked = [*product(named, repeat=len(columns)), (ID_END - 1,) * len(columns)]
    history = IndexHistory(arity, columns, bounds, asked)
    assert history.index.header[INDEX_HASHED] == (0 if dense else 1)

    def fresh(most: int) -> list[Row]:
        numbers = rng.integers(0, 100, (rng.integers(0, most), arity))
        for j in columns:
            numbers[:, j] %= keys
            numbers[rng.random(len(numbers)) < heavy, j] = 3
        drawn = dict.fromkeys(tuple(row) for row in names[numbers].tolist())
        return [row for row in drawn if row not in set(history.held)]

    base = 0  # rows from here on have come after the last erasure
    for _ in range(120):
        match rng.integers(0, 6):
            case 0 | 1 | 2:
                history.append(fresh(80))
            case 3:
                share = rng.choice([0.02, 0.3, 1.0])
                assert history.erase([row for row in history.held if rng.random() < share])
                base = len(history.held)
            case 4:
                history.retract(int(rng.integers(base, len(history.held) + 1)))
            case _:
                history.stored.settle()
                history.old = len(history.held)
        history.check()
    history.erase(list(history.held))
    history.append(fresh(80))
    history.retract(0)
    history.check()
    history.append(fresh(80))
    history.check()


@pytest.mark.parametrize("where", CLUSTERS)
def test_slots_with_keys_in_clusters(always_erase: None, where: str) -> None:
    """Slots that become empty leave the table, whatever run they are in."""
    rng = np.random.default_rng(8)
    keys = list(dict.fromkeys(pairs_with_hashes(CLUSTERS[where](rng, 500))))
    history = IndexHistory(3, (0, 1), [(0, ID_END)] * 3, keys)
    rows = [(*key, value) for key in keys for value in range(2)]
    for _ in range(12):
        held = set(history.held)
        history.append([rows[i] for i in rng.permutation(len(rows)) if rows[i] not in held][:400])
        history.check()
        assert history.erase([history.held[i] for i in rng.permutation(len(history.held))[:120]])
        history.check()
        base = len(history.held)
        held = set(history.held)
        history.append([row for row in rows if row not in held][:100])
        history.retract(base + 20)
        history.check()


@pytest.mark.parametrize("arity", [2, 4])
@pytest.mark.parametrize("rows", [1, 2, 30, 50, 127, 2000])
def test_rows_of_a_key_that_has_many(always_erase: None, rows: int, arity: int) -> None:
    """Few are looked for one by one, many in one pass; the payload is compared from its first column on."""
    rng = np.random.default_rng([rows, arity])
    history = IndexHistory(arity, (1,), [(0, 100)] * arity, [(5,), (6,)])
    digits = [(value // 400, value // 20 % 20, value % 20) for value in rng.permutation(4000).tolist()]
    held = [(value[0], 5, *value[1:]) for value in digits]
    if arity == 2:
        held = [(value[0] * 400 + value[1] * 20 + value[2], 5) for value in digits]
    history.append([*held, (1, 6, 1, 1)[:arity]])
    for _ in range(4):
        gone = [history.held[i] for i in rng.permutation(len(history.held) - 1)[:rows]]
        assert history.erase(gone)
        history.check()
        history.append(gone[::2])
        history.check()


@pytest.mark.parametrize("way", ["erase", "retract"])
@pytest.mark.parametrize("dense", [True, False], ids=["direct", "hashed"])
def test_rows_that_come_and_go_take_no_more_room(always_erase: None, dense: bool, way: str) -> None:
    """One key with many rows and many with few: blocks that were given up are used again."""
    factor = 1 if dense else FAR
    rows = [(number % 300 * factor % ID_END, number) for number in range(1200)]
    rows += [(300 * factor % ID_END, number) for number in range(1000)]
    bounds = [(0, 301 if dense else ID_END), (0, 1200)]
    history = IndexHistory(2, (0,), bounds, sorted({row[:1] for row in rows}))
    used = []
    for step in range(40):
        rng = np.random.default_rng(step % 4)
        order = rng.permutation(len(rows))
        for part in np.array_split(order, 5):
            history.append([rows[i] for i in part])
        keep = int(rng.integers(0, 30))
        if way == "retract":
            history.retract(keep)
        else:
            while len(history.held) > keep:
                assert history.erase(history.held[keep:][:100])
        history.check()
        assert history.erase(list(history.held))
        used.append(int(history.index.header[INDEX_PAYLOAD_USED]))
    assert used[-1] == used[19] <= 8 * len(rows)


def test_a_block_is_cut_where_there_is_none_of_half_its_size() -> None:
    """What is cut off serves another key."""
    history = IndexHistory(2, (0,), [(0, 9), (0, 99)], [(1,), (2,)])
    history.stored.append(columns_of([(1, value) for value in range(64)], 2), 64)
    history.held = [(1, value) for value in range(64)]
    history.shrink()
    history.rebuild()
    assert history.index.header[INDEX_PAYLOAD_USED] == 64
    assert history.erase(history.held[20:52])
    history.append([(2, value) for value in range(32)])
    history.check()
    assert history.index.header[INDEX_PAYLOAD_USED] == 64 + 1 + 2 + 4 + 8 + 16


def test_keys_that_come_and_go_take_no_more_slots(always_erase: None) -> None:
    history = IndexHistory(1, (0,), [(0, ID_END)], [(0,)])
    slots = history.index.header[INDEX_SLOT_CAPACITY]
    for step in range(40):
        history.append([(number * FAR % ID_END,) for number in range(500 * step, 500 * step + 500)])
        assert history.erase(history.held[:100]) and history.erase(list(history.held))
    assert distinct_keys(history.index) == 0 and history.index.header[INDEX_SLOT_CAPACITY] == slots


@pytest.mark.parametrize("share", [1, 8])
def test_an_index_is_not_erased_from_where_building_it_anew_is_faster(share: int) -> None:
    """Too many rows, or too many of a key with many: nothing has changed then."""
    count = 20_000
    rows = [(number % share, number) for number in range(count)]
    history = IndexHistory(2, (0,), [(0, 9), (0, count)], [(key,) for key in range(share)])
    history.append(rows[:-10])
    history.append(rows[-10:])
    read = history.readers[Domain.OLD], history.readers[Domain.ALL]
    before = [one() for one in read]
    for much in (rows, rows[: 100 * share]):
        assert not history.index.erase(make_rows(CPU, much, 2), 0, len(much), NOWHERE)
        assert [one() for one in read] == before and history.index.indexed == count
    assert history.erase(rows[:5])
    history.check()


def test_rows_that_are_not_in_an_index_are_noticed() -> None:
    for stranger in ((3, 9), (6, 2), (99, 2), (2**32 - 2, 0)):
        for dense in (True, False):
            history = IndexHistory(2, (0,), [(2, 7 if dense else ID_END), (0, 10)], [(3,), (4,)])
            history.append([(3, 1), (3, 2), (4, 1)])
            assert not history.index.erase(make_rows(CPU, [(3, 1), stranger], 2), 0, 2, NOWHERE)


def test_an_exact_index_does_not_change() -> None:
    stored = make_rows(CPU, [(1, 2), (1, 3)], 2)
    stored.advance()
    index = CPU.index(stored, (0,), [(0, 4), (0, 4)])
    index.build(exact=True)
    assert not index.erase(stored, 0, 1, NOWHERE)
    with pytest.raises(AssertionError):
        index.retract(1)
    assert reader(index, 2, [(1,)], Domain.ALL)() == [(1, 2), (1, 3)]


def test_retracting_nothing_keeps_the_round() -> None:
    history = IndexHistory(2, (0,), [(0, 4), (0, 4)], [(1,)])
    history.append([(1, 2)])
    history.append([(1, 3)])
    for start in (2, 3):
        history.index.retract(start)
        history.check()
