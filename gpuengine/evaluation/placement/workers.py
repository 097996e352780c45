"""Run one pipeline over many rows on several threads of the host, without a lock on the data.

Kernels release the GIL and insert atomically, so workers share the head's set. Each writes to a
buffer of its own; between waves, when no worker runs, the buffers are appended to the head's rows and
whatever must grow grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gpuengine.errors import Interrupted
from gpuengine.kernels.contract import Status
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.schemes.table import Table

BUFFER_ROWS = 1 << 17
_CHUNKS_PER_WORKER = 16
_LEAST_CHUNK = 64


class Workers:
    """A pool of threads with a buffer each. `threads` of 1 runs everything in the calling thread."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._buffers: dict[int, list[Rows]] = {}

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, function: Callable[[Any], Any], items: Iterable[Any]) -> None:
        """Call `function` on every item, in parallel; the first error is raised."""
        items = list(items)
        if self._pool is None or len(items) < 2:
            for item in items:
                function(item)
        else:
            list(self._pool.map(function, items))

    def insert(
        self, program: Program, head: Table, start: int, end: int, before_wave: Callable[[], None]
    ) -> int:
        """Drive rows [start, end) of an inserting program into `head`; returns the candidates seen.

        `before_wave` is called while no worker runs, before each wave.
        """
        programs = [program.copy() for _ in range(self.threads)]
        buffers = self._buffers_for(head.arity)
        chunk = max(_LEAST_CHUNK, (end - start) // (self.threads * _CHUNKS_PER_WORKER))
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
            head.reserve(self.threads * BUFFER_ROWS)
            self.each(work, range(self.threads))
            for buffer in buffers:
                head.rows.append(buffer.columns(), buffer.count)
                buffer.count = 0
            if any(stopped):
                raise Interrupted("stopped")
        return sum(own.candidates for own in programs)

    def _buffers_for(self, arity: int) -> list[Rows]:
        if arity not in self._buffers:
            self._buffers[arity] = [Rows(arity, BUFFER_ROWS) for _ in range(self.threads)]
        return self._buffers[arity]
