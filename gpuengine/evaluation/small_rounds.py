"""Hand a stratum whose rules are all pure to the compiled loop over small rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np

from gpuengine.errors import Interrupted
from gpuengine.evaluation.body import BodyProgram
from gpuengine.kernels.cpu import rounds
from gpuengine.kernels.cpu.indexes import RowIndex
from gpuengine.kernels.cpu.program import Program
from gpuengine.kernels.cpu.rows import Rows
from gpuengine.schemes.table import Table

ROOM_ROWS = 1 << 12


class Outcome(IntEnum):
    FIXPOINT = rounds.FIXPOINT
    LARGE = rounds.LARGE


def run_small_rounds(
    programs: Sequence[tuple[BodyProgram, Table, Table]],
    tables: Sequence[Table],
    stop: np.ndarray,
    limits: tuple[int, int],
    before_growth: Callable[[Table], None],
) -> tuple[Outcome, int]:
    """Run rounds until the fixpoint or until one is larger than `limits` (delta rows, candidates).

    `programs` are (pure body, driver's table, head's table); `tables` are all tables of the stratum, with
    their deltas set and indexed, and all are on the CPU. Returns why it ended and how many rounds were run.
    """
    indexes = [_indexes(table) for table in tables]
    for table in tables:
        table.reserve(ROOM_ROWS)
    plan = _plan_words(programs, tables)
    control = np.zeros(rounds.CONTROL_WORDS, np.int64)
    control[rounds.CONTROL_DELTA_LIMIT], control[rounds.CONTROL_WORK_LIMIT] = limits
    control[rounds.CONTROL_STOP] = stop.ctypes.data
    while True:
        status = rounds.run_rounds(plan, control)
        if status == rounds.ROWS_FULL:
            head = programs[control[rounds.CONTROL_VARIANT]][2]
            before_growth(head)
            head.reserve(max(ROOM_ROWS, head.rows.count >> 2))
        elif status == rounds.INDEX_FULL:
            indexes[control[rounds.CONTROL_RELATION]][control[rounds.CONTROL_INDEX]].make_room()
        elif status == rounds.HALTED:
            raise Interrupted("stopped")
        else:
            for owned in indexes:
                for index in owned:
                    index.note_current()
            return Outcome(status), int(control[rounds.CONTROL_ROUNDS])


def _plan_words(programs: Sequence[tuple[BodyProgram, Table, Table]], tables: Sequence[Table]) -> np.ndarray:
    words = [len(programs), len(tables)]
    for body, driver, head in programs:
        program = body.stages[0].program
        assert isinstance(program, Program)
        words += [program.code.ctypes.data, program.state.ctypes.data, _address(driver), _address(head)]
    entries = len(words)
    words += [0] * len(tables)
    for number, table in enumerate(tables):
        words[entries + number] = len(words)
        indexes = _indexes(table)
        words += [_address(table), len(indexes), *(index.address for index in indexes)]
    return np.array(words, np.int64)


def _address(table: Table) -> int:
    assert isinstance(table.rows, Rows)
    return table.rows.address


def _indexes(table: Table) -> list[RowIndex]:
    return [index for index in table.indexes if isinstance(index, RowIndex)]
