"""Many small rounds of a fixpoint in one compiled call.

A round runs every delta variant of a stratum over the newest rows, then makes what was derived the
new delta and adds it to the indexes. Doing that here costs well under a microsecond where
the same steps driven from Python cost a millisecond; large rounds return to the caller, who splits
them over threads.

Plan (int64)
    variants, relations, then for each variant: code, state, driver rows, head rows (addresses);
    then for each relation: offset of its entry: rows header, indexes, index headers.
Control (int64)
    phase, variant, variant started, relation, index, row, rounds, delta limit, work limit,
    stop flag's address, rounds and candidates that are left until it pauses
"""

from __future__ import annotations

from gpuengine.kernels.cpu.atomics import as_i8
from gpuengine.kernels.cpu.code import (
    DONE,
    FULL,
    NO_RESUME,
    OUTSIDE,
    STATE_CANDIDATES,
    STATE_END,
    STATE_RESUME,
    STATE_ROW,
    WORDS_FULL,
)
from gpuengine.kernels.cpu.jit import device, kernel
from gpuengine.kernels.cpu.layout import (
    INDEX_ROUND,
    ROWS_COUNT,
    ROWS_DELTA_END,
    ROWS_DELTA_START,
)
from gpuengine.kernels.cpu.pipeline import run_range
from gpuengine.kernels.cpu.rowindex import append_range

PLAN_VARIANTS = 0
PLAN_RELATIONS = 1
PLAN_ENTRIES = 2
VARIANT_WORDS = 4

CONTROL_PHASE = 0
CONTROL_VARIANT = 1
CONTROL_STARTED = 2
CONTROL_RELATION = 3
CONTROL_INDEX = 4
CONTROL_ROW = 5
CONTROL_ROUNDS = 6
CONTROL_DELTA_LIMIT = 7
CONTROL_WORK_LIMIT = 8
CONTROL_STOP = 9
CONTROL_TURN = 10
CONTROL_WORDS = 11

DERIVE = 0
ADVANCE = 1

FIXPOINT = 0
ROWS_FULL = 1
HALTED = 2
INDEX_FULL = 3
LARGE = 4
NO_WORDS = 5
NOT_WITHIN = 6
PAUSED = 7


@device
def derive(plan, control):
    """Run the variants from where control says; DONE, or why one of them suspended or stopped."""
    while control[CONTROL_VARIANT] < plan[PLAN_VARIANTS]:
        at = PLAN_ENTRIES + VARIANT_WORDS * control[CONTROL_VARIANT]
        state = as_i8(plan[at + 1])
        if control[CONTROL_STARTED] == 0:
            driver = as_i8(plan[at + 2])
            state[STATE_ROW] = driver[ROWS_DELTA_START]
            state[STATE_END] = driver[ROWS_DELTA_END]
            state[STATE_RESUME] = NO_RESUME
            control[CONTROL_STARTED] = 1
        status = run_range(as_i8(plan[at]), state, plan[at + 1], as_i8(plan[at + 3]))
        if status != DONE:
            return status
        control[CONTROL_VARIANT] += 1
        control[CONTROL_STARTED] = 0
    control[CONTROL_VARIANT] = 0
    return DONE


@device
def begin_delta(rows):
    """What was derived since the last round becomes the delta."""
    rows[ROWS_DELTA_START] = rows[ROWS_DELTA_END]
    rows[ROWS_DELTA_END] = rows[ROWS_COUNT]


@device
def index_delta(plan, control):
    """Make the new deltas and add them to every index; False when an index is full."""
    while control[CONTROL_RELATION] < plan[PLAN_RELATIONS]:
        at = plan[PLAN_ENTRIES + VARIANT_WORDS * plan[PLAN_VARIANTS] + control[CONTROL_RELATION]]
        rows = as_i8(plan[at])
        if control[CONTROL_STARTED] == 0:
            begin_delta(rows)
            control[CONTROL_STARTED] = 1
            control[CONTROL_ROW] = -1
        while control[CONTROL_INDEX] < plan[at + 1]:
            index = as_i8(plan[at + 2 + control[CONTROL_INDEX]])
            if control[CONTROL_ROW] < 0:
                index[INDEX_ROUND] += 1
                control[CONTROL_ROW] = rows[ROWS_DELTA_START]
            control[CONTROL_ROW] = append_range(index, rows, control[CONTROL_ROW], rows[ROWS_DELTA_END])
            if control[CONTROL_ROW] < rows[ROWS_DELTA_END]:
                return False
            control[CONTROL_INDEX] += 1
            control[CONTROL_ROW] = -1
        control[CONTROL_INDEX] = 0
        control[CONTROL_STARTED] = 0
        control[CONTROL_RELATION] += 1
    control[CONTROL_RELATION] = 0
    return True


@device
def delta_rows(plan):
    """The rows of all deltas."""
    total = 0
    for r in range(plan[PLAN_RELATIONS]):
        rows = as_i8(plan[plan[PLAN_ENTRIES + VARIANT_WORDS * plan[PLAN_VARIANTS] + r]])
        total += rows[ROWS_DELTA_END] - rows[ROWS_DELTA_START]
    return total


@device
def work_done(plan):
    """The candidates of all variants so far."""
    total = 0
    for v in range(plan[PLAN_VARIANTS]):
        total += as_i8(plan[PLAN_ENTRIES + VARIANT_WORDS * v + 1])[STATE_CANDIDATES]
    return total


@device
def outcome_of(status):
    """What the call returns for a variant that is not DONE."""
    if status == FULL:
        return ROWS_FULL
    if status == WORDS_FULL:
        return NO_WORDS
    return NOT_WITHIN if status == OUTSIDE else HALTED


@kernel("i8(i8*, i8*)")
def run_rounds(plan, control):
    """Run rounds until the fixpoint, a round larger than the limits, lack of room, or a stop.

    Returns FIXPOINT; ROWS_FULL (the head of CONTROL_VARIANT needs room); INDEX_FULL (CONTROL_INDEX of
    CONTROL_RELATION does); NO_WORDS (the dictionary does, for what CONTROL_VARIANT computed); NOT_WITHIN (the
    head of CONTROL_VARIANT does not admit an id that was computed); LARGE (between two rounds); PAUSED
    (likewise, with no CONTROL_TURN left); or HALTED. Called again, it goes on from there.
    """
    while True:
        before = work_done(plan)
        if control[CONTROL_PHASE] == DERIVE:
            status = derive(plan, control)
            if status != DONE:
                return outcome_of(status)
            control[CONTROL_PHASE] = ADVANCE
        if not index_delta(plan, control):
            return INDEX_FULL
        control[CONTROL_PHASE] = DERIVE
        control[CONTROL_ROUNDS] += 1
        delta = delta_rows(plan)
        if delta == 0:
            return FIXPOINT
        work = work_done(plan) - before
        if delta > control[CONTROL_DELTA_LIMIT] or work > control[CONTROL_WORK_LIMIT]:
            return LARGE
        if as_i8(control[CONTROL_STOP])[0] != 0:
            return HALTED
        control[CONTROL_TURN] -= 1 + work
        if control[CONTROL_TURN] <= 0:
            return PAUSED
