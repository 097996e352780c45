"""Least and greatest values of keys on a device: nothing of the facts goes to the host."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from gpuengine.evaluation.driver.device_merging import DeviceMerging
from gpuengine.evaluation.driver.selectors import Merging
from gpuengine.kernels.contract import DeviceMemoryError
from tests.differential.compare import assert_agrees
from tests.differential.devices import BACK_AND_FORTH, emulated, on, simulated
from tests.evaluation.watched import Watched

DECLARED = """
.decl edge(x: number, y: number, w: number)
.decl start(x: number)
.decl found(x: number, v: number)
"""
PROGRAMS = {
    "shortest paths": "found(x, min 0) :- start(x). found(y, min v + w) :- found(x, v), edge(x, y, w).",
    "widest paths": "found(x, max 99) :- start(x). found(y, max min(v, w)) :- found(x, v), edge(x, y, w).",
    "components": """
        found(x, min x) :- edge(x, _, _). found(y, min y) :- edge(_, y, _).
        found(y, min v) :- found(x, v), edge(x, y, _). found(x, min v) :- found(y, v), edge(x, y, _).""",
    "by subsumption": """
        found(x, 0) :- start(x). found(y, v + w) :- found(x, v), edge(x, y, w).
        found(x, v) <= found(x, w) :- w <= v.""",
    "all pairs": """
        .decl path(x: number, y: number, v: number)
        path(x, y, min w) :- edge(x, y, w). path(x, z, min v + w) :- path(x, y, v), edge(y, z, w).""",
    "one for all": """
        .decl least(v: number)
        found(x, max w) :- edge(x, _, w). least(min v) :- found(_, v).""",
}


def _facts(seed: int, nodes: int = 25) -> dict[str, list[tuple[Any, ...]]]:
    random = Random(seed)
    edges = {
        (random.randrange(nodes), random.randrange(nodes)): random.randrange(1, 40) for _ in range(3 * nodes)
    }
    return {"edge": [(x, y, w) for (x, y), w in edges.items()], "start": [(0,), (1,)]}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_goes_to_the_host(name: str) -> None:
    program = DECLARED + PROGRAMS[name]
    run = Watched(program, _facts(7))
    assert run.sent == []
    assert run.derived_by_host == []
    assert_agrees(program, _facts(7), **on(emulated()))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_stratum_may_leave_between_rounds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    leave = DeviceMerging.leave_device
    monkeypatch.setattr(DeviceMerging, "leave_device", lambda self: left.append(self.name) or leave(self))
    assert_agrees(DECLARED + PROGRAMS[name], _facts(5), **on(emulated(), BACK_AND_FORTH))
    assert bool(left) == (name != "one for all"), "what has no rounds stays"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["number", "unsigned"])
def test_values_that_are_not_their_own_ids(kind: str, seed: int) -> None:
    random = Random(seed)
    values = {"number": [0, -1, 2**24, -(2**40), 2**62], "unsigned": [0, 2**24, 2**63, 2**64 - 1, 7]}[kind]
    program = f"""
    .decl edge(x: number, y: number, w: {kind})
    .decl low, high(x: number, y: number, v: {kind})
    low(x, y, min w) :- edge(x, y, w).
    low(x, z, min max(v, w)) :- low(x, y, v), edge(y, z, w).
    high(x, y, max w) :- edge(x, y, w).
    high(x, z, max min(v, w)) :- high(x, y, v), high(y, z, w).
    """
    edges = [(random.randrange(5), random.randrange(5), random.choice(values)) for _ in range(12)]
    stated = [(random.randrange(5), random.randrange(5), random.choice(values)) for _ in range(4)]
    facts = {"edge": edges, "low": stated, "high": stated}
    run = Watched(program, facts)
    assert run.derived_by_host == []
    assert_agrees(program, facts, **on(emulated()))
    if seed == 0:
        assert_agrees(program, facts, **on(emulated(), BACK_AND_FORTH))
        assert_agrees(program, {"edge": edges[:5], "low": stated[:1]}, **on(simulated()))


@pytest.mark.parametrize("fails", range(8))
@pytest.mark.parametrize("where", ["offer", "apply", "end"])
def test_the_host_goes_on_when_memory_ends(where: str, fails: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = getattr(DeviceMerging, where)

    def failing(self: DeviceMerging, *args: Any, **options: Any) -> None:
        calls.append(where)
        if len(calls) == fails + 1:
            raise DeviceMemoryError(1, 0)
        original(self, *args, **options)

    taken_over = []
    take_over = Merging.take_over

    def note(self: Merging, *args: Any) -> None:
        taken_over.append(self.name)
        take_over(self, *args)

    monkeypatch.setattr(DeviceMerging, where, failing)
    monkeypatch.setattr(Merging, "take_over", note)
    for name in ("shortest paths", "components"):
        calls.clear()
        taken_over.clear()
        facts = {**_facts(fails), "found": [(3, 5), (3, 4), (100, 7)]}
        assert_agrees(DECLARED + PROGRAMS[name], facts, **on(emulated()))
        assert bool(taken_over) == (len(calls) > fails)


def test_updates_and_further_facts_after_a_device() -> None:
    import gpuengine as ge
    from tests.differential.compare import oracle_facts, rows_of

    program, facts = DECLARED + PROGRAMS["shortest paths"], _facts(3)
    engine = ge.Engine(program, **on(emulated()))
    for name, rows in facts.items():
        engine.load(name, rows)
    engine.materialise()
    before = engine["found"]
    shown = set(before)
    gone, come = facts["edge"][:3], [(0, 24, 1), (24, 23, 1)]
    with engine.update() as update:
        update.delete("edge", gone)
        update.insert("edge", come)
    facts["edge"] = [row for row in facts["edge"] if row not in gone] + come
    expected = oracle_facts(program, facts)
    assert expected is not None and rows_of(engine, "found") == expected["found"]
    assert set(update.change["found"].inserted) == expected["found"] - shown
    engine.load("edge", [(0, 77, 3)])
    engine.materialise()
    assert (77, 3) in set(engine["found"])


def test_floats_and_symbols_stay_on_the_host() -> None:
    for kind, value in (("float", 0.5), ("symbol", "a")):
        program = f".decl e(x: number, v: {kind})\n.decl r(x: number, v: {kind})\nr(x, min v) :- e(x, v)."
        run = Watched(program, {"e": [(1, value)]})
        assert run.derived_by_host
        assert_agrees(program, {"e": [(1, value)]}, **on(emulated()))
