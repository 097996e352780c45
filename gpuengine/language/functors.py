"""The signatures of the intrinsic functors."""

from __future__ import annotations

from typing import NamedTuple

from gpuengine.language.program import Kind

NUMERIC = frozenset((Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT))
INTEGRAL = frozenset((Kind.NUMBER, Kind.UNSIGNED))
SIGNED = frozenset((Kind.NUMBER, Kind.FLOAT))
ORDERED = NUMERIC | {Kind.SYMBOL}
ANY = frozenset(Kind)
_NUMBER = frozenset((Kind.NUMBER,))
_SYMBOL = frozenset((Kind.SYMBOL,))
_FLOAT = frozenset((Kind.FLOAT,))


class Uniform(NamedTuple):
    """All arguments and the result have one kind of `kinds`."""

    kinds: frozenset[Kind]
    at_least: int
    at_most: int | None


class Fixed(NamedTuple):
    """Each argument has one of its own kinds, the result always `result`; `repeats` the last argument."""

    args: tuple[frozenset[Kind], ...]
    result: Kind
    repeats: bool = False


_ARITHMETIC = Uniform(NUMERIC, 2, 2)
_BITS = Uniform(INTEGRAL, 2, 2)
_EXTREMUM = Uniform(ORDERED, 2, None)

MATHEMATICAL = frozenset(
    (
        *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("exp", "log", "sqrt", "ceil", "floor"),
    )
)
"""C's functions of one float."""

SIGNATURES: dict[str, Uniform | Fixed] = {
    "+": Uniform(ORDERED, 2, 2),  # of symbols it is cat
    **dict.fromkeys(("-", "*", "/", "^"), _ARITHMETIC),
    **dict.fromkeys(("%", "band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor"), _BITS),
    "neg": Uniform(SIGNED, 1, 1),
    "bnot": Uniform(INTEGRAL, 1, 1),
    "lnot": Uniform(INTEGRAL, 1, 1),
    "min": _EXTREMUM,
    "max": _EXTREMUM,
    "range": Uniform(NUMERIC, 2, 3),
    "cat": Fixed((_SYMBOL, _SYMBOL), Kind.SYMBOL, repeats=True),
    "strlen": Fixed((_SYMBOL,), Kind.NUMBER),
    "substr": Fixed((_SYMBOL, _NUMBER, _NUMBER), Kind.SYMBOL),
    "ord": Fixed((ANY,), Kind.NUMBER),
    "autoinc": Fixed((), Kind.NUMBER),
    "to_number": Fixed((ORDERED,), Kind.NUMBER),
    "to_unsigned": Fixed((ORDERED,), Kind.UNSIGNED),
    "to_float": Fixed((ORDERED,), Kind.FLOAT),
    "to_string": Fixed((ORDERED,), Kind.SYMBOL),
    **dict.fromkeys(MATHEMATICAL, Fixed((_FLOAT,), Kind.FLOAT)),
}


_EXTENSION = Fixed((_SYMBOL,), Kind.SYMBOL, repeats=True)


def signature(op: str) -> Uniform | Fixed:
    """That of a functor; ``@name`` is one that Python computes, from symbols."""
    return _EXTENSION if op.startswith("@") else SIGNATURES[op]


def argument_range(signature: Uniform | Fixed) -> tuple[int, int | None]:
    """The least and the largest number of arguments (None: any)."""
    if isinstance(signature, Uniform):
        return signature.at_least, signature.at_most
    return len(signature.args), None if signature.repeats else len(signature.args)
