"""Transactions: what calls in a block come to, what may be asked when, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.maintenance.change import RelationChange
from gpuengine.planning import scheme_costs
from tests.maintenance.streams import (
    ANY_CASE,
    STRUCTURED,
    Call,
    Model,
    Stream,
    assert_follows,
    assert_is_difference,
    commit,
    fact_streams,
    facts_of,
    is_maintained,
    rule_streams,
    started,
    state_of,
)

PROGRAM = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl lonely(x: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).
lonely(x) :- edge(x, _), !path(_, x).
"""
EDGES = [(1, 2), (2, 3), (3, 4), (7, 7)]


def engine(edges: Iterable[tuple[int, int]] = EDGES, **options: Any) -> Any:
    kb = ge.Engine(PROGRAM, threads=1, **options)
    kb.load("edge", list(edges))
    return kb.materialise()


def closure(edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    found = set(edges)
    while more := {(x, z) for x, y in found for y2, z in edges if y == y2} - found:
        found |= more
    return found


# -- how calls are grouped ---------------------------------------------------------------------------


def regrouped(draw: st.DrawFn, stream: Stream) -> Stream:
    """The same calls, in their order, in other transactions."""
    model = Model(stream)
    calls = [call for transaction in stream.transactions for call in transaction]
    possible = []
    for call in calls:
        if call.kind != "remove_rules" or model.has(call.rules):
            model.take(call)
            possible.append(call)
    groups: list[list[Call]] = [[]]
    for call in possible:
        if draw(st.booleans()):
            groups.append([])
        groups[-1].append(call)
    return replace(stream, transactions=tuple(map(tuple, groups)))


@st.composite
def two_groupings(draw: st.DrawFn, streams: st.SearchStrategy[Stream]) -> tuple[Stream, Stream]:
    stream = draw(streams)
    return regrouped(draw, stream), regrouped(draw, stream)


@settings(max_examples=40)
@given(two_groupings(st.one_of(fact_streams(STRUCTURED), rule_streams(STRUCTURED), rule_streams(ANY_CASE))))
def test_the_same_calls_in_other_transactions(pair: tuple[Stream, Stream]) -> None:
    one, other = (assert_follows(stream, maintained=False) for stream in pair)
    if one is not None and other is not None:
        assert state_of(one) == state_of(other)
        assert facts_of(one) == facts_of(other)


def test_later_calls_win() -> None:
    kb = engine()
    with kb.update() as u:
        u.insert("edge", [(4, 5), (5, 6), (5, 6)])
        u.delete("edge", [(5, 6), (1, 2), (1, 2)])
        u.insert("edge", [(1, 2)])
        u.delete("edge", [(4, 5), (2, 3)])
        u.insert("edge", [(4, 5)])
    edges = {(1, 2), (3, 4), (4, 5), (7, 7)}
    assert set(kb["edge"]) == edges and set(kb["path"]) == closure(edges)
    assert set(u.change["edge"].inserted) == {(4, 5)} and set(u.change["edge"].deleted) == {(2, 3)}
    assert is_maintained(kb)


def test_what_changes_nothing() -> None:
    kb = engine()
    before = state_of(kb)
    for calls in (
        [],
        [Call("insert", "edge", ((1, 2), (7, 7)))],
        [Call("delete", "edge", ((8, 8), (2**60, 1)))],
        [Call("insert", "edge", ((9, 9),)), Call("delete", "edge", ((9, 9),))],
        [Call("delete", "edge", ((1, 2),)), Call("insert", "edge", ((1, 2),))],
        [Call("delete", "path", ((1, 2), (1, 3)))],
        [Call("insert", "edge", ())],
        [Call("delete", "edge", ())],
        [Call("add_rules", rules="path(a, b) :- edge(a, b).")],
    ):
        change = commit(kb, calls)
        assert state_of(kb) == before
        assert not change and list(change) == [] and len(change) == 0
        assert not change["path"] and len(change["edge"]) == 0
        assert repr(change) == "<change: nothing>"


def test_stated_and_derived() -> None:
    """A fact that is both goes with the last of its reasons."""
    kb = engine()
    change = commit(kb, [Call("insert", "path", ((1, 2), (4, 1), (1, 3)))])
    assert set(change["path"].inserted) == {(4, 1), (4, 2), (4, 3), (4, 4)}
    change = commit(kb, [Call("delete", "edge", ((1, 2),))])
    assert {(1, 2), (1, 3), (1, 4), (4, 1)} <= set(kb["path"])
    assert set(change["path"].deleted) == {(4, 2), (4, 3), (4, 4)}
    change = commit(kb, [Call("delete", "path", ((1, 2), (4, 1)))])
    assert set(change["path"].deleted) == {(1, 2), (4, 1)}
    assert {(1, 3), (1, 4)} <= set(kb["path"])
    change = commit(kb, [Call("delete", "path", ((1, 3),)), Call("insert", "edge", ((1, 3),))])
    assert not change["path"]
    kb.materialise()
    assert set(kb["path"]) == closure({(1, 3), (2, 3), (3, 4), (7, 7)})


LINEAR = Stream(
    ".decl edge(x: number, y: number)\n.decl path(x: number, y: number)\n",
    ("path(x, y) :- edge(x, y).", "path(x, z) :- edge(x, y), path(y, z)."),
    {"edge": EDGES},
    (
        (Call("insert", "path", ((2, 9), (9, 1))),),
        (Call("delete", "edge", ((1, 2),)), Call("insert", "edge", ((0, 9),))),
        (Call("delete", "path", ((9, 1),)),),
        (Call("delete", "path", ((2, 9),)), Call("insert", "edge", ((4, 1),))),
    ),
)


@pytest.mark.parametrize("schemes", [None, {"path": "table"}])
def test_facts_stated_for_a_closure_by_linear_recursion(
    schemes: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With them it is no longer the closure of another relation, and stored otherwise."""
    monkeypatch.setattr(scheme_costs, "LEAST_PAIRS", 0)
    monkeypatch.setattr(scheme_costs, "LEAST_GROWTH", 0)
    stream = replace(LINEAR, options={"schemes": schemes})
    assert started(stream).storage["path"].scheme == ("closure" if schemes is None else "table")
    assert_follows(stream, maintained=False)


def test_facts_stated_for_what_must_be_a_closure_by_linear_recursion() -> None:
    """They are refused, as they are when they are loaded."""
    kb = started(replace(LINEAR, options={"schemes": {"path": "closure"}}))
    before, stated = state_of(kb), facts_of(kb)
    with pytest.raises(ge.GpuEngineError, match="can't be stored as closure"):
        commit(kb, LINEAR.transactions[0])
    assert state_of(kb) == before and facts_of(kb) == stated
    commit(kb, [Call("insert", "edge", ((4, 1),)), Call("delete", "path", ((4, 1),))])
    assert set(kb["path"]) == closure({*EDGES, (4, 1)})


def test_nullary_relations() -> None:
    program = """
    .decl on()
    .decl a(x: number)
    .decl any()
    .decl out(x: number)
    .decl off()
    """
    clauses = ("any() :- a(_).", "out(x) :- a(x), on().", "off() :- !on().", "out(0) :- !any().")
    transactions = (
        (Call("insert", "on", ((),)),),
        (Call("insert", "a", ((1,), (2,))),),
        (Call("delete", "on", ((),)), Call("insert", "on", ((),))),
        (Call("insert", "on", ((),)), Call("delete", "on", ((),))),
        (Call("insert", "any", ((),)), Call("delete", "a", ((1,),))),
        (Call("delete", "a", ((2,),)),),
        (Call("delete", "any", ((),)), Call("insert", "off", ((),))),
        (Call("insert", "on", ((),)),),
        (Call("delete", "off", ((),)), Call("insert", "a", ((5,),))),
    )
    kb = assert_follows(Stream(program, clauses, {}, transactions))
    change = commit(kb, [Call("delete", "on", ((),))])
    assert change["on"].to_arrow().to_pylist() == [{"weight": -1}]
    assert change["off"].to_arrow().to_pylist() == [{"weight": 1}]


# -- when ---------------------------------------------------------------------------------------------


def test_an_update_before_materialise() -> None:
    kb = ge.Engine(PROGRAM, threads=1)
    kb.load("edge", EDGES)
    change = commit(kb, [Call("insert", "edge", ((4, 5),)), Call("delete", "edge", ((1, 2),))])
    edges = {(2, 3), (3, 4), (4, 5), (7, 7)}
    assert set(kb["path"]) == closure(edges)
    assert_is_difference(change, {}, state_of(kb))
    commit(kb, [Call("delete", "edge", ((4, 5),))])
    assert is_maintained(kb)
    assert set(kb["path"]) == closure(edges - {(4, 5)})


def test_load_after_materialise_and_then_update() -> None:
    """What was loaded meanwhile comes with the update, and is told."""
    kb = engine()
    before = state_of(kb)
    kb.load("edge", [(4, 5), (5, 6)])
    kb.load("path", [(20, 21)])
    assert state_of(kb) == before
    change = commit(kb, [Call("delete", "edge", ((5, 6), (1, 2))), Call("insert", "edge", ((0, 1),))])
    assert set(kb["path"]) == closure({(0, 1), (2, 3), (3, 4), (4, 5), (7, 7)}) | {(20, 21)}
    assert_is_difference(change, before, state_of(kb))
    before = state_of(kb)
    change = commit(kb, [Call("delete", "path", ((20, 21),))])
    assert is_maintained(kb)
    assert_is_difference(change, before, state_of(kb))


def test_a_failed_update_after_load_leaves_what_was_loaded() -> None:
    kb = engine()
    kb.load("edge", [(4, 5)])
    before = state_of(kb)
    with pytest.raises(ge.GpuEngineError), kb.update() as u:
        u.insert("edge", [(5, 6)])
        u.insert("edge", [("no number", 1)])
    assert state_of(kb) == before
    kb.materialise()
    assert set(kb["edge"]) == {*EDGES, (4, 5)}


def test_views_and_materialise_between_updates() -> None:
    kb = engine()
    for extra in range(10, 14):
        commit(kb, [Call("insert", "edge", ((extra, 1),))])
        kb.materialise()
        commit(kb, [Call("delete", "edge", ((extra, 1),))])
    assert state_of(kb) == state_of(engine())


def test_only_wanted_relations() -> None:
    kb = ge.Engine(PROGRAM, threads=1)
    kb.load("edge", EDGES)
    kb.materialise(wanted=["path"])
    change = commit(kb, [Call("delete", "edge", ((1, 2),))])
    edges = {(2, 3), (3, 4), (7, 7)}
    assert set(kb["path"]) == closure(edges) and is_maintained(kb)
    assert set(change) == {"edge", "path"}
    with pytest.raises(ge.GpuEngineError, match="left out"):
        kb["lonely"]
    commit(kb, [Call("insert", "lonely", ((50,),))])
    kb.materialise()
    assert set(kb["lonely"]) == {(2,), (50,)}


def test_a_large_update_is_computed_anew() -> None:
    kb = engine()
    before = state_of(kb)
    many = tuple((100 + i, 100 + i) for i in range(1500))
    change = commit(kb, [Call("insert", "edge", many), Call("delete", "edge", ((1, 2),))])
    assert not is_maintained(kb)
    assert_is_difference(change, before, state_of(kb))
    before = state_of(kb)
    change = commit(kb, [Call("delete", "edge", many[:100])])
    assert is_maintained(kb)
    assert_is_difference(change, before, state_of(kb))
    assert set(kb["edge"]) == {(2, 3), (3, 4), (7, 7), *many[100:]}


def test_a_change_stays_what_it_is() -> None:
    """Also one that was computed anew and is first looked at when more has happened."""
    kb = engine()
    states, changes = [state_of(kb)], []
    many = tuple((100 + i, 101 + i) for i in range(0, 2400, 2))
    for calls in (
        [Call("insert", "edge", many)],
        [Call("delete", "edge", (many[3], (1, 2)))],
        [Call("delete", "edge", many), Call("insert", "edge", ((1, 2),))],
        [Call("add_rules", rules="lonely(x) :- path(x, x).")],
        [Call("delete", "edge", ((7, 7),))],
    ):
        changes.append(commit(kb, calls))
        states.append(state_of(kb))
    for number, change in enumerate(changes):
        assert_is_difference(change, states[number], states[number + 1])


def test_aliases_that_are_computed_anew() -> None:
    """Facts stated for two names of one relation in one large update."""
    program = """
    .decl up(x: number, y: number)
    .decl down(x: number, y: number)
    down(y, x) :- up(x, y).
    up(y, x) :- down(x, y).
    """
    kb = ge.Engine(program, threads=1).materialise()
    before = state_of(kb)
    ups, downs = [(i, i + 1) for i in range(600)], [(i, i) for i in range(600)]
    with kb.update() as u:
        u.insert("up", ups)
        u.insert("down", downs)
    assert set(kb["up"]) == {*ups, *downs}
    assert_is_difference(u.change, before, state_of(kb))


def test_a_relation_loses_its_rules_and_gains_facts_anew() -> None:
    program = ".decl a(x: number)\n.decl b(x: number)\n.decl c(x: number)\nc(x) :- a(x).\nc(x) :- b(x).\n"
    kb = ge.Engine(program, threads=1)
    kb.load("a", [(1,), (2,)])
    kb.materialise()
    before = state_of(kb)
    with kb.update() as u:
        u.remove_rules("c(x) :- a(x).\nc(x) :- b(x).")
        u.insert("c", [(2,), (3,)])
    assert set(kb["c"]) == {(2,), (3,)}
    assert_is_difference(u.change, before, state_of(kb))


# -- errors -------------------------------------------------------------------------------------------


def test_an_exception_in_the_block() -> None:
    kb = engine()
    before = state_of(kb)
    with pytest.raises(RuntimeError), kb.update() as u:
        u.insert("edge", [(8, 9)])
        u.delete("edge", [(1, 2)])
        u.add_rules("lonely(77).\nlonely(x) :- path(x, x).")
        raise RuntimeError
    assert state_of(kb) == before
    with pytest.raises(ge.GpuEngineError):
        u.change  # noqa: B018
    commit(kb, [Call("insert", "edge", ((4, 1),))])
    assert set(kb["path"]) == closure({*EDGES, (4, 1)})


@pytest.mark.parametrize(
    ("relation", "rows"),
    [
        ("edges", [(1, 2)]),
        ("edge", [(1,)]),
        ("edge", [(1, 2, 3)]),
        ("edge", [("a", 2)]),
        ("edge", [(None, 2)]),
        ("edge", [(2**63, 2)]),
        ("edge", "nowhere.csv"),
    ],
)
@pytest.mark.parametrize("kind", ["insert", "delete"])
def test_bad_facts(kind: str, relation: str, rows: Any) -> None:
    kb = engine()
    before, stated = state_of(kb), facts_of(kb)
    with pytest.raises(ge.GpuEngineError), kb.update() as u:
        u.insert("edge", [(8, 9)])
        getattr(u, kind)(relation, rows)
    assert state_of(kb) == before and facts_of(kb) == stated
    with kb.update() as u:
        u.insert("edge", [(8, 9)])
        with pytest.raises(ge.GpuEngineError):
            getattr(u, kind)(relation, rows)
    assert set(u.change["edge"].inserted) == {(8, 9)} and not u.change["edge"].deleted


def test_an_update_is_used_once_and_in_a_block() -> None:
    kb = engine()
    u = kb.update()
    for call in (
        lambda: u.insert("edge", [(8, 9)]),
        lambda: u.delete("edge", [(1, 2)]),
        lambda: u.add_rules("lonely(1)."),
        lambda: u.remove_rules("lonely(1)."),
    ):
        with pytest.raises(ge.GpuEngineError, match="with"):
            call()
    with pytest.raises(ge.GpuEngineError, match="ended"):
        u.change  # noqa: B018
    with u:
        u.insert("edge", [(8, 9)])
        with pytest.raises(ge.GpuEngineError, match="ended"):
            u.change  # noqa: B018
    with pytest.raises(ge.GpuEngineError, match="with"):
        u.insert("edge", [(9, 10)])
    with pytest.raises(ge.GpuEngineError, match="done"), u:
        pass
    assert set(kb["edge"]) == {*EDGES, (8, 9)}


def test_two_updates_at_a_time() -> None:
    """Each begins with what there is when it ends."""
    kb = engine()
    with kb.update() as outer:
        outer.insert("edge", [(4, 5)])
        outer.delete("edge", [(1, 2)])
        with kb.update() as inner:
            inner.insert("edge", [(0, 1)])
        assert (0, 4) in kb["path"]
    assert set(kb["path"]) == closure({(0, 1), (2, 3), (3, 4), (4, 5), (7, 7)})
    assert (0, 4) in outer.change["path"].deleted
    with kb.update() as outer:
        outer.add_rules("lonely(x) :- path(x, x).")
        with kb.update() as inner:
            inner.delete("edge", [(7, 7)])
    assert set(kb["lonely"]) == {(0,), (2,)}


def test_two_updates_of_rules_at_a_time() -> None:
    """The rules of one must not be lost to the other: it is refused, or both hold."""
    kb = engine()
    try:
        with kb.update() as outer:
            outer.add_rules("lonely(x + 100) :- edge(x, _).")
            with kb.update() as inner:
                inner.add_rules("lonely(x + 200) :- edge(x, _).")
    except ge.GpuEngineError:
        assert (201,) in kb["lonely"] and (101,) not in kb["lonely"]
    else:
        assert {(101,), (201,)} <= set(kb["lonely"])


# -- telling ------------------------------------------------------------------------------------------


def test_subscribers() -> None:
    kb = engine()
    heard: list[tuple[str, set[Any], set[Any]]] = []

    def listener(name: str) -> Any:
        def listen(change: RelationChange) -> None:
            assert set(change.inserted) <= set(kb[name])
            heard.append((name, set(change.inserted), set(change.deleted)))

        return listen

    end = kb.subscribe("lonely", listener("lonely"))
    kb.subscribe("path", listener("path"))
    commit(kb, [Call("insert", "edge", ((0, 1),))])
    assert sorted(heard) == [
        ("lonely", {(0,)}, {(1,)}),
        ("path", {(0, 1), (0, 2), (0, 3), (0, 4)}, set()),
    ]
    heard.clear()
    commit(kb, [Call("insert", "edge", ((0, 2),)), Call("delete", "edge", ((8, 8),))])
    assert not heard
    end()
    end()
    commit(kb, [Call("delete", "edge", ((0, 1),))])
    assert heard == [("path", set(), {(0, 1)})]
    with pytest.raises(ge.GpuEngineError):
        kb.subscribe("nothing", print)
    with pytest.raises(RuntimeError), kb.update() as u:
        u.insert("edge", [(30, 31)])
        raise RuntimeError
    assert len(heard) == 1


def test_a_subscriber_that_fails() -> None:
    """The update has happened all the same."""
    kb = engine()

    def fail(change: RelationChange) -> None:
        raise RuntimeError

    end = kb.subscribe("path", fail)
    with pytest.raises(RuntimeError):
        commit(kb, [Call("insert", "edge", ((4, 5),))])
    assert (1, 5) in kb["path"]
    end()
    commit(kb, [Call("insert", "edge", ((5, 6),))])
    assert (1, 6) in kb["path"]


def test_weights() -> None:
    kb = engine()
    change = commit(kb, [Call("delete", "edge", ((1, 2), (3, 4))), Call("insert", "edge", ((4, 7),))])
    table = change["edge"].to_arrow()
    assert table.schema == pa.schema([("x", pa.int64()), ("y", pa.int64()), ("weight", pa.int8())])
    rows = {(row["x"], row["y"]): row["weight"] for row in table.to_pylist()}
    assert rows == {(1, 2): -1, (3, 4): -1, (4, 7): 1}
    assert change["edge"].to_arrow(weight="w").column_names == ["x", "y", "w"]
    with pytest.raises(ge.GpuEngineError, match="weight="):
        change["edge"].to_arrow(weight="x")
    assert commit(kb, [])["edge"].to_arrow().num_rows == 0
    with pytest.raises(KeyError):
        change["nothing"]


def test_new_terms_are_no_trouble() -> None:
    """Ids beyond what tables admitted when they were made; terms that only the update knows."""
    program = ".decl e(x: symbol, y: number)\n.decl p(x: symbol, y: symbol)\n.decl q(y: number)\n"
    clauses = (
        "p(x, x) :- e(x, _).",
        "p(x, y) :- e(x, n), e(y, n).",
        "p(x, z) :- p(x, y), p(y, z).",
        "q(y * 3) :- e(_, y).",
    )
    transactions = tuple(
        (
            Call("insert", "e", ((f"s{i}", 10**i), (f"t{i}", 10 ** (i - 1)), ("s0", -(10**i)))),
            Call("delete", "e", ((f"s{i - 2}", 10 ** max(i - 2, 0)), ("unheard of", 5))),
        )
        for i in range(1, 14)
    )
    for schemes in (None, {"p": "closure"}, {"*": "table"}):
        assert_follows(Stream(program, clauses, {"e": [("a", 1)]}, transactions, {"schemes": schemes}))


def test_a_computed_head_beside_a_wildcard_is_counted() -> None:
    kb = ge.Engine(
        ".decl b(v: number, w: number)\n.decl q(v: number, w: number)\nq(v, v + 4) :- b(v, _).\n",
        counting=True,
    )
    kb.load("b", [(1, 1)])
    kb.materialise()
    with kb.update() as u:
        u.insert("b", [(2, 7), (2, 8)])
    assert set(kb["q"]) == {(1, 5), (2, 6)}
    with kb.update() as u:
        u.delete("b", [(2, 7)])
    assert set(kb["q"]) == {(1, 5), (2, 6)}


def test_a_failed_update_leaves_no_relation_behind() -> None:
    kb = ge.Engine(".decl e(x: number)\n", threads=1)
    kb.load("e", [(0,), (1,)])
    kb.materialise()
    with pytest.raises(ge.GpuEngineError, match="by zero"), kb.update() as u:
        u.add_rules(".decl foo(x: number)\nfoo(10 / x) :- e(x).\n")
    assert "foo" not in kb.relations and "foo" not in kb.loaded
    with kb.update() as u:
        u.add_rules(".decl foo(x: number, y: number)\nfoo(x, y) :- e(x), e(y).\n")
    assert len(kb["foo"]) == 4


def test_changes_that_are_read_late() -> None:
    """Each says what it did, whatever was loaded, computed anew and maintained since."""
    kb = ge.Engine(".decl a(x: number)\n.decl z(x: number)\n.decl b(x: number)\nb(x) :- a(x).\n", threads=1)
    kb.load("a", [(1,), (2,)])
    with kb.update() as first:
        pass
    kb.load("z", [(7,)])
    with kb.update() as second:
        pass
    with kb.update() as third:
        third.delete("a", [(2,)])
    assert set(first.change["a"].inserted) == set(first.change["b"].inserted) == {(1,), (2,)}
    assert set(second.change["z"].inserted) == {(7,)} and not second.change["b"]
    assert set(third.change["b"].deleted) == {(2,)}


def test_an_error_of_who_watches_stops_the_update() -> None:
    kb = ge.Engine(".decl a(x: number)\n.decl b(x: number)\nb(x) :- a(x).\n", threads=1)
    kb.load("a", [(1,)])
    kb.materialise()

    def watch(_: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"), kb.update(watch=watch) as u:
        u.insert("a", [(2,)])
    assert set(kb["a"]) == set(kb["b"])
    with kb.update() as u:
        u.insert("a", [(3,)])
    assert set(kb["a"]) == set(kb["b"]) and (3,) in kb["b"]


def test_subscribers_that_fail() -> None:
    """All are told, the change is known, and the update has happened."""
    kb = ge.Engine(".decl a(x: number)\n", threads=1)
    kb.materialise()
    told: list[int] = []

    def fail(_: object) -> None:
        raise RuntimeError("not me")

    kb.subscribe("a", fail)
    kb.subscribe("a", lambda change: told.append(len(change)))
    u = kb.update()
    with pytest.raises(RuntimeError, match="not me"), u:
        u.insert("a", [(2,)])
    assert told == [1] and len(u.change["a"]) == 1 and set(kb["a"]) == {(2,)}


def test_wanted_is_checked_and_kept_only_if_it_was_done() -> None:
    kb = ge.Engine(".decl a(x: number)\n.decl b(x: number)\nb(x) :- a(x).\n", threads=1)
    kb.load("a", [(1,)])
    kb.materialise()
    with pytest.raises(ge.GpuEngineError, match="did you mean 'b'"):
        kb.materialise(wanted=["bb"])
    with kb.update() as u:
        u.insert("a", [(2,)])
    assert set(kb["b"]) == {(1,), (2,)}
