"""Rounds of a recursion launched ahead of the host, which waits once for many of them.

Sizes stay in the device's memory: kernels read there how large the delta is and how many rows a table has
(`ahead_kernels`). So a round is the same launches each time, with arguments that are packed once, and
many rounds can be begun before the host learns how any of them ended. The first that has no room, or brings
a delta that is too large or empty, leaves a word that has all kernels after it return at once.

This does for pipelines of one probe into what does not change meanwhile, each driven by the delta of a
table and inserting into one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from gpuengine.kernels.contract import IGNORE, Domain, IndexProbe, Insert, Pipeline, Probe, RoundsEnd
from gpuengine.kernels.cuda.ahead_kernels import (
    AT_FIXPOINT,
    CANDIDATE_BITS,
    FIRST_TABLE,
    NO_ROOM,
    PIPELINE_WORDS,
    RUNNING,
    TABLE_WORDS,
    end_round,
    insert_matches,
    match_delta,
)
from gpuengine.kernels.cuda.devices.device import Array, Device, Prepared
from gpuengine.kernels.cuda.fused import FusedInsert, plan_fused
from gpuengine.kernels.cuda.join_kernels import TILE
from gpuengine.kernels.cuda.keyset import power_of_two
from gpuengine.kernels.cuda.rows import Rows

LARGEST_DELTA = 1 << 20
"""Rounds over more rows take so long that a wait is little of it; and a tile of them takes an atomic."""
_LEAST_DELTA = 1 << 10
_GROWTH = 4
"""The delta may become so many times as large before the host is asked for room."""


@dataclass(frozen=True)
class _Step:
    """One pipeline: the numbers of its driver's and its head's table, and where the kernel's values are."""

    pipeline: Pipeline
    driver: int
    head: int
    fused: FusedInsert
    columns: dict[int, int]
    """The driver's column by register."""

    @property
    def probe(self) -> IndexProbe:
        operation = self.pipeline.operations[0]
        assert isinstance(operation, Probe)
        return operation.alternatives[0]

    @property
    def sink(self) -> Insert:
        assert isinstance(self.pipeline.sink, Insert)
        return self.pipeline.sink


class RoundsAhead:
    """Rounds over the deltas of `tables`, by pipelines that each have one of them for driver and for head.

    Between two calls of `run` the tables may grow, and everything may be spilled. `candidates` are those of
    each pipeline so far.
    """

    def __init__(self, device: Device, tables: Sequence[Rows], steps: Sequence[_Step]) -> None:
        self.device = device
        self.tables = tables
        self.candidates = [0] * len(steps)
        self.last_used = 0
        self._steps = steps
        self._index_rows = [step.probe.index.rows for step in steps]
        self._launches: list[Prepared] = []
        self._memory: list[Array] = []
        self._control: Array = None
        self._most = 0
        self._seen = self._words()
        self._is_running = False
        device.spillable.add(self)

    def run(self, rounds: int) -> tuple[RoundsEnd, int]:
        """Run up to so many rounds, waiting once; why they ended, and how many are complete.

        After FULL a round is to be run again, with more room for the heads and with sets made anew from
        their rows: they may hold what was not written.
        """
        longest = max(end - start for start, end in (rows.delta for rows in self.tables))
        if longest > self._largest:
            return RoundsEnd.LARGE, 0
        self.device.touch(self)
        with ExitStack() as stack:
            stack.enter_context(self._running())
            for rows in (*self.tables, *self._index_rows):
                stack.enter_context(rows.pin())
            if longest > self._most or not self._is_bound():
                self._bind(longest)
            for _ in range(rounds):
                for launch in self._launches:
                    launch()
            return self._take(self.device.read(self._control))

    def spill(self) -> int:
        """Let go of all memory; what is launched is prepared anew when it is needed."""
        if self._is_running or not self._launches:
            return 0
        self._release()
        return len(self._steps) * 17 * self._most

    @property
    def _largest(self) -> int:
        """The most rows of a delta whose candidates can be counted, and for which it is worth it."""
        indexed = max(rows.count for rows in self._index_rows)
        return min(LARGEST_DELTA, (1 << CANDIDATE_BITS) // max(indexed, 1) - 1)

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False

    def _words(self) -> np.ndarray:
        """What the device is told before the first of some rounds: what the host knows."""
        words = [0] * FIRST_TABLE
        for rows in self.tables:
            words += [*rows.delta, rows.count]
        return np.array(words + [0] * (PIPELINE_WORDS * len(self._steps)), np.uint64)

    def _take(self, words: np.ndarray) -> tuple[RoundsEnd, int]:
        """What the device says happened becomes what the host knows."""
        seen, self._seen = self._seen, words
        state, rounds = int(words[0]), int(words[1] - seen[1])
        for number, rows in enumerate(self.tables):
            start, end, count = (int(words[_table_at(number) + word]) for word in range(TABLE_WORDS))
            rows.delta = start, end
            rows.count = min(count, rows.count + rows.room)
        for number, step in enumerate(self._steps):
            at = self._pipeline_at(number) + 1
            candidates = int(words[at] - seen[at])
            self.candidates[number] += candidates
            driver = _table_at(step.driver)
            self.device.count_work(match_delta, int(words[driver] - seen[driver]))
            self.device.count_work(insert_matches, -(-candidates // TILE))
        self.device.count_work(end_round, rounds)
        if state:
            self._release()
        if state & NO_ROOM:
            return RoundsEnd.FULL, rounds
        ends = {RUNNING: RoundsEnd.MORE, AT_FIXPOINT: RoundsEnd.FIXPOINT}
        return ends.get(state, RoundsEnd.LARGE), rounds

    def _release(self) -> None:
        self._launches, self._memory, self._control, self._most = [], [], None, 0

    def _is_bound(self) -> bool:
        """Is everything where it was when launches were prepared, with the same room?"""
        now = self._arrays()
        return (
            bool(self._launches)
            and len(now) == len(self._memory)
            and all(one is other for one, other in zip(now, self._memory, strict=True))
        )

    def _arrays(self) -> list[Array]:
        """The arrays that others may replace: a larger set or more room for rows is another array."""
        return [rows.data for rows in self.tables] + [step.sink.keyset.table for step in self._steps]

    def _bind(self, longest: int) -> None:
        """Prepare the launches of a round for deltas of some times as many rows as the longest now."""
        self._release()
        most = min(max(_GROWTH * power_of_two(longest), _LEAST_DELTA), self._largest)
        launches = []
        self._control = self.device.upload(self._words())
        for number, step in enumerate(self._steps):
            launches += self._prepare(step, self._pipeline_at(number), most)
        tables, pipelines = len(self.tables), len(self._steps)
        launches.append(self.device.prepare(end_round, 1, self._control, tables, pipelines, most))
        self._seen = self._words()
        self._launches, self._memory, self._most = launches, self._arrays(), most

    def _prepare(self, step: _Step, pipeline: int, most: int) -> list[Prepared]:
        """The two launches of a pipeline."""
        device, index, fused, keyset = self.device, step.probe.index, step.fused, step.sink.keyset
        driver, head = self.tables[step.driver], self.tables[step.head]
        starts = [device.empty(most, np.uint32) for _ in range(4)]
        spans = -(-most // TILE)
        tiles = device.empty(spans, np.uint64), device.empty(spans, np.uint32)

        def column(register: int) -> Array:
            j = step.columns[register]
            return driver.data[j * driver.capacity : (j + 1) * driver.capacity]

        def matching(j: int) -> Array:
            return index.rows.data[j * index.rows.capacity : (j + 1) * index.rows.capacity]

        keys = [column(register) for register in step.probe.keys]
        workers = min(device.concurrency, spans)
        look_up = device.prepare(
            match_delta,
            workers,
            self._control,
            workers,
            _table_at(step.driver),
            pipeline,
            keys[0],
            keys[-1],
            *index.look_up,
            *starts,
            *tiles,
        )
        workers = min(device.concurrency, most)
        insert = device.prepare(
            insert_matches,
            workers,
            self._control,
            workers,
            _table_at(step.driver),
            pipeline,
            _table_at(step.head),
            *starts,
            *tiles,
            index.main.pairs,
            index.recent.pairs,
            *fused.arguments(device, keyset, matching, column),
            head.data,
            head.capacity,
            head.count + head.room,
            device.chunk_items,
        )
        return [look_up, insert]

    def _pipeline_at(self, number: int) -> int:
        return FIRST_TABLE + TABLE_WORDS * len(self.tables) + PIPELINE_WORDS * number


def _table_at(number: int) -> int:
    return FIRST_TABLE + TABLE_WORDS * number


def plan_ahead(device: Device, pipelines: Sequence[tuple[Pipeline, Rows]]) -> RoundsAhead | None:
    """The rounds of pipelines, each with the rows that it inserts into; None if kernels can't run them so."""
    tables: list[Rows] = []
    for pipeline, head in pipelines:
        for rows in (pipeline.driver.rows, head):
            if not any(rows is other for other in tables):
                tables.append(rows)
    numbers = {id(rows): number for number, rows in enumerate(tables)}
    steps = []
    for pipeline, head in pipelines:
        fused = _fused(pipeline)
        if fused is None:
            return None
        columns = {register: j for j, register in enumerate(pipeline.driver.bindings) if register >= 0}
        step = _Step(pipeline, numbers[id(pipeline.driver.rows)], numbers[id(head)], fused, columns)
        if id(step.probe.index.rows) in numbers or not {*step.probe.keys, *fused.registers} <= columns.keys():
            return None
        steps.append(step)
    return RoundsAhead(device, tables, steps)


def _fused(pipeline: Pipeline) -> FusedInsert | None:
    """How a kernel inserts what a pipeline's only probe finds; None if it does anything else."""
    if len(pipeline.operations) != 1 or not isinstance(pipeline.sink, Insert):
        return None
    (operation,) = pipeline.operations
    if not isinstance(operation, Probe) or len(operation.alternatives) != 1:
        return None
    (probe,) = operation.alternatives
    if probe.domain is not Domain.ALL or any(binding < IGNORE for binding in pipeline.driver.bindings):
        return None
    return plan_fused(probe, pipeline.sink)
