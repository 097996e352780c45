"""What a pipeline reads: which registers from each operation on, and which rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuengine.kernels.contract import (
    IGNORE,
    Compare,
    Contains,
    Exists,
    IndexProbe,
    Operation,
    Pipeline,
    Probe,
    Scan,
)
from gpuengine.kernels.cuda.rows import Rows


def needed_registers(pipeline: Pipeline) -> list[frozenset[int]]:
    """For each operation, and for the sink at the end: the registers that it or a later one reads."""
    needed = [frozenset(pipeline.sink.registers)]
    for operation in reversed(pipeline.operations):
        needed.append(needed[-1] | frozenset(_reads(operation)))
    return needed[::-1]


def rows_read(pipeline: Pipeline) -> list[Rows]:
    """The rows that are read while it runs, which must stay on the device."""
    rows = [pipeline.driver.rows]
    for operation in pipeline.operations:
        if isinstance(operation, Probe):
            rows += [probe.index.rows for probe in operation.alternatives]
        elif isinstance(operation, Exists):
            rows.append(operation.probe.index.rows)
        elif isinstance(operation, Scan):
            rows.append(operation.rows)
    return rows


def checked(bindings: Iterable[int]) -> Iterator[int]:
    """The registers that bindings compare with."""
    return (-2 - binding for binding in bindings if binding < IGNORE)


def _reads(operation: Operation) -> Iterator[int]:
    if isinstance(operation, Probe):
        for probe in operation.alternatives:
            yield from _probe_reads(probe)
    elif isinstance(operation, Scan):
        yield from checked(operation.bindings)
    elif isinstance(operation, Contains):
        yield from operation.registers
    elif isinstance(operation, Exists):
        yield from _probe_reads(operation.probe)
    else:
        assert isinstance(operation, Compare)
        yield operation.left
        yield operation.right


def _probe_reads(probe: IndexProbe) -> Iterator[int]:
    yield from probe.keys
    yield from checked(probe.payload)
