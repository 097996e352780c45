"""Joins of every size and skew on every backend, against a join in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
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
    Operation,
    Pipeline,
    Probe,
    Scan,
    check,
    write,
)
from tests.kernels.backends import (
    ID_END,
    REFERENCE,
    Backend,
    Row,
    bounds_of,
    drain,
    filled_set,
    flags,
    make_rows,
    on_every_backend,
)

#: Around the sizes of tiles, warps and blocks, and of a table with 16 slots.
SIZES = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257]
SPREAD = 16_777_619


def relation(backend: Backend, rows: Sequence[Row], arity: int) -> Any:
    made = make_rows(backend, rows, arity)
    made.settle()
    return made


def index_of(backend: Backend, rows: Any, facts: Sequence[Row], keys: tuple[int, ...]) -> Any:
    index = backend.index(rows, keys, bounds_of(facts, rows.arity))
    index.build(exact=True)
    return index


def join(left: Sequence[Row], right: Sequence[Row]) -> Counter[Row]:
    """(x, y, z) for every (x, y) and (y, z), as often as it is derived."""
    after = defaultdict(list)
    for y, z in right:
        after[y].append(z)
    return Counter((x, y, z) for x, y in left for z in after[y])


def solve(
    backend: Backend, driver: Any, operations: tuple[Operation, ...], sink: Any, registers: int, room: int
) -> list[Row]:
    """What comes out of a pipeline over a binary driver; the sink's set has room for all of it."""
    pipeline = Pipeline(Driver(driver, (write(0), write(1))), operations, sink, registers)
    arity = len(sink.registers)
    out = backend.output(arity, room)
    return drain(backend.program(pipeline), [(0, driver.count)], out, arity, lambda _: None)


def assert_joins(backend: Backend, left: Sequence[Row], right: Sequence[Row], room: int = 1 << 14) -> None:
    """Collected, every derivation comes out; inserted, every row once: in sets of pairs and of triples."""
    driver, other = relation(backend, left, 2), relation(backend, right, 2)
    probe = Probe((IndexProbe(index_of(backend, other, right, (0,)), Domain.ALL, (1,), (write(2),)),))
    expected = join(left, right)
    collected = solve(backend, driver, (probe,), Collect((0, 1, 2)), 3, room)
    assert Counter(collected) == expected
    for registers in ((0, 2), (0, 1, 2)):
        wanted = {tuple(row[j] for j in registers) for row in expected}
        for end in (bounds_of(sorted(wanted), len(registers)), [(0, ID_END)] * len(registers)):
            keyset = backend.keyset(len(registers), end, len(wanted) + room)
            found = solve(backend, driver, (probe,), Insert(keyset, registers), 3, room)
            assert sorted(found) == sorted(wanted)
            # Once more: nothing is new.
            assert solve(backend, driver, (probe,), Insert(keyset, registers), 3, room) == []


@pytest.mark.parametrize("spread", [1, SPREAD], ids=["dense", "spread"])
@pytest.mark.parametrize("size", SIZES)
@on_every_backend
def test_sizes_around_tiles_warps_and_blocks(backend: Backend, size: int, spread: int) -> None:
    """As many drivers as rows, and about as many candidates."""
    left = [(i * spread % ID_END, (i + 3) * spread % ID_END) for i in range(size)]
    right = [(i * spread % ID_END, i % 5) for i in range(size)]
    assert_joins(backend, left, right)


@pytest.mark.parametrize(
    ("drivers", "matches"), [(1, 1), (1, 300), (300, 1), (17, 33), (8, 64), (0, 9), (9, 0)]
)
@on_every_backend
def test_all_keys_equal(backend: Backend, drivers: int, matches: int) -> None:
    assert_joins(backend, [(x, 7) for x in range(drivers)], [(7, z) for z in range(matches)])


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@on_every_backend
def test_one_key_has_nearly_all_matches(backend: Backend, place: str) -> None:
    heavy = {"first": 0, "middle": 50, "last": 99}[place]
    count = 400 if backend.is_slow or backend is REFERENCE else 3000
    left = [(1000 + y, y) for y in range(100)]
    right = [(heavy, z) for z in range(count)] + [(y, y) for y in range(100) if y % 3]
    assert_joins(backend, left, right)


@pytest.mark.parametrize("room", [1, 5, 16, 100])
@on_every_backend
def test_an_output_that_is_full_again_and_again(backend: Backend, room: int) -> None:
    count = 6 if backend.is_slow else 24
    assert_joins(backend, [(x, x % 4) for x in range(count)], [(y % 4, y) for y in range(count)], room)


@pytest.mark.parametrize("arity", [3, 4, 5, 6])
@on_every_backend
def test_wide_rows_with_extreme_ids(backend: Backend, arity: int) -> None:
    """Rows that do not fit 64 bits, alike in all but one column."""
    ids = [0, 1, 2**24, 2**31, 2**32 - 2]
    base = tuple(ids[(j * 3) % 5] for j in range(arity))
    rows = [base, *((*base[:j], id, *base[j + 1 :]) for j in range(arity) for id in ids)]
    facts = relation(backend, rows + rows[::-1], arity)
    keyset = backend.keyset(arity, [(0, ID_END)] * arity, len(rows))
    registers = tuple(range(arity))
    scan = Scan(facts, Domain.ALL, tuple(map(write, registers)))
    driver = relation(backend, [(1,), (2,)], 1)
    pipeline = Pipeline(Driver(driver, (IGNORE,)), (scan,), Insert(keyset, registers), arity)
    out = backend.output(arity, 7)
    found = drain(backend.program(pipeline), [(0, 2)], out, arity, lambda _: None)
    assert sorted(found) == sorted(set(rows))
    strangers = make_rows(backend, [tuple(3 for _ in registers), tuple(reversed(base))], arity)
    assert flags(keyset.contains(strangers, 0, 2)) == [False, base[::-1] in rows]
    assert all(flags(keyset.contains(facts, 0, facts.count)))


def filters(backend: Backend) -> dict[str, tuple[Operation, Callable[[Row], bool]]]:
    """Filters of (x, y, z) with what they let through."""
    facts = [(x, x * x % 11, x % 3) for x in range(11)]
    rows = relation(backend, facts, 3)
    by_first = index_of(backend, rows, facts, (0,))
    by_two = index_of(backend, rows, facts, (0, 2))
    pairs = [(x, (x + 1) % 11) for x in range(11)]
    held = filled_set(backend, relation(backend, pairs, 2), 2, [(0, 11)] * 2)
    squares = {(x, y) for x, y, _ in facts}
    rests = {(x, z) for x, _, z in facts}

    def exists(index: Any, keys: tuple[int, ...], payload: tuple[int, ...], negated: bool) -> Exists:
        return Exists(IndexProbe(index, Domain.ALL, keys, payload), negated)

    return {
        "in": (Contains(held, (0, 2)), lambda row: (row[0], row[2]) in pairs),
        "not in": (Contains(held, (2, 0), negated=True), lambda row: (row[2], row[0]) not in pairs),
        "exists": (exists(by_first, (2,), (IGNORE, IGNORE), False), lambda row: row[2] < 11),
        "not exists": (exists(by_first, (2,), (IGNORE, IGNORE), True), lambda row: row[2] >= 11),
        "exists with a check": (
            exists(by_first, (0,), (check(2), IGNORE), False),
            lambda row: (row[0], row[2]) in squares,
        ),
        "not exists with a check": (
            exists(by_first, (0,), (check(2), IGNORE), True),
            lambda row: (row[0], row[2]) not in squares,
        ),
        "exists by two columns": (
            exists(by_two, (0, 1), (IGNORE,), False),
            lambda row: (row[0], row[1]) in rests,
        ),
        "not exists by two columns with a check": (
            exists(by_two, (0, 1), (check(2),), True),
            lambda row: not ((row[0], row[1]) in rests and (row[0], row[2]) in squares),
        ),
    }


@pytest.mark.parametrize("inserts", [True, False], ids=["insert", "collect"])
@pytest.mark.parametrize("name", sorted(filters(REFERENCE)))
@on_every_backend
def test_filters_after_a_join(backend: Backend, name: str, inserts: bool) -> None:
    operation, passes = filters(backend)[name]
    left = [(x, y) for x in range(11) for y in range(4)]
    right = [(y, (y * 5 + 3 * k) % 14) for y in range(4) for k in range(3)]
    driver, other = relation(backend, left, 2), relation(backend, right, 2)
    probe = Probe((IndexProbe(index_of(backend, other, right, (0,)), Domain.ALL, (1,), (write(2),)),))
    wanted = [row for row in join(left, right) if passes(row)]
    sink = Insert(backend.keyset(3, [(0, 15)] * 3, 1000), (0, 1, 2)) if inserts else Collect((0, 1, 2))
    found = solve(backend, driver, (probe, operation), sink, 3, 40)
    assert 0 < len(wanted) < 44 * 3
    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("sizes", [(1, 9), (9, 1), (5, 5), (0, 3), (3, 0)])
@on_every_backend
def test_of_two_alternatives_one_is_taken_and_the_other_checked(
    backend: Backend, sizes: tuple[int, int]
) -> None:
    """r(x, y, z) :- d(x, y), a(x, z), b(y, z): each binding of x and y takes its own shorter list."""
    rng = np.random.default_rng(sizes)
    first = sorted({(x, int(z)) for x in range(6) for z in rng.integers(0, 12, sizes[0] * (x + 1) // 3)})
    second = sorted({(y, int(z)) for y in range(6) for z in rng.integers(0, 12, sizes[1] * (6 - y) // 3)})
    left = [(x, y) for x in range(6) for y in range(6)]
    relations = [relation(backend, rows, 2) for rows in (first, second)]
    indexes = [index_of(backend, *pair, (0,)) for pair in zip(relations, (first, second), strict=True)]
    sets = [filled_set(backend, rows, 2, [(0, 12)] * 2) for rows in relations]
    operations = (
        Probe(tuple(IndexProbe(index, Domain.ALL, (k,), (write(2),)) for k, index in enumerate(indexes))),
        Contains(sets[0], (0, 2), unless=(0, 0)),
        Contains(sets[1], (1, 2), unless=(0, 1)),
    )
    found = solve(backend, relation(backend, left, 2), operations, Collect((0, 1, 2)), 3, 100)
    wanted = [(x, y, z) for x, y in left for z in range(12) if (x, z) in first and (y, z) in second]
    assert sorted(found) == wanted
