"""Functors, comparisons, aggregates and negation over frames: what an engine makes of them, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from gpuengine.engine import Engine
from gpuengine.errors import EvaluationError
from gpuengine.spark_bridge import materialise
from tests.spark_bridge.test_materialise import ONLY, engine_of, facts_of, frames_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def assert_same_rows(spark: SparkSession, program: str, facts: Mapping[str, Sequence[Any]]) -> None:
    """By joins alone, what an engine derives; relations are read at the same time, since there are many."""
    engine = engine_of(program, facts)
    frames = frames_of(spark, engine, facts)
    with (
        materialise(spark, program, frames, where="cluster", limits=ONLY["rounds"]) as found,
        ThreadPoolExecutor(3) as pool,
    ):
        rows = dict(zip(found, pool.map(lambda name: rows_of(found[name]), found), strict=True))
    assert rows == {name: facts_of(engine, name) for name in engine.relations}


NUMBERS = """
.decl n(g: number, v: number)
.decl u(g: number, v: unsigned)
.decl none(g: number, v: number)
.decl wrapped(s: number)
wrapped(s) :- s = sum v : { n(_, v) }.
.decl group_sum(g: number, s: number)
group_sum(g, s) :- n(g, _), s = sum v : { n(g, v) }.
.decl extremes(g: number, a: number, b: number)
extremes(g, a, b) :- n(g, _), a = min v : { n(g, v) }, b = max v : { n(g, v) }.
.decl unsigned_extremes(a: unsigned, b: unsigned)
unsigned_extremes(a, b) :- a = min v : { u(_, v) }, b = max v : { u(_, v) }.
.decl unsigned_group(g: number, s: unsigned, a: unsigned)
unsigned_group(g, s, a) :- u(g, _), s = sum v : { u(g, v) }, a = max v : { u(g, v) }.
.decl of_nothing(s: number, c: number)
of_nothing(s, c) :- s = sum v : { none(_, v) }, c = count : { none(_, _) }.
.decl of_no_group(g: number, s: number, c: number)
of_no_group(g, s, c) :- n(g, _), s = sum v : { none(g, v) }, c = count : { none(g, _) }.
.decl no_extreme(g: number, a: number)
no_extreme(g, a) :- n(g, _), a = min v : { none(g, v) }.
.decl no_extreme_at_all(a: number)
no_extreme_at_all(a) :- a = max v : { none(_, v) }.
.decl already_bound(g: number, c: number)
already_bound(g, c) :- n(g, c), c = count : { n(g, _) }.
.decl compared(g: number)
compared(g) :- n(g, v), v > count : { n(_, _) }.
.decl nested(g: number, c: number)
nested(g, c) :- n(g, _), c = count : { n(h, _), 2 <= sum w : { n(h, w), w < 100, w > -100 } }.
.decl of_expression(g: number, s: number)
of_expression(g, s) :- n(g, _), s = sum v % 7 + g : { n(g, v) }.
.decl ranged(g: number, i: number)
ranged(g, i) :- n(g, _), i = range(g, g + 3).
.decl computed(a: number, b: number, c: number)
computed(g, v * 3 + 1, v bxor g) :- n(g, v).
.decl unsigned_computed(a: unsigned, b: unsigned)
unsigned_computed(v + 1, v / 3) :- u(_, v).
.decl unsigned_compared(a: unsigned, b: unsigned)
unsigned_compared(v, w) :- u(_, v), u(_, w), v < w.
"""
N = [(1, 2), (1, 2**63 - 1), (1, 2**63 - 2), (2, 2), (2, 5), (3, -(2**63)), (3, -1), (4, 0), (5, 7)]
U = [(1, 2**63), (1, 2**64 - 1), (1, 3), (2, 0), (2, 2**63 - 1), (3, 2**63 + 1)]


def test_numbers_and_unsigned(spark: SparkSession) -> None:
    assert_same_rows(spark, NUMBERS, {"n": N, "u": U, "none": []})


FLOATS = """
.decl f(g: number, v: float)
.decl total(g: number, s: float)
total(g, s) :- f(g, _), s = sum v : { f(g, v) }.
.decl lowest(g: number, a: float)
lowest(g, a) :- f(g, _), a = min v : { f(g, v) }.
.decl highest(g: number, a: float)
highest(g, a) :- f(g, _), a = max v : { f(g, v) }.
.decl middle(g: number, m: float)
middle(g, m) :- f(g, _), m = mean v : { f(g, v) }.
.decl of_all(m: float, n: number)
of_all(m, n) :- m = max v : { f(_, v), v < 3.5 }, n = count : { f(_, _) }.
.decl of_no_float(s: float)
of_no_float(s) :- s = sum v : { f(9, v) }.
.decl no_mean(m: float)
no_mean(m) :- m = mean v : { f(9, v) }.
.decl equal(g: number, h: number)
equal(g, h) :- f(g, v), f(h, w), v = w.
.decl joined(g: number, h: number)
joined(g, h) :- f(g, v), f(h, v).
.decl less(g: number, h: number)
less(g, h) :- f(g, v), f(h, w), v < w.
.decl zero(g: number)
zero(g) :- f(g, 0.0).
.decl number_mean(m: float)
number_mean(m) :- m = mean to_float(x) : { f(x, _) }.
.decl computed(v: float)
computed(v * -0.5) :- f(_, v).
"""
F = [(1, math.nan), (1, 1.5), (2, 0.0), (3, math.inf), (3, -math.inf), (4, -0.0), (5, 1e308)]
F += [(5, 9e307), (6, 0.5), (6, 0.25), (7, -math.inf), (7, 4.0), (8, 5e-324), (8, 0.0)]


def test_floats(spark: SparkSession) -> None:
    assert_same_rows(spark, FLOATS, {"f": F})


SYMBOLS = r"""
.decl s(k: number, t: symbol)
.decl holds()
.decl absent()
.decl any_at_all()
any_at_all() :- s(_, _).
.decl copied(t: symbol, l: number)
copied(cat(t, "\"'"), strlen(t)) :- s(_, t).
.decl part(t: symbol)
part(substr(t, 0, 1)) :- s(_, t), match("[a-z].*", t).
.decl constant(k: number)
constant(k) :- s(k, "a b").
.decl same(k: number)
same(k) :- pair(k, k).
.decl pair(a: number, b: number)
.decl cross(a: number, b: number)
cross(a, b) :- s(a, _), pair(b, _).
.decl wild(a: number)
wild(a) :- s(a, _), pair(_, _).
.decl if_holds(a: number)
if_holds(a) :- s(a, _), holds().
.decl if_absent(a: number)
if_absent(a) :- s(a, _), !absent().
.decl if_not_any(a: number)
if_not_any(a) :- s(a, _), !pair(_, _).
.decl not_constant(a: number)
not_constant(a) :- s(a, _), !pair(a, 2).
.decl only_negation()
only_negation() :- !absent(), !pair(99, 99).
.decl ordered(a: number, b: number)
ordered(a, b) :- s(a, t), s(b, r), t < r.
.decl counted(n: number)
counted(n) :- n = count : { s(_, _) }.
.decl own(t: symbol)
own("fact"). own("a b"). own("ü\tz").
.decl own_of_s(k: number)
own_of_s(k) :- s(k, t), own(t).
holds().
"""
S = [(1, "a b"), (2, "nul\0inside"), (3, "\"quoted'"), (4, "ü\tz"), (5, ""), (6, "𝔘nicode"), (7, "a\nb")]
PAIRS = [(1, 1), (1, 2), (2, 3), (3, 2), (7, 7)]


def test_symbols_constants_and_negation(spark: SparkSession) -> None:
    assert_same_rows(spark, SYMBOLS, {"s": S, "pair": PAIRS})


IDS = """
.decl s(k: number, t: symbol)
.decl same(a: number, b: number)
same(a, b) :- s(a, t), s(b, t), a != b.
.decl other(a: number, b: number)
other(a, b) :- s(a, t), s(b, r), t != r, a < b.
.decl named(t: symbol, k: number)
named("not seen before", k) :- s(k, "a b").
named(t, k) :- s(k, t), t != "a b".
.decl counted(t: symbol, n: number)
counted(t, n) :- s(_, t), n = count : { s(_, t) }.
.decl lowest(t: symbol, k: number)
lowest(t, k) :- s(_, t), k = min j : { s(j, t) }.
.decl unseen(t: symbol)
unseen(t) :- s(_, t), !named(t, _).
"""


def test_symbols_as_ids(spark: SparkSession) -> None:
    assert_same_rows(spark, IDS, {"s": [*S, (8, "a b"), (9, "")]})


@pytest.mark.parametrize(
    ("where", "rule"),
    [
        ("cluster", "r(10 / v) :- n(_, v)."),
        ("executor", "r(10 % v) :- n(_, v)."),
        ("cluster", 'r(to_number(t)) :- n(g, _), t = cat("x", to_string(g)).'),
        ("cluster", "r(s) :- n(g, _), s = sum 1 / v : { n(g, v) }."),
    ],
)
def test_what_fails_in_a_task_fails_as_in_the_engine(spark: SparkSession, rule: str, where: str) -> None:
    program = f".decl n(g: number, v: number)\n.decl r(a: number)\n{rule}\n"
    facts = {"n": [(1, 2), (1, 0)]}
    engine = Engine(program)
    engine.load("n", facts["n"])
    with pytest.raises(EvaluationError) as expected:
        engine.materialise()
    with pytest.raises(EvaluationError) as found:
        frames = frames_of(spark, engine, facts)
        with materialise(spark, program, frames, where=where, limits=ONLY["rounds"]) as results:
            results.counts  # noqa: B018 - what nothing reads is computed only now
    assert str(found.value) == str(expected.value)
    assert found.value.__notes__ == expected.value.__notes__


GUARDS = """
.decl a(x: number, y: number)
.decl s(x: number, t: symbol)
.decl zero(y: number)
.decl ok(y: number)
.decl compared(x: number, z: number)
compared(x, x / y) :- a(x, y), y != 0.
.decl negated(x: number, z: number)
negated(x, z) :- a(x, y), z = x % y, !zero(y).
.decl joined(x: number, z: number)
joined(x, x / y) :- a(x, y), ok(y).
.decl parsed(x: number, z: number)
parsed(x, to_number(t)) :- s(x, t), match("[0-9]+", t).
.decl around(y: number, n: number)
around(y, n) :- a(_, y), n = sum z : { ok(x), z = x / y }, y != 0.
.decl inside(n: number)
inside(n) :- n = sum x / y : { a(x, y), !zero(y) }.
.decl looked_up(x: number, y: number)
looked_up(x, y) :- a(x, y), ok(x / y), y > 0.
.decl halved(x: number, y: number)
halved(x, y) :- a(x, y).
halved(x / y, y) :- halved(x, y), !zero(y), ok(y).
"""


def test_guards_protect_what_can_fail(spark: SparkSession) -> None:
    facts = {
        "a": [(0, 0), (6, 3), (7, 0), (8, 2), (5, -1)],
        "s": [(1, "12"), (2, "ab"), (3, "7")],
        "zero": [(0,)],
        "ok": [(3,), (2,)],
    }
    assert_same_rows(spark, GUARDS, facts)
