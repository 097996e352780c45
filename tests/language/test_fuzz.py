"""Whatever the text, a program or `ProgramErrors` comes out: no crash, no hang."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuengine.errors import ProgramErrors
from gpuengine.language import parse_program, parse_query
from gpuengine.language.program import Program
from gpuengine.language.tables import load

SEED = r"""
#define TWICE(f) f, f
#ifndef NEVER
.type A <: number .type U = A | number .type S <: symbol
.type L = [head: number, tail: L]
.type T = Leaf { v: number } | Node { l: T, r: T } | Empty {}
#endif
.decl edge(x: number, y: number) .decl path(x: number, y: number) brie
.decl sums(x: number, s: number)
.decl geq(x: number, y: number) inline
.decl lists(l: L) .decl trees(t: T) .decl names(s: symbol, f: float, u: unsigned)
.input edge(IO=file, delimiter="\t") .output path .printsize path
.pragma "key" "value"
geq(x, y) :- x >= y.
edge(1, 2). edge(0x1f, -3). names("a\n", 1.5, 7u). lists([1, [2, nil]]). trees($Node($Leaf(1), $Empty)).
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), !geq(x, 3), (x < y ; y != 4), !(edge(z, z), x = 1).
path(x, s), sums(s, x) :- TWICE(edge(x, _)), s = sum y + 1 : { edge(x, y), y > min z : { edge(z, y) } }.
names(cat(s, "b"), to_float(strlen(s)), u band 1u) :- names(s, f, u), match("a.*", s), f ^ 2 > as(u, float).
path(x, as(x, number)) :- lists([x, _]) ; trees($Leaf(x)). .plan 0:(1)
path(x, max(x, 1, 2)) :- x = range(1, 10, 2), 3 < count : edge(_, _), true.
.comp C<K> { .decl p(x: K) overridable .comp I { .decl q(x: K) q(x) :- p(x). } .init i = I p(1). }
.comp D<K> : C<K> { .override p p(2). path(x, x) :- i.q(x). }
.init d = D<number>
sums(x, x) :- d.i.q(x), d.p(x).
"""
TOKENS = [
    *sorted(load().literals),
    "x", "y", "edge", "path", "number", "symbol", "L", "C", "d", "1", "2.5", "3u", '"s"', "$Leaf", "_",
    "#define", "#ifdef", "\n", "'", '"', "/*", "*/", "//", "\\", "\x00", "é", "0x", "1.2.3.4", ".include",
]  # fmt: skip


def outcome(text: str) -> Program | ProgramErrors:
    try:
        return parse_program(text)
    except ProgramErrors as errors:
        assert errors.diagnostics
        assert errors.render()
        return errors


def test_the_seed_is_right() -> None:
    assert isinstance(outcome(SEED), Program)


@given(st.text(max_size=200))
@example("\x00")
@example("é(1).")
@example("\ud800")
def test_random_text(text: str) -> None:
    outcome(text)


@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    outcome(data.decode("latin-1"))


@given(st.lists(st.sampled_from(TOKENS), max_size=60))
def test_random_tokens(tokens: list[str]) -> None:
    outcome(" ".join(tokens))
    outcome(SEED + " ".join(tokens))


@pytest.mark.parametrize("seed", range(100))
def test_mutated_programs(seed: int) -> None:
    """Characters, words and stretches of a right program deleted, doubled, swapped, replaced."""
    chance = random.Random(seed)
    text = SEED
    for _ in range(chance.randint(1, 8)):
        start = chance.randrange(len(text))
        end = min(len(text), start + chance.choice((1, 1, 2, 5, 40)))
        middle = chance.choice(("", text[start:end] * 2, chance.choice(TOKENS), text[start:end][::-1]))
        text = text[:start] + middle + text[end:]
    outcome(text)


@pytest.mark.parametrize("seed", range(30))
def test_mutated_queries(seed: int) -> None:
    chance = random.Random(seed)
    program = parse_program(SEED)
    words = [*"path(x,1)", ",", "!", "edge", *"(1,x),y=x+2,", "geq", *"(y,x)"]
    for _ in range(chance.randint(1, 4)):
        words[chance.randrange(len(words))] = chance.choice(TOKENS)
    try:
        assert parse_query(" ".join(words), program).head.relation == "?"
    except ProgramErrors as errors:
        assert errors.diagnostics


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("-(", ")"),
        ("1 + (", ")"),
        ("[", "]"),
        ("$Leaf(", ")"),
        ("cat(", ")"),
        ("max(1, ", ")"),
        ("as(", ", number)"),
        ("sum x : { edge(x, ", ") }"),
        ("1 + ", ""),
        ("- ", ""),
        ("bnot ", ""),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_of_arguments(opening: str, closing: str, closed: bool) -> None:
    depth = 10_000
    outcome(SEED + "edge(1, " + opening * depth + "1" + (closing * depth if closed else "") + ").")


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("!(", ")"),
        ("!", ""),
        ("(edge(x, x) ; ", ")"),
        ("(edge(x, x), ", ")"),
        ("!(edge(x, x), ", ")"),
    ],
)
def test_deep_nesting_of_bodies(opening: str, closing: str) -> None:
    depth = 10_000
    outcome(SEED + "path(x, x) :- edge(x, x), " + opening * depth + "edge(x, 1)" + closing * depth + ".")


def test_other_depths() -> None:
    outcome(".comp A { " * 5_000 + "}" * 5_000)
    outcome(".type T = " + " | ".join("number" for _ in range(10_000)))
    outcome(
        "".join(f".type T{n} <: T{n + 1}\n" for n in range(1_000)) + ".type T1000 <: number\n.decl p(x: T0)"
    )
    outcome("#ifdef A\n" * 10_000)
    outcome(" " * 100_000 + "(" * 20_000)
    outcome("/*" * 50_000)
    outcome('"' * 10_001)
    outcome("p(" + ", ".join("x" for _ in range(10_000)) + ").")
    outcome(".decl p(x: number)\np(x) :- " + ", ".join("(p(x) ; p(y))" for _ in range(1_000)) + ".")
