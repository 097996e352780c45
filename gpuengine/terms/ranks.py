"""The order of values, for columns of their ids."""

from __future__ import annotations

import numpy as np

from gpuengine.language.program import Kind, Type
from gpuengine.terms.dictionary import Dictionary

_MOST = np.iinfo(np.int64).max
_SIGN = np.uint64(1 << 63)


def order_keys(
    ids: np.ndarray, type: Type, dictionary: Dictionary, *, largest: bool = False
) -> np.ndarray | None:
    """Integers that are ordered as numbers are, the other way round if the `largest` is to come first.

    NaN comes last in both cases, and -0.0 before 0.0. None if the values are no numbers.
    """
    if type.kind is Kind.NUMBER:
        keys = dictionary.values(type.space, ids).astype(np.int64, copy=False)
    elif type.kind is Kind.UNSIGNED:
        keys = (dictionary.values(type.space, ids).astype(np.uint64, copy=False) ^ _SIGN).view(np.int64)
    elif type.kind is Kind.FLOAT:
        values = np.ascontiguousarray(dictionary.values(type.space, ids), np.float64)
        bits = values.view(np.int64)
        keys = bits ^ ((bits >> 63) & _MOST)
        if largest:
            keys = ~keys
        return np.where(np.isnan(values), _MOST, keys)
    else:
        return None
    return ~keys if largest else keys


def ranks(ids: np.ndarray, type: Type, dictionary: Dictionary) -> np.ndarray:
    """Integers that are ordered as the values of ids are: int64[n]; symbols by bytes, records by id."""
    keys = order_keys(ids, type, dictionary)
    if keys is not None:
        return keys
    if type.kind is not Kind.SYMBOL:
        return ids.astype(np.int64)
    import pyarrow.compute as pc

    distinct, which = np.unique(ids, return_inverse=True)
    order = pc.sort_indices(dictionary.strings(distinct)).to_numpy().astype(np.int64)
    rank = np.empty(len(distinct), np.int64)
    rank[order] = np.arange(len(distinct))
    return rank[which]


def merits(ids: np.ndarray, type: Type, dictionary: Dictionary, *, largest: bool) -> np.ndarray:
    """Integers that are less for the better of two of the values: the smaller one, or the `largest`."""
    keys = order_keys(ids, type, dictionary, largest=largest)
    if keys is not None:
        return keys
    rank = ranks(ids, type, dictionary)
    return -rank if largest else rank
