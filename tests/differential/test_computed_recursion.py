"""Recursion that computes on numbers, as the compiled loop over small rounds runs it, against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpuengine as ge
from gpuengine.evaluation.driver import small_rounds, stratum
from gpuengine.evaluation.driver.small_rounds import SmallRounds
from gpuengine.evaluation.driver.stratum import StratumEvaluation
from tests.differential.compare import assert_agrees

Draw = Any
NUMBERS = [0, 1, 2, 7, -1, -7, -(2**63), 2**63 - 1, -(2**24)]
EDGES = [2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1]
UNSIGNED = [0, 1, 2, 7, 2**63 - 1, 2**63, 2**64 - 1]
FLOATS = [0.0, -0.0, 0.5, 1.0, -3.25, 1e300, -1e300, 5e-324, float("inf"), 0.1]
POOLS: dict[str, list[Any]] = {"number": NUMBERS + EDGES, "unsigned": UNSIGNED + EDGES, "float": FLOATS}
BINARY = ("+", "-", "*", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor")
COMPARATORS = ("<", "<=", ">", ">=", "=", "!=")


@st.composite
def expressions(draw: Draw, variables: tuple[str, ...], kind: str, depth: int = 2) -> str:
    """Terms that can't fail."""
    shape = draw(st.sampled_from(["leaf", "leaf", "binary", "binary", "fold", "unary", "divided", "cast"]))
    if depth == 0 or shape == "leaf":
        constant = str(draw(st.sampled_from([0, 1, 2, 3, 5, 2**24 - 1, 2**24, 2**32])))
        return draw(st.sampled_from([*variables, *variables, constant]))

    def inner() -> str:
        return draw(expressions(variables, kind, depth - 1))

    if shape == "binary":
        return f"({inner()} {draw(st.sampled_from(BINARY))} {inner()})"
    if shape == "fold":
        return f"{draw(st.sampled_from(['min', 'max']))}({inner()}, {inner()}, {inner()})"
    if shape == "divided":
        divisor = draw(st.sampled_from([1, 2, 3, 10, 2**24]))
        return f"({inner()} {draw(st.sampled_from(['/', '%']))} {divisor})"
    if shape == "cast":
        other = "unsigned" if kind == "number" else "number"
        back = f"to_{kind}" if draw(st.booleans()) else None
        away = f"as({inner()}, {other})"
        return f"{back}({away})" if back else f"as({away}, {kind})"
    unary = draw(st.sampled_from(["bnot", "lnot", "-"] if kind == "number" else ["bnot", "lnot"]))
    return f"({unary} {inner()})"


@st.composite
def float_expressions(draw: Draw, variables: tuple[str, ...], depth: int = 2) -> str:
    """Terms of floats. No sign is changed, which would make another NaN that looks the same."""
    shape = draw(st.sampled_from(["leaf", "leaf", "binary", "binary", "fold", "cast"]))
    if depth == 0 or shape == "leaf":
        return draw(st.sampled_from([*variables, *variables, "0.0", "1.5", "1000000000.0", "0.001"]))
    if shape == "cast":
        return draw(st.sampled_from(["to_float(i)", "to_float(to_unsigned(i) * 9223372036854775809)"]))
    inner = [draw(float_expressions(variables, depth - 1)) for _ in "abc"]
    if shape == "fold":
        return f"{draw(st.sampled_from(['min', 'max']))}({', '.join(inner)})"
    return f"({inner[0]} {draw(st.sampled_from('+-*/'))} {inner[1]})"


def terms(variables: tuple[str, ...], kind: str, depth: int = 2) -> Any:
    return float_expressions(variables, depth) if kind == "float" else expressions(variables, kind, depth)


@st.composite
def recursions(draw: Draw) -> tuple[str, dict[str, list[tuple[Any, ...]]]]:
    """Two relations that step, of a few values a step, together or alone; and what reads them later."""
    kind = draw(st.sampled_from(["number", "unsigned", "float"]))
    pool = st.sampled_from(POOLS[kind])
    steps = draw(st.integers(1, 6))
    rules = []
    for _ in range(draw(st.integers(1, 4))):
        head, source = draw(st.sampled_from("pq")), draw(st.sampled_from("pq"))
        body, variables = [f"{source}(i, x, s)"], ["x"]
        if draw(st.booleans()):
            body.append(draw(st.sampled_from(["edge(x, y, w)", "edge(y, x, w)", "edge(y, w, _)"])))
            variables += ["y", "w"]
        if draw(st.integers(0, 3)) == 0:
            body.append(f"{draw(st.sampled_from('pq'))}(i, v, _)")
            variables.append("v")
        result = draw(terms(tuple(variables), kind))
        if draw(st.booleans()):
            body.append(f"z = {result}")
            result = "z"
            variables.append("z")
        for _ in range(draw(st.integers(0, 2))):
            sides = [draw(terms(tuple(variables), kind, 1)) for _ in "lr"]
            body.append(f"{sides[0]} {draw(st.sampled_from(COMPARATORS))} {sides[1]}")
        if draw(st.integers(0, 4)) == 0:
            body.append(f"!edge({draw(st.sampled_from(variables))}, _, _)")
        body = draw(st.permutations(body))
        rules.append(f"{head}(i + 1, {result}, s) :- {', '.join(body)}, i < {steps}.")
    program = f"""
.decl edge(a: {kind}, b: {kind}, w: {kind})
.decl start(x: {kind}, s: symbol)
.decl p(i: number, x: {kind}, s: symbol)
.decl q(i: number, x: {kind}, s: symbol)
p(0, x, s) :- start(x, s).
q(0, x, s) :- start(x, s).
{chr(10).join(rules)}
.decl both(x: {kind}, y: {kind}, s: symbol)
both(x, x + {1.0 if kind == "float" else 1}, s) :- p(i, x, s), q(i, x, s).
.decl known(x: {kind})
known(x) :- both(x, _, _), edge(x, _, _).
"""
    facts = {
        "edge": draw(st.lists(st.tuples(pool, pool, pool), max_size=4)),
        "start": draw(st.lists(st.tuples(pool, st.sampled_from("ab")), min_size=1, max_size=3)),
    }
    return program, facts


@contextmanager
def short_turns(turn: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_rounds, "_TURN", turn)
        yield


@given(recursions(), st.sampled_from([1, 1 << 16]))
def test_random_recursions(case: tuple[str, dict[str, list[tuple[Any, ...]]]], turn: int) -> None:
    program, facts = case
    with short_turns(turn):
        assert_agrees(program, facts, threads=1)


@pytest.fixture
def only_compiled(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often the compiled loop was begun; a round that is driven from Python fails."""
    calls = {"begun": 0}

    def begun(*args: Any) -> SmallRounds:
        calls["begun"] += 1
        return SmallRounds(*args)

    def refused(self: StratumEvaluation) -> int:
        raise AssertionError(f"a round from Python of {self.stratum.relations}")

    monkeypatch.setattr(stratum, "SmallRounds", begun)
    monkeypatch.setattr(StratumEvaluation, "run_round", refused)
    return calls


def derived(program: str, relation: str, **facts: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    kb = ge.Engine(program, threads=1)
    for name, rows in facts.items():
        kb.load(name, rows)
    kb.materialise()
    rows = list(kb[relation])
    assert len(set(rows)) == len(rows)
    return set(rows)


COUNTER = ".decl n(x: {kind})\n.decl first(x: {kind})\nn(x) :- first(x).\nn(x {step}) :- n(x), {guard}.\n"
COUNTERS = {
    "up from 0": ("number", "+ 1", "x < 20000", 0, range(20001)),
    "down from 0": ("number", "- 1", "x > -20000", 0, range(0, -20001, -1)),
    "across the identity": ("number", "+ 1", f"x < {2**24 + 5000}", 2**24 - 5000, None),
    "down across the identity": ("number", "- 3", f"x > {2**24 - 5000}", 2**24 + 5000, None),
    "unsigned, large": ("unsigned", "+ 1", f"x != {2**64 - 1}", 2**64 - 5000, range(2**64 - 5000, 2**64)),
    "unsigned, around": ("unsigned", "+ 1", "x != 3000", 2**64 - 3000, None),
    "float": ("float", "+ 0.5", "x < 5000.0", -0.5, [x / 2 for x in range(-1, 10001)]),
    "around": ("number", "+ 1", f"x != {-(2**63) + 100}", 2**63 - 100, None),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_counters_of_many_rounds(name: str, only_compiled: dict[str, int]) -> None:
    kind, step, guard, first, wanted = COUNTERS[name]
    if name == "across the identity":
        wanted = range(first, 2**24 + 5001)
    elif name == "down across the identity":
        wanted = range(first, 2**24 - 5003, -3)
    elif name == "unsigned, around":
        wanted = [*range(first, 2**64), *range(3001)]
    elif name == "around":
        wanted = [*range(first, 2**63), *range(-(2**63), -(2**63) + 101)]
    program = COUNTER.format(kind=kind, step=step, guard=guard)
    assert derived(program, "n", first=[(first,)]) == {(x,) for x in wanted}
    assert 0 < only_compiled["begun"] < 40  # heads are widened geometrically


def test_a_weighted_chain(only_compiled: dict[str, int]) -> None:
    program = """
.decl edge(x: number, y: number, w: number)
.decl dist(x: number, d: number)
dist(0, 0).
dist(z, d + w) :- dist(y, d), edge(y, z, w), d < 100000000.
"""
    edges = [(i, i + 1, 10_007 * (i % 7)) for i in range(3000)]
    total, wanted = 0, {(0, 0)}
    for _, z, w in edges:
        if total < 100000000:
            total += w
            wanted.add((z, total))
    assert derived(program, "dist", edge=edges) == wanted
    assert only_compiled["begun"]


def test_two_relations_that_count_each_other_and_wide_rows(only_compiled: dict[str, int]) -> None:
    program = """
.decl even(a: number, b: number, c: number, s: symbol, x: number)
.decl odd(a: number, b: number, c: number, s: symbol, x: number)
even(5, 0, 0, "zero", 0).
odd(a * 3, b - a, x * x, s, x + 1) :- even(a, b, _, s, x), x < 4000.
even(a, b bxor c, c, s, x + 1) :- odd(a, b, c, s, x), z = x * 2, z / 2 = x.
"""

    def wrapped(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    a, b, c, x = 5, 0, 0, 0
    even, odd = {(a, b, c, "zero", x)}, set()
    while x < 4000:
        a, b, c, x = wrapped(a * 3), wrapped(b - a), x * x, x + 1
        odd.add((a, b, c, "zero", x))
        b, x = b ^ c, x + 1
        even.add((a, b, c, "zero", x))
    assert derived(program, "even") == even
    assert derived(program, "odd") == odd
    assert only_compiled["begun"]


def test_what_was_interned_by_the_loop_is_found_by_everybody(only_compiled: dict[str, int]) -> None:
    kb = ge.Engine(
        COUNTER.format(kind="number", step="- 1", guard="x > -3000")
        + ".decl m(x: number, t: symbol)\nm(-x, to_string(x)) :- n(x), n(x + 2990).\n",
        threads=1,
    )
    kb.load("first", [(0,)])
    kb.materialise()
    assert set(kb["m"]) == {(x, f"{-x}") for x in range(2990, 3001)}
    assert (-3000,) in kb["n"] and (-3001,) not in kb["n"]
    assert only_compiled["begun"]


@pytest.mark.parametrize("literal", ["y = 10 / x", "y = x ^ x", 'y = x + strlen("a")', "y = to_number(s)"])
def test_what_can_fail_or_is_of_strings_is_left_to_the_steps_on_columns(literal: str) -> None:
    assert_agrees(
        f'.decl p(x: number, s: symbol)\np(1, "2").\np(y, s) :- p(x, s), x > 0, x < 9, y != x, {literal}.\n',
        {},
        threads=1,
    )


BEST = {
    "one key": (".decl p(x: number, d: {kind})", "p(z, {op} t) :- p(y, d), edge(y, z, w), {term}."),
    "value first": (".decl p(d: {kind}, x: number)", "p({op} t, z) :- p(d, y), edge(y, z, w), {term}."),
    "two keys": (
        ".decl p(x: number, s: symbol, d: {kind})",
        "p(z, s, {op} t) :- p(y, s, d), edge(y, z, w), {term}.",
    ),
}
CHANGES = {
    "number": ("min", "t = d + w", 0, [10_007 * (i % 7) for i in range(2000)]),
    "unsigned": ("max", "t = d - w", 2**64 - 1, [i % 5 for i in range(2000)]),
    "float": ("min", "t = d + w", 0.0, [0.5 * (i % 3) for i in range(2000)]),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("shape", BEST)
def test_best_values_along_a_chain(shape: str, kind: str, only_compiled: dict[str, int]) -> None:
    """A short cut to every hundredth node is longer, and is found first: what it leads to is bettered."""
    declared, rule = (text.replace("{kind}", kind) for text in BEST[shape])
    op, term, first, weights = CHANGES[kind]
    rule = rule.replace("{op}", op).replace("{term}", term)
    fact = {"one key": (0, first), "value first": (first, 0), "two keys": (0, "a", first)}[shape]
    args = {"one key": "x, {op} d", "value first": "{op} d, x", "two keys": "x, s, {op} d"}[shape]
    kept = args.replace("{op}", op)
    program = f"""
.decl edge(x: number, y: number, w: {kind})
{declared}
{declared.replace("p(", "start(")}
p({kept}) :- start({args.replace("{op} ", "")}).
{rule}
"""
    edges = [(i, i + 1, w) for i, w in enumerate(weights)]
    long = [(0, i, sum(weights) + 1) for i in range(100, len(weights), 100)]
    sign = -1 if op == "max" else 1
    wanted, total = set(), first
    for x in range(len(weights) + 1):
        row = {"one key": (x, total), "value first": (total, x), "two keys": (x, "a", total)}[shape]
        wanted.add(row)
        total += sign * weights[x] if x < len(weights) else 0
    assert derived(program, "p", edge=edges + long, start=[fact]) == wanted
    assert 0 < only_compiled["begun"] < 40


def test_best_values_with_other_relations_and_of_one_key_only(only_compiled: dict[str, int]) -> None:
    program = """
.decl n(x: number)
.decl d(x: number)
n(0).
n(x + 1) :- n(x), d(y), y < 101, x < 3000.
d(min 100).
d(min 100 - x) :- n(x), x < 90.
d(min max(y - 9000, -20000000)) :- d(y), y < 20.
"""
    assert derived(program, "n") == {(x,) for x in range(3001)}
    assert derived(program, "d") == {(-20000000,)}
    assert only_compiled["begun"]


@pytest.mark.parametrize("fan", [5_000, 20_000])
def test_many_best_values_in_one_round(fan: int) -> None:
    """More than there is room for when the loop begins; of the larger number it tells none itself."""
    program = """
.decl edge(x: number, y: number, w: number)
.decl p(x: number, d: number)
p(0, min 0).
p(y, min d + w) :- p(x, d), edge(x, y, w).
"""
    edges = [(0, 1, 1), (1, 2, 1), *((2, x, x) for x in range(3, fan)), (fan - 1, fan, 5)]
    wanted = {(0, 0), (1, 1), (2, 2), *((x, x + 2) for x in range(3, fan)), (fan, fan + 6)}
    assert derived(program, "p", edge=edges) == wanted
