"""Numeric functors on int64, uint64 and float64 arrays; `functors` states what they mean.

Operands are arrays of one dtype that broadcast against each other (a constant has one element).
Integers wrap around.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from gpuengine.errors import FunctorError
from gpuengine.language.functors import MATHEMATICAL
from gpuengine.language.program import Functor

_SHIFT_MASK = 63


def apply(functor: Functor, operands: list[np.ndarray]) -> np.ndarray:
    """The value of a numeric functor."""
    op = functor.op
    if op in _PLAIN and operands[0].dtype.kind != "f":
        return _PLAIN[op](*operands)
    with np.errstate(all="ignore"):
        if op in _CHECKED:
            return _CHECKED[op](operands[0], operands[1], functor)
        return reduce(_FOLDED[op], operands) if op in _FOLDED else _PLAIN[op](*operands)


def place(functor: Functor) -> str:
    """Where and what a functor is, to begin an error with."""
    return f"{functor.span}: `{functor.op}`"


def to_integers(values: np.ndarray, dtype: Any, functor: Functor) -> np.ndarray:
    """Numbers of any dtype as int64 or uint64: floats are truncated, and those out of range become the
    nearest integer that there is; what is negative is taken modulo 2**64."""
    if values.dtype.kind != "f":
        return values.astype(dtype, copy=False)
    if not np.isfinite(values).all():
        raise FunctorError(f"{place(functor)}: an infinite float or NaN is no integer")
    whole = np.trunc(values)
    small = np.abs(whole) < 2.0**63
    result = np.where(small, whole, 0.0).astype(np.int64).view(np.uint64)
    if not small.all():
        large = whole[~small]
        fits = (large > 0) & (large < 2.0**64) if dtype is np.uint64 else np.zeros(len(large), np.bool_)
        saturated = np.where(large > 0, np.uint64(np.iinfo(dtype).max), np.uint64(1 << 63))
        result[~small] = np.where(fits, np.where(fits, large, 0.0).astype(np.uint64), saturated)
    return result.view(dtype)


def _divide(left: np.ndarray, right: np.ndarray, functor: Functor) -> np.ndarray:
    if left.dtype.kind == "f":
        return left / right
    _reject_zero(left, right, functor)
    # The remainder has the dividend's sign, so what is left divides evenly: C's truncation.
    return (left - np.fmod(left, right)) // right


def _modulo(left: np.ndarray, right: np.ndarray, functor: Functor) -> np.ndarray:
    _reject_zero(left, right, functor)
    return np.fmod(left, right)


def _reject_zero(left: np.ndarray, right: np.ndarray, functor: Functor) -> None:
    zero = right == 0
    if zero.any():
        dividend = np.broadcast_to(left, np.broadcast_shapes(left.shape, zero.shape))[np.argmax(zero)]
        raise FunctorError(
            f"{place(functor)}: division of {dividend} by zero. Guard it with a constraint such as `y != 0`."
        )


def _power(left: np.ndarray, right: np.ndarray, functor: Functor) -> np.ndarray:
    from gpuengine.kernels.cpu.arithmetic import power_floats

    bases, exponents = (np.ascontiguousarray(side) for side in np.broadcast_arrays(left, right))
    rounded = np.empty(len(bases))
    power_floats(bases.astype(np.float64), exponents.astype(np.float64), len(bases), rounded)
    if left.dtype.kind == "f":
        return rounded
    if ((bases == 0) & (exponents < 0)).any():
        raise FunctorError(f"{place(functor)}: 0 has no negative power. Guard it with a constraint.")
    limits = np.iinfo(left.dtype)
    fits = np.abs(rounded) < (2.0**63 if left.dtype.kind == "i" else 2.0**64)
    saturated = np.where(rounded > 0, limits.max, limits.min).astype(left.dtype)
    return np.where(fits, np.where(fits, rounded, 0.0).astype(left.dtype), saturated)


def _shift_left(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left << (right & left.dtype.type(_SHIFT_MASK))


def _shift_right(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left >> (right & left.dtype.type(_SHIFT_MASK))


def _shift_right_unsigned(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    shifted = left.view(np.uint64) >> (right.view(np.uint64) & np.uint64(_SHIFT_MASK))
    return shifted.view(left.dtype)


def _smaller(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.where(right < left, right, left)  # std::min: the first of two that do not compare


def _larger(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.where(left < right, right, left)


def _truth(function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """A logical functor: C truth values in, 0 or 1 of the operands' dtype out."""
    return lambda left, right: function(left != 0, right != 0).astype(left.dtype)


_CHECKED: dict[str, Callable[[np.ndarray, np.ndarray, Functor], np.ndarray]] = {
    "/": _divide,
    "%": _modulo,
    "^": _power,
}
_FOLDED: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {"min": _smaller, "max": _larger}
_PLAIN: dict[str, Callable[..., np.ndarray]] = {
    **{name: getattr(np, re.sub("^a(?=cos|sin|tan)", "arc", name)) for name in MATHEMATICAL},
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "neg": np.negative,
    "bnot": np.invert,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
    "bshl": _shift_left,
    "bshr": _shift_right,
    "bshru": _shift_right_unsigned,
    "lnot": lambda operand: (operand == 0).astype(operand.dtype),
    "land": _truth(np.logical_and),
    "lor": _truth(np.logical_or),
    "lxor": _truth(np.logical_xor),
}
OPERATORS = frozenset((*_CHECKED, *_FOLDED, *_PLAIN))
