"""An update that fails, at whatever point, leaves everything as it was, and the next one works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import gpuengine as ge
from gpuengine.errors import Interrupted
from gpuengine.evaluation.rules.variants import VariantRunner
from gpuengine.maintenance.stratum import StratumMaintenance, StratumTables
from gpuengine.schemes.closure import Closure
from gpuengine.schemes.equivalence import Equivalence
from gpuengine.schemes.table import Table
from tests.maintenance.streams import (
    Call,
    Model,
    Stream,
    assert_is_difference,
    commit,
    facts_of,
    is_maintained,
    started,
    state_of,
)

GRAPH = ((1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (6, 7))


def declared(*names: str) -> str:
    return "".join(f".decl {name}(x: number, y: number)\n" for name in names)


def insert(relation: str, *rows: tuple[Any, ...]) -> Call:
    return Call("insert", relation, rows)


def delete(relation: str, *rows: tuple[Any, ...]) -> Call:
    return Call("delete", relation, rows)


def add(rules: str) -> Call:
    return Call("add_rules", rules=rules)


def remove(rules: str) -> Call:
    return Call("remove_rules", rules=rules)


BOTH_WAYS = (delete("e", (3, 1), (6, 7)), insert("e", (5, 2), (8, 9)))
#: Each with a transaction that changes relations in several strata.
WORLDS = {
    "tables": Stream(
        declared("e", "p", "q", "r"),
        (
            "p(x, y) :- e(x, y).",
            "p(x, z) :- p(x, y), e(y, z).",
            "q(x, y) :- e(x, y), !p(y, x).",
            "r(x, n) :- p(x, _), n = count : { q(x, _) }.",
        ),
        {"e": GRAPH, "q": [(1, 9)]},
        ((*BOTH_WAYS, delete("q", (1, 9)), insert("p", (9, 9))),),
    ),
    "modules on a table": Stream(
        declared("e", "p", "q"),
        ("p(x, y) :- e(x, y).", "p(x, z) :- p(x, y), p(y, z).", "q(x, y) :- p(x, y), !e(x, y)."),
        {"e": GRAPH},
        (BOTH_WAYS,),
        {"schemes": {"*": "table"}},
    ),
    "closures": Stream(
        declared("e", "p", "q", "r"),
        (
            "p(x, y) :- e(x, y).",
            "p(x, z) :- p(x, y), p(y, z).",
            "q(x, y) :- e(y, x), !p(x, y).",
            "q(x, z) :- q(x, y), q(y, z).",
            "r(x, y) :- p(x, y), q(y, x).",
        ),
        {"e": GRAPH},
        (BOTH_WAYS,),
        {"schemes": {"p": "closure", "q": "closure"}},
    ),
    "a closure that its own stratum reads": Stream(
        declared("e", "p", "q"),
        (
            "p(x, y) :- e(x, y).",
            "p(x, z) :- p(x, y), p(y, z).",
            "p(y, x) :- p(x, y), x < 4.",
            "q(x, y) :- p(x, y), !e(x, y).",
        ),
        {"e": GRAPH},
        (BOTH_WAYS,),
        {"schemes": {"p": "closure"}},
    ),
    "equivalences": Stream(
        declared("e", "q") + ".decl s(x: number, y: number) eqrel\n",
        (
            "s(x, y) :- e(x, y), x < y.",
            "q(x, y) :- e(x, y), !s(x, 2).",
            "q(x, n) :- e(x, _), n = min y : { s(x, y) }.",
        ),
        {"e": GRAPH},
        (BOTH_WAYS,),
        {"schemes": {"s": "equivalence"}},
    ),
    "unions": Stream(
        declared("e", "f", "c", "u", "v", "q"),
        (
            "c(x, y) :- f(x, y).",
            "c(x, z) :- c(x, y), c(y, z).",
            "u(x, y) :- e(x, y).",
            "u(y, x) :- c(x, y).",
            "u(x, x) :- f(x, _).",
            "v(x, y) :- u(x, y).",
            "v(x, y) :- f(x, y).",
            "q(x, y) :- e(x, _), f(y, _), !v(x, y).",
        ),
        {"e": GRAPH, "f": [(2, 1), (1, 5), (7, 6)]},
        ((*BOTH_WAYS, delete("f", (1, 5)), insert("f", (4, 4), (6, 7))),),
        {"schemes": {"u": "union", "v": "union", "c": "closure"}},
    ),
    "an alias": Stream(
        declared("e", "up", "down", "q"),
        (
            "up(x, y) :- e(x, y).",
            "down(y, x) :- up(x, y).",
            "up(y, x) :- down(x, y).",
            "q(x, y) :- down(x, y), !e(x, y).",
        ),
        {"e": GRAPH, "down": [(2, 1), (9, 9)]},
        ((*BOTH_WAYS, delete("down", (9, 9)), insert("up", (7, 7))),),
    ),
    "rules": Stream(
        declared("e", "p", "q", "r"),
        (
            "p(x, y) :- e(x, y).",
            "p(x, z) :- p(x, y), e(y, z).",
            "q(x, y) :- e(x, y), !p(y, x).",
            "r(x, y) :- q(y, x), x < 9.",
        ),
        {"e": GRAPH, "r": [(5, 5)]},
        (
            (
                *BOTH_WAYS,
                remove("q(x, y) :- e(x, y), !p(y, x)."),
                remove("p(x, z) :- p(x, y), e(y, z)."),
                add("q(x, n) :- e(x, _), n = count : { p(x, _) }.\np(y, x) :- p(x, y), x > 3."),
                delete("r", (5, 5)),
            ),
        ),
    ),
    "a relation whose rules go": Stream(
        declared("e", "p", "q"),
        ("p(x, y) :- e(x, y), x < 5.", "q(x, y) :- p(x, y), e(y, _).", "q(x, z) :- q(x, y), p(y, z)."),
        {"e": GRAPH, "p": [(5, 5), (6, 1)]},
        (
            (
                *BOTH_WAYS,
                remove("p(x, y) :- e(x, y), x < 5."),
                delete("p", (5, 5)),
                insert("p", (7, 2), (1, 7)),
            ),
        ),
    ),
    "rules beside a closure": Stream(
        declared("e", "p", "q"),
        ("p(x, y) :- e(x, y), x < 5.", "p(x, z) :- p(x, y), p(y, z).", "q(x, y) :- e(x, y), !p(y, x)."),
        {"e": GRAPH},
        (
            (
                *BOTH_WAYS,
                remove("p(x, y) :- e(x, y), x < 5."),
                add("p(x, y) :- e(y, x), x > 1.\nq(x, x) :- p(x, x)."),
            ),
        ),
        {"schemes": {"p": "closure"}},
    ),
    "the best value of each key": Stream(
        declared("e", "p", "q", "r"),
        (
            "p(x, min x) :- e(x, _).",
            "p(y, min d) :- p(x, d), e(x, y).",
            "q(x, y) :- p(x, d), e(x, y), !p(y, d).",
            "r(x, max d) :- p(x, d), !q(x, x).",
            "r(y, max d) :- r(x, d), e(x, y).",
        ),
        {"e": GRAPH, "p": [(5, 0), (5, 9)]},
        ((*BOTH_WAYS, delete("p", (5, 0)), insert("r", (2, 1), (9, 0))),),
    ),
    "facts that subsume others": Stream(
        declared("e", "p", "q") + "p(x, a) <= p(y, b) :- y < x, b <= a, e(y, _).\n",
        (
            "p(x, y) :- e(x, y).",
            "p(x, z) :- p(x, y), e(y, z).",
            "q(x, y) :- e(x, y), !p(x, y).",
        ),
        {"e": GRAPH, "p": [(0, 3), (9, 9)]},
        ((*BOTH_WAYS, delete("p", (0, 3)), insert("q", (1, 1))),),
    ),
}
#: Where updates are made to fail: in rules, when tables and compact schemes change, at the end of strata.
POINTS: dict[str, list[tuple[type, str]]] = {
    "rules": [(VariantRunner, "run")],
    "tables": [(Table, "insert"), (Table, "delete"), (Table, "advance")],
    "schemes": [
        *(
            (scheme, name)
            for scheme in (Closure, Equivalence)
            for name in ("delete", "advance", "remove", "settle")
        )
    ],
    "strata": [
        (StratumMaintenance, "_find_coming"),
        (StratumMaintenance, "_insert"),
        (StratumTables, "note_deltas"),
    ],
}


@contextmanager
def failing_at(
    number: int, points: list[tuple[type, str]], error: type[BaseException]
) -> Iterator[list[int]]:
    """Raise when any of the methods is called for the `number`-th time, once; counts the calls."""
    calls = [0]

    def breaking(method: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls[0] += 1
            if calls[0] == number:
                raise error("on purpose")
            return method(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in points:
            patch.setattr(owner, name, breaking(getattr(owner, name)))
        yield calls


def fail_everywhere(
    stream: Stream, points: list[tuple[type, str]], error: type[BaseException], *, step: int = 1
) -> int:
    """Have the transaction fail at every `step`-th call, until it works; how often it failed.

    Each time nothing has changed.
    """
    (transaction,) = stream.transactions
    kb, model = started(stream), Model(stream)
    before, stated = model.state(), model.shown_facts()
    for call in transaction:
        model.take(call)
    after = model.state()
    assert before is not None and after is not None and state_of(kb) == before
    text, failures = kb.prepared.text, 0
    for number in range(1, 100_000, step):
        with failing_at(number, points, error):
            try:
                change = commit(kb, transaction)
            except error:
                failures += 1
            else:
                break
        assert state_of(kb) == before, f"after failure {number}"
        assert facts_of(kb) == stated, f"after failure {number}"
        assert kb.prepared.text is text
    assert state_of(kb) == after
    assert facts_of(kb) == model.shown_facts()
    assert_is_difference(change, before, after)
    again = commit(kb, [delete("e", *GRAPH)])
    model.take(delete("e", *GRAPH))
    emptied = model.state()
    assert emptied is not None and state_of(kb) == emptied
    assert_is_difference(again, after, emptied)
    return failures


@pytest.mark.parametrize("error", [MemoryError, Interrupted, KeyboardInterrupt])
@pytest.mark.parametrize("name", WORLDS)
def test_rules_that_fail(name: str, error: type[BaseException]) -> None:
    assert fail_everywhere(WORLDS[name], POINTS["rules"], error) > 3


@pytest.mark.parametrize("name", WORLDS)
def test_strata_that_fail(name: str) -> None:
    assert fail_everywhere(WORLDS[name], POINTS["strata"], MemoryError) > 2


@pytest.mark.parametrize("name", WORLDS)
def test_tables_that_fail(name: str) -> None:
    assert fail_everywhere(WORLDS[name], POINTS["tables"], MemoryError, step=2) > 5


@pytest.mark.parametrize("name", [name for name, world in WORLDS.items() if world.options])
def test_compact_schemes_that_fail(name: str) -> None:
    if WORLDS[name].options["schemes"] != {"*": "table"}:
        assert fail_everywhere(WORLDS[name], POINTS["schemes"], MemoryError) > 2


@contextmanager
def stopping_at(number: int) -> Iterator[None]:
    """Set the stop flag, as Ctrl-C does, when rules run for the `number`-th time."""
    run, calls = VariantRunner.run, [0]

    def stop(runner: VariantRunner, *args: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            runner.context.stop[0] = 1
        return run(runner, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VariantRunner, "run", stop)
        yield


@pytest.mark.parametrize("name", WORLDS)
def test_the_stop_flag_is_set_midway(name: str) -> None:
    """Either the update is stopped and nothing has changed, or it was too late, and it has happened."""
    stream = WORLDS[name]
    (transaction,) = stream.transactions
    kb, model = started(stream), Model(stream)
    before = model.state()
    for call in transaction:
        model.take(call)
    after = model.state()
    stopped = 0
    for number in range(1, 30):
        try:
            with stopping_at(number):
                commit(kb, transaction)
        except Interrupted:
            stopped += 1
            assert state_of(kb) == before
        else:
            assert state_of(kb) == after
            kb = started(stream)
    assert stopped
    commit(kb, transaction)
    assert state_of(kb) == after


def test_an_error_of_evaluation() -> None:
    declarations = ".decl a(x: number)\n.decl b(x: number)\n.decl c(x: number)\n"
    clauses = ("b(x) :- a(x), x >= 0.", "c(10 / x) :- b(x).")
    kb = started(Stream(declarations, clauses, {"a": [(5,), (2,)]}, ()))
    for _ in range(2):
        with pytest.raises(ge.GpuEngineError, match="zero"), kb.update() as u:
            u.insert("a", [(0,), (1,)])
            u.delete("a", [(2,)])
        assert state_of(kb) == {"a": {(5,), (2,)}, "b": {(5,), (2,)}, "c": {(2,), (5,)}}
    commit(kb, [insert("a", (1,)), delete("a", (2,))])
    assert state_of(kb) == {"a": {(5,), (1,)}, "b": {(5,), (1,)}, "c": {(2,), (10,)}}
    assert is_maintained(kb)


def test_a_failure_on_the_way_to_the_first_maintenance() -> None:
    """Also what maintenance sets up may fail, and is set up anew."""
    stream = WORLDS["closures"]
    for number in (1, 2, 3):
        kb, model = started(stream), Model(stream)
        with failing_at(number, [(StratumMaintenance, "__init__")], MemoryError), pytest.raises(MemoryError):
            commit(kb, stream.transactions[0])
        assert state_of(kb) == model.state()
        commit(kb, stream.transactions[0])
        for call in stream.transactions[0]:
            model.take(call)
        assert state_of(kb) == model.state()


@pytest.mark.parametrize("points", ["rules", "tables"])
def test_computing_anew_fails_everywhere(points: str) -> None:
    """A limit has everything computed anew; also what is said of the facts stated for p may fail."""
    stream = Stream(
        declared("e", "p", "q") + ".limitsize p(n=100000)\n",
        ("p(x, y) :- e(x, y).", "p(x, z) :- p(x, y), e(y, z).", "q(x, y) :- e(x, y), !p(y, x)."),
        {"e": GRAPH, "p": [(7, 7), (8, 8)]},
        ((*BOTH_WAYS, delete("p", (7, 7)), insert("p", (9, 9))),),
    )
    assert fail_everywhere(stream, POINTS[points], MemoryError) > 3


def test_computing_anew_fails() -> None:
    stream = WORLDS["tables"]
    kb, model = started(stream), Model(stream)
    before, stated = state_of(kb), facts_of(kb)
    many = tuple((i, i + 1) for i in range(100, 1300))
    for number in (1, 3):
        with failing_at(number, POINTS["rules"], MemoryError), pytest.raises(MemoryError):
            commit(kb, [insert("e", *many), delete("e", (1, 2))])
        assert state_of(kb) == before and facts_of(kb) == stated
    few = [insert("e", (5, 6)), delete("e", (1, 2))]
    commit(kb, few)
    for call in few:
        model.take(call)
    assert state_of(kb) == model.state()
