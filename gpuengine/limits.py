"""Limits of memory that hold for the process: ask before allocating, and look between pieces of work.

Who begins an operation (loading, materialising, writing) states what the process may take::

    with Limits(budget, own=bytes_held_by_the_engine).applied():
        ...

and everything below that allocates by data asks, without being handed anything:

`charge(nbytes, what)`
    before an allocation whose size is known or bounded: the output of a concatenation, a column that is
    decoded, a growing arena. It raises `MemoryBudgetError` if the process would hold more than it may with
    it. Small sizes return at once, so one may ask per chunk.
`check(what)`
    between pieces of work (per block read, per chunk decompressed, per round) whose memory nobody can
    foresee. It compares what the process really holds (some µs).

`what` says what the memory is for, as the user knows it: ``"decompressing edge.csv.gz"``. Work that can go
on in smaller pieces asks `room()` instead, and takes a part of that. Outside an operation nothing is limited.

The limit is on what the process holds beyond what it held when the operation began, without what the engine
holds for itself: a frame of the caller's does not count, the engine's tables do. Threads that an operation
starts are under its limits if they run in a copy of its `contextvars` context; in others `charge` does
nothing, so ask before work is handed to a pool.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from gpuengine.errors import GpuEngineError, MemoryBudgetError
from gpuengine.machine import available_memory, code_memory, give_back, resident_memory

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
DEFAULT_SHARE = 0.8
_UNNOTICED = 1 << 20
"""What is smaller is not asked for: the next look sees it."""
_ALLOWANCE = 64 << 20
"""What libraries and buffers of a fixed size take on the way: it does not grow with the data."""
_LOOK_SECONDS = 0.001
"""A process takes no more than a few MB in this time."""


def parse_size(text: str | int) -> int:
    """Bytes of ``"8GB"``, ``"512 MiB"``, ``"1.5g"`` or a plain number."""
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*", str(text).upper())
        if not match or not isinstance(text, str):
            raise GpuEngineError(f"not a memory size: {text!r}; write it like 8GB or 512MB")
        size = int(float(match[1]) * _UNITS[match[2]])
    if size <= 0:
        raise GpuEngineError(f"a memory size must be more than 0, not {text!r}; write it like 8GB or 512MB")
    return size


def show_size(size: float) -> str:
    """``412 MB``, ``1.5 GB``: in units of 1024."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if size >= 100 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


class Limits:
    """How many bytes of memory one operation may have the process take; by default, most of what is free.

    They begin with the first question that is asked under them: what the process holds then counts as far as
    it is the engine's `own`. `doing` says what is going on, for the error; whoever knows better sets it.
    """

    def __init__(
        self,
        memory: int | None = None,
        own: Callable[[], int] = lambda: 0,
        doing: Callable[[], str] = str,
    ) -> None:
        self.memory = memory
        self.doing = doing
        self._own = own
        self._ceiling = -1
        self._code = 0
        self._looked = 0.0

    @contextmanager
    def applied(self) -> Iterator[Limits]:
        """Have these limits hold for what happens inside; inside an operation, that one's go on to hold."""
        outer = _current.get()
        if outer is not None:
            yield outer
            return
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    def room(self) -> int:
        """Bytes that the process may still take; negative if it took too many."""
        held = resident_memory()
        if self._ceiling < 0:
            self._begin(held)
        return self._ceiling + code_memory() - self._code - held

    def charge(self, nbytes: int, what: str) -> None:
        """Raise if so many more bytes are too many."""
        room = min(self.room(), self.memory or 0)
        if nbytes > room and nbytes <= (self.memory or 0):
            room = min(self._room_in_use(), self.memory or 0)
        if nbytes > room:
            self._refuse(f"{what} takes {show_size(nbytes)}, and {show_size(max(0, room))} are left")

    def check(self, what: str) -> None:
        """Raise if the process holds more than it may; who asks all the time is answered once in a while."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        room = self.room()
        if room < 0 and (room := self._room_in_use()) < 0:
            self._refuse(f"{what} took the process {show_size(-room)} over it")

    def _room_in_use(self) -> int:
        """What `room` says of memory that is in use: what was freed, allocators may not have given back."""
        give_back()
        return self.room()

    def _begin(self, held: int) -> None:
        global _foreign
        own = self._own()
        if self.memory is None:
            self.memory = default_memory(own)
        if held - own > _foreign + self.memory // 8:
            give_back()  # what was freed is not in use, but would count as somebody else's
            held = resident_memory()
        _foreign = max(0, held - own)
        self._code = code_memory()
        self._ceiling = _foreign + self.memory + _ALLOWANCE

    def _refuse(self, why: str) -> NoReturn:
        doing = self.doing()
        raise MemoryBudgetError(
            f"out of the memory budget of {show_size(self.memory or 0)}: {why}\n"
            + (f"  while {doing}\n" if doing else "")
            + "  hint: raise it with --memory, or make the rules or the data smaller"
        )


def default_memory(own: int = 0) -> int:
    """The budget of who sets none: most of what is free, and of the `own` bytes that are held already."""
    return int((available_memory() + own) * DEFAULT_SHARE)


_foreign = 0
"""Bytes that the process held besides an engine's own when limits began last."""
_current: ContextVar[Limits | None] = ContextVar("gpuengine_limits", default=None)


def current() -> Limits | None:
    """The limits of the operation that is going on here, if any."""
    return _current.get()


@contextmanager
def suspended() -> Iterator[None]:
    """Limit nothing inside: for what must not fail, such as taking back what was done."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def charge(nbytes: int, what: str) -> None:
    """Ask for bytes that are about to be allocated; see the module."""
    if nbytes >= _UNNOTICED and (limits := _current.get()) is not None:
        limits.charge(int(nbytes), what)


def check(what: str) -> None:
    """See that the process holds no more than it may; see the module."""
    if (limits := _current.get()) is not None:
        limits.check(what)


def room() -> int | None:
    """Bytes that the process may still take; None where nothing is limited."""
    limits = _current.get()
    return None if limits is None else max(0, limits.room())
