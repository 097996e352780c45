"""The fused join: drive rows through probes and filters, and keep only what is new.

One compiled function interprets a small program over registers, depth first, a row at a time:
the driver's row binds some registers, each operation binds more or filters, and what reaches the
end is inserted into the head's set; only rows that were not there are written. Candidates that turn
out to be duplicates, the bulk of a fixpoint's work, are therefore never stored, sorted or merged.

The code's format is in `code`, the operations in `operations`, the innermost loop in `tail`, and the
commonest pipelines as one loop each in `compose`, `gather` and `transfer`, arithmetic in `calculation`. A run
suspends when the output is full and goes on exactly there when called again.
"""

from __future__ import annotations

from gpuengine.kernels.cpu.atomics import (
    as_i8,
    atomic_add,
)
from gpuengine.kernels.cpu.calculation import compute
from gpuengine.kernels.cpu.code import (
    CODE_OFFSETS,
    CODE_OPERATIONS,
    CODE_SINK_BACK,
    COMPUTE,
    DONE,
    FAILED,
    FULL,
    NO_RESUME,
    SCAN,
    STATE_CANDIDATES,
    STATE_END,
    STATE_ITERATION,
    STATE_REGISTERS,
    STATE_RESUME,
    STATE_ROW,
    STATE_SCRATCH,
    STATE_STOP,
    STATE_TAIL,
    STOPPED,
    WORK_CHUNK,
    WORK_END,
    WORK_PIECE,
    WORK_ROOM,
    WORK_ROOM_END,
    WORK_ROW,
)
from gpuengine.kernels.cpu.compose import (
    compose_range,
    composes,
)
from gpuengine.kernels.cpu.gather import (
    gather_range,
    gathers,
)
from gpuengine.kernels.cpu.improvement import improve_range, improves
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.layout import (
    ROWS_CAPACITY,
    ROWS_COUNT,
)
from gpuengine.kernels.cpu.operations import (
    emit,
    enter,
    load_driver,
    offset_i8,
    passes,
    step,
)
from gpuengine.kernels.cpu.tail import (
    drain,
    find_tail,
)
from gpuengine.kernels.cpu.transfer import (
    transfer_range,
    transfers,
)


@device
def run_row(code, state, state_address, out, tail, start_op):
    """Run one driver row from `start_op` (0 to begin, one to do again, or the one to step next, as -3 - op).

    Returns DONE, STOPPED, or with STATE_RESUME telling where to go on FULL, WORDS_FULL or OUTSIDE.
    """
    operations = code[CODE_OPERATIONS]
    registers = offset_i8(state_address, state[STATE_REGISTERS])
    iterations_address = state_address + 8 * state[STATE_ITERATION]
    iterations = as_i8(iterations_address)
    scratch = offset_i8(state_address, state[STATE_SCRATCH])
    stop = as_i8(state[STATE_STOP])
    op = start_op
    advance = False
    if start_op < 0:
        op = -3 - start_op
        advance = True
    while True:
        if op == operations:
            state[STATE_CANDIDATES] += 1
            wrote = emit(code, registers, scratch, out)
            op = code[CODE_SINK_BACK]
            advance = True
            if wrote and out[ROWS_COUNT] >= out[ROWS_CAPACITY]:
                state[STATE_RESUME] = op
                return FULL
        if op < 0:
            return DONE
        at = code[CODE_OFFSETS + op]
        if code[at] >= COMPUTE:
            status = compute(code, at, registers, scratch)
            if status == DONE:
                op += 1
            elif status == FAILED:
                op = code[at + 1]
                advance = True
            else:
                state[STATE_RESUME] = -3 - op
                return status
            continue
        if code[at] > SCAN:
            if passes(code, at, registers, iterations, scratch):
                op += 1
            else:
                op = code[at + 1]
                advance = True
            continue
        if not advance:
            if stop[0] != 0:
                return STOPPED
            if not enter(code, at, op, iterations_address, registers):
                op = code[at + 1]
                advance = True
                continue
        if op == tail:
            iteration = offset_i8(iterations_address, 3 * op)
            before = iteration[0]
            probe = code[at + 3 + iteration[2]]
            tail_address = state_address + 8 * state[STATE_TAIL]
            status = drain(code, op, probe, iteration, registers, iterations, scratch, tail_address, out)
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
def run_range(code, state, state_address, out):
    """Run the driver's rows [STATE_ROW, STATE_END); suspends when there is no room for what comes out."""
    if composes(code):
        return compose_range(code, state, out)
    if gathers(code):
        return gather_range(code, state, state_address, out)
    if transfers(code):
        return transfer_range(code, state, state_address, out)
    if improves(code):
        return improve_range(code, state, state_address, out)
    tail = find_tail(code)
    stop = as_i8(state[STATE_STOP])
    registers = offset_i8(state_address, state[STATE_REGISTERS])
    if state[STATE_RESUME] != NO_RESUME:
        op = state[STATE_RESUME]
        state[STATE_RESUME] = NO_RESUME
        if op >= 0 or op < NO_RESUME:
            status = run_row(code, state, state_address, out, tail, -3 - op)
            if status != DONE:
                return status
        state[STATE_ROW] += 1
    while state[STATE_ROW] < state[STATE_END]:
        if stop[0] != 0:
            return STOPPED
        if load_driver(code, state[STATE_ROW], registers):
            status = run_row(code, state, state_address, out, tail, 0)
            if status != DONE:
                return status
        state[STATE_ROW] += 1
    return DONE


@device
def take_room(work, out):
    """Have `out` be another piece of the room that runs share; False if there is none."""
    if work[WORK_ROOM] >= work[WORK_ROOM_END]:
        return False
    start = atomic_add(work, WORK_ROOM, work[WORK_PIECE])
    if start >= work[WORK_ROOM_END]:
        return False
    out[ROWS_COUNT] = start
    out[ROWS_CAPACITY] = min(start + work[WORK_PIECE], work[WORK_ROOM_END])
    return True


@device
def take_rows(work, state):
    """Have a run go on with some more of the driver's rows that runs share; False if there are none."""
    if work[WORK_ROW] >= work[WORK_END]:
        return False
    start = atomic_add(work, WORK_ROW, work[WORK_CHUNK])
    if start >= work[WORK_END]:
        return False
    state[STATE_ROW] = start
    state[STATE_END] = min(start + work[WORK_CHUNK], work[WORK_END])
    return True


@kernel("i8(i8*, i8*, i8, i8*, i8*)")
def run(code, state, state_address, out, work):
    """Run a pipeline over its driver's rows, and what it can take of `work`, into the rows header `out`.

    Returns a status; FULL if there is no room for a row.
    """
    while True:
        if out[ROWS_COUNT] >= out[ROWS_CAPACITY] and not take_room(work, out):
            return FULL
        status = run_range(code, state, state_address, out)
        if status == DONE:
            if not take_rows(work, state):
                return DONE
        elif status != FULL:
            return status
