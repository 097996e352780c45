"""Numbers of keys, the best value of each, and the first row for each, against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest

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
