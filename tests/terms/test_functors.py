"""Functors, comparisons and ranges against plain Python, value by value."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuengine.errors import EvaluationError, FunctorError, Span
from gpuengine.language.program import (
    FLOAT,
    NUMBER,
    SYMBOL,
    UNSIGNED,
    Comparison,
    Constant,
    Functor,
    Term,
    Type,
    Variable,
)
from gpuengine.terms.dictionary import IDENTITY, Dictionary
from gpuengine.terms.functors import evaluate, expand_range, holds

SPAN = Span("rules.dl", 3, 7, 3, 12)
DTYPES = {NUMBER: np.int64, UNSIGNED: np.uint64, FLOAT: np.float64}

edges = [0, 1, 2, 3, 7, 63, 64, 65, IDENTITY - 1, IDENTITY, 2**31, 2**53, 2**62, 2**63 - 1]
signed = st.one_of(
    st.sampled_from([*edges, *(-e for e in edges), -(2**63)]), st.integers(-(2**63), 2**63 - 1)
)
unsigned = st.one_of(st.sampled_from([*edges, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
floats = st.one_of(st.sampled_from([0.0, -0.0, 1.5, -2.5, 1e300, math.inf, -math.inf]), st.floats())
symbols = st.one_of(st.sampled_from(["", "a", "ab", "b", "ä", "aä", "zz", "\U0001f600"]), st.text(max_size=6))
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    NUMBER: signed,
    UNSIGNED: unsigned,
    FLOAT: floats,
    SYMBOL: symbols,
}


def wrap(value: int, type_: Type) -> int:
    value &= 2**64 - 1
    return value - 2**64 if type_ is NUMBER and value >= 2**63 else value


def column(dictionary: Dictionary, type_: Type, values: list[Any]) -> np.ndarray:
    given_values = values if type_ is SYMBOL else np.array(values, DTYPES[type_])
    return dictionary.encode(type_.space, given_values)


def decoded(dictionary: Dictionary, type_: Type, ids: np.ndarray) -> list[Any]:
    if type_ is SYMBOL:
        text = dictionary.text(ids)
        return [text.data[a:b].tobytes() for a, b in zip(text.starts, text.ends, strict=True)]
    return dictionary.values(type_.space, ids).tolist()


def same(left: Any, right: Any) -> bool:
    if isinstance(right, str):
        right = right.encode()
    if isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right) or (left != left and right != right)
    return type(left) is type(right) and left == right


def run(op: str, arg_types: list[Type], result: Type, rows: list[tuple[Any, ...]]) -> list[Any]:
    """The functor over variables; checked to be the same row by row over constants."""
    dictionary = Dictionary()
    variables = tuple(Variable(f"x{i}", t) for i, t in enumerate(arg_types))
    columns = list(zip(*rows, strict=True))
    bindings = {v: column(dictionary, v.type, list(c)) for v, c in zip(variables, columns, strict=True)}
    ids = evaluate(Functor(op, variables, result, SPAN), bindings, len(rows), dictionary)
    assert ids.dtype == np.uint32 and len(ids) == len(rows)
    values = decoded(dictionary, result, ids)
    constants = tuple(Constant(value, t) for value, t in zip(rows[0], arg_types, strict=True))
    repeated = evaluate(Functor(op, constants, result, SPAN), {}, 2, dictionary)
    assert all(same(value, values[0]) for value in decoded(dictionary, result, repeated))
    return values


def check(op: str, arg_types: list[Type], result: Type, rows: list[Any], expect: Callable[..., Any]) -> None:
    got = run(op, arg_types, result, rows)
    for row, value in zip(rows, got, strict=True):
        wanted = expect(*row)
        assert same(value, wanted), (op, row, value, wanted)


def tuples(*types: Type) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(*(VALUES[t] for t in types)), min_size=1, max_size=30)


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": truncated,
    "%": lambda a, b: a - b * truncated(a, b),
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bshl": lambda a, b: a << (b & 63),
    "bshr": lambda a, b: a >> (b & 63),
    "bshru": lambda a, b: (a & (2**64 - 1)) >> (b & 63),
    "land": lambda a, b: int(a != 0 and b != 0),
    "lor": lambda a, b: int(a != 0 or b != 0),
    "lxor": lambda a, b: int((a != 0) != (b != 0)),
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("type_", [NUMBER, UNSIGNED], ids=lambda t: t.name)
@pytest.mark.parametrize("op", INTEGER_OPS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_integer_operators(op: str, type_: Type, data: st.DataObject) -> None:
    rows = data.draw(tuples(type_, type_))
    if op in "/%":
        rows = [(a, b or 1) for a, b in rows]
    check(op, [type_, type_], type_, rows, lambda a, b: wrap(INTEGER_OPS[op](a, b), type_))


@pytest.mark.parametrize("type_", [NUMBER, UNSIGNED], ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("op", "expect"),
    [("neg", lambda a: -a), ("bnot", lambda a: ~a), ("lnot", lambda a: int(a == 0))],
)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_unary_integers(op: str, expect: Any, type_: Type, data: st.DataObject) -> None:
    check(op, [type_], type_, data.draw(tuples(type_)), lambda a: wrap(expect(a), type_))


def c_pow(a: int, b: int, type_: Type) -> int:
    """C's pow truncated where it fits the type, else the nearest integer of the type."""
    try:
        rounded = math.pow(a, b)
    except OverflowError:
        rounded = -math.inf if a < 0 and b % 2 else math.inf
    if abs(rounded) < (2.0**63 if type_ is NUMBER else 2.0**64):
        return wrap(int(rounded), type_)
    least, most = (-(2**63), 2**63 - 1) if type_ is NUMBER else (0, 2**64 - 1)
    return most if rounded > 0 else least


@pytest.mark.parametrize("type_", [NUMBER, UNSIGNED], ids=lambda t: t.name)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_integer_power(type_: Type, data: st.DataObject) -> None:
    small = st.integers(-3 if type_ is NUMBER else 0, 70)
    rows = data.draw(st.lists(st.tuples(st.one_of(small, VALUES[type_]), small), min_size=1))
    rows = [(a or 2, b) for a, b in rows]
    check("^", [type_, type_], type_, rows, lambda a, b: c_pow(a, b, type_))


def test_integer_power_rounds_like_a_double_and_is_exact_below() -> None:
    assert run("^", [NUMBER, NUMBER], NUMBER, [(3, 33), (3, 35), (-2, 63), (2, 64), (7, 0), (2, -1)]) == [
        3**33,
        int(float(3**35)),
        -(2**63),
        2**63 - 1,
        1,
        0,
    ]
    assert int(float(3**35)) != 3**35


FLOAT_OPS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: float(np.divide(a, b)),
    "min": lambda a, b: b if b < a else a,
    "max": lambda a, b: b if a < b else a,
}


@pytest.mark.parametrize("op", FLOAT_OPS)
@settings(max_examples=25, deadline=None)
@given(rows=tuples(FLOAT, FLOAT))
def test_float_operators(op: str, rows: list[Any]) -> None:
    with np.errstate(all="ignore"):
        check(op, [FLOAT, FLOAT], FLOAT, rows, FLOAT_OPS[op])


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(-20, 20)), min_size=1))
def test_float_power_and_negation(rows: list[Any]) -> None:
    check("^", [FLOAT, FLOAT], FLOAT, rows, math.pow)
    check("neg", [FLOAT], FLOAT, [(a,) for a, _ in rows], lambda a: -a)


def test_min_and_max_take_many_arguments() -> None:
    assert run("min", [NUMBER] * 4, NUMBER, [(3, -9, 2**40, 5)]) == [-9]
    assert run("max", [UNSIGNED] * 3, UNSIGNED, [(3, 2**63, 5)]) == [2**63]
    assert run("max", [SYMBOL] * 3, SYMBOL, [("a", "zz", "ä")]) == ["ä".encode()]


@settings(max_examples=40, deadline=None)
@given(rows=tuples(SYMBOL, SYMBOL))
def test_min_and_max_of_symbols_go_by_bytes(rows: list[Any]) -> None:
    check("min", [SYMBOL] * 2, SYMBOL, rows, lambda a, b: min(a, b, key=str.encode))
    check("max", [SYMBOL] * 2, SYMBOL, rows, lambda a, b: max(a, b, key=str.encode))


@settings(max_examples=40, deadline=None)
@given(rows=tuples(SYMBOL, SYMBOL, SYMBOL))
def test_cat_and_strlen(rows: list[Any]) -> None:
    check("cat", [SYMBOL] * 3, SYMBOL, rows, lambda *parts: "".join(parts))
    check("strlen", [SYMBOL], NUMBER, [(a,) for a, _, _ in rows], lambda a: len(a.encode()))


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(symbols, st.integers(-2, 9), st.integers(-2, 9)), min_size=1))
def test_substr(rows: list[Any]) -> None:
    def expect(text: str, start: int, length: int) -> bytes:
        raw = text.encode()
        if not 0 <= start <= len(raw):
            return b""
        found = raw[start:] if length < 0 else raw[start : start + length]
        return found.decode(errors="replace").encode()

    for row, value in zip(rows, run("substr", [SYMBOL, NUMBER, NUMBER], SYMBOL, rows), strict=True):
        assert value == expect(*row), row


def test_substr_with_extreme_positions() -> None:
    big = 2**63 - 1
    rows = [("abc", 1, big), ("abc", big, 1), ("abc", -(2**63), 1), ("abc", 1, -(2**63)), ("abc", 3, 1)]
    assert run("substr", [SYMBOL, NUMBER, NUMBER], SYMBOL, rows) == [b"bc", b"", b"", b"bc", b""]


def test_computed_strings_nest_without_being_interned() -> None:
    dictionary = Dictionary()
    x = Variable("x", SYMBOL)
    bindings = {x: dictionary.encode("symbol", ["abcdef", "xyz"])}
    inner = Functor("cat", (x, Constant("-", SYMBOL), x), SYMBOL, SPAN)
    cut = Functor("substr", (inner, Constant(2, NUMBER), Constant(4, NUMBER)), SYMBOL, SPAN)
    ids = evaluate(Functor("strlen", (cut,), NUMBER, SPAN), bindings, 2, dictionary)
    assert ids.tolist() == [4, 4]
    assert dictionary.bound("symbol") == 2
    assert decoded(dictionary, SYMBOL, evaluate(cut, bindings, 2, dictionary)) == [b"cdef", b"z-xy"]
    assert dictionary.bound("symbol") == 4


def test_ord_is_the_id() -> None:
    dictionary = Dictionary()
    x = Variable("x", SYMBOL)
    ids = dictionary.encode("symbol", ["b", "a", "b"])
    assert evaluate(Functor("ord", (x,), NUMBER, SPAN), {x: ids}, 3, dictionary).tolist() == [0, 1, 0]


@settings(max_examples=40, deadline=None)
@given(rows=tuples(NUMBER, UNSIGNED, FLOAT))
def test_to_string(rows: list[Any]) -> None:
    check("to_string", [NUMBER], SYMBOL, [(a,) for a, _, _ in rows], str)
    check("to_string", [UNSIGNED], SYMBOL, [(b,) for _, b, _ in rows], str)
    finite = [(c,) for _, _, c in rows if math.isfinite(c)] or [(0.5,)]
    check("to_string", [FLOAT], SYMBOL, finite, lambda c: f"{c:f}")


@settings(max_examples=40, deadline=None)
@given(rows=tuples(NUMBER, UNSIGNED, FLOAT))
def test_numeric_conversions(rows: list[Any]) -> None:
    numbers, naturals = [(a,) for a, _, _ in rows], [(b,) for _, b, _ in rows]
    check("to_unsigned", [NUMBER], UNSIGNED, numbers, lambda a: wrap(a, UNSIGNED))
    check("to_number", [UNSIGNED], NUMBER, naturals, lambda b: wrap(b, NUMBER))
    check("to_float", [NUMBER], FLOAT, numbers, float)
    check("to_float", [UNSIGNED], FLOAT, naturals, float)
    finite = [(c,) for _, _, c in rows if math.isfinite(c)] or [(0.5,)]
    check("to_number", [FLOAT], NUMBER, finite, lambda c: min(max(int(c), -(2**63)), 2**63 - 1))
    nearest = lambda c: wrap(min(max(int(c), -(2**63)), 2**64 - 1), UNSIGNED)  # noqa: E731
    check("to_unsigned", [FLOAT], UNSIGNED, finite, nearest)


@settings(max_examples=40, deadline=None)
@given(rows=tuples(NUMBER, UNSIGNED, FLOAT))
def test_numbers_survive_being_text(rows: list[Any]) -> None:
    check("to_number", [SYMBOL], NUMBER, [(str(a),) for a, _, _ in rows], int)
    check("to_unsigned", [SYMBOL], UNSIGNED, [(str(b),) for _, b, _ in rows], int)
    texts = [(repr(c),) for _, _, c in rows]
    check("to_float", [SYMBOL], FLOAT, texts, float)


def test_to_number_reads_what_a_symbol_begins_with() -> None:
    rows = [(" \t42",), ("+7",), ("-8 apples",), ("12abc",), ("0",), ("-9223372036854775808",)]
    assert run("to_number", [SYMBOL], NUMBER, rows) == [42, 7, -8, 12, 0, -(2**63)]
    bases = ["0xcafe", "-0xcafe", "0xBEEFg", "0b100", "-0b1002", "0x", "0X1", " 0x1", "+0x1"]
    expected = [51966, -51966, 48879, 4, -4, 0, 0, 0, 0]
    assert run("to_number", [SYMBOL], NUMBER, [(text,) for text in bases]) == expected
    assert run("to_number", [SYMBOL], NUMBER, [("-0x8000000000000000",)]) == [-(2**63)]
    assert run("to_unsigned", [SYMBOL], UNSIGNED, [("0xffffffffffffffff",), ("0b11",)]) == [2**64 - 1, 3]
    assert run("to_float", [SYMBOL], FLOAT, [(" +1.5e3x",), (".5",), ("5.",), ("1e",), ("-inf",)]) == [
        1500.0,
        0.5,
        5.0,
        1.0,
        -math.inf,
    ]


@pytest.mark.parametrize(
    ("op", "type_", "text"),
    [
        ("to_number", NUMBER, "apple"),
        ("to_number", NUMBER, ""),
        ("to_number", NUMBER, "-"),
        ("to_number", NUMBER, "9223372036854775808"),
        ("to_number", NUMBER, "99999999999999999999999999"),
        ("to_number", NUMBER, "0b"),
        ("to_number", NUMBER, "0b2"),
        ("to_number", NUMBER, "0x8000000000000000"),
        ("to_unsigned", UNSIGNED, "-0x1"),
        ("to_unsigned", UNSIGNED, "0x10000000000000000"),
        ("to_unsigned", UNSIGNED, "-1"),
        ("to_unsigned", UNSIGNED, "18446744073709551616"),
        ("to_float", FLOAT, "pear"),
        ("to_float", FLOAT, "."),
    ],
)
def test_text_that_is_no_number_is_an_error_that_shows_it(op: str, type_: Type, text: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        run(op, [SYMBOL], type_, [("1",), (text,)])
    assert repr(text) in str(caught.value) and "rules.dl:3:7" in str(caught.value)


@pytest.mark.parametrize(
    ("op", "types", "rows"),
    [
        ("/", [NUMBER, NUMBER], [(1, 1), (5, 0)]),
        ("%", [NUMBER, NUMBER], [(5, 0)]),
        ("/", [UNSIGNED, UNSIGNED], [(5, 0)]),
        ("^", [NUMBER, NUMBER], [(0, -1)]),
        ("to_number", [FLOAT], [(math.inf,)]),
        ("to_number", [FLOAT], [(math.nan,)]),
    ],
)
def test_what_has_no_value_is_an_error_with_its_place(op: str, types: list[Type], rows: list[Any]) -> None:
    result = NUMBER if types[0] is FLOAT else types[0]
    with pytest.raises(EvaluationError, match=r"rules\.dl:3:7"):
        run(op, types, result, rows)


def test_no_rows_no_error() -> None:
    dictionary = Dictionary()
    zero, one = Constant(0, NUMBER), Constant(1, NUMBER)
    broken = Functor("/", (one, zero), NUMBER, SPAN)
    assert len(evaluate(broken, {}, 0, dictionary)) == 0
    assert len(holds(Comparison("<", broken, one, SPAN), {}, 0, dictionary)) == 0


@settings(max_examples=40, deadline=None)
@given(rows=tuples(NUMBER, UNSIGNED, FLOAT))
def test_as_keeps_the_bits(rows: list[Any]) -> None:
    def bits(source: str, target: str) -> Callable[[Any], Any]:
        return lambda value: struct.unpack(target, struct.pack(source, value))[0]

    check("as", [NUMBER], UNSIGNED, [(a,) for a, _, _ in rows], bits("<q", "<Q"))
    check("as", [FLOAT], NUMBER, [(c,) for _, _, c in rows if c == c] or [(1.0,)], bits("<d", "<q"))
    check("as", [UNSIGNED], FLOAT, [(b,) for _, b, _ in rows], bits("<Q", "<d"))


def test_as_of_symbols_goes_through_ids() -> None:
    dictionary = Dictionary()
    x, n = Variable("x", SYMBOL), Variable("n", NUMBER)
    ids = dictionary.encode("symbol", ["a", "b"])
    numbers = evaluate(Functor("as", (x,), NUMBER, SPAN), {x: ids}, 2, dictionary)
    back = evaluate(Functor("as", (n,), SYMBOL, SPAN), {n: numbers}, 2, dictionary)
    assert decoded(dictionary, SYMBOL, back) == [b"a", b"b"]
    subtype = Type("Name", SYMBOL.kind, "symbol")
    assert evaluate(Functor("as", (x,), subtype, SPAN), {x: ids}, 2, dictionary) is ids
    with pytest.raises(EvaluationError, match="17 is not the id"):
        evaluate(Functor("as", (Constant(17, NUMBER),), SYMBOL, SPAN), {}, 1, dictionary)


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "contains": lambda a, b: a in b,
    "!contains": lambda a, b: a not in b,
}


@pytest.mark.parametrize("type_", [NUMBER, UNSIGNED, FLOAT, SYMBOL], ids=lambda t: t.name)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_comparisons(type_: Type, data: st.DataObject) -> None:
    rows = data.draw(tuples(type_, type_))
    rows += [(a, a) for a, _ in rows]
    dictionary = Dictionary()
    x, y = Variable("x", type_), Variable("y", type_)
    bindings = {
        x: column(dictionary, type_, [a for a, _ in rows]),
        y: column(dictionary, type_, [b for _, b in rows]),
    }
    constant = Constant(rows[0][1], type_)
    identity = "cat" if type_ is SYMBOL else "max"  # of one argument: its value, but computed
    for op, expect in COMPARISONS.items():
        if "contains" in op and type_ is not SYMBOL:
            continue
        for right, others in ((y, [b for _, b in rows]), (constant, [rows[0][1]] * len(rows))):
            wanted = [
                expect(*(v.encode() if isinstance(v, str) else v for v in pair))
                for pair in zip([a for a, _ in rows], others, strict=True)
            ]
            for left in (Functor(identity, (x,), type_, SPAN), x):
                got = holds(Comparison(op, left, right, SPAN), bindings, len(rows), dictionary)
                if op == "=" and left is x and right is y:  # the same term: NaN is, -0.0 and 0.0 are not
                    wanted = (bindings[x] == bindings[y]).tolist()
                assert got.dtype == np.bool_ and got.tolist() == wanted, (op, rows)


def test_comparing_with_an_unknown_constant_interns_nothing() -> None:
    dictionary = Dictionary()
    x = Variable("x", SYMBOL)
    bindings = {x: dictionary.encode("symbol", ["a", "b"])}
    unknown = Constant("never seen", SYMBOL)
    assert holds(Comparison("=", x, unknown, SPAN), bindings, 2, dictionary).tolist() == [False, False]
    assert holds(Comparison("!=", x, unknown, SPAN), bindings, 2, dictionary).tolist() == [True, True]
    assert dictionary.bound("symbol") == 2


@pytest.mark.parametrize("type_", [NUMBER, UNSIGNED, FLOAT])
def test_comparing_constants_holds_for_every_row_or_none(type_: Type) -> None:
    dictionary = Dictionary()
    one, two = Constant(1, type_), Constant(2, type_)
    for op, right, wanted in (("=", one, True), ("=", two, False), ("!=", one, False), ("!=", two, True)):
        where = holds(Comparison(op, one, right, SPAN), {}, 3, dictionary)
        assert where.tolist() == [wanted] * 3, (op, right)


def matched(op: str, pattern: Term, texts: list[str], patterns: list[str] | None = None) -> list[bool]:
    dictionary = Dictionary()
    x = Variable("x", SYMBOL)
    bindings = {x: dictionary.encode("symbol", texts)}
    if isinstance(pattern, Variable):
        bindings[pattern] = dictionary.encode("symbol", patterns)
    return holds(Comparison(op, pattern, x, SPAN), bindings, len(texts), dictionary).tolist()


def test_match_is_of_the_whole_text() -> None:
    texts = ["abc", "xabc", "abcx", "a.c", "", "ABC", "a\nc"]
    assert matched("match", Constant("a.c", SYMBOL), texts) == [True, False, False, True, False, False, False]
    assert matched("!match", Constant("a|b", SYMBOL), ["a", "ab"]) == [False, True]
    assert matched("match", Constant("[[:alpha:]]+", SYMBOL), ["ab", "a1"]) == [True, False]


def test_match_sees_bytes() -> None:
    assert matched("match", Constant(".", SYMBOL), ["ä", "a"]) == [False, True]
    assert matched("match", Constant("..", SYMBOL), ["ä", "a"]) == [True, False]
    assert matched("match", Constant("ä+|ü", SYMBOL), ["ä", "ü", "a"]) == [True, True, False]


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        (r"(a+)-\1", r"the back-reference \\1"),
        (r"[\2]", r"the back-reference \\2"),
        ("(?=x).*", r"look-ahead \(\?="),
        ("(?!x).*", r"look-ahead \(\?!"),
        ("(?<=x).*", r"look-behind \(\?<="),
        ("(?<!x).*", r"look-behind \(\?<!"),
        ("(?i)a", r"the flag or group \(\?i"),
        ("(?<n>a)", r"the named group \(\?<"),
        ("(?P<n>a)", r"the named group \(\?P"),
        ("a{1001}", "more than 1,000 repetitions"),
        ("a{0,2000}", "more than 1,000 repetitions"),
        (r"\u0411", "which is no byte"),
        ("((a{1000}){1000}){1000}", "too large"),
    ],
)
def test_match_refuses_by_name_what_takes_more_than_linear_time(pattern: str, named: str) -> None:
    with pytest.raises(FunctorError, match=named):
        matched("match", Constant(pattern, SYMBOL), ["aa-aa"])


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a.c", {"abc": True, "a\nc": False, "a\rc": False}),
        ("[ä]", {"ä": False}),
        ("[ä][ä]", {"ä": True}),
        (r"\s", {"\v": True, " ": True, "a": False}),
        (r"[\S]", {"\v": False, "a": True}),
        (r"[^\s]", {"\v": False, "a": True}),
        (r"[\b]", {"\b": True, "b": False}),
        (r"\A\z\Q", {"AzQ": True, "": False}),
        (r"[\]a]+", {"]a": True}),
        ("[]", {"": False, "a": False}),
        ("[^]", {"\n": True}),
        (r"\x41\u0042\cJ\0", {"AB\n\0": True}),
        (r"\.\*\\\-", {".*\\-": True, "a*\\-": False}),
        ("[[:alpha:][]+", {"a[b": True, "1": False}),
        (r"\ba\b", {"a": True}),
        ("(?:a|b){2}", {"ab": True, "aba": False}),
        ("a??b*?", {"abb": True}),
        ("(a+)+b", {"a" * 5000: False, "a" * 5000 + "b": True}),
    ],
)
def test_match_reads_patterns_as_ecmascript_does(pattern: str, texts: dict[str, bool]) -> None:
    assert matched("match", Constant(pattern, SYMBOL), list(texts)) == list(texts.values())


def test_match_with_a_pattern_for_each_row() -> None:
    p = Variable("p", SYMBOL)
    assert matched("match", p, ["aaa", "b1", "aaa"], ["a*", r"b\d", r"b\d"]) == [True, True, False]
    with pytest.warns(UserWarning, match="not a regular expression"):
        assert matched("!match", p, ["aaa", "b1"], ["(", "a"]) == [False, True]


@pytest.mark.parametrize("pattern", ["a)|(b", "[a", "a\\", "*a", "a**"])
def test_a_broken_pattern_is_not_mended(pattern: str) -> None:
    with pytest.warns(UserWarning, match="not a regular expression"):
        assert matched("match", Constant(pattern, SYMBOL), ["a", "b"]) == [False, False]


@pytest.mark.parametrize("op", ["match", "!match"])
def test_a_broken_pattern_warns_and_does_not_hold(op: str) -> None:
    with pytest.warns(UserWarning, match=r"'\(' is not a regular expression"):
        assert matched(op, Constant("(", SYMBOL), ["a", "("]) == [False, False]


def expanded(type_: Type, *rows: tuple[Any, ...]) -> list[list[Any]]:
    dictionary = Dictionary()
    variables = tuple(Variable(f"x{i}", type_) for i in range(len(rows[0])))
    bindings = {
        v: column(dictionary, type_, list(c)) for v, c in zip(variables, zip(*rows, strict=True), strict=True)
    }
    functor = Functor("range", variables, type_, SPAN)
    found = []
    for room in (3, 1000):
        pieces = list(expand_range(functor, bindings, len(rows), dictionary, room))
        assert all(0 < len(ids) == len(index) <= room for index, ids in pieces)
        index = [row for piece, _ in pieces for row in piece.tolist()]
        values = [value for _, ids in pieces for value in decoded(dictionary, type_, ids)]
        assert index == sorted(index)
        pairs = list(zip(index, values, strict=True))
        found.append([[v for i, v in pairs if i == row] for row in range(len(rows))])
    assert found[0] == found[1]
    return found[0]


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(-30, 30), st.integers(-30, 30), st.integers(-7, 7)), min_size=1))
def test_integer_ranges(rows: list[tuple[int, int, int]]) -> None:
    wanted = [list(range(a, b, s)) if s else [a] * (a != b) for a, b, s in rows]
    assert expanded(NUMBER, *rows) == wanted
    assert expanded(NUMBER, *((a, b) for a, b, _ in rows)) == [
        list(range(a, b, 1 if a <= b else -1)) for a, b, _ in rows
    ]


def test_ranges_at_the_ends_of_the_type() -> None:
    top, bottom = 2**63 - 1, -(2**63)
    assert expanded(NUMBER, (top - 2, top, 2), (bottom, top, top), (top, bottom, bottom)) == [
        [top - 2],
        [bottom, -1, top - 1],
        [top, -1],
    ]
    assert expanded(UNSIGNED, (2**64 - 3, 2**64 - 1), (5, 2)) == [[2**64 - 3, 2**64 - 2], [5, 4, 3]]
    assert expanded(UNSIGNED, (1, 2**64 - 1, 2**63)) == [[1, 2**63 + 1]]


def test_float_ranges_add_step_by_step() -> None:
    third = 0.1 + 0.1 + 0.1
    assert expanded(FLOAT, (0.0, 0.35, 0.1), (1.0, 0.0, -0.5), (2.0, 3.0, 0.0), (1.0, 1.0, 0.0)) == [
        [0.0, 0.1, 0.2, third],
        [1.0, 0.5],
        [2.0],
        [],
    ]
    assert expanded(FLOAT, (2.5, 0.0)) == [[2.5, 1.5, 0.5]]


@pytest.mark.parametrize(
    ("type_", "row"),
    [(NUMBER, (0, 2**40)), (UNSIGNED, (0, 2**40)), (FLOAT, (1e17, math.inf)), (FLOAT, (0.0, 1.0, 1e-300))],
)
def test_endless_ranges_are_refused(type_: Type, row: tuple[Any, ...]) -> None:
    with pytest.raises(EvaluationError, match="does not end"):
        expanded(type_, row)
