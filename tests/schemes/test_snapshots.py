"""Snapshots: the facts of a scheme at one time, while it changes in every way that it can."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.kernels.position_sets import SegmentPool
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.table import Table
from tests.schemes.test_contract import EACH_WORLD, SPREAD, STEPS, Step, take
from tests.schemes.worlds import IDS, WORLDS, Facts, Rules, assert_holds, columns_of, contents


@dataclass
class Settled:
    """The model of a snapshot: everything is OLD."""

    all: Facts
    rules: Rules

    @property
    def old(self) -> Facts:
        return self.all

    new = gone = frozenset[Any]()


@EACH_WORLD
@settings(max_examples=30)
@given(STEPS, STEPS, SPREAD)
def test_snapshots_stay(
    name: str, first: list[tuple[Step, bool]], then: list[tuple[Step, bool]], spread: str
) -> None:
    """Those taken before a change, and those taken in it: of what there was when it began."""
    world, ids = WORLDS[name](), IDS[spread]
    for step, _ in first:
        take(world, step, ids, False)
    world.advance()
    world.each("settle")
    facts = contents(world.scheme)
    model = Settled(facts, world.model.rules)
    taken = [world.scheme.snapshot()]
    for scheme, _ in world.members:
        scheme.begin_change()
    for step, looks in then:
        take(world, step, ids, False)
        if looks:
            taken = [taken[0], world.scheme.snapshot()]  # of others only what they share is left
            assert contents(taken[-1]) == facts
    world.advance()
    taken.append(world.scheme.snapshot())
    for scheme, _ in world.members:
        scheme.end_change()
    for snapshot in taken:
        assert_holds(snapshot, model)
    world.each("settle")
    assert contents(world.scheme.snapshot()) == contents(world.scheme)


def changed(table: Table, choose: random.Random) -> None:
    """One of the ways in which a table changes in an update."""
    rows = [(choose.randrange(30), choose.randrange(4)) for _ in range(choose.randrange(1, 12))]
    kind = choose.randrange(6)
    if kind == 0:
        table.insert(columns_of(rows, 2), len(rows))
        table.take_in()
    elif kind == 1:
        table.delete(columns_of(rows, 2), len(rows))
        table.take_back()
    elif kind == 2:
        table.delete(columns_of(rows, 2), len(rows))
        table.take_in()
    elif kind == 3:
        table.insert(columns_of(rows, 2), len(rows))
        table.advance()
        table.take_back()
    elif kind == 4:
        table.keep(np.array([choose.random() < 0.8 for _ in range(len(table))], np.bool_))
    else:
        table.renew()
        table.take_back()


def test_tables_that_are_overwritten() -> None:
    """Whatever is moved, cut off and overwritten: the rows are what they were, in the order that they had."""
    for seed in range(150):
        choose = random.Random(seed)
        table = Table("t", 2, CPU)
        table.maintained = choose.random() < 0.5
        kept: list[tuple[Table, list[list[int]]]] = []
        for _ in range(6):
            columns = [column.tolist() for column in table.columns()]
            if choose.random() < 0.5:
                kept.append((table.snapshot(), columns))
            table.begin_change()
            for _ in range(choose.randrange(6)):
                changed(table, choose)
                if choose.random() < 0.4:
                    snapshot = table.snapshot()
                    assert [column.tolist() for column in snapshot.columns()] == columns, seed
                    if choose.random() < 0.4:
                        kept.append((snapshot, columns))
            table.end_change()
        for snapshot, columns in kept:
            assert [column.tolist() for column in snapshot.columns()] == columns, seed
            assert snapshot.contains(columns_of([(1, 1)], 2), 1)[0] == ((1, 1) in zip(*columns, strict=True))


def addresses(pool: SegmentPool) -> list[int]:
    return [array.ctypes.data for array in (pool.starts, pool.ends, pool.blocks, pool.words)]


def test_sets_that_are_read_are_not_moved() -> None:
    """A reader may be in a kernel that has their addresses while the closure grows."""
    choose = random.Random(1)
    scheme = Closure("c")
    pairs = [(choose.randrange(300), choose.randrange(300, 600)) for _ in range(300)]
    scheme.insert(columns_of(pairs, 2), len(pairs))
    scheme.settle()
    scheme.begin_change()
    snapshot = scheme.snapshot()
    pool = snapshot.reading(0).reached.sets.pool
    before, length, facts = addresses(pool), len(pool.starts), contents(snapshot)
    grew = 0
    for k in range(60):
        live = scheme.reading(0).reached.sets.pool
        more = [(600 + k, choose.randrange(600)), (choose.randrange(300), 600 + k)]
        scheme.insert(columns_of(more, 2), len(more))
        scheme.settle()
        grew += scheme.reading(0).reached.sets.pool is not live or live.starts is not pool.starts
        assert addresses(pool) == before and len(pool.starts) == length
    assert grew and contents(snapshot) == facts


def test_who_has_no_snapshot_pays_nothing() -> None:
    table = Table("t", 2, CPU)
    table.maintained = True
    rows = [(k, k + 1) for k in range(1000)]
    table.insert(columns_of(rows, 2), len(rows))
    table.take_in()

    def delete(row: tuple[int, int]) -> int:
        """Where the first column is after a change."""
        table.begin_change()
        table.delete(columns_of([row], 2), 1)
        table.take_back()
        table.end_change()
        return int(table.column(0).ctypes.data)

    address = delete(rows[0])
    assert delete(rows[1]) == address
    table.snapshot()
    assert delete(rows[2]) == address, "nobody has it any more"
    held: Scheme = table.snapshot()
    moved = delete(rows[3])
    assert moved != address and delete(rows[4]) == moved, "it is copied once"
    assert len(held) == 997
