"""The union scheme: facts read where they are, each once, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.contract import Scheme
from gpuengine.schemes.equivalence import Equivalence
from gpuengine.schemes.table import Table
from gpuengine.schemes.union import Part, Union
from tests.schemes.worlds import ALL, NEW, OLD, Facts, Row, columns_of, contents, listed, outward

ROWS = st.lists(st.tuples(*[st.integers(0, 5)] * 3), max_size=14)
ORDERS = list(permutations(range(3)))


def filled(scheme: Scheme, rows: Iterable[Row]) -> Scheme:
    given = list(rows)
    scheme.insert(columns_of(given, scheme.arity), len(given))
    scheme.settle()
    return scheme


def table(rows: Iterable[Row], arity: int = 2) -> Scheme:
    return filled(Table("t", arity, CPU), rows)


def union(*parts: tuple[Scheme, Row]) -> Union:
    arity = parts[0][0].arity
    return Union("u", [Part(*part) for part in parts], Table("u", arity, CPU))


@given(st.lists(st.tuples(ROWS, st.sampled_from(ORDERS)), min_size=1, max_size=4), ROWS)
def test_tables_of_three_columns_in_any_order(parts: list[tuple[list[Row], Row]], own: list[Row]) -> None:
    scheme = union(*((table(rows, 3), order) for rows, order in parts))
    expected = {outward(row, order) for rows, order in parts for row in rows}
    assert scheme.insert(columns_of(own, 3), len(own)) == len(set(own) - expected)
    scheme.settle()
    expected |= set(own)
    assert contents(scheme) == expected and len(scheme) == len(expected)
    asked = sorted(expected | {(0, 1, 2), (5, 5, 5)})
    assert scheme.contains(columns_of(asked, 3), len(asked)).tolist() == [row in expected for row in asked]
    keys = {2: np.arange(6, dtype=np.uint32), 0: np.full(6, 1, np.uint32)}
    found = {
        (1, value, place)
        for places, (values,) in scheme.expand(keys, 6)
        for place, value in zip(places.tolist(), values.tolist(), strict=True)
    }
    assert found == {row for row in expected if row[0] == 1}


def test_a_part_in_the_columns_of_the_union() -> None:
    """U(x, y, z) :- P(z, x, y): b_j = a_permutation[j] of the part's columns b and the union's a."""
    scheme = union((table([(30, 10, 20)], 3), (2, 0, 1)))
    assert listed(scheme) == [(10, 20, 30)]
    assert scheme.bounds == [(10, 11), (20, 21), (30, 31)]
    assert [scheme.values(column).tolist() for column in range(3)] == [[10], [20], [30]]


def test_own_facts_are_those_that_no_part_has() -> None:
    closure, rows = filled(Closure("c"), [(1, 2), (2, 3)]), table([(7, 8)])
    scheme = union((closure, (0, 1)), (rows, (1, 0)))
    own = [(1, 3), (8, 7), (7, 8), (5, 5), (5, 5)]
    assert scheme.insert(columns_of(own, 2), 5) == 2
    assert scheme.advance() == 2 == scheme.own_news
    assert contents(scheme.own) == {(7, 8), (5, 5)}
    assert contents(scheme, NEW) == {(7, 8), (5, 5)} and contents(scheme, OLD) == {
        (1, 2),
        (2, 3),
        (1, 3),
        (8, 7),
    }


def test_an_own_fact_that_a_part_gets_later_counts_once() -> None:
    rows = table([(1, 2)])
    scheme = union((rows, (0, 1)))
    scheme.insert(columns_of([(3, 4)], 2), 1)
    scheme.settle()
    rows.insert(columns_of([(3, 4), (5, 6)], 2), 2)
    rows.advance()
    scheme.advance()
    assert len(scheme) == 3 and contents(scheme, NEW) == {(5, 6)}, "(3, 4) was there before"


@pytest.mark.parametrize("room", [1, 3, 5, 7, 8, 9, 13, 64, 1000])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 100, 513])
def test_masks_of_rows_at_odd_places(size: int, room: int) -> None:
    """Which rows another part has is remembered in packed bits, whatever the batches begin with."""
    rng = np.random.default_rng(size)
    first = {(x, x + 1) for x in range(0, size, 3)}
    second = {(x, x + 1) for x in range(size) if rng.random() < 0.7}
    scheme = union((table(sorted(first)), (0, 1)), (table(sorted(second)), (0, 1)))
    assert len(scheme) == len(first | second)
    found = listed(scheme, ALL, room)
    assert len(found) == len(set(found)) and set(found) == first | second
    assert all(len(batch[0]) <= room for batch in scheme.scan(ALL, room))


def cycle_and_tail() -> tuple[Scheme, Facts]:
    return filled(Closure("c"), [(1, 2), (2, 1), (2, 3), (3, 4)]), {
        (x, y) for x in (1, 2) for y in (1, 2, 3, 4)
    } | {(3, 4)}


def test_a_closure_and_itself_reversed_share_what_is_mutual() -> None:
    closure, facts = cycle_and_tail()
    scheme = union((closure, (0, 1)), (closure, (1, 0)))
    assert len(scheme) == 2 * len(facts) - 4
    assert contents(scheme) == facts | {(y, x) for x, y in facts}


def test_an_equivalence_and_itself_reversed_are_the_same() -> None:
    same = filled(Equivalence("s"), [(1, 2), (2, 3), (9, 9)])
    scheme = union((same, (0, 1)), (same, (1, 0)))
    assert len(scheme) == 10 and contents(scheme) == contents(same)


def test_large_overlaps_are_counted_without_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    closure = filled(Closure("c"), [(x, x + 1) for x in range(20_000)] + [(100, 0)])
    scheme = union((table([(0, 5), (5, 0), (20_001, 0)]), (0, 1)), (closure, (0, 1)), (closure, (1, 0)))
    plain = union((closure, (0, 1)), (closure, (1, 0)))
    monkeypatch.setattr(Closure, "scan", lambda *_, **__: pytest.fail("all pairs are listed"))
    pairs = 20_001 * 20_000 // 2 + 101 * 102 // 2
    assert len(closure) == pairs and len(plain) == 2 * pairs - 101**2
    assert len(scheme) == len(plain) + 1
    assert scheme.host_nbytes < 10_000


@pytest.mark.parametrize("kind", [Closure, Equivalence])
def test_compact_parts_come_before_tables(kind: type) -> None:
    compact, rows = filled(kind("k"), [(1, 2)]), table([(1, 2), (2, 2)])
    scheme = union((rows, (0, 1)), (compact, (0, 1)))
    assert [part.scheme for part in scheme.parts] == [compact, rows]
    assert contents(scheme) == contents(compact) | {(1, 2), (2, 2)}


def test_what_is_remembered_is_found_out_anew_when_a_part_grows() -> None:
    one, other = table([(1, 2)]), table([(1, 2), (3, 4)])
    scheme = union((one, (0, 1)), (other, (0, 1)))
    assert len(scheme) == 2
    one.insert(columns_of([(3, 4), (5, 6)], 2), 2)
    one.settle()
    assert len(scheme) == 3 and contents(scheme) == {(1, 2), (3, 4), (5, 6)}


def test_what_is_remembered_is_found_out_anew_when_a_part_changes_and_has_as_many_facts() -> None:
    one, other = table([(1, 2)]), table([(1, 2)])
    scheme = union((one, (0, 1)), (other, (0, 1)))
    assert len(scheme) == 1
    other.delete(columns_of([(1, 2)], 2), 1)
    other.remove()
    filled(other, [(3, 4)])
    assert (len(one), len(other)) == (1, 1)
    assert contents(scheme) == {(1, 2), (3, 4)} and len(scheme) == 2


def test_what_is_remembered_of_a_closure_whose_edges_change() -> None:
    closure = filled(Closure("c"), [(1, 2)])
    rows = table([(1, 2), (5, 6)])
    scheme = union((closure, (0, 1)), (rows, (0, 1)))
    assert len(scheme) == 2
    closure.delete(columns_of([(1, 2)], 2), 1)
    scheme.delete(columns_of([], 2), 0)
    scheme.remove()
    closure.remove()
    filled(closure, [(5, 6)])
    scheme.settle()
    assert contents(scheme) == {(1, 2), (5, 6)} and len(scheme) == 2


@given(ROWS, ROWS, ROWS)
def test_unions_of_unions(one: list[Row], two: list[Row], own: list[Row]) -> None:
    rows = [row[:2] for row in one]
    inner = union((table(rows), (1, 0)))
    filled(inner, [row[:2] for row in two])
    outer = union((inner, (0, 1)), (filled(Closure("c"), rows), (0, 1)))
    filled(outer, [row[:2] for row in own])
    expected = {(y, x) for x, y in rows} | {row[:2] for row in [*two, *own]}
    assert contents(inner) == {(y, x) for x, y in rows} | {row[:2] for row in two}
    assert contents(outer) == expected | contents(outer.parts[1].scheme) and len(outer) == len(
        contents(outer)
    )


def test_everything_is_new_to_begin_with() -> None:
    """A fixpoint begins: what the parts have, settled long ago, is NEW to rules that read the union."""
    rows = table([(1, 2), (2, 3)])
    scheme = union((rows, (0, 1)))
    assert scheme.renew() == 2 == scheme.own_news
    assert contents(scheme, NEW) == {(1, 2), (2, 3)} and contents(scheme, OLD) == set()
    assert scheme.count(NEW) == 2 and scheme.count(OLD) == 0
    scheme.insert(columns_of([(9, 9)], 2), 1)
    assert scheme.advance() == 1
    assert contents(scheme, NEW) == {(9, 9)} and contents(scheme, OLD) == {(1, 2), (2, 3)}


def test_a_fact_goes_when_nobody_keeps_it() -> None:
    one, other = table([(1, 2), (3, 4)]), table([(1, 2), (5, 6)])
    scheme = union((one, (0, 1)), (other, (0, 1)))
    for part in (one, other):
        part.delete(columns_of([(3, 4), (1, 2)], 2), 2 if part is one else 0)
    assert scheme.delete(columns_of([], 2), 0) == 1 and contents(scheme, NEW) == {(3, 4)}
    for gone in (scheme, one, other):
        gone.remove()
    assert contents(scheme) == {(1, 2), (5, 6)}


def test_counting_while_a_closure_loses_a_cycle() -> None:
    """What goes is still there until it is removed, from both sides."""
    closure = filled(Closure("c"), [(1, 2), (2, 1)])
    scheme = union((closure, (0, 1)), (closure, (1, 0)))
    closure.delete(columns_of([(1, 2)], 2), 1)
    scheme.delete(columns_of([], 2), 0)
    assert contents(scheme) == {(1, 1), (1, 2), (2, 1), (2, 2)} and len(scheme) == 4
