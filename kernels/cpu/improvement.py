"""Improving best values by what one probe finds, or by the driver's rows themselves, as one loop.

What is computed is compared with the value that its key has before it gets an id: few values are better.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import as_i8, as_u4, prefetch
from gpuengine.kernels.cpu.best import (
    MOST,
    NO_NUMBER,
    expect_key,
    improve_key,
    known_number,
    order_of_word,
)
from gpuengine.kernels.cpu.calculation import calculate, word_of
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
    COMPUTE,
    DONE,
    FULL,
    IGNORE,
    IMPROVE,
    NO_RESUME,
    OUTSIDE,
    PROBE,
    STATE_CANDIDATES,
    STATE_END,
    STATE_REGISTERS,
    STATE_RESUME,
    STATE_ROW,
    STATE_SCRATCH,
    STATE_STOP,
    STATE_TAIL,
    STOPPED,
    WITHIN,
    WORDS_FULL,
)
from gpuengine.kernels.cpu.gather import payload_column
from gpuengine.kernels.cpu.intern import NO_ID, intern_word
from gpuengine.kernels.cpu.jit import device
from gpuengine.kernels.cpu.layout import (
    INDEX_COLUMNS,
    INDEX_HASHED,
    INDEX_PAYLOAD,
    INDEX_SLOTS,
    MERGE_BEST,
    MERGE_COLUMN,
    MERGE_WORDS,
    ROWS_CAPACITY,
    ROWS_COLUMNS,
    ROWS_COUNT,
    SLOT_START,
    SLOT_WORDS,
)
from gpuengine.kernels.cpu.operations import load_driver, offset_i8, probe_length, probe_slot
from gpuengine.kernels.cpu.rowindex import NO_SLOT, expect_slot

NOWHERE = -1
BATCH_SELF = 0  # the address of the state
BATCH_COUNT = 1
BATCH_NEXT = 2  # the first item that has not been offered
BATCH_BEGIN = 3  # with the state's row, where to go on after the batch
BATCH_LIMIT = 4
BATCH_ITEMS = 5  # each the ids of a row, the word of its value, and the number of its key
BATCH_ROWS = 256


@device
def probes_first(code):
    """Is the first operation a probe, of which nothing is checked?"""
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
def value_register(code):
    merge = as_i8(code[CODE_SINK_SET])
    return code[code[CODE_SINK_REGISTERS] + merge[MERGE_COLUMN]]


@device
def improves(code):
    """Is this a driver, perhaps a probe, and perhaps what computes the value, into best values?"""
    if code[CODE_SINK] != IMPROVE:
        return False
    operations = code[CODE_OPERATIONS]
    op = np.int64(0)
    if operations > 0 and probes_first(code):
        op = np.int64(1)
    if op < operations and code[code[CODE_OFFSETS + op]] == COMPUTE:
        at = code[CODE_OFFSETS + op]
        merge = as_i8(code[CODE_SINK_SET])
        if code[at + 2] != value_register(code) or code[at + 3] != merge[MERGE_WORDS]:
            return False
        for j in range(code[CODE_SINK_COLUMNS]):
            if j != merge[MERGE_COLUMN] and code[code[CODE_SINK_REGISTERS] + j] == value_register(code):
                return False
        op += 1
    if op < operations and code[code[CODE_OFFSETS + op]] == WITHIN:
        op += 1
    return op == operations


@device
def operation_of(code, kind):
    """The operation of a kind, or NOWHERE."""
    for op in range(code[CODE_OPERATIONS]):
        if code[code[CODE_OFFSETS + op]] == kind:
            return np.int64(op)
    return np.int64(NOWHERE)


@device
def admitted(code, at, row):
    """Does the WITHIN at `at` hold of a row of the sink? It looks at the value: nothing else is computed."""
    id = row[as_i8(code[CODE_SINK_SET])[MERGE_COLUMN]]
    return code[at + 4] <= id < code[at + 5]


@device
def driver_column_of(code, register):
    """The driver's column that writes a register, or NOWHERE."""
    at = code[CODE_DRIVER_BINDINGS]
    for j in range(code[CODE_DRIVER_COLUMNS]):
        if code[at + j] == register:
            return np.int64(j)
    return np.int64(NOWHERE)


@device
def expect_payload(index, driver, column, row, width):
    """Have what a row of the driver leads to fetched ahead; its slot has been."""
    key = np.int64(as_u4(driver[ROWS_COLUMNS + column])[row]) - index[INDEX_COLUMNS + 1]
    if index[INDEX_HASHED] == 0 and 0 <= key < index[INDEX_COLUMNS + 3]:
        start = np.int64(as_u4(index[INDEX_SLOTS])[key * SLOT_WORDS + SLOT_START])
        prefetch(as_u4(index[INDEX_PAYLOAD]), start * width)


@device
def suspend(code, state, batch, item, op, row, columns):
    """Note that an item of the batch is to be done again by an operation, with its row in registers."""
    registers = offset_i8(batch[BATCH_SELF], state[STATE_REGISTERS])
    for j in range(columns):
        registers[code[code[CODE_SINK_REGISTERS] + j]] = row[j]
    batch[BATCH_NEXT] = item
    state[STATE_RESUME] = -3 - op


@device
def take_batch(code, state, merge, batch, out, computing, within):
    """Offer the batch from where it is: DONE, or WORDS_FULL or OUTSIDE at one of its items."""
    columns = code[CODE_SINK_COLUMNS]
    stride = columns + 2
    best, words = as_i8(merge[MERGE_BEST]), as_i8(merge[MERGE_WORDS])
    column = merge[MERGE_COLUMN]
    address = batch[BATCH_SELF] + 8 * (state[STATE_TAIL] + BATCH_ITEMS)
    for item in range(batch[BATCH_NEXT], batch[BATCH_COUNT]):
        row = offset_i8(address, item * stride)
        number = known_number(merge, row, columns)
        row[columns + 1] = number
        if number != NO_NUMBER:
            prefetch(best, number)
    for item in range(batch[BATCH_NEXT], batch[BATCH_COUNT]):
        row = offset_i8(address, item * stride)
        number = row[columns + 1]
        value = order_of_word(merge, np.uint64(row[columns]))
        if number != NO_NUMBER and value >= best[number] and best[number] < MOST:
            continue
        if computing != NOWHERE:
            made = intern_word(words, np.uint64(row[columns]))
            if made == NO_ID:
                suspend(code, state, batch, item, computing, row, columns)
                return WORDS_FULL
            row[column] = made
            if within != NOWHERE and not admitted(code, code[CODE_OFFSETS + within], row):
                suspend(code, state, batch, item, within, row, columns)
                return OUTSIDE
        if number != NO_NUMBER:
            improve_key(merge, number, value, row[column])
            continue
        written = out[ROWS_COUNT]
        for j in range(columns):
            as_u4(out[ROWS_COLUMNS + j])[written] = np.uint32(row[j])
        out[ROWS_COUNT] = written + 1
    batch[BATCH_NEXT] = 0
    batch[BATCH_COUNT] = 0
    return DONE


@device
def improve_range(code, state, state_address, out):
    """`run_range` for what `improves`.

    Rows are taken in batches, since what an item reads lies anywhere in memory: it is fetched for many at a
    time. A run suspends between two batches, or in the midst of one that `take_batch` goes on with.
    """
    merge = as_i8(code[CODE_SINK_SET])
    columns = code[CODE_SINK_COLUMNS]
    sink = code[CODE_SINK_REGISTERS]
    stride = columns + 2
    registers = offset_i8(state_address, state[STATE_REGISTERS])
    scratch = offset_i8(state_address, state[STATE_SCRATCH])
    batch = offset_i8(state_address, state[STATE_TAIL])
    items_address = state_address + 8 * (state[STATE_TAIL] + BATCH_ITEMS)
    has_probe = operation_of(code, PROBE) == 0
    computing = operation_of(code, COMPUTE)
    within = operation_of(code, WITHIN)
    words = as_i8(merge[MERGE_WORDS])
    value_at = value_register(code)
    probe = np.int64(0)
    width = np.int64(0)
    bindings = np.int64(0)
    payload = as_u4(0)
    ahead = np.int64(NOWHERE)
    index = as_i8(0)
    slots = as_u4(0)
    if has_probe:
        probe = code[code[CODE_OFFSETS] + 3]
        width = code[probe + 3]
        bindings = probe + 4 + code[probe + 2]
        index = as_i8(code[probe])
        slots = as_u4(index[INDEX_SLOTS])
        payload = as_u4(index[INDEX_PAYLOAD])
        if code[probe + 2] == 1:
            ahead = driver_column_of(code, code[probe + 4])
    driver = as_i8(code[CODE_DRIVER])
    # Where each column of the sink comes from: what the probe finds, or what is there before.
    found = offset_i8(items_address, BATCH_ROWS * stride)
    for j in range(columns):
        found[j] = payload_column(code, probe, code[sink + j]) if has_probe else NOWHERE
    is_fixed = computing == NOWHERE and found[merge[MERGE_COLUMN]] == NOWHERE
    stop = as_i8(state[STATE_STOP])
    begin = np.int64(0)
    if state[STATE_RESUME] == NO_RESUME:
        batch[BATCH_SELF] = state_address
        batch[BATCH_NEXT] = 0
        batch[BATCH_COUNT] = 0
    else:
        begin = batch[BATCH_BEGIN]
        state[STATE_RESUME] = NO_RESUME
        status = take_batch(code, state, merge, batch, out, computing, within)
        if status != DONE:
            return status
    last = state[STATE_END]
    for row in range(state[STATE_ROW], last):
        if stop[0] != 0:
            state[STATE_ROW] = row
            return STOPPED
        if ahead != NOWHERE:
            if row + 2 * AHEAD < last:
                key = (
                    np.int64(as_u4(driver[ROWS_COLUMNS + ahead])[row + 2 * AHEAD]) - index[INDEX_COLUMNS + 1]
                )
                expect_slot(index, min(max(key, 0), index[INDEX_COLUMNS + 3] - 1))
            if row + AHEAD < last:
                expect_payload(index, driver, ahead, row + AHEAD, width)
        if not load_driver(code, row, registers):
            continue
        start = np.int64(0)
        length = np.int64(1)
        if has_probe:
            slot = probe_slot(code, probe, registers)
            if slot == NO_SLOT:
                continue
            length = probe_length(code, probe, slot)
            start = np.int64(slots[slot + SLOT_START])
        word = np.uint64(0)
        if is_fixed:
            word = word_of(words, registers[value_at])
        end = start + length
        position = start + begin
        while position < end:
            room = min(BATCH_ROWS - batch[BATCH_COUNT], end - position)
            if batch[BATCH_COUNT] == 0:
                # As many as there is room for if all of them have new keys.
                room = min(room, out[ROWS_CAPACITY] - out[ROWS_COUNT])
                batch[BATCH_LIMIT] = min(BATCH_ROWS, out[ROWS_CAPACITY] - out[ROWS_COUNT])
            room = min(room, batch[BATCH_LIMIT] - batch[BATCH_COUNT])
            item = offset_i8(items_address, batch[BATCH_COUNT] * stride)
            for _ in range(room):
                if computing != NOWHERE:
                    for j in range(width):
                        if code[bindings + j] >= 0:
                            registers[code[bindings + j]] = np.int64(payload[position * width + j])
                    word = calculate(code, code[CODE_OFFSETS + computing], registers, scratch)
                for j in range(columns):
                    if found[j] >= 0:
                        item[j] = np.int64(payload[position * width + found[j]])
                    else:
                        item[j] = registers[code[sink + j]]
                if computing == NOWHERE and not is_fixed:
                    word = word_of(words, item[merge[MERGE_COLUMN]])
                item[columns] = np.int64(word)
                expect_key(merge, item, columns)
                item = offset_i8(items_address, (batch[BATCH_COUNT] + 1) * stride)
                batch[BATCH_COUNT] += 1
                position += 1
            state[STATE_CANDIDATES] += room
            if batch[BATCH_COUNT] >= batch[BATCH_LIMIT]:
                state[STATE_ROW] = row
                batch[BATCH_BEGIN] = position - start
                status = take_batch(code, state, merge, batch, out, computing, within)
                if status != DONE:
                    return status
                if out[ROWS_COUNT] >= out[ROWS_CAPACITY]:
                    state[STATE_RESUME] = 0
                    return FULL
        begin = np.int64(0)
    state[STATE_ROW] = last
    batch[BATCH_BEGIN] = 0
    return take_batch(code, state, merge, batch, out, computing, within)


def batch_words(columns: int) -> int:
    """How much room a batch of rows takes, with where their columns come from."""
    return BATCH_ITEMS + BATCH_ROWS * (columns + 2) + columns
