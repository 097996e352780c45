"""The operations of a pipeline, one binding at a time."""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import (
    as_f8,
    as_i8,
    as_u4,
)
from gpuengine.kernels.cpu.best import improves_known
from gpuengine.kernels.cpu.code import (
    BY_FLOAT,
    BY_ID,
    BY_UNSIGNED,
    CODE_DRIVER,
    CODE_DRIVER_BINDINGS,
    CODE_DRIVER_COLUMNS,
    CODE_SINK,
    CODE_SINK_COLUMNS,
    CODE_SINK_REGISTERS,
    CODE_SINK_SET,
    COMPARE,
    EQUAL,
    EXISTS,
    IDENTITY,
    IGNORE,
    IMPROVE,
    INSERT,
    LESS,
    LESS_EQUAL,
    OLD,
    PROBE,
)
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.keyset import (
    set_contains,
    set_insert,
)
from gpuengine.kernels.cpu.layout import (
    INDEX_COLUMNS,
    INDEX_PAYLOAD,
    INDEX_ROUND,
    INDEX_SLOTS,
    ROWS_COLUMNS,
    ROWS_COUNT,
    ROWS_DELTA_END,
    ROWS_DELTA_START,
    SLOT_LENGTH,
    SLOT_OLD,
    SLOT_ROUND,
    SLOT_START,
)
from gpuengine.kernels.cpu.rowindex import (
    NO_SLOT,
    find_slot,
)


@device
def bind(binding, value, registers):
    """Write or compare one value; False if a comparison fails."""
    if binding >= 0:
        registers[binding] = value
    elif binding < IGNORE:
        return registers[-2 - binding] == value
    return True


@device
def probe_slot(code, at, registers):
    """The address of the probed slot's words (as an offset into the slots), or NO_SLOT if nothing matches."""
    index = as_i8(code[at])
    key = np.int64(0)
    for j in range(code[at + 2]):
        spec = INDEX_COLUMNS + 4 * j
        offset = registers[code[at + 4 + j]] - index[spec + 1]
        if offset < 0 or offset >= index[spec + 3]:
            return np.int64(NO_SLOT)
        key += offset * index[spec + 2]
    return find_slot(index, key)


@device
def probe_length(code, at, slot):
    """How many rows the probe at `at` yields from a slot in its domain."""
    index = as_i8(code[at])
    slots = as_u4(index[INDEX_SLOTS])
    if code[at + 1] == OLD and slots[slot + SLOT_ROUND] == np.uint32(index[INDEX_ROUND]):
        return np.int64(slots[slot + SLOT_OLD])
    return np.int64(slots[slot + SLOT_LENGTH])


@device
def bind_payload(code, at, position, registers):
    """Bind the payload row at `position` of the probe at `at`."""
    width = code[at + 3]
    payload = as_u4(as_i8(code[at])[INDEX_PAYLOAD])
    bindings = at + 4 + code[at + 2]
    for j in range(width):
        if not bind(code[bindings + j], np.int64(payload[position * width + j]), registers):
            return False
    return True


@device
def start_probe(code, at, iteration, registers):
    """Choose the shortest alternative and set the iteration to its rows. False if there are none."""
    best = np.int64(-1)
    start = np.int64(0)
    chosen = np.int64(0)
    for a in range(code[at + 2]):
        probe = code[at + 3 + a]
        slot = probe_slot(code, probe, registers)
        if slot == NO_SLOT:
            return False
        length = probe_length(code, probe, slot)
        if length == 0:
            return False
        if best < 0 or length < best:
            best = length
            chosen = np.int64(a)
            start = np.int64(as_u4(as_i8(code[probe])[INDEX_SLOTS])[slot + SLOT_START])
    iteration[0] = start
    iteration[1] = start + best
    iteration[2] = chosen
    return True


@device
def exists(code, at, registers):
    """Does the probe at `at` match some row, checks included?"""
    slot = probe_slot(code, at, registers)
    if slot == NO_SLOT:
        return False
    length = probe_length(code, at, slot)
    start = np.int64(as_u4(as_i8(code[at])[INDEX_SLOTS])[slot + SLOT_START])
    for position in range(start, start + length):  # noqa: SIM110
        if bind_payload(code, at, position, registers):
            return True
    return False


@device
def number_of(table, id):
    return id if id < IDENTITY else as_i8(table)[id - IDENTITY]


@device
def compare_values(comparison, left, right):
    if comparison == LESS:
        return left < right
    if comparison == LESS_EQUAL:
        return left <= right
    return left == right if comparison == EQUAL else left != right


@device
def compare(code, at, registers):
    comparison = code[at + 2]
    representation = code[at + 3]
    left = registers[code[at + 4]]
    right = registers[code[at + 5]]
    if representation == BY_ID:
        return compare_values(comparison, left, right)
    table = as_i8(code[at + 6])[0]
    if representation == BY_FLOAT:
        return compare_values(comparison, as_f8(table)[left], as_f8(table)[right])
    left = number_of(table, left)
    right = number_of(table, right)
    if representation == BY_UNSIGNED:
        return compare_values(comparison, np.uint64(left), np.uint64(right))
    return compare_values(comparison, left, right)


@device
def passes(code, at, registers, iterations, scratch):
    """Evaluate a filter operation."""
    kind = code[at]
    if kind == COMPARE:
        return compare(code, at, registers)
    if kind == EXISTS:
        return exists(code, code[at + 3], registers) != (code[at + 2] == 1)
    probe = code[at + 4]
    if probe >= 0 and iterations[3 * probe + 2] == code[at + 5]:
        return True
    for j in range(code[at + 6]):
        scratch[j] = registers[code[at + 7 + j]]
    return set_contains(as_i8(code[at + 2]), scratch) != (code[at + 3] == 1)


@device
def emit(code, registers, scratch, out):
    """Hand the current binding to the sink; True if it wrote a row."""
    columns = code[CODE_SINK_COLUMNS]
    at = code[CODE_SINK_REGISTERS]
    for j in range(columns):
        scratch[j] = registers[code[at + j]]
    if code[CODE_SINK] == INSERT and not set_insert(as_i8(code[CODE_SINK_SET]), scratch):
        return False
    if code[CODE_SINK] == IMPROVE and improves_known(as_i8(code[CODE_SINK_SET]), scratch, columns):
        return False
    row = out[ROWS_COUNT]
    for j in range(columns):
        as_u4(out[ROWS_COLUMNS + j])[row] = np.uint32(scratch[j])
    out[ROWS_COUNT] = row + 1
    return True


@device
def offset_i8(pointer_address, words):
    return as_i8(pointer_address + 8 * words)


@device
def step(code, at, op, iterations_address, registers):
    """Bind the next row of an iterating operation. False when it has no more."""
    iteration = offset_i8(iterations_address, 3 * op)
    if code[at] == PROBE:
        probe = code[at + 3 + iteration[2]]
        while iteration[0] < iteration[1]:
            iteration[0] += 1
            if bind_payload(code, probe, iteration[0] - 1, registers):
                return True
        return False
    rows = as_i8(code[at + 2])
    while iteration[0] < iteration[1]:
        row = iteration[0]
        iteration[0] = row + 1
        matched = True
        for j in range(code[at + 4]):
            value = np.int64(as_u4(rows[ROWS_COLUMNS + j])[row])
            if not bind(code[at + 5 + j], value, registers):
                matched = False
                break
        if matched:
            return True
    return False


@device
def ignores_all(code, at, columns):
    """Do bindings use no value? Then one row says as much as all of them."""
    for j in range(columns):  # noqa: SIM110
        if code[at + j] != IGNORE:
            return False
    return True


@device
def enter(code, at, op, iterations_address, registers):
    """Start an iterating operation. False when nothing matches."""
    iteration = offset_i8(iterations_address, 3 * op)
    if code[at] == PROBE:
        return start_probe(code, at, iteration, registers)
    rows = as_i8(code[at + 2])
    iteration[0] = 0
    iteration[1] = rows[ROWS_DELTA_START] if code[at + 3] == OLD else rows[ROWS_DELTA_END]
    if iteration[1] > 1 and ignores_all(code, at + 5, code[at + 4]):
        iteration[1] = 1
    return iteration[1] > 0


@device
def load_driver(code, row, registers):
    """Bind the driver's row; False if a repeated variable or constant does not match."""
    driver = as_i8(code[CODE_DRIVER])
    at = code[CODE_DRIVER_BINDINGS]
    for j in range(code[CODE_DRIVER_COLUMNS]):
        if code[at + j] != IGNORE:
            value = np.int64(as_u4(driver[ROWS_COLUMNS + j])[row])
            if not bind(code[at + j], value, registers):
                return False
    return True
