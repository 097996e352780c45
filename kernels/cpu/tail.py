"""The innermost loop of a pipeline: the last probe, the filters after it, and the sink."""

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
    CODE_OFFSETS,
    CODE_OPERATIONS,
    CODE_SINK,
    CODE_SINK_BACK,
    CODE_SINK_COLUMNS,
    CODE_SINK_REGISTERS,
    CODE_SINK_SET,
    COMPUTE,
    CONTAINS,
    DONE,
    FULL,
    INSERT,
    PROBE,
    SCAN,
)
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.keyset import (
    contains_hashed,
    expect_hashed,
    insert_bit,
    insert_hashed,
    refuse,
)
from gpuengine.kernels.cpu.layout import (
    BITMAP,
    HASHED,
    INDEX_PAYLOAD,
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
    SET_CAPACITY,
    SET_COLUMNS,
    SET_DATA,
    SET_KIND,
)
from gpuengine.kernels.cpu.operations import (
    emit,
    offset_i8,
    passes,
)

TAIL_TABLE = 1
TAIL_CAPACITY = 2
TAIL_BITMAP = 3
TAIL_FIXED = 4
TAIL_STEP = 5
TAIL_LOW = 6
TAIL_HIGH = 7
TAIL_NEGATED = 8
TAIL_WORDS = 9

PASS = 0  # the filter holds whatever the value
IN_SET = 1  # one look-up decides
GENERAL = 2  # evaluate the operation


@device
def find_tail(code):
    """The last iterating operation, if `drain` can run it and the filters after it; else -1.

    It must be a probe of one column that every alternative writes to the same register, one of the sink's.
    """
    op = code[CODE_OPERATIONS] - 1
    while op >= 0 and code[code[CODE_OFFSETS + op]] > SCAN:
        if code[code[CODE_OFFSETS + op]] >= COMPUTE:
            return np.int64(-1)
        op -= 1
    if op < 0 or op > code[CODE_SINK_BACK]:
        return np.int64(-1)
    at = code[CODE_OFFSETS + op]
    if code[at] != PROBE:
        return np.int64(-1)
    for a in range(code[at + 2]):
        probe = code[at + 3 + a]
        if code[probe + 3] != 1 or code[probe + 4 + code[probe + 2]] < 0:
            return np.int64(-1)
    return op


@device
def packed_key(header, code, registers_at, count, register, registers, out):
    """Split a packed key into what is fixed and what the new register adds; False if nothing can match.

    Writes the fixed part, the step, and the range of the register within the set's extents.
    """
    fixed = np.int64(0)
    step = np.int64(0)
    low = np.int64(0)
    high = np.int64(1) << 33
    for j in range(count):
        spec = SET_COLUMNS + 3 * j
        base = header[spec]
        stride = header[spec + 1]
        if code[registers_at + j] == register:
            step += stride
            fixed -= base * stride
            low = max(low, base)
            high = min(high, base + header[spec + 2])
        else:
            offset = registers[code[registers_at + j]] - base
            if offset < 0 or offset >= header[spec + 2]:
                return False
            fixed += offset * stride
    out[TAIL_FIXED] = fixed
    out[TAIL_STEP] = step
    out[TAIL_LOW] = low
    out[TAIL_HIGH] = high
    return True


@device
def prepare_filter(code, at, register, registers, iterations, entry):
    """Work out once what a filter after the last probe needs for each value. False if it always fails."""
    entry[0] = GENERAL
    if code[at] != CONTAINS:
        return True
    probe = code[at + 4]
    if probe >= 0 and iterations[3 * probe + 2] == code[at + 5]:
        entry[0] = PASS
        return True
    header = as_i8(code[at + 2])
    if header[SET_KIND] > HASHED:
        return True
    entry[0] = IN_SET
    entry[TAIL_TABLE] = header[SET_DATA]
    entry[TAIL_CAPACITY] = header[SET_CAPACITY]
    entry[TAIL_BITMAP] = 1 if header[SET_KIND] == BITMAP else 0
    entry[TAIL_NEGATED] = code[at + 3]
    if not packed_key(header, code, at + 7, code[at + 6], register, registers, entry):
        entry[0] = PASS
        return code[at + 3] == 1
    return True


@device
def in_set(entry, value):
    """Does the prepared filter's set hold the row with this value?"""
    if value < entry[TAIL_LOW] or value >= entry[TAIL_HIGH]:
        return False
    key = entry[TAIL_FIXED] + value * entry[TAIL_STEP]
    table = as_u8(entry[TAIL_TABLE])
    if entry[TAIL_BITMAP] == 1:
        return (table[key >> 6] >> np.uint64(key & 63)) & np.uint64(1) == np.uint64(1)
    return contains_hashed(table, entry[TAIL_CAPACITY], key)


@device
def survives(code, op, value, register, registers, iterations, scratch, tail_address):
    """Do all filters after operation `op` hold for this value?"""
    for f in range(code[CODE_OPERATIONS] - 1 - op):
        entry = offset_i8(tail_address, TAIL_WORDS * (f + 1))
        if entry[0] == IN_SET:
            if in_set(entry, value) == (entry[TAIL_NEGATED] == 1):
                return False
        elif entry[0] == GENERAL:
            registers[register] = value
            if not passes(code, code[CODE_OFFSETS + op + 1 + f], registers, iterations, scratch):
                return False
    return True


@device
def write_row(code, registers, out):
    """Write the sink's registers as the next row."""
    at = code[CODE_SINK_REGISTERS]
    row = out[ROWS_COUNT]
    for j in range(code[CODE_SINK_COLUMNS]):
        as_u4(out[ROWS_COLUMNS + j])[row] = np.uint32(registers[code[at + j]])
    out[ROWS_COUNT] = row + 1


@device
def only_filter(filters, tail_address):
    """The address of the one prepared filter that is not passed over, if it is a look-up; else 0."""
    found = np.int64(0)
    for f in range(filters):
        entry = offset_i8(tail_address, TAIL_WORDS * (f + 1))
        if entry[0] == GENERAL or (entry[0] == IN_SET and found > 0):
            return np.int64(0)
        if entry[0] == IN_SET:
            found = tail_address + 8 * TAIL_WORDS * (f + 1)
    return found


@device
def drain_filtered(code, probe, iteration, registers, scratch, entry, out):
    """`drain` with one look-up as its filter: few values pass, so the look-ups are what must be fast."""
    register = code[probe + 4 + code[probe + 2]]
    payload = as_u4(as_i8(code[probe])[INDEX_PAYLOAD])
    table = as_u8(entry[TAIL_TABLE])
    capacity = entry[TAIL_CAPACITY]
    is_bitmap = entry[TAIL_BITMAP] == 1
    fixed = entry[TAIL_FIXED]
    by = entry[TAIL_STEP]
    low = entry[TAIL_LOW]
    high = entry[TAIL_HIGH]
    wanted = entry[TAIL_NEGATED] == 0
    room = out[ROWS_CAPACITY]
    end = iteration[1]
    if not is_bitmap:
        for position in range(iteration[0], min(iteration[0] + AHEAD, end)):
            expect_hashed(table, capacity, fixed + np.int64(payload[position]) * by)
    for position in range(iteration[0], end):
        value = np.int64(payload[position])
        key = fixed + value * by
        there = False
        if is_bitmap:
            if low <= value < high:
                there = (table[key >> 6] >> np.uint64(key & 63)) & np.uint64(1) == np.uint64(1)
        else:
            if position + AHEAD < end:
                expect_hashed(table, capacity, fixed + np.int64(payload[position + AHEAD]) * by)
            there = low <= value < high and contains_hashed(table, capacity, key)
        if there == wanted:
            registers[register] = value
            if emit(code, registers, scratch, out) and out[ROWS_COUNT] >= room:
                iteration[0] = position + 1
                return FULL
    iteration[0] = end
    return DONE


@device
def drain(code, op, probe, iteration, registers, iterations, scratch, tail_address, out):
    """Run the rest of the last probe: what does not depend on the value is worked out before the loop.

    Returns FULL when the output filled up, else DONE.
    """
    register = code[probe + 4 + code[probe + 2]]
    filters = code[CODE_OPERATIONS] - 1 - op
    for f in range(filters):
        at = code[CODE_OFFSETS + op + 1 + f]
        entry = offset_i8(tail_address, TAIL_WORDS * (f + 1))
        if not prepare_filter(code, at, register, registers, iterations, entry):
            iteration[0] = iteration[1]
            return DONE
    header = as_i8(code[CODE_SINK_SET])
    inserts = code[CODE_SINK] == INSERT
    packs = inserts and header[SET_KIND] <= HASHED
    table = as_u8(0)
    capacity = np.int64(0)
    is_bitmap = False
    fixed = np.int64(0)
    by = np.int64(0)
    low = np.int64(0)
    high = np.int64(0)
    if packs:
        sink = as_i8(tail_address)
        table = as_u8(header[SET_DATA])
        capacity = header[SET_CAPACITY]
        is_bitmap = header[SET_KIND] == BITMAP
        # If what is known by now lies outside, no value fits; filters may still leave none.
        if packed_key(
            header, code, code[CODE_SINK_REGISTERS], code[CODE_SINK_COLUMNS], register, registers, sink
        ):
            fixed = sink[TAIL_FIXED]
            by = sink[TAIL_STEP]
            low = sink[TAIL_LOW]
            high = sink[TAIL_HIGH]
        else:
            packs = False
    only = only_filter(filters, tail_address)
    if only > 0:
        return drain_filtered(code, probe, iteration, registers, scratch, as_i8(only), out)
    ahead = packs and not is_bitmap and filters == 0
    payload = as_u4(as_i8(code[probe])[INDEX_PAYLOAD])
    room = out[ROWS_CAPACITY]
    end = iteration[1]
    if ahead:
        for position in range(iteration[0], min(iteration[0] + AHEAD, end)):
            expect_hashed(table, capacity, fixed + np.int64(payload[position]) * by)
    for position in range(iteration[0], end):
        value = np.int64(payload[position])
        if filters > 0 and not survives(
            code, op, value, register, registers, iterations, scratch, tail_address
        ):
            continue
        if packs:
            if CHECKED and (value < low or value >= high):
                refuse(header)
            key = fixed + value * by
            if is_bitmap:
                fresh = insert_bit(table, key)
            else:
                if ahead and position + AHEAD < end:
                    expect_hashed(table, capacity, fixed + np.int64(payload[position + AHEAD]) * by)
                fresh = insert_hashed(table, capacity, key)
            if not fresh:
                continue
            registers[register] = value
            write_row(code, registers, out)
        else:
            registers[register] = value
            if not emit(code, registers, scratch, out):
                continue
        if out[ROWS_COUNT] >= room:
            iteration[0] = position + 1
            return FULL
    iteration[0] = end
    return DONE
