"""Rows of the driver straight into the sink, as when all else was computed before: a column at a time."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import (
    as_i8,
    as_u4,
    as_u8,
)
from gpuengine.kernels.cpu.code import (
    CODE_DRIVER,
    CODE_DRIVER_BINDINGS,
    CODE_DRIVER_COLUMNS,
    CODE_OPERATIONS,
    CODE_SINK,
    CODE_SINK_COLUMNS,
    CODE_SINK_REGISTERS,
    CODE_SINK_SET,
    COLLECT,
    DONE,
    FULL,
    IGNORE,
    INSERT,
    NO_RESUME,
    STATE_CANDIDATES,
    STATE_END,
    STATE_REGISTERS,
    STATE_RESUME,
    STATE_ROW,
    STATE_SCRATCH,
    STATE_STOP,
    STOPPED,
)
from gpuengine.kernels.cpu.compose import driver_column
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.keyset import (
    expect_hashed,
    insert_bit,
    insert_hashed,
    refuse,
)
from gpuengine.kernels.cpu.layout import (
    BITMAP,
    HASHED,
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
    SET_CAPACITY,
    SET_COLUMNS,
    SET_DATA,
    SET_KIND,
)
from gpuengine.kernels.cpu.operations import offset_i8

BLOCK = 256


@device
def transfers(code):
    """Is there nothing between the driver's columns, none of which is checked, and a set of packed keys?"""
    if code[CODE_OPERATIONS] != 0:
        return False
    at = code[CODE_DRIVER_BINDINGS]
    for j in range(code[CODE_DRIVER_COLUMNS]):
        if code[at + j] < IGNORE:
            return False
    if code[CODE_SINK] == INSERT:
        return as_i8(code[CODE_SINK_SET])[SET_KIND] <= HASHED
    return code[CODE_SINK] == COLLECT


@device
def add_column(code, header, j, keys, start, n, registers):
    """Add to the keys of rows what column `j` of the sink is to them; False if an id lies outside."""
    at = SET_COLUMNS + 3 * j
    low, stride, extent = header[at], np.uint64(header[at + 1]), header[at + 2]
    register = code[code[CODE_SINK_REGISTERS] + j]
    source = driver_column(code, register)
    if source < 0:
        offset = registers[register] - low
        for i in range(n):
            keys[i] += np.uint64(offset) * stride
        return offset >= 0 and offset < extent
    ids = as_u4(as_i8(code[CODE_DRIVER])[ROWS_COLUMNS + source])
    are_inside = True
    for i in range(n):
        offset = np.int64(ids[start + i]) - low
        are_inside &= offset >= 0 and offset < extent
        keys[i] += np.uint64(offset) * stride
    return are_inside


@device
def pack_block(code, header, keys, start, n, registers):
    """The keys of rows from `start` on; where an id lies outside, the set refuses all of them."""
    are_inside = True
    for i in range(n):
        keys[i] = np.uint64(0)
    for j in range(code[CODE_SINK_COLUMNS]):
        are_inside &= add_column(code, header, j, keys, start, n, registers)
    if not are_inside:
        refuse(header)
    return are_inside


@device
def insert_block(header, keys, n, fresh):
    """Insert keys; how many are new, with the places of those in `fresh`, which may be where `keys` are."""
    table = as_u8(header[SET_DATA])
    found = np.int64(0)
    if header[SET_KIND] == BITMAP:
        for i in range(n):
            if insert_bit(table, np.int64(keys[i])):
                fresh[found] = i
                found += 1
        return found
    capacity = header[SET_CAPACITY]
    for i in range(n):
        expect_hashed(table, capacity, np.int64(keys[i]))
    for i in range(n):
        if insert_hashed(table, capacity, np.int64(keys[i])):
            fresh[found] = i
            found += 1
    return found


@device
def write_block(code, out, j, fresh, start, n, registers):
    """Write column `j` of the sink for rows by their place in the block."""
    register = code[code[CODE_SINK_REGISTERS] + j]
    column = as_u4(out[ROWS_COLUMNS + j])
    written = out[ROWS_COUNT]
    source = driver_column(code, register)
    if source < 0:
        for i in range(n):
            column[written + i] = np.uint32(registers[register])
        return
    ids = as_u4(as_i8(code[CODE_DRIVER])[ROWS_COLUMNS + source])
    for i in range(n):
        column[written + i] = ids[start + fresh[i]]


@device
def transfer_range(code, state, state_address, out):
    """`run_range` for what `transfers`, as many rows at a time as there is room for."""
    registers = offset_i8(state_address, state[STATE_REGISTERS])
    scratch_address = state_address + 8 * state[STATE_SCRATCH]
    keys = as_u8(scratch_address)
    fresh = as_i8(scratch_address)
    inserts = code[CODE_SINK] == INSERT
    header = as_i8(code[CODE_SINK_SET]) if inserts else out
    stop = as_i8(state[STATE_STOP])
    state[STATE_RESUME] = NO_RESUME
    while state[STATE_ROW] < state[STATE_END]:
        if stop[0] != 0:
            return STOPPED
        if out[ROWS_COUNT] >= out[ROWS_CAPACITY]:
            return FULL
        start = state[STATE_ROW]
        n = min(np.int64(BLOCK), state[STATE_END] - start, out[ROWS_CAPACITY] - out[ROWS_COUNT])
        found = n
        if not inserts:
            for i in range(n):
                fresh[i] = i
        elif pack_block(code, header, keys, start, n, registers):
            found = insert_block(header, keys, n, fresh)
        else:
            found = np.int64(0)
        for j in range(code[CODE_SINK_COLUMNS]):
            write_block(code, out, j, fresh, start, found, registers)
        out[ROWS_COUNT] += found
        state[STATE_CANDIDATES] += n
        state[STATE_ROW] = start + n
    return DONE
