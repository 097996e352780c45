"""The fused join: drive rows through probes and filters, and keep only what is new.

One compiled function interprets a small program over registers, depth first, a row at a time:
the driver's row binds some registers, each operation binds more or filters, and what reaches the
end is inserted into the head's set; only rows that were not there are written. Candidates that turn
out to be duplicates, the bulk of a fixpoint's work, are therefore never stored, sorted or merged.

Code (int64)
    number of operations, driver rows header, driver columns, sink kind, sink set header, sink columns,
    offset of driver bindings, offset of sink registers, then the offset of each operation.
Bindings
    a register to write (>= 0), IGNORE (-1), or ``-2 - register`` to compare with.
Operations
    PROBE     kind, back, alternatives, then for each: offset of its probe
              a probe: index header, domain, keys, width, key registers, payload bindings
    SCAN      kind, back, rows header, domain, columns, bindings
    CONTAINS  kind, back, set header, negated, probe operation, alternative, columns, registers
    EXISTS    kind, back, negated, offset of its probe
    COMPARE   kind, back, comparison, representation, left register, right register, value table
`back` is the nearest earlier operation that iterates, or -1 for the driver. A CONTAINS is passed
over when its probe operation chose the given alternative, which has just enumerated that atom.
State (int64)
    row, end row, resume operation, stop flag's address, candidates, registers' offset, iteration offset
    (position, end, alternative for each operation), scratch's offset; then those areas.
A run suspends when the output is full and goes on exactly there when called again.
"""

from __future__ import annotations

import numpy as np

from gpuengine.kernels.cpu.atomics import as_f8, as_i8, as_u4, as_u8
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.keyset import insert_bit, insert_hashed, set_contains, set_insert
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
    ROWS_DELTA_END,
    ROWS_DELTA_START,
    SET_CAPACITY,
    SET_COLUMNS,
    SET_DATA,
    SET_KIND,
    SLOT_LENGTH,
    SLOT_OLD,
    SLOT_ROUND,
    SLOT_START,
    SLOT_WORDS,
)
from gpuengine.kernels.cpu.rowindex import NO_SLOT, find_slot

CODE_OPERATIONS = 0
CODE_DRIVER = 1
CODE_DRIVER_COLUMNS = 2
CODE_SINK = 3
CODE_SINK_SET = 4
CODE_SINK_COLUMNS = 5
CODE_DRIVER_BINDINGS = 6
CODE_SINK_REGISTERS = 7
CODE_OFFSETS = 8

STATE_ROW = 0
STATE_END = 1
STATE_RESUME = 2
STATE_STOP = 3
STATE_CANDIDATES = 4
STATE_REGISTERS = 5
STATE_ITERATION = 6
STATE_SCRATCH = 7
STATE_AREAS = 8

PROBE = 0
SCAN = 1
CONTAINS = 2
EXISTS = 3
COMPARE = 4

COLLECT = 0
INSERT = 1

ALL = 0
OLD = 1

IGNORE = -1

EQUAL = 0
NOT_EQUAL = 1
LESS = 2
LESS_EQUAL = 3
BY_ID = 0
BY_NUMBER = 1
BY_UNSIGNED = 2
BY_FLOAT = 3
IDENTITY = 1 << 24  # ids of numbers below this are the numbers themselves

DONE = 0
FULL = 1
STOPPED = 2
NO_RESUME = -2


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
    slot = find_slot(index, key)
    return slot * SLOT_WORDS if slot != NO_SLOT else np.int64(NO_SLOT)


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
    for position in range(start, start + length):
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
    table = code[at + 6]
    if representation == BY_FLOAT:
        return compare_values(comparison, as_f8(table)[left], as_f8(table)[right])
    if comparison == EQUAL:
        return left == right
    if comparison == NOT_EQUAL:
        return left != right
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
    row = out[ROWS_COUNT]
    for j in range(columns):
        as_u4(out[ROWS_COLUMNS + j])[row] = np.uint32(scratch[j])
    out[ROWS_COUNT] = row + 1
    return True


@device
def write_row(code, registers, out):
    at = code[CODE_SINK_REGISTERS]
    row = out[ROWS_COUNT]
    for j in range(code[CODE_SINK_COLUMNS]):
        as_u4(out[ROWS_COLUMNS + j])[row] = np.uint32(registers[code[at + j]])
    out[ROWS_COUNT] = row + 1


@device
def drain(code, probe, iteration, registers, out):
    """The innermost loop when it only extends one register and inserts: no interpretation a candidate.

    Returns FULL when the output filled up, else DONE.
    """
    header = as_i8(code[CODE_SINK_SET])
    table = as_u8(header[SET_DATA])
    capacity = header[SET_CAPACITY]
    is_bitmap = header[SET_KIND] == BITMAP
    register = code[probe + 4 + code[probe + 2]]
    at = code[CODE_SINK_REGISTERS]
    fixed = np.int64(0)
    step = np.int64(0)
    for j in range(code[CODE_SINK_COLUMNS]):
        spec = SET_COLUMNS + 3 * j
        stride = header[spec + 1]
        fixed -= header[spec] * stride
        if code[at + j] == register:
            step += stride
        else:
            fixed += registers[code[at + j]] * stride
    payload = as_u4(as_i8(code[probe])[INDEX_PAYLOAD])
    room = out[ROWS_CAPACITY]
    end = iteration[1]
    for position in range(iteration[0], end):
        value = np.int64(payload[position])
        key = fixed + value * step
        fresh = insert_bit(table, key) if is_bitmap else insert_hashed(table, capacity, key)
        if fresh:
            registers[register] = value
            write_row(code, registers, out)
            if out[ROWS_COUNT] >= room:
                iteration[0] = position + 1
                return FULL
    iteration[0] = end
    return DONE


@device
def drains(code, at):
    """Can `drain` serve the last operation: one probe of one written column into a packed set?"""
    if code[at] != PROBE or code[at + 2] != 1 or code[CODE_SINK] != INSERT:
        return False
    probe = code[at + 3]
    if code[probe + 3] != 1 or code[probe + 4 + code[probe + 2]] < 0:
        return False
    return as_i8(code[CODE_SINK_SET])[SET_KIND] <= HASHED


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
    for j in range(columns):
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


@device
def run_row(code, state, state_address, out, start_op):
    """Run one driver row from `start_op` (0 to begin, else the operation to step next, as -3 - op).

    Returns DONE, or FULL with STATE_RESUME telling where to go on.
    """
    operations = code[CODE_OPERATIONS]
    registers = offset_i8(state_address, state[STATE_REGISTERS])
    iterations_address = state_address + 8 * state[STATE_ITERATION]
    iterations = as_i8(iterations_address)
    scratch = offset_i8(state_address, state[STATE_SCRATCH])
    last_drains = operations > 0 and drains(code, code[CODE_OFFSETS + operations - 1])
    op = start_op
    advance = False
    if start_op < 0:
        op = -3 - start_op
        advance = True
    while True:
        if op == operations:
            state[STATE_CANDIDATES] += 1
            wrote = emit(code, registers, scratch, out)
            op = code[code[CODE_OFFSETS + operations - 1] + 1] if operations > 0 else -1
            if operations > 0 and code[code[CODE_OFFSETS + operations - 1]] <= SCAN:
                op = operations - 1
            advance = True
            if wrote and out[ROWS_COUNT] >= out[ROWS_CAPACITY]:
                state[STATE_RESUME] = op
                return FULL
        if op < 0:
            return DONE
        at = code[CODE_OFFSETS + op]
        if code[at] > SCAN:
            if passes(code, at, registers, iterations, scratch):
                op += 1
            else:
                op = code[at + 1]
                advance = True
            continue
        if not advance and not enter(code, at, op, iterations_address, registers):
            op = code[at + 1]
            advance = True
            continue
        if op == operations - 1 and last_drains:
            iteration = offset_i8(iterations_address, 3 * op)
            before = iteration[0]
            status = drain(code, code[at + 3], iteration, registers, out)
            state[STATE_CANDIDATES] += iteration[0] - before
            if status == FULL:
                state[STATE_RESUME] = op
                return FULL
            op = code[at + 1]
            advance = True
            continue
        if step(code, at, op, iterations_address, registers):
            op += 1
            advance = False
        else:
            op = code[at + 1]
            advance = True


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
    if not drains(code, operation):
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
    origin = -header[SET_COLUMNS + 3 * kept_at] * kept_stride - header[SET_COLUMNS + 3 * joined_at] * step
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
    for row in range(state[STATE_ROW], state[STATE_END]):
        if stop[0] != 0:
            state[STATE_ROW] = row
            out[ROWS_COUNT] = written
            return STOPPED
        key = np.int64(keys[row]) - base
        if key < 0 or key >= extent:
            continue
        slot = find_slot(index, key)
        if slot == NO_SLOT:
            continue
        slot *= SLOT_WORDS
        length = np.int64(slots[slot + SLOT_LENGTH])
        if old_only and slots[slot + SLOT_ROUND] == round_number:
            length = np.int64(slots[slot + SLOT_OLD])
        start = np.int64(slots[slot + SLOT_START])
        keep = kept[row]
        fixed = origin + np.int64(keep) * kept_stride
        candidates += length - begin
        for position in range(start + begin, start + length):
            value = payload[position]
            packed = fixed + np.int64(value) * step
            fresh = insert_bit(table, packed) if is_bitmap else insert_hashed(table, capacity, packed)
            if fresh:
                kept_out[written] = keep
                joined_out[written] = value
                written += 1
                if written >= room:
                    state[STATE_ROW] = row
                    state[STATE_RESUME] = position + 1 - start
                    state[STATE_CANDIDATES] += candidates - (start + length - position - 1)
                    out[ROWS_COUNT] = written
                    return FULL
        begin = np.int64(0)
    state[STATE_ROW] = state[STATE_END]
    state[STATE_CANDIDATES] += candidates
    out[ROWS_COUNT] = written
    return DONE


@device
def run_range(code, state, state_address, out):
    """Run the driver's rows [STATE_ROW, STATE_END); suspends when the output is full."""
    if composes(code):
        return compose_range(code, state, out)
    stop = as_i8(state[STATE_STOP])
    registers = offset_i8(state_address, state[STATE_REGISTERS])
    if state[STATE_RESUME] != NO_RESUME:
        op = state[STATE_RESUME]
        state[STATE_RESUME] = NO_RESUME
        if op >= 0 and run_row(code, state, state_address, out, -3 - op) == FULL:
            return FULL
        state[STATE_ROW] += 1
    while state[STATE_ROW] < state[STATE_END]:
        if stop[0] != 0:
            return STOPPED
        if load_driver(code, state[STATE_ROW], registers) and (
            run_row(code, state, state_address, out, 0) == FULL
        ):
            return FULL
        state[STATE_ROW] += 1
    return DONE


@kernel("i8(i8*, i8*, i8, i8*)")
def run(code, state, state_address, out):
    """Run a pipeline over its driver's rows; see the module's text. Returns DONE, FULL or STOPPED."""
    return run_range(code, state, state_address, out)
