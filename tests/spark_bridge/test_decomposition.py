"""Partition keys: which there are, which is chosen, and that parts by key run alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpuengine.language import parse_program
from gpuengine.language.program import Program
from gpuengine.planning.plan import Stratum
from gpuengine.planning.strata import make_plan
from gpuengine.spark_bridge.decomposition import (
    MOST_KEYS,
    PartitionKey,
    choose_key,
    partition_keys,
    why_not,
)
from tests.core_oracle import Facts, consequences, naive
from tests.planning.rewriting import rewrite
from tests.structured_programs import Structured, structured_programs

PARTS = 3


def recursive_strata(program: Program) -> list[Stratum]:
    return [stratum for stratum in make_plan(program).strata if stratum.is_recursive]


def stratum_of(rules: str, *declarations: str) -> Stratum:
    """The one recursive stratum of a program; relations that are not declared have two numbers."""
    names = [declaration.partition("(")[0] for declaration in declarations]
    pairs = [name for name in ("path", "edge", "up", "down", "sg", *"pqref") if name not in names]
    text = "".join(f".decl {name}(x: number, y: number)\n" for name in pairs)
    text += "".join(f".decl {declaration}\n" for declaration in declarations)
    (stratum,) = recursive_strata(parse_program(text + rules))
    return stratum


def columns(stratum: Stratum) -> list[dict[str, int]]:
    return [dict(key.columns) for key in partition_keys(stratum)]


LEFT = "path(x, z) :- path(x, y), edge(y, z)."
RIGHT = "path(x, z) :- edge(x, y), path(y, z)."


def test_linear_closures_keep_one_end() -> None:
    assert partition_keys(stratum_of(LEFT)) == [PartitionKey({"path": 0}, {"edge": None})]
    assert partition_keys(stratum_of(RIGHT)) == [PartitionKey({"path": 1}, {"edge": None})]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (
            "sg(x, y) :- up(x, a), sg(a, b), down(b, y).",
            "no column of sg is kept from body to head by sg(x, y) :- up(x, a), sg(a, b), down(b, y)",
        ),
        (
            f"{LEFT} {RIGHT}",
            "no column that path(x, z) :- path(x, y), edge(y, z) keeps from body to head is kept by "
            "path(x, z) :- edge(x, y), path(y, z)",
        ),
        (
            "path(x, z) :- path(x, y), path(y, z).",
            "no column of path is kept from body to head by path(x, z) :- path(x, y), path(y, z)",
        ),
        (
            "p(y, x) :- q(x, y). q(x, y) :- p(x, y), e(x, y).",
            "no column that p(y, x) :- q(x, y) keeps from body to head is kept by "
            "q(x, y) :- p(x, y), e(x, y)",
        ),
        ("p(1, 2) :- p(1, 2), e(1, 2).", "no column of p is kept from body to head by p(1, 2) :- "),
        ("p(x, x) :- p(_, _), e(x, _).", "no column of p is kept from body to head by p(x, x) :- "),
        ("p(x, y + 1) :- p(z, y), e(z, x), y < 9.", "no column of p is kept from body to head by "),
    ],
)
def test_without_a_key_there_is_a_reason(rules: str, reason: str) -> None:
    stratum = stratum_of(rules)
    assert partition_keys(stratum) == []
    assert why_not(stratum).startswith(reason)


def test_no_reason_where_there_is_a_key() -> None:
    assert why_not(stratum_of(LEFT)) == ""


def test_a_stratum_that_is_not_recursive() -> None:
    program = parse_program(".decl e(x: number)\n.decl p(x: number)\np(x) :- e(x).")
    (stratum,) = make_plan(program).strata
    assert partition_keys(stratum) == [] and why_not(stratum) == "p is not recursive"


def test_a_relation_of_no_columns_has_no_key() -> None:
    assert columns(stratum_of("p() :- p(), e(1, _).", "p()")) == []


def test_mutual_recursion_has_a_column_for_each() -> None:
    rules = "p(x, y) :- q(y, x), e(y, _). q(x, y) :- p(y, z), f(z, x)."
    assert partition_keys(stratum_of(rules)) == [PartitionKey({"p": 0, "q": 1}, {"e": None, "f": None})]


def test_several_columns_are_several_keys() -> None:
    rules = "r(a, b, c, z) :- r(a, b, c, y), e(y, z)."
    wide = "r(a: number, b: number, c: number, d: number)"
    assert columns(stratum_of(rules, wide)) == [{"r": 0}, {"r": 1}, {"r": 2}]


def test_every_atom_of_the_stratum_must_have_the_key() -> None:
    assert columns(stratum_of("p(x, z) :- p(x, y), p(x, z), e(y, z).")) == [{"p": 0}]
    assert columns(stratum_of("p(x, z) :- p(x, y), p(y, z), p(x, w), p(w, z).")) == []


def test_the_same_value_by_an_equation() -> None:
    assert columns(stratum_of("p(x, z) :- p(y, w), x = y, e(w, z).")) == [{"p": 0}]
    chained = "p(x, z) :- p(y, w), x = u, v = y, u = v, e(u, z), e(w, z)."
    assert columns(stratum_of(chained)) == [{"p": 0}]
    assert columns(stratum_of("p(x, z) :- p(y, w), x != y, e(w, x), e(x, z).")) == []


def test_equal_floats_are_no_key() -> None:
    """0.0 = -0.0, but the parts go by bits."""
    floats = ("p(x: float, y: number)",)
    assert columns(stratum_of("p(x, z) :- p(y, w), x = y, e(w, z).", *floats)) == []
    assert columns(stratum_of("p(x, z) :- p(x, w), e(w, z).", *floats)) == [{"p": 0}]


@pytest.mark.parametrize(
    ("body", "partitioned"),
    [
        ("e(x, y), f(z, x), q(y, z)", {"e": 0, "f": 1, "q": None}),
        ("e(x, y), e(z, x)", {"e": None}),
        ("e(x, y), e(x, z)", {"e": 0}),
        ("e(y, z), !f(x, z)", {"e": None, "f": 0}),
        ("e(y, z), !f(_, z)", {"e": None, "f": None}),
        ("e(x, z), !e(x, y), y < count : { f(_, x) }", {"e": 0, "f": 1}),
        ("e(x, z), y < count : { e(_, x) }", {"e": None}),
        ("e(x, z), y < count : { e(w, _), f(x, w) }", {"e": None, "f": 0}),
        ("e(u, z), x = u", {"e": 0}),
    ],
)
def test_what_is_partitioned_along(body: str, partitioned: dict[str, int | None]) -> None:
    keys = partition_keys(stratum_of(f"p(x, z) :- p(x, y), {body}."))
    found = next(key for key in keys if key.columns == {"p": 0})
    assert found.partitioned == partitioned
    assert found.broadcast == tuple(name for name, column in partitioned.items() if column is None)


def test_the_key_with_least_to_broadcast_then_most_values() -> None:
    wide = "r(a: number, b: number, c: number)"
    keys = partition_keys(stratum_of("r(a, b, z) :- r(a, b, y), e(a, y), f(b, z).", wide))
    assert [(dict(key.columns), dict(key.partitioned)) for key in keys] == [
        ({"r": 0}, {"e": 0, "f": None}),
        ({"r": 1}, {"e": None, "f": 0}),
    ]
    values: dict[tuple[str, int], float] = {("r", 0): 10, ("r", 1): 20}

    def distinct(relation: str, column: int) -> float:
        return values[relation, column]

    assert choose_key(keys, {"e": 5, "f": 3}, distinct) is keys[0]
    assert choose_key(keys, {"e": 3, "f": 5}, distinct) is keys[1]
    assert choose_key(keys, {"e": 4, "f": 4}, distinct) is keys[1]


def test_keys_are_bounded_and_found_quickly() -> None:
    """Sixteen relations, of eight equal columns each, have 8 ** 16 keys."""
    names = [f"p{i}" for i in range(16)]
    args, rules = ", ".join("x" * 8), ""
    for here, there in zip(names, names[1:] + names[:1], strict=True):
        rules += f"{there}({args}) :- {here}({args}), e(x, _).\n"
    wide = [f"{name}({', '.join(f'a{j}: number' for j in range(8))})" for name in names]
    keys = columns(stratum_of(rules, *wide))
    assert len(keys) == MOST_KEYS == len({tuple(sorted(key.items())) for key in keys})


# Rules that keep a column more often than not: {h} and {m} are recursive, {a} and {b} are below.
TEMPLATES = (
    "{h}(x, z) :- {m}(x, y), {a}(y, z).",
    "{h}(x, z) :- {m}(x, y), {n}(x, w), {a}(y, w), {b}(w, z).",
    "{h}(x, z) :- {m}(x, y), {a}(x, z), {b}(_, y).",
    "{h}(x, z) :- {m}(x, y), {a}(y, z), !{b}(x, z).",
    "{h}(x, z) :- {m}(y, w), x = y, {a}(w, z).",
    "{h}(x, z) :- {m}(x, y), {a}(_, z), y < count : {{ {b}(x, _) }}.",
    "{h}(x, z) :- {m}(x, z), {n}(x, z), 1 < count : {{ {b}(_, z) }}.",
    "{h}(x, (y + 1) % 5) :- {m}(x, y).",
    "{h}(z, x) :- {m}(x, y), {a}(y, z).",
    "{h}(x, z) :- {a}(x, y), {m}(y, z).",
    "{h}(x, x) :- {m}(x, _).",
)
BASE = ("{h}(x, y) :- {a}(x, y).", "{h}(x, z) :- {a}(x, y), {b}(y, z).", "{h}(1, 2).")
BELOW, ABOVE = ("e0", "e1", "d"), ("p", "q")


@st.composite
def keyed_programs(draw: st.DrawFn) -> Structured:
    """One recursive layer over two inputs and a derived relation."""
    lines = [f".decl {name}(x: number, y: number)" for name in (*BELOW, *ABOVE)]
    lines.append("d(x, y) :- e0(y, x), x != y.")
    for templates, most in ((BASE, 3), (TEMPLATES, 4)):
        for _ in range(draw(st.integers(1, most))):
            names = {slot: draw(st.sampled_from(ABOVE)) for slot in "hmn"}
            names |= {slot: draw(st.sampled_from(BELOW)) for slot in "ab"}
            lines.append(draw(st.sampled_from(templates)).format(**names))
    pairs = st.tuples(st.integers(0, 5), st.integers(0, 5))
    facts = {name: draw(st.lists(pairs, max_size=10)) for name in ("e0", "e1", "p")}
    return Structured("\n".join(lines), facts)


def part_of(facts: set[tuple[Any, ...]], column: int, part: int) -> set[tuple[Any, ...]]:
    return {row for row in facts if row[column] % PARTS == part}


def check_parts_run_alone(program: Program, stratum: Stratum, key: PartitionKey, loaded: Facts) -> None:
    """The parts by key, with what is partitioned along, have the whole in common, and no fact twice."""
    whole = naive(program, loaded)
    base = {name: set(loaded.get(name, ())) for name in stratum.relations}
    facts = [rule for rule in program.rules if not rule.body and rule.head.relation in base]
    for rule in [*facts, *(variant.rule for variant in stratum.once)]:
        base[rule.head.relation].update(consequences(rule, whole))
    recursive = tuple(dict.fromkeys(variant.rule for variant in stratum.recursive))
    alone = replace(program, rules=recursive, directives=())
    results = []
    for part in range(PARTS):
        given = {name: part_of(rows, key.columns[name], part) for name, rows in base.items()}
        for name, column in key.partitioned.items():
            given[name] = whole[name] if column is None else part_of(whole[name], column, part)
        results.append(naive(alone, given))
    for name in stratum.relations:
        parts = [result[name] for result in results]
        assert set().union(*parts) == whole[name]
        assert sum(map(len, parts)) == len(whole[name])


def run_all_keys(text: str, facts: Facts, prepare: Callable[[Program], Program]) -> None:
    program = prepare(parse_program(text))
    found = [(stratum, key) for stratum in recursive_strata(program) for key in partition_keys(stratum)]
    assume(found)
    for stratum, key in found:
        check_parts_run_alone(program, stratum, key, facts)


@given(keyed_programs())
@settings(max_examples=150, deadline=None)
def test_parts_run_alone(case: Structured) -> None:
    run_all_keys(case.text, {name: set(rows) for name, rows in case.facts.items()}, lambda program: program)


@given(structured_programs())
@settings(max_examples=150, deadline=None)
def test_parts_of_structured_programs_run_alone(case: Structured) -> None:
    run_all_keys(case.text, {name: set(rows) for name, rows in case.facts.items()}, rewrite)
