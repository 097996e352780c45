"""Deltas against sets: what two changes come to, and what is listed only when somebody asks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpuengine.evaluation.placement.budget import Budget
from gpuengine.maintenance.delta import Delta, difference, table_of
from gpuengine.schemes.table import Table

Pairs = frozenset[tuple[int, int]]
PAIRS = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)))


def table(pairs: Pairs) -> Table:
    columns = [np.array(column, np.uint32) for column in zip(*sorted(pairs), strict=True)]
    return table_of("r", 2, columns, len(pairs))


def pairs_of(facts: Table) -> Pairs:
    return frozenset(zip(*(column.tolist() for column in facts.columns()), strict=True))


def change(before: Pairs, after: Pairs) -> Delta:
    return difference(table(before), table(after), Budget())


@given(PAIRS, PAIRS, PAIRS)
def test_two_changes_come_to_one(first: Pairs, second: Pairs, third: Pairs) -> None:
    both = change(first, second).then(change(second, third))
    assert pairs_of(both.minus) == first - third
    assert pairs_of(both.plus) == third - first


@given(PAIRS, PAIRS)
def test_a_permuted_relation_changes_with_it(before: Pairs, after: Pairs) -> None:
    turned = change(before, after).permuted("s", (1, 0))
    assert turned.relation == turned.minus.name == "s"
    assert pairs_of(turned.minus) == {(y, x) for x, y in before - after}
    assert pairs_of(turned.plus) == {(y, x) for x, y in after - before}


@given(PAIRS, PAIRS)
def test_a_listed_one_knows_itself_without_tables(minus: Pairs, plus: Pairs) -> None:
    gone, come = table(minus), table(plus - minus)
    delta = Delta.listed("r", 2, (gone.columns(), len(gone)), (come.columns(), len(come)))
    assert (delta.may_lose, delta.may_gain) == (bool(minus), bool(plus - minus))
    assert bool(delta) == bool(minus | plus)
    assert delta.count == len(minus | plus)
    assert "minus" not in vars(delta) and "plus" not in vars(delta)
    assert (pairs_of(delta.minus), pairs_of(delta.plus)) == (minus, plus - minus)


def test_both_sides_are_found_once_and_together() -> None:
    asked: list[str] = []

    def find() -> tuple[Table, Table]:
        asked.append("found")
        return table(frozenset({(1, 2)})), table(frozenset())

    delta = Delta.found("r", find, may_gain=False)
    assert delta and not asked
    assert len(delta.minus) == 1 and not len(delta.plus) and len(delta.minus) == 1
    assert asked == ["found"]
