"""Rounds on a device: how often the host waits, and that those which are run ahead of it derive the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import gpuengine as ge
from gpuengine.errors import Interrupted
from gpuengine.kernels.contract import RoundsEnd
from gpuengine.kernels.cuda import ahead
from gpuengine.kernels.cuda.ahead import RoundsAhead
from gpuengine.kernels.cuda.ahead_kernels import insert_matches
from tests.differential.compare import assert_agrees, rows_of
from tests.differential.devices import BACK_AND_FORTH, emulated, on
from tests.evaluation.watched import Watched

CLOSURE = """
.decl edge, path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
"""
AS_TABLE: dict[str, Any] = {"schemes": {"*": "table"}}
LINEAR = {
    "closure": CLOSURE,
    "reach": """
        .decl edge(x: number, y: number)
        .decl path(x: number)
        path(x) :- edge(0, x).
        path(y) :- path(x), edge(x, y).
    """,
    "by turns": """
        .decl edge, path, odd(x: number, y: number)
        odd(x, y) :- edge(x, y).
        path(x, z) :- odd(x, y), edge(y, z).
        odd(x, z) :- path(x, y), edge(y, z).
    """,
    "forwards and back": """
        .decl edge, path(x: number, y: number)
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
        path(z, y) :- path(x, y), edge(z, x).
    """,
    "with a check": """
        .decl edge, path(x: number, y: number)
        .decl road(x: number, y: number, z: number)
        road(x, y, z) :- edge(x, y), edge(_, z).
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), road(y, z, x).
    """,
    "two keys": """
        .decl edge(x: number, y: number)
        .decl hop, path(x: number, y: number, z: number)
        hop(x, y, z) :- edge(x, y), edge(y, z).
        path(x, y, z) :- hop(x, y, z), edge(x, z).
        path(y, z, w) :- path(x, y, z), hop(y, z, w).
    """,
}
"""Every recursive rule joins a delta with what does not change."""


def random_edges(seed: int, nodes: int, count: int, factor: int = 1) -> list[tuple[int, int]]:
    random = Random(seed)
    return sorted(
        {(random.randrange(nodes) * factor, random.randrange(nodes) * factor) for _ in range(count)}
    )


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[RoundsEnd]:
    """Why rounds that were run ahead ended, one after the other."""
    seen: list[RoundsEnd] = []
    original = RoundsAhead.run

    def run(self: RoundsAhead, rounds: int) -> tuple[RoundsEnd, int]:
        end, complete = original(self, rounds)
        seen.append(end)
        return end, complete

    monkeypatch.setattr(RoundsAhead, "run", run)
    return seen


@pytest.fixture
def little_room(ends: list[RoundsEnd], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that are run ahead find room for a few rows only."""
    original = RoundsAhead.run

    def run(self: RoundsAhead, rounds: int) -> tuple[RoundsEnd, int]:
        for number, table in enumerate(self.tables):
            table.limit(table.count + 5 + 9 * (len(ends) % 5) + number)
        return original(self, rounds)

    monkeypatch.setattr(RoundsAhead, "run", run)


def test_a_linear_closure_waits_once_for_many_rounds() -> None:
    """At most for one round of five from the first to the last, and for ever fewer."""
    counts = []
    for nodes in (20, 120, 520):
        run = Watched(CLOSURE, {"edge": [(n, n + 1) for n in range(nodes)]}, **AS_TABLE)
        assert len(run.engine["path"]) == nodes * (nodes + 1) // 2
        assert run.engine.progress is not None
        counts.append((run.engine.progress.rounds, run.device.statistics.syncs))
        assert run.derived_by_host == []
    first, *others = counts
    assert [rounds for rounds, _ in counts] == [21, 121, 521]
    assert first[1] <= 8, "loading, the rules that run once, and the rounds"
    for (rounds, waits), share in zip(others, (0.06, 0.04), strict=True):
        assert (waits - first[1]) / (rounds - first[0]) <= share


@pytest.mark.parametrize("factor", [1, 16_777_259], ids=["bitmap", "hashed"])
@pytest.mark.parametrize("name", LINEAR)
def test_linear_programs_run_ahead(name: str, factor: int, ends: list[RoundsEnd]) -> None:
    for seed in range(4):
        facts = {"edge": random_edges(seed, 12 + 5 * seed, 25 + 8 * seed, factor)}
        assert_agrees(LINEAR[name], facts, **AS_TABLE, **on(emulated()))
    assert RoundsEnd.FIXPOINT in ends


@pytest.mark.parametrize("factor", [1, 16_777_259], ids=["bitmap", "hashed"])
@pytest.mark.parametrize("name", LINEAR)
def test_room_ends_in_the_midst_of_rounds(
    name: str, factor: int, ends: list[RoundsEnd], little_room: None
) -> None:
    for seed in range(4):
        # A path into what is dense: few rows at first, and then more each round.
        edges = [(n * factor, (n + 1) * factor) for n in range(4)]
        edges += [(x + 4 * factor, y + 4 * factor) for x, y in random_edges(seed, 12 + 4 * seed, 60, factor)]
        assert_agrees(LINEAR[name], {"edge": edges}, **AS_TABLE, **on(emulated()))
    assert {RoundsEnd.FULL, RoundsEnd.FIXPOINT} <= set(ends)


def test_a_delta_larger_than_foreseen(ends: list[RoundsEnd], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_LEAST_DELTA", 2)
    edges = [(n, n + 1) for n in range(12)] + [(12, 100 + n) for n in range(500)]
    edges += [(100 + n, 1000 + n % 7) for n in range(500)]
    assert_agrees(LINEAR["reach"], {"edge": edges}, **AS_TABLE, **on(emulated()))
    assert ends[-2:] == [RoundsEnd.LARGE, RoundsEnd.FIXPOINT]


@pytest.mark.parametrize("chunk", [1, 40])
def test_a_round_with_too_many_candidates_runs_in_chunks(chunk: int, ends: list[RoundsEnd]) -> None:
    """Between chunks it can be stopped. Where every round is one of those, few are tried ahead."""
    facts = {"edge": random_edges(1, 60, 90)}
    assert_agrees(CLOSURE, facts, **AS_TABLE, **on(emulated(chunk_items=chunk)))
    assert RoundsEnd.LARGE in ends
    assert len(ends) < 8


def test_what_rules_derived_is_counted_once(ends: list[RoundsEnd], little_room: None) -> None:
    edges = [(n, n + 1) for n in range(4)] + [(x + 4, y + 4) for x, y in random_edges(3, 60, 150)]
    run = Watched(CLOSURE, {"edge": edges}, **AS_TABLE)
    assert RoundsEnd.FULL in ends and run.engine.progress is not None
    statistics = list(run.engine.progress.rules.values())
    assert sum(entry.derived for entry in statistics) == len(run.engine["path"])
    assert run.device.statistics.items[insert_matches.name] > 0


@pytest.mark.parametrize("budget", [30_000, 60_000, 100_000, 200_000, 400_000, 1_600_000])
def test_little_memory(budget: int) -> None:
    edges = random_edges(5, 120, 260, 16_777_259)
    expected = ge.Engine(CLOSURE, backend="cpu", **AS_TABLE)
    found = ge.Engine(CLOSURE, **AS_TABLE, **on(emulated(budget)))
    for engine in (expected, found):
        engine.load("edge", edges)
        engine.materialise()
    assert rows_of(found, "path") == rows_of(expected, "path")


def test_stratum_that_changes_its_place(ends: list[RoundsEnd]) -> None:
    facts = {"edge": random_edges(6, 60, 100)}
    for program in LINEAR.values():
        assert_agrees(program, facts, **AS_TABLE, **on(emulated(), BACK_AND_FORTH))


def test_stop_between_rounds_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = emulated()
    engine = ge.Engine(CLOSURE, **AS_TABLE, **on(backend))
    engine.load("edge", [(n, n + 1) for n in range(200)])
    calls = []
    original = RoundsAhead.run

    def run(self: RoundsAhead, rounds: int) -> tuple[RoundsEnd, int]:
        calls.append(rounds)
        if len(calls) == 3:
            raise Interrupted("stopped")
        return original(self, rounds)

    monkeypatch.setattr(RoundsAhead, "run", run)
    with pytest.raises(Interrupted):
        engine.materialise()
    assert len(calls) == 3
    monkeypatch.undo()
    engine.load("edge", [(500, 0)])
    engine.materialise()
    assert len(engine["path"]) == 201 * 202 // 2


def test_rounds_with_far_more_candidates_than_the_last() -> None:
    """A chain that ends in a dense graph: what was expected from the rounds before is far too little."""
    edges = [(n, n + 1) for n in range(15)] + [(15, 100 + n) for n in range(40)]
    edges += [(100 + n, 100 + m) for n in range(40) for m in range(40) if (n * m) % 3 == 1]
    assert_agrees(CLOSURE, {"edge": edges}, **AS_TABLE, **on(emulated()))
    run = Watched(CLOSURE, {"edge": edges}, **AS_TABLE)
    assert run.derived_by_host == []
