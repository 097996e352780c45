"""The join of two values of a lattice, for columns of ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuengine.errors import FunctorError, Span
from gpuengine.language.program import Functor, Merge, Type, Variable
from gpuengine.terms.ranks import merits

if TYPE_CHECKING:
    from gpuengine.terms.dictionary import Dictionary


def join(
    merge: Merge, type: Type, lefts: np.ndarray, rights: np.ndarray, dictionary: Dictionary
) -> np.ndarray:
    """The ids of the joins of values: uint32[n]."""
    result = lefts.copy()
    different = np.flatnonzero(lefts != rights)
    if not len(different):
        return result
    lefts, rights = lefts[different], rights[different]
    if merge.is_best:
        merit = merits(np.concatenate([lefts, rights]), type, dictionary, largest=merge.op == "max")
        made = np.where(merit[len(lefts) :] < merit[: len(lefts)], rights, lefts)
    elif merge.op in ("bor", "band"):
        values = [dictionary.values(type.space, ids) for ids in (lefts, rights)]
        operation = np.bitwise_or if merge.op == "bor" else np.bitwise_and
        made = dictionary.encode_words(type.space, operation(*values))
    else:
        span = merge.span or Span("", 1, 1, 1, 1)
        functor = Functor(merge.op, (Variable("a", type), Variable("b", type)), type, span)
        made, has_value = dictionary.functions.evaluate(functor, [lefts, rights], len(lefts), dictionary)
        if not has_value.all():
            raise FunctorError(f"{span}: {merge.op} gave no value for two that it was to join")
    result[different] = made
    return result
