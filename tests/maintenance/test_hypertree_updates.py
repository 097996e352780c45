"""Rules over the nodes of hypertrees are kept true under updates, and so are the nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.errors import Interrupted
from tests.cyclic_programs import MODES, PIPELINES, Mode, cyclic_programs, hypertrees
from tests.differential.compare import shown_facts
from tests.maintenance.node_invariant import assert_nodes, begun, follow, nodes_of
from tests.maintenance.streams import (
    Call,
    Model,
    Stream,
    commit,
    fact_streams,
    is_maintained,
    rule_streams,
    started,
    state_of,
)
from tests.maintenance.test_update_failures import POINTS, failing_at

EVALUATORS = st.sampled_from([{"*": "hypertree"}, {"*": "hypertree"}, {"*": "auto"}])
PROGRAMS = cyclic_programs()


@st.composite
def evaluated(draw: st.DrawFn, streams: st.SearchStrategy[Stream]) -> Stream:
    """A stream for an engine that evaluates over hypertrees."""
    stream = draw(streams)
    return replace(stream, options={**stream.options, "evaluators": draw(EVALUATORS)})


def assert_follows(stream: Stream, mode: Mode) -> None:
    with hypertrees(mode):
        start = begun(stream)
        if start is not None:
            follow(*start, stream)


@settings(max_examples=35)
@given(evaluated(fact_streams(PROGRAMS)), st.sampled_from(MODES))
def test_facts_come_and_go(stream: Stream, mode: Mode) -> None:
    assert_follows(stream, mode)


@settings(max_examples=40)
@given(evaluated(rule_streams(PROGRAMS)), st.sampled_from(MODES))
def test_rules_come_and_go(stream: Stream, mode: Mode) -> None:
    assert_follows(stream, mode)


@settings(max_examples=20)
@given(evaluated(rule_streams(PROGRAMS)), st.integers(0, 2), st.sampled_from(MODES))
def test_saved_opened_and_updated_again(stream: Stream, before: int, mode: Mode) -> None:
    first = replace(stream, transactions=stream.transactions[:before])
    second = replace(stream, transactions=stream.transactions[before:])
    with hypertrees(mode), TemporaryDirectory() as directory:
        start = begun(first)
        if start is None or not follow(*start, first):
            return
        kb, model = start
        kb.save(Path(directory) / "kb")
        with ge.open(Path(directory) / "kb") as opened:
            known = model.derived()
            assert known is not None and state_of(opened) == shown_facts(known)
            assert_nodes(opened, known)
            follow(opened, model, second)


# -- found ones --------------------------------------------------------------------------------------

PAIRS = "".join(f".decl {name}(x: number, y: number)\n" for name in "efgpq")
CHAIN = tuple((i, i + 1) for i in range(12))
THROUGH_BOTH = "p(x, y) :- e(x, u), p(u, y), f(x, v), p(v, y)."
CYCLES = Stream(
    PAIRS,
    (THROUGH_BOTH, "q(x, y) :- e(x, u), f(u, y), e(x, v), g(v, y), !p(y, x)."),
    {"e": CHAIN, "f": CHAIN, "g": CHAIN, "p": [(12, j) for j in range(5)]},
    (),
    {"evaluators": {"*": "hypertree"}},
)


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("mode", [PIPELINES, Mode(True, 1)], ids=str)
def test_a_node_passes_from_one_rule_to_another(mode: Mode, counting: bool) -> None:
    """A rule goes and another comes that has a node of the first, which meanwhile has lost facts."""
    removed = Call("remove_rules", rules=THROUGH_BOTH)
    for rule in (
        "p(x, y) :- e(x, u), p(u, y), f(x, v), p(v, y), x > 1.",
        "p(x, y) :- e(x, u), p(u, y), f(x, v), p(v, y), y > 3.",
        "q(x, y) :- e(x, u), p(u, y), f(x, v), p(v, y).",
    ):
        transactions = (
            (Call("insert", "p", ((2, 8),)),),
            (removed, Call("add_rules", rules=rule)),
            (Call("delete", "e", ((11, 12),)), Call("insert", "f", ((0, 3),))),
            (Call("remove_rules", rules=rule), Call("add_rules", rules=THROUGH_BOTH)),
        )
        options = {**CYCLES.options, "counting": counting}
        stream = replace(CYCLES, clauses=(THROUGH_BOTH,), transactions=transactions, options=options)
        assert_follows(stream, mode)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_heads_of_one_body_that_grow_what_it_reads(mode: Mode) -> None:
    """The first head makes room in p; the second must not go on with what the first has read."""
    stream = Stream(
        PAIRS + ".decl t(x: number, y: number, z: number)\n",
        (
            "p(1, c), p(b, 1) :- p(a, b), f(b, c), f(a, d), t(d, _, _), p(d, 2), p(a, d), t(c, c, a).",
            "q(a, b) :- e(a, b).",
            "q(a, b) :- q(a, x), q(x, b).",
        ),
        {
            "e": [(0, 1), (0, 2), (0, 0), (1, 2), (2, 2), (2, 0), (2, 1)],
            "f": [(0, 0), (0, 2), (1, 1), (2, 2), (0, 1), (2, 0), (2, 1)],
            "t": [(0, 1, 0), (2, 2, 2), (1, 1, 2), (1, 0, 1), (2, 0, 1), (1, 2, 0), (0, 2, 1), (0, 0, 2)],
            "p": [(2, 0), (2, 1), (2, 2), (1, 2), (1, 0), (0, 2), (0, 1), (0, 0)],
        },
        ((Call("add_rules", rules="p(b, b), p(b, 1) :- f(b, a), p(c, b), q(a, c)."),),),
        CYCLES.options,
    )
    assert_follows(stream, mode)


# -- failures ----------------------------------------------------------------------------------------

CHANGE = (
    Call("delete", "e", ((3, 4), (9, 10))),
    Call("insert", "f", ((0, 4), (5, 5))),
    Call("insert", "p", ((7, 1),)),
)
OTHER_RULES = (
    *CHANGE,
    Call("remove_rules", rules=THROUGH_BOTH),
    Call("add_rules", rules="p(x, y) :- e(x, u), p(u, y), g(x, v), p(v, y), x < 9."),
)


@pytest.mark.parametrize("mode", [PIPELINES, Mode(True, 1)], ids=str)
@pytest.mark.parametrize("transaction", [CHANGE, OTHER_RULES], ids=["facts", "rules"])
@pytest.mark.parametrize(
    ("points", "error", "step"),
    [("rules", Interrupted, 1), ("tables", MemoryError, 5), ("strata", MemoryError, 1)],
)
def test_an_update_that_fails_leaves_the_nodes(
    points: str, error: type[BaseException], step: int, transaction: tuple[Call, ...], mode: Mode
) -> None:
    """At every so many calls, until it works; each time nothing has changed."""
    with hypertrees(mode):
        kb, model = started(CYCLES), Model(CYCLES)
        before = model.derived()
        assert before is not None and assert_nodes(kb, before) > 2
        shown = shown_facts(before)
        for call in transaction:
            model.take(call)
        after = model.derived()
        assert after is not None
        failures = fail_until_it_works(kb, transaction, (points, error, step), (before, shown))
        assert failures > 2
        assert state_of(kb) == shown_facts(after) and is_maintained(kb)
        assert_nodes(kb, after)
        assert nodes_of(kb)


def fail_until_it_works(
    kb: Any, transaction: tuple[Call, ...], how: tuple[str, type[BaseException], int], before: tuple[Any, Any]
) -> int:
    points, error, step = how
    for failures, number in enumerate(range(1, 100_000, step)):
        try:
            with failing_at(number, POINTS[points], error):
                commit(kb, transaction)
        except error:
            assert state_of(kb) == before[1], f"after failure {number}"
            assert_nodes(kb, before[0])
        else:
            return failures
    raise AssertionError("it never worked")


def test_the_programs_have_nodes_to_maintain() -> None:
    """What the tests above are about happens in them."""
    with hypertrees(PIPELINES):
        start = begun(CYCLES)
        assert start is not None
        kb, _ = start
        assert len(nodes_of(kb)) > 2 and all(len(table) for table in nodes_of(kb).values())
