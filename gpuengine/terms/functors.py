"""Terms and comparisons over columns of bindings.

A binding is a column of ids.  A term is evaluated on typed arrays (int64, uint64, float64, `Text`);
only its final value is interned.  The meaning is Soufflé's (64-bit build), by its interpreter:

| functor | meaning |
|---|---|
| ``+ - * neg`` | integers wrap around 2**64; floats are IEEE doubles |
| ``/ %`` of integers | truncate towards zero; -2**63 / -1 wraps; by zero: `FunctorError` (Soufflé dies) |
| ``/`` of floats | IEEE: an infinity or NaN for x / 0 |
| ``^`` of integers | C's pow, truncated: exact below 2**53, rounded to a double above; past 64 bits, where |
| | that is undefined, the largest or least integer; 0 to a negative power: `FunctorError` |
| ``^`` of floats | C's pow |
| ``band bor bxor bnot`` | on the 64 bits |
| ``bshl bshr bshru`` | distance modulo 64; ``bshr`` keeps the sign of a number, ``bshru`` shifts zeros in |
| ``land lor lxor lnot`` | 0 is false, all else true; 0 or 1 |
| ``min max`` | n-ary; symbols by bytes; of floats that do not compare (NaN) the first |
| ``cat`` | n-ary concatenation |
| ``strlen`` | bytes |
| ``substr(s, i, n)`` | n bytes from byte i (from 0); "" if i is outside; to the end if n < 0 or too large; |
| | what is left of a character that this cuts is U+FFFD (Soufflé leaves bytes that are no text) |
| ``ord`` | of a symbol, record or ADT value its id: unique, but arbitrary; of a number its 64 bits |
| ``sin log`` and their kin | C's functions of a float |
| ``to_number to_unsigned`` of a symbol | the decimal integer it begins with, after spaces (strtoll), or the |
| | hexadecimal or binary one after a leading ``0x`` or ``0b``; what follows is ignored; none, out of |
| | range, or a minus for unsigned: `FunctorError` (Soufflé dies) |
| ``to_float`` of a symbol | the decimal float, ``inf`` or ``nan`` it begins with; else `FunctorError` |
| ``to_number to_unsigned`` of a float | truncates; past 64 bits the largest or least integer, a negative |
| | one for unsigned modulo 2**64; an infinity or NaN: `FunctorError` |
| ``to_number to_unsigned to_float`` else | C's conversions: integers modulo 2**64, or rounded to a double |
| ``to_string`` | decimal; of a float ``%f``, six decimals |
| ``as`` | the same 64 bits under another type; a symbol, record or ADT value stands for its id, and a |
| | number that is no id of the wanted type is an `FunctorError` |
| ``range(a, b, s)`` | a, a + s, ... while below b (above, if s < 0); s = 0: a alone, unless a = b |
| ``@name(x, …)`` | what a function of the user (`functions`), or of `gpuengine.language.extensions`, gives; |
| | no value: the row is dropped |
| ``range(a, b)`` | step 1, or -1 if a > b, of unsigned too |

| comparison | meaning |
|---|---|
| ``=`` | same term; a float and what is computed or written down by value, so that -0.0 = 0.0 and NaN is |
| | equal to nothing; two variables if they are the same term: as if there were one, so that NaN = NaN |
| ``!=`` | another term; floats by value, so that NaN != NaN and not -0.0 != 0.0 |
| ``< <= > >=`` | numeric; symbols by bytes; records and ADT values by id |
| ``match(pattern, text)`` | the whole text matches; bytes, not characters, as `gpuengine.language.patterns` |
| | says; a broken pattern warns and neither it nor its negation holds; one with back-references, |
| | look-around, flags or named groups: `FunctorError` |
| ``contains(needle, text)`` | substring by bytes |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gpuengine.errors import EvaluationError, FunctorError
from gpuengine.language import extensions
from gpuengine.language.program import (
    Comparison,
    Constant,
    Functor,
    Kind,
    Pack,
    Term,
    Type,
    Variable,
    Wildcard,
)
from gpuengine.terms import arithmetic, ranges, strings
from gpuengine.terms.dictionary import Dictionary
from gpuengine.terms.text import Text, single

Bindings = Mapping[Variable, np.ndarray]
Column = Any
"""The values of a term, with one row for a constant: an int64, uint64 or float64 array, a `Text`, or, for
records and ADT values, ids."""

_DTYPES: dict[Kind, Any] = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}
_ORDERINGS: dict[str, Any] = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}


def evaluate(term: Term, bindings: Bindings, rows: int, dictionary: Dictionary) -> np.ndarray:
    """The ids of `term` for each row of the bindings: uint32[rows]. New values are interned."""
    if isinstance(term, Variable):
        return bindings[term]
    if rows == 0:
        return np.zeros(0, np.uint32)
    if isinstance(term, Constant):
        return np.full(rows, dictionary.intern_constant(term), np.uint32)
    if isinstance(term, Pack):
        columns = [evaluate(_known(arg), bindings, rows, dictionary) for arg in term.args]
        return dictionary.pack(term.type.space, term.branch, columns, rows)
    if term.op == "as" and term.args[0].type.space == term.type.space:
        return evaluate(term.args[0], bindings, rows, dictionary)
    return _all_rows(_intern(_value(term, bindings, rows, dictionary), term.type, dictionary), rows)


def evaluate_partly(
    functor: Functor, bindings: Bindings, rows: int, dictionary: Dictionary
) -> tuple[np.ndarray, np.ndarray]:
    """The rows for which a functor that Python computes has a value, and the ids of the values.

    The function is called once for each distinct row of its arguments.
    """
    if rows == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.uint32)
    arguments = [evaluate(arg, bindings, rows, dictionary) for arg in functor.args]
    arguments, group = _distinct(arguments) if arguments else ([], np.zeros(rows, np.int64))
    function = extensions.functor(functor.op)
    if function is None or functor.op[1:] in dictionary.functions:
        distinct = len(arguments[0]) if arguments else 1
        ids, has_value = dictionary.functions.evaluate(functor, arguments, distinct, dictionary)
        index = np.flatnonzero(has_value[group])
        return index, ids[group[index]]
    results = function([dictionary.strings(column) for column in arguments])
    valid = np.flatnonzero(results.is_valid().to_numpy(zero_copy_only=False))
    ids = np.zeros(len(results), np.uint32)
    has_value = np.zeros(len(results), np.bool_)
    has_value[valid] = True
    ids[valid] = dictionary.encode(functor.type.space, results.drop_null())
    index = np.flatnonzero(has_value[group])
    return index, ids[group[index]]


def _distinct(columns: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The distinct rows, and for each row which of them it is."""
    key = columns[0].astype(np.uint64)
    for column in columns[1:]:
        number = np.unique(key, return_inverse=True)[1].astype(np.uint64)
        key = (number << np.uint64(32)) | column
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return [column[first] for column in columns], group


def is_partial(term: Term) -> bool:
    """Does Python compute it, and may it have no value for some rows?"""
    return isinstance(term, Functor) and term.op.startswith("@")


def holds(comparison: Comparison, bindings: Bindings, rows: int, dictionary: Dictionary) -> np.ndarray:
    """Where the comparison holds: bool[rows]. All variables are bound; nothing is bound by it."""
    if rows == 0:
        return np.zeros(0, np.bool_)
    op, left, right = comparison.op, comparison.left, comparison.right
    if op in ("=", "=="):
        result = _equal(left, right, bindings, rows, dictionary)
    elif op == "!=":
        result = ~_equal(left, right, bindings, rows, dictionary, by_value=True)
    elif op in ("match", "!match"):
        result = _matches(comparison, bindings, rows, dictionary)
    else:
        values = [_value(side, bindings, rows, dictionary) for side in (left, right)]
        if op in ("contains", "!contains"):
            result = strings.contains(*values) ^ (op == "!contains")
        elif left.type.kind is Kind.SYMBOL:
            result = _ORDERINGS[op](strings.compare(*values), 0)
        else:
            result = _ORDERINGS[op](*values)
    return _all_rows(result, rows)


def expand_equal(
    term: Term, bindings: Bindings, rows: int, dictionary: Dictionary
) -> tuple[np.ndarray, np.ndarray]:
    """The floats equal to `term` by value: (row index int64[], ids uint32[]).

    Both zeros for one of them, none for NaN.
    """
    values = _all_rows(_value(term, bindings, rows, dictionary), rows) if rows else np.zeros(0)
    index = np.concatenate([np.flatnonzero(values == values), np.flatnonzero(values == 0)])
    equals = values[index]
    zeros = int(np.count_nonzero(values == 0))
    equals[len(equals) - zeros :] *= -1.0
    return index, dictionary.encode_words(term.type.space, equals)


def expand_range(
    functor: Functor, bindings: Bindings, rows: int, dictionary: Dictionary, room: int = ranges.ROOM
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The values of ``range(...)`` for each row: (row index int64[], ids uint32[]), by row, in order.

    They come in pieces of at most `room`.
    """
    if rows == 0:
        return
    operands = [_all_rows(_value(arg, bindings, rows, dictionary), rows) for arg in functor.args]
    for index, values in ranges.expand(operands, functor, room):
        yield index, dictionary.encode_words(functor.type.space, values)


def value(term: Term, bindings: Bindings, rows: int, dictionary: Dictionary) -> np.ndarray | None:
    """The values of a term of numbers for each row, not interned; None if it is of something else."""
    if term.type.kind not in _DTYPES:
        return None
    if rows == 0:
        return np.zeros(0, _DTYPES[term.type.kind])
    return _all_rows(_value(term, bindings, rows, dictionary), rows)


def _value(term: Term, bindings: Bindings, rows: int, dictionary: Dictionary) -> Column:
    """The typed values of a term: one row for a constant or a functor of constants, else `rows` rows."""
    if isinstance(term, Variable):
        return _decode(bindings[term], term.type, dictionary)
    if isinstance(term, Constant):
        if term.type.kind in _DTYPES:
            return np.array([term.value], _DTYPES[term.type.kind])
        if term.type.kind is Kind.SYMBOL:
            return single(str(term.value))
        return np.array([dictionary.intern_constant(term)], np.uint32)
    if isinstance(term, Pack):
        return evaluate(term, bindings, rows, dictionary)
    return _apply(term, [_value(arg, bindings, rows, dictionary) for arg in term.args], dictionary)


def _apply(functor: Functor, args: list[Column], dictionary: Dictionary) -> Column:
    op, source = functor.op, functor.args[0].type
    if op in _STRING_FUNCTORS:
        return _STRING_FUNCTORS[op](args)
    if op in ("min", "max") and source.kind is Kind.SYMBOL:
        return strings.least(args) if op == "min" else strings.greatest(args)
    if op in arithmetic.OPERATORS:
        return arithmetic.apply(functor, args)
    if op == "ord":
        if source.kind in _DTYPES:
            return args[0].view(np.int64)
        return _intern(args[0], source, dictionary).astype(np.int64)
    if op == "as":
        return _reinterpret(functor, args[0], dictionary)
    if op == "to_string":
        return _to_string(args[0], source)
    if op in ("to_number", "to_unsigned", "to_float"):
        return _to_numeric(args[0], functor)
    raise EvaluationError(f"{arithmetic.place(functor)}: `{op}` can't be used here")


_STRING_FUNCTORS: dict[str, Any] = {
    "cat": strings.cat,
    "strlen": lambda args: args[0].lengths,
    "substr": lambda args: strings.substr(args[0], args[1].view(np.int64), args[2].view(np.int64)),
}


def _to_string(values: Column, source: Type) -> Text:
    if source.kind is Kind.SYMBOL:
        return values
    if source.kind is Kind.FLOAT:
        return strings.format_floats(values, "%f")
    return strings.format_integers(values)


def _to_numeric(values: Column, functor: Functor) -> np.ndarray:
    kind = functor.type.kind
    if functor.args[0].type.kind is Kind.SYMBOL:
        if kind is Kind.FLOAT:
            return strings.parse_floats(values, functor)
        return strings.parse_integers(values, signed=kind is Kind.NUMBER, functor=functor)
    if kind is Kind.FLOAT:
        return values.astype(np.float64, copy=False)
    return arithmetic.to_integers(values, _DTYPES[kind], functor)


def _reinterpret(functor: Functor, values: Column, dictionary: Dictionary) -> Column:
    """``as``: through the 64 bits of a word, or the id of anything else."""
    source, target = functor.args[0].type, functor.type
    if source.space == target.space:
        return values
    if source.kind in _DTYPES:
        words = values.view(np.uint64)
    else:
        words = _intern(values, source, dictionary).astype(np.uint64)
    if target.kind in _DTYPES:
        return words.view(_DTYPES[target.kind])
    unknown = words >= np.uint64(dictionary.bound(target.space))
    if unknown.any():
        place, wrong = arithmetic.place(functor), words[unknown][0]
        raise FunctorError(f"{place}: {wrong} is not the id of any value of type {target.name}")
    return _decode(words.astype(np.uint32), target, dictionary)


def _decode(ids: np.ndarray, type: Type, dictionary: Dictionary) -> Column:
    if type.kind in _DTYPES:
        return dictionary.values(type.space, ids)
    return dictionary.text(ids) if type.kind is Kind.SYMBOL else ids


def _intern(values: Column, type: Type, dictionary: Dictionary) -> np.ndarray:
    if type.kind in _DTYPES:
        return dictionary.encode_words(type.space, values)
    return dictionary.encode_text(values) if type.kind is Kind.SYMBOL else values


def _equal(
    left: Term, right: Term, bindings: Bindings, rows: int, dictionary: Dictionary, by_value: bool = False
) -> np.ndarray:
    """Are both sides the same term? Compares ids where both sides have them without computing.

    Floats are equal by value, unless both sides are variables and it is not asked for `by_value`.
    """
    kind = left.type.kind
    computed = isinstance(left, Functor) or isinstance(right, Functor)
    same_term = not by_value and isinstance(left, Variable) and isinstance(right, Variable)
    if (kind is Kind.FLOAT and not same_term) or (computed and kind in _DTYPES):
        values = [_value(side, bindings, rows, dictionary) for side in (left, right)]
        return values[0] == values[1]
    if computed and kind is Kind.SYMBOL:
        return strings.compare(*(_value(side, bindings, rows, dictionary) for side in (left, right))) == 0
    ids = [_known_ids(side, bindings, rows, dictionary) for side in (left, right)]
    if ids[0] is None or ids[1] is None:
        return np.zeros(rows, np.bool_)
    return np.atleast_1d(ids[0] == ids[1])


def _known_ids(
    term: Term, bindings: Bindings, rows: int, dictionary: Dictionary
) -> np.ndarray | np.uint32 | None:
    """The ids of a term that needs no computing; None for a constant that no fact can hold."""
    if isinstance(term, Constant):
        known = dictionary.find_constant(term)
        return None if known is None else np.uint32(known)
    return evaluate(term, bindings, rows, dictionary)


def _matches(comparison: Comparison, bindings: Bindings, rows: int, dictionary: Dictionary) -> np.ndarray:
    """``match`` and ``!match``, a pass for each distinct pattern."""
    negated = comparison.op == "!match"
    subjects = _value(comparison.right, bindings, rows, dictionary).broadcast(rows)
    if isinstance(comparison.left, Constant):
        hits = strings.matches(str(comparison.left.value), subjects, comparison.span)
        return np.zeros(rows, np.bool_) if hits is None else hits ^ negated
    ids = evaluate(comparison.left, bindings, rows, dictionary)
    distinct, which = np.unique(ids, return_inverse=True)
    result = np.zeros(rows, np.bool_)
    for position, pattern in enumerate(dictionary.strings(distinct).to_pylist()):
        chosen = np.flatnonzero(which == position)
        hits = strings.matches(pattern, subjects.take(chosen), comparison.span)
        if hits is not None:
            result[chosen] = hits ^ negated
    return result


def _all_rows(column: np.ndarray, rows: int) -> np.ndarray:
    """A column of `rows` rows: itself, or its only row repeated."""
    return column if len(column) == rows else np.repeat(column, rows)


def _known(arg: Term | Wildcard) -> Term:
    if isinstance(arg, Wildcard):
        raise EvaluationError("`_` in a record that is built: every field needs a value")
    return arg
