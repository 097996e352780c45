"""Run pipelines that improve the best values of keys in place, for large rounds (`kernels.cpu.best`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.placement.workers import Workers
from gpuengine.evaluation.rules.body import BodyProgram
from gpuengine.evaluation.rules.database import Database
from gpuengine.kernels.contract import Compute, Status, Words
from gpuengine.kernels.cpu.merging import RoundMerge
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows

_BUFFER_ROWS = 1 << 16
_FEW_ROWS = 4096
"""Up to this many driver rows are not worth splitting over threads."""


def words_of(programs: Sequence[Program], others: Sequence[Words]) -> list[Words]:
    """The tables of words that pipelines compute with, and others, in the order in which all lock them."""
    found = {id(words): words for words in others}
    for program in programs:
        for operation in program.pipeline.operations:
            if isinstance(operation, Compute):
                for words in (operation.words, *(step.words for step in operation.steps)):
                    if words is not None:
                        found[id(words)] = words
    return [found[key] for key in sorted(found)]


def host_program(body: BodyProgram) -> Program:
    """The program of a body that is one pipeline on the host."""
    program = body.stages[0].program
    assert isinstance(program, Program)
    return program


@contextmanager
def holding(words: Sequence[Words], database: Database) -> Iterator[None]:
    """Let nobody else add words to the tables that are computed with; comparisons read where they are."""
    with ExitStack() as held:
        for one in words:
            held.enter_context(one.lock)
        database.refresh_values()
        yield


class Improving:
    """A body whose pipeline improves values in place, and what is done with the rows of keys that are new.

    Those are offered by `offer`, after which `refresh` has the pipeline find their keys. To run it twice over
    the same rows changes nothing.
    """

    def __init__(
        self,
        body: BodyProgram,
        merge: RoundMerge,
        offer: Callable[[Sequence[np.ndarray], int], None],
        refresh: Callable[[], object],
    ) -> None:
        self.program = program = host_program(body)
        self._database = body.database
        self._merge, self._offer, self._refresh = merge, offer, refresh
        self._words = words_of([program], [merge.words])
        self._arity = len(program.pipeline.sink.registers)
        self._computes = any(isinstance(part, Compute) for part in program.pipeline.operations)

    def run(self, start: int, end: int, workers: Workers, before_wave: Callable[[], None]) -> int | None:
        """Drive rows [start, end); the candidates seen by now, None if one that was computed is not admitted.

        `before_wave` is called while nothing runs. What computes adds words to the dictionary: that is for
        one thread.
        """
        if workers.threads > 1 and end - start > _FEW_ROWS and not self._computes:
            before = self.program.candidates
            with self._merge.shared():
                return before + workers.collect(
                    self.program, self._arity, (start, end), before_wave, self._take, self._held
                )
        buffer = Rows(self._arity, _BUFFER_ROWS)
        before_wave()
        with self._held():
            status = self.program.run(buffer, start, end)
        while True:
            self._take(buffer)
            if status is Status.DONE:
                return self.program.candidates
            if status is Status.STOPPED:
                raise Interrupted("stopped")
            if status is Status.OUTSIDE:
                return None
            before_wave()
            if status is Status.WORDS_FULL:
                self._make_room_for_words()
            with self._held():
                status = self.program.resume(buffer)

    def _held(self) -> AbstractContextManager[None]:
        return holding(self._words, self._database)

    def _take(self, buffer: Rows) -> None:
        if buffer.count:
            self._offer(buffer.columns(), buffer.count)
            buffer.count = 0
            self._refresh()

    def _make_room_for_words(self) -> None:
        operation = self.program.suspended_at
        assert isinstance(operation, Compute) and operation.words is not None
        with operation.words.lock:
            operation.words.make_room()
