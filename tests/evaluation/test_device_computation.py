"""Rules that compute, on a device: no binding goes to the host, and only values that nobody knew."""

from __future__ import annotations

from random import Random

import pytest

import gpuengine as ge
from gpuengine.errors import FunctorError
from tests.differential.compare import assert_agrees, oracle_facts
from tests.differential.devices import emulated, on
from tests.evaluation.watched import Watched

EDGES = [(n, n + 1) for n in range(40)] + [(n, 2 * n) for n in range(40)]
HOPS = """
.decl edge(x: number, y: number)
.decl hops(x: number, y: number, n: number)
hops(x, y, 1) :- edge(x, y).
hops(x, z, n + 1) :- hops(x, y, n), edge(y, z), n < 5, (n + x) % 3 != 1.
"""


def test_small_numbers_are_computed_without_a_byte_to_the_host() -> None:
    run = Watched(HOPS, {"edge": EDGES})
    assert run.sent == [] and run.derived_by_host == []
    expected = oracle_facts(HOPS, {"edge": EDGES})
    assert expected is not None and set(run.engine["hops"]) == expected["hops"]


def test_values_that_are_new_go_to_the_dictionary_once_each() -> None:
    program = """
.decl edge(x: number, y: number)
.decl far(x: number, y: number)
.decl again(x: number, y: number)
far(x, x * y - 20000000) :- edge(x, y).
again(x, z + 20000000) :- edge(x, _), far(x, z).
again(x, -20000000) :- edge(x, _), far(x, z), z + 20000000 = 0.
"""
    run = Watched(program, {"edge": EDGES})
    values = {x * y - 20000000 for x, y in EDGES}
    assert run.sent == [8 * len(values)] and run.derived_by_host == []
    assert set(run.engine["far"]) == {(x, x * y - 20000000) for x, y in EDGES}
    assert set(run.engine["again"]) == {(x, x * y) for x, y in EDGES} | {(0, -20000000)}


def test_rounds_of_new_values_agree_with_the_dictionary() -> None:
    """Words come from both sides: the host's dictionary has grown when the device adds to it, and before."""
    program = """
.decl start(x: number, f: float)
.decl step(x: number, n: number, f: float)
.decl text(s: symbol)
step(x, x - 1, f / 3.0) :- start(x, f).
step(x, n * 3 - 7, f + to_float(n)) :- step(x, n, f), n > -100000, n < 100000.
text(to_string(n - 100)) :- step(_, n, _).
text(to_string(f)) :- step(_, _, f).
"""
    facts = {"start": [(n, n / 4) for n in range(-20, 20)]}
    assert_agrees(program, facts, **on(emulated()))
    run = Watched(program, facts)
    assert {of for operation, of, _ in run.derived_by_host} == {
        "text(to_string(n - 100)) :- step(_, n, _).",
        "text(to_string(f)) :- step(_, _, f).",
    }


def test_a_division_by_zero_is_told_as_on_the_host() -> None:
    program = """
.decl edge(x: number, y: number)
.decl part(x: number, y: number)
part(x, 10 / (y - 3)) :- edge(x, y).
"""
    with pytest.raises(FunctorError, match="division of 10 by zero"):
        Watched(program, {"edge": EDGES})
    guarded = program.replace("edge(x, y).\n", "edge(x, y), y != 3.\n")
    run = Watched(guarded, {"edge": EDGES})
    assert run.sent == [8 * len({int(10 / (y - 3)) for _, y in EDGES if y < 3})]
    assert run.derived_by_host == []
    assert_agrees(guarded, {"edge": EDGES}, **on(emulated()))


def test_what_only_the_host_computes_is_counted_as_its_work() -> None:
    program = ".decl edge(x: number, y: number)\n.decl p(x: number)\np(x ^ 2) :- edge(x, _)."
    assert Watched(program, {"edge": EDGES}).derived_by_host == [
        ("computation", "p(x ^ 2) :- edge(x, _).", len(set(EDGES)))
    ]


LEAVES = {
    "number": ("a", "b", "0", "3", "-1", "16777216", "9223372036854775807"),
    "unsigned": ("c", "as(a, unsigned)", "7", "18446744073709551615", "16777215"),
    "float": ("d", "to_float(a)", "to_float(c)", "0.5", "-2.25", "1000000.0"),
}
FOR_ALL = ["+", "-", "*", "/", "min", "max"]
FOR_BITS = ["%", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor", "bnot", "lnot"]
OPERATORS = {
    "number": [*FOR_ALL, *FOR_BITS, "neg"],
    "unsigned": [*FOR_ALL, *FOR_BITS],
    "float": [*FOR_ALL, "neg"],
}

RELATIONS = ["=", "!=", "<", "<=", ">", ">="]


def expression(kind: str, depth: int, random: Random) -> str:
    """A random term; what is divided by is not 0."""
    if depth == 0 or random.random() < 0.2:
        return random.choice(LEAVES[kind])
    operator = random.choice(OPERATORS[kind])
    left = expression(kind, depth - 1, random)
    if operator in ("neg", "bnot", "lnot"):
        return f"{'-' if operator == 'neg' else operator + ' '}({left})"
    right = expression(kind, depth - 1, random)
    if operator in ("/", "%") and kind != "float":
        right = f"(({right}) bor 1)"
    if operator in ("min", "max"):
        return f"{operator}({left}, {right})"
    return f"(({left}) {operator} ({right}))"


def random_program(seed: int, rules: int = 12) -> str:
    random = Random(seed)
    lines = [".decl given(a: number, b: number, c: unsigned, d: float)"]
    for number in range(rules):
        kind = random.choice(list(LEAVES))
        lines.append(f".decl made{number}(a: number, r: {kind})")
        test = f"{expression(kind, 2, random)} {random.choice(RELATIONS)} r"
        value = expression(kind, 3, random)
        lines.append(f"made{number}(a, r) :- given(a, b, c, d), r = {value}, {test}.")
        lines.append(
            f"made{number}(a, r) :- given(a, b, c, d), r = {value}, r != {expression(kind, 1, random)}."
        )
    return "\n".join(lines)


EXTREMES = [0, 1, 2, 63, 64, 2**24 - 1, 2**24, 2**31, 2**63 - 1, -1, -2, -(2**24), -(2**63)]


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions(seed: int) -> None:
    """Every operator on extreme values, against the evaluator that knows nothing of words."""
    random = Random(-seed)
    facts = [
        (
            random.choice(EXTREMES),
            random.choice(EXTREMES),
            random.choice(EXTREMES) % 2**64,
            random.choice(FLOATS),
        )
        for _ in range(25)
    ]
    program = random_program(seed)
    assert_agrees(program, {"given": facts}, **on(emulated()))
    assert Watched(program, {"given": facts}).derived_by_host == []


FLOATS = [0.0, -0.0, 1.5, -2.25, 1e300, -1e-300, 1e16, float("inf")]


def test_two_engines_share_a_device_and_not_their_words() -> None:
    backend = emulated()
    program = ".decl e(x: number)\n.decl r(x: number)\nr(x * 1000003) :- e(x)."
    for first in (100, 7000, 100):
        kb = ge.Engine(program, **on(backend))
        kb.load("e", [(n,) for n in range(first, first + 50)])
        assert set(kb.materialise()["r"]) == {(n * 1000003,) for n in range(first, first + 50)}
        kb.load("e", [(n,) for n in range(first + 20, first + 90)])
        assert set(kb.materialise()["r"]) == {(n * 1000003,) for n in range(first, first + 90)}


def test_waits_do_not_grow_with_the_bindings() -> None:
    """What was 65,536 bindings at a time, with a wait for each, is a few for all of them."""
    program = ".decl e(x: number, y: number)\n.decl r(x: number, y: number)\nr(x, x + y) :- e(x, y)."
    waits = []
    for rows in (100, 200_000):
        run = Watched(program, {"e": [(n % 1000, n // 1000) for n in range(rows)]})
        assert run.sent == []
        waits.append(run.device.statistics.syncs)
    assert waits[1] <= waits[0] + 2 and waits[0] < 12
