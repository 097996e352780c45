"""Relation composition, the commonest pipeline: one probe between two columns, straight into a set."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.addresses import CHECKED
from gpuengine.kernels.cpu.atomics import (
    as_i8,
    as_u4,
    as_u8,
)
from gpuengine.kernels.cpu.code import (
    AHEAD,
    CODE_DRIVER,
    CODE_DRIVER_BINDINGS,
    CODE_DRIVER_COLUMNS,
    CODE_OFFSETS,
    CODE_OPERATIONS,
    CODE_SINK,
    CODE_SINK_COLUMNS,
    CODE_SINK_REGISTERS,
    CODE_SINK_SET,
    DONE,
    FULL,
    IGNORE,
    INSERT,
    NO_RESUME,
    OLD,
    STATE_CANDIDATES,
    STATE_END,
    STATE_RESUME,
    STATE_ROW,
    STATE_STOP,
    STOPPED,
)
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
    INDEX_COLUMNS,
    INDEX_PAYLOAD,
    INDEX_ROUND,
    INDEX_SLOTS,
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
    SET_CAPACITY,
    SET_COLUMNS,
    SET_DATA,
    SET_KIND,
    SLOT_LENGTH,
    SLOT_OLD,
    SLOT_ROUND,
    SLOT_START,
)
from gpuengine.kernels.cpu.rowindex import (
    NO_SLOT,
    expect_slot,
    find_slot,
)
from gpuengine.kernels.cpu.tail import (
    find_tail,
)


@device
def driver_column(code, register):
    """The driver column that writes a register, or -1."""
    at = code[CODE_DRIVER_BINDINGS]
    for j in range(code[CODE_DRIVER_COLUMNS]):
        if code[at + j] == register:
            return np.int64(j)
    return np.int64(-1)


@device
def composes(code):
    """Is this ``head(a, c) :- driver(.., a, b, ..), other(b, c)`` (columns in any order), with no checks?"""
    if code[CODE_OPERATIONS] != 1 or code[CODE_SINK_COLUMNS] != 2:
        return False
    operation = code[CODE_OFFSETS]
    if find_tail(code) != 0 or code[operation + 2] != 1 or code[CODE_SINK] != INSERT:
        return False
    if as_i8(code[CODE_SINK_SET])[SET_KIND] > HASHED:
        return False
    probe = code[operation + 3]
    if code[probe + 2] != 1 or driver_column(code, code[probe + 4]) < 0:
        return False
    at = code[CODE_DRIVER_BINDINGS]
    for j in range(code[CODE_DRIVER_COLUMNS]):
        if code[at + j] < IGNORE:
            return False
    joined = code[probe + 5]
    first = code[code[CODE_SINK_REGISTERS]]
    second = code[code[CODE_SINK_REGISTERS] + 1]
    if (first == joined) == (second == joined):
        return False
    return driver_column(code, second if first == joined else first) >= 0


@device
def compose_range(code, state, out):
    """`run_range` for a composition: everything that does not depend on the row is out of the loop."""
    probe = code[code[CODE_OFFSETS] + 3]
    index = as_i8(code[probe])
    old_only = code[probe + 1] == OLD
    round_number = np.uint32(index[INDEX_ROUND])
    slots = as_u4(index[INDEX_SLOTS])
    payload = as_u4(index[INDEX_PAYLOAD])
    base = index[INDEX_COLUMNS + 1]
    extent = index[INDEX_COLUMNS + 3]
    header = as_i8(code[CODE_SINK_SET])
    table = as_u8(header[SET_DATA])
    capacity = header[SET_CAPACITY]
    is_bitmap = header[SET_KIND] == BITMAP
    sink = code[CODE_SINK_REGISTERS]
    joined_at = np.int64(0) if code[sink] == code[probe + 5] else np.int64(1)
    kept_at = 1 - joined_at
    driver = as_i8(code[CODE_DRIVER])
    keys = as_u4(driver[ROWS_COLUMNS + driver_column(code, code[probe + 4])])
    kept = as_u4(driver[ROWS_COLUMNS + driver_column(code, code[sink + kept_at])])
    kept_stride = header[SET_COLUMNS + 3 * kept_at + 1]
    step = header[SET_COLUMNS + 3 * joined_at + 1]
    kept_low = header[SET_COLUMNS + 3 * kept_at]
    kept_high = kept_low + header[SET_COLUMNS + 3 * kept_at + 2]
    low = header[SET_COLUMNS + 3 * joined_at]
    high = low + header[SET_COLUMNS + 3 * joined_at + 2]
    origin = -kept_low * kept_stride - low * step
    kept_out = as_u4(out[ROWS_COLUMNS + kept_at])
    joined_out = as_u4(out[ROWS_COLUMNS + joined_at])
    written = out[ROWS_COUNT]
    room = out[ROWS_CAPACITY]
    stop = as_i8(state[STATE_STOP])
    begin = np.int64(0)
    if state[STATE_RESUME] != NO_RESUME:
        begin = state[STATE_RESUME]
        state[STATE_RESUME] = NO_RESUME
    candidates = np.int64(0)
    last = state[STATE_END]
    for row in range(state[STATE_ROW], last):
        if stop[0] != 0:
            state[STATE_ROW] = row
            out[ROWS_COUNT] = written
            return STOPPED
        if row + AHEAD < last:
            expect_slot(index, min(max(np.int64(keys[row + AHEAD]) - base, 0), extent - 1))
        key = np.int64(keys[row]) - base
        if key < 0 or key >= extent:
            continue
        slot = find_slot(index, key)
        if slot == NO_SLOT:
            continue
        length = np.int64(slots[slot + SLOT_LENGTH])
        if old_only and slots[slot + SLOT_ROUND] == round_number:
            length = np.int64(slots[slot + SLOT_OLD])
        start = np.int64(slots[slot + SLOT_START])
        keep = kept[row]
        if length > 0 and (np.int64(keep) < kept_low or np.int64(keep) >= kept_high):
            refuse(header)
            continue
        fixed = origin + np.int64(keep) * kept_stride
        candidates += length - begin
        end = start + length
        if not is_bitmap:
            for position in range(start + begin, min(start + begin + AHEAD, end)):
                expect_hashed(table, capacity, fixed + np.int64(payload[position]) * step)
        for position in range(start + begin, end):
            value = payload[position]
            packed = fixed + np.int64(value) * step
            if CHECKED and (np.int64(value) < low or np.int64(value) >= high):
                refuse(header)
            if is_bitmap:
                fresh = insert_bit(table, packed)
            else:
                if position + AHEAD < end:
                    expect_hashed(table, capacity, fixed + np.int64(payload[position + AHEAD]) * step)
                fresh = insert_hashed(table, capacity, packed)
            if fresh:
                kept_out[written] = keep
                joined_out[written] = value
                written += 1
                if written >= room:
                    state[STATE_ROW] = row
                    state[STATE_RESUME] = position + 1 - start
                    state[STATE_CANDIDATES] += candidates - (end - position - 1)
                    out[ROWS_COUNT] = written
                    return FULL
        begin = np.int64(0)
    state[STATE_ROW] = state[STATE_END]
    state[STATE_CANDIDATES] += candidates
    out[ROWS_COUNT] = written
    return DONE
