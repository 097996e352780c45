"""Keys that meet in one slot or have one hash: sets and indexes tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpuengine.kernels.contract import (
    IGNORE,
    Collect,
    Contains,
    Domain,
    Driver,
    Exists,
    IndexProbe,
    Insert,
    Pipeline,
    Probe,
    check,
    write,
)
from gpuengine.kernels.cuda.index_kernels import hashed_key
from gpuengine.kernels.cuda.set_kernels import HASHED, WIDE, hash_row, mix
from tests.kernels.backends import (
    CUDA,
    ID_END,
    Backend,
    Row,
    assert_new,
    columns_of,
    drain,
    filled_set,
    flags,
    make_rows,
    on,
)


def unmix(key: int) -> int:
    """The inverse of `mix`."""
    key ^= (key >> 31) ^ (key >> 62)
    key = key * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    key ^= (key >> 27) ^ (key >> 54)
    key = key * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return key ^ (key >> 30) ^ (key >> 60)


def pairs_with_one_hash(count: int, upper: int = 77) -> list[Row]:
    """Pairs of ids whose 32-bit `hashed_key` is the same."""
    pairs = []
    for lower in range(2 * count + 10):
        key = unmix(upper << 32 | lower)
        if key >> 32 < ID_END and key % 2**32 < ID_END:
            pairs.append((key >> 32, key % 2**32))
    with np.errstate(over="ignore"):
        assert {int(hashed_key(np.uint64(x), np.uint64(y))) for x, y in pairs} == {upper}
    return pairs[:count]


def alike_pairs_with_one_hash(column: int, count: int) -> tuple[list[Row], list[Row]]:
    """Two lists of pairs: the nth of both have one `hashed_key`, and all have one id in `column`."""
    ids, fixed = np.arange(1 << 20, dtype=np.uint64), np.full(1 << 20, 2**32 - 2, np.uint64)
    with np.errstate(over="ignore"):
        hashed = hashed_key(fixed, ids) if column == 0 else hashed_key(ids, fixed)
    order = np.argsort(hashed, kind="stable")
    places = np.flatnonzero(hashed[order][1:] == hashed[order][:-1])[:count]
    assert len(places) == count
    pairs = [[(2**32 - 2, int(id)) for id in order[places + k]] for k in (0, 1)]
    return (pairs[0], pairs[1]) if column == 0 else ([p[::-1] for p in pairs[0]], [p[::-1] for p in pairs[1]])


def slots_of(keyset: Any, rows: Sequence[Row]) -> np.ndarray:
    """Where the search for each row begins."""
    columns = columns_of(rows, keyset.arity)
    with np.errstate(over="ignore"):
        if keyset.kind == WIDE:
            hashed = hash_row(np.concatenate(columns), len(rows), keyset.arity, np.arange(len(rows)))
        else:
            keys = sum(
                column.astype(np.uint64) * np.uint64(stride)
                for column, stride in zip(columns, keyset.strides, strict=True)
            )
            hashed = mix(keys - np.uint64(keyset.least_key))
    return hashed & np.uint64(keyset.mask)


def rows_in_slot(keyset: Any, slot: int, high: int, count: int) -> list[Row]:
    """Distinct rows whose search begins at one slot."""
    rng = np.random.default_rng(slot)
    rows = [
        tuple(row) for row in rng.integers(0, high, (count * len(keyset.table) * 2, keyset.arity)).tolist()
    ]
    rows = list(dict.fromkeys(rows))
    chosen = [row for row, its in zip(rows, slots_of(keyset, rows), strict=True) if its == slot]
    assert len(chosen) >= count
    return chosen[:count]


KINDS = pytest.mark.parametrize(
    ("arity", "high", "kind"),
    [(1, ID_END, HASHED), (2, ID_END, HASHED), (3, 2**20, HASHED), (3, ID_END, WIDE), (5, ID_END, WIDE)],
)


@pytest.mark.parametrize("slot", [0, 17, -1], ids=["first", "middle", "last, around to the first"])
@KINDS
@on(*CUDA)
def test_a_table_as_full_as_it_may_be_with_keys_of_one_slot(
    backend: Backend, arity: int, high: int, kind: int, slot: int
) -> None:
    bounds = [(0, high)] * arity
    keyset = backend.keyset(arity, bounds)
    assert keyset.kind == kind
    room = keyset.capacity
    rows = rows_in_slot(keyset, slot % len(keyset.table), high, 2 * room)
    held, strangers = rows[:room], rows[room:]
    batch = [row for row in held for _ in range(3)]
    assert_new(backend, keyset.insert(make_rows(backend, batch, arity), 0, len(batch)), batch, set())
    stored = make_rows(backend, held, arity)
    assert all(flags(keyset.contains(stored, 0, room)))
    assert not any(flags(keyset.contains(make_rows(backend, strangers, arity), 0, room)))
    keyset.reserve(2 * room, stored)
    everything = make_rows(backend, rows, arity)
    assert flags(keyset.contains(everything, 0, 2 * room)) == [True] * room + [False] * room
    assert_new(backend, keyset.insert(everything, 0, 2 * room), rows, set(held))


def probe_all(
    backend: Backend, index: Any, keys: Sequence[Row], payload: tuple[int, ...], sink: Any
) -> list[Row]:
    """What a probe by two columns finds for each key; the payload goes to register 2."""
    driver = make_rows(backend, keys, 2)
    probe = Probe((IndexProbe(index, Domain.ALL, (0, 1), payload),))
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (probe,), sink, 3)
    out = backend.output(len(sink.registers), 7)
    return sorted(
        drain(backend.program(pipeline), [(0, len(keys))], out, len(sink.registers), lambda _: None)
    )


def hashed_index(backend: Backend, rows: Any, keys: tuple[int, int] = (0, 1)) -> Any:
    index = backend.index(rows, keys, [(0, ID_END)] * rows.arity)
    index.build(exact=False)
    assert index.verifies
    return index


@on(*CUDA)
def test_index_keys_with_one_hash_are_verified(backend: Backend) -> None:
    keys = pairs_with_one_hash(24)
    held, strangers = keys[:16], keys[16:]
    # The first key has many rows, the others one.
    facts = [(*held[0], n) for n in range(20)] + [(*key, n) for n, key in enumerate(held[1:])]
    rows = make_rows(backend, facts, 3)
    rows.advance()
    index = hashed_index(backend, rows)
    asked = [*strangers, *held]
    assert probe_all(backend, index, asked, (write(2),), Collect((0, 1, 2))) == sorted(facts)
    # As pairs the last probe and the insertion are one kernel; as wide rows they are not.
    pairs = backend.keyset(2, [(0, ID_END)] * 2, 200)
    wanted = sorted({(fact[0], fact[2]) for fact in facts})
    assert probe_all(backend, index, asked, (write(2),), Insert(pairs, (0, 2))) == wanted
    wide = backend.keyset(3, [(0, ID_END)] * 3, 200)
    assert probe_all(backend, index, asked, (write(2),), Insert(wide, (0, 1, 2))) == sorted(facts)
    assert probe_all(backend, index, asked, (write(2),), Insert(wide, (0, 1, 2))) == []


@pytest.mark.parametrize("column", [0, 1])
@on(*CUDA)
def test_index_keys_with_one_hash_and_one_equal_id_are_verified(backend: Backend, column: int) -> None:
    held, strangers = alike_pairs_with_one_hash(column, 20)
    facts = [(*key, n) for n, key in enumerate(held)]
    rows = make_rows(backend, facts, 3)
    rows.advance()
    index = hashed_index(backend, rows)
    asked = [*held, *strangers]
    assert probe_all(backend, index, asked, (write(2),), Collect((0, 1, 2))) == sorted(facts)
    pairs = backend.keyset(2, [(0, ID_END)] * 2, 100)
    wanted = sorted((fact[1 - column], fact[2]) for fact in facts)
    assert probe_all(backend, index, asked, (write(2),), Insert(pairs, (1 - column, 2))) == wanted


@on(*CUDA)
def test_index_keys_with_one_hash_in_both_runs(backend: Backend) -> None:
    """Old rows lie in one run and new ones in another."""
    keys = pairs_with_one_hash(40)
    old = [(*key, 1) for key in keys[:30]]
    new = [(*key, 2) for key in keys[25:35]]
    rows = make_rows(backend, old, 3)
    rows.advance()
    index = hashed_index(backend, rows)
    rows.append(columns_of(new[:4], 3), 4)
    rows.advance()
    assert index.ensure() and len(index.recent.pairs) == 4
    assert probe_all(backend, index, keys, (write(2),), Collect((0, 1, 2))) == sorted(old + new[:4])
    rows.append(columns_of(new[4:], 3), 6)
    rows.advance()
    assert index.ensure()
    assert probe_all(backend, index, keys, (write(2),), Collect((0, 1, 2))) == sorted(old + new)
    old_only = Probe((IndexProbe(index, Domain.OLD, (0, 1), (write(2),)),))
    driver = make_rows(backend, keys, 2)
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (old_only,), Collect((0, 1, 2)), 3)
    out = backend.output(3, 100)
    found = drain(backend.program(pipeline), [(0, len(keys))], out, 3, lambda _: None)
    assert sorted(found) == sorted(old + new[:4])


@on(*CUDA)
def test_a_payload_check_beside_the_verification(backend: Backend) -> None:
    keys = pairs_with_one_hash(12)
    facts = [(*key, keys[n % 3][0]) for n, key in enumerate(keys)]
    rows = make_rows(backend, facts, 3)
    rows.advance()
    index = hashed_index(backend, rows)
    wanted = sorted((fact[0], fact[1]) for fact in facts if fact[2] == fact[0])
    assert len(wanted) == 3
    assert probe_all(backend, index, keys, (check(0),), Collect((0, 1))) == wanted
    pairs = backend.keyset(2, [(0, ID_END)] * 2, 50)
    assert probe_all(backend, index, keys, (check(0),), Insert(pairs, (0, 1))) == wanted


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("payload", [IGNORE, check(0)], ids=["any row", "with a check"])
@pytest.mark.parametrize("chunk", [7, 1 << 20])
@on(*CUDA)
def test_exists_of_keys_with_one_hash(
    monkeypatch: pytest.MonkeyPatch, backend: Backend, chunk: int, payload: int, negated: bool
) -> None:
    monkeypatch.setattr(backend.device, "chunk_items", chunk)
    keys = pairs_with_one_hash(12)
    facts = [(*key, key[n % 2]) for n, key in enumerate(keys[:8])] * 2
    rows = make_rows(backend, facts, 3)
    rows.settle()
    index = hashed_index(backend, rows)
    exists = Exists(IndexProbe(index, Domain.ALL, (0, 1), (payload,)), negated)
    driver = make_rows(backend, keys, 2)
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (exists,), Collect((0, 1)), 2)
    out = backend.output(2, 100)
    found = drain(backend.program(pipeline), [(0, len(keys))], out, 2, lambda _: None)
    with_match = {key for n, key in enumerate(keys[:8]) if payload == IGNORE or n % 2 == 0}
    assert sorted(found) == sorted(key for key in keys if (key in with_match) != negated)


@on(*CUDA)
def test_alternatives_whose_counts_are_inflated_by_collisions(backend: Backend) -> None:
    """Verification comes after the choice: a list that only looks longer costs time, not answers."""
    keys = pairs_with_one_hash(10)
    first = [(*key, n) for n, key in enumerate(keys[:6])]
    second = [(key[0], key[1], n) for n, key in enumerate(keys)] + [(*keys[0], 50), (*keys[9], 60)]
    relations = [make_rows(backend, rows, 3) for rows in (first, second)]
    for rows in relations:
        rows.settle()
    indexes = [hashed_index(backend, rows) for rows in relations]
    sets = [filled_set(backend, rows, 3, [(0, ID_END)] * 3) for rows in relations]
    probe = Probe(tuple(IndexProbe(index, Domain.ALL, (0, 1), (write(2),)) for index in indexes))
    checks = tuple(Contains(keyset, (0, 1, 2), unless=(0, n)) for n, keyset in enumerate(sets))
    driver = make_rows(backend, keys, 2)
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), (probe, *checks), Collect((0, 1, 2)), 3)
    out = backend.output(3, 4)
    found = drain(backend.program(pipeline), [(0, len(keys))], out, 3, lambda _: None)
    assert sorted(found) == sorted(set(first) & set(second))
