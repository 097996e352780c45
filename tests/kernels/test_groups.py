"""Numbers of keys, the best value of each, and the first row for each, against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

from gpuengine.kernels.cpu import groups
from gpuengine.kernels.cpu.groups import BestValues, KeyNumbers, choose


@pytest.mark.parametrize("arity", [1, 2, 3])
def test_keys_are_numbered_once(arity: int) -> None:
    random = np.random.default_rng(arity)
    numbers, known = KeyNumbers(arity), {}
    for count in (1, 500, 20, 3000):
        columns = [random.integers(0, 9, count).astype(np.uint32) for _ in range(arity)]
        found = numbers.number(columns, count)
        for key, number in zip(
            zip(*(column.tolist() for column in columns), strict=True), found, strict=True
        ):
            assert known.setdefault(key, number) == number
        assert len(known) == len(numbers) == len(set(known.values()))


@pytest.mark.parametrize("direct", [0, 4, 1 << 20])
def test_keys_of_one_id_are_numbered_when_ids_are_no_longer_dense(
    direct: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_DIRECT_IDS", direct)
    random = np.random.default_rng(direct)
    numbers, known = KeyNumbers(1), {}
    for largest in (3, 40, 1, 5_000, 1 << 22, 2_000, (1 << 32) - 2, 30):
        ids = random.integers(0, largest + 1, 60).astype(np.uint32)
        found = numbers.number([ids], len(ids))
        for key, number in zip(ids.tolist(), found.tolist(), strict=True):
            assert known.setdefault(key, number) == number
        assert sorted(known.values()) == list(range(len(numbers)))
        assert {key: numbers.rows.column(0)[number] for key, number in known.items()} == {k: k for k in known}
    assert numbers.nbytes < 1 << 20


def _tell(best: BestValues) -> list[tuple[int, int]]:
    """The keys that improved, each with its value."""
    improved = best.improved()
    keys = best.keys.rows.column(0)[improved].tolist()
    return list(zip(keys, best.ids[improved].tolist(), strict=True))


def _offer(best: BestValues, rows: list[tuple[int, int]]) -> None:
    keys, values = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    best.offer([keys], values.astype(np.int64), values)


def test_the_best_are_told_first_and_what_got_better_meanwhile_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "_RELEASED", 1)
    best = BestValues(1, holding=True)
    _offer(best, [(1, 50), (2, 10), (3, 30), (4, 20)])
    assert sorted(_tell(best)) == [(2, 10), (4, 20)]
    _offer(best, [(1, 40), (3, 35), (1, 15), (5, 60)])
    assert _tell(best) == [(1, 15)]
    assert not best.is_told
    told = [row for _ in range(2) for row in _tell(best)]
    assert sorted(told) == [(3, 30), (5, 60)]
    assert best.is_told and _tell(best) == []


def test_a_value_better_than_any_told_has_everything_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_RELEASED", 1)
    best = BestValues(1, holding=True)
    _offer(best, [(key, 100 + key) for key in range(40)])
    assert len(_tell(best)) < 40
    _offer(best, [(50, 7), (30, 90)])
    told = dict(_tell(best))
    assert told[50] == 7 and told[30] == 90 and best.is_told
    _offer(best, [(key, 60 - key) for key in range(40)])
    assert dict(_tell(best)) == {key: 60 - key for key in range(40)}


@pytest.mark.parametrize("released", [1, 3, 1000])
def test_in_the_end_each_key_was_told_with_its_best_value(
    released: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_RELEASED", released)
    random = np.random.default_rng(released)
    best, known, last = BestValues(1, holding=True), {}, {}
    for turn in range(60):
        if turn < 30:
            low = 10 * turn if released < 1000 else 0
            rows = [(int(key), int(random.integers(low, 2000))) for key in random.integers(0, 90, 25)]
            _offer(best, rows)
            for key, value in rows:
                known[key] = min(value, known.get(key, value))
        for key, value in _tell(best):
            assert value < last.get(key, 2000)
            last[key] = value
    assert best.is_told and last == known


def test_the_best_value_of_each_key_is_told_once_for_each_time_it_improves() -> None:
    random = np.random.default_rng(5)
    best, known = BestValues(1), {}
    for _ in range(20):
        before = dict(known)
        for _ in range(3):
            keys = random.integers(0, 200, 150).astype(np.uint32)
            values = random.integers(-1000, 1000, 150)
            best.offer([keys], values, (values + 1000).astype(np.uint32))
            for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                known[key] = min(value, known.get(key, value))
        improved = best.improved()
        told = best.keys.rows.column(0)[improved].tolist()
        assert sorted(told) == sorted(key for key in known if known[key] != before.get(key))
        assert (best.ids[improved].astype(np.int64) - 1000).tolist() == [known[key] for key in told]
    assert not len(best.improved())


@pytest.mark.parametrize("keys", [1, 2, 3])
def test_rows_are_chosen_one_after_the_other(keys: int) -> None:
    random = np.random.default_rng(keys)
    count = 400
    numbers = random.integers(0, 150, (keys, count)).astype(np.uint32)
    taken, chosen = np.zeros(150, np.uint8), np.zeros(count, np.uint8)
    taken[:5] = 1
    total = choose(numbers.reshape(-1).copy(), keys, count, taken, chosen)
    used, expected = set(range(5)), []
    for row in range(count):
        own = {int(number) for number in numbers[:, row]}
        expected.append(int(not own & used))
        used |= own if expected[-1] else set()
    assert chosen.tolist() == expected and total == sum(expected)
    assert set(np.flatnonzero(taken).tolist()) == used
