"""Threads that share the work of growing sets and indexes: who evaluates lends them, for a time.

Sets and indexes grow in the midst of other work, whose caller has threads that are idle then. The thread that
lends them may use them; any other thread that grows something does so by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

LEAST_SHARE = 1 << 13
"""Fewer rows or slots than this are not worth a thread."""


class Crew(Protocol):
    """`threads` threads, one of which is the caller's."""

    threads: int

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Call `function` on every item, in parallel; the first error is raised."""


class _Lent(threading.local):
    crew: Crew | None = None


_LENT = _Lent()


@contextmanager
def lent(crew: Crew) -> Iterator[None]:
    """Let what the calling thread grows in the block be grown by a crew."""
    before, _LENT.crew = _LENT.crew, crew
    try:
        yield
    finally:
        _LENT.crew = before


def shares_of(work: int) -> int:
    """Into how many shares to divide the work on so many rows or slots; 1 if nobody would help."""
    crew = _LENT.crew
    return 1 if crew is None else max(1, min(crew.threads, work // LEAST_SHARE))


def each_share(function: Callable[[int], Any], shares: Iterable[int]) -> None:
    """Call `function` with each number, in parallel if the calling thread was lent a crew."""
    crew = _LENT.crew
    if crew is None:
        for share in shares:
            function(share)
    else:
        crew.each(function, shares)


def each_part(function: Callable[[int, int], Any], start: int, end: int) -> None:
    """Call `function` with parts [low, high) that make up [start, end), in parallel."""
    parts = shares_of(end - start)
    cuts = [start + (end - start) * part // parts for part in range(parts + 1)]
    each_share(lambda part: function(cuts[part], cuts[part + 1]), range(parts))
