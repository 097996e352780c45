"""What a round costs on a device: waits of the host, whatever the number of rounds before it."""

from __future__ import annotations

from tests.differential.compare import assert_agrees
from tests.differential.devices import emulated, on
from tests.evaluation.watched import Watched

CLOSURE = """
.decl edge, path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
AS_TABLE = {"schemes": {"path": "table"}}


def test_a_round_of_a_linear_closure_waits_once() -> None:
    waits = []
    for nodes in (20, 120):
        run = Watched(CLOSURE, {"edge": [(n, n + 1) for n in range(nodes)]}, **AS_TABLE)
        assert len(run.engine["path"]) == nodes * (nodes + 1) // 2
        waits.append(run.device.statistics.syncs)
    assert waits[1] - waits[0] <= 105, "one for each of 100 rounds more, and a few for another plan"


def test_rounds_with_far_more_candidates_than_the_last() -> None:
    """A chain that ends in a dense graph: what was expected from the rounds before is far too little."""
    edges = [(n, n + 1) for n in range(15)] + [(15, 100 + n) for n in range(40)]
    edges += [(100 + n, 100 + m) for n in range(40) for m in range(40) if (n * m) % 3 == 1]
    assert_agrees(CLOSURE, {"edge": edges}, **AS_TABLE, **on(emulated()))
    run = Watched(CLOSURE, {"edge": edges}, **AS_TABLE)
    assert run.derived_by_host == []
