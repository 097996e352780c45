"""Programs that use much of the language at once derive what the oracle derives, in every way."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

from tests.differential.compare import engine_facts, oracle_facts
from tests.maintenance.streams import ALL_SCHEMES
from tests.wide_programs import wide_program

BATCHES = range(400 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 6)
BATCH = 15


def ways(seed: int) -> dict[str, Any]:
    """The options of an engine, by a seed."""
    random = Random(seed)
    return {
        "schemes": random.choice(ALL_SCHEMES),
        "evaluators": {"*": random.choice(["auto", "auto", "hypertree", "join"])},
        "threads": random.choice([1, 2]),
        "memory": random.choice([None, "64MB"]),
        "modules": random.choice([True, False]),
    }


def check(seed: int) -> None:
    case = wide_program(seed)
    found = engine_facts(case.text, case.facts, **ways(seed))
    assert found == oracle_facts(case.text, case.facts), f"seed {seed}, {ways(seed)}, {case.facts}\n{case}"


@pytest.mark.parametrize("batch", BATCHES)
def test_wide_programs(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        check(seed)


def test_the_programs_are_wide() -> None:
    """Guards the test above against having nothing to test."""
    texts = [wide_program(seed).text for seed in range(len(BATCHES) * BATCH)]
    facts = [oracle_facts(wide_program(seed).text, wide_program(seed).facts) for seed in range(BATCH)]
    used = (
        ".comp",
        ".override",
        " inline",
        ".limitsize",
        "mean ",
        "range(",
        "a11:",
        "substr(",
        "[",
        "$",
        "eqrel",
    )
    for word in used:
        assert sum(word in text.partition("Shape = ")[2].partition("\n")[2] for text in texts) >= 3, word
    derived = [len(rows) for known in facts if known is not None for rows in known.values()]
    assert sum(size > 0 for size in derived) > len(derived) / 2
