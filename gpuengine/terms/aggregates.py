"""Aggregates over segments of consecutive rows.

``count`` and ``sum`` wrap around 2**64 (floats add as doubles); ``min`` and ``max`` order numbers by value,
symbols by bytes, and pass over NaN unless there is nothing else; ``mean`` is the float sum divided by the
count, whatever is averaged.
"""

from __future__ import annotations

import numpy as np

from gpuengine.language.program import FLOAT, Kind, Type
from gpuengine.terms.dictionary import Dictionary


def reduce(
    op: str,
    type: Type,
    target_ids: np.ndarray | None,
    starts: np.ndarray,
    rows: int,
    dictionary: Dictionary,
) -> np.ndarray:
    """One id for each segment [starts[i], starts[i + 1]), the last ending at `rows`; none is empty.

    `type` is the target's type (that of `target_ids`), for ``count`` the result's. ``mean`` gives ids of
    float, everything else ids of `type`.
    """
    if len(starts) == 0:
        return np.zeros(0, np.uint32)
    sizes = np.diff(starts, append=rows)
    if op == "count" or target_ids is None:
        return dictionary.encode(type.space, sizes.astype(np.int64))
    if type.kind in (Kind.SYMBOL, Kind.RECORD, Kind.ADT):
        return _extreme_symbols(op, target_ids, starts, dictionary)
    values = dictionary.values(type.space, target_ids)
    with np.errstate(all="ignore"):
        if op == "mean":
            means = np.add.reduceat(values.astype(np.float64), starts) / sizes
            return dictionary.encode_words(FLOAT.space, means)
        if op == "sum":
            result = np.add.reduceat(values, starts)
        else:
            result = (np.fmin if op == "min" else np.fmax).reduceat(values, starts)
    return dictionary.encode_words(type.space, result)


def identity(op: str, type: Type, dictionary: Dictionary) -> int | None:
    """The id of the aggregate of nothing: 0 of the result's type for ``count`` and ``sum``, else None."""
    if op not in ("count", "sum"):
        return None
    dtype = np.float64 if type.kind is Kind.FLOAT else np.int64
    return int(dictionary.encode(type.space, np.zeros(1, dtype))[0])


def _extreme_symbols(op: str, ids: np.ndarray, starts: np.ndarray, dictionary: Dictionary) -> np.ndarray:
    """``min`` or ``max`` by bytes: the distinct symbols are ranked once, then ranks are compared."""
    import pyarrow.compute as pc

    distinct, which = np.unique(ids, return_inverse=True)
    order = pc.sort_indices(dictionary.strings(distinct)).to_numpy().astype(np.int64)
    ranks = np.empty(len(distinct), np.int64)
    ranks[order] = np.arange(len(distinct))
    extreme = (np.minimum if op == "min" else np.maximum).reduceat(ranks[which], starts)
    return distinct[order[extreme]]
