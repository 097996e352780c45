"""What every backend offers: rows, sets, indexes, and pipelines over them.

A `Backend` makes the objects whose protocols are here, and no object of one backend meets one of another.
`kernels.cpu` is the fast one on the host, `kernels.cuda` runs on a GPU; the tests hold both against a slow,
obvious one of their own.

Registers hold ids. A *binding* says what happens to a value that an operation meets: `IGNORE`,
`write(register)`, or `check(register)`: go on only if the register holds the same id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from threading import Lock
from typing import Any, Protocol

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.primitives import Primitives

IGNORE = -1
MAX_KEYS = 2
"""An index has at most so many key columns."""

Bounds = Sequence[tuple[int, int]]
"""For each column the least id and one past the greatest."""
Array = Any
"""A one-dimensional array in the memory of a backend: NumPy's on the host."""
OwnRows = Any
"""`Rows` of the same backend."""


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


class Reducer(IntEnum):
    """What a `Reduction` makes of a group's values; of none, counts and sums are 0, others not there."""

    COUNT = 0
    SUM = 1
    LEAST = 2
    GREATEST = 3
    MEAN = 4


class Status(IntEnum):
    """How a run ended. The last two come of pipelines that compute: see `Compute` and `Within`."""

    DONE = 0
    FULL = 1
    STOPPED = 2
    WORDS_FULL = 3
    OUTSIDE = 4


class RoundsEnd(IntEnum):
    """Why rounds that were run ahead came to an end.

    MORE: all that were asked for are complete. LARGE: the next one is too large. FULL: some head has no room,
    and the round that needed it is not complete.
    """

    MORE = 0
    FIXPOINT = 1
    LARGE = 2
    FULL = 3


class Operator(IntEnum):
    """What a step of `Compute` does; the numbers are those of `cpu.code`.

    From ADD on an operator takes two operands, from ADD_FLOAT on these are floats. The truth of a comparison
    or logical operator is 0 or 1.
    """

    LOAD = 0
    CONSTANT = 1
    NEGATE = 2
    COMPLEMENT = 3
    NOT = 4
    NEGATE_FLOAT = 5
    FLOAT_OF_NUMBER = 6
    FLOAT_OF_UNSIGNED = 7
    ADD = 8
    SUBTRACT = 9
    MULTIPLY = 10
    DIVIDE = 11
    DIVIDE_UNSIGNED = 12
    REMAINDER = 13
    REMAINDER_UNSIGNED = 14
    BIT_AND = 15
    BIT_OR = 16
    BIT_XOR = 17
    SHIFT_LEFT = 18
    SHIFT_RIGHT = 19
    SHIFT_RIGHT_UNSIGNED = 20
    AND = 21
    OR = 22
    XOR = 23
    MINIMUM = 24
    MINIMUM_UNSIGNED = 25
    MAXIMUM = 26
    MAXIMUM_UNSIGNED = 27
    IS_EQUAL = 28
    IS_NOT_EQUAL = 29
    IS_LESS = 30
    IS_LESS_UNSIGNED = 31
    IS_LESS_EQUAL = 32
    IS_LESS_EQUAL_UNSIGNED = 33
    ADD_FLOAT = 34
    SUBTRACT_FLOAT = 35
    MULTIPLY_FLOAT = 36
    DIVIDE_FLOAT = 37
    MINIMUM_FLOAT = 38
    MAXIMUM_FLOAT = 39
    IS_EQUAL_FLOAT = 40
    IS_NOT_EQUAL_FLOAT = 41
    IS_LESS_FLOAT = 42
    IS_LESS_EQUAL_FLOAT = 43


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

    __slots__ = ("__weakref__", "array", "cell")

    def __init__(self, array: np.ndarray) -> None:
        self.cell = np.zeros(1, np.int64)
        self.point_to(array)

    def point_to(self, array: np.ndarray) -> None:
        """Use another array from now on."""
        self.array = array
        self.cell[0] = address_of(array)


@dataclass(frozen=True, slots=True)
class Compare:
    """Go on if the comparison of two registers holds; `values` is needed for all but BY_ID."""

    comparator: Comparator
    representation: Representation
    left: int
    right: int
    values: ValueTable | None = None


class Words(Protocol):
    """The dictionary's table of the 64-bit words of one space.

    `header` is what compiled code reads and adds words by; who runs such code holds `lock`.
    """

    header: np.ndarray
    identity: int
    """Words below this are their own ids; the others have the ids from here on, in order."""

    @property
    def lock(self) -> Lock: ...
    @property
    def words(self) -> np.ndarray:
        """Those that are not their own ids, so far; never changed, only added to."""

    def make_room(self) -> None:
        """Room for more words; the lock is held."""

    def intern(self, words: np.ndarray) -> np.ndarray:
        """The ids of uint64 words; unknown ones are added. Takes the lock."""


@dataclass(frozen=True, slots=True)
class CalculationStep:
    """A step on a stack of 64-bit words: LOAD the value of register `argument`, whose space is `words`; a
    CONSTANT, as int64; or an operator on what is on top.
    """

    operator: Operator
    argument: int = 0
    words: Words | None = None


@dataclass(frozen=True, slots=True)
class Compute:
    """Calculate a value of integers or floats, and write its id in the space `words` to register `target`,
    or, without a target, go on if it is not 0. On the host only, in the compiled loop over small rounds.

    A run ends with WORDS_FULL if the value is new and there is no room for it: resume when there is.
    """

    steps: tuple[CalculationStep, ...]
    target: int | None = None
    words: Words | None = None

    @property
    def depth(self) -> int:
        """How many words are on the stack at most."""
        height = deepest = 0
        for step in self.steps:
            if step.operator <= Operator.CONSTANT:
                height += 1
            elif step.operator >= Operator.ADD:
                height -= 1
            deepest = max(deepest, height)
        return deepest


@dataclass(frozen=True, slots=True)
class Within:
    """Go on if each register lies within its bounds; if not, the run ends with OUTSIDE. With `Compute`."""

    registers: tuple[int, ...]
    bounds: Bounds


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
class Improve:
    """Offer a row of registers to what keeps the `best` value of each key, which improves it in place,
    whatever other threads do; keep the rows whose keys it does not know yet. On the host only.
    """

    best: Any
    registers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Collect:
    """Keep every row of registers."""

    registers: tuple[int, ...]


Operation = Probe | Scan | Contains | Exists | Compare | Compute | Within


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Drive rows through operations into a sink; `constants` are (register, id) set beforehand."""

    driver: Driver
    operations: tuple[Operation, ...]
    sink: Insert | Improve | Collect
    registers: int
    constants: tuple[tuple[int, int], ...] = ()


class Rows(Protocol):
    """Rows of ids by column, append-only, in insertion order; a row is a tuple of uint32 ids.

    Life of a row: appended (beyond the delta) → in the delta after `advance` → old after the next.
    ``[0, delta[0])`` is OLD, ``[delta[0], delta[1])`` is NEW, and both together are ALL.
    """

    arity: int
    capacity: int
    count: int
    delta: tuple[int, int]

    @property
    def nbytes(self) -> int: ...
    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` rows in all."""

    def grow(self, extra: int) -> None:
        """Make room for `extra` more rows, with amortised doubling."""

    def limit(self, count: int) -> None:
        """Have programs stop as FULL at `count` rows, even if there is room for more."""

    def trim(self) -> None:
        """Give back what is not used."""

    def frozen(self, count: int) -> Rows:
        """The first `count` rows in the same memory: they stay what they are while rows are only appended.

        Nothing may be appended to what is returned.
        """

    def column(self, j: int) -> np.ndarray:
        """Column `j` of all rows in host memory, whatever the backend.

        The array owns what it shows: it keeps its content while rows are only appended, and may outlive them.
        """

    def columns(self) -> list[np.ndarray]:
        """Every `column`."""

    def device_columns(self) -> list[Array]:
        """Every column in the backend's own memory; owned like that of `column`."""

    def between(self, start: int, end: int) -> list[np.ndarray]:
        """Every column of rows [start, end), copied to host memory."""

    def taken(self, places: np.ndarray) -> list[Array]:
        """Every column of the rows at `places`, copied, in the backend's own memory."""

    def unshare(self) -> None:
        """Rows are about to be changed in place: those that were `frozen` go on as what they are."""

    def append(self, columns: Sequence[Array], count: int) -> None:
        """Append `count` rows beyond the delta, from columns in host memory or in the backend's."""

    def advance(self) -> int:
        """What was appended becomes the delta; returns its size."""

    def settle(self) -> None:
        """Everything becomes old: the delta is empty."""


class KeySet(Protocol):
    """The set of the rows of one `Rows`.

    `reserve` must have made room before rows are inserted, and the inserted ids must lie within the
    bounds that it was made with (`widen` moves them). Both may rebuild the set from the rows, which must
    by then hold everything that was inserted.
    """

    @property
    def capacity(self) -> int:
        """How many rows may be in the set before `reserve` is due."""

    @property
    def nbytes(self) -> int: ...
    def reserve(self, capacity: int, rows: OwnRows) -> None:
        """Make room for `capacity` rows in all."""

    def widen(self, bounds: Bounds, rows: OwnRows) -> None:
        """Admit ids within `bounds` as well."""

    def insert(self, rows: OwnRows, start: int, end: int) -> Array:
        """Insert rows [start, end); a mask of the new ones: of equal rows one, on the host the first."""

    def contains(self, rows: OwnRows, start: int, end: int) -> Array:
        """A mask of the rows [start, end) that are in the set."""

    def erase(self, rows: OwnRows, start: int, end: int) -> Any:
        """Take the rows [start, end) out, which are distinct and in the set."""


class RowLocator(Protocol):
    """Finds the rows of one `Rows`, which must be distinct, by their content, and moves them.

    It holds the rows [0, `count`). While a row is in here, nothing else may change it.
    """

    count: int

    @property
    def nbytes(self) -> int: ...
    def append(self, start: int, end: int) -> None:
        """Add rows [start, end) of its rows; `start` is `count`."""

    def locate(self, batch: OwnRows, start: int, end: int) -> np.ndarray:
        """The numbers (uint32, in host memory) of rows [start, end) of `batch`; NONE for others."""

    def remove(self, places: np.ndarray) -> Any:
        """Take the rows with these numbers, distinct, out of here and out of its rows, all of which are here.

        With n rows left, those of the last ones that stay move to the removed numbers below n (see
        `filling`); the rows' count becomes n and their delta (n, n).
        """

    def truncate(self, start: int) -> None:
        """Take the rows from number `start` on out of here; its rows still hold them, and keep them."""


class RowIndex(Protocol):
    """An index of a `Rows` by the columns `keys`; only programs read it. Within a key, rows keep their order.

    Once built it is brought up to date with each delta by `ensure`.
    """

    rows: OwnRows
    keys: tuple[int, ...]

    @property
    def indexed(self) -> int:
        """How many of the rows, from the first, are in the index."""

    @property
    def nbytes(self) -> int: ...
    def build(self, exact: bool) -> None:
        """Index the rows up to the delta's end, from nothing; `exact` if no more will come: all are OLD."""

    def ensure(self) -> bool:
        """Add the delta as a new round if it is not in yet. False if the index must be built anew."""

    def erase(self, rows: OwnRows, start: int, end: int, places: np.ndarray) -> bool:
        """Take rows [start, end) of `rows` out: those that `self.rows` has at `places`, distinct.

        Before: every row is in the index and old. After True the caller at once takes the rows out as
        `RowLocator.remove` does. False if the index must be dropped: it does not change, or to build it anew
        is better.
        """

    def retract(self, start: int) -> None:
        """Take the rows from number `start` on, which came last, out; the others become old.

        Before: `self.rows` still holds them. Afterwards the caller sets the count of the rows to `start` and
        settles them. Not of an index that was built `exact`.
        """

    def show_delta(self) -> bool:
        """The delta was set to the last rows, which are in the index: know the others as old.

        False if the index must be dropped: it does not change.
        """


class Program(Protocol):
    """A `Pipeline` made runnable: one thread at a time.

    A run ends early with STOPPED once ``stop[0]`` is not 0. Rows come out in no promised order. With an
    `Insert` sink each distinct new row comes out once.
    """

    pipeline: Pipeline
    stop: np.ndarray

    @property
    def candidates(self) -> int:
        """About how many bindings have reached the sink so far."""

    def run(self, out: OwnRows, start: int, end: int) -> Status:
        """Drive rows [start, end) and append to `out`, which has room; FULL: `resume` once it has again."""

    def resume(self, out: OwnRows) -> Status:
        """Go on after FULL."""


class RoundsAhead(Protocol):
    """Rounds of a recursion, of which many run before the host asks how they ended: one thread at a time.

    `candidates` are about how many bindings have reached the sink of each pipeline so far.
    """

    candidates: list[int]

    def run(self, rounds: int) -> tuple[RoundsEnd, int]:
        """Run up to so many; why they ended, and how many are complete. Rows grow, and deltas move on.

        Pipelines insert, each into rows with a set that have room. After FULL the sets of all heads are to be
        forgotten: they may hold what the rows do not; then the round is run again from its beginning.
        """


class Calculator(Protocol):
    """Computes on columns of ids that are a device's; bindings stay where they are.

    `columns` are by register. What can't be computed for some binding, as a division by zero, is left to the
    host: then there is no result.
    """

    def ids(self, compute: Compute, columns: Mapping[int, Array], count: int) -> Array | None:
        """The ids of the values in `compute.words`; those that are new to the dictionary are added to it."""

    def mask(self, compute: Compute, columns: Mapping[int, Array], count: int) -> Array | None:
        """For which bindings the value is not 0."""

    def number_rows(self, columns: Sequence[Array], count: int) -> tuple[Array, Array]:
        """Equal rows get one number, from 0 on: that of each row, and for each number one of its rows."""

    def reduction(self, reducer: Reducer, representation: Representation, groups: int) -> Reduction:
        """A reduction without rows; `representation` is that of what is aggregated."""


class Reduction(Protocol):
    """The aggregate of each of some groups, of rows that come in pieces, on a device."""

    def add(self, numbers: Array, compute: Compute | None, columns: Mapping[int, Array], count: int) -> bool:
        """More rows: the number of each one's group, and what computes its value. False: it can't be."""

    def ids(self, words: Words) -> Array:
        """The id of the aggregate by group; that of a group without one says nothing."""

    def holds(self, numbers: Array) -> Array | None:
        """A mask of the rows whose groups have an aggregate, by their numbers; None if all have one."""


class DeviceStatistics(Protocol):
    """What was asked of a device since it was opened; `syncs` are waits of the host for it."""

    launches: int
    syncs: int
    uploaded: int
    downloaded: int
    peak_bytes: int


class Backend(Protocol):
    """Where facts are kept and kernels run. Backends are equal only if they are the same object.

    `device_name` is the model of the device: what is measured on one holds for others of that name.
    `on_host`: columns are NumPy arrays in host memory, and worker threads and the compiled loop over
    small rounds can be used. `primitives` are None if it has none: then the host does without them. Without a
    `calculator` values are computed by the host.
    """

    name: str
    device_name: str
    on_host: bool
    primitives: Primitives | None
    calculator: Calculator | None

    def rows(self, arity: int, capacity: int = 0) -> Rows: ...
    def keyset(self, arity: int, bounds: Bounds, capacity: int = 0) -> KeySet: ...
    def index(self, rows: OwnRows, keys: Sequence[int], bounds: Bounds) -> RowIndex: ...
    def locator(self, rows: OwnRows) -> RowLocator: ...
    def program(self, pipeline: Pipeline, stop: np.ndarray) -> Program: ...
    def rounds_ahead(self, pipelines: Sequence[tuple[Pipeline, OwnRows]]) -> RoundsAhead | None:
        """The rounds of pipelines, each driven by the delta of rows, with the rows that it inserts into.

        None if the backend can't run these so. The rows may not be indexed meanwhile.
        """

    def column(self, ids: Array) -> Array:
        """Ids from host memory, or the backend's own, as a column in the backend's memory."""

    def bounds(self, columns: Sequence[Array], count: int) -> list[tuple[int, int]]:
        """For each column (not empty) the least id and one past the greatest."""

    def distinct_rows(self, columns: Sequence[Array], count: int) -> tuple[list[Array], int]:
        """The rows, each once; there is at least one."""

    def select(self, columns: Sequence[Array], mask: Array) -> tuple[list[Array], int]:
        """The rows where the mask holds, in order, and how many they are."""

    def estimate_distinct(self, rows: OwnRows, column: int) -> float:
        """About how many distinct ids a column has; the rows are not empty."""

    def bind_thread(self) -> None:
        """Make the backend usable from the calling thread."""

    def statistics(self) -> DeviceStatistics | None:
        """What was asked of the device; None on the host."""


class DeviceUnavailable(Exception):
    """A device can't be used here; the message says why."""


class PackageMissing(DeviceUnavailable):
    """A package that the device needs is not installed; the message says how to install it."""


class DeviceMemoryError(Exception):
    """A device is out of memory, after everything that could be tried.

    `halfway`: what was begun has changed a set; it can't be begun again before that set is made anew.
    """

    def __init__(self, requested: int, free: int) -> None:
        super().__init__(f"{requested:,} bytes asked for, {free:,} free")
        self.requested = requested
        self.free = free
        self.halfway = False


class DeviceError(Exception):
    """The device reported an error; `kernels` are those launched since it was last heard of."""

    def __init__(self, message: str, kernels: str) -> None:
        super().__init__(message)
        self.kernels = kernels
