"""Generated facts are the same everywhere and have the shape that their workload needs."""

import numpy as np
import pytest

from bench import generate
from bench.catalogue import SIZES_FILE, catalogue, choose, recorded_sizes, scale_sizes
from bench.random_numbers import below, words


def test_random_numbers_do_not_change() -> None:
    assert words(1, 2).tolist() == [1816945705467351922, 837419315772622792]
    assert below(1, 1000, 10).min() == 0 and below(1, 1000, 10).max() == 9


@pytest.mark.parametrize("name", sorted(generate.GENERATORS))
def test_facts_are_repeatable_and_grow_with_the_size(name: str) -> None:
    first, again = generate.GENERATORS[name](2000), generate.GENERATORS[name](2000)
    double = generate.GENERATORS[name](4000)
    for relation, columns in first.items():
        assert all(np.array_equal(a, b) for a, b in zip(columns, again[relation], strict=True))
        assert all(column.dtype == np.int64 and column.min() >= 0 for column in columns)
    rows = sum(len(columns[0]) for columns in first.values())
    assert 1.8 * rows < sum(len(columns[0]) for columns in double.values()) < 2.2 * rows


def test_the_random_dag_has_no_cycle() -> None:
    source, target = generate.dag(300)["edge"]
    remaining = np.ones(len(source), dtype=bool)
    while remaining.any():
        leaves = ~np.isin(target[remaining], source[remaining])
        assert leaves.any()
        remaining[np.flatnonzero(remaining)[leaves]] = False


def test_groups_and_sizes() -> None:
    assert len(choose(["nine"])) == 9
    assert len(choose(["packed"])) == 11
    assert not any("large" in w.groups for w in choose(["all"]))
    assert {w.source.name for w in choose(["generated"])} == set(generate.GENERATORS)
    assert scale_sizes("gen-dag") == [1000, 2000, 4000, 8000]


def test_recorded_sizes_belong_to_workloads() -> None:
    assert SIZES_FILE.exists()
    names = {key.partition("@")[0] for key in recorded_sizes()}
    assert names <= catalogue().keys()
    for workload in choose(["generated"]):
        assert workload.expected, f"no recorded sizes for {workload.name}"
