"""Run one pipeline over many rows on several threads of the host, without a lock on the data.

Kernels release the GIL and insert atomically, so workers share the head's set. Each takes a few of the
driver's rows at a time, and writes to pieces of the head's free room; when that is taken no worker runs, and
whatever must grow grows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gpuengine.errors import Interrupted
from gpuengine.evaluation.timeline import ThreadTimes
from gpuengine.kernels.contract import Status
from gpuengine.kernels.cpu import crew
from gpuengine.kernels.cpu.program import Program, SharedWork
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.schemes.table import Table

BUFFER_ROWS = 1 << 17
"""A wave has room for as many rows of each thread, or several times that if there is."""
_MOST_BUFFERS = 8
_CHUNKS_PER_WORKER = 256
_LEAST_CHUNK = 16
_MOST_CHUNK = 1024
_SPANS_PER_WORKER = 16
_LEAST_SPAN = 64


class Workers:
    """Threads, the calling one among them. `threads` of 1 runs everything in the calling thread.

    When they work is noted in `times`.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.times = ThreadTimes()
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._buffers: dict[int, list[Rows]] = {}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def lent(self) -> AbstractContextManager[None]:
        """Let the sets and indexes that the calling thread grows in the block be grown by all threads."""
        return crew.lent(self)

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Call `function` on every item, in parallel; the first error is raised."""
        waiting = deque(items)

        def work() -> tuple[float, float]:
            began = time.perf_counter()
            while True:
                try:
                    item = waiting.popleft()
                except IndexError:
                    return began, time.perf_counter()
                function(item)

        if self._pool is None or len(waiting) < 2:
            work()
            return
        others = [self._pool.submit(work) for _ in range(min(self.threads, len(waiting)) - 1)]
        try:
            own = work()
        finally:
            wait(others)
        self.times.note_together([own, *(other.result() for other in others)])

    def insert(
        self, program: Program, head: Table, start: int, end: int, before_wave: Callable[[], None]
    ) -> int:
        """Drive rows [start, end) of an inserting program into `head`; returns the candidates seen.

        `before_wave` is called while no worker runs, before each wave.
        """
        programs = [program.copy() for _ in range(self.threads)]
        for own in programs:
            own.begin()
        chunk = min(max(_LEAST_CHUNK, (end - start) // (self.threads * _CHUNKS_PER_WORKER)), _MOST_CHUNK)
        work = SharedWork(start, end, chunk, self.threads, head.host_rows)
        statuses = [Status.DONE] * self.threads

        def run(part: int) -> None:
            statuses[part] = programs[part].share(work, part)

        while not work.is_taken or Status.FULL in statuses:
            before_wave()
            head.reserve(self.threads * BUFFER_ROWS)
            work.lend_room(_MOST_BUFFERS * self.threads * BUFFER_ROWS)
            self.each(run, range(self.threads))
            work.close_gaps()
            if Status.STOPPED in statuses:
                raise Interrupted("stopped")
        return sum(own.candidates for own in programs)

    def collect(
        self,
        program: Program,
        arity: int,
        rows: tuple[int, int],
        before_wave: Callable[[], None],
        take: Callable[[Rows], None],
        during_wave: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> int:
        """Drive rows into buffers of the threads' own; returns the candidates seen.

        While no worker runs, `before_wave` is called before each wave, and after it `take` for each buffer of
        rows of so many columns that came out; it empties them. `during_wave` is entered for a wave.
        """
        start, end = rows
        programs = [program.copy() for _ in range(self.threads)]
        buffers = self.buffers_for(arity)
        chunk = max(_LEAST_SPAN, (end - start) // (self.threads * _SPANS_PER_WORKER))
        chunks = [(at, min(at + chunk, end)) for at in range(start, end, chunk)]
        chunks.reverse()
        suspended = [False] * self.threads
        stopped = [False] * self.threads

        def work(worker: int) -> None:
            own, buffer = programs[worker], buffers[worker]
            status = own.resume(buffer) if suspended[worker] else Status.DONE
            while status is Status.DONE:
                try:
                    span = chunks.pop()
                except IndexError:
                    break
                status = own.run(buffer, *span)
            suspended[worker] = status is Status.FULL
            stopped[worker] = status is Status.STOPPED

        while chunks or any(suspended):
            before_wave()
            with during_wave():
                self.each(work, range(self.threads))
            for buffer in buffers:
                take(buffer)
            if any(stopped):
                raise Interrupted("stopped")
        return sum(own.candidates for own in programs)

    def buffers_for(self, arity: int) -> list[Rows]:
        """Empty rows of their own for all workers."""
        if arity not in self._buffers:
            self._buffers[arity] = [Rows(arity, BUFFER_ROWS) for _ in range(self.threads)]
        return self._buffers[arity]
