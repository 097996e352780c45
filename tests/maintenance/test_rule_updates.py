"""Rules that come and go leave what the program they make would derive from the facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings

import gpuengine as ge
from tests.maintenance.streams import (
    ANY_CASE,
    NUMBERS,
    STRUCTURED,
    WIDE,
    Call,
    Stream,
    assert_follows,
    assert_is_difference,
    commit,
    facts_of,
    is_maintained,
    rule_streams,
    started,
    state_of,
)

Facts = Mapping[str, list[tuple[Any, ...]]]
GRAPH = [(1, 2), (2, 3), (3, 4), (4, 2), (5, 6)]


@settings(max_examples=60)
@given(rule_streams(STRUCTURED))
def test_structured_programs(stream: Stream) -> None:
    assert_follows(stream, maintained=False)


@settings(max_examples=40)
@given(rule_streams(NUMBERS))
def test_programs_over_numbers(stream: Stream) -> None:
    assert_follows(stream, maintained=False)


@settings(max_examples=40)
@given(rule_streams(ANY_CASE))
def test_programs_over_all_types(stream: Stream) -> None:
    assert_follows(stream, maintained=False)


@settings(max_examples=20)
@given(rule_streams(WIDE))
def test_wide_programs(stream: Stream) -> None:
    assert_follows(stream, maintained=False)


# -- one way of changing rules after the other, against a fresh engine of the final text ---------------


def add(rules: str) -> Call:
    return Call("add_rules", rules=rules)


def remove(rules: str) -> Call:
    return Call("remove_rules", rules=rules)


def insert(relation: str, *rows: tuple[Any, ...]) -> Call:
    return Call("insert", relation, rows)


def delete(relation: str, *rows: tuple[Any, ...]) -> Call:
    return Call("delete", relation, rows)


def final_state(stream: Stream, facts: Facts) -> dict[str, Any]:
    """What a fresh engine derives from the clauses that are left; the facts are given."""
    clauses = list(stream.clauses)
    for call in (call for transaction in stream.transactions for call in transaction):
        if call.kind == "add_rules":
            clauses += call.rules.splitlines()
        elif call.kind == "remove_rules":
            clauses = [clause for clause in clauses if clause not in call.rules.splitlines()]
    rules = [clause for clause in clauses if ":-" in clause or clause.startswith(".")]
    kb = ge.Engine("\n".join([stream.declarations, *rules]), threads=1)
    for name, rows in facts.items():
        kb.load(name, rows)
    return state_of(kb.materialise())


def check(
    declarations: str,
    clauses: str,
    facts: Facts,
    *transactions: Call | tuple[Call, ...],
    maintained: bool | None = None,
    **options: Any,
) -> Any:
    """Follow a stream, and compare what comes of it with a fresh engine; was the last step maintained?"""
    steps = tuple(one if isinstance(one, tuple) else (one,) for one in transactions)
    stream = Stream(declarations, tuple(clauses.strip().splitlines()), facts, steps, options)
    if any(call.rules.lstrip().startswith(".") for step in steps for call in step):
        kb = started(stream)  # the model has only what is declared from the beginning
        for step in steps:
            before = state_of(kb)
            change = commit(kb, step)
            assert_is_difference(change, before, state_of(kb))
    else:
        kb = assert_follows(stream, maintained=False)
    stated = {name: sorted(rows) for name, rows in facts_of(kb).items()}
    assert state_of(kb) == final_state(stream, stated)
    assert maintained is None or is_maintained(kb) == maintained
    return kb


E2P = ".decl edge(x: number, y: number)\n.decl path(x: number, y: number)\n"
OVER = ".decl edge(x: number, y: number)\n.decl path(x: number, y: number)\n.decl far(x: number, y: number)\n"
BASE, STEP = "path(x, y) :- edge(x, y).", "path(x, z) :- path(x, y), edge(y, z)."
TRANSITIVE = "path(x, z) :- path(x, y), path(y, z)."
FAR = "far(x, y) :- edge(x, _), edge(_, y), !path(x, y)."
STORED = pytest.mark.parametrize("schemes", [None, {"*": "table"}, {"*": "closure"}])
MODULES = pytest.mark.parametrize("modules", [True, False])


@STORED
@MODULES
@pytest.mark.parametrize("recursive", [STEP, TRANSITIVE])
def test_recursion_vanishes_and_appears(
    recursive: str, schemes: dict[str, str] | None, modules: bool
) -> None:
    check(
        OVER,
        f"{BASE}\n{recursive}\n{FAR}",
        {"edge": GRAPH},
        remove(recursive),
        (insert("edge", (6, 1)), add(recursive)),
        (delete("edge", (3, 4), (9, 9)), remove(BASE)),
        (add(BASE), remove(recursive)),
        schemes=schemes,
        modules=modules,
    )


def test_a_rule_is_maintained_where_schemes_stay() -> None:
    check(OVER, f"{BASE}\n{STEP}\n{FAR}", {"edge": GRAPH}, remove(STEP), add(STEP), maintained=True)
    closed = check(
        OVER,
        f"{BASE}\n{TRANSITIVE}",
        {"edge": GRAPH},
        add(FAR),
        (remove(FAR), insert("edge", (7, 8))),
        add(FAR),
        maintained=True,
        schemes={"path": "closure"},
    )
    assert closed.storage["path"].scheme == "closure"


@pytest.mark.parametrize("name", ["path", "*"])
def test_transitivity_of_a_closure_is_removed(name: str) -> None:
    """What was asked for by name can no longer be had; what was asked for where possible gives way."""
    kb = started(Stream(E2P, (BASE, TRANSITIVE), {"edge": GRAPH}, (), {"schemes": {name: "closure"}}))
    before = state_of(kb)
    if name == "path":
        with pytest.raises(ge.GpuEngineError, match="can't be stored as closure"):
            commit(kb, [remove(TRANSITIVE), insert("edge", (8, 9))])
        assert state_of(kb) == before
        commit(kb, [insert("edge", (2, 5))])
        assert (1, 6) in kb["path"]
    else:
        assert_is_difference(commit(kb, [remove(TRANSITIVE)]), before, state_of(kb))
        assert set(kb["path"]) == set(GRAPH)
        commit(kb, [add(TRANSITIVE)])
        assert state_of(kb) == before


@MODULES
def test_the_last_rule_of_a_relation_is_removed(modules: bool) -> None:
    """Also if a relation above is derived from it, if facts of it are stated, and if it gets rules again."""
    check(
        OVER,
        f"{BASE}\n{FAR}",
        {"edge": GRAPH, "path": [(1, 2), (9, 9)]},
        remove(BASE),
        insert("path", (2, 3)),
        (delete("path", (9, 9)), add(BASE)),
        remove(FAR),
        maintained=True,
        modules=modules,
    )


def test_the_last_rule_is_removed_of_relations_in_a_chain() -> None:
    declarations = "".join(f".decl {name}(x: number)\n" for name in "abcd")
    check(
        declarations,
        "b(x) :- a(x), x > 0.\nc(x) :- b(x), x > 0.\nd(x) :- a(x), !c(x).",
        {"a": [(1,), (2,)], "c": [(2,), (3,)]},
        remove("b(x) :- a(x), x > 0.\nc(x) :- b(x), x > 0."),
        (add("b(x) :- c(x), x > 0."), remove("d(x) :- a(x), !c(x).")),
        (add("c(x) :- a(x), x < 2."), insert("a", (0,))),
        maintained=True,
    )


@STORED
def test_rules_that_change_strata(schemes: dict[str, str] | None) -> None:
    """Two strata become one, and the other way round; the order of two of them turns round."""
    declarations = "".join(f".decl {name}(x: number, y: number)\n" for name in "eabcd")
    clauses = "a(x, y) :- e(x, y).\nb(x, z) :- a(x, y), e(y, z).\nc(x, y) :- e(x, y), !b(x, y)."
    check(
        declarations,
        clauses,
        {"e": GRAPH},
        add("a(x, y) :- b(y, x), e(x, _)."),
        (insert("e", (2, 1), (6, 5)), add("d(x, y) :- c(x, y), !a(y, x).")),
        delete("e", (4, 2)),
        (remove("a(x, y) :- b(y, x), e(x, _)."), remove("c(x, y) :- e(x, y), !b(x, y).")),
        (
            remove("b(x, z) :- a(x, y), e(y, z)."),
            add("a(x, y) :- b(x, y), x < y.\nb(x, y) :- e(y, x), x < 9."),
        ),
        (add("b(x, y) :- e(x, y), !c(x, y)."), insert("c", (1, 2))),
        maintained=True if schemes == {"*": "table"} else None,
        schemes=schemes,
    )


def test_negation_comes_and_goes() -> None:
    declarations = ".decl a(x: number)\n.decl b(x: number, y: number)\n.decl c(x: number)\n"
    first, second = "c(x) :- a(x), !b(x, _).", "c(x) :- a(x), !b(_, x), !b(x, x)."
    check(
        declarations,
        first,
        {"a": [(1,), (2,), (3,)], "b": [(1, 2), (3, 3)]},
        (remove(first), add(second)),
        (delete("b", (1, 2)), add(first)),
        (insert("b", (2, 2)), remove(second)),
        (delete("b", (2, 2), (3, 3)), add("b(x, x + 1) :- a(x), x > 1."), insert("a", (0,))),
        maintained=True,
    )


def test_new_relations_are_declared() -> None:
    """With facts, types and rules; what is declared stays."""
    kb = check(
        E2P,
        f"{BASE}\n{STEP}",
        {"edge": GRAPH},
        add(".decl loop(x: number)\nloop(x) :- path(x, x).\nloop(77)."),
        (insert("loop", (5,)), delete("edge", (4, 2))),
        add(
            ".type Name <: symbol\n.decl named(x: number, n: Name)\n"
            'named(x, cat("n", to_string(x))) :- loop(x).'
        ),
        (remove("loop(77)."), insert("edge", (6, 5))),
        (add(".decl total(s: number)\ntotal(s) :- s = sum x : { loop(x) }."), insert("loop", (100,))),
        remove("loop(x) :- path(x, x)."),
        maintained=True,
    )
    assert set(kb["total"]) == {(105,)}
    assert set(kb["named"]) == {(5, "n5"), (100, "n100")}


UNION = "".join(f".decl {name}(x: number, y: number)\n" for name in "abcuv")


@pytest.mark.parametrize("schemes", [None, {"*": "table"}, {"*": "union"}, {"u": "union"}])
def test_copies_of_a_union(schemes: dict[str, str] | None) -> None:
    check(
        UNION,
        "u(x, y) :- a(x, y).\nu(y, x) :- b(x, y).\nv(x, y) :- a(x, y), !u(y, x).",
        {"a": [(1, 2), (2, 2), (3, 4)], "b": [(2, 1), (4, 3)], "c": [(7, 7)], "u": [(5, 5)]},
        add("u(x, y) :- c(x, y)."),
        (delete("a", (1, 2)), remove("u(y, x) :- b(x, y).")),
        (insert("c", (4, 3)), add("u(y, x) :- b(x, y).")),
        (add("u(x, y) :- c(y, x), x < y."), insert("c", (9, 8))),
        (remove("u(x, y) :- c(x, y)."), add("c(x, y) :- u(x, z), u(z, y).")),
        (delete("u", (5, 5)), delete("b", (2, 1))),
        schemes=schemes,
    )


@pytest.mark.parametrize("schemes", [None, {"*": "table"}])
def test_an_equivalence(schemes: dict[str, str] | None) -> None:
    declarations = (
        ".decl e(x: number, y: number)\n.decl same(x: number, y: number) eqrel\n"
        ".decl rep(x: number, r: number)\n.decl alone(x: number)\n"
    )
    check(
        declarations,
        "same(x, y) :- e(x, y).",
        {"e": [(1, 2), (3, 4), (5, 5)]},
        add("rep(x, r) :- same(x, _), r = min y : { same(x, y) }."),
        (insert("e", (2, 3)), add("alone(x) :- e(x, _), 1 = count : { same(x, _) }.")),
        (remove("same(x, y) :- e(x, y)."), add("same(x, y) :- e(x, y), x < 3.")),
        delete("e", (1, 2)),
        (add("same(x, x + 1) :- same(x, 3), x < 5.\nsame(x, y) :- e(x, y)."), insert("same", (8, 9))),
        (delete("e", (2, 3)), remove("same(x, x + 1) :- same(x, 3), x < 5.")),
        schemes=schemes,
    )


PAIR = "".join(f".decl {name}(x: number, y: number)\n" for name in ("e", "up", "down", "sib"))
INVERSE, BACK = "down(y, x) :- up(x, y).", "up(y, x) :- down(x, y)."


@STORED
def test_aliases_are_broken_up_and_made(schemes: dict[str, str] | None) -> None:
    """Facts stated for an alias stay with it, whatever it is stored as."""
    check(
        PAIR,
        f"up(x, y) :- e(x, y).\n{INVERSE}\n{BACK}\nsib(x, y) :- up(x, z), down(z, y), x != y.",
        {"e": [(1, 2), (3, 2)], "down": [(2, 8), (9, 1)]},
        insert("down", (2, 3), (7, 7)),
        remove(BACK),
        (delete("down", (2, 8)), insert("up", (9, 2))),
        (add(BACK), delete("e", (1, 2))),
        (delete("up", (9, 2)), remove(INVERSE)),
        (add(INVERSE), add("up(x, z) :- up(x, y), up(y, z)."), insert("down", (1, 9))),
        schemes=schemes,
    )


def test_aggregates_come_and_go() -> None:
    """Several in a rule, nested, of other arity than the one before, with outer variables bound elsewhere."""
    declarations = (
        ".decl a(x: number, y: number)\n.decl b(x: number)\n.decl r(x: number, n: number)\n"
        ".decl s(x: number, n: number, m: number)\n"
    )
    counted = "r(x, n) :- b(x), n = count : { a(x, _) }."
    total = "r(0, n) :- n = sum y : { a(_, y) }."
    two = "s(x, n, m) :- b(x), n = count : { a(x, _), a(_, x) }, m = max y : { a(x, y), y > x }."
    nested = "s(x, n, 0) :- b(x), n = count : { b(y), y <= x, 1 <= count : { a(y, z), z >= x } }."
    outer = "r(x, n) :- b(x), b(m), n = sum y : { a(_, y), y < x + m }."
    check(
        declarations,
        counted,
        {"a": [(1, 2), (1, 3), (2, 1), (3, 3)], "b": [(1,), (2,), (4,)]},
        (remove(counted), add(two)),
        (add(total), delete("a", (2, 1))),
        (remove(two), add(nested), insert("a", (4, 9), (2, 2))),
        (add(outer), insert("b", (3,))),
        (remove(nested), add(counted), delete("b", (1,), (4,))),
        (remove(outer), remove(total), add(two), delete("a", (1, 2), (1, 3))),
        maintained=True,
    )


def test_facts_among_rules() -> None:
    """They are stated facts; one that is removed may be stated otherwise in the same transaction."""
    kb = check(
        E2P,
        f"{BASE}\n{STEP}\nedge(1, 2).\nedge(2, 3).\npath(7, 7).",
        {"edge": [(2, 3), (3, 4)]},
        add("edge(4, 1). edge(3, 4)."),
        remove("edge(2, 3). path(7, 7). edge(99, 99)."),
        (remove("edge(3, 4)."), insert("edge", (3, 4))),
        (add("edge(8, 9)."), delete("edge", (8, 9))),
        (delete("edge", (1, 2)), add("edge(1, 2).\npath(x, x) :- edge(x, _).")),
        (remove("edge(1, 2)."), add("edge(1, 2).")),
        maintained=True,
    )
    assert set(facts_of(kb)["edge"]) == {(1, 2), (3, 4), (4, 1)}


def test_a_fact_of_the_program_is_deleted_and_the_program_edited() -> None:
    """What was deleted stays so, though the text still has it."""
    kb = started(Stream(E2P, (BASE, "edge(1, 2)."), {}, (), {}))
    commit(kb, [delete("edge", (1, 2))])
    commit(kb, [add(STEP)])
    assert not set(kb["edge"]) and not set(kb["path"])
    commit(kb, [add("edge(1, 2).")])
    assert set(kb["path"]) == {(1, 2)}
    commit(kb, [delete("edge", (1, 2)), add("path(x, x) :- edge(_, x).")])
    kb.materialise()
    assert not set(kb["path"])


def test_inlined_relations() -> None:
    declarations = (
        ".decl e(x: number, y: number)\n.decl small(x: number) inline\n.decl p(x: number, y: number)\n"
    )
    kb = ge.Engine(f"{declarations}small(x) :- x < 3.\np(x, y) :- e(x, y), small(x).\n", threads=1)
    kb.load("e", [(1, 1), (2, 4), (3, 3), (5, 5)])
    kb.materialise()
    with kb.update() as u:
        u.add_rules("small(x) :- x = 5.")
    assert set(kb["p"]) == {(1, 1), (2, 4), (5, 5)}
    assert set(u.change["p"].inserted) == {(5, 5)} and not u.change["p"].deleted
    with kb.update() as u:
        u.remove_rules("small(z) :- z < 3.")
        u.insert("e", [(5, 6)])
    assert set(kb["p"]) == {(5, 5), (5, 6)}
    assert set(u.change["p"].deleted) == {(1, 1), (2, 4)}
    assert is_maintained(kb)


def test_several_heads_arithmetic_and_symbols() -> None:
    declarations = (
        ".decl e(x: number, n: symbol)\n.decl a(x: number)\n.decl b(n: symbol, k: number)\n"
        ".type Box = [n: symbol, x: number]\n.decl boxed(b: Box)\n.decl f(z: float)\n"
    )
    both = "a(x * 2 + 1), b(cat(n, n), strlen(n)) :- e(x, n), x % 2 = 0."
    check(
        declarations,
        f"{both}\nboxed([n, x]) :- e(x, n).\nf(to_float(x) / 2.0) :- a(x).",
        {"e": [(0, "a"), (1, "bc"), (2, "a")]},
        (remove("b(cat(n, n), strlen(n)) :- e(x, n), x % 2 = 0."), insert("e", (4, "new"))),
        (add("b(m, x) :- boxed([m, x]), x > 0."), delete("e", (0, "a"), (2, "unheard of"))),
        (add(both), remove("boxed([n, x]) :- e(x, n).")),
        (remove("b(m, x) :- boxed([m, x]), x > 0."), add('boxed(b) :- b = ["q", 1].'), insert("e", (6, ""))),
        maintained=True,
    )


def test_a_rule_is_there_once_however_often_it_is_written() -> None:
    check(
        E2P,
        f"{BASE}\n{BASE}",
        {"edge": GRAPH},
        add(BASE),
        (insert("edge", (7, 8)), add(STEP)),
        delete("edge", (2, 3)),
        remove(BASE),
    )


def test_bad_rules_change_nothing() -> None:
    kb = started(Stream(E2P, (BASE, STEP), {"edge": GRAPH}, (), {}))
    before, text = state_of(kb), kb.prepared.text
    for kind, rules in (
        ("add_rules", "path(x, y) :- edge(x, y"),
        ("add_rules", "path(x, y) :- nowhere(x, y)."),
        ("add_rules", "path(x, y) :- edge(x, _)."),
        ("add_rules", 'path(x, "a") :- edge(x, _).'),
        ("add_rules", "path(x, y) :- edge(x, y), !path(y, x)."),
        ("add_rules", ".decl edge(x: number)"),
        ("remove_rules", "path(x, y) :- edge(y, x)."),
        ("remove_rules", ".decl edge(x: number, y: number)"),
    ):
        with pytest.raises(ge.GpuEngineError), kb.update() as u:
            u.insert("edge", [(50, 51)])
            getattr(u, kind)(rules)
        assert state_of(kb) == before, rules
        assert kb.prepared.text is text
    commit(kb, [insert("edge", (6, 7)), remove(STEP)])
    assert set(kb["path"]) == {*GRAPH, (6, 7)}


def test_one_bad_edit_does_not_spoil_the_others() -> None:
    """What was caught inside the block is as if it had not been asked for."""
    kb = started(Stream(E2P, (BASE,), {"edge": GRAPH}, (), {}))
    with kb.update() as u:
        u.add_rules(STEP)
        with pytest.raises(ge.GpuEngineError):
            u.add_rules("path(x, y) :- nowhere(x, y).")
        with pytest.raises(ge.GpuEngineError):
            u.remove_rules("path(x, y) :- edge(y, x).")
        u.insert("edge", [(6, 7)])
    assert (5, 7) in kb["path"] and (1, 3) in kb["path"]


def test_rules_change_where_only_some_relations_are_wanted() -> None:
    """What no wanted relation needed was left out, and is needed by new rules."""
    declarations = "".join(f".decl {name}(x: number)\n" for name in "abcd")
    kb = ge.Engine(f"{declarations}b(x) :- a(x), x > 1.\nc(x + 1) :- b(x).\n", threads=1)
    kb.load("a", [(1,), (2,), (3,)])
    kb.materialise(wanted=["c"])
    with kb.update() as u:
        u.remove_rules("c(x + 1) :- b(x).")
    with kb.update() as u:
        u.insert("a", [(9,)])
        u.delete("a", [(2,)])
    with kb.update() as u:
        u.add_rules("c(x + 1) :- b(x).")
    assert set(kb["c"]) == {(4,), (10,)}
    assert set(u.change["c"].inserted) == {(4,), (10,)}


def test_a_long_rule_on_one_line() -> None:
    kb = started(Stream(E2P, (BASE,), {"edge": GRAPH}, (), {}))
    with kb.update() as u:
        u.add_rules(f"path(x, y) :- {', '.join(['edge(x, y)'] * 40)}, x != y.")
    assert set(kb["path"]) == set(GRAPH)
