"""Modules on tables: what Definition 3 of the modular paper asks of add."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.kernels.cpu.backend import CPU
from gpuengine.schemes.modules import SymmetricTransitiveModule, TransitiveModule
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


@settings(max_examples=80)
@pytest.mark.parametrize(("make", "rules"), MODULES)
@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_add_closes_the_table(
    make: type[TransitiveModule | SymmetricTransitiveModule], rules: Rules, batches: list[set[Pair]]
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
