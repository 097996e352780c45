"""The kernel contract in plain Python: slow, obvious, and what the other backends are held against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from gpuengine.kernels.contract import (
    IGNORE,
    Array,
    Bounds,
    Comparator,
    Compare,
    Contains,
    Domain,
    Exists,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Representation,
    Scan,
    Status,
)

IDENTITY = 1 << 24
NONE = (1 << 32) - 1
Row = tuple[int, ...]


class Rows:
    def __init__(self, arity: int, capacity: int = 0) -> None:
        self.arity = arity
        self.capacity = capacity
        self.data: list[Row] = []
        self.delta = (0, 0)

    @property
    def count(self) -> int:
        return len(self.data)

    @count.setter
    def count(self, count: int) -> None:
        missing = count - len(self.data)
        self.data[count:] = [(0,) * self.arity] * max(missing, 0)

    @property
    def nbytes(self) -> int:
        return 4 * self.arity * len(self.data)

    def reserve(self, capacity: int) -> None:
        self.capacity = max(self.capacity, capacity)

    def grow(self, extra: int) -> None:
        self.reserve(self.count + extra)

    def limit(self, count: int) -> None:
        """Nothing to do: a list has room."""

    def trim(self) -> None:
        self.capacity = self.count

    def frozen(self, count: int) -> Rows:
        other = copy(self)
        other.data = self.data[:count]
        other.settle()
        return other

    def append(self, columns: Sequence[np.ndarray], count: int) -> None:
        self.data += [tuple(int(column[i]) for column in columns) for i in range(count)]

    def column(self, j: int) -> np.ndarray:
        return np.array([row[j] for row in self.data], np.uint32)

    def columns(self) -> list[np.ndarray]:
        return [self.column(j) for j in range(self.arity)]

    def device_columns(self) -> list[np.ndarray]:
        return self.columns()

    def between(self, start: int, end: int) -> list[np.ndarray]:
        return [np.array([row[j] for row in self.data[start:end]], np.uint32) for j in range(self.arity)]

    def taken(self, places: np.ndarray) -> list[np.ndarray]:
        return [np.array([self.data[at][j] for at in places], np.uint32) for j in range(self.arity)]

    def unshare(self) -> None:
        """Nothing to do: frozen rows are a list of their own."""

    def advance(self) -> int:
        self.delta = (self.delta[1], self.count)
        return self.count - self.delta[0]

    def settle(self) -> None:
        self.delta = (self.count, self.count)

    def domain(self, domain: Domain) -> list[Row]:
        return self.data[: self.delta[0] if domain is Domain.OLD else self.delta[1]]


class KeySet:
    capacity = 1 << 62

    def __init__(self, arity: int, bounds: Bounds, capacity: int = 0) -> None:
        self.arity = arity
        self.members: set[Row] = set()

    @property
    def nbytes(self) -> int:
        return 4 * self.arity * len(self.members)

    def reserve(self, capacity: int, rows: Rows) -> None:
        """Nothing to do: a Python set grows by itself."""

    def widen(self, bounds: Bounds, rows: Rows) -> None:
        """Nothing to do: a Python set has no bounds."""

    def add(self, row: Row) -> bool:
        if row in self.members:
            return False
        self.members.add(row)
        return True

    def insert(self, rows: Rows, start: int, end: int) -> np.ndarray:
        return np.array([self.add(row) for row in rows.data[start:end]], np.bool_)

    def contains(self, rows: Rows, start: int, end: int) -> np.ndarray:
        return np.array([row in self.members for row in rows.data[start:end]], np.bool_)

    def erase(self, rows: Rows, start: int, end: int) -> None:
        self.members.difference_update(rows.data[start:end])


class RowLocator:
    nbytes = 0

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.count = 0

    def append(self, start: int, end: int) -> None:
        assert start == self.count
        self.count = end

    def locate(self, batch: Rows, start: int, end: int) -> np.ndarray:
        numbers = {row: number for number, row in enumerate(self.rows.data[: self.count])}
        return np.array([numbers.get(row, NONE) for row in batch.data[start:end]], np.uint32)

    def remove(self, places: np.ndarray) -> None:
        assert self.count == self.rows.count
        left, data = self.rows.count - len(places), self.rows.data
        gone = set(places.tolist())
        stay = [row for number, row in enumerate(data) if number >= left and number not in gone]
        for hole in [place for place in places.tolist() if place < left]:
            data[hole] = stay.pop(0)
        self.rows.count = self.count = left
        self.rows.settle()

    def truncate(self, start: int) -> None:
        self.count = min(self.count, start)


class RowIndex:
    nbytes = 0

    def __init__(self, rows: Rows, keys: Sequence[int], bounds: Bounds) -> None:
        self.rows = rows
        self.keys = tuple(keys)

    @property
    def indexed(self) -> int:
        return self.rows.delta[1]

    def build(self, exact: bool) -> None:
        """Nothing to do: look-ups scan the rows."""

    def ensure(self) -> bool:
        return True

    def erase(self, rows: Rows, start: int, end: int, places: np.ndarray) -> bool:
        return True

    def retract(self, start: int) -> None:
        """Nothing to do."""

    def show_delta(self) -> bool:
        return True

    def matches(self, keys: Row, domain: Domain) -> list[Row]:
        """The payloads of the rows with these key values."""
        return [
            tuple(value for j, value in enumerate(row) if j not in self.keys)
            for row in self.rows.domain(domain)
            if tuple(row[key] for key in self.keys) == keys
        ]


class Program:
    """Runs to the end at once, or until it is stopped between two rows: `run` never returns FULL."""

    def __init__(self, pipeline: Pipeline, stop: np.ndarray | None = None) -> None:
        self.pipeline = pipeline
        self.stop = np.zeros(1, np.int64) if stop is None else stop
        self.candidates = 0

    def run(self, out: Rows, start: int, end: int) -> Status:
        for row in self.pipeline.driver.rows.data[start:end]:
            if self.stop[0]:
                return Status.STOPPED
            self.drive(row, out)
        return Status.DONE

    def resume(self, out: Rows) -> Status:
        raise AssertionError("a program that is never full is never resumed")

    def drive(self, row: Row, out: Rows) -> None:
        """Everything that one row of the driver leads to."""
        pipeline = self.pipeline
        registers = [0] * (pipeline.registers + 1)
        for register, id in pipeline.constants:
            registers[register] = id
        if _bind(pipeline.driver.bindings, row, registers):
            for _ in _solutions(pipeline.operations, 0, registers, {}):
                self.candidates += 1
                result = tuple(registers[register] for register in pipeline.sink.registers)
                if not isinstance(pipeline.sink, Insert) or pipeline.sink.keyset.add(result):
                    out.data.append(result)


def _bind(bindings: Sequence[int], row: Row, registers: list[int]) -> bool:
    for binding, value in zip(bindings, row, strict=True):
        if binding >= 0:
            registers[binding] = value
        elif binding != IGNORE and registers[-2 - binding] != value:
            return False
    return True


def _solutions(
    operations: Sequence[Operation], number: int, registers: list[int], chosen: dict[int, int]
) -> Iterator[None]:
    """Leave each solution's values in `registers` and yield."""
    if number == len(operations):
        yield
        return
    operation = operations[number]
    for _ in _step(operation, number, registers, chosen):
        yield from _solutions(operations, number + 1, registers, chosen)


def _step(op: Operation, number: int, registers: list[int], chosen: dict[int, int]) -> Iterator[None]:
    if isinstance(op, Probe):
        lists = [_matches(probe, registers) for probe in op.alternatives]
        chosen[number] = min(range(len(lists)), key=lambda a: len(lists[a]))
        if all(lists):
            for payload in lists[chosen[number]]:
                if _bind(op.alternatives[chosen[number]].payload, payload, registers):
                    yield
    elif isinstance(op, Scan):
        rows = op.rows.domain(op.domain)
        only_first = all(binding == IGNORE for binding in op.bindings)
        for row in rows[:1] if only_first else rows:
            if _bind(op.bindings, row, registers):
                yield
    elif isinstance(op, Contains):
        passed_over = op.unless is not None and chosen.get(op.unless[0]) == op.unless[1]
        row = tuple(registers[register] for register in op.registers)
        if passed_over or (row in op.keyset.members) != op.negated:
            yield
    elif isinstance(op, Exists):
        found = any(_bind(op.probe.payload, row, registers) for row in _matches(op.probe, registers))
        if found != op.negated:
            yield
    else:
        assert isinstance(op, Compare)
        if _compare(op, registers):
            yield


def _matches(probe: IndexProbe, registers: list[int]) -> list[Row]:
    keys = tuple(registers[key] for key in probe.keys)
    matches: list[Row] = probe.index.matches(keys, probe.domain)
    return matches


def _compare(op: Compare, registers: list[int]) -> bool:
    left: Any = registers[op.left]
    right: Any = registers[op.right]
    if op.values is not None:
        values = op.values.array
        if op.representation is Representation.BY_FLOAT:
            left, right = float(values[left]), float(values[right])
        else:
            left, right = (int(id if id < IDENTITY else values[id - IDENTITY]) for id in (left, right))
    return bool(
        {
            Comparator.EQUAL: left == right,
            Comparator.NOT_EQUAL: left != right,
            Comparator.LESS: left < right,
            Comparator.LESS_EQUAL: left <= right,
        }[op.comparator]
    )


class ReferenceBackend:
    """The classes above as a `contract.Backend`; columns are NumPy arrays, but no thread pool can be used."""

    name = "reference"
    device_name = "reference"
    on_host = False
    primitives = None
    calculator = None

    def rows(self, arity: int, capacity: int = 0) -> Rows:
        return Rows(arity, capacity)

    def keyset(self, arity: int, bounds: Bounds, capacity: int = 0) -> KeySet:
        return KeySet(arity, bounds, capacity)

    def index(self, rows: Rows, keys: Sequence[int], bounds: Bounds) -> RowIndex:
        return RowIndex(rows, keys, bounds)

    def rounds_ahead(self, pipelines: Sequence[tuple[Pipeline, Rows]]) -> None:
        """One round after the other."""

    def locator(self, rows: Rows) -> RowLocator:
        return RowLocator(rows)

    def program(self, pipeline: Pipeline, stop: np.ndarray) -> Program:
        return Program(pipeline, stop)

    def column(self, ids: Array) -> Array:
        return np.asarray(ids, np.uint32)

    def bounds(self, columns: Sequence[Array], count: int) -> list[tuple[int, int]]:
        return [(int(min(column)), int(max(column)) + 1) for column in columns]

    def distinct_rows(self, columns: Sequence[Array], count: int) -> tuple[list[Array], int]:
        rows = dict.fromkeys(tuple(int(column[i]) for column in columns) for i in range(count))
        return [np.array([row[j] for row in rows], np.uint32) for j in range(len(columns))], len(rows)

    def select(self, columns: Sequence[Array], mask: Array) -> tuple[list[Array], int]:
        return [column[mask] for column in columns], int(sum(mask))

    def estimate_distinct(self, rows: Rows, column: int) -> float:
        return float(len({row[column] for row in rows.data}))

    def bind_thread(self) -> None:
        """Nothing to do."""

    def statistics(self) -> None:
        """Nothing is counted."""
