"""The oracle against answers worked out by hand, on programs built node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpuengine.errors import EvaluationError, Span
from gpuengine.language.program import (
    FLOAT,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    Aggregate,
    Atom,
    Attribute,
    Comparison,
    Constant,
    Directive,
    Functor,
    Kind,
    Literal,
    Negation,
    Pack,
    Program,
    Relation,
    Rule,
    Type,
    Variable,
    Wildcard,
)
from tests.oracle import naive, strata, text
from tests.oracle_functors import apply, span

HERE = Span("test.dl", 1, 1, 1, 2)
X, Y, Z, N = (Variable(name, NUMBER) for name in "xyzn")
_ = Wildcard()
LIST = Type("List", Kind.RECORD, "List")
TREE = Type("Tree", Kind.ADT, "Tree")


def atom(relation: str, *args: Any) -> Atom:
    return Atom(
        relation, tuple(arg if not isinstance(arg, int) else Constant(arg, NUMBER) for arg in args), HERE
    )


def rule(head: Atom, *body: Literal) -> Rule:
    return Rule(head, body, HERE, "")


def equal(left: Any, right: Any) -> Comparison:
    return Comparison("=", left, right, HERE)


def number(value: int) -> Constant:
    return Constant(value, NUMBER)


def program(relations: Mapping[str, tuple[Type, ...]], *rules: Rule, **extra: Any) -> Program:
    eqrel = extra.pop("eqrel", ())
    declared = {
        name: Relation(
            name,
            tuple(Attribute(f"a{i}", type_) for i, type_ in enumerate(types)),
            frozenset({"eqrel"} if name in eqrel else ()),
            HERE,
        )
        for name, types in relations.items()
    }
    return Program(declared, rules, extra.get("directives", ()), {}, {}, ())


EDGES = {"edge": (NUMBER, NUMBER), "path": (NUMBER, NUMBER)}
CLOSURE = (
    rule(atom("path", X, Y), atom("edge", X, Y)),
    rule(atom("path", X, Z), atom("path", X, Y), atom("edge", Y, Z)),
)


def test_transitive_closure() -> None:
    found = naive(program(EDGES, *CLOSURE), {"edge": [(1, 2), (2, 3), (3, 1), (4, 4)]})
    assert found["path"] == {(x, y) for x in (1, 2, 3) for y in (1, 2, 3)} | {(4, 4)}


def test_facts_constants_repeated_variables_and_wildcards() -> None:
    loops = program(
        {"edge": (NUMBER, NUMBER), "loop": (NUMBER,), "from_one": (NUMBER,), "source": (NUMBER,)},
        rule(atom("edge", 1, 1)),
        rule(atom("loop", X), atom("edge", X, X)),
        rule(atom("from_one", X), atom("edge", 1, X)),
        rule(atom("source", X), atom("edge", X, _)),
    )
    found = naive(loops, {"edge": [(1, 2), (2, 3)]})
    assert found["loop"] == {(1,)}
    assert found["from_one"] == {(1,), (2,)}
    assert found["source"] == {(1,), (2,)}


def test_negation_reads_the_finished_stratum() -> None:
    unreachable = program(
        {**EDGES, "node": (NUMBER,), "cut": (NUMBER, NUMBER)},
        rule(atom("cut", X, Y), atom("node", X), atom("node", Y), Negation(atom("path", X, Y))),
        *CLOSURE,
    )
    found = naive(unreachable, {"edge": [(1, 2), (2, 3)], "node": [(1,), (2,), (3,)]})
    assert found["cut"] == {(1, 1), (2, 2), (3, 3), (2, 1), (3, 1), (3, 2)}


def test_strata_put_dependencies_first_and_cycles_together() -> None:
    mutual = program(
        {"even": (NUMBER,), "odd": (NUMBER,), "base": (NUMBER,)},
        rule(atom("even", X), atom("odd", X)),
        rule(atom("odd", X), atom("even", X), atom("base", X)),
    )
    assert strata(mutual) == [frozenset({"base"}), frozenset({"even", "odd"})]


def test_equations_bind_and_filter_whatever_their_order() -> None:
    successor = Functor("+", (X, number(1)), NUMBER, HERE)
    count = program(
        {"n": (NUMBER,)},
        rule(atom("n", 0)),
        rule(atom("n", Y), equal(successor, Y), Comparison("<", X, number(4), HERE), atom("n", X)),
    )
    assert naive(count, {})["n"] == {(i,) for i in range(5)}


def test_aggregates_with_outer_variables_over_distinct_bindings() -> None:
    body = (atom("edge", X, Y),)
    values = program(
        {
            "node": (NUMBER,),
            "edge": (NUMBER, NUMBER),
            "out": (NUMBER, NUMBER),
            "top": (NUMBER, NUMBER),
            "all": (NUMBER,),
        },
        rule(atom("out", X, N), atom("node", X), Aggregate(N, "count", None, body, (X,), HERE)),
        rule(atom("top", X, N), atom("node", X), Aggregate(N, "max", Y, body, (X,), HERE)),
        rule(atom("all", N), Aggregate(N, "sum", Y, body, (), HERE)),
    )
    found = naive(values, {"node": [(1,), (2,), (3,)], "edge": [(1, 5), (1, 6), (2, 5)]})
    assert found["out"] == {(1, 2), (2, 1), (3, 0)}
    assert found["top"] == {(1, 6), (2, 5)}
    assert found["all"] == {(16,)}


def test_nested_aggregate() -> None:
    # The greatest out-degree: max n : { edge(x, _), n = count : { edge(x, y) } }.
    inner = Aggregate(N, "count", None, (atom("edge", X, Y),), (X,), HERE)
    outer = Aggregate(Z, "max", N, (atom("edge", X, Variable("w", NUMBER)), inner), (), HERE)
    degrees = program({"edge": (NUMBER, NUMBER), "best": (NUMBER,)}, rule(atom("best", Z), outer))
    assert naive(degrees, {"edge": [(1, 2), (1, 3), (1, 4), (2, 3)]})["best"] == {(3,)}


def test_range_yields_every_value() -> None:
    numbers = program(
        {"n": (NUMBER,), "hit": (NUMBER,)},
        rule(atom("n", X), equal(X, Functor("range", (number(3), number(0)), NUMBER, HERE))),
        rule(atom("hit", X), atom("n", X), equal(Functor("range", (number(0), number(2)), NUMBER, HERE), X)),
    )
    found = naive(numbers, {})
    assert found["n"] == {(3,), (2,), (1,)}
    assert found["hit"] == {(1,)}


def test_records_and_adts_are_built_and_matched() -> None:
    cell, tree = Variable("l", LIST), Variable("t", TREE)
    terms = program(
        {"list": (LIST,), "head": (NUMBER,), "tree": (TREE,), "leaf": (NUMBER,)},
        rule(atom("list", cell), equal(cell, Pack(LIST, None, (number(7), Constant(None, LIST))))),
        rule(atom("list", Constant(None, LIST))),
        rule(atom("head", X), atom("list", cell), equal(Pack(LIST, None, (X, _)), cell)),
        rule(atom("tree", tree), equal(tree, Pack(TREE, "Leaf", (number(1),)))),
        rule(atom("tree", tree), equal(tree, Pack(TREE, "Empty", ()))),
        rule(atom("leaf", X), atom("tree", tree), equal(tree, Pack(TREE, "Leaf", (X,)))),
    )
    found = naive(terms, {})
    assert found["list"] == {(("[]", 7, None),), (None,)}
    assert found["head"] == {(7,)}
    assert found["leaf"] == {(1,)}
    assert {text(row[0], Kind.RECORD) for row in found["list"]} == {"[7, nil]", "nil"}
    assert {text(row[0], Kind.ADT) for row in found["tree"]} == {"$Leaf(1)", "$Empty"}


def test_eqrel_closes_what_is_mentioned() -> None:
    same = program({"same": (NUMBER, NUMBER)}, eqrel=["same"])
    found = naive(same, {"same": [(1, 2), (3, 2), (5, 5)]})
    assert found["same"] == {(x, y) for x in (1, 2, 3) for y in (1, 2, 3)} | {(5, 5)}


def test_limitsize_stops_the_recursion() -> None:
    successor = Functor("+", (X, number(1)), NUMBER, HERE)
    endless = program(
        {"n": (NUMBER,)},
        rule(atom("n", 0)),
        rule(atom("n", Y), atom("n", X), equal(Y, successor)),
        directives=(Directive("limitsize", "n", {"n": "5"}, HERE),),
    )
    assert naive(endless, {})["n"] == {(i,) for i in range(5)}


@pytest.mark.parametrize(
    ("op", "pattern", "subject", "holds"),
    [
        ("match", "a.*", "abc", True),
        ("match", "b", "abc", False),
        ("!match", "b", "abc", True),
        ("contains", "b", "abc", True),
        ("!contains", "b", "abc", False),
        ("<", "a", "b", True),
        (">=", "é", "z", True),
    ],
)
def test_comparisons_of_symbols(op: str, pattern: str, subject: str, holds: bool) -> None:
    check = program(
        {"yes": ()},
        rule(atom("yes"), Comparison(op, Constant(pattern, SYMBOL), Constant(subject, SYMBOL), HERE)),
    )
    assert naive(check, {})["yes"] == ({()} if holds else set())


TOP, BOTTOM = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("op", "kind", "args", "expected"),
    [
        ("+", Kind.NUMBER, (TOP, 1), BOTTOM),
        ("-", Kind.UNSIGNED, (0, 1), 2**64 - 1),
        ("*", Kind.NUMBER, (2**62, 4), 0),
        ("neg", Kind.NUMBER, (BOTTOM,), BOTTOM),
        ("/", Kind.NUMBER, (-7, 2), -3),
        ("%", Kind.NUMBER, (-7, 2), -1),
        ("%", Kind.NUMBER, (7, -2), 1),
        ("/", Kind.NUMBER, (BOTTOM, -1), BOTTOM),
        ("/", Kind.UNSIGNED, (2**64 - 1, 2), TOP),
        ("/", Kind.FLOAT, (1.0, 0.0), float("inf")),
        ("^", Kind.NUMBER, (-3, 3), -27),
        ("^", Kind.NUMBER, (2, -1), 0),
        ("^", Kind.FLOAT, (2.0, -1.0), 0.5),
        ("bshl", Kind.NUMBER, (1, 63), BOTTOM),
        ("bshl", Kind.NUMBER, (1, 64), 1),
        ("bshr", Kind.NUMBER, (-8, 1), -4),
        ("bshru", Kind.NUMBER, (-1, 63), 1),
        ("bnot", Kind.UNSIGNED, (0,), 2**64 - 1),
        ("band", Kind.NUMBER, (-1, 6), 6),
        ("bxor", Kind.NUMBER, (5, 1), 4),
        ("lnot", Kind.NUMBER, (7,), 0),
        ("land", Kind.NUMBER, (7, 8), 1),
        ("lxor", Kind.NUMBER, (7, 8), 0),
        ("min", Kind.NUMBER, (3, -1, 2), -1),
        ("max", Kind.SYMBOL, ("b", "ab"), "b"),
        ("cat", Kind.SYMBOL, ("a", "", "b"), "ab"),
    ],
)
def test_functors(op: str, kind: Kind, args: tuple[Any, ...], expected: Any) -> None:
    assert apply(op, kind, list(args), [kind] * len(args)) == expected


@pytest.mark.parametrize(
    ("op", "result", "args", "kinds", "expected"),
    [
        ("strlen", NUMBER, ("héé",), (SYMBOL,), 5),
        ("substr", SYMBOL, ("hello", 1, 3), (SYMBOL, NUMBER, NUMBER), "ell"),
        ("substr", SYMBOL, ("hello", 3, 9), (SYMBOL, NUMBER, NUMBER), "lo"),
        ("substr", SYMBOL, ("hello", 9, 1), (SYMBOL, NUMBER, NUMBER), ""),
        ("substr", SYMBOL, ("hello", -1, 1), (SYMBOL, NUMBER, NUMBER), ""),
        ("to_number", NUMBER, ("-12",), (SYMBOL,), -12),
        ("to_number", NUMBER, (-2.9,), (FLOAT,), -2),
        ("to_unsigned", UNSIGNED, (-1,), (NUMBER,), 2**64 - 1),
        ("to_string", SYMBOL, (1.5,), (FLOAT,), "1.500000"),
        ("to_float", FLOAT, ("2.5",), (SYMBOL,), 2.5),
        ("as", NUMBER, (2**64 - 1,), (UNSIGNED,), -1),
        ("as", FLOAT, (0x3FF0000000000000,), (NUMBER,), 1.0),
    ],
)
def test_conversions(
    op: str, result: Type, args: tuple[Any, ...], kinds: tuple[Type, ...], expected: Any
) -> None:
    assert apply(op, result.kind, list(args), [type_.kind for type_ in kinds]) == expected


@pytest.mark.parametrize(
    ("op", "args", "kinds"),
    [("/", (1, 0), (NUMBER, NUMBER)), ("%", (1, 0), (NUMBER, NUMBER)), ("to_number", ("x",), (SYMBOL,))],
)
def test_functors_that_fail(op: str, args: tuple[Any, ...], kinds: tuple[Type, ...]) -> None:
    with pytest.raises(EvaluationError):
        apply(op, Kind.NUMBER, list(args), [type_.kind for type_ in kinds])


@pytest.mark.parametrize(
    ("kind", "args", "expected"),
    [
        (Kind.NUMBER, (0, 3), [0, 1, 2]),
        (Kind.NUMBER, (3, 3), []),
        (Kind.UNSIGNED, (3, 1), [3, 2]),
        (Kind.NUMBER, (0, 7, 3), [0, 3, 6]),
        (Kind.NUMBER, (0, 7, -1), []),
        (Kind.NUMBER, (5, 7, 0), [5]),
        (Kind.FLOAT, (0.0, 1.0, 0.5), [0.0, 0.5]),
        (Kind.NUMBER, (TOP - 1, TOP, 5), [TOP - 1]),
    ],
)
def test_range(kind: Kind, args: tuple[Any, ...], expected: list[Any]) -> None:
    assert list(span(kind, *args)) == expected
