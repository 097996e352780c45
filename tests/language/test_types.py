"""Types: subtypes, aliases, unions, records, ADTs, inference and its errors."""

from __future__ import annotations

import pytest

from gpuengine.language import parse_program
from gpuengine.language.program import FLOAT, NUMBER, Atom, Kind, Type, Variable
from tests.language.rendering import codes_of, diagnostics, errors, facts, rules

SUBTYPES = """
.type A <: number .type B <: number .type AB = A | B .type Same = A .type S <: symbol
.decl a(x: A) .decl b(x: B) .decl ab(x: AB) .decl n(x: number) .decl same(x: Same) .decl s(x: S)
"""


def test_types_and_their_spaces() -> None:
    program = parse_program(
        SUBTYPES + ".type R = [x: A, rest: R] .type R2 <: R .type D = L { x: number } | N {} .type OldStyle"
    )
    types = program.types
    assert types["A"] == Type("A", Kind.NUMBER, "number")
    assert types["AB"] == Type("AB", Kind.NUMBER, "number")
    assert types["Same"] == types["A"]
    assert types["S"].space == types["OldStyle"].space == "symbol"
    assert types["R"] == Type("R", Kind.RECORD, "R")
    assert types["R2"] == Type("R2", Kind.RECORD, "R")
    assert [(field.name, field.type.name) for field in program.records["R"].fields] == [
        ("x", "A"),
        ("rest", "R"),
    ]
    assert [branch.name for branch in program.adts["D"].branches] == ["L", "N"]


def test_declarations_may_come_in_any_order() -> None:
    program = parse_program(".decl p(x: C)\n.type C <: B\n.type B = A\n.type A <: symbol\n")
    assert program.relations["p"].attributes[0].type == Type("C", Kind.SYMBOL, "symbol")


def test_old_type_declarations() -> None:
    types = parse_program(".number_type N\n.symbol_type S\n.type T").types
    assert [types[name].space for name in "NST"] == ["number", "symbol", "symbol"]


def variable_types(text: str) -> dict[str, str]:
    rule = parse_program(SUBTYPES + text).rules[0]
    atoms = [rule.head, *(literal for literal in rule.body if isinstance(literal, Atom))]
    return {arg.name: arg.type.name for atom in atoms for arg in atom.args if isinstance(arg, Variable)}


@pytest.mark.parametrize(
    ("rule", "type_"),
    [
        ("n(x) :- a(x).", "A"),
        ("n(x) :- ab(x), a(x).", "A"),
        ("ab(x) :- a(x).", "A"),
        ("a(x) :- same(x).", "A"),
        ("n(x) :- n(x), a(x).", "A"),
        ("n(x) :- n(x).", "number"),
        ("a(x) :- n(y), x = as(y, A).", "A"),
        ("a(x) :- n(y), x = y + 1.", "number"),
        ("a(x) :- x = 1.", "number"),
        ("a(x) :- a(y), x = y.", "A"),
    ],
)
def test_a_variable_has_the_greatest_type_below_its_uses(rule: str, type_: str) -> None:
    assert variable_types(rule)["x"] == type_


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("n(x) :- a(x), b(x).", "E0302"),
        ("n(x) :- a(x), b(y), x = y.", "E0302"),
        ("a(x) :- n(x).", "E0303"),
        ("a(x) :- ab(x).", "E0303"),
        ("a(x) :- n(y), x = y.", "E0303"),
        ("a(as(x, B)) :- n(x).", "E0303"),
        ("a(as(x, number)) :- n(x).", "E0303"),
        ("n(x) :- n(x), a(as(x, B)).", "E0302"),
    ],
)
def test_subtypes_that_do_not_fit(rule: str, code: str) -> None:
    assert codes_of(SUBTYPES + rule) == [code]


@pytest.mark.parametrize(
    "rule",
    [
        "n(x) :- n(x), !a(x).",
        "b(x) :- b(x), !a(x).",
        "ab(x) :- ab(x), !a(x), !b(x).",
        "n(x) :- n(x), !a(as(x, B)).",
        "n(x) :- n(x), a(as(x, number)).",
        "n(x) :- n(x), a(as(x, A)).",
    ],
)
def test_what_is_negated_or_cast_and_read_needs_a_common_base_only(rule: str) -> None:
    assert len(rules(SUBTYPES + rule)) == 1


def test_constants_and_computed_values_fit_any_subtype() -> None:
    assert rules(SUBTYPES + 'a(1). a(x + 1) :- n(x). s("a"). s(cat(x, "b")) :- s(x).') == [
        "a(@1) :- @1 = +(x, 1), n(x)",
        "s(@1) :- @1 = cat(x, 'b'), s(x)",
    ]


def test_casts() -> None:
    text = ".decl n(x: number) .decl u(x: unsigned) .decl f(x: float)\n"
    assert rules(text + "u(as(x, unsigned)) :- n(x). f(as(x, float)) :- u(x). n(as(x, number)) :- n(x).") == [
        "u(@1) :- @1 = as(x), n(x)",
        "f(@1) :- @1 = as(x), u(x)",
        "n(x) :- n(x)",
    ]
    assert rules(text + 'n(as("a", number)).') == ["n(@1) :- @1 = as('a')"]
    assert codes_of(text + 'f(as("a", float)).') == ["E0306"]
    assert codes_of(text + "n(as(1, nummer)).") == ["E0105"]


RECORDS = """
.type List = [head: number, tail: List] .type Pair = [x: symbol, y: List] .type Unit = []
.decl l(x: List) .decl p(x: Pair) .decl n(x: number) .decl u(x: Unit)
"""


def test_records() -> None:
    assert facts(RECORDS + "l(nil).") == ["l(nil)"]
    assert rules(RECORDS + 'l([1, [2, nil]]). u([]). p(["a", l]) :- l(l).') == [
        "l(@1) :- @1 = [1, [2, nil]]",
        "u(@1) :- @1 = []",
        "p(@1) :- @1 = ['a', l], l(l)",
    ]


def test_record_patterns() -> None:
    assert rules(RECORDS + "n(x) :- l([x, _]). l(t) :- l(l), l = [_, t], t != nil.") == [
        "n(x) :- l(@2), @2 = [x, @1]",
        "l(t) :- l(l), l = [@1, t], t != nil",
    ]


def test_a_wildcard_of_a_record_can_not_be_built() -> None:
    assert codes_of(RECORDS + "l(x) :- n(y), x = [y, _].") == ["E0401"]
    assert codes_of(RECORDS + "l([x, _]) :- n(x).") == ["E0402"]


def test_wrong_records() -> None:
    assert codes_of(RECORDS + "l([1]).") == ["E0305"]
    assert codes_of(RECORDS + 'l(["a", nil]).') == ["E0301"]
    assert codes_of(RECORDS + "n(1) :- [1, 2] = x, n(x).") == ["E0301"]
    assert codes_of(RECORDS + "n(1) :- [1, 2] != [1, 2].") == ["E0304", "E0304"]
    assert codes_of(RECORDS + "n(1) :- nil = nil.") == ["E0304", "E0304"]
    assert codes_of(RECORDS + "n(x) :- l(x).") == ["E0301"]
    assert codes_of(RECORDS + "n(1) :- l(x), p(y), x = y.") == ["E0301"]
    assert codes_of(RECORDS + "n(1) :- l(x), l(y), x < y.") == ["E0301", "E0301"]
    assert codes_of(RECORDS + "n(1) :- n(x), !l([x, _]).") == ["E0402"]


def test_a_cast_says_which_record() -> None:
    assert rules(RECORDS + "n(1) :- as([1, nil], List) = x, !l(x).") == ["n(1) :- [1, nil] = x, !l(x)"]


ADTS = """
.type Expr = Num { v: number } | Add { l: Expr, r: Expr } | Unknown {}
.decl e(x: Expr) .decl n(x: number)
"""


def test_adts() -> None:
    assert rules(
        ADTS + "e($Add($Num(1), $Unknown)). e($Unknown()). n(v) :- e($Num(v)). e(l) :- e($Add(l, _))."
    ) == [
        "e(@1) :- @1 = $Add($Num(1), $Unknown())",
        "e(@1) :- @1 = $Unknown()",
        "n(v) :- e(@1), @1 = $Num(v)",
        "e(l) :- e(@2), @2 = $Add(l, @1)",
    ]


def test_an_empty_branch_may_end_a_clause() -> None:
    assert rules(ADTS + "n(1) :- e(x), x = $Unknown.\nn(2) :- e($Unknown).") == [
        "n(1) :- e(x), x = $Unknown()",
        "n(2) :- e(@1), @1 = $Unknown()",
    ]


def test_wrong_adts() -> None:
    assert codes_of(ADTS + "e($Nmu(1)).") == ["E0110"]
    assert codes_of(ADTS + "e($Num(1, 2)).") == ["E0305"]
    assert codes_of(ADTS + 'e($Num("a")).') == ["E0301"]
    assert codes_of(ADTS + "n($Num(1)).") == ["E0301"]
    assert codes_of(ADTS + ".type Other = Num { x: number }") == ["E0102"]


def test_inference_through_equations_and_functors() -> None:
    text = ".decl f(x: float) .decl u(x: unsigned) .decl n(x: number) .decl s(x: symbol)\n"
    program = parse_program(text + "f(z) :- f(x), z = x + y, y = 2 * 3.")
    assert {var.type for var in program.rules[0].head.args if isinstance(var, Variable)} == {FLOAT}
    program = parse_program(text + "n(x) :- n(x), 1 < 2.")
    assert program.rules[0].body[1].left.type == NUMBER  # type: ignore[union-attr]
    assert rules(text + "s(to_string(x)) :- u(x). n(to_number(x)) :- s(x). u(to_unsigned(x)) :- f(x).") == [
        "s(@1) :- @1 = to_string(x), u(x)",
        "n(@1) :- @1 = to_number(x), s(x)",
        "u(@1) :- @1 = to_unsigned(x), f(x)",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        'n("a").',
        "s(1).",
        "n(1.5).",
        "n(1u).",
        "u(-x) :- u(x).",
        "n(x) :- f(x).",
        "f(x % 2) :- f(x).",
        "f(x band 1) :- f(x).",
        "n(x) :- n(x), x < 1.5.",
        'n(x) :- n(x), x = "a".',
        "n(x) :- n(x), match(x, x).",
        "n(strlen(x)) :- n(x).",
        'n(min(x, "a")) :- n(x).',
        "n(x + y) :- n(x), u(y).",
        'n(1 + "a").',
    ],
)
def test_kinds_do_not_mix(rule: str) -> None:
    text = ".decl f(x: float) .decl u(x: unsigned) .decl n(x: number) .decl s(x: symbol)\n"
    assert set(codes_of(text + rule)) == {"E0301"}


def test_numbers_that_do_not_fit() -> None:
    text = ".decl u(x: unsigned) .decl n(x: number)\n"
    assert errors(text + "n(9223372036854775808).") == [("E0005", 2, 3)]
    assert errors(text + "n(-9223372036854775809).") == [("E0005", 2, 3)]
    assert errors(text + "n(18446744073709551616).") == [("E0005", 2, 3)]
    assert errors(text + f"n({'9' * 10_000}).") == [("E0005", 2, 3)]
    assert errors(text + "u(-1).") == [("E0005", 2, 3)]
    assert errors(text + "n(1.2.3.256).") == [("E0005", 2, 3)]
    assert errors(".decl f(x: float)\n" + f"f({'9' * 400}.0).") == [("E0005", 2, 3)]


def test_functor_arguments_are_counted() -> None:
    text = ".decl n(x: number) .decl s(x: symbol)\n"
    for call in ("strlen()", 'strlen("a", "b")', "range(1)", "range(1, 2, 3, 4)", 'ord("a", "b")'):
        assert "E0305" in codes_of(text + f"n({call}).")
    assert codes_of(text + 's(substr("a", 1)).') == ["E0305"]
    assert codes_of(text + 's(cat("a")).') == ["E0305"]


def test_wrong_type_declarations() -> None:
    assert errors(".type L = L") == [("E0106", 1, 7)]
    assert {code for code, _, _ in errors(".type A <: B\n.type B = A | A")} == {"E0106"}
    assert errors(".type U = number | symbol") == [("E0107", 1, 7)]
    assert errors(".type A <: Nowhere") == [("E0105", 1, 12)]
    assert errors(".type A <: number\n.type A <: symbol") == [("E0102", 2, 7)]
    assert errors(".type number <: symbol") == [("E0102", 1, 7)]
    assert errors(".type R = [x: number, x: number]") == [("E0103", 1, 23)]


def test_a_misspelt_type_is_suggested_and_causes_no_other_error() -> None:
    found = diagnostics('.type City <: symbol\n.decl p(x: Citty)\np("Oslo"). p(1).')
    assert [(error.code, error.hint) for error in found] == [("E0105", "did you mean the type 'City'?")]
