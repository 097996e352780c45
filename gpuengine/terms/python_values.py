"""Records and ADT values as Python tuples, for functions of the user.

A record is the tuple of its fields, nil the empty tuple; an ADT value begins with the name of its branch:

    [1, ["a", nil]]   →   (1, ("a", ()))          $Node($Leaf, 3)   →   ("Node", ("Leaf",), 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuengine.language.program import Branch, Kind, Type

if TYPE_CHECKING:
    from gpuengine.terms.dictionary import Dictionary

NESTED = (Kind.RECORD, Kind.ADT)


def python_values(type: Type, ids: np.ndarray, dictionary: Dictionary) -> list[Any]:
    """The values of ids as Python has them."""
    if type.kind not in NESTED:
        return list(dictionary.to_arrow(type, ids).to_pylist())
    tags, columns = dictionary.unpack(type.space, ids)
    found: list[Any] = [()] * len(ids)
    for number, branch in enumerate(dictionary.branches(type.space)):
        is_adt = type.kind is Kind.ADT
        places = np.flatnonzero(tags == (number if is_adt else 1))
        if not len(places):
            continue
        fields = [
            python_values(field.type, column[places], dictionary)
            for field, column in zip(branch.fields, columns, strict=False)
        ]
        begin = (branch.name,) if is_adt else ()
        rows: Sequence[tuple[Any, ...]] = list(zip(*fields, strict=True)) if fields else [()] * len(places)
        for place, row in zip(places.tolist(), rows, strict=True):
            found[place] = (*begin, *row)
    return found


def nested_ids(type: Type, values: Sequence[Any], dictionary: Dictionary) -> np.ndarray:
    """The ids of records or ADT values; raises ValueError for what is none."""
    branches = dictionary.branches(type.space)
    ids = np.zeros(len(values), np.uint32)
    by_branch: dict[int, list[int]] = {}
    for place, value in enumerate(values):
        if not isinstance(value, tuple | list):
            raise ValueError(f"{value!r} is no tuple")
        if type.kind is Kind.RECORD and not value:
            continue  # nil
        by_branch.setdefault(_branch_of(type, value, branches), []).append(place)
    for number, places in by_branch.items():
        branch = branches[number]
        skipped = 1 if type.kind is Kind.ADT else 0
        columns = [
            _ids_of(field.type, [values[place][skipped + j] for place in places], dictionary)
            for j, field in enumerate(branch.fields)
        ]
        name = branch.name if type.kind is Kind.ADT else None
        ids[places] = dictionary.pack(type.space, name, columns, len(places))
    return ids


def _branch_of(type: Type, value: Sequence[Any], branches: Sequence[Branch]) -> int:
    if type.kind is Kind.RECORD:
        number, size = 0, len(value)
    else:
        names = [branch.name for branch in branches]
        if not value or value[0] not in names:
            raise ValueError(f"{value!r} does not begin with a branch of {type.name}")
        number, size = names.index(value[0]), len(value) - 1
    if size != len(branches[number].fields):
        raise ValueError(f"{value!r} has {size} fields, and {len(branches[number].fields)} are declared")
    return number


def _ids_of(type: Type, values: Sequence[Any], dictionary: Dictionary) -> np.ndarray:
    if type.kind in NESTED:
        return nested_ids(type, values, dictionary)
    if type.kind is Kind.SYMBOL:
        import pyarrow as pa

        return dictionary.encode(type.space, pa.array(values, pa.large_string()))
    dtype = {Kind.NUMBER: np.int64, Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}[type.kind]
    made = np.array(values, object)
    if type.kind is not Kind.FLOAT and not all(isinstance(one, int | np.integer) for one in values):
        raise ValueError(f"{made.tolist()!r} are no integers")
    return dictionary.encode_words(type.space, made.astype(dtype))
