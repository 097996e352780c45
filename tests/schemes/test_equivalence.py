"""The equivalence scheme: classes, and no more room than their members take."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.schemes.equivalence import Equivalence
from tests.schemes.worlds import (
    ALL,
    LAST,
    NEW,
    OLD,
    Facts,
    columns_of,
    contents,
    fixpoint,
    listed,
    symmetric_too,
)

Edges = list[tuple[int, int]]
EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


def insert(scheme: Equivalence, edges: Iterable[tuple[int, ...]]) -> int:
    rows = list(edges)
    scheme.insert(columns_of(rows, 2), len(rows))
    return scheme.advance()


def of(edges: Iterable[tuple[int, ...]]) -> Equivalence:
    scheme = Equivalence("same")
    insert(scheme, edges)
    scheme.settle()
    return scheme


def closed(edges: Iterable[tuple[int, ...]]) -> Facts:
    return fixpoint(symmetric_too, set(edges))


def pairs(*classes: Iterable[int]) -> Facts:
    return {(x, y) for one in classes for x in one for y in one}


def test_a_fact_makes_a_class() -> None:
    assert contents(of([(1, 2)])) == pairs([1, 2])
    assert contents(of([(3, 3)])) == {(3, 3)}, "one that stands alone is equal to itself"
    assert contents(of([(1, 2), (3, 2), (7, 8), (5, 5)])) == pairs([1, 2, 3], [7, 8], [5])


def test_only_what_stands_in_a_fact_is_equal_to_itself() -> None:
    scheme = of([(1, 2), (9, 9)])
    ids = np.arange(12, dtype=np.uint32)
    assert ids[scheme.contains([ids, ids], 12)].tolist() == [1, 2, 9]
    assert scheme.values(0).tolist() == scheme.values(1).tolist() == [1, 2, 9]


def test_what_joining_adds_is_what_crosses_the_classes() -> None:
    scheme = of([(1, 2), (3, 4), (6, 6)])
    assert insert(scheme, [(2, 3)]) == 8
    assert contents(scheme, NEW) == {(x, y) for x in (1, 2) for y in (3, 4)} | {
        (y, x) for x in (1, 2) for y in (3, 4)
    }
    assert contents(scheme, OLD) == pairs([1, 2], [3, 4], [6])
    assert insert(scheme, [(4, 1), (1, 1)]) == 0, "they are facts already"
    assert insert(scheme, [(6, 10)]) == 3 and contents(scheme, NEW) == {(6, 10), (10, 6), (10, 10)}


def test_deleting_splits_a_class() -> None:
    scheme = of([(1, 2), (2, 3), (3, 4)])
    assert scheme.delete(columns_of([(2, 3)], 2), 1) == 8
    scheme.remove()
    assert contents(scheme) == pairs([1, 2], [3, 4])
    assert scheme.delete(columns_of([(1, 2)], 2), 1) == 4, "nothing says that 1 is equal to itself any more"
    scheme.remove()
    assert contents(scheme) == pairs([3, 4])
    insert(scheme, [(1, 4)])
    assert contents(scheme) == pairs([1, 3, 4]) and contents(scheme, NEW) == pairs([1, 3, 4]) - pairs([3, 4])


def test_a_derived_fact_can_not_be_deleted() -> None:
    scheme = of([(1, 2), (2, 3)])
    assert scheme.delete(columns_of([(1, 3), (2, 1), (1, 1), (8, 9)], 2), 4) == 0
    scheme.remove()
    assert contents(scheme) == pairs([1, 2, 3])


@given(st.lists(EDGES, max_size=4))
def test_symmetric_transitive_and_reflexive_on_what_there_is(batches: list[Edges]) -> None:
    scheme, edges = Equivalence("same"), []
    for batch in batches:
        edges += batch
        insert(scheme, batch)
        facts = contents(scheme)
        assert facts == closed(edges)
        assert all((y, x) in facts and (x, x) in facts for x, y in facts)


@given(EDGES)
def test_both_columns_are_the_same(edges: Edges) -> None:
    scheme = of([(x, LAST - y) for x, y in edges])
    ids = np.array(sorted({id for row in contents(scheme) for id in row} | {77}), np.uint32)
    forward, backward = (scheme.degrees({column: ids}, len(ids)).tolist() for column in (0, 1))
    assert forward == backward
    assert sorted(scheme.values(0).tolist()) == sorted(scheme.values(1).tolist())


@given(EDGES)
def test_bounds_hold_both_columns(edges: Edges) -> None:
    """Every id of a fact stands in both columns of some fact."""
    scheme = of([(x, y + 100) for x, y in edges])
    for column, (low, high) in enumerate(scheme.bounds):
        assert all(low <= row[column] < high for row in contents(scheme))


def test_edges_are_what_joined_classes() -> None:
    scheme = of([(1, 2), (2, 3)])
    insert(scheme, [(3, 1), (1, 1), (3, 4)])
    kept = set(zip(*(column.tolist() for column in scheme.edges), strict=True))
    assert kept == {(1, 2), (2, 3), (3, 4)}


@pytest.mark.parametrize("how", ["star", "chain", "one by one"])
def test_one_class_of_many_takes_little_room(how: str) -> None:
    """Its 400 million pairs are counted, asked for and read in part; never listed."""
    nodes = 20_000
    order = np.random.default_rng(0).permutation(nodes).astype(np.uint32)
    scheme = Equivalence("same")
    heads = np.full(nodes - 1, order[0], np.uint32) if how == "star" else order[:-1]
    for part in np.array_split(np.arange(nodes - 1), 40 if how == "one by one" else 1):
        scheme.insert([heads[part], order[1:][part]], len(part))
        scheme.advance()
    assert scheme.count(ALL) == len(scheme) == 4 * 10**8
    scheme.settle()
    assert scheme.contains([order, order[::-1].copy()], nodes).all()
    assert (scheme.degrees({1: order}, nodes) == nodes).all()
    first = next(scheme.scan(room=1000))
    assert len(first[0]) <= 1000 and len(set(zip(*first, strict=True))) == len(first[0])
    assert scheme.nbytes < 2 * 10**6


def test_what_is_new_of_a_large_class_is_a_view() -> None:
    halves = [(0, x) for x in range(1, 5000)] + [(5000, x) for x in range(5001, 10_000)]
    scheme = of(halves)
    assert insert(scheme, [(1, 5001)]) == 2 * 5000**2 == scheme.count(NEW)
    asked = columns_of([(0, 9999), (9999, 0), (0, 1), (0, 0)], 2)
    assert scheme.contains(asked, 4, NEW).tolist() == [True, True, False, False]
    assert scheme.contains(asked, 4, OLD).tolist() == [False, False, True, True]
    assert scheme.exists({0: np.array([17], np.uint32)}, 1, NEW).tolist() == [True]
    assert scheme.nbytes < 2 * 10**6


def test_facts_come_once_however_they_are_read() -> None:
    scheme = of([(x % 7, x) for x in range(60)])
    assert len(listed(scheme)) == len(set(listed(scheme))) == len(scheme)
    assert sorted(listed(scheme, room=13)) == sorted(listed(scheme))
