"""Relations that do not keep all that is derived: min and max in heads, subsumption, choice-domain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.driver import stratum
from gpuengine.evaluation.rules import improving
from gpuengine.kernels.contract import Improve
from gpuengine.kernels.cpu import groups
from gpuengine.kernels.cpu.program import Program
from tests import oracle
from tests.differential.compare import oracle_facts, rows_of, shown_facts
from tests.differential.devices import emulated, on

Rows = list[tuple[Any, ...]]
EDGES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), max_size=8)
NODES = st.lists(st.tuples(st.integers(0, 3)), max_size=3)
DECLARED = """
.decl e(x: number, y: number, w: TYPE)
.decl n(x: number)
.decl p(x: number, y: number, w: TYPE)
.decl q(x: number, w: TYPE)
.decl r(x: number)
.decl s(x: number)
"""
SHORTEST = (
    "p(x, y, min w) :- e(x, y, w).",
    "p(x, z, min a + w) :- p(x, y, a), e(y, z, w).",
    "p(x, z, min a + b) :- p(x, y, a), p(y, z, b).",
    "p(x, z, min max(a, w)) :- p(x, y, a), e(y, z, w).",
    "p(y, x, min w) :- p(x, y, w).",
    "p(x, y, min d) :- n(x), n(y), e(x, _, a), d = a * 2.",
    "q(x, min a) :- p(x, _, a).",
    "p(x, y, min a) :- q(x, a), n(y).",
    "r(x) :- p(x, _, a), a < 3.",
    "p(x, y, min w) :- r(x), e(y, x, w).",
    "q(x, min a - 1) :- e(x, _, a).",
    "p(x, y, w) :- e(y, x, w), n(x).",
)
WIDEST = (
    "p(x, y, max w) :- e(x, y, w).",
    "p(x, z, max min(a, w)) :- p(x, y, a), e(y, z, w).",
    "p(x, z, max min(a, b)) :- p(x, y, a), p(y, z, b).",
    "q(x, max a) :- p(x, _, a).",
    "p(x, y, max a) :- q(x, a), n(y).",
    "r(x) :- p(x, _, a), 2 < a.",
    "p(x, y, max w) :- r(x), e(y, x, w).",
    "q(x, min -a) :- p(x, _, a).",
)


def _program(rules: list[str], kind: str) -> str:
    return DECLARED.replace("TYPE", kind) + "\n".join(rules)


def _as(kind: str, rows: Rows) -> Rows:
    make: Any = {"number": int, "unsigned": int, "float": float}[kind]
    return [(*row[:-1], make(row[-1])) for row in rows]


@contextmanager
def _held_back(released: int) -> Iterator[None]:
    """Have rounds see so few of the best values at least, and keys looked up by content now and then."""
    with (
        mock.patch.object(groups, "_RELEASED", released),
        mock.patch.object(groups, "_DIRECT_IDS", released),
        mock.patch.object(groups, "_DIRECT_SHARE", 1),
    ):
        yield


@contextmanager
def _large_rounds() -> Iterator[None]:
    """Have every round be run as large ones are, and by several threads if there are any."""
    with (
        mock.patch.object(stratum, "SMALL_DELTA", 0),
        mock.patch.object(improving, "_FEW_ROWS", 0),
        mock.patch.object(improving, "_BUFFER_ROWS", 3),
    ):
        yield


def _compare(program: str, facts: dict[str, Rows], **options: Any) -> None:
    engine = ge.Engine(program, **options)
    for name, rows in facts.items():
        engine.load(name, rows)
    engine.materialise()
    expected = oracle_facts(program, facts)
    assert expected is not None
    assert {name: rows_of(engine, name) for name in expected} == expected


def _drawn(data: st.DataObject, kind: str) -> tuple[str, dict[str, Rows]]:
    """A program with least or largest values in recursion, and its facts."""
    templates = data.draw(st.sampled_from([SHORTEST, WIDEST]))
    rules = data.draw(st.lists(st.sampled_from(templates), min_size=1, max_size=6, unique=True))
    rules = [rule for rule in rules if not (kind == "unsigned" and "-" in rule.replace(":-", ""))]
    if sum("q(x, m" in rule for rule in rules) == 2 and "q(x, min -a) :- p(x, _, a)." in rules:
        rules.remove("q(x, min -a) :- p(x, _, a).")
    if "q(x, min -a) :- p(x, _, a)." in rules and "p(x, y, max a) :- q(x, a), n(y)." in rules:
        rules.remove("p(x, y, max a) :- q(x, a), n(y).")
    if "q(x, min a - 1) :- e(x, _, a)." in rules:  # with it sums need not get larger
        rules = [rule for rule in rules if "a + b" not in rule]
    facts = {"e": _as(kind, data.draw(EDGES)), "n": data.draw(NODES)}
    if any("p(" in rule.partition(":-")[0] for rule in rules):
        facts["p"] = _as(kind, data.draw(EDGES)[:3])
    program = _program(rules, kind)
    if kind == "float":
        program = program.replace("< 3.", "< 3.0.").replace("2 <", "2.0 <").replace("* 2", "* 2.0")
        program = program.replace("- 1)", "- 1.0)")
    return program, facts


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(["number", "unsigned", "float"]))
def test_least_and_largest_in_recursion(data: st.DataObject, kind: str) -> None:
    program, facts = _drawn(data, kind)
    with _held_back(data.draw(st.sampled_from([1, 2, 1 << 13]))):
        _compare(program, facts)
        with _large_rounds():
            _compare(program, facts, threads=data.draw(st.sampled_from([1, 2])))


@settings(deadline=None, max_examples=20)
@given(st.data(), st.sampled_from(["number", "unsigned", "float"]))
def test_least_and_largest_on_a_device(data: st.DataObject, kind: str) -> None:
    _compare(*_drawn(data, kind), **on(emulated()))


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(-6, 6)), max_size=60),
    st.sampled_from([1, 3, 1 << 13]),
    st.sampled_from([("min", "a + w", -1), ("max", "a + w", 1), ("max", "min(a, w)", 1)]),
)
def test_values_that_get_better_on_the_way(edges: Rows, released: int, kind: tuple[str, str, int]) -> None:
    """Weights of both signs on graphs without cycles, against going through the nodes in order."""
    op, term, sign = kind
    edges = [(x, y, w) for x, y, w in edges if x < y]
    program = f"""
    .decl e(x: number, y: number, w: number)
    .decl d(x: number, w: number)
    d(0, {op} 0).
    d(y, {op} {term}) :- d(x, a), e(x, y, w).
    """
    best = {0: 0}
    for x, y, w in sorted(edges):
        if x in best:
            value = best[x] + w if "+" in term else min(best[x], w)
            best[y] = value if y not in best else sign * max(sign * value, sign * best[y])
    with _held_back(released):
        engine = ge.Engine(program)
        engine.load("e", edges)
        engine.materialise()
    assert rows_of(engine, "d") == set(best.items())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from(["", "a", "b", "ab", "é"])),
        max_size=12,
    ),
    st.sampled_from(["min", "max"]),
)
def test_symbols_by_bytes(edges: Rows, op: str) -> None:
    program = (
        """
    .decl e(x: number, y: number, s: symbol)
    .decl p(x: number, y: number, s: symbol)
    .decl all(s: symbol)
    """
        + f"""
    p(x, y, {op} s) :- e(x, y, s).
    p(x, z, {op} {op}(s, t)) :- p(x, y, s), e(y, z, t).
    all({op} s) :- p(_, _, s).
    """
    )
    _compare(program, {"e": edges})


ORDERS = (
    "p(x, a, b) <= p(x, c, d) :- c <= a, d <= b.",
    "p(x, a, b) <= p(x, c, d) :- c < a; c = a, d <= b.",
    "p(x, a, b) <= p(x, c, d) :- n(x), c <= a, d <= b.",
    "p(x, a, b) <= p(x, c, b) :- a <= c.",
    "p(x, a, b) <= p(x, a, d) :- b > d.",
    "p(_, a, b) <= p(_, c, d) :- !n(a), c < a, d < b.",
)
ROUNDS = (
    "p(x, y, w) :- e(x, y, w).",
    "p(x, y, (a + w) % 7) :- p(x, y, a), e(y, _, w).",
    "p(z, b, a) :- p(x, a, b), e(x, z, _).",
    "p(x, a, b) :- p(x, a, _), p(_, _, b).",
    "q(x, a) :- p(x, a, _).",
    "p(x, a, a) :- q(x, a), n(x).",
)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_subsumption_round_by_round(data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(ORDERS))
    rules = data.draw(st.lists(st.sampled_from(ROUNDS), min_size=1, max_size=4, unique=True))
    facts = {"e": data.draw(EDGES), "n": data.draw(NODES), "p": data.draw(EDGES)[:4]}
    _compare(_program([*rules, order], "number"), facts)


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_updates(data: st.DataObject) -> None:
    """What an update leaves is what would be computed anew, and its change is exact."""
    by_min = data.draw(st.booleans())
    if by_min:
        rules = [
            *SHORTEST[:2],
            *data.draw(st.lists(st.sampled_from(SHORTEST[4:10]), max_size=3, unique=True)),
        ]
    else:
        rules = [*ROUNDS[:2], data.draw(st.sampled_from(ORDERS))]
    program = _program([*rules, "s(x) :- n(x), !p(x, x, _)."], "number")
    facts = {"e": set(data.draw(EDGES)), "n": set(data.draw(NODES))}
    engine = ge.Engine(program)
    for name, rows in facts.items():
        engine.load(name, list(rows))
    engine.materialise()
    for _ in range(3):
        before = {name: rows_of(engine, name) for name in engine}
        insert, delete = set(data.draw(EDGES)[:3]), set(data.draw(EDGES)[:3]) | set(list(facts["e"])[:1])
        nodes = set(data.draw(NODES)[:1])
        with engine.update() as update:
            update.delete("e", list(delete))
            update.insert("e", list(insert))
            update.insert("n", list(nodes))
        facts = {"e": (facts["e"] - delete) | insert, "n": facts["n"] | nodes}
        expected = oracle_facts(program, facts)
        assert expected is not None
        after = {name: rows_of(engine, name) for name in expected}
        assert after == expected
        for name in expected:
            change = update.change[name]
            assert set(change.inserted.to_pylist()) == after[name] - before[name]
            assert set(change.deleted.to_pylist()) == before[name] - after[name]


def test_an_update_that_they_do_not_depend_on_is_maintained(monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(
        [*SHORTEST[:2], "q(x, w) :- n(x), w = 1.", "s(y) :- n(x), p(x, y, _), !q(y, 2)."], "number"
    )
    engine = ge.Engine(program)
    facts: dict[str, set[Any]] = {"e": {(0, 1, 2), (1, 2, 3), (0, 2, 9)}, "n": {(0,), (3,)}}
    for name, rows in facts.items():
        engine.load(name, list(rows))
    engine.materialise()
    monkeypatch.setattr("gpuengine.maintenance.updater.Updater.anew", lambda *_: pytest.fail("not anew"))
    with engine.update() as update:
        update.insert("n", [(1,)])
        update.delete("n", [(0,)])
    assert update.change["s"].deleted.to_pylist() == [(1,)]
    assert not len(update.change["p"].inserted) and not len(update.change["p"].deleted)
    expected = oracle_facts(program, {**facts, "n": [(1,), (3,)]})
    assert expected is not None
    assert {name: rows_of(engine, name) for name in expected} == expected


@pytest.mark.parametrize("where", ["cluster", "executor"])
def test_spark_refuses_them_by_name(where: str) -> None:
    from gpuengine.errors import SparkError
    from gpuengine.language import parse_program
    from gpuengine.spark_bridge.placement import choose_place

    functor = ".functor f(x: number): number\n.decl a(x: number)\na(@f(1))."
    for text, name in (
        (_program(list(SHORTEST[:2]), "number"), "p does not keep"),
        (functor, "@f is a function"),
    ):
        with pytest.raises(SparkError, match=name):
            choose_place(None, parse_program(text), {}, where)  # type: ignore[arg-type]


CHOICES = ("x", "y", "x, y", "(x, y)", "y, (x, w)", "w")
CHOOSING = (
    "p(x, y, w) :- e(x, y, w).",
    "p(y, x, w) :- e(x, y, w), n(x).",
    "p(x, z, w) :- p(x, y, _), e(y, z, w).",
    "p(z, y, a) :- p(x, y, a), e(x, z, _).",
    "q(x, a) :- p(x, _, a).",
    "p(x, a, a) :- q(x, a).",
)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_choice_is_a_valid_one(data: st.DataObject) -> None:
    """No two facts agree on a key; each follows from others; nothing that follows is free to be added."""
    keys = data.draw(st.sampled_from(CHOICES))
    rules = data.draw(st.lists(st.sampled_from(CHOOSING), min_size=1, max_size=4, unique=True))
    text = _program(rules, "number").replace(
        "y: number, w: number)\n.decl q", f"y: number, w: number) choice-domain {keys}\n.decl q"
    )
    facts: dict[str, Rows] = {"e": data.draw(EDGES), "n": data.draw(NODES), "p": data.draw(EDGES)[:2]}
    engines = [ge.Engine(text, threads=threads) for threads in (1, 2)]
    for engine in engines:
        for name, rows in facts.items():
            engine.load(name, rows)
        engine.materialise()
    found = {name: rows_of(engines[0], name) for name in engines[0]}
    assert found == {name: rows_of(engines[1], name) for name in engines[1]}, "it is not deterministic"
    read = oracle.Program(text)
    (choices,) = read.choices.values()
    for key in choices:
        assert len({tuple(row[place] for place in key) for row in found["p"]}) == len(found["p"])
    assert shown_facts(read.derive_by(read.rules, facts, {"p": found["p"]})) == found
    direct = _one_step(read, {name: list(rows) for name, rows in found.items()})
    for row in direct | set(facts["p"]):
        taken = any(
            tuple(row[place] for place in key) == tuple(other[place] for place in key)
            for key in choices
            for other in found["p"]
        )
        assert row in found["p"] or taken


def _one_step(read: oracle.Program, facts: dict[str, Rows]) -> set[tuple[Any, ...]]:
    """What the rules of p derive in one step."""
    from tests.oracle.evaluation import Evaluator, Known

    known = Known({name: {read.row(name, row) for row in rows} for name, rows in facts.items()})
    evaluator = Evaluator(known, {})
    return {
        tuple(map(oracle.shown, row))
        for rule in read.rules
        if rule.head.relation == "p"
        for row in evaluator.consequences(rule)
    }


@pytest.mark.parametrize("way", ["min v + w", "min(v + w)", "min (v + w)"])
def test_parentheses_as_flowlog_writes_them(way: str) -> None:
    program = f"""
    .decl e(x: number, y: number, w: number)
    .decl d(x: number, v: number)
    d(0, min(0)).
    d(y, {way}) :- d(x, v), e(x, y, w).
    """
    engine = ge.Engine(program)
    engine.load("e", [(0, 1, 5), (1, 2, 3), (0, 2, 9), (2, 0, 1)])
    engine.materialise()
    assert rows_of(engine, "d") == {(0, 0), (1, 5), (2, 8)}


def test_weights_below_zero_do_not_take_many_more_rounds_than_there_are_nodes() -> None:
    """What comes late makes all better that was derived from what was best before."""
    diamonds, edges, rounds = 16, [], []
    for k in range(diamonds):
        detour = 1 << (diamonds - k)
        edges += [(2 * k, 2 * k + 2, 0), (2 * k, 2 * k + 1, detour), (2 * k + 1, 2 * k + 2, -detour - 1)]
    engine = ge.Engine(
        ".decl e(x: number, y: number, w: number)\n.decl d(x: number, w: number)\n"
        "d(0, min 0).\nd(y, min a + w) :- d(x, a), e(x, y, w)."
    )
    engine.load("e", edges)
    with _held_back(1):
        engine.materialise(watch=lambda progress: rounds.append(progress.rounds))
    assert rounds[-1] <= 2 * (2 * diamonds + 1)
    assert (2 * diamonds, -diamonds) in rows_of(engine, "d")


@pytest.mark.parametrize("released", [1, 50, 1 << 13])
@pytest.mark.parametrize("nodes", [400])
def test_shortest_paths_on_a_larger_graph(nodes: int, released: int) -> None:
    """Against SciPy's Dijkstra."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import dijkstra

    random = np.random.default_rng(3)
    edges = np.unique(random.integers(0, nodes, (4 * nodes, 2)), axis=0)
    weights = random.integers(1, 100, len(edges))
    graph = csr_matrix((weights, (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    distance = dijkstra(graph, indices=0)
    for large in (nullcontext, _large_rounds):
        engine = ge.Engine(
            ".decl e(x: number, y: number, w: number)\n.decl d(x: number, w: number)\n"
            "d(0, min 0).\nd(y, min a + w) :- d(x, a), e(x, y, w)."
        )
        engine.load("e", np.column_stack([edges, weights]))
        with _held_back(released), large():
            engine.materialise()
        assert rows_of(engine, "d") == {(at, int(far)) for at, far in enumerate(distance) if np.isfinite(far)}


COMPONENTS = """
    .decl e(x: number, y: number)
    .decl d(x: number, v: number)
    d(x, x) :- e(x, _).
    d(y, y) :- e(_, y).
    d(y, v) :- d(x, v), e(x, y).
    d(x, v) :- d(y, v), e(x, y).
"""
FORMS = {
    "min": re.sub(r"(d\(., )(.\) :-)", r"\1min \2", COMPONENTS),
    "subsumption": COMPONENTS + "d(x, v) <= d(x, w) :- w <= v.",
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_pipelines_of_large_rounds_improve_values_in_place(
    form: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a subsumption says no more than that a key has its best value."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    sinks: list[Any] = []
    original = Program.__init__

    def note(self: Program, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        sinks.append(self.pipeline.sink)

    monkeypatch.setattr(Program, "__init__", note)
    nodes = 60_000
    edges = np.unique(np.random.default_rng(9).integers(0, nodes, (nodes, 2)), axis=0)
    engine = ge.Engine(FORMS[form], threads=threads)
    engine.load("e", edges)
    engine.materialise()
    assert sum(isinstance(sink, Improve) for sink in sinks) >= 4
    graph = csr_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(nodes, nodes))
    _, component = connected_components(graph, directed=False)
    least = np.full(nodes, nodes)
    np.minimum.at(least, component, np.arange(nodes))
    found = engine["d"].to_numpy()
    touched = np.unique(edges)
    assert np.array_equal(
        found[np.argsort(found[:, 0])], np.column_stack([touched, least[component[touched]]])
    )
