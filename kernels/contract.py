"""What every backend offers: rows, sets, indexes, and pipelines over them.

A backend is a module with the classes and functions named here. `kernels.cpu` is the fast one,
`kernels.reference` the slow, obvious one that the tests hold it against.

Rows(arity, capacity=0)
    Growable columns of uint32 ids in insertion order with a delta range; see `cpu.rows.Rows`.
    ``append(columns, count)``, ``column(j)``, ``count``, ``delta``, ``advance()``, ``settle()``.
KeySet(arity, bounds, capacity=0)
    The set of a relation's rows. ``insert(rows, start, end) -> bool[]`` (which were new; of equal rows
    the first), ``contains(rows, start, end) -> bool[]``, ``reserve(capacity, rows)``,
    ``widen(bounds, rows)``.
RowIndex(rows, keys, bounds)
    ``build(exact)``, ``ensure()``; read by pipelines only. Within a key, rows keep insertion order.
Program(pipeline)
    A `Pipeline` made runnable. ``run(out, start, end) -> status`` drives rows [start, end) of the driver
    and appends to `out`, a `Rows` with room; FULL means call ``resume(out)`` after emptying it. Rows
    come out in no promised order. With an `Insert` sink each distinct new row comes out once,
    whatever the number of threads that run copies of the program at the same time.

Registers hold ids. A *binding* says what happens to a value that an operation meets: `IGNORE`,
`write(register)`, or `check(register)`: go on only if the register holds the same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

IGNORE = -1


def write(register: int) -> int:
    """The binding that stores a value in a register."""
    return register


def check(register: int) -> int:
    """The binding that compares a value with a register."""
    return -2 - register


class Domain(IntEnum):
    """Which rows of a relation an operation reads: all up to the delta's end, or those before the delta."""

    ALL = 0
    OLD = 1


class Comparator(IntEnum):
    EQUAL = 0
    NOT_EQUAL = 1
    LESS = 2
    LESS_EQUAL = 3


class Representation(IntEnum):
    """How ids compare: as they are, or by the number, unsigned or float they stand for.

    Ids of numbers below 2**24 are the numbers; the value table holds the rest.
    """

    BY_ID = 0
    BY_NUMBER = 1
    BY_UNSIGNED = 2
    BY_FLOAT = 3


class Status(IntEnum):
    DONE = 0
    FULL = 1
    STOPPED = 2


@dataclass(frozen=True, slots=True)
class IndexProbe:
    """Rows of an index whose key columns equal `keys` (registers); `payload` binds the other columns."""

    index: Any
    domain: Domain
    keys: tuple[int, ...]
    payload: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """For each matching row of the shortest of the alternatives, go on."""

    alternatives: tuple[IndexProbe, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """For each row in the domain, go on."""

    rows: Any
    domain: Domain
    bindings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contains:
    """Go on if the row of registers is in the set (or is not, if `negated`).

    Passed over if operation ``unless[0]`` (a probe) chose alternative ``unless[1]``.
    """

    keyset: Any
    registers: tuple[int, ...]
    negated: bool = False
    unless: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Exists:
    """Go on if the probe matches some row (or none, if `negated`); its payload only checks or ignores."""

    probe: IndexProbe
    negated: bool = False


class ValueTable:
    """Where the values of ids are, for `Compare`: an array that may be replaced while pipelines refer to it.

    `cell` holds the array's address, which is what compiled code reads.
    """

    __slots__ = ("array", "cell")

    def __init__(self, array: np.ndarray) -> None:
        self.cell = np.zeros(1, np.int64)
        self.point_to(array)

    def point_to(self, array: np.ndarray) -> None:
        """Use another array from now on."""
        self.array = array
        self.cell[0] = array.ctypes.data


@dataclass(frozen=True, slots=True)
class Compare:
    """Go on if the comparison of two registers holds; `values` is needed for all but BY_ID."""

    comparator: Comparator
    representation: Representation
    left: int
    right: int
    values: ValueTable | None = None


@dataclass(frozen=True, slots=True)
class Driver:
    """The rows that start a pipeline."""

    rows: Any
    bindings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    """Keep a row of registers if it is new to the set."""

    keyset: Any
    registers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """Keep every row of registers."""

    registers: tuple[int, ...]


Operation = Probe | Scan | Contains | Exists | Compare


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Drive rows through operations into a sink; `constants` are (register, id) set beforehand."""

    driver: Driver
    operations: tuple[Operation, ...]
    sink: Insert | Collect
    registers: int
    constants: tuple[tuple[int, int], ...] = ()
