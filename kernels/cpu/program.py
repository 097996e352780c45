"""Assemble a `Pipeline` into the integer code that the compiled interpreter runs."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.addresses import address_of
from gpuengine.kernels.contract import (
    Collect,
    Compare,
    Compute,
    Contains,
    Exists,
    Improve,
    IndexProbe,
    Insert,
    Operation,
    Operator,
    Pipeline,
    Probe,
    Scan,
    Status,
    Within,
    Words,
)
from gpuengine.kernels.cpu import code as compiled
from gpuengine.kernels.cpu.improvement import batch_words
from gpuengine.kernels.cpu.layout import ROWS_CAPACITY, ROWS_COUNT
from gpuengine.kernels.cpu.pipeline import run
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.tail import TAIL_WORDS
from gpuengine.kernels.cpu.transfer import BLOCK as TRANSFER_BLOCK
from gpuengine.kernels.identity import NotCopied

_NEVER_STOP = np.zeros(1, np.int64)
_PIECE_ROWS = 1 << 12
_LEAST_PIECES = 4
_NO_WORK = np.zeros(compiled.WORK_WORDS, np.int64)


class Program(NotCopied):
    """A pipeline ready to run, with its own registers and position: one thread at a time.

    `stop` is an int64 array of one element; a run ends early with STOPPED once it is not 0.
    """

    __slots__ = ("_code_address", "_state_address", "code", "pipeline", "state", "stop")

    def __init__(self, pipeline: Pipeline, stop: np.ndarray = _NEVER_STOP) -> None:
        self.pipeline = pipeline
        self.stop = stop
        self.code = _Assembler(pipeline).code
        self.state = _initial_state(pipeline, stop)
        self._note_addresses()

    def copy(self) -> Program:
        """The same pipeline for another thread; the code is shared."""
        other = Program.__new__(Program)
        other.pipeline, other.stop, other.code = self.pipeline, self.stop, self.code
        other.state = _initial_state(self.pipeline, self.stop)
        other._note_addresses()
        return other

    def _note_addresses(self) -> None:
        """Asking an array for its address takes longer than many runs."""
        self._code_address = address_of(self.code)
        self._state_address = address_of(self.state)

    @property
    def suspended_at(self) -> Operation:
        """The operation at which a run ended with WORDS_FULL or OUTSIDE."""
        return self.pipeline.operations[-3 - int(self.state[compiled.STATE_RESUME])]

    def row(self) -> tuple[int, ...]:
        """What the sink's registers hold."""
        registers = self.state[int(self.state[compiled.STATE_REGISTERS]) :]
        return tuple(int(registers[register]) for register in self.pipeline.sink.registers)

    @property
    def candidates(self) -> int:
        """How many bindings have reached the sink so far."""
        return int(self.state[compiled.STATE_CANDIDATES])

    def run(self, out: Rows, start: int, end: int) -> Status:
        """Drive rows [start, end); `out` has room for at least one row."""
        self.state[compiled.STATE_ROW] = start
        self.state[compiled.STATE_END] = end
        self.state[compiled.STATE_RESUME] = compiled.NO_RESUME
        return self.resume(out)

    def resume(self, out: Rows) -> Status:
        """Go on after FULL."""
        return self._go_on(out.address, _NO_WORK)

    def begin(self) -> None:
        """Have no rows to drive but those that `share` takes."""
        self.state[compiled.STATE_ROW] = self.state[compiled.STATE_END] = 0
        self.state[compiled.STATE_RESUME] = compiled.NO_RESUME

    def share(self, work: SharedWork, part: int) -> Status:
        """Take part in work; FULL if there is no more room. Comes again until all are DONE."""
        return self._go_on(address_of(work.outputs[part]), work.words)

    def _go_on(self, out: int, work: np.ndarray) -> Status:
        status = Status(run(self._code_address, self._state_address, self._state_address, out, work))
        sink = self.pipeline.sink
        if isinstance(sink, Insert):
            sink.keyset.check()
        return status


class SharedWork(NotCopied):
    """The driver's rows [start, end) for copies of a program to take, and the free room of rows to write to.

    Each takes a few rows and a piece of the room at a time. `lend_room` before each wave, when nobody runs,
    and `close_gaps` after it.
    """

    __slots__ = ("_first", "_piece", "_rows", "outputs", "words")

    def __init__(self, start: int, end: int, chunk: int, parts: int, rows: Rows) -> None:
        self._rows = rows
        self._first = 0
        self.outputs = [np.zeros_like(rows.header) for _ in range(parts)]
        self.words = np.zeros(compiled.WORK_WORDS, np.int64)
        self.words[compiled.WORK_ROW] = start
        self.words[compiled.WORK_END] = end
        self.words[compiled.WORK_CHUNK] = chunk

    @property
    def is_taken(self) -> bool:
        """Are there no rows left that nobody has taken?"""
        return bool(self.words[compiled.WORK_ROW] >= self.words[compiled.WORK_END])

    def lend_room(self, limit: int) -> None:
        """Let what there is room for in the rows be written to, at most `limit` of it."""
        header, words = self._rows.header, self.words
        self._first = self._rows.count
        room = min(int(header[ROWS_CAPACITY]) - self._first, limit)
        words[compiled.WORK_ROOM], words[compiled.WORK_ROOM_END] = self._first, self._first + room
        words[compiled.WORK_PIECE] = max(1, min(_PIECE_ROWS, room // (_LEAST_PIECES * len(self.outputs))))
        for output in self.outputs:
            output[:] = header
            output[ROWS_CAPACITY] = output[ROWS_COUNT]

    def close_gaps(self) -> None:
        """What was written becomes part of the rows: the last ones fill what others left free."""
        words = self.words
        end = min(int(words[compiled.WORK_ROOM]), int(words[compiled.WORK_ROOM_END]))
        spans = ((int(output[ROWS_COUNT]), int(output[ROWS_CAPACITY])) for output in self.outputs)
        self._rows.close_gaps(end, sorted(span for span in spans if span[0] < span[1]))


def _initial_state(pipeline: Pipeline, stop: np.ndarray) -> np.ndarray:
    operations = len(pipeline.operations)
    widest = max([len(pipeline.sink.registers), 1, *map(_scratch_columns, pipeline.operations)])
    if not operations:
        widest = max(widest, TRANSFER_BLOCK)
    registers = compiled.STATE_AREAS
    iteration = registers + pipeline.registers + 1
    scratch = iteration + 3 * operations
    tail = scratch + widest
    size = TAIL_WORDS * (operations + 1)
    if isinstance(pipeline.sink, Improve):
        size = max(size, batch_words(len(pipeline.sink.registers)))
    state = np.zeros(tail + size, np.int64)
    state[compiled.STATE_RESUME] = compiled.NO_RESUME
    state[compiled.STATE_STOP] = address_of(stop)
    state[compiled.STATE_REGISTERS] = registers
    state[compiled.STATE_ITERATION] = iteration
    state[compiled.STATE_SCRATCH] = scratch
    state[compiled.STATE_TAIL] = tail
    for register, id in pipeline.constants:
        state[registers + register] = id
    return state


def _after_sink(pipeline: Pipeline) -> int:
    """The operation to go on with after the sink took a binding, -1 for the driver.

    The last that iterates; unless rows are collected, the last of them that binds something of the row.
    """
    last = -1
    needed = set(pipeline.sink.registers)
    for operation in reversed(pipeline.operations):
        if isinstance(operation, Compute) and operation.target in needed:
            needed |= {step.argument for step in operation.steps if step.operator is Operator.LOAD}
    for number, operation in enumerate(pipeline.operations):
        if isinstance(operation, Probe):
            written = [binding for probe in operation.alternatives for binding in probe.payload]
        elif isinstance(operation, Scan):
            written = list(operation.bindings)
        else:
            continue
        if isinstance(pipeline.sink, Collect) or set(written) & needed:
            last = number
    return last


def _scratch_columns(operation: Operation) -> int:
    if isinstance(operation, Compute):
        return operation.depth
    return len(operation.registers) if isinstance(operation, Contains) else 0


def _sink(sink: Insert | Improve | Collect) -> tuple[int, int]:
    """The kind of a sink, and the header of what it keeps."""
    if isinstance(sink, Insert):
        return compiled.INSERT, sink.keyset.address
    if isinstance(sink, Improve):
        return compiled.IMPROVE, sink.best.address
    return compiled.COLLECT, 0


class _Assembler:
    """Lays out the code of one pipeline; the format is in `cpu.code`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._words: list[int] = [0] * (compiled.CODE_OFFSETS + len(pipeline.operations))
        sink, driver = pipeline.sink, pipeline.driver
        self._words[compiled.CODE_OPERATIONS] = len(pipeline.operations)
        self._words[compiled.CODE_DRIVER] = driver.rows.address
        self._words[compiled.CODE_DRIVER_COLUMNS] = len(driver.bindings)
        self._words[compiled.CODE_SINK], self._words[compiled.CODE_SINK_SET] = _sink(sink)
        self._words[compiled.CODE_SINK_COLUMNS] = len(sink.registers)
        self._words[compiled.CODE_DRIVER_BINDINGS] = self._add(driver.bindings)
        self._words[compiled.CODE_SINK_REGISTERS] = self._add(sink.registers)
        self._words[compiled.CODE_SINK_BACK] = _after_sink(pipeline)
        back = -1
        for number, operation in enumerate(pipeline.operations):
            self._words[compiled.CODE_OFFSETS + number] = self._operation(operation, back)
            if isinstance(operation, Probe | Scan):
                back = number
        self.code = np.array(self._words, np.int64)

    def _add(self, words: list[int] | tuple[int, ...]) -> int:
        offset = len(self._words)
        self._words.extend(int(word) for word in words)
        return offset

    def _probe(self, probe: IndexProbe) -> int:
        head = [probe.index.address, probe.domain, len(probe.keys), len(probe.payload)]
        return self._add([*head, *probe.keys, *probe.payload])

    def _operation(self, op: Operation, back: int) -> int:
        if isinstance(op, Probe):
            probes = [self._probe(probe) for probe in op.alternatives]
            return self._add([compiled.PROBE, back, len(probes), *probes])
        if isinstance(op, Scan):
            head = [compiled.SCAN, back, op.rows.address, op.domain, len(op.bindings)]
            return self._add([*head, *op.bindings])
        if isinstance(op, Contains):
            unless = op.unless or (-1, -1)
            head = [compiled.CONTAINS, back, op.keyset.address, op.negated, *unless, len(op.registers)]
            return self._add([*head, *op.registers])
        if isinstance(op, Exists):
            return self._add([compiled.EXISTS, back, op.negated, self._probe(op.probe)])
        if isinstance(op, Compute):
            return self._compute(op, back)
        if isinstance(op, Within):
            entries = zip(op.registers, op.bounds, strict=True)
            words = [word for register, bounds in entries for word in (register, *bounds)]
            return self._add([compiled.WITHIN, back, len(op.registers), *words])
        assert isinstance(op, Compare)
        table = address_of(op.values.cell) if op.values is not None else 0
        return self._add([compiled.COMPARE, back, op.comparator, op.representation, op.left, op.right, table])

    def _compute(self, op: Compute, back: int) -> int:
        target = compiled.NO_TARGET if op.target is None else op.target
        words = [compiled.COMPUTE, back, target, _header(op.words), len(op.steps)]
        for step in op.steps:
            words += [step.operator, step.argument, _header(step.words)]
        return self._add(words)


def _header(words: Words | None) -> int:
    return 0 if words is None else address_of(words.header)
