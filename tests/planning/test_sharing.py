"""Relations that copy rules make equal are kept once, and every relation means what it meant before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import SYMBOL, Alias, Program, Rule
from gpuengine.planning.plan import describe
from gpuengine.planning.sharing import share_equal_relations
from tests.core_oracle import Facts, naive
from tests.planning.rewriting import rewrite

Draw = Callable[[st.SearchStrategy[Any]], Any]


def read(rules: str, header: str = "", pairs: str = "p q r s e") -> Program:
    """A rewritten program over binary relations of numbers."""
    declared = [f".decl {name}(x: number, y: number)\n.output {name}" for name in pairs.split()]
    return rewrite(parse_program("\n".join([*declared, header, rules, ""])))


def told(rule: Rule) -> str:
    return " :- ".join([describe(rule.head), ", ".join(map(describe, rule.body))]).removesuffix(" :- ")


def shared(program: Program, **options: Any) -> tuple[list[str], dict[str, Alias]]:
    after, aliases = share_equal_relations(program, **options)
    assert after.relations == program.relations
    assert after.directives == program.directives
    return [told(rule) for rule in after.rules], aliases


def test_a_relation_and_its_inverse_are_one() -> None:
    program = read(
        """
        q(y, x) :- p(x, y).
        p(b, a) :- q(a, b).
        p(1, 2). q(3, 4).
        p(x, y) :- e(x, y).
        q(x, y) :- q(x, z), e(z, y), !s(x, y), x < y.
        r(x, y) :- p(x, y), !q(x, _), y = count : { q(x, _), z = sum w : { q(w, x), p(5, w) } }.
        """
    )
    rules, aliases = shared(program)
    assert aliases == {"q": Alias("p", (1, 0))}
    assert rules == [
        "p(1, 2)",
        "p(4, 3)",
        "p(x, y) :- e(x, y)",
        "p(y, x) :- p(z, x), e(z, y), !s(x, y), x < y",
        "r(x, y) :- p(x, y), !p(_, x), y = count : { p(_, x), z = sum w : { p(x, w), p(5, w) } }",
    ]


def test_rules_keep_their_text_and_place() -> None:
    program = read("q(y, x) :- p(x, y).  p(y, x) :- q(x, y).  q(x, y) :- e(x, y).")
    (rule,) = share_equal_relations(program)[0].rules
    assert rule.text == program.rules[2].text == "q(x, y) :- e(x, y)."
    assert rule.span == program.rules[2].span


def test_an_alias_reads_its_relation_through_the_permutation() -> None:
    """The example of `Alias`: r(x, y, z) holds exactly if p(z, x, y) does."""
    types = "(a: number, b: number, c: number)"
    program = read(
        "r(x, y, z) :- p(z, x, y).  p(z, x, y) :- r(x, y, z).  r(1, 2, 3).  p(x, x, 4) :- r(x, 4, 5).",
        header=f".decl p{types}\n.decl r{types}\n.output r",
        pairs="",
    )
    rules, aliases = shared(program)
    assert aliases == {"r": Alias("p", (2, 0, 1))}
    assert rules == ["p(3, 1, 2)", "p(x, x, 4) :- p(5, x, 4)"]


def test_permutations_compose_along_a_cycle() -> None:
    """Swapping and turning do not commute: c(x, y, z) is b(y, z, x), which is a(z, y, x)."""
    types = "(x: number, y: number, z: number)"
    program = read(
        "b(y, x, z) :- a(x, y, z).  c(z, x, y) :- b(x, y, z).  a(y, x, z) :- c(z, x, y).  c(1, 2, 3).",
        header="\n".join(f".decl {name}{types}\n.output {name}" for name in "abc"),
        pairs="",
    )
    assert shared(program) == (["a(3, 2, 1)"], {"b": Alias("a", (1, 0, 2)), "c": Alias("a", (2, 1, 0))})


def test_longer_cycles_and_several_components() -> None:
    """q = p reversed, r = q reversed = p; s and e are another component."""
    program = read(
        """
        q(y, x) :- p(x, y).  r(y, x) :- q(x, y).  p(x, y) :- r(x, y).  p(x, y) :- q(y, x).
        s(x, y) :- e(x, y).  e(x, y) :- s(x, y).
        p(x, y) :- s(x, y).
        """
    )
    rules, aliases = shared(program)
    assert aliases == {"q": Alias("p", (1, 0)), "r": Alias("p", (0, 1)), "e": Alias("s", (0, 1))}
    assert rules == ["p(x, y) :- s(x, y)"]


def test_columns_of_different_types_are_matched_by_type() -> None:
    program = read(
        "f(x, y) :- g(y, x).  g(x, y) :- f(y, x).",
        header=".decl f(x: number, y: symbol)\n.decl g(x: symbol, y: number)\n.output f\n.output g",
        pairs="",
    )
    assert shared(program) == ([], {"g": Alias("f", (1, 0))})


@pytest.mark.parametrize(
    ("rules", "of"),
    [
        ("", "p"),
        ("q(x, z) :- q(x, y), q(y, z).", "q"),
        ("r(c, a) :- r(b, a), r(c, b).", "r"),
        ("r(x, z) :- r(x, y), r(y, z).  q(x, z) :- q(x, y), q(y, z).", "q"),
        ("q(x, z) :- q(x, y), q(y, z), x != z.", "p"),
        ("q(x, z) :- q(x, y), q(z, y).", "p"),
    ],
)
def test_who_represents_the_others(rules: str, of: str) -> None:
    copies = "q(x, y) :- p(x, y).  r(x, y) :- q(x, y).  p(x, y) :- r(x, y)."
    _, aliases = shared(read(copies + rules))
    assert {alias.of for alias in aliases.values()} == {of}
    assert set(aliases) == {"p", "q", "r"} - {of}


def test_an_eqrel_represents_the_others() -> None:
    """Before `rewrite`: its rules include same(y, x) :- same(x, y), after which it is left alone."""
    text = """
    .decl p(x: number, y: number)
    .decl same(x: number, y: number) eqrel
    .output p
    p(x, z) :- p(x, y), p(y, z).
    p(x, y) :- same(y, x).  same(y, x) :- p(x, y).
    """
    program = parse_program(text)
    assert shared(program)[1] == {"p": Alias("same", (1, 0))}
    assert shared(rewrite(program))[1] == {}


@pytest.mark.parametrize(
    "rules",
    [
        "",
        "q(x, y) :- p(x, y).",
        "q(x, y) :- p(x, y).  r(x, y) :- q(x, y).",
        "p(x, y) :- p(y, x).",
        "p(x, y) :- p(x, y).",
        "q(x, y) :- p(x, y).  p(y, x) :- q(x, y).",
        "q(x, y) :- p(x, y).  p(x, y) :- q(x, y).  q(x, y) :- q(y, x).",
        "q(x, y) :- p(x, y).  r(x, y) :- q(x, y).  p(x, y) :- r(x, y).  r(y, x) :- p(x, y).",
        "q(x, y) :- p(x, y).  p(x, y) :- q(x, y), x < y.",
        "q(x, y) :- p(x, y).  p(x, y) :- q(x, y), e(x, _).",
        "q(x, y) :- p(x, y).  p(x, y) :- q(x, y), !e(x, y).",
        "q(x, y) :- p(x, y).  p(x, y) :- q(x, y), q(x, y).",
        "q(x, x) :- p(x, _).  p(x, x) :- q(x, _).",
        "q(x, y) :- p(x, y).  p(x, x) :- q(x, x).",
        "q(x, y) :- p(x, y).  p(x, 1) :- q(x, 1).",
        "q(x, y) :- p(x, y).  p(x, y) :- q(x, _), q(_, y).",
        "q(x, y) :- p(x, y).  p(x, z) :- q(x, y), z = y + 0.",
    ],
)
def test_what_is_left_alone(rules: str) -> None:
    program = read(rules)
    same, aliases = share_equal_relations(program)
    assert same is program
    assert aliases == {}


def test_copies_of_other_columns_are_left_alone() -> None:
    program = read(
        "f(x) :- p(x, _).  p(x, x) :- f(x).  n() :- m().  m() :- n().",
        header=".decl f(x: number)\n.decl n()\n.decl m()\n.output f\n.output n\n.output m",
    )
    assert share_equal_relations(program)[0] is program


def test_copies_between_id_spaces_are_left_alone() -> None:
    """The checker rejects such rules; a program that is made otherwise might have them."""
    program = read("q(x, y) :- p(x, y).  p(x, y) :- q(x, y).")
    first, second = program.relations["q"].attributes
    other = replace(program.relations["q"], attributes=(first, replace(second, type=SYMBOL)))
    program = replace(program, relations={**program.relations, "q": other})
    assert share_equal_relations(program)[0] is program


def test_kept_and_limited_relations_take_no_part() -> None:
    cycle = "q(x, y) :- p(x, y).  r(x, y) :- q(x, y).  q(x, y) :- r(x, y).  p(x, y) :- q(x, y)."
    rest = ["q(x, y) :- p(x, y)", "p(x, y) :- q(x, y)"]
    assert shared(read(cycle))[1] == {"q": Alias("p", (0, 1)), "r": Alias("p", (0, 1))}
    assert shared(read(cycle), kept=frozenset({"p"})) == (rest, {"r": Alias("q", (0, 1))})
    assert shared(read(cycle, header=".limitsize p(n=3)")) == (rest, {"r": Alias("q", (0, 1))})
    program = read(cycle)
    assert share_equal_relations(program, kept=frozenset({"q"}))[0] is program


def test_rules_that_become_the_same_are_kept_once() -> None:
    program = read(
        """
        q(y, x) :- p(x, y).  p(x, y) :- q(y, x).
        p(x, z) :- p(x, y), p(y, z).
        q(x, z) :- q(x, y), q(y, z).
        p(a, c) :- p(a, b), p(b, c).
        p(x, z) :- p(x, y), p(z, y).
        p(1, 2).  q(2, 1).  p(2, 1).
        r(x, n) :- p(x, _), n = count : { p(x, y), y < 3 }.
        r(u, m) :- q(_, u), m = count : { q(v, u), v < 3 }.
        r(u, m) :- q(_, u), m = count : { q(v, u), v < 4 }.
        """
    )
    rules, _ = shared(program)
    assert rules == [
        "p(x, z) :- p(x, y), p(y, z)",
        "p(x, z) :- p(x, y), p(z, y)",
        "p(1, 2)",
        "p(2, 1)",
        "r(x, n) :- p(x, _), n = count : { p(x, y), y < 3 }",
        "r(u, m) :- p(u, _), m = count : { p(u, v), v < 4 }",
    ]


def test_zeros_of_either_sign_stay_two_facts() -> None:
    program = read(
        "f(x) :- g(x).  g(x) :- f(x).  f(0.0).  g(-0.0).",
        header=".decl f(x: float)\n.decl g(x: float)\n.output f\n.output g",
        pairs="",
    )
    assert len(share_equal_relations(program)[0].rules) == 2


def test_skos_concepts() -> None:
    program = read(
        """
        narrower(y, x) :- broader(x, y).  broader(y, x) :- narrower(x, y).
        narrowerT(y, x) :- broaderT(x, y).  broaderT(y, x) :- narrowerT(x, y).
        broaderT(x, y) :- broader(x, y).  narrowerT(x, y) :- narrower(x, y).
        broaderT(x, z) :- broaderT(x, y), broaderT(y, z).
        narrowerT(x, z) :- narrowerT(x, y), narrowerT(y, z).
        related(y, x) :- related(x, y).
        """,
        pairs="broader narrower broaderT narrowerT related",
    )
    rules, aliases = shared(program)
    assert aliases == {"narrower": Alias("broader", (1, 0)), "narrowerT": Alias("broaderT", (1, 0))}
    assert rules == [
        "broaderT(x, y) :- broader(x, y)",
        "broaderT(x, z) :- broaderT(x, y), broaderT(y, z)",
        "related(y, x) :- related(x, y)",
    ]


# Random programs: pairs p0.. and triples t0.. copy each other, high relations h0.. negate and aggregate.
PAIRS = ("p0", "p1", "p2", "p3")
TRIPLES = ("t0", "t1", "t2")
HIGH = ("h0", "h1")
OTHER_RULES = (
    "{p}(x, z) :- {q}(x, y), {r}(y, z).",
    "{p}(x, z) :- {p}(x, y), {p}(y, z).",
    "{p}(y, x) :- {q}(x, y), {r}(_, x).",
    "{p}(x, y) :- {t}(x, _, y), x != y.",
    "{p}(x, x) :- {q}(x, 1).",
    "{p}(0, 2).",
    "{t}(x, y, z) :- {p}(x, y), {q}(y, z).",
    "{t}(x, y, 3) :- {t}(y, x, _), {p}(x, y).",
    "{h}(x, y) :- {p}(x, y), !{q}(x, y).",
    "{h}(x, y) :- {p}(x, y), !{t}(_, y, x).",
    "{h}(x, n) :- {p}(x, _), n = count : {{ {q}(x, y), {t}(y, _, x) }}.",
    "{h}(x, n) :- {p}(_, x), n = sum y : {{ {q}(y, x), y < count : {{ {r}(x, z), z != 1 }} }}.",
    "{h}(x, y) :- {h}(y, x), {p}(x, _).",
)


def permuted(row: tuple[Any, ...], permutation: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(row[i] for i in permutation)


@st.composite
def copy_rules(draw: Draw, names: tuple[str, ...], arity: int) -> list[str]:
    """A cycle of copies through some relations, mostly consistent, and a few copies more."""
    variables = ("x", "y", "z")[:arity]
    orders = {name: draw(st.permutations(range(arity))) for name in names}
    cycle = draw(st.lists(st.sampled_from(names), unique=True, max_size=len(names)))
    links = list(zip(cycle, [*cycle[1:], *cycle[:1]], strict=True))
    links += draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=2))
    rules = []
    for head, body in links:
        order = draw(st.permutations(range(arity))) if draw(st.integers(0, 7)) == 7 else orders[body]
        args = [", ".join(permuted(variables, tuple(by))) for by in (orders[head], order)]
        rules.append(f"{head}({args[0]}) :- {body}({args[1]}).")
    return rules


@st.composite
def programs(draw: Draw) -> str:
    eqrel = "eqrel" if draw(st.integers(0, 3)) == 3 else ""
    lines = [f".decl {name}(x: number, y: number)" for name in (*PAIRS[:-1], *HIGH)]
    lines += [f".decl {PAIRS[-1]}(x: number, y: number) {eqrel}"]
    lines += [f".decl {name}(x: number, y: number, z: number)" for name in TRIPLES]
    lines += [f".output {name}" for name in (*PAIRS, *TRIPLES, *HIGH)]
    for names, arity in ((PAIRS, 2), (TRIPLES, 3), (HIGH, 2)):
        lines += draw(copy_rules(names, arity))
    for rule in draw(st.lists(st.sampled_from(OTHER_RULES), max_size=5)):
        p, q, r = (draw(st.sampled_from(PAIRS)) for _ in range(3))
        t, h = draw(st.sampled_from(TRIPLES)), draw(st.sampled_from(HIGH))
        lines.append(rule.format(p=p, q=q, r=r, t=t, h=h))
    return "\n".join(lines) + "\n"


def rows(arity: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*[st.integers(0, 3)] * arity), max_size=3)


FACTS = st.fixed_dictionaries(
    {name: rows(2) for name in (*PAIRS, *HIGH)} | {name: rows(3) for name in TRIPLES}
)


@settings(max_examples=150)
@given(programs(), FACTS, st.booleans(), st.sets(st.sampled_from((*PAIRS, *TRIPLES)), max_size=1))
def test_sharing_changes_no_relation(
    text: str, facts: dict[str, list[tuple[int, ...]]], rewritten: bool, kept: set[str]
) -> None:
    program = parse_program(text)
    if rewritten:
        program = rewrite(program)
    after, aliases = share_equal_relations(program, frozenset(kept))
    assert not kept & aliases.keys()
    given_facts = {name: list(own) for name, own in facts.items()}
    for name, alias in aliases.items():
        moved = given_facts.pop(name)
        given_facts[alias.of] += [permuted(row, alias.permutation) for row in moved]
    expected, found = naive(program, facts), naive(after, given_facts)
    assert {name: read_alias(found, name, aliases) for name in expected} == expected


def read_alias(found: Facts, name: str, aliases: dict[str, Alias]) -> set[tuple[Any, ...]]:
    """The facts of a relation; of an alias those a with of(b), b_j = a_{permutation[j]}."""
    if name not in aliases:
        return found[name]
    assert not found[name], "nothing derives an alias"
    alias = aliases[name]
    values = {value for row in found[alias.of] for value in row}
    possible = product(values, repeat=len(alias.permutation))
    return {row for row in possible if permuted(row, alias.permutation) in found[alias.of]}
