"""Is a row of Python values a fact? By value: what no fact can be equal to is none, and no error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuengine.errors import DataError
from gpuengine.language.program import Attribute, Kind
from gpuengine.terms.dictionary import Dictionary

_DTYPES = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}


def find_fact(
    fact: object, attributes: Sequence[Attribute], dictionary: Dictionary
) -> list[np.ndarray] | None:
    """The ids of a row of Python values, one column each; None if no fact can be equal to it.

    Values are compared as `load` would take them, and numbers exactly: 1.0 is 1, 1.5 and "1" are no number.
    """
    if isinstance(fact, np.ndarray):
        fact = fact.tolist() if fact.ndim == 1 else None
    if not isinstance(fact, Sequence) or isinstance(fact, str | bytes | bytearray | memoryview):
        return None
    if len(fact) != len(attributes):
        return None
    columns = []
    for attribute, value in zip(attributes, fact, strict=True):
        ids = _find_value(value, attribute, dictionary)
        if ids is None:
            return None
        columns.append(ids)
    return columns


def _find_value(value: Any, attribute: Attribute, dictionary: Dictionary) -> np.ndarray | None:
    from gpuengine.io.convert import from_object
    from gpuengine.io.logical import value_of_object
    from gpuengine.io.records import record_text

    type = attribute.type
    try:
        if type.kind in (Kind.RECORD, Kind.ADT):
            ids, is_known = dictionary.find(type.space, [record_text(value, type, dictionary)])
        elif type.kind is Kind.SYMBOL:
            ids, is_known = dictionary.find(type.space, [from_object(value, type.kind)])
        elif type.logical:
            ids, is_known = dictionary.find(type.space, np.array([value_of_object(value, type)], np.int64))
        else:
            number = from_object(value, type.kind)
            if number != value and number == number:
                return None
            ids, is_known = dictionary.find(type.space, np.array([number], _DTYPES[type.kind]))
    except (ValueError, DataError):
        return None
    return ids if is_known[0] else None
