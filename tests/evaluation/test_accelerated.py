"""Whatever runs on an accelerator, and however strata move, what is derived is the same."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import Interrupted
from gpuengine.evaluation.fixpoint import evaluate_plan
from gpuengine.evaluation.placement.placement import Placement
from gpuengine.evaluation.rules.context import Context
from gpuengine.evaluation.rules.database import Database
from gpuengine.evaluation.thresholds import Thresholds
from tests.differential.compare import assert_agrees, engine_facts, oracle_facts, rows_of
from tests.evaluation.accelerator import AFTER_THE_START, ALTERNATING, EVERYWHERE, NOWHERE, Accelerator
from tests.evaluation.forced import forced
from tests.generated import Case
from tests.kernels.reference import ReferenceBackend
from tests.planning.random_recursion import recursive_program
from tests.planning.test_split import always_worthwhile
from tests.strategies import cases, counters, queries

PLACES: dict[str, Thresholds] = {
    "everywhere": EVERYWHERE,
    "alternating": ALTERNATING,
    "after the start": AFTER_THE_START,
    "nowhere": NOWHERE,
}
ANY_PLACE = st.sampled_from(sorted(PLACES))
THREADS = st.sampled_from([1, 2])


def options(place: str, threads: int = 1) -> dict[str, Any]:
    return {"backend": Accelerator(), "thresholds": PLACES[place], "threads": threads}


@given(cases(), ANY_PLACE, THREADS)
def test_programs_over_primitive_types(case: Case, place: str, threads: int) -> None:
    assert_agrees(str(case), case.facts, **options(place, threads))


@given(cases(types=("number",)), ANY_PLACE, THREADS)
def test_programs_over_numbers(case: Case, place: str, threads: int) -> None:
    assert_agrees(str(case), case.facts, **options(place, threads))


@given(cases(compound=True), ANY_PLACE)
def test_programs_over_records_and_adts(case: Case, place: str) -> None:
    assert_agrees(str(case), case.facts, **options(place))


@given(counters(), ANY_PLACE)
def test_guarded_recursion_over_computed_values(case: Case, place: str) -> None:
    assert_agrees(str(case), case.facts, **options(place))


@settings(max_examples=60)
@given(st.integers(0, 10**9), ANY_PLACE, THREADS)
def test_recursive_programs(seed: int, place: str, threads: int) -> None:
    text, facts = recursive_program(seed)
    assert_agrees(text, facts, **options(place, threads))


@given(cases(), ANY_PLACE)
def test_tiny_buffers(case: Case, place: str) -> None:
    with forced(small_delta=0, chunk_rows=1, buffer_rows=1):
        assert_agrees(str(case), case.facts, **options(place))


@settings(max_examples=15)
@given(st.one_of(cases(), counters()))
def test_the_whole_engine_on_the_reference_kernels(case: Case) -> None:
    assert_agrees(str(case), case.facts, backend=ReferenceBackend(), thresholds=EVERYWHERE)


@settings(max_examples=10)
@given(cases(), ANY_PLACE)
def test_materialise_after_each_load(case: Case, place: str) -> None:
    """Loaded facts that the last materialisation brought to the accelerator can be added to."""
    kb = ge.Engine(str(case), **options(place, 2))
    kb.materialise()
    for name, rows in case.facts.items():
        for half in (rows[::2], rows[1::2]):
            kb.load(name, half)
            kb.materialise()
    expected = oracle_facts(str(case), case.facts)
    assert {relation.name: rows_of(kb, relation.name) for relation in case.relations} == expected


@settings(max_examples=12)
@given(queries(), ANY_PLACE)
def test_queries(question: tuple[Any, Any], place: str) -> None:
    case, rule = question
    text = ", ".join(rule.body)
    answers = []
    for chosen in (options(place), {"backend": "cpu"}):
        kb = ge.Engine(str(case), **chosen)
        for name, rows in case.facts.items():
            kb.load(name, rows)
        answers.append(set(kb.materialise().query(text)))
    assert answers[0] == answers[1]


MUTUAL = """
.decl edge(x: number, y: number)
.decl odd(x: number, y: number)
.decl even(x: number, y: number)
.decl same(x: number, y: number)
.decl most(x: number, n: number)
.input edge
.output odd
.output even
.output most
odd(x, y) :- edge(x, y).
odd(x, z) :- even(x, y), edge(y, z).
even(x, z) :- odd(x, y), odd(y, z).
same(x, y) :- odd(x, y), even(x, y), x < y.
same(x, z) :- same(x, y), same(y, z), !edge(x, z).
most(x, n) :- odd(x, _), n = count : { odd(x, _) }.
"""


def graph(nodes: int, edges: int) -> dict[str, list[tuple[Any, ...]]]:
    random = Random(nodes)
    return {"edge": sorted({(random.randrange(nodes), random.randrange(nodes)) for _ in range(edges)})}


@pytest.fixture(scope="module")
def expected() -> dict[str, set[tuple[Any, ...]]]:
    found = engine_facts(MUTUAL, graph(40, 60), backend="cpu")
    assert found is not None and len(found["odd"]) > 150 and found["same"] and found["most"]
    return found


@pytest.mark.parametrize("place", PLACES)
def test_a_larger_program(expected: dict[str, set[Any]], place: str) -> None:
    assert engine_facts(MUTUAL, graph(40, 60), **options(place)) == expected


def rounds(place: str) -> list[tuple[list[str], int]]:
    """For each stratum of the larger program the backends it ran on, and its moves."""
    kb = ge.Engine(MUTUAL, **options(place))
    kb.load("edge", graph(40, 60)["edge"])
    kb.materialise()
    assert kb.progress is not None
    assert kb.progress.rounds == sum(sum(each.rounds.values()) for each in kb.progress.placed)
    return [(list(each.rounds), each.moves) for each in kb.progress.placed]


def test_where_it_ran() -> None:
    assert rounds("everywhere") == [(["fake"], 0)] * 3
    assert rounds("nowhere") == [(["cpu"], 0)] * 3
    recursive = [found for found in rounds("after the start") if found != (["cpu"], 0)]
    assert recursive == [(["cpu", "fake"], 1)] * 2
    (first, many), (second, once) = [found for found in rounds("alternating") if found != (["fake"], 0)]
    assert first == second == ["fake", "cpu"] and many > 5 and once == 1


def test_nothing_happens_on_an_accelerator_that_is_not_wanted() -> None:
    device = Accelerator()
    kb = ge.Engine(MUTUAL, backend=device, thresholds=NOWHERE)
    kb.load("edge", graph(40, 60)["edge"])
    kb.materialise()
    assert len(kb["odd"]) and device.counts == type(device.counts)()


@settings(max_examples=40)
@given(st.integers(0, 10**9), ANY_PLACE)
def test_rules_that_split_on_the_way(seed: int, place: str) -> None:
    """The relation that a split adds is made where the stratum is, and moves with it."""
    text, facts = recursive_program(seed)
    with always_worthwhile():
        assert_agrees(text, facts, **options(place))


@pytest.mark.parametrize("place", PLACES)
def test_a_size_limit(place: str) -> None:
    program = """
    .decl e(x: number, y: number)
    .decl p(x: number, y: number)
    .input e
    .output p
    .limitsize p(n=40)
    p(x, y) :- e(x, y).
    p(x, z) :- p(x, y), e(y, z).
    """
    kb = ge.Engine(program, **options(place))
    kb.load("e", [(i, i + 1) for i in range(20)])
    kb.materialise()
    host = ge.Engine(program, backend="cpu")
    host.load("e", [(i, i + 1) for i in range(20)])
    assert rows_of(kb, "p") == rows_of(host.materialise(), "p")
    assert 40 <= len(kb["p"]) < 210


def evaluation(engine: ge.Engine) -> Context:
    database = Database(engine.program, engine.dictionary)
    for name, table in engine.loaded.items():
        database.tables[name].insert(table.columns(), len(table))
    return Context(engine.plan(), database, placement=Placement(engine.options.accelerator))


@pytest.mark.parametrize("place", PLACES)
def test_stop_from_another_thread(place: str) -> None:
    kb = ge.Engine(
        """
        .decl n(x: number)
        .output n
        n(0).
        n(x + 1) :- n(x), x < 4000000000.
        """,
        **options(place),
    )
    context = evaluation(kb)
    timer = threading.Timer(0.2, lambda: context.stop.__setitem__(0, 1))
    timer.start()
    with pytest.raises(Interrupted):
        evaluate_plan(context)
    timer.join()


@pytest.mark.parametrize(("place", "facts"), [("everywhere", 3000), ("nowhere", 200_000)])
def test_stop_within_one_rule(place: str, facts: int) -> None:
    kb = ge.Engine(
        """
        .decl e(x: number)
        .decl p(x: number)
        .input e
        .output p
        p(x) :- e(x), e(y), x < y, y < x.
        """,
        **options(place),
    )
    kb.load("e", [(i,) for i in range(facts)])
    context = evaluation(kb)
    timer = threading.Timer(0.3, lambda: context.stop.__setitem__(0, 1))
    timer.start()
    with pytest.raises(Interrupted):
        evaluate_plan(context)
    timer.join()
