"""Expressions of SPARQL on columns: FILTER and BIND of queries and of RDFox's rules.

A `Column` is dictionary-encoded: its rows point to values, each of which is decoded and computed with once.
An operator or function is called once for each distinct combination of its arguments; truth, comparison and
arithmetic of numbers are computed on arrays. A row whose expression is an error, or unbound, has no value.
"""

from __future__ import annotations

import datetime
import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from urllib.parse import urljoin, urlsplit

import numpy as np
import pyarrow as pa

from gpuengine.errors import EvaluationError
from gpuengine.rdf.functions import FUNCTIONS, cast, truth
from gpuengine.rdf.graph import Terms
from gpuengine.rdf.rules import Call, Expression, Variable
from gpuengine.rdf.terms import XSD
from gpuengine.rdf.values import (
    FALSE,
    TRUE,
    Kind,
    Moment,
    Value,
    ValueFault,
    decode,
    iri,
    number,
    string,
)

UNBOUND = -1
EXACT_FLOAT = 2**53
"""Up to here a double is every integer."""


class Column:
    """`codes` point into `values`; `UNBOUND` where there is none."""

    __slots__ = ("_numbers", "codes", "values")

    def __init__(self, codes: np.ndarray, values: Sequence[Value]) -> None:
        self.codes = codes
        self.values = values
        self._numbers: tuple[np.ndarray, bool] | bool | None = False

    @classmethod
    def constant(cls, value: Value, length: int) -> Column:
        return cls(np.zeros(length, np.int64), [value])

    @classmethod
    def nothing(cls, length: int) -> Column:
        return cls(np.full(length, UNBOUND, np.int64), [])

    @classmethod
    def of_texts(cls, texts: pa.Array) -> Column:
        """From texts of terms, null where there is none."""
        encoded = texts.dictionary_encode()
        codes = encoded.indices.fill_null(UNBOUND).to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(codes, [decode(text) for text in encoded.dictionary.to_pylist()])

    @classmethod
    def of_truths(cls, truths: np.ndarray) -> Column:
        """From 1 (true), 0 (false) and `UNBOUND`."""
        return cls(truths, [FALSE, TRUE])

    def texts(self) -> pa.Array:
        """The texts of the terms, null where there is none."""
        texts = pa.array([value.text for value in self.values], pa.large_string())
        return texts.take(pa.array(self.codes, mask=self.codes < 0))

    def numbers(self) -> tuple[np.ndarray, bool] | None:
        """The values as doubles, and whether all are integers; None if some is not, exactly, a double."""
        if self._numbers is False:
            self._numbers = self._as_numbers()
        return self._numbers  # type: ignore[return-value]

    def _as_numbers(self) -> tuple[np.ndarray, bool] | None:
        whole = True
        for value in self.values:
            if value.kind == Kind.DOUBLE:
                whole = False
            elif value.kind != Kind.INTEGER or abs(value.native) > EXACT_FLOAT:
                return None
        if not whole and any(value.kind == Kind.INTEGER for value in self.values):
            return None
        return np.array([value.native for value in self.values], np.float64), whole


@dataclass
class Scope:
    """What the expressions of one query share: its moment, its base, the blank nodes it makes."""

    base: str | None = None
    moment: Value = field(default_factory=lambda: _now())
    blanks: int = 0
    seed: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def fresh(self) -> Value:
        self.blanks += 1
        return Value(Kind.BLANK, f"q{self.seed}x{self.blanks}")


def _now() -> Value:
    moment = datetime.datetime.now(datetime.UTC)
    since = Fraction(moment.microsecond, 1_000_000) + (moment.hour * 60 + moment.minute) * 60 + moment.second
    native = Moment(moment.year, moment.month, moment.day, since, 0)
    return Value(Kind.DATETIME, native, f"{XSD}dateTime")


class Decoder:
    """Columns of ids to columns of values and back; each id is decoded once."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._values: dict[int, Value] = {}

    def column(self, ids: np.ndarray) -> Column:
        """The values of ids; `UNBOUND` where an id is negative."""
        distinct, codes = np.unique(ids, return_inverse=True)
        codes = codes.astype(np.int64, copy=False)
        if len(distinct) and distinct[0] < 0:
            distinct, codes = distinct[1:], codes - 1
        return Column(codes, self.values(distinct))

    def values(self, ids: np.ndarray) -> list[Value]:
        listed = ids.tolist()
        cache = self._values
        new = [number for number in listed if number not in cache]
        if new:
            texts = self.terms.texts(np.array(new, ids.dtype))
            cache.update(zip(new, map(decode, texts), strict=True))
        return [cache[number] for number in listed]

    def ids(self, column: Column) -> np.ndarray:
        """The ids of values, new ones where the dictionary has none; `UNBOUND` where there is no value."""
        used = np.unique(column.codes)
        used = used[used >= 0]
        table = np.full(len(column.values) + 1, UNBOUND, np.int64)
        if len(used):
            table[used] = self.terms.add([column.values[code].text for code in used.tolist()])
        return table[column.codes]


def evaluate(expression: Expression, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """An expression on columns of texts of terms, by name; null where it is an error or unbound.

    A variable that has no column is unbound everywhere.
    """
    names = variables(expression)
    encoded = {name: Column.of_texts(column) for name, column in columns.items() if name in names}
    return evaluate_columns(expression, encoded, rows, Scope()).texts()


def holds(expression: Expression, columns: Mapping[str, pa.Array], rows: int) -> np.ndarray:
    """A mask of the rows where a condition is true: neither false nor an error."""
    names = variables(expression)
    encoded = {name: Column.of_texts(column) for name, column in columns.items() if name in names}
    return holds_columns(expression, encoded, rows, Scope())


def variables(expression: Expression) -> set[str]:
    """Names of the variables of an expression."""
    if isinstance(expression, Variable):
        return {expression.name}
    if isinstance(expression, Call):
        return {name for argument in expression.arguments for name in variables(argument)}
    return set()


def holds_columns(
    expression: Expression, columns: Mapping[str, Column], length: int, scope: Scope
) -> np.ndarray:
    """A mask of the rows where a condition is true."""
    return _truths(evaluate_columns(expression, columns, length, scope)) == 1


def evaluate_columns(
    expression: Expression, columns: Mapping[str, Column], length: int, scope: Scope
) -> Column:
    """An expression on columns of `length` rows."""
    if isinstance(expression, Variable):
        column = columns.get(expression.name)
        return Column.nothing(length) if column is None else column
    if isinstance(expression, str):
        return Column.constant(decode(expression), length)
    function = expression.function
    if function == "BOUND":
        column = evaluate_columns(expression.arguments[0], columns, length, scope)
        return Column.of_truths((column.codes >= 0).astype(np.int64))
    arguments = [evaluate_columns(argument, columns, length, scope) for argument in expression.arguments]
    special = _SPECIAL.get(function)
    if special is not None:
        return special[0](arguments, length, scope)
    if function in FUNCTIONS:
        if len(arguments) == 2:
            quick = _on_numbers(function, *arguments)
            if quick is not None:
                return quick
        return _applied(FUNCTIONS[function][0], arguments, length)
    convert = cast(function.removeprefix("<").removesuffix(">"))
    if convert is None:
        raise EvaluationError(unknown_function(function))
    return _applied(convert, arguments, length)


def unknown_function(function: str) -> str:
    return (
        f"the function {function} is not known: there are those of SPARQL 1.1, the casts of XML Schema "
        "(xsd:integer …) and SKOLEM"
    )


def complaint(function: str, count: int) -> str | None:
    """What is wrong with a call: the function is unknown, or the number of its arguments; None if nothing."""
    if function == "BOUND":
        low: int = 1
        high: int | None = 1
    elif function in _SPECIAL:
        _, low, high = _SPECIAL[function]
    elif function in FUNCTIONS:
        _, low, high = FUNCTIONS[function]
    elif function.startswith("<") and cast(function[1:-1]) is not None:
        low, high = 1, 1
    else:
        return unknown_function(function)
    if count < low or (high is not None and count > high):
        wanted = f"{low}" if low == high else f"at least {low}" if high is None else f"{low} to {high}"
        return f"{function} takes {wanted} argument{'' if wanted == '1' else 's'}, not {count}"
    return None


# Truth ---------------------------------------------------------------------------------------------------


def _truths(column: Column) -> np.ndarray:
    """1, 0 or `UNBOUND` (an error) for each row."""
    table = np.full(len(column.values) + 1, UNBOUND, np.int64)
    for code, value in enumerate(column.values):
        try:
            table[code] = truth(value)
        except ValueFault:
            continue
    return table[column.codes]


def _conjunction(arguments: list[Column], length: int, scope: Scope) -> Column:
    # False wins over an error, an error over true.
    sides = [_truths(column) for column in arguments]
    result = np.where(np.logical_or.reduce([side < 0 for side in sides]), UNBOUND, 1)
    result[np.logical_or.reduce([side == 0 for side in sides])] = 0
    return Column.of_truths(result)


def _disjunction(arguments: list[Column], length: int, scope: Scope) -> Column:
    sides = [_truths(column) for column in arguments]
    result = np.where(np.logical_or.reduce([side < 0 for side in sides]), UNBOUND, 0)
    result[np.logical_or.reduce([side == 1 for side in sides])] = 1
    return Column.of_truths(result)


def _negation(arguments: list[Column], length: int, scope: Scope) -> Column:
    truths = _truths(arguments[0])
    return Column.of_truths(np.where(truths < 0, UNBOUND, 1 - truths))


def _membership(arguments: list[Column], length: int, scope: Scope) -> Column:
    if len(arguments) == 1:
        return Column.of_truths(np.zeros(length, np.int64))
    tests = [
        _on_numbers("=", arguments[0], other) or _applied(FUNCTIONS["="][0], [arguments[0], other], length)
        for other in arguments[1:]
    ]
    return _disjunction(tests, length, scope)


def _choice(arguments: list[Column], length: int, scope: Scope) -> Column:
    truths = _truths(arguments[0])
    return _merged(arguments[1:], np.where(truths < 0, UNBOUND, 1 - truths))


def _coalesced(arguments: list[Column], length: int, scope: Scope) -> Column:
    chosen = np.full(length, UNBOUND, np.int64)
    for place in range(len(arguments) - 1, -1, -1):
        chosen[arguments[place].codes >= 0] = place
    return _merged(arguments, chosen)


def _merged(columns: list[Column], chosen: np.ndarray) -> Column:
    """Of each row the value of the column that is chosen for it."""
    codes = np.full(len(chosen), UNBOUND, np.int64)
    values: list[Value] = []
    for place, column in enumerate(columns):
        rows = (chosen == place) & (column.codes >= 0)
        codes[rows] = column.codes[rows] + len(values)
        values.extend(column.values)
    return Column(codes, values)


# Functions of rows ---------------------------------------------------------------------------------------


def _each(length: int, make: Callable[[], Value]) -> Column:
    return Column(np.arange(length, dtype=np.int64), [make() for _ in range(length)])


def _blank(arguments: list[Column], length: int, scope: Scope) -> Column:
    if not arguments:
        return _each(length, scope.fresh)
    # One blank node for each text in each row.
    column = arguments[0]
    codes = np.full(length, UNBOUND, np.int64)
    values: list[Value] = []
    for row, code in enumerate(column.codes.tolist()):
        if code >= 0 and column.values[code].kind == Kind.STRING:
            codes[row] = len(values)
            values.append(
                Value(Kind.BLANK, f"q{scope.seed}r{row}x{column.values[code].native.encode().hex()}")
            )
    return Column(codes, values)


def resolved(base: str, relative: str) -> str:
    """An IRI by its base, as RFC 3986 has it."""
    if not relative:
        return base.partition("#")[0]
    joined = urljoin(base, relative)
    # An empty fragment is a fragment.
    return f"{joined}#" if relative.endswith("#") and not joined.endswith("#") else joined


def _resolved(arguments: list[Column], length: int, scope: Scope) -> Column:
    def resolve(value: Value) -> Value:
        if value.kind == Kind.IRI:
            return value
        if value.kind != Kind.STRING:
            raise ValueFault("no IRI")
        text = value.native
        if not urlsplit(text).scheme:
            if not scope.base:
                raise ValueFault("a relative IRI without a base")
            text = resolved(scope.base, text)
        if any(character in '<>"{}|^`\\' or character <= " " for character in text):
            raise ValueFault("no IRI")
        return iri(text)

    return _applied(resolve, arguments, length)


_SPECIAL: dict[str, tuple[Callable[[list[Column], int, Scope], Column], int, int | None]] = {
    "&&": (_conjunction, 1, None),
    "||": (_disjunction, 1, None),
    "!": (_negation, 1, 1),
    "IN": (_membership, 1, None),
    "IF": (_choice, 3, 3),
    "COALESCE": (_coalesced, 0, None),
    "IRI": (_resolved, 1, 1),
    "URI": (_resolved, 1, 1),
    "BNODE": (_blank, 0, 1),
    "RAND": (lambda _, length, scope: _each(length, lambda: number(random.random(), Kind.DOUBLE)), 0, 0),
    "UUID": (lambda _, length, scope: _each(length, lambda: iri(f"urn:uuid:{uuid.uuid4()}")), 0, 0),
    "STRUUID": (lambda _, length, scope: _each(length, lambda: string(str(uuid.uuid4()))), 0, 0),
    "NOW": (lambda _, length, scope: Column.constant(scope.moment, length), 0, 0),
}


# Functions of values -------------------------------------------------------------------------------------


def _applied(function: Callable[..., Value], arguments: list[Column], length: int) -> Column:
    """A function called once for each distinct combination of values."""
    if not arguments:
        return _constant_call(function, length)
    if len(arguments) == 1:
        column = arguments[0]
        return _called(function, [(value,) for value in column.values], column.codes)
    bound = np.logical_and.reduce([column.codes >= 0 for column in arguments])
    places = np.flatnonzero(bound)
    keys = np.zeros(len(places), np.int64)
    size = 1
    for column in arguments:
        if size * len(column.values) > 2**62:
            _, keys = np.unique(keys, return_inverse=True)
            size = len(places)
        keys = keys * len(column.values) + column.codes[places]
        size *= len(column.values)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rows = places[first]
    combinations = zip(
        *([column.values[code] for code in column.codes[rows].tolist()] for column in arguments), strict=True
    )
    codes = np.full(length, UNBOUND, np.int64)
    codes[places] = inverse
    return _called(function, combinations, codes)


def _constant_call(function: Callable[..., Value], length: int) -> Column:
    try:
        return Column.constant(function(), length)
    except ValueFault:
        return Column.nothing(length)


def _called(
    function: Callable[..., Value], combinations: Iterable[tuple[Value, ...]], codes: np.ndarray
) -> Column:
    values: list[Value] = []
    table: list[int] = []
    for combination in combinations:
        try:
            result = function(*combination)
        except ValueFault:
            table.append(UNBOUND)
            continue
        if result is TRUE or result is FALSE:
            # Few values for many rows: what reads them has less to do.
            result_code = _TRUTH_CODES[result.native]
            if not values:
                values = [FALSE, TRUE]
            table.append(result_code)
            continue
        table.append(len(values))
        values.append(result)
    table.append(UNBOUND)
    return Column(np.array(table, np.int64)[codes], values)


_TRUTH_CODES = {False: 0, True: 1}

_COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
}
_ARITHMETIC: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
}


def _on_numbers(function: str, left: Column, right: Column) -> Column | None:
    """A comparison or an operation of numbers on arrays; None where the values are not all such numbers."""
    if function not in _COMPARISONS and function not in _ARITHMETIC:
        return None
    a, b = left.numbers(), right.numbers()
    if a is None or b is None or not len(left.values) or not len(right.values):
        return None
    bound = (left.codes >= 0) & (right.codes >= 0)
    x, y = a[0][left.codes], b[0][right.codes]
    if function in _COMPARISONS:
        return Column.of_truths(np.where(bound, _COMPARISONS[function](x, y), UNBOUND).astype(np.int64))
    with np.errstate(all="ignore"):
        results = _ARITHMETIC[function](x, y)
    kind = Kind.INTEGER if a[1] and b[1] else Kind.DOUBLE
    if kind == Kind.INTEGER and np.abs(results).max(initial=0) > EXACT_FLOAT:
        return None
    distinct, codes = np.unique(results, return_inverse=True)
    natives = (int(result) for result in distinct) if kind == Kind.INTEGER else distinct.tolist()
    return Column(np.where(bound, codes, UNBOUND), [number(native, kind) for native in natives])
