"""Meet the end of memory with smaller pieces of the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpuengine.kernels.contract import DeviceMemoryError

LEAST_PIECE = 1 << 10
"""Work on fewer items than this is not cut further: if it has no memory, there is none."""

T = TypeVar("T")


def attempt(items: int, make: Callable[[], T]) -> T | None:
    """What `make` makes of some items; None if memory ran out and fewer items may do.

    By the time it returns, the error is gone, and what the failed attempt held with it.
    """
    try:
        return make()
    except DeviceMemoryError as error:
        if items <= LEAST_PIECE or error.halfway:
            raise
    return None


def finish(items: int, work: Callable[[int, int], None]) -> None:
    """Do `work` on [0, items), all at once or in smaller and smaller pieces, after a set was changed.

    If `work` raises `DeviceMemoryError`, it has itself changed nothing.
    """
    start, size = 0, items
    while start < items:
        end = min(start + size, items)
        try:
            work(start, end)
            start = end
        except DeviceMemoryError as error:
            if size <= LEAST_PIECE:
                error.halfway = True
                raise
            size = max(size // 2, LEAST_PIECE)
