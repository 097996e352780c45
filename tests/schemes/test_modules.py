"""Modules on tables: what Definitions 3, 6 and 7 of the modular paper ask of add, delete and rederive."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.modules import Module, SymmetricTransitiveModule, TransitiveModule
from gpuengine.schemes.table import Table

Pair = tuple[int, int]
Rules = Callable[[set[Pair], set[Pair]], set[Pair]]
PAIRS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=9)


def transitive(facts: set[Pair], some: set[Pair]) -> set[Pair]:
    """What one application derives from facts of which one is in `some`."""
    return {(a, d) for a, b in facts for c, d in facts if b == c and ((a, b) in some or (c, d) in some)}


def symmetric_transitive(facts: set[Pair], some: set[Pair]) -> set[Pair]:
    return transitive(facts, some) | {(b, a) for a, b in facts & some}


MODULES = [(TransitiveModule, transitive), (SymmetricTransitiveModule, symmetric_transitive)]


def closure(rules: Rules, facts: Iterable[Pair]) -> set[Pair]:
    known = set(facts)
    while new := rules(known, known) - known:
        known |= new
    return known


def columns(pairs: Iterable[Pair]) -> list[np.ndarray]:
    matrix = np.array(sorted(pairs), np.uint32).reshape(-1, 2)
    return [np.ascontiguousarray(matrix[:, j]) for j in (0, 1)]


def pairs(found: list[np.ndarray]) -> set[Pair]:
    rows = list(zip(*(column.tolist() for column in found), strict=True))
    assert len(set(rows)) == len(rows)
    return set(rows)


def put(table: Table, facts: set[Pair]) -> None:
    table.insert(columns(facts), len(facts))
    table.settle()


def take(table: Table, facts: set[Pair]) -> None:
    table.delete(columns(facts), len(facts))
    table.remove()
    table.forget()


@settings(max_examples=80)
@pytest.mark.parametrize(("make", "rules"), MODULES)
@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_add_closes_the_table(
    make: Callable[[Table], Module], rules: Rules, batches: list[set[Pair]]
) -> None:
    """Definition 3: the smallest set that closes what is there under the rules."""
    table = Table("r", 2, CPU)
    module = make(table)
    given_so_far: set[Pair] = set()
    for batch in batches:
        held = pairs(table.columns())
        new = set(batch) - held
        given_so_far |= set(batch)
        put(table, new)
        found = pairs(module.add(columns(new), len(new)))
        assert found == closure(rules, held | new) - held - new
        put(table, found)
        assert pairs(table.columns()) == closure(rules, given_so_far)


@settings(max_examples=120)
@pytest.mark.parametrize(("make", "rules"), MODULES)
@given(PAIRS, PAIRS, PAIRS)
def test_delete_and_rederive(
    make: Callable[[Table], Module], rules: Rules, external: set[Pair], asked: set[Pair], others: set[Pair]
) -> None:
    """Definitions 6 and 7, and what counts in the end: the closure of the external facts that are left.

    `others` are the facts with a nonrecursive derivation: external ones that are not deleted among them.
    """
    table = Table("r", 2, CPU)
    module = make(table)
    put(table, set(external))
    put(table, pairs(module.add(columns(external), len(external))))
    everything = pairs(table.columns())
    gone = set(asked) & set(external)
    kept = (set(external) | (set(others) & everything)) - gone

    def has_other(rows: list[np.ndarray], count: int) -> np.ndarray:
        return np.array([row in kept for row in zip(*(c.tolist() for c in rows), strict=True)], np.bool_)

    lost = pairs(module.delete(columns(gone), len(gone), has_other))
    least: set[Pair] = set()
    while new := {f for f in rules(everything, gone | least) if f not in gone | least | kept}:
        least |= new
    most: set[Pair] = set()
    while new := rules(everything, gone | most) - gone - most:
        most |= new
    assert least <= lost and not lost & kept and lost <= everything
    if make is TransitiveModule:
        assert lost <= most
    take(table, gone | lost)
    again = pairs(module.rederive(columns(gone | lost), len(gone | lost)))
    left = everything - gone - lost
    expected: set[Pair] = set()
    while new := (rules(left | expected, left | expected) & (gone | lost)) - expected:
        expected |= new
    if make is SymmetricTransitiveModule or kept <= set(external):
        assert again == expected
    put(table, again)
    put(table, pairs(module.add(columns(kept - set(external)), len(kept - set(external)))))
    assert pairs(table.columns()) == closure(rules, kept)


def test_a_chain_is_joined_with_its_external_facts_only() -> None:
    """Example 1 of the paper: as many rule instances as facts, not as their cube."""
    n = 200
    table = Table("r", 2, CPU)
    module = TransitiveModule(table)
    chain = {(i, i + 1) for i in range(n)}
    put(table, chain)
    found = module.add(columns(chain), n)
    assert len(found[0]) == n * (n + 1) // 2 - n
    assert len(module.external) == n
