"""Many small rounds of a fixpoint in one compiled call.

A round runs every delta variant of a stratum over the newest rows, then makes what was derived the
new delta and adds it to the indexes. Doing that here costs well under a microsecond where
the same steps driven from Python cost a millisecond; large rounds return to the caller, who splits
them over threads.

Plan (int64)
    variants, relations, then for each variant: code, state, driver rows, rows to write to, merge header of
    the head or 0 (addresses); then for each relation: offset of its entry: rows header, merge header or 0,
    columns, indexes, index headers.
Control (int64)
    phase, variant, how far it is, relation, index, row, rounds, delta limit, work limit,
    stop flag's address, rounds and candidates that are left until it pauses
"""

from __future__ import annotations

from gpuengine.kernels.cpu.atomics import as_i8, as_u4
from gpuengine.kernels.cpu.code import (
    CODE_SINK_COLUMNS,
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
    INDEX_FREE,
    INDEX_ROUND,
    ROWS_COUNT,
    ROWS_DELTA_END,
    ROWS_DELTA_START,
)
from gpuengine.kernels.cpu.merging import NOT_HERE, TOLD, absorb, tell
from gpuengine.kernels.cpu.pipeline import run_range
from gpuengine.kernels.cpu.rowindex import append_range

PLAN_VARIANTS = 0
PLAN_RELATIONS = 1
PLAN_ENTRIES = 2
VARIANT_WORDS = 5

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
TELL = 1
ADVANCE = 2

STARTED = 1
ENDED = 2

FIXPOINT = 0
ROWS_FULL = 1
HALTED = 2
INDEX_FULL = 3
LARGE = 4
NO_WORDS = 5
NOT_WITHIN = 6
PAUSED = 7
KEYS_FULL = 8
RELATION_FULL = 9
UNTOLD = 10


@device
def outcome_of(status):
    """What the call returns for a variant that is not DONE."""
    if status == FULL:
        return ROWS_FULL
    if status == WORDS_FULL:
        return NO_WORDS
    return NOT_WITHIN if status == OUTSIDE else HALTED


@device
def derive(plan, control):
    """Run the variants from where control says; FIXPOINT when all have run, or why the call has to return."""
    while control[CONTROL_VARIANT] < plan[PLAN_VARIANTS]:
        at = PLAN_ENTRIES + VARIANT_WORDS * control[CONTROL_VARIANT]
        state = as_i8(plan[at + 1])
        merge = plan[at + 4]
        if control[CONTROL_STARTED] == 0:
            driver = as_i8(plan[at + 2])
            state[STATE_ROW] = driver[ROWS_DELTA_START]
            state[STATE_END] = driver[ROWS_DELTA_END]
            state[STATE_RESUME] = NO_RESUME
            control[CONTROL_STARTED] = STARTED
        code = as_i8(plan[at])
        if control[CONTROL_STARTED] == STARTED:
            status = run_range(code, state, plan[at + 1], as_i8(plan[at + 3]))
            if status == DONE:
                control[CONTROL_STARTED] = ENDED
            elif status != FULL or merge == 0:
                return outcome_of(status)
        if merge != 0 and not absorb(as_i8(merge), code[CODE_SINK_COLUMNS]):
            return KEYS_FULL
        if control[CONTROL_STARTED] == ENDED:
            control[CONTROL_VARIANT] += 1
            control[CONTROL_STARTED] = 0
    control[CONTROL_VARIANT] = 0
    return FIXPOINT


@device
def entry_of(plan, relation):
    """Where the entry of a relation begins."""
    return plan[PLAN_ENTRIES + VARIANT_WORDS * plan[PLAN_VARIANTS] + relation]


@device
def tell_all(plan, control):
    """Append what is selected of that which was derived: TOLD, RELATION_FULL, or UNTOLD if others have to."""
    while control[CONTROL_RELATION] < plan[PLAN_RELATIONS]:
        at = entry_of(plan, control[CONTROL_RELATION])
        if plan[at + 1] != 0:
            status = tell(as_i8(plan[at + 1]), as_i8(plan[at]), plan[at + 2])
            if status != TOLD:
                return UNTOLD if status == NOT_HERE else RELATION_FULL
        control[CONTROL_RELATION] += 1
    control[CONTROL_RELATION] = 0
    return TOLD


@device
def begin_delta(rows):
    """What was derived since the last round becomes the delta."""
    rows[ROWS_DELTA_START] = rows[ROWS_DELTA_END]
    rows[ROWS_DELTA_END] = rows[ROWS_COUNT]


@device
def index_delta(plan, control):
    """Make the new deltas and add them to every index; False when an index is full."""
    while control[CONTROL_RELATION] < plan[PLAN_RELATIONS]:
        at = entry_of(plan, control[CONTROL_RELATION])
        rows = as_i8(plan[at])
        if control[CONTROL_STARTED] == 0:
            begin_delta(rows)
            control[CONTROL_STARTED] = 1
            control[CONTROL_ROW] = -1
        while control[CONTROL_INDEX] < plan[at + 3]:
            index = as_i8(plan[at + 4 + control[CONTROL_INDEX]])
            if control[CONTROL_ROW] < 0:
                index[INDEX_ROUND] += 1
                control[CONTROL_ROW] = rows[ROWS_DELTA_START]
            free = as_u4(index[INDEX_FREE])
            control[CONTROL_ROW] = append_range(
                index, rows, control[CONTROL_ROW], rows[ROWS_DELTA_END], 0, 1, free
            )
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
        rows = as_i8(plan[entry_of(plan, r)])
        total += rows[ROWS_DELTA_END] - rows[ROWS_DELTA_START]
    return total


@device
def work_done(plan):
    """The candidates of all variants so far."""
    total = 0
    for v in range(plan[PLAN_VARIANTS]):
        total += as_i8(plan[PLAN_ENTRIES + VARIANT_WORDS * v + 1])[STATE_CANDIDATES]
    return total


@kernel("i8(i8*, i8*)")
def run_rounds(plan, control):
    """Run rounds until the fixpoint, a round larger than the limits, lack of room, or a stop.

    Returns FIXPOINT; ROWS_FULL (the head of CONTROL_VARIANT needs room); INDEX_FULL (CONTROL_INDEX of
    CONTROL_RELATION does); NO_WORDS (the dictionary does, for what CONTROL_VARIANT computed); NOT_WITHIN (the
    head of CONTROL_VARIANT does not admit an id that was computed); LARGE (between two rounds); PAUSED
    (likewise, with no CONTROL_TURN left); or HALTED. Called again, it goes on from there. With relations that
    keep best values also KEYS_FULL (what CONTROL_VARIANT has in its buffer must be offered otherwise),
    RELATION_FULL (CONTROL_RELATION needs room), or UNTOLD: the round must be ended otherwise, as all variants
    have run.
    """
    while True:
        before = work_done(plan)
        if control[CONTROL_PHASE] == DERIVE:
            status = derive(plan, control)
            if status != FIXPOINT:
                return status
            control[CONTROL_PHASE] = TELL
        if control[CONTROL_PHASE] == TELL:
            status = tell_all(plan, control)
            if status != TOLD:
                return status
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
