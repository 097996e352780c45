"""Run a `Pipeline` on a device: batches of bindings, filtered, expanded in bounded chunks, and sunk.

A pipeline's operations are taken in order. Filters mark the bindings that fail; an expansion first
drops those, counts matches, and goes on depth first with a chunk of candidates at a time, so that memory is
bounded whatever the join's size. Where the last operation is a probe into an `Insert`, one kernel
expands, filters and inserts without ever writing a candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

import numpy as np

from gpuengine.kernels.contract import (
    IGNORE,
    Compare,
    Contains,
    Domain,
    Exists,
    IndexProbe,
    Insert,
    Pipeline,
    Probe,
    Scan,
    Status,
)
from gpuengine.kernels.cuda.batch import Batch
from gpuengine.kernels.cuda.columns import keep_equal
from gpuengine.kernels.cuda.devices.device import Device
from gpuengine.kernels.cuda.expansion import (
    UNKNOWN,
    Found,
    choose,
    expand,
    expand_probe,
    number_found,
    pair_all,
    pair_matches,
)
from gpuengine.kernels.cuda.filters import Filters
from gpuengine.kernels.cuda.fused import FusedInsert, plan_fused
from gpuengine.kernels.cuda.liveness import needed_registers, rows_read
from gpuengine.kernels.cuda.pieces import LEAST_PIECE, attempt, finish
from gpuengine.kernels.cuda.rows import Rows
from gpuengine.kernels.cuda.values import ValueMirror

_ASK_BELOW = 8
"""Room for less than this part of the capacity is asked for before it is used up: small pieces are slow."""
_WORTH_A_WAIT = 1 << 16
"""Of so many bindings those that fail are dropped before they are inserted; fewer are just passed over,
because learning how many are left takes longer."""
_LEAST_EXPECTED = 1 << 10
"""So many candidates are asked for at least while nobody knows how many there are."""
T = TypeVar("T")


class Program:
    """A pipeline ready to run on a device, with its own position.

    `stop` is an int64 array of one element; a run ends early with STOPPED once it is not 0, between chunks.
    `candidates` are the bindings that reached the sink so far, and some that the last filters dropped.
    """

    def __init__(
        self, device: Device, pipeline: Pipeline, values: ValueMirror, stop: np.ndarray | None = None
    ) -> None:
        self.device = device
        self.pipeline = pipeline
        self.stop = stop if stop is not None else np.zeros(1, np.int64)
        self.candidates = 0
        self._filters = Filters(device, values)
        self._constants = dict(pipeline.constants)
        self._needed = needed_registers(pipeline)
        self._reads = rows_read(pipeline)
        self._work: Iterator[None] = iter(())
        self._expected = 0
        self._out = Rows(device, 0)

    def run(self, out: Rows, start: int, end: int) -> Status:
        """Drive rows [start, end); `out` has room for at least one row."""
        self._work = self._drive(start, end)
        return self.resume(out)

    def resume(self, out: Rows) -> Status:
        """Go on after FULL."""
        self._out = out
        with ExitStack() as stack:
            for rows in (out, *self._reads):
                stack.enter_context(rows.pin())
            for _ in self._work:
                return Status.FULL
        return Status.STOPPED if self.stop[0] else Status.DONE

    def _drive(self, start: int, end: int) -> Iterator[None]:
        for batch in self._attempts(end - start, lambda a, b: self._driver_batch(start + a, start + b)):
            yield from self._solve(0, batch, {})

    def _driver_batch(self, start: int, end: int) -> Batch:
        """Rows of the driver, bound from left to right; columns are views."""
        driver = self.pipeline.driver
        batch = Batch(self.device, end - start, {}, self._constants)
        for j, binding in enumerate(driver.bindings):
            if binding == IGNORE:
                continue
            column = driver.rows.device_column(j)[start:end]
            if binding >= 0:
                batch.columns[binding] = column
            else:
                expected = batch.column(-2 - binding)
                self.device.launch(keep_equal, batch.count, column, expected, batch.mask())
        return batch

    def _attempts(self, total: int, make: Callable[[int, int], T]) -> Iterator[T]:
        """`make` of chunk after chunk; out of memory, smaller ones are tried. Ends early when stopped."""
        start = 0
        while start < total and not self.stop[0]:
            end = min(start + self.device.chunk_items, total)
            made = attempt(end - start, partial(make, start, end))
            if made is None:
                self.device.chunk_items = max((end - start) // 2, LEAST_PIECE)
            else:
                yield made
                start = end

    def _solve(self, number: int, batch: Batch, chosen: dict[int, int]) -> Iterator[None]:
        """Take a batch through the operations from `number` on; yields when the output is full.

        `chosen` has the alternative that each probe so far took for all of the batch. A batch that is too
        large for the memory left is cut in two before any of it has come out.
        """
        found_parts = attempt(batch.count, partial(self._filter_and_find, number, batch, chosen))
        if found_parts is None:
            half = batch.count // 2
            yield from self._solve(number, batch.span(0, half), chosen)
            yield from self._solve(number, batch.span(half, batch.count), chosen)
            return
        number, batch, parts = found_parts
        if number == len(self.pipeline.operations):
            self.candidates += batch.count
            yield from self._sink(batch)
        elif batch.count:
            operation = self.pipeline.operations[number]
            if isinstance(operation, Scan):
                yield from self._scan(number, operation, batch, chosen)
            for alternative, found in parts:
                yield from self._probe(number, found, {**chosen, number: alternative})

    def _filter_and_find(
        self, number: int, batch: Batch, chosen: dict[int, int]
    ) -> tuple[int, Batch, list[tuple[int, Found]]]:
        """Apply the filters from `number` on; what is left, for the operation that comes then.

        If that is a probe, with the matches of each part of the batch.
        """
        operations = self.pipeline.operations
        while number < len(operations):
            operation = operations[number]
            if not isinstance(operation, Contains | Exists | Compare):
                batch = batch.compact(self._needed[number])
                if isinstance(operation, Probe) and batch.count:
                    return number, batch, self._find(number, operation, batch)
                break
            self._filters.apply(operation, batch, chosen)
            number += 1
        else:
            if batch.count >= _WORTH_A_WAIT or not isinstance(self.pipeline.sink, Insert):
                batch = batch.compact(self._needed[number])
        return number, batch, []

    def _find(self, number: int, probe: Probe, batch: Batch) -> list[tuple[int, Found]]:
        """The matches of each part of a batch; where one kernel does the rest, nobody waits for how many."""
        if len(probe.alternatives) == 1 and self._fused(number, probe.alternatives[0]) is not None:
            return [(0, number_found(self.device, probe.alternatives[0], batch))]
        return list(choose(self.device, probe, batch, self._needed[number]))

    def _fused(self, number: int, probe: IndexProbe) -> FusedInsert | None:
        """How one kernel expands and inserts, if the probe is the last operation and the kernel can."""
        sink = self.pipeline.sink
        is_last = number == len(self.pipeline.operations) - 1
        return plan_fused(probe, sink) if is_last and isinstance(sink, Insert) else None

    def _scan(self, number: int, scan: Scan, batch: Batch, chosen: dict[int, int]) -> Iterator[None]:
        rows = scan.rows
        count = rows.delta[0] if scan.domain is Domain.OLD else rows.delta[1]
        if all(binding == IGNORE for binding in scan.bindings):
            count = min(count, 1)
        columns = range(rows.arity)

        def make(base: int, end: int) -> Batch:
            pairs = pair_all(self.device, count, base, end)
            return expand(batch, pairs, rows, columns, scan.bindings, self._needed[number + 1])

        for grown in self._attempts(batch.count * count, make):
            yield from self._solve(number + 1, grown, chosen)

    def _probe(self, number: int, found: Found, chosen: dict[int, int]) -> Iterator[None]:
        sink, fused = self.pipeline.sink, self._fused(number, found.probe)
        if fused is not None and isinstance(sink, Insert):
            yield from self._insert_fused(fused, found, sink)
            return

        def make(base: int, end: int) -> Batch:
            return expand_probe(found, pair_matches(self.device, found, base, end), self._needed[number + 1])

        for grown in self._attempts(found.total, make):
            yield from self._solve(number + 1, grown, chosen)

    def _insert_fused(self, fused: FusedInsert, found: Found, sink: Insert) -> Iterator[None]:
        """Expand and insert as many as the last time lead one to expect, until the number is known."""
        base, total = 0, found.total
        while (total == UNKNOWN or base < total) and not self.stop[0]:
            expected = max(2 * self._expected, found.batch.count, _LEAST_EXPECTED)
            wanted = expected if total == UNKNOWN else total - base
            room = yield from self._room(wanted)
            if self._out.count + room >= sink.keyset.most:
                # However many candidates there are, no more can be new.
                room = wanted
            end = base + min(room, self.device.chunk_items, wanted)
            self._out.count, total = fused.launch(self.device, found, base, end, sink, self._out)
            end = min(end, total)
            self.candidates += end - base
            base = end
        self._expected = max(total, 0)

    def _sink(self, batch: Batch) -> Iterator[None]:
        start, most = 0, batch.count
        while start < batch.count and not self.stop[0]:
            room = yield from self._room(batch.count - start)
            end = min(start + room, start + most, batch.count)
            part = batch.span(start, end)
            sink = self.pipeline.sink
            put = (
                partial(self._insert, sink, part)
                if isinstance(sink, Insert)
                else partial(self._collect, part)
            )
            if attempt(part.count, put):
                start = end
            else:
                most = max((end - start) // 2, LEAST_PIECE)

    def _collect(self, part: Batch) -> bool:
        """Append bindings; the output has room for all."""
        self._out.append([part.column(register) for register in self.pipeline.sink.registers], part.count)
        return True

    def _insert(self, sink: Insert, part: Batch) -> bool:
        """Insert bindings and append those that were new; the output has room for all."""
        device = self.device
        columns = [part.column(register) for register in sink.registers]
        new = sink.keyset.insert_columns(columns, part.count, part.mask())

        def append(start: int, end: int) -> None:
            positions = device.select(new[start:end])
            gathered = [device.gather(column[start:end], positions) for column in columns]
            self._out.append(gathered, len(positions))

        # What is in the set must come out: from here on memory may only be short for a piece.
        finish(part.count, append)
        return True

    def _room(self, wanted: int) -> Generator[None, None, int]:
        """How many rows the output takes now; asks for more when there is little left."""
        out, sink = self._out, self.pipeline.sink
        if isinstance(sink, Insert):
            wanted = min(wanted, sink.keyset.most - out.count)
        if out.count and out.room < min(wanted, out.capacity // _ASK_BELOW):
            yield
        while self._out.room <= 0:
            yield
        return self._out.room
