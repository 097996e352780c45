"""Definition 4 of the thesis as properties that every scheme has, whatever happens to it in which order."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.contract import Domain, Scheme, cover
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Union
from tests.schemes.worlds import (
    ALL,
    IDS,
    NEW,
    OLD,
    WORLDS,
    World,
    columns_of,
    contents,
    fixpoint,
    listed,
)

Step = tuple[Any, ...]
EACH_WORLD = pytest.mark.parametrize("name", WORLDS)
ROWS = st.lists(st.tuples(*[st.integers(0, 6)] * 3), max_size=6)
MEMBER = st.integers(0, 2)
PICKS = st.lists(st.tuples(MEMBER, st.integers(0, 60)), max_size=4)
INSERT = st.tuples(st.just("insert"), MEMBER, ROWS)
STEP = st.one_of(
    INSERT,
    INSERT,
    st.just(("advance",)),
    st.just(("advance",)),
    st.just(("settle",)),
    st.just(("renew",)),
    st.just(("renew last",)),
    st.tuples(st.just("delete"), st.lists(PICKS, min_size=1, max_size=2)),
)
STEPS = st.lists(st.tuples(STEP, st.booleans()), min_size=1, max_size=9)
SPREAD = st.sampled_from(sorted(IDS))


def take(world: World, step: Step, ids: list[int], checked: bool) -> None:
    if step[0] == "insert":
        world.insert(step[1], [tuple(ids[k] for k in row) for row in step[2]])
    elif step[0] == "advance":
        world.advance()
    elif step[0] == "renew last":
        world.scheme.renew()
        world.model.renew()
    elif step[0] == "delete":
        delete(world, step[1], ids, checked)
    else:
        world.each(step[0])
    if checked:
        world.check()


def delete(world: World, batches: list[list[tuple[int, int]]], ids: list[int], checked: bool) -> None:
    """Parts go first when things are deleted, and last when they are removed."""
    world.each("settle")
    for picks in batches:
        world.delete(picks, ids)
        if checked:
            world.check()
        world.each("remove", backward=True)
        if checked:
            world.check()


@EACH_WORLD
@settings(max_examples=40)
@given(STEPS, SPREAD)
def test_any_stream_of_changes(name: str, steps: list[tuple[Step, bool]], spread: str) -> None:
    world = WORLDS[name]()
    for step, checked in steps:
        take(world, step, IDS[spread], checked)
    world.advance()
    world.check()


@EACH_WORLD
@settings(max_examples=15)
@given(STEPS, SPREAD)
def test_merging_leaves_nothing_new(name: str, steps: list[tuple[Step, bool]], spread: str) -> None:
    """I becomes I and the delta, the delta becomes empty; renewing makes everything the delta."""
    world = WORLDS[name]()
    for step, _ in steps:
        take(world, step, IDS[spread], False)
    world.advance()
    every = contents(world.scheme)
    assert every == contents(world.scheme, OLD) | contents(world.scheme, NEW)
    assert not contents(world.scheme, OLD) & contents(world.scheme, NEW)
    world.each("settle")
    assert (contents(world.scheme), contents(world.scheme, OLD)) == (every, every)
    assert contents(world.scheme, NEW) == set()
    world.each("renew")
    assert (contents(world.scheme), contents(world.scheme, NEW)) == (every, every)
    assert contents(world.scheme, OLD) == set()


@EACH_WORLD
@settings(max_examples=15)
@given(ROWS, ROWS, PICKS, SPREAD)
def test_removing_takes_out_what_goes(
    name: str, first: list[Any], second: list[Any], picks: list[tuple[int, int]], spread: str
) -> None:
    world, ids = WORLDS[name](), IDS[spread]
    for member, rows in enumerate((first, second, first + second)):
        take(world, ("insert", member, rows), ids, False)
    world.each("settle")
    before = contents(world.scheme)
    world.delete(picks, ids)
    gone = contents(world.scheme, NEW)
    assert (contents(world.scheme), contents(world.scheme, OLD)) == (before, before - gone), "it is there yet"
    world.each("remove", backward=True)
    assert contents(world.scheme) == contents(world.scheme, OLD) == before - gone
    assert contents(world.scheme, NEW) == set()


@EACH_WORLD
@settings(max_examples=10)
@given(st.lists(ROWS, min_size=1, max_size=4), SPREAD)
def test_a_batch_is_any_split_of_it(name: str, parts: list[Any], spread: str) -> None:
    together, apart = WORLDS[name](), WORLDS[name]()
    for rows in parts:
        take(together, ("insert", 0, rows), IDS[spread], False)
        take(apart, ("insert", 0, rows), IDS[spread], False)
        apart.advance()
    together.advance()
    assert contents(together.scheme) == contents(apart.scheme)


@EACH_WORLD
@pytest.mark.parametrize("domain", Domain, ids=lambda domain: domain.name)
def test_reads_come_in_pieces(name: str, domain: Domain) -> None:
    """No read yields more than `room` facts at a time, in any domain."""
    world = WORLDS[name]()
    rows = [(x, y, x) for x in range(5) for y in range(5) if x < y]
    world.insert(0, rows)
    world.each("settle")
    world.insert(0, [(7, 0, 1), (8, 9, 1), (9, 7, 1)])
    world.insert(len(world.members) - 1, [(20, 21, 22), (21, 23, 24), (25, 26, 27)])
    world.advance()
    assert_pieces(world.scheme, domain)


@EACH_WORLD
def test_what_goes_is_read_in_pieces(name: str) -> None:
    world = WORLDS[name]()
    world.insert(0, [(x, y, x) for x in range(5) for y in range(5) if x < y])
    world.each("settle")
    world.delete([(0, number) for number in range(20)], IDS["dense"])
    assert_pieces(world.scheme, NEW)


def assert_pieces(scheme: Scheme, domain: Domain) -> None:
    facts = contents(scheme, domain)
    keys = np.tile(np.arange(30, dtype=np.uint32), 40)
    assert len(facts) > 2
    for room in (1, 2, 3, 7):
        assert sorted(listed(scheme, domain, room)) == sorted(facts)
        assert all(len(batch[0]) <= room for batch in scheme.scan(domain, room))
    for room, column in product((64, 100), range(scheme.arity)):
        found = [len(places) for places, _ in scheme.expand({column: keys}, len(keys), domain, room)]
        assert sum(found) == 40 * len(facts)
        assert max(found) <= room


@pytest.mark.parametrize("arity", [2, 3])
def test_what_is_old_in_a_table_with_a_delta(arity: int) -> None:
    """Also if an index was made before everything became NEW again."""
    scheme = Table("t", arity, CPU)
    keys = {0: np.array([1, 2], np.uint32)}

    def insert(row: int) -> None:
        scheme.insert(columns_of([(row,) * arity], arity), 1)
        scheme.advance()

    def old() -> list[int]:
        return [int(place) for places, _ in scheme.expand(keys, 2, OLD) for place in places]

    insert(1)
    assert old() == [] and scheme.count(OLD) == 0
    insert(2)
    assert old() == [0]
    scheme.settle()
    assert old() == [0, 1]
    scheme.renew()
    assert old() == []


@EACH_WORLD
def test_nothing_at_all(name: str) -> None:
    """No facts, no columns of keys, changes of nothing."""
    world = WORLDS[name]()
    world.check()
    scheme, none = world.scheme, columns_of([], world.scheme.arity)
    assert (scheme.insert(none, 0), scheme.advance(), scheme.delete(none, 0)) == (0, 0, 0)
    scheme.remove()
    scheme.settle()
    for domain in Domain:
        assert scheme.contains(none, 0, domain).tolist() == []
        assert list(scheme.expand({0: none[0]}, 0, domain)) == []
        assert scheme.exists({0: none[0]}, 0, domain).tolist() == []
    world.insert(0, [(1, 2, 3)])
    world.advance()
    world.check()


@EACH_WORLD
def test_bounds_can_be_widened(name: str) -> None:
    scheme = WORLDS[name]().scheme
    scheme.widen([(5, 9)] * scheme.arity)
    scheme.insert(columns_of([(7,) * scheme.arity, (20,) * scheme.arity], scheme.arity), 2)
    scheme.advance()
    assert all(cover(bounds, (5, 21)) == bounds for bounds in scheme.bounds)


def graph(seed: int, nodes: int, edges: int, *, acyclic: bool) -> np.ndarray:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes, (edges, 2))
    return np.sort(pairs, axis=1) if acyclic else pairs


def reaches(nodes: int, edges: np.ndarray, *, both_ways: bool = False) -> np.ndarray:
    """Which node reaches which by one edge or more: breadth first from each."""
    after: list[list[int]] = [[] for _ in range(nodes)]
    for source, target in edges.tolist():
        after[source].append(target)
        if both_ways:
            after[target].append(source)
    found = np.zeros((nodes, nodes), np.bool_)
    for start in range(nodes):
        todo = list(after[start])
        found[start, todo] = True
        seen = set(todo)
        for node in todo:
            for other in after[node]:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        found[start, list(seen)] = True
    return found


def matrix(scheme: Scheme, domain: Domain, ids: np.ndarray) -> np.ndarray:
    nodes = len(ids)
    found = np.zeros((nodes, nodes), np.bool_)
    order = np.argsort(ids)
    for batch in scheme.scan(domain, 5000):
        x, y = (order[np.searchsorted(ids[order], column)] for column in batch)
        assert not found[x, y].any(), "a fact comes twice"
        found[x, y] = True
    assert scheme.count(domain) == found.sum()
    return found


LARGER = [
    "closure",
    "equivalence",
    "union of a closure and a table",
    "union of a closure and itself reversed",
]


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize(
    ("nodes", "edges", "acyclic", "step"),
    [(600, 1200, True, 1), (600, 900, False, 7_000_000), (300, 250, False, 1), (250, 3000, True, 1)],
)
def test_larger_graphs(name: str, nodes: int, edges: int, acyclic: bool, step: int) -> None:
    """Hundreds of nodes, so that sets become bitmaps; inserted in three parts, then half of it deleted."""
    pairs = graph(nodes + edges, nodes, edges, acyclic=acyclic)
    ids = np.random.default_rng(1).permutation(nodes).astype(np.uint32) * np.uint32(step)
    world, cuts = WORLDS[name](), [0, edges // 2, edges - 20, edges]
    base, scheme = world.members[0][0], world.scheme
    both = np.zeros((nodes, nodes), np.bool_)

    def as_columns(rows: np.ndarray) -> list[np.ndarray]:
        return [ids[rows[:, 0]], ids[rows[:, 1]]]

    def expected(rows: np.ndarray) -> np.ndarray:
        found = reaches(nodes, rows, both_ways=name == "equivalence")
        return found | found.T if name.endswith("reversed") else found

    for start, end in pairwise(cuts):
        base.insert(as_columns(pairs[start:end]), end - start)
        for one, _ in world.members:
            one.advance()
        before, both = both, expected(pairs[:end])
        assert (matrix(scheme, OLD, ids) == before).all()
        assert (matrix(scheme, NEW, ids) == (both & ~before)).all()
        asked = np.random.default_rng(2).integers(0, nodes, (5000, 2))
        for domain, held in ((ALL, both), (NEW, both & ~before)):
            mask = scheme.contains(as_columns(asked), len(asked), domain)
            assert (mask == held[asked[:, 0], asked[:, 1]]).all()
            for column in (0, 1):
                assert (scheme.exists({column: ids}, nodes, domain) == held.any(axis=1 - column)).all()
        for column in (0, 1):
            assert (scheme.degrees({column: ids}, nodes) == both.sum(axis=1 - column)).all()
    if isinstance(base, Closure) and edges == 1200:
        assert base._forward.now.sets.block_counts.sum(), "some sets are bitmaps"
    kept = np.stack([np.searchsorted(np.sort(ids), column) for column in base.edges], axis=1)  # type: ignore[attr-defined]
    kept = np.argsort(ids)[kept]
    gone, left = kept[::2], kept[1::2]
    left = left[~(left[:, None] == gone[None]).all(axis=2).any(axis=1)]
    for one, _ in world.members:
        one.settle()
    base.delete(as_columns(gone), len(gone))
    if scheme is not base:
        scheme.delete(columns_of([], 2), 0)
    after = expected(left)
    assert (matrix(scheme, NEW, ids) == (both & ~after)).all() and (matrix(scheme, ALL, ids) == both).all()
    assert (matrix(scheme, OLD, ids) == after).all()
    world_removes(scheme, base)
    assert (matrix(scheme, ALL, ids) == after).all()


def world_removes(scheme: Scheme, base: Scheme) -> None:
    scheme.remove()
    if isinstance(scheme, Union):
        base.remove()


def test_the_models_rules_are_what_they_say() -> None:
    """The oracle itself, on a case small enough to write out."""
    from tests.schemes.worlds import symmetric_too, transitive

    assert fixpoint(transitive, {(1, 2), (2, 3), (3, 2)}) == {(1, 2), (2, 3), (3, 2), (1, 3), (2, 2), (3, 3)}
    assert fixpoint(symmetric_too, {(1, 2), (4, 4)}) == {(1, 2), (2, 1), (1, 1), (2, 2), (4, 4)}
    assert transitive({(1, 2), (2, 3), (3, 4)}, {(1, 2)}) == {(1, 3)}
