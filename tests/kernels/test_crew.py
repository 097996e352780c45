"""Sets and indexes that several threads grow together are what one thread makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from gpuengine.evaluation.placement.workers import Workers
from gpuengine.kernels.contract import Domain
from gpuengine.kernels.cpu import crew, sets
from gpuengine.kernels.cpu.layout import HASHED, INDEX_HASHED
from tests.kernels.backends import CPU, ID_END, Row, columns_of, make_rows
from tests.kernels.test_index import found, ids
from tests.kernels.test_keyset import CLUSTERS, flags, pairs_with_hashes


@pytest.fixture(params=[2, 5])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """So many threads share whatever there is to grow, however little."""
    monkeypatch.setattr(crew, "LEAST_SHARE", 1)
    workers = Workers(request.param)
    with workers.lent():
        yield request.param
    workers.close()


def test_only_the_thread_that_lends_has_helpers(threads: int) -> None:
    seen: list[int] = []
    assert crew.shares_of(100) == threads
    other = Workers(2)
    other.each(lambda _: seen.append(crew.shares_of(100)), range(50))
    other.close()
    assert set(seen) <= {1, threads}
    with crew.lent(Workers(1)):
        assert crew.shares_of(100) == 1
    assert crew.shares_of(100) == threads and crew.shares_of(0) == 1


@pytest.mark.parametrize("where", CLUSTERS)
def test_hash_tables_that_grow(monkeypatch: pytest.MonkeyPatch, threads: int, where: str) -> None:
    monkeypatch.setattr(sets, "_SPREAD_HEAD", 64)
    pairs = list(dict.fromkeys(pairs_with_hashes(CLUSTERS[where](np.random.default_rng(3), 8000))))
    held, strangers = pairs[::2], make_rows(CPU, pairs[1::2], 2)
    stored = CPU.rows(2)
    keyset = CPU.keyset(2, [(0, ID_END)] * 2)
    for start in range(0, len(held), 300):
        part = held[start : start + 300]
        keyset.reserve(stored.count + len(part), stored)
        assert all(flags(keyset.insert(make_rows(CPU, part, 2), 0, len(part))))
        stored.append(columns_of(part, 2), len(part))
    assert keyset.kind == HASHED
    assert all(flags(keyset.contains(stored, 0, stored.count)))
    assert not any(flags(keyset.contains(strangers, 0, strangers.count)))


def test_a_set_that_is_made_anew(threads: int) -> None:
    rng = np.random.default_rng(4)
    rows = CPU.rows(3)
    columns = [np.arange(100_000, dtype=np.uint32), *(rng.integers(0, 9, 100_000, np.uint32) for _ in "ab")]
    rows.append(columns, 100_000)
    keyset = CPU.keyset(3, [(0, 1), (0, 9), (0, 9)])
    keyset.widen([(0, ID_END), (0, 9), (0, 9)], rows)
    assert all(flags(keyset.contains(rows, 0, rows.count)))
    assert not any(flags(keyset.insert(rows, 0, rows.count)))


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("columns", [(0,), (1, 2)])
def test_indexes_that_are_built_and_appended_to(threads: int, dense: bool, columns: tuple[int, ...]) -> None:
    """Some keys have many rows, most have few; slots and payload grow many times."""
    rng = np.random.default_rng(len(columns) + dense)
    count = 6000
    numbers = [(rng.random(count) ** 3 * 900).astype(np.int64) for _ in columns]
    keys = [ids(one, dense=dense) for one in numbers]
    table: list[Row] = []
    for number, key in enumerate(zip(*keys, strict=True)):
        values = iter(key)
        table.append(tuple(next(values) if j in columns else number for j in range(3)))
    rows = CPU.rows(3)
    rows.append(columns_of(table[:1000], 3), 1000)
    rows.advance()
    bounds = [(0, 900 if dense else ID_END) if j in columns else (0, count) for j in range(3)]
    index = CPU.index(rows, columns, bounds)
    index.build(exact=False)
    assert bool(index.header[INDEX_HASHED]) != (dense and len(columns) == 1)
    asked = [key for key, _ in zip(dict.fromkeys(zip(*keys, strict=True)), range(200), strict=False)]
    sizes = [1000, 1003, 3000, 3001, count]
    for start, end in pairwise(sizes):
        rows.append(columns_of(table[start:end], 3), end - start)
        rows.advance()
        assert index.ensure()
        for domain, upto in ((Domain.ALL, end), (Domain.OLD, start)):
            expected: dict[Row, list[Row]] = {key: [] for key in asked}
            for row in table[:upto]:
                key = tuple(row[j] for j in columns)
                if key in expected:
                    expected[key].append((*key, *(row[j] for j in range(3) if j not in columns)))
            assert found(CPU, index, 3, asked, domain) == [row for key in asked for row in expected[key]]
    exact = CPU.index(rows, columns, bounds)
    exact.build(exact=True)
    assert found(CPU, exact, 3, asked, Domain.ALL) == found(CPU, index, 3, asked, Domain.ALL)
