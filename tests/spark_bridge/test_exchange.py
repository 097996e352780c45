"""Recursions shared out among tasks: what all of them hold at the end is what an engine derives.

Here tasks are threads of this process, and no Spark is needed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuengine.engine import Engine
from gpuengine.errors import GpuEngineError
from gpuengine.language.program import Atom
from gpuengine.planning.plan import Stratum, body_relations, describe
from gpuengine.spark_bridge import exchange
from gpuengine.spark_bridge.carriers import Carriers, has_no_carrier
from gpuengine.spark_bridge.exchange import Failed, ShareRun, destinations
from gpuengine.spark_bridge.mesh import Mesh, MeshError
from gpuengine.spark_bridge.placement import needs_one_engine
from gpuengine.spark_bridge.shares import BY_ROW, choose_shared, share_out
from gpuengine.spark_bridge.strata import reads
from gpuengine.spark_bridge.tasks import CarriedProgram, Results
from tests.generated import Case
from tests.strategies import cases, counters
from tests.structured_programs import Structured, structured_programs

few = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


class Meeting:
    """All ranks of a stage, as threads: `gather` as Spark has it."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count, timeout=60)
        self._told: dict[int, str] = {}

    def gather(self, rank: int) -> Callable[[str], list[str]]:
        def gather(text: str) -> list[str]:
            self._barrier.wait()
            self._told[rank] = text
            self._barrier.wait()
            return [self._told[other] for other in sorted(self._told)]

        return gather


def at_once(count: int, task: Callable[[int, Mesh], Any], host: str = "127.0.0.1") -> list[Any]:
    """What the tasks give, each connected with all others."""
    meeting = Meeting(count)

    def run(rank: int) -> Any:
        mesh = Mesh.connect(rank, host, b"secret", meeting.gather(rank))
        try:
            return task(rank, mesh)
        finally:
            mesh.close()

    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(run, rank) for rank in range(count)]]


Rows = Mapping[str, list[pa.RecordBatch]]
PLAIN = Carriers(frozenset())


def shared_out(program: str, facts: Mapping[str, Sequence[Any]], tasks: int, lower: str = "sent") -> int:
    """Compare every recursive stratum with what an engine derives; how many strata there were.

    `lower` says what happens to relations below: all are ``sent``, or ``shared`` out where they can be.
    """
    engine = Engine(program)
    for name, rows in facts.items():
        if rows:
            engine.load(name, rows)
    prepared = engine.prepared
    if needs_one_engine(prepared.program) or has_no_carrier(prepared.program):
        return 0
    given = Results(CarriedProgram(prepared, PLAIN), engine.loaded, engine.dictionary)
    loaded = {name: list(given.batches(name)) for name in facts if name not in prepared.aliases}
    if len(loaded) < len(facts):
        return 0
    whole = CarriedProgram(prepared, PLAIN, facts=True).run(loaded, list(prepared.program.relations))
    names = [name for name in prepared.program.relations if name not in prepared.aliases]
    known = {name: list(whole.batches(name)) for name in names}
    strata = [stratum for stratum in prepared.plan().strata if stratum.is_recursive]
    for stratum in strata:
        once = tuple(dict.fromkeys(variant.rule for variant in stratum.once))
        own = tuple(rule for rule in prepared.program.rules if not rule.body)
        base_program = CarriedProgram(prepared.with_rules((*own, *once), ()), PLAIN, facts=True)
        lower_facts = {name: known[name] for name in known if name not in stratum.relations}
        stated = {name: loaded[name] for name in stratum.relations if name in loaded}
        base = base_program.run({**lower_facts, **stated}, stratum.relations)
        start = {name: list(base.batches(name)) for name in stratum.relations}
        found = by_tasks(CarriedProgram(prepared, PLAIN), stratum, start, lower_facts, tasks, lower)
        for name in stratum.relations:
            assert rows_in(found[name]) == rows_in(known[name]), (name, str(stratum))
    return len(strata)


def by_tasks(
    carried: CarriedProgram, stratum: Stratum, base: Rows, lower: Rows, tasks: int, how: str
) -> dict[str, list[pa.RecordBatch]]:
    rules = list(dict.fromkeys(variant.rule for variant in stratum.recursive))
    read = reads(rules) - set(stratum.relations)
    in_atoms = [part.relation for rule in rules for part in rule.body if isinstance(part, Atom)]
    inside = {
        name
        for rule in rules
        for part in rule.body
        if not isinstance(part, Atom)
        for name in body_relations([part])
    }
    shared = sorted((read & set(in_atoms)) - inside) if how == "shared" else []
    shares = share_out(rules, carried.prepared.program.relations, stratum.relations, shared)
    assert set(shares.sent) == read - set(shared)
    given = {**base, **{name: lower[name] for name in shared}}

    def task(rank: int, mesh: Mesh) -> dict[str, list[pa.RecordBatch]]:
        run = ShareRun(shares, carried, mesh)
        # Facts lie anywhere, and some with several tasks.
        own = [
            (name, batch.slice(rank // 2, max(0, -(-batch.num_rows * (rank + 1) // tasks) - rank // 2)))
            for name, batches in given.items()
            for batch in batches
        ]
        run.run(
            [(name, batch) for name, batch in own if batch.num_rows],
            {name: lower[name] for name in shares.sent},
        )
        assert run.rounds[-1][0] == dict.fromkeys(run.rounds[-1][0], 0)
        return {name: list(run.facts(name)) for name in stratum.relations}

    parts = at_once(tasks, task)
    found = {name: [batch for part in parts for batch in part[name]] for name in stratum.relations}
    for name, batches in found.items():
        rows = [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
        assert len(rows) == len(set(rows)), f"{name} is held twice"
    return found


def rows_in(batches: Sequence[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return sorted(
        row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    )


SAME_GENERATION = """
.decl parent(child: number, parent: number)
.decl sg(x: number, y: number)
sg(x, y) :- parent(x, p), parent(y, p).
sg(x, y) :- parent(x, p), sg(p, q), parent(y, q).
"""
PARENTS = [(child, (child - 1) // 2) for child in range(1, 64)]
ANDERSEN = """
.decl address(y: symbol, x: symbol)
.decl assign(y: symbol, x: symbol)
.decl load(y: symbol, x: symbol)
.decl store(y: symbol, x: symbol)
.decl points(y: symbol, x: symbol)
points(y, x) :- address(y, x).
points(y, x) :- assign(y, z), points(z, x).
points(y, w) :- load(y, x), points(x, z), points(z, w).
points(z, w) :- store(y, x), points(y, z), points(x, w).
"""
NAMES = ["", "a", "\u00fc", *(f"http://example.org/with/a/long/name/{number}" for number in range(12))]


def pairs(seed: int, rows: int) -> list[tuple[str, str]]:
    random = Random(seed)
    return [(random.choice(NAMES), random.choice(NAMES)) for _ in range(rows)]


POINTERS = {"address": pairs(1, 20), "assign": pairs(2, 12), "load": pairs(3, 6), "store": pairs(4, 6)}
MUTUAL = """
.decl edge(x: number, y: number)
.decl blocked(x: number)
.decl even(x: number, y: number)
.decl odd(x: number, y: number)
.decl far(x: number, y: number, steps: number)
.decl stop()
.decl cross(x: number, y: number)
odd(x, y) :- edge(x, y), !blocked(y).
odd(x, z) :- even(x, y), edge(y, z), !blocked(z).
even(x, z) :- odd(x, y), edge(y, z), !blocked(z).
far(x, y, 1) :- edge(x, y).
far(x, z, n + m) :- far(x, y, n), far(y, z, m), n + m < 6, c = count : { edge(x, _) }, n <= c + 4.
stop() :- odd(1, 4).
stop() :- cross(0, 0), stop().
cross(0, 1) :- stop().
cross(x, y) :- cross(x, _), cross(_, y), stop().
cross(y, x) :- cross(x, y), edge(x, y).
cross(x, z) :- cross(x, y), cross(z, w), x < z.
cross(x + 1, y) :- cross(x, y), stop(), x < 3.
"""
EDGES = [(x, y) for x in range(5) for y in (x + 1, 0)] + [(7, 7), (-5, 1 << 40), (1 << 40, 2)]
FLOATS = """
.decl edge(x: float, y: unsigned)
.decl other(y: unsigned, x: float)
.decl reach(x: float, y: unsigned)
reach(x, y) :- edge(x, y).
reach(x, y) :- reach(x, u), other(u, z), reach(z, y).
"""
BITS = {
    "edge": [(0.0, 1), (-0.0, 2), (float("nan"), 3), (1.5, 1 << 63), (2.5, (1 << 64) - 1)],
    "other": [(1, -0.0), (2, float("nan")), (1 << 63, 2.5), (3, 0.0), (4, 1.5)],
}


@pytest.mark.parametrize("lower", ["sent", "shared"])
@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("program", "facts"),
    [
        (SAME_GENERATION, {"parent": PARENTS}),
        (SAME_GENERATION, {"parent": [(child, 0) for child in range(40)]}),  # one key has everything
        (SAME_GENERATION, {"parent": []}),
        (ANDERSEN, POINTERS),
        (MUTUAL, {"edge": EDGES, "blocked": [(3,)]}),
        (MUTUAL, {"edge": EDGES, "blocked": []}),
        (FLOATS, BITS),
    ],
    ids=["tree", "one key", "nothing", "andersen", "mutual", "unblocked", "bits"],
)
def test_tasks_derive_what_an_engine_does(
    program: str, facts: Mapping[str, Sequence[Any]], tasks: int, lower: str
) -> None:
    assert shared_out(program, facts, tasks, lower) >= 1


def test_facts_go_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MESSAGE_ROWS", 7)
    assert shared_out(SAME_GENERATION, {"parent": PARENTS}, 3, "shared") == 1
    assert shared_out(MUTUAL, {"edge": EDGES, "blocked": []}, 2) >= 2


def test_what_rules_become() -> None:
    """Atoms that are read together have one variable where their copies are shared out."""
    for text, shared, expected in (
        (SAME_GENERATION, [], ["sg derived(x, y) :- parent(x, p), sg by row(p, q), parent(y, q)"]),
        (
            SAME_GENERATION,
            ["parent"],
            [
                "sg.1 derived(x, q) :- parent by 2(x, p), sg by 1(p, q)",
                "sg derived(x, y) :- sg.1 by 2(x, q), parent by 2(y, q)",
            ],
        ),
        (
            ANDERSEN,
            [],
            [
                "points derived(y, w) :- load(y, x), points by 2(x, z), points by 1(z, w)",
                "points derived(z, w) :- points.1 by 1(x, z), points by 1(x, w)",
                "points derived(y, x) :- assign(y, z), points by 2(z, x)",
                "points.1 derived(x, z) :- store(y, x), points by 2(y, z)",
            ],
        ),
    ):
        prepared = Engine(text).prepared
        (stratum,) = [stratum for stratum in prepared.plan().strata if stratum.is_recursive]
        rules = list(dict.fromkeys(variant.rule for variant in stratum.recursive))
        shares = share_out(rules, prepared.program.relations, stratum.relations, shared)
        told = [f"{describe(rule.head)} :- {', '.join(map(describe, rule.body))}" for rule in shares.rules]
        assert told == expected


def test_what_is_large_is_shared_out() -> None:
    prepared = Engine(MUTUAL).prepared
    rules = prepared.program.rules
    lower = {"edge": 100.0, "blocked": 10.0, "odd": 40.0}
    assert choose_shared(rules, lower, 150) == []
    assert choose_shared(rules, lower, 130) == ["odd"]  # edge is aggregated
    assert choose_shared(rules, lower, 100) is None


def test_places_are_spread_and_the_same_everywhere() -> None:
    numbers = pa.array(np.arange(10_000))
    names = pa.array([f"http://example.org/with/a/long/name/that/all/have/{n}/" for n in range(10_000)])
    for arrays, place in (
        ([numbers], 0),
        ([names], 0),
        ([numbers, numbers], BY_ROW),
        ([names, numbers], BY_ROW),
    ):
        counted = np.bincount(destinations(arrays, place, 16), minlength=16)
        assert counted.min() > 450 and counted.max() < 800
        parts = [destinations([a.slice(n, 1) for a in arrays], place, 16)[0] for n in (0, 17, 9_999)]
        assert parts == list(destinations(arrays, place, 16)[[0, 17, 9_999]])
    assert len(set(destinations([pa.array(["", "", "b"])], 0, 1 << 20).tolist())) == 2
    large = pa.array(["x", "", "\u00fc"], pa.large_string())
    assert list(destinations([large], 0, 999)) == list(destinations([large.cast(pa.string())], 0, 999))


def test_a_task_that_fails_ends_all_with_what_it_raised() -> None:
    program = """
    .decl start(x: number)
    .decl reach(x: number, y: number)
    reach(x, 0) :- start(x).
    reach(x, y + 10 / (3 - x)) :- reach(x, y), y < 50.
    """
    prepared = Engine(program).prepared
    (stratum,) = [stratum for stratum in prepared.plan().strata if stratum.is_recursive]
    rules = list(dict.fromkeys(variant.rule for variant in stratum.recursive))
    shares = share_out(rules, prepared.program.relations, stratum.relations, [])
    batch = pa.record_batch([pa.array([1, 2, 3, 4]), pa.array([0, 0, 0, 0])], ["c0", "c1"])

    def task(rank: int, mesh: Mesh) -> Failed:
        run = ShareRun(shares, CarriedProgram(prepared, PLAIN), mesh)
        with pytest.raises(Failed) as caught:
            run.run([("reach", batch)] if rank == 1 else [], {})
        return caught.value

    for failed in at_once(3, task):
        assert failed.kind == "FunctorError"
        assert "zero" in failed.text
        assert any("reach(x, y + 10 / (3 - x))" in note for note in failed.notes)


def test_a_task_out_of_memory_ends_all() -> None:
    prepared = Engine(SAME_GENERATION).prepared
    (stratum,) = [stratum for stratum in prepared.plan().strata if stratum.is_recursive]
    rules = list(dict.fromkeys(variant.rule for variant in stratum.recursive))
    shares = share_out(rules, prepared.program.relations, stratum.relations, [])
    parents = pa.record_batch([pa.array(range(1, 3000)), pa.array([0] * 2999)], ["c0", "c1"])
    start = pa.record_batch([pa.array([0]), pa.array([0])], ["c0", "c1"])

    def task(rank: int, mesh: Mesh) -> str:
        run = ShareRun(shares, CarriedProgram(prepared, PLAIN), mesh, memory=1 << 20)
        with pytest.raises(Failed) as caught:
            run.run([("sg", start)] if rank == 0 else [], {"parent": [parents]})
        return caught.value.kind

    assert at_once(2, task) == ["MemoryBudgetError"] * 2


def test_a_task_that_is_gone_ends_the_others() -> None:
    def task(rank: int, mesh: Mesh) -> str:
        if rank == 0:
            mesh.close()
            return "gone"
        with pytest.raises(MeshError, match="another task of the stage has ended"):
            mesh.swap([b"x" * (8 << 20)] * 3)
        mesh.close()
        return "ended"

    assert at_once(3, task) == ["gone", "ended", "ended"]


def test_large_messages_pass_each_other() -> None:
    def task(rank: int, mesh: Mesh) -> bool:
        sizes = [(rank + 1) * (other + 1) << 20 for other in range(4)]
        received = mesh.swap([bytes([rank]) * size for size in sizes])
        return all(
            bytes(message) == bytes([other]) * ((rank + 1) * (other + 1) << 20)
            for other, message in enumerate(received)
        )

    assert at_once(4, task) == [True] * 4


def test_tasks_that_cannot_connect_all_know_it() -> None:
    meeting = Meeting(2)

    def run(rank: int) -> str:
        host = "127.0.0.1" if rank == 0 else "203.0.113.7"  # no machine has this address
        with pytest.raises(MeshError) as caught:
            Mesh.connect(rank, host, b"secret", meeting.gather(rank))
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(run, range(2)))
    assert told[0] == told[1] and "can't listen on 203.0.113.7" in told[0]


def test_strangers_are_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not know the secret is sent away, and does not keep tasks from finding each other."""
    meeting, knocked = Meeting(2), []

    def gather(rank: int) -> Callable[[str], list[str]]:
        inner = meeting.gather(rank)

        def gather(text: str) -> list[str]:
            told = inner(text)
            if rank == 1 and not knocked:  # before this task itself connects to the other
                host, _, port = told[0].rpartition(" ")
                knocked.append(socket.create_connection((host, int(port)), timeout=5))
                assert len(knocked[0].recv(32)) == 32
                knocked[0].sendall(b"\1\0\0\0" + b"?" * 64)
            return told

        return gather

    def run(rank: int) -> list[bytes]:
        mesh = Mesh.connect(rank, "127.0.0.1", b"secret", gather(rank))
        received = [bytes(message) for message in mesh.swap([b"%d" % rank] * 2)]
        mesh.close()
        return received

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [[b"0", b"1"]] * 2
    assert knocked[0].recv(1) == b""
    monkeypatch.setattr("gpuengine.spark_bridge.mesh.CONNECT_SECONDS", 1.0)
    other = Meeting(2)
    with ThreadPoolExecutor(2) as pool:
        tried = [pool.submit(Mesh.connect, n, "127.0.0.1", b"%d" % n, other.gather(n)) for n in range(2)]
        for one in tried:
            with pytest.raises(MeshError):
                one.result()


how = st.sampled_from(["sent", "shared"])
counts = st.sampled_from([1, 2, 3, 5])


def without_failing(program: str, facts: Mapping[str, Sequence[Any]], tasks: int, lower: str) -> None:
    try:
        engine = Engine(program)
        for name, rows in facts.items():
            if rows:
                engine.load(name, rows)
        engine.materialise()
    except GpuEngineError:
        return  # what fails is for other tests
    shared_out(program, facts, tasks, lower)


@few
@given(cases(), counts, how)
def test_programs_over_primitive_types(case: Case, tasks: int, lower: str) -> None:
    without_failing(str(case), case.facts, tasks, lower)


@few
@given(structured_programs(), counts, how)
def test_programs_with_closures_and_equivalences(case: Structured, tasks: int, lower: str) -> None:
    without_failing(case.text, case.facts, tasks, lower)


@few
@given(counters(), counts, how)
def test_guarded_recursion_over_computed_values(case: Case, tasks: int, lower: str) -> None:
    without_failing(str(case), case.facts, tasks, lower)
