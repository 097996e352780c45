"""Run a body that computes on several threads: each takes rows of the driver through all stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context

from gpuengine.errors import Interrupted
from gpuengine.evaluation.placement.workers import Workers
from gpuengine.evaluation.rules.blocks import Calculation
from gpuengine.evaluation.rules.body import BodyProgram
from gpuengine.kernels.contract import Bounds, Compare, Representation, Rows, Status
from gpuengine.language.program import Comparison, Functor, Pack, Term, Variable, Wildcard
from gpuengine.schemes.table import Table

_CHUNKS_PER_WORKER = 16
_LEAST_CHUNK = 1 << 15


def can_run_in_parallel(body: BodyProgram) -> bool:
    """Does a body compute nothing but comparisons, none of which minds who else computes at the time?

    Pipelines must not read tables of values: those move when another thread adds terms.
    """
    return (
        body.backend.on_host
        and body.stages[0].input is None
        and not body.in_hindsight
        and all(
            not isinstance(operation, Compare) or operation.representation is Representation.BY_ID
            for stage in body.stages
            for operation in stage.pipeline.operations
        )
        and all(
            isinstance(one, Calculation) or _is_independent(one.step.literal)
            for stage in body.stages
            for one in stage.computations
        )
    )


def _is_independent(literal: object) -> bool:
    return isinstance(literal, Comparison) and all(map(_is_pure, (literal.left, literal.right)))


def _is_pure(term: Term | Wildcard) -> bool:
    """Is a term without functions of the user, and without ranges, which take room as they like?"""
    if isinstance(term, Functor):
        return term.op != "range" and not term.op.startswith("@") and all(map(_is_pure, term.args))
    return not isinstance(term, Pack) or all(map(_is_pure, term.args))


class _Worker:
    """A thread's own copy of a body, and how far it is.

    `outside` are the bounds of what it wants to insert next, if the head did not admit that when asked.
    `error` is what it ended with: others may go on until they are waited for.
    """

    def __init__(
        self,
        body: BodyProgram,
        head: Table,
        args: Sequence[object],
        buffer: Rows,
        spans: list[tuple[int, int]],
    ) -> None:
        self.body, self.buffer = body, buffer
        self._before = body.candidates
        self.is_done = False
        self.error: Exception | None = None
        self.outside: list[tuple[int, int] | None] = []
        self._head, self._args = head, args
        self._context = copy_context()
        self._inputs = self._final_inputs(spans)
        self._waiting: tuple[int, int] | None = None
        self._status = Status.DONE

    @property
    def candidates(self) -> int:
        """Bindings that reached the end."""
        return self.body.candidates - self._before

    def run(self) -> None:
        """Go on until all is done, the buffer is full, or something is to be admitted."""
        try:
            if not self.is_done:
                self._context.run(self._go_on, self._head.bounds)
        except Exception as error:
            self.error = error

    def _go_on(self, bounds: Bounds) -> None:
        program = self.body.stages[-1].program
        if self._status is Status.FULL:
            self._status = program.resume(self.buffer)
        while self._status is Status.DONE:
            self._waiting = self._waiting or next(self._inputs, None)
            if self._waiting is None:
                self.is_done = True
                return
            self.outside = [
                self.body.input_bounds(arg) if isinstance(arg, Variable) else None for arg in self._args
            ]
            if not _holds(bounds, self.outside):
                return
            span, self._waiting = self._waiting, None
            self._status = program.run(self.buffer, *span)
        if self._status is Status.STOPPED:
            raise Interrupted("stopped")

    def _final_inputs(self, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        while True:
            try:
                span = spans.pop()
            except IndexError:
                return
            yield from self.body.final_inputs(*span)


def insert_in_parallel(
    body: BodyProgram,
    head_args: Sequence[object],
    head: Table,
    span: tuple[int, int],
    workers: Workers,
    admit: Callable[[Sequence[tuple[int, int] | None]], None],
    before_wave: Callable[[], None],
) -> int:
    """Insert into `head`, a table with these arguments, what a body derives; the candidates seen.

    While no thread runs, `before_wave` is called, and `admit` with bounds that the head has to admit.
    """
    start, end = span
    chunk = max(_LEAST_CHUNK, (end - start) // (workers.threads * _CHUNKS_PER_WORKER))
    spans = [(at, min(at + chunk, end)) for at in range(start, end, chunk)]
    spans.reverse()
    buffers = workers.buffers_for(head.arity)
    copies = body.copies(workers.threads)
    team = [_Worker(own, head, head_args, buffer, spans) for own, buffer in zip(copies, buffers, strict=True)]
    while not all(worker.is_done for worker in team):
        before_wave()
        head.reserve(sum(buffer.capacity for buffer in buffers))
        workers.each(_Worker.run, team)
        for worker in team:
            head.rows.append(worker.buffer.columns(), worker.buffer.count)
            worker.buffer.count = 0
        for worker in team:
            if worker.error is not None:
                raise worker.error
            admit(worker.outside)
    return sum(worker.candidates for worker in team)


def _holds(bounds: Bounds, needed: Sequence[tuple[int, int] | None]) -> bool:
    return all(
        inside is None or (low <= inside[0] and inside[1] <= high)
        for (low, high), inside in zip(bounds, needed, strict=True)
    )
