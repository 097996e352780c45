"""Collecting what one probe finds, the commonest pipeline before something is computed: blocks are copied."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import (
    as_i8,
    as_u4,
)
from gpuengine.kernels.cpu.code import (
    CODE_OFFSETS,
    CODE_OPERATIONS,
    CODE_SINK,
    CODE_SINK_BACK,
    CODE_SINK_COLUMNS,
    CODE_SINK_REGISTERS,
    COLLECT,
    DONE,
    FULL,
    IGNORE,
    NO_RESUME,
    PROBE,
    STATE_CANDIDATES,
    STATE_END,
    STATE_REGISTERS,
    STATE_RESUME,
    STATE_ROW,
    STATE_STOP,
    STOPPED,
)
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.layout import (
    INDEX_PAYLOAD,
    INDEX_SLOTS,
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
    SLOT_START,
)
from gpuengine.kernels.cpu.operations import (
    load_driver,
    offset_i8,
    probe_length,
    probe_slot,
)
from gpuengine.kernels.cpu.rowindex import NO_SLOT


@device
def gathers(code):
    """Is this a driver and one probe that checks nothing of what it finds, all of which is collected?"""
    if code[CODE_OPERATIONS] != 1 or code[CODE_SINK] != COLLECT or code[CODE_SINK_BACK] != 0:
        return False
    operation = code[CODE_OFFSETS]
    if code[operation] != PROBE or code[operation + 2] != 1:
        return False
    probe = code[operation + 3]
    bindings = probe + 4 + code[probe + 2]
    for j in range(code[probe + 3]):  # noqa: SIM110 (numba compiles no generator)
        if code[bindings + j] < IGNORE:
            return False
    return True


@device
def payload_column(code, probe, register):
    """The column of what a probe finds that writes a register, or -1."""
    bindings = probe + 4 + code[probe + 2]
    for j in range(code[probe + 3]):
        if code[bindings + j] == register:
            return np.int64(j)
    return np.int64(-1)


@device
def gather_range(code, state, state_address, out):
    """`run_range` for what `gathers`: a column at a time for each row of the driver."""
    probe = code[code[CODE_OFFSETS] + 3]
    width = code[probe + 3]
    index = as_i8(code[probe])
    slots = as_u4(index[INDEX_SLOTS])
    payload = as_u4(index[INDEX_PAYLOAD])
    registers = offset_i8(state_address, state[STATE_REGISTERS])
    sink = code[CODE_SINK_REGISTERS]
    written = out[ROWS_COUNT]
    room = out[ROWS_CAPACITY]
    stop = as_i8(state[STATE_STOP])
    begin = np.int64(0)
    if state[STATE_RESUME] != NO_RESUME:
        begin = state[STATE_RESUME]
        state[STATE_RESUME] = NO_RESUME
    for row in range(state[STATE_ROW], state[STATE_END]):
        if stop[0] != 0:
            state[STATE_ROW] = row
            out[ROWS_COUNT] = written
            return STOPPED
        if not load_driver(code, row, registers):
            continue
        slot = probe_slot(code, probe, registers)
        if slot == NO_SLOT:
            continue
        first = np.int64(slots[slot + SLOT_START]) + begin
        count = min(probe_length(code, probe, slot) - begin, room - written)
        for j in range(code[CODE_SINK_COLUMNS]):
            column = as_u4(out[ROWS_COLUMNS + j])
            source = payload_column(code, probe, code[sink + j])
            if source < 0:
                value = np.uint32(registers[code[sink + j]])
                for i in range(count):
                    column[written + i] = value
            else:
                for i in range(count):
                    column[written + i] = payload[(first + i) * width + source]
        written += count
        state[STATE_CANDIDATES] += count
        if written >= room:
            state[STATE_ROW] = row
            state[STATE_RESUME] = begin + count
            out[ROWS_COUNT] = written
            return FULL
        begin = np.int64(0)
    state[STATE_ROW] = state[STATE_END]
    out[ROWS_COUNT] = written
    return DONE
