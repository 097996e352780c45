"""Assemble a `Pipeline` into the integer code that the compiled interpreter runs."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.contract import (
    Compare,
    Contains,
    Exists,
    IndexProbe,
    Insert,
    Operation,
    Pipeline,
    Probe,
    Scan,
    Status,
)
from gpuengine.kernels.cpu import code as compiled
from gpuengine.kernels.cpu.pipeline import run
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.kernels.cpu.tail import TAIL_WORDS

_NEVER_STOP = np.zeros(1, np.int64)


class Program:
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
        self._code_address = int(self.code.ctypes.data)
        self._state_address = int(self.state.ctypes.data)

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
        return Status(run(self._code_address, self._state_address, self._state_address, out.address))


def _initial_state(pipeline: Pipeline, stop: np.ndarray) -> np.ndarray:
    operations = len(pipeline.operations)
    widest = max([len(pipeline.sink.registers), 1, *map(_scratch_columns, pipeline.operations)])
    registers = compiled.STATE_AREAS
    iteration = registers + pipeline.registers + 1
    scratch = iteration + 3 * operations
    tail = scratch + widest
    state = np.zeros(tail + TAIL_WORDS * (operations + 1), np.int64)
    state[compiled.STATE_RESUME] = compiled.NO_RESUME
    state[compiled.STATE_STOP] = stop.ctypes.data
    state[compiled.STATE_REGISTERS] = registers
    state[compiled.STATE_ITERATION] = iteration
    state[compiled.STATE_SCRATCH] = scratch
    state[compiled.STATE_TAIL] = tail
    for register, id in pipeline.constants:
        state[registers + register] = id
    return state


def _after_sink(pipeline: Pipeline) -> int:
    """The operation to go on with after the sink took a binding, -1 for the driver.

    The last that iterates; if rows are inserted, the last of them that binds something of the row.
    """
    last = -1
    for number, operation in enumerate(pipeline.operations):
        if isinstance(operation, Probe):
            written = [binding for probe in operation.alternatives for binding in probe.payload]
        elif isinstance(operation, Scan):
            written = list(operation.bindings)
        else:
            continue
        if not isinstance(pipeline.sink, Insert) or set(written) & set(pipeline.sink.registers):
            last = number
    return last


def _scratch_columns(operation: Operation) -> int:
    return len(operation.registers) if isinstance(operation, Contains) else 0


class _Assembler:
    """Lays out the code of one pipeline; the format is in `cpu.code`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._words: list[int] = [0] * (compiled.CODE_OFFSETS + len(pipeline.operations))
        sink, driver = pipeline.sink, pipeline.driver
        self._words[compiled.CODE_OPERATIONS] = len(pipeline.operations)
        self._words[compiled.CODE_DRIVER] = driver.rows.address
        self._words[compiled.CODE_DRIVER_COLUMNS] = len(driver.bindings)
        inserts = isinstance(sink, Insert)
        self._words[compiled.CODE_SINK] = compiled.INSERT if inserts else compiled.COLLECT
        self._words[compiled.CODE_SINK_SET] = sink.keyset.address if isinstance(sink, Insert) else 0
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
        assert isinstance(op, Compare)
        table = op.values.cell.ctypes.data if op.values is not None else 0
        return self._add([compiled.COMPARE, back, op.comparator, op.representation, op.left, op.right, table])
