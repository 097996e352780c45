"""Functors and aggregates that Python functions compute: ``@name(x, …)`` and ``@@name "" : x, { … }``.

A function is registered once for a process, before programs that use it are parsed. It is given columns of
text and gives one; where it gives null there is no value, and the row is dropped: that is no error. It must
be deterministic, as rules are evaluated, and evaluated again by updates, in any order and any number of
times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Function = Callable[[Sequence["pa.Array"]], "pa.Array"]
"""Columns of one length, all `large_string` without nulls, to a column of that length, nulls allowed."""

Reduction = Callable[["pa.Array", "np.ndarray", int], "pa.Array"]
"""(values, the group of each, how many groups) to a value or null for each group; groups may be empty."""

_functors: dict[str, Function] = {}
_aggregates: dict[str, Reduction] = {}


def register_functor(name: str, function: Function) -> None:
    """Have ``@name`` mean a function, of any number of symbols, to a symbol."""
    _functors[name] = function


def register_aggregate(name: str, function: Reduction) -> None:
    """Have ``@@name`` mean a function of the symbols of a group, to a symbol."""
    _aggregates[name] = function


def functor(op: str) -> Function | None:
    """The function of a functor that is written ``@name``."""
    return _functors.get(op[1:]) if op.startswith("@") else None


def aggregate(op: str) -> Reduction | None:
    """The function of an aggregate that is written ``@@name``."""
    return _aggregates.get(op[2:]) if op.startswith("@@") else None
