"""What the host does of a run that has a device: counted where it happens, by kind and by what it is for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class HostOperation(StrEnum):
    """What the host can have to do while facts are on a device."""

    RULES = "rules"
    SCHEME = "making a scheme"
    READ = "reading a scheme"
    REDUCTION = "reduction"
    COMPUTATION = "computation"
    AGGREGATE = "aggregate"
    STATISTICS = "statistics"
    UPDATE = "update"

    @property
    def derives(self) -> bool:
        """Is it part of what a program asks for? If not, it is planning."""
        return self is not HostOperation.STATISTICS


@dataclass(slots=True)
class HostEntry:
    """What the host did of a kind for one relation or rule: rows that it took or made, seconds, how often."""

    operation: HostOperation
    of: str
    rows: int = 0
    seconds: float = 0.0
    times: int = 0


class Counted:
    """What a block of counted work has to tell: its rows, once they are known."""

    __slots__ = ("rows",)

    def __init__(self, rows: int) -> None:
        self.rows = rows


class HostWork:
    """The host's part of a run. Nothing is counted unless `is_counted`: without a device all is the host's.

    Work that is part of other work counts once, as that. `rule` is the one under evaluation. One thread at a
    time writes to it.
    """

    def __init__(self) -> None:
        self.is_counted = False
        self.rule = ""
        self._entries: dict[tuple[HostOperation, str], HostEntry] = {}
        self._is_inside = False

    @property
    def entries(self) -> tuple[HostEntry, ...]:
        """All of it, what took longest first."""
        return tuple(sorted(self._entries.values(), key=lambda entry: -entry.seconds))

    def note(self, operation: HostOperation, of: str, rows: int, seconds: float) -> None:
        """Add to what was done of a kind for a relation or a rule."""
        if self.is_counted and not self._is_inside:
            entry = self._entries.setdefault((operation, of), HostEntry(operation, of))
            entry.rows += rows
            entry.seconds += seconds
            entry.times += 1

    @contextmanager
    def counting(self, operation: HostOperation, of: str, rows: int = 0) -> Iterator[Counted]:
        """Count what a block does; it may tell how many rows that concerned."""
        counted = Counted(rows)
        if not self.is_counted or self._is_inside:
            yield counted
            return
        started, self._is_inside = time.perf_counter(), True
        try:
            yield counted
        finally:
            self._is_inside = False
            self.note(operation, of, counted.rows, time.perf_counter() - started)

    def each(
        self, operation: HostOperation, of: str, made: Iterable[T], rows: Callable[[T], int]
    ) -> Iterator[T]:
        """What is `made`, and count the making of it; what happens to it in between is others'."""
        if not self.is_counted or self._is_inside:
            yield from made
            return
        source = iter(made)
        while True:
            with self.counting(operation, of) as counted:
                one = next(source, None)
                counted.rows = rows(one) if one is not None else 0
            if one is None:
                return
            yield one
